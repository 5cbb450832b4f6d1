//! Entries as bytes: changelog keys and values.

/// A changelog record key: version-free, ordered by conversation, kind, number, page.
pub type StateKey = Vec<u8>;

/// Why a changelog record cannot be read. Never started empty instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateError {
    /// A format this build does not know.
    UnknownVersion {
        found: u8,
    },
    BadKey,
    BadValue,
}
