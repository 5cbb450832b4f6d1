//! What a result says, whatever wire form it says it in: its digest and sizes.

use super::Run;
use super::pairing::tool_of;
use super::texts::blocks;
use crate::engine::digest::{Role, short};
use crate::engine::event::{Part, ResultItem};
use crate::engine::json::{self, JsonLimits, Kind, Value, canonical};
use crate::engine::layer::Layer;
use crate::engine::policy::ERROR_PREFIX;
use std::borrow::Cow;

/// A result as the policies and the state see it.
pub(super) struct Content {
    pub digest: [u8; 32],
    pub call_id: [u8; 16],
    /// It has one.
    pub named: bool,
    /// Decoded text, bytes.
    pub text_bytes: u64,
    pub bytes: u64,
}

impl<'a, 'r> Run<'a, 'r> {
    /// Digest and sizes of a result, over its decoded parts, so that the same text compares equal however it
    /// is wrapped.
    pub(super) fn content(&self, result: &ResultItem<'r>, id: &[u8]) -> Content {
        let (digest, mut text_bytes) = self.unwrapped(result);
        let mut bytes = text_bytes;
        for part in &result.parts {
            let (length, is_text) = match part {
                Part::Text(_) => continue,
                Part::Json(value) => (value.span().len(), true),
                Part::Media { value, .. } | Part::Opaque { value, .. } => (value.span().len(), false),
            };
            bytes += length as u64;
            text_bytes += if is_text { length as u64 } else { 0 };
        }
        // Where results bear no id, the tool tells them apart.
        let tool = if id.is_empty() { tool_of(result) } else { Cow::default() };
        let call_id = short(self.keyed().digest(Role::CallId, &[id, &tool]));
        Content { digest, call_id, named: !id.is_empty(), text_bytes, bytes }
    }

    /// The digest of what a result says, whatever wire form it says it in; and how long its texts are, bytes.
    pub(super) fn unwrapped(&self, result: &ResultItem<'_>) -> ([u8; 32], u64) {
        let mut stream = self.keyed().stream(Role::Content);
        let mut first = true;
        let mut read = |value: Value<'_>| {
            let text = value.text();
            let part = match &text {
                Some(text) => {
                    // That it failed is said beside what it says, where a provider has a flag for it.
                    let said = text.strip_prefix(ERROR_PREFIX.as_bytes()).filter(|_| first);
                    self.respelt(said.map_or(text, <[u8]>::trim_ascii_start))
                }
                None => Cow::Owned(canonical(value)),
            };
            // A stream of a command that said nothing is no part of what it said.
            if !part.is_empty() {
                stream.part(&part);
                first = false;
            }
            text.map_or(value.span().len(), |text| text.len()) as u64
        };
        let mut text_bytes = 0;
        for part in &result.parts {
            match part {
                Part::Json(value) => {
                    for value in blocks(result.shape, *value).unwrap_or_else(|| vec![*value]) {
                        read(value);
                    }
                }
                Part::Text(value) => {
                    let length = read(*value);
                    text_bytes += if value.kind() == Kind::String { length } else { 0 };
                }
                Part::Media { value, .. } | Part::Opaque { value, .. } => {
                    read(*value);
                }
            }
        }
        (stream.finish(), text_bytes)
    }

    /// JSON in a text as a host may have written it anew; any other text as it is.
    fn respelt<'t>(&self, text: &'t [u8]) -> Cow<'t, [u8]> {
        if !matches!(text.trim_ascii_start().first(), Some(b'{' | b'[')) {
            return Cow::Borrowed(text);
        }
        let limits = &self.engine.settings.limits;
        let limits = JsonLimits { depth: limits.json_depth, nodes: limits.json_nodes };
        let layer = Layer::record(self.bump, self.bump.alloc_slice_copy(text));
        match json::parse(self.bump, layer, limits) {
            Ok(value) => Cow::Owned(canonical(value)),
            Err(_) => Cow::Borrowed(text),
        }
    }
}
