//! The journal: what undoes each change of the running transaction, in order.
//!
//! A change pushes what it takes to undo it before it is made: an entry's prior value, or for argument text
//! the length it had, so that a delta costs a few words and no allocation. Rolling back walks the log
//! backwards. A savepoint is a position in it, which is why this is a log and not a map of first-touch priors:
//! a map needs a second one for the savepoint and a merge of the two behind every record. The log's length is
//! the number of changes in a transaction, which the worker bounds by time.
//!
//! The first undo of an entry tells the state that is committed, so the log also tells what to write.

use super::ConvKey;
use super::conversation::{Call, CallStatus, Exchange, Head, Piece, ResultFact, TextSource, Tool, Toolset};
use super::rpc::RpcRequest;
use super::seen::Seen;
use super::store::{ByKey, Stored, Totals};
use crate::engine::Millis;

/// What fragments change of a call beside its text.
#[derive(Clone, Copy)]
pub(super) struct Progress {
    pub status: CallStatus,
    pub source: TextSource,
    pub conflict: bool,
    pub overflow: bool,
    pub raw: bool,
    pub orphan: bool,
    pub carried: bool,
    pub answered: bool,
    pub fragments: u32,
    pub part: u32,
    pub preview: u64,
    pub bytes: u64,
    pub touched: Millis,
}

impl Progress {
    pub fn of(call: &Call) -> Self {
        Self {
            status: call.status,
            source: call.source,
            conflict: call.conflict,
            overflow: call.overflow,
            raw: call.raw,
            orphan: call.orphan,
            carried: call.carried,
            answered: call.answered,
            fragments: call.fragments,
            part: call.part,
            preview: call.preview,
            bytes: call.bytes,
            touched: call.touched,
        }
    }
    fn put_back(self, call: &mut Call) {
        call.status = self.status;
        call.source = self.source;
        call.conflict = self.conflict;
        call.overflow = self.overflow;
        call.raw = self.raw;
        call.orphan = self.orphan;
        call.carried = self.carried;
        call.answered = self.answered;
        call.fragments = self.fragments;
        call.part = self.part;
        call.preview = self.preview;
        call.bytes = self.bytes;
        call.touched = self.touched;
    }
}

/// How one change is undone.
pub(super) enum Undo {
    /// The conversation did not exist.
    Created,
    Removed(Box<Stored>),
    Clock {
        clock: Millis,
        last_offset: i64,
        next: u32,
    },
    Head(Box<Head>),
    /// `None`: it did not exist.
    Exchange(u32, Option<Box<Exchange>>),
    Toolset(u32, Option<Box<Toolset>>),
    Tool(u32, Option<Box<Tool>>),
    Result(u32, Option<Box<ResultFact>>),
    Piece(u32, Option<Box<Piece>>),
    Rpc(u32, Option<RpcRequest>),
    Seen(u32, Option<Box<Seen>>),
    /// The whole call with its text; `None`: it did not exist.
    Call(u32, Option<Box<Call>>),
    /// Everything but the text, which did not change.
    Facts(u32, Box<Call>),
    /// The text was `len` bytes long, of which the last may have been `tail` (a surrogate that was joined
    /// with its other half).
    Text {
        n: u32,
        progress: Progress,
        len: usize,
        tail: Option<[u8; 3]>,
    },
    /// The text was another.
    Replaced {
        n: u32,
        progress: Progress,
        text: Vec<u8>,
    },
}

#[derive(Default)]
pub(super) struct Log {
    pub ops: Vec<(ConvKey, Undo)>,
    /// The savepoint.
    pub mark: usize,
}

impl Log {
    pub fn push(&mut self, key: ConvKey, undo: Undo) {
        self.ops.push((key, undo));
    }
    /// Keeps a call's progress and the length of its text. Cheap when the last change was of the same text.
    pub fn push_text(&mut self, key: ConvKey, n: u32, call: &Call) {
        if self.ops.len() > self.mark
            && let Some((k, Undo::Text { n: m, .. })) = self.ops.last()
            && *k == key
            && *m == n
        {
            return;
        }
        let progress = Progress::of(call);
        self.push(key, Undo::Text { n, progress, len: call.text.len(), tail: None });
    }
    /// Keeps an exchange, unless the last change was of the same one.
    pub fn push_exchange(&mut self, key: ConvKey, n: u32, exchange: &Exchange) {
        let last = self.ops.last().filter(|_| self.ops.len() > self.mark);
        if !matches!(last, Some((k, Undo::Exchange(m, _))) if *k == key && *m == n) {
            self.push(key, Undo::Exchange(n, Some(Box::new(exchange.clone()))));
        }
    }
    /// Undoes everything behind `to`, latest first.
    pub fn undo(&mut self, to: usize, conversations: &mut ByKey<Stored>, totals: &mut Totals) {
        while self.ops.len() > to {
            let Some((key, undo)) = self.ops.pop() else { break };
            let share = |c: &ByKey<Stored>| c.get(&key).map_or(Totals::default(), Stored::totals);
            let before = share(conversations);
            match undo {
                Undo::Created => {
                    conversations.remove(&key);
                }
                Undo::Removed(stored) => {
                    conversations.insert(key, *stored);
                }
                entry => {
                    if let Some(stored) = conversations.get_mut(&key) {
                        undo_entry(stored, entry);
                    }
                }
            }
            totals.swap(before, share(conversations));
        }
        self.mark = self.mark.min(to);
    }
}

fn undo_entry(stored: &mut Stored, undo: Undo) {
    match undo {
        Undo::Created | Undo::Removed(_) => {}
        Undo::Clock { clock, last_offset, next } => {
            let head = &mut stored.conversation.head;
            head.clock = clock;
            head.last_offset = last_offset;
            head.next = next;
        }
        Undo::Head(head) => {
            stored.set_head(*head);
        }
        Undo::Exchange(n, prior) => {
            stored.set_exchange(n, prior.map(|p| *p));
        }
        Undo::Toolset(n, prior) => {
            stored.set_toolset(n, prior.map(|p| *p));
        }
        Undo::Tool(n, prior) => {
            stored.set_tool(n, prior.map(|p| *p));
        }
        Undo::Result(n, prior) => {
            stored.set_result(n, prior.map(|p| *p));
        }
        Undo::Piece(n, prior) => {
            stored.set_piece(n, prior.map(|p| *p));
        }
        Undo::Rpc(n, prior) => {
            stored.set_request(n, prior);
        }
        Undo::Seen(n, prior) => {
            stored.set_seen(n, prior.map(|p| *p));
        }
        Undo::Call(n, prior) => {
            stored.set_call(n, prior.map(|p| *p));
        }
        Undo::Facts(n, prior) => {
            stored.edit_call(n, |call| {
                let text = std::mem::take(&mut call.text);
                *call = Call { text, ..*prior };
            });
        }
        Undo::Text { n, progress, len, tail } => {
            stored.edit_call(n, |call| {
                progress.put_back(call);
                match tail {
                    Some(tail) => {
                        call.text.truncate(len - tail.len());
                        call.text.extend_from_slice(&tail);
                    }
                    None => call.text.truncate(len),
                }
            });
        }
        Undo::Replaced { n, progress, text } => {
            stored.edit_call(n, |call| {
                progress.put_back(call);
                call.text = text;
            });
        }
    }
}
