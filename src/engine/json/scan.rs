//! The pass over the bytes that writes the tape.
//!
//! A loop, not a recursion: the open containers are a chain of `parent` links on the tape itself, so depth
//! costs nothing and no stack can overflow. The scanner works on bytes and leaves UTF-8 to a second, much
//! faster look at what it has accepted.

use super::{JsonError, JsonErrorKind, JsonLimits, Kind, NONE, Node};
use crate::engine::layer::json_string::{self, Flaw};
use bumpalo::Bump;
use bumpalo::collections::Vec as BumpVec;

/// Scans the value that starts at `from` (white space allowed before it) and returns its tape and its end.
/// With `wtf8`, surrogates in their three-byte form may stand in strings.
pub(super) fn scan<'r>(
    bump: &'r Bump,
    bytes: &[u8],
    from: usize,
    limits: JsonLimits,
    wtf8: bool,
) -> Result<(&'r [Node], usize), JsonError> {
    if u32::try_from(bytes.len()).is_err() {
        return Err(JsonError { at: u32::MAX, kind: JsonErrorKind::TooManyNodes });
    }
    let guess = ((bytes.len() - from.min(bytes.len())) / 32).clamp(8, 4096);
    let tape = BumpVec::with_capacity_in(guess.min(limits.nodes as usize), bump);
    let mut scanner = Scanner { bytes, at: from, tape, open: NONE, ordinal: 0, depth: 0, limits, key: false };
    let scanned = scanner.document();
    let stop = match scanned {
        Ok(()) => scanner.at,
        // The longest character; a flaw behind the error's place is not the first offence.
        Err(error) => (error.at as usize + 4).min(bytes.len()),
    };
    if let Some(flaw) = json_string::utf8_flaw(bytes.get(from..stop).unwrap_or_default(), wtf8) {
        let at = from + flaw.at;
        let comes_first = match scanned {
            Ok(()) => true,
            Err(error) => at <= error.at as usize,
        };
        if comes_first {
            // A text that ends within a character ends within its string.
            let cut = flaw.truncated && stop == bytes.len();
            return Err(match cut {
                true => JsonError { at: bytes.len() as u32, kind: JsonErrorKind::Truncated },
                false => JsonError { at: at as u32, kind: JsonErrorKind::Utf8 },
            });
        }
    }
    scanned.map(|()| (scanner.tape.into_bump_slice(), scanner.at))
}

/// The first offset from `at` on that holds no white space.
#[inline]
pub(super) fn skip_space(bytes: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\n' | b'\r' | b'\t') = bytes.get(at) {
        at += 1;
    }
    at
}

struct Scanner<'a, 'r> {
    bytes: &'a [u8],
    at: usize,
    tape: BumpVec<'r, Node>,
    /// The innermost open container, [`NONE`] at the top.
    open: u32,
    /// The place of the next value in it.
    ordinal: u32,
    depth: u32,
    limits: JsonLimits,
    /// The next string is a member's name.
    key: bool,
}

impl Scanner<'_, '_> {
    fn document(&mut self) -> Result<(), JsonError> {
        loop {
            if self.value()? {
                continue;
            }
            // Behind a value: close what ends here, until another value must follow.
            loop {
                self.ordinal += 1;
                let Some(container) = self.tape.get(self.open as usize).copied() else {
                    return Ok(());
                };
                match (self.peek()?, container.kind) {
                    (b',', Kind::Array) => {
                        self.at += 1;
                        break;
                    }
                    (b',', _) => {
                        self.at += 1;
                        self.name()?;
                        break;
                    }
                    (b']', Kind::Array) | (b'}', Kind::Object) => self.close(container),
                    _ => return Err(self.syntax()),
                }
            }
        }
    }

    /// Reads a value. True if it opened a container whose first value must follow.
    #[inline]
    fn value(&mut self) -> Result<bool, JsonError> {
        match self.peek()? {
            b'"' => self.string()?,
            b'{' => {
                self.open_container(Kind::Object)?;
                if self.peek()? != b'}' {
                    self.name()?;
                    return Ok(true);
                }
                self.close_innermost();
            }
            b'[' => {
                self.open_container(Kind::Array)?;
                if self.peek()? != b']' {
                    return Ok(true);
                }
                self.close_innermost();
            }
            b'-' | b'0'..=b'9' => self.number()?,
            b't' => self.literal(b"true", Kind::Bool)?,
            b'f' => self.literal(b"false", Kind::Bool)?,
            b'n' => self.literal(b"null", Kind::Null)?,
            _ => return Err(self.syntax()),
        }
        Ok(false)
    }

