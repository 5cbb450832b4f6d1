//! Arguments that are streamed leaf by leaf: a log of leaves, and the object that it means.
//!
//! Gemini streams an object as `(path, value)` pairs. They are kept as a log that only grows, in the place of
//! a call's text: so a rollback truncates it, a changelog pages it and a limit counts it like any text. The
//! object is built once, when the call has ended well.
//!
//! Paths are RFC 9535 singular queries: `$`, `.name`, `['name']`, `["name"]`, `[index]`. Names without quotes
//! may hold `-` and begin with a digit, since there is one way to read that. A log that is no object is
//! [`Malformed`] as a whole: an array with a hole, a value said twice, a value below a value, a string that goes
//! on at the end.
//!
//! Bounds: time is linear in the log (one lookup a path segment), nodes and depth are limited, and an index
//! adds at most one element, so memory follows the log and not the numbers in it.

use super::assembly::joined;
use std::borrow::Cow;
use std::collections::HashMap;

/// Levels of nesting, as many as a document may have.
const DEPTH: usize = 128;
/// Values of one object, as many as a document may have.
const NODES: usize = 1 << 20;

/// The value of one leaf. Strings come in pieces; `more`: another one follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaf<'a> {
    Text {
        text: &'a [u8],
        more: bool,
    },
    /// Its spelling.
    Number(&'a [u8]),
    Bool(bool),
    Null,
}

/// The log means no object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

const TEXT: u8 = 0;
const PIECE: u8 = 1;
const LITERAL: u8 = 2;
/// A kind and two lengths.
const HEAD: usize = 9;

impl<'a> Leaf<'a> {
    fn encoded(self) -> (u8, &'a [u8]) {
        match self {
            Leaf::Text { text, more: false } => (TEXT, text),
            Leaf::Text { text, more: true } => (PIECE, text),
            Leaf::Number(spelling) => (LITERAL, spelling),
            Leaf::Bool(true) => (LITERAL, b"true"),
            Leaf::Bool(false) => (LITERAL, b"false"),
            Leaf::Null => (LITERAL, b"null"),
        }
    }
}

/// Bytes that a leaf takes in the log.
pub fn size(path: &[u8], leaf: Leaf<'_>) -> usize {
    HEAD + path.len() + leaf.encoded().1.len()
}

/// Adds a leaf to the log.
pub fn push(log: &mut Vec<u8>, path: &[u8], leaf: Leaf<'_>) {
    let (kind, value) = leaf.encoded();
    log.push(kind);
    log.extend_from_slice(&(path.len() as u32).to_le_bytes());
    log.extend_from_slice(&(value.len() as u32).to_le_bytes());
    log.extend_from_slice(path);
    log.extend_from_slice(value);
}

/// The object that the log means, as JSON text without white space; members in the order in which they came.
///
/// # Errors
/// [`Malformed`] if it means none.
pub fn assemble(log: &[u8]) -> Result<Vec<u8>, Malformed> {
    let mut tree = Tree::default();
    tree.nodes.push(Node { name: Cow::Borrowed(b""), value: Value::Object(Vec::new()) });
    let mut rest = log;
    while !rest.is_empty() {
        let (kind, path, value) = next(&mut rest).ok_or(Malformed)?;
        tree.add(kind, path, value)?;
    }
    if tree.open > 0 {
        return Err(Malformed);
    }
    let mut out = Vec::with_capacity(log.len());
    tree.write(0, &mut out);
    Ok(out)
}

fn next<'a>(rest: &mut &'a [u8]) -> Option<(u8, &'a [u8], &'a [u8])> {
    let (head, body) = rest.split_first_chunk::<HEAD>()?;
    let [kind, lengths @ ..] = head;
    let (path, value) = (lengths.first_chunk::<4>()?, lengths.last_chunk::<4>()?);
    let (path, body) = body.split_at_checked(u32::from_le_bytes(*path) as usize)?;
    let (value, body) = body.split_at_checked(u32::from_le_bytes(*value) as usize)?;
    *rest = body;
    Some((*kind, path, value))
}

struct Node<'a> {
    /// Of a member.
    name: Cow<'a, [u8]>,
    value: Value<'a>,
}

enum Value<'a> {
    /// Nothing was said of it yet.
    Unset,
    Object(Vec<u32>),
    Array(Vec<u32>),
    Text {
        text: Vec<u8>,
        open: bool,
    },
    Literal(&'a [u8]),
}

