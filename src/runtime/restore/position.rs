//! Which offset a changelog belongs to, and what follows where that is not the committed one.

use serde::{Deserialize, Serialize};

/// The changelog key of a position; a judge's keys are longer.
pub const POSITION_KEY: &[u8] = b"position";
/// The one format that this release writes and reads.
pub const FORMAT: u32 = 1;

/// The input offset that the entries before it belong to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    pub format: u32,
    pub next_offset: i64,
    /// The `now` of the last tick, in milliseconds since the epoch.
    pub tick: i64,
    /// Which fingerprint key the entries are under; empty where that is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key: String,
}

/// What to do with what was read: the whole decision, apart from Kafka.
#[derive(Debug, PartialEq, Eq)]
pub enum Decision {
    /// The state belongs to the offset.
    Use,
    /// Nothing is wrong; a marker may still be on its way.
    Wait,
    /// Neither an offset nor a state: the first run.
    First,
    Reset,
    Lost,
}

impl Decision {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Use => "use",
            Self::Wait => "wait",
            Self::First => "first",
            Self::Reset => "reset",
            Self::Lost => "lost",
        }
    }
}

/// `waited` is true once no transaction that was open when the end was reached can be open any more.
pub fn decide(committed: Option<i64>, last: Option<i64>, at_end: bool, waited: bool) -> Decision {
    match (committed, last) {
        _ if !at_end => Decision::Wait,
        (None, None) => Decision::First,
        (None, Some(_)) => Decision::Reset,
        (Some(offset), Some(position)) if position == offset => Decision::Use,
        (Some(offset), Some(position)) if position > offset => Decision::Reset,
        (Some(_), _) if waited => Decision::Lost,
        (Some(_), _) => Decision::Wait,
    }
}

/// What [`crate::engine::Settings::key_id`] makes; a topic may hold anything.
pub(super) fn is_key_id(text: &str) -> bool {
    text.len() == 12 && text.bytes().all(|b| b.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::{Decision, decide, is_key_id};

    #[test]
    fn only_an_id_of_a_key_is_said() {
        let id = crate::engine::Settings::local(crate::engine::policy::Profile::Standard).key_id();
        assert!(is_key_id(&id), "{id}");
        for text in ["", "0123456789a", "0123456789ab0", "sk-secret-000", "0123456789a\n"] {
            assert!(!is_key_id(text), "{text:?}");
        }
    }

    #[test]
    fn decisions() {
        let cases = [
            ((None, None, true, false), Decision::First),
            ((None, Some(0), true, false), Decision::Reset),
            ((Some(5), Some(5), false, false), Decision::Wait),
            ((Some(5), Some(5), true, false), Decision::Use),
            ((Some(5), Some(7), true, false), Decision::Reset),
            ((Some(5), Some(3), true, false), Decision::Wait),
            ((Some(5), Some(3), true, true), Decision::Lost),
            ((Some(5), None, true, false), Decision::Wait),
            ((Some(5), None, true, true), Decision::Lost),
            ((None, None, false, true), Decision::Wait),
            ((Some(5), Some(3), false, true), Decision::Wait),
        ];
        for ((committed, last, at_end, waited), expected) in cases {
            assert_eq!(decide(committed, last, at_end, waited), expected, "{committed:?} {last:?} {at_end} {waited}");
        }
    }
}
