//! A bounded JSON scanner that keeps spans.
//!
//! One pass over the bytes gives a flat list of nodes in document order (a "tape"), each with its byte
//! range in the source. Nothing is copied or decoded until asked for. Unlike serde_json's values it sees
//! duplicate keys, lone surrogates, number spelling and exact positions, which is what a guard needs: it
//! must see what any other parser would see. Differential-tested against serde_json: both accept the same
//! texts, limits aside. Where they differ, this scanner accepts more, because it judges nothing:
//! - lone surrogate escapes (`\ud83d`), which serde_json refuses and JavaScript accepts;
//! - numbers out of range (`1e999`), which serde_json refuses and others round to infinity;
//! - depth, where serde_json refuses from 128 on and our limit is given;
//! - the member name `$serde_json::private::RawValue`, which serde_json's `Value` takes for its own;
//! - in the text of another JSON string, lone surrogates in their three-byte form, which are not UTF-8.
//!
//! Place in the journey: decode and translate read records and bodies through it; policies read arguments and
//! results. Invariants: time is linear in the bytes for any input and any depth; memory is bounded by
//! [`JsonLimits::nodes`]; `parse` of a whole text succeeds only if every byte belongs to one RFC 8259 text.
//! A value's path costs its depth, not the number of its siblings, so that a finding per value stays linear.
//!
//! Left out: typed access (serde_json has it), comparing or hashing values (policies digest raw bytes),
//! and repairing broken JSON (a guard must not guess).

mod canonical;
mod scan;
mod view;

use super::layer::{Layer, LayerError, Span, Step, json_string};
use bumpalo::Bump;
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;

pub use canonical::canonical;
pub use view::{Items, Members, Walk};

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
        Self { depth: 128, nodes: 1 << 20 }
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

/// No node: the parent of a root.
const NONE: u32 = u32::MAX;

/// One value or key of the tape, 24 bytes. `next` is the index behind the value's subtree, `parent` its
/// container, `ordinal` its place there (a key has that of its value).
#[derive(Debug, Clone, Copy)]
pub struct Node {
    pub(crate) start: u32,
    pub(crate) end: u32,
    pub(crate) next: u32,
    parent: u32,
    ordinal: u32,
    pub(crate) kind: Kind,
    /// For strings: holds a backslash. For objects: nothing.
    pub(crate) escaped: bool,
    /// A member's name; its value is the next node.
    is_key: bool,
}

/// A value in a parsed document: a position on its tape. Copy, two pointers and an index. `Debug` shows no
/// text.
#[derive(Clone, Copy)]
pub struct Value<'r> {
    pub(crate) layer: &'r Layer<'r>,
    pub(crate) tape: &'r [Node],
    pub(crate) ix: u32,
}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Value").field("node", &self.node()).finish_non_exhaustive()
    }
}

/// Parses the whole layer as one JSON document (leading and trailing white space allowed).
///
/// # Errors
/// [`JsonError`] names the first offence. After `Trailing` the caller can ask [`parse_prefix`] for the value.
pub fn parse<'r>(bump: &'r Bump, layer: &'r Layer<'r>, limits: JsonLimits) -> Result<Value<'r>, JsonError> {
    let (value, end) = parse_prefix(bump, layer, 0, limits)?;
    let rest = scan::skip_space(layer.bytes, end as usize);
    if rest < layer.bytes.len() {
        return Err(JsonError { at: rest as u32, kind: JsonErrorKind::Trailing });
    }
    Ok(value)
}

/// Parses the first JSON value from byte offset `from` on and returns it with the offset just behind it.
/// What follows is not looked at, so values that stand one behind the other are read in linear time.
///
/// # Errors
/// [`JsonError`] names the first offence, never `Trailing`.
pub fn parse_prefix<'r>(
    bump: &'r Bump,
    layer: &'r Layer<'r>,
    from: u32,
    limits: JsonLimits,
) -> Result<(Value<'r>, u32), JsonError> {
    let (tape, end) = scan::scan(bump, layer.bytes, from as usize, limits, layer.is_wtf8())?;
    Ok((Value { layer, tape, ix: 0 }, end as u32))
}

