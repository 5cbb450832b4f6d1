//! Iterators over a tape.

use super::{Kind, Value};

/// See [`Value::items`].
pub struct Items<'r> {
    next: Value<'r>,
    end: u32,
}

impl<'r> Items<'r> {
    pub(super) fn new(array: Value<'r>) -> Self {
        Self { next: array.at(array.ix + 1), end: end_of(array, Kind::Array) }
    }
}

impl<'r> Iterator for Items<'r> {
    type Item = Value<'r>;
    #[inline]
    fn next(&mut self) -> Option<Value<'r>> {
        let value = self.next;
        if value.ix >= self.end {
            return None;
        }
        self.next.ix = value.node().next;
        Some(value)
    }
}

/// See [`Value::members`].
pub struct Members<'r> {
    next: Value<'r>,
    end: u32,
}

impl<'r> Members<'r> {
    pub(super) fn new(object: Value<'r>) -> Self {
        Self { next: object.at(object.ix + 1), end: end_of(object, Kind::Object) }
    }
}

impl<'r> Iterator for Members<'r> {
    /// Key (a string value) and value.
    type Item = (Value<'r>, Value<'r>);
    #[inline]
    fn next(&mut self) -> Option<(Value<'r>, Value<'r>)> {
        let key = self.next;
        if key.ix >= self.end {
            return None;
        }
        let value = key.at(key.ix + 1);
        self.next.ix = value.node().next;
        Some((key, value))
    }
}

/// The index behind the children of a container of that kind, 0 for any other value.
fn end_of(value: Value<'_>, kind: Kind) -> u32 {
    let node = value.node();
    if node.kind == kind { node.next } else { 0 }
}

/// See [`Value::walk`].
pub struct Walk<'r> {
    next: Value<'r>,
    end: u32,
}

impl<'r> Walk<'r> {
    pub(super) fn new(value: Value<'r>) -> Self {
        Self { next: value, end: value.node().next }
    }
}

impl<'r> Iterator for Walk<'r> {
    /// The value, and whether it is a key.
    type Item = (Value<'r>, bool);
    #[inline]
    fn next(&mut self) -> Option<(Value<'r>, bool)> {
        let value = self.next;
        if value.ix >= self.end {
            return None;
        }
        self.next.ix += 1;
        Some((value, value.node().is_key))
    }
}