#[derive(Default)]
struct Tree<'a> {
    nodes: Vec<Node<'a>>,
    members: HashMap<(u32, Cow<'a, [u8]>), u32>,
    /// Strings that go on.
    open: usize,
    /// The path and the node of the leaf before: pieces of a string follow on one another.
    last: (&'a [u8], u32),
}

impl<'a> Tree<'a> {
    fn add(&mut self, kind: u8, path: &'a [u8], value: &'a [u8]) -> Result<(), Malformed> {
        if path != self.last.0 {
            self.last = (path, self.descend(path)?);
        }
        let node = self.last.1;
        let node = self.nodes.get_mut(node as usize).ok_or(Malformed)?;
        match (&mut node.value, kind) {
            (unset @ Value::Unset, LITERAL) => *unset = Value::Literal(value),
            (unset @ Value::Unset, _) => {
                self.open += usize::from(kind == PIECE);
                *unset = Value::Text { text: value.to_vec(), open: kind == PIECE };
            }
            (Value::Text { text, open: open @ true }, TEXT | PIECE) => {
                match joined(text, value) {
                    None => text.extend_from_slice(value),
                    Some((tail, whole)) => {
                        text.truncate(text.len() - tail.len());
                        text.extend_from_slice(&whole);
                        text.extend_from_slice(value.get(tail.len()..).unwrap_or_default());
                    }
                }
                *open = kind == PIECE;
                self.open -= usize::from(kind != PIECE);
            }
            _ => return Err(Malformed),
        }
        Ok(())
    }

    fn descend(&mut self, path: &'a [u8]) -> Result<u32, Malformed> {
        let mut segments = Segments { rest: path.strip_prefix(b"$").ok_or(Malformed)? };
        let mut node = 0;
        let mut depth = 0;
        while let Some(segment) = segments.next()? {
            depth += 1;
            if depth > DEPTH {
                return Err(Malformed);
            }
            node = self.child(node, segment)?;
        }
        Ok(node)
    }

    fn child(&mut self, parent: u32, segment: Segment<'a>) -> Result<u32, Malformed> {
        let new = self.nodes.len() as u32;
        let node = self.nodes.get_mut(parent as usize).ok_or(Malformed)?;
        if matches!(node.value, Value::Unset) {
            node.value = match segment {
                Segment::Name(_) => Value::Object(Vec::new()),
                Segment::Index(_) => Value::Array(Vec::new()),
            };
        }
        let name = match (&mut node.value, segment) {
            (Value::Object(children), Segment::Name(name)) => {
                if let Some(known) = self.members.get(&(parent, name.clone())) {
                    return Ok(*known);
                }
                children.push(new);
                self.members.insert((parent, name.clone()), new);
                name
            }
            (Value::Array(children), Segment::Index(index)) => {
                if let Some(known) = children.get(index) {
                    return Ok(*known);
                }
                if index != children.len() {
                    return Err(Malformed);
                }
                children.push(new);
                Cow::Borrowed(&b""[..])
            }
            _ => return Err(Malformed),
        };
        if self.nodes.len() >= NODES {
            return Err(Malformed);
        }
        self.nodes.push(Node { name, value: Value::Unset });
        Ok(new)
    }

    /// Recursive: the depth is bounded.
    fn write(&self, node: u32, out: &mut Vec<u8>) {
        let Some(node) = self.nodes.get(node as usize) else { return };
        match &node.value {
            Value::Unset => out.extend_from_slice(b"null"),
            Value::Literal(literal) => out.extend_from_slice(literal),
            Value::Text { text, .. } => quote(text, out),
            Value::Array(children) => {
                out.push(b'[');
                for (at, child) in children.iter().enumerate() {
                    if at > 0 {
                        out.push(b',');
                    }
                    self.write(*child, out);
                }
                out.push(b']');
            }
            Value::Object(children) => {
                out.push(b'{');
                for (at, child) in children.iter().enumerate() {
                    if at > 0 {
                        out.push(b',');
                    }
                    quote(self.nodes.get(*child as usize).map_or(b"", |child| &child.name), out);
                    out.push(b':');
                    self.write(*child, out);
                }
                out.push(b'}');
            }
        }
    }
}

/// A JSON string of WTF-8 text; half of a surrogate pair stays an escape.
fn quote(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    let mut rest = text;
    while let [byte, behind @ ..] = rest {
        rest = behind;
        match (*byte, behind) {
            (b'"' | b'\\', _) => out.extend_from_slice(&[b'\\', *byte]),
            (0..=0x1F, _) => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            (0xED, [middle @ 0xA0..=0xBF, last, ..]) => {
                let unit = 0xD000 | u32::from(middle & 0x3F) << 6 | u32::from(last & 0x3F);
                out.extend_from_slice(format!("\\u{unit:04x}").as_bytes());
                rest = behind.get(2..).unwrap_or_default();
            }
            _ => out.push(*byte),
        }
    }
    out.push(b'"');
}

enum Segment<'a> {
    Name(Cow<'a, [u8]>),
    Index(usize),
}

/// The segments of a path behind its `$`.
struct Segments<'a> {
    rest: &'a [u8],
}