impl<'r> Value<'r> {
    fn node(&self) -> Node {
        self.tape[self.ix as usize]
    }
    fn at(&self, ix: u32) -> Value<'r> {
        Value { ix, ..*self }
    }
    pub fn kind(&self) -> Kind {
        self.node().kind
    }
    /// The value's bytes in its layer, a string's quotes included.
    pub fn span(&self) -> Span<'r> {
        let node = self.node();
        Span { layer: self.layer, start: node.start, end: node.end }
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
        self.at(0)
    }
    /// The last member of that name (as most parsers take it), compared after decoding escapes. `None` if this is no object.
    pub fn get(&self, name: &str) -> Option<Value<'r>> {
        let mut found = None;
        for (key, value) in self.members() {
            if key.is(name) {
                found = Some(value);
            }
        }
        found
    }
    /// The elements of an array; empty for anything else.
    pub fn items(&self) -> Items<'r> {
        Items::new(*self)
    }
    /// The members of an object in document order, duplicates included; empty for anything else.
    pub fn members(&self) -> Members<'r> {
        Members::new(*self)
    }
    /// A string's bytes between its quotes.
    fn inside(&self) -> Option<&'r [u8]> {
        let literal = self.literal()?;
        Some(&literal[1..literal.len() - 1])
    }
    fn literal(&self) -> Option<&'r [u8]> {
        (self.kind() == Kind::String).then(|| self.raw())
    }
    /// The decoded string as WTF-8 (lone surrogates in three bytes); `None` if this is no string.
    pub fn text(&self) -> Option<Cow<'r, [u8]>> {
        match self.node().escaped {
            true => Some(Cow::Owned(json_string::decode(self.literal()?))),
            false => Some(Cow::Borrowed(self.inside()?)),
        }
    }
    /// The decoded string; `None` if this is no string or holds a lone surrogate.
    pub fn str(&self) -> Option<Cow<'r, str>> {
        match self.text()? {
            Cow::Borrowed(text) => std::str::from_utf8(text).ok().map(Cow::Borrowed),
            Cow::Owned(text) => String::from_utf8(text).ok().map(Cow::Owned),
        }
    }
    /// The first bytes of the decoded string, as many as these, behind its leading white space. The rest is not
    /// decoded.
    pub fn beginning(&self, length: usize) -> Option<Vec<u8>> {
        Some(json_string::beginning(self.literal()?, length))
    }
    /// True if this is a string that decodes to exactly `text`. No allocation.
    #[inline]
    pub fn is(&self, text: &str) -> bool {
        // Most names are told apart by their length.
        let node = self.node();
        if !node.escaped && (node.end - node.start) as usize != text.len() + 2 {
            return false;
        }
        match (self.literal(), node.escaped) {
            (Some(literal), true) => json_string::decodes_to(literal, text.as_bytes()),
            (Some(literal), false) => &literal[1..literal.len() - 1] == text.as_bytes(),
            (None, _) => false,
        }
    }
    /// True if this is a string that holds half of a surrogate pair, as an escape or (in the text of
    /// another JSON string) in three bytes. No allocation.
    pub fn has_lone_surrogate(&self) -> bool {
        self.literal().is_some_and(json_string::has_lone_surrogate)
    }
    /// A JSON string's decoded text as a layer of its own (so that edits in it can be lowered).
    /// Never an error in the inner result: the scanner has accepted the literal.
    pub fn text_layer(&self, bump: &'r Bump, step: Step) -> Option<Result<&'r Layer<'r>, LayerError>> {
        let node = self.node();
        (node.kind == Kind::String).then(|| Ok(Layer::checked_json_string(bump, self.span(), node.escaped, step)))
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
    /// The name of the member that this value is, `None` for the root, for elements and for names.
    pub fn key(&self) -> Option<Value<'r>> {
        let key = self.at(self.ix.checked_sub(1)?);
        key.node().is_key.then_some(key)
    }
    /// The array or object that this value (or name) stands in, `None` for the root.
    pub fn parent(&self) -> Option<Value<'r>> {
        let parent = self.node().parent;
        (parent != NONE).then(|| self.at(parent))
    }
    /// Walks every value below and including this one, in document order. Keys are visited too, flagged.
    pub fn walk(&self) -> Walk<'r> {
        Walk::new(*self)
    }
    /// The RFC 6901 pointer of this value from its document's root, as segments. A key has the path of its
    /// member. Costs the depth, not the number of siblings.
    pub fn path(&self) -> Vec<Segment<'r>> {
        let mut path = Vec::new();
        let mut value = *self;
        while let Some(parent) = value.parent() {
            let name = if value.node().is_key { Some(value) } else { value.key() };
            path.push(match name.and_then(|name| name.text()) {
                Some(name) => Segment::Name(name),
                None => Segment::Index(value.node().ordinal),
            });
            value = parent;
        }
        path.reverse();
        path
    }
}

