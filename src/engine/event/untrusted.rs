//! Text from outside.

/// Text from outside: no `Display`, and `Debug` prints the length only, so it cannot reach a log or a message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Untrusted<T>(T);

impl<T> Untrusted<T> {
    pub fn new(text: T) -> Self {
        Self(text)
    }
    /// The text itself. Every use of this name is a place to look at in review.
    pub fn untrusted(&self) -> &T {
        &self.0
    }
}

impl<T: AsRef<[u8]>> std::fmt::Debug for Untrusted<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Untrusted({} bytes)", self.0.as_ref().len())
    }
}
