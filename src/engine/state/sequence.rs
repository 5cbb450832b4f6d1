//! Numbered records: what a source's numbers say of records that are missing or repeated.

use super::conversation::Source;
use super::session::Session;
use sha2::{Digest, Sha256};

/// Sources remembered of one conversation.
const SOURCES: usize = 8;

/// How a record's number follows on its source's last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sequence {
    /// Nothing is remembered of the source.
    First,
    Next,
    /// The last record again: the same number and the same id.
    Duplicate,
    /// So many numbers were left out.
    Gap {
        missing: u64,
    },
    /// A number that is past, or the last one under another id.
    Back,
}

fn digest(text: &[u8]) -> [u8; 16] {
    let mut short = [0; 16];
    short.copy_from_slice(&Sha256::digest(text)[..16]);
    short
}

impl Session<'_> {
    /// Notes the number of a source's record. A source that goes back is remembered at its highest number,
    /// except where it begins anew at 0 or 1.
    pub fn sequence(&mut self, source: &[u8], number: u64, id: &[u8]) -> Sequence {
        let (source, id) = (digest(source), digest(id));
        let known = self.conversation().head.sources.iter().find(|s| s.source == source).cloned();
        let sequence = match &known {
            None => Sequence::First,
            Some(last) if number == last.number && id == last.id => Sequence::Duplicate,
            Some(last) => match number.checked_sub(last.number) {
                None | Some(0) => Sequence::Back,
                Some(1) => Sequence::Next,
                Some(step) => Sequence::Gap { missing: step - 1 },
            },
        };
        let latest = match known {
            Some(last) if sequence == Sequence::Back && number > 1 => last,
            _ => Source { source, number, id },
        };
        if self.conversation().head.sources.last() != Some(&latest) {
            let sources = &mut self.head().sources;
            sources.retain(|s| s.source != source);
            if sources.len() >= SOURCES {
                sources.remove(0);
            }
            sources.push(latest);
        }
        sequence
    }
}