    /// The next byte that is no white space.
    #[inline]
    fn peek(&mut self) -> Result<u8, JsonError> {
        self.at = skip_space(self.bytes, self.at);
        self.bytes.get(self.at).copied().ok_or_else(|| self.truncated())
    }

    /// A member's name and the colon.
    #[inline]
    fn name(&mut self) -> Result<(), JsonError> {
        if self.peek()? != b'"' {
            return Err(self.syntax());
        }
        self.key = true;
        self.string()?;
        self.key = false;
        if self.peek()? != b':' {
            return Err(self.syntax());
        }
        self.at += 1;
        Ok(())
    }

    #[inline]
    fn string(&mut self) -> Result<(), JsonError> {
        let (end, escaped) = json_string::literal_end(self.bytes, self.at).map_err(error)?;
        self.push(Kind::String, end, escaped)?;
        self.at = end;
        Ok(())
    }

    fn literal(&mut self, word: &[u8], kind: Kind) -> Result<(), JsonError> {
        for (offset, expected) in word.iter().enumerate() {
            match self.bytes.get(self.at + offset) {
                Some(byte) if byte == expected => {}
                Some(_) => return Err(syntax_at(self.at + offset)),
                None => return Err(self.truncated()),
            }
        }
        let end = self.at + word.len();
        self.push(kind, end, false)?;
        self.at = end;
        Ok(())
    }

    fn number(&mut self) -> Result<(), JsonError> {
        let bytes = self.bytes;
        let mut at = self.at + usize::from(bytes.get(self.at) == Some(&b'-'));
        if bytes.get(at) == Some(&b'0') {
            at += 1;
            // Not a zero with something behind it: `01` is no JSON text in any reading.
            if bytes.get(at).is_some_and(u8::is_ascii_digit) {
                return Err(syntax_at(at));
            }
        } else {
            at = self.digits(at)?;
        }
        if bytes.get(at) == Some(&b'.') {
            at = self.digits(at + 1)?;
        }
        if let Some(b'e' | b'E') = bytes.get(at) {
            at += 1;
            at += usize::from(matches!(bytes.get(at), Some(b'+' | b'-')));
            at = self.digits(at)?;
        }
        self.push(Kind::Number, at, false)?;
        self.at = at;
        Ok(())
    }

    /// The end of at least one digit.
    fn digits(&self, from: usize) -> Result<usize, JsonError> {
        let mut at = from;
        while self.bytes.get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
        match at > from {
            true => Ok(at),
            false if at == self.bytes.len() => Err(self.truncated()),
            false => Err(syntax_at(at)),
        }
    }

    #[inline]
    fn push(&mut self, kind: Kind, end: usize, escaped: bool) -> Result<u32, JsonError> {
        let ix = self.tape.len() as u32;
        if ix >= self.limits.nodes {
            return Err(JsonError { at: self.at as u32, kind: JsonErrorKind::TooManyNodes });
        }
        self.tape.push(Node {
            start: self.at as u32,
            end: end as u32,
            next: ix + 1,
            parent: self.open,
            ordinal: self.ordinal,
            kind,
            escaped,
            is_key: self.key,
        });
        Ok(ix)
    }

    fn open_container(&mut self, kind: Kind) -> Result<(), JsonError> {
        if self.depth >= self.limits.depth {
            return Err(JsonError { at: self.at as u32, kind: JsonErrorKind::TooDeep });
        }
        self.open = self.push(kind, self.at, false)?;
        self.ordinal = 0;
        self.depth += 1;
        self.at += 1;
        Ok(())
    }

    fn close_innermost(&mut self) {
        if let Some(container) = self.tape.get(self.open as usize).copied() {
            self.close(container);
        }
    }

    /// Ends the innermost open container at its closing bracket.
    fn close(&mut self, container: Node) {
        self.at += 1;
        let next = self.tape.len() as u32;
        if let Some(node) = self.tape.get_mut(self.open as usize) {
            node.end = self.at as u32;
            node.next = next;
        }
        self.open = container.parent;
        self.ordinal = container.ordinal;
        self.depth -= 1;
    }

    fn syntax(&self) -> JsonError {
        syntax_at(self.at)
    }

    fn truncated(&self) -> JsonError {
        JsonError { at: self.bytes.len() as u32, kind: JsonErrorKind::Truncated }
    }
}

fn syntax_at(at: usize) -> JsonError {
    JsonError { at: at as u32, kind: JsonErrorKind::Syntax }
}

fn error(flaw: Flaw) -> JsonError {
    let kind = if flaw.truncated { JsonErrorKind::Truncated } else { JsonErrorKind::Syntax };
    JsonError { at: flaw.at as u32, kind }
}