/// One segment of a pointer: an index, or a member's name still to be cleaned before it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment<'r> {
    Index(u32),
    Name(Cow<'r, [u8]>),
}

/// The innermost value (or key) of `root` that contains this byte range of its layer; `root` itself if the
/// range lies outside. Costs a binary search and the depth.
pub fn value_at<'r>(root: Value<'r>, start: u32, end: u32) -> Value<'r> {
    let nodes = &root.tape[root.ix as usize..root.node().next as usize];
    let behind = nodes.partition_point(|node| node.start <= start) as u32;
    let mut value = root.at(root.ix + behind.saturating_sub(1));
    while value.ix > root.ix && value.node().end < end {
        match value.parent() {
            Some(parent) => value = parent,
            None => return root,
        }
    }
    value
}

/// The path, from the document's root, of the innermost value of `root` that contains this byte range of
/// its layer. Inside a member's name it is the member's.
pub fn path_at<'r>(root: Value<'r>, start: u32, end: u32) -> Vec<Segment<'r>> {
    value_at(root, start, end).path()
}

/// The documents that layers hold, parsed when a place in them must be named and kept for the next time.
pub struct Documents<'r> {
    bump: &'r Bump,
    limits: JsonLimits,
    seen: RefCell<BTreeMap<*const Layer<'r>, Option<Value<'r>>>>,
}

impl<'r> Documents<'r> {
    pub fn new(bump: &'r Bump, limits: JsonLimits) -> Self {
        Self { bump, limits, seen: RefCell::new(BTreeMap::new()) }
    }

    /// A document that was read already: it is not read again if it is the whole of its layer.
    pub fn know(&self, value: Value<'r>) {
        let (root, bytes) = (value.root(), value.layer.bytes);
        let (start, end) = (root.node().start as usize, root.node().end as usize);
        if scan::skip_space(bytes, 0) == start && scan::skip_space(bytes, end) == bytes.len() {
            self.seen.borrow_mut().entry(value.layer).or_insert(Some(root));
        }
    }

    /// The layer's document; `None` if it holds none.
    pub fn of(&self, layer: &'r Layer<'r>) -> Option<Value<'r>> {
        let known = self.seen.borrow().get(&std::ptr::from_ref(layer)).copied();
        known.unwrap_or_else(|| {
            let value = parse(self.bump, layer, self.limits).ok();
            self.seen.borrow_mut().insert(layer, value);
            value
        })
    }

    /// The path of a span in its layer's document.
    pub fn path(&self, span: &Span<'r>) -> Option<Vec<Segment<'r>>> {
        Some(path_at(self.of(span.layer)?, span.start, span.end))
    }
}