impl<'a> Segments<'a> {
    fn next(&mut self) -> Result<Option<Segment<'a>>, Malformed> {
        match self.rest {
            [] => Ok(None),
            [b'.', rest @ ..] => {
                let plain = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-') || *b >= 0x80;
                let (name, rest) = rest.split_at(rest.iter().take_while(|b| plain(b)).count());
                self.rest = rest;
                if name.is_empty() { Err(Malformed) } else { Ok(Some(Segment::Name(Cow::Borrowed(name)))) }
            }
            [b'[', quote @ (b'\'' | b'"'), rest @ ..] => {
                let (name, rest) = quoted(rest, *quote).ok_or(Malformed)?;
                self.rest = rest.strip_prefix(b"]").ok_or(Malformed)?;
                Ok(Some(Segment::Name(name)))
            }
            [b'[', rest @ ..] => {
                let (digits, rest) = rest.split_at(rest.iter().take_while(|b| b.is_ascii_digit()).count());
                self.rest = rest.strip_prefix(b"]").ok_or(Malformed)?;
                if digits.len() > 1 && digits.starts_with(b"0") {
                    return Err(Malformed);
                }
                let index = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
                index.map(|index| Some(Segment::Index(index))).ok_or(Malformed)
            }
            _ => Err(Malformed),
        }
    }
}

/// A quoted name up to its closing quote, and what stands behind that.
fn quoted(text: &[u8], quote: u8) -> Option<(Cow<'_, [u8]>, &[u8])> {
    let plain = text.iter().position(|b| *b == quote || *b == b'\\')?;
    if text.get(plain) == Some(&quote) {
        return Some((Cow::Borrowed(text.get(..plain)?), text.get(plain + 1..)?));
    }
    let mut name = Vec::new();
    let mut rest = text;
    loop {
        match rest {
            [b, behind @ ..] if *b == quote => return Some((Cow::Owned(name), behind)),
            [b'\\', b'u', behind @ ..] => {
                let (unit, behind) = unit(behind)?;
                let (code, behind) = match (unit, behind) {
                    (0xD800..=0xDBFF, [b'\\', b'u', behind @ ..]) => {
                        let (low, behind) = self::unit(behind).filter(|(low, _)| (0xDC00..=0xDFFF).contains(low))?;
                        (0x1_0000 + ((unit & 0x3FF) << 10 | low & 0x3FF), behind)
                    }
                    _ => (unit, behind),
                };
                // Half of a surrogate pair is no character.
                name.extend_from_slice(char::from_u32(code)?.encode_utf8(&mut [0; 4]).as_bytes());
                rest = behind;
            }
            [b'\\', escaped, behind @ ..] => {
                name.push(match escaped {
                    b'b' => 8,
                    b't' => b'\t',
                    b'n' => b'\n',
                    b'f' => 12,
                    b'r' => b'\r',
                    b'\\' | b'/' | b'\'' | b'"' => *escaped,
                    _ => return None,
                });
                rest = behind;
            }
            [b, behind @ ..] => {
                name.push(*b);
                rest = behind;
            }
            [] => return None,
        }
    }
}

fn unit(text: &[u8]) -> Option<(u32, &[u8])> {
    let (digits, rest) = text.split_at_checked(4)?;
    let hex = digits.iter().all(u8::is_ascii_hexdigit);
    let unit = std::str::from_utf8(digits).ok().filter(|_| hex)?;
    Some((u32::from_str_radix(unit, 16).ok()?, rest))
}
