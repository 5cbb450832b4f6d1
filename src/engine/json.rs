//! A bounded JSON scanner that keeps spans.
//!
//! One pass over the bytes gives a flat list of nodes in document order (a "tape"), each with its byte
//! range in the source. Nothing is copied or decoded until asked for. Unlike serde_json's values it sees
//! duplicate keys, lone surrogates, number spelling and exact positions, which is what a guard needs: it
//! must see what any other parser would see. Differential-tested against serde_json: both accept the same
//! texts, limits aside.

use super::layer::{Layer, LayerError, Span, Step};
use bumpalo::Bump;
use std::borrow::Cow;

/// Bounds of one document.
#[derive(Debug, Clone, Copy)]
pub struct JsonLimits {
    /// Nesting of arrays and objects (`[[]]` is 2).
    pub depth: u32,
    /// Values and keys in the document.
    pub nodes: u32,
}

impl Default for JsonLimits {
    fn default() -> Self {
        Self {
            depth: 128,
            nodes: 1 << 20,
        }
    }
}

/// Why a text is not a JSON document, and the byte offset where that shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JsonError {
    pub at: u32,
    pub kind: JsonErrorKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonErrorKind {
    /// The text ends inside a value (also: it is empty).
    Truncated,
    /// Not JSON at this place.
    Syntax,
    /// Not UTF-8 at this place.
    Utf8,
    /// A complete value, then more than white space. `at` is the first byte of the rest.
    Trailing,
    TooDeep,
    TooManyNodes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Null,
    Bool,
    Number,
    String,
    Array,
    Object,
}

/// One value or key of the tape. Twelve bytes; `next` is the index behind the value's subtree.
#[derive(Debug, Clone, Copy)]
pub struct Node {
    pub(crate) start: u32,
    pub(crate) end: u32,
    pub(crate) next: u32,
    pub(crate) kind: Kind,
    /// For strings: holds a backslash. For objects: nothing.
    pub(crate) escaped: bool,
}

/// A value in a parsed document: a position on its tape. Copy, two pointers and an index.
#[derive(Debug, Clone, Copy)]
pub struct Value<'r> {
    pub(crate) layer: &'r Layer<'r>,
    pub(crate) tape: &'r [Node],
    pub(crate) ix: u32,
}

/// Parses the whole layer as one JSON document (leading and trailing white space allowed).
///
/// # Errors
/// [`JsonError`] names the first offence. After `Trailing` the caller can ask [`parse_prefix`] for the value.
pub fn parse<'r>(
    _bump: &'r Bump,
    _layer: &'r Layer<'r>,
    _limits: JsonLimits,
) -> Result<Value<'r>, JsonError> {
    todo!()
}

/// Parses the first JSON value from byte offset `from` on and returns it with the offset just behind it.
pub fn parse_prefix<'r>(
    _bump: &'r Bump,
    _layer: &'r Layer<'r>,
    _from: u32,
    _limits: JsonLimits,
) -> Result<(Value<'r>, u32), JsonError> {
    todo!()
}

impl<'r> Value<'r> {
    pub fn kind(&self) -> Kind {
        self.tape[self.ix as usize].kind
    }
    /// The value's bytes in its layer, a string's quotes included.
    pub fn span(&self) -> Span<'r> {
        let node = self.tape[self.ix as usize];
        Span {
            layer: self.layer,
            start: node.start,
            end: node.end,
        }
    }
    /// The value's bytes as they stand.
    pub fn raw(&self) -> &'r [u8] {
        self.span().bytes()
    }
    /// The layer this value's document was parsed from.
    pub fn layer(&self) -> &'r Layer<'r> {
        self.layer
    }
    /// The root value of this value's document.
    pub fn root(&self) -> Value<'r> {
        Value { ix: 0, ..*self }
    }
    /// The last member of that name (as most parsers take it), compared after decoding escapes. `None` if this is no object.
    pub fn get(&self, _name: &str) -> Option<Value<'r>> {
        todo!()
    }
    /// The elements of an array; empty for anything else.
    pub fn items(&self) -> Items<'r> {
        todo!()
    }
    /// The members of an object in document order, duplicates included; empty for anything else.
    pub fn members(&self) -> Members<'r> {
        todo!()
    }
    /// The decoded string as WTF-8 (lone surrogates in three bytes); `None` if this is no string.
    pub fn text(&self) -> Option<Cow<'r, [u8]>> {
        todo!()
    }
    /// The decoded string; `None` if this is no string or holds a lone surrogate.
    pub fn str(&self) -> Option<Cow<'r, str>> {
        todo!()
    }
    /// True if this is a string that decodes to exactly `text`. No allocation.
    pub fn is(&self, _text: &str) -> bool {
        todo!()
    }
    /// A JSON string's decoded text as a layer of its own (so that edits in it can be lowered).
    pub fn text_layer(
        &self,
        bump: &'r Bump,
        step: Step,
    ) -> Option<Result<&'r Layer<'r>, LayerError>> {
        (self.kind() == Kind::String).then(|| Layer::json_string(bump, self.span(), step))
    }
    pub fn u64(&self) -> Option<u64> {
        std::str::from_utf8(self.raw()).ok()?.parse().ok()
    }
    pub fn i64(&self) -> Option<i64> {
        std::str::from_utf8(self.raw()).ok()?.parse().ok()
    }
    pub fn bool(&self) -> Option<bool> {
        (self.kind() == Kind::Bool).then(|| self.raw() == b"true")
    }
    pub fn is_null(&self) -> bool {
        self.kind() == Kind::Null
    }
    /// The name of the member that this value is, `None` for the root and for elements.
    pub fn key(&self) -> Option<Value<'r>> {
        todo!()
    }
    /// Walks every value below and including this one, in document order. Keys are visited too, flagged.
    pub fn walk(&self) -> Walk<'r> {
        todo!()
    }
    /// The RFC 6901 pointer of this value from its document's root, as segments.
    pub fn path(&self) -> Vec<Segment<'r>> {
        todo!()
    }
}

/// One segment of a pointer: an index, or a member's name still to be cleaned before it is shown.
#[derive(Debug, Clone)]
pub enum Segment<'r> {
    Index(u32),
    Name(Cow<'r, [u8]>),
}

/// The path of the innermost value of `root` that contains this byte range of its layer.
pub fn path_at<'r>(_root: Value<'r>, _start: u32, _end: u32) -> Vec<Segment<'r>> {
    todo!()
}

pub struct Items<'r>(std::marker::PhantomData<&'r ()>);
impl<'r> Iterator for Items<'r> {
    type Item = Value<'r>;
    fn next(&mut self) -> Option<Value<'r>> {
        todo!()
    }
}
pub struct Members<'r>(std::marker::PhantomData<&'r ()>);
impl<'r> Iterator for Members<'r> {
    /// Key (a string value) and value.
    type Item = (Value<'r>, Value<'r>);
    fn next(&mut self) -> Option<(Value<'r>, Value<'r>)> {
        todo!()
    }
}
pub struct Walk<'r>(std::marker::PhantomData<&'r ()>);
impl<'r> Iterator for Walk<'r> {
    /// The value, and whether it is a key.
    type Item = (Value<'r>, bool);
    fn next(&mut self) -> Option<(Value<'r>, bool)> {
        todo!()
    }
}
