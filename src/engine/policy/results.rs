//! What a result says of itself, whatever its wire form.

use crate::engine::event::{Failure, Name, Part, ResultItem};
use crate::engine::json::{Kind, Value};
use crate::engine::state::Call;
use std::borrow::Cow;

/// How a failure is said where the provider has no flag (`untrusted-tool-outputs`, row *Signalling failure*).
pub const ERROR_PREFIX: &str = "[TOOL ERROR]";

/// The name of its tool: its own, else its call's.
pub(super) fn tool_name<'a>(result: &ResultItem<'a>, call: Option<&'a Call>) -> Option<Cow<'a, [u8]>> {
    match result.tool {
        Name::Wire(name) => name.text(),
        Name::Implied(name) => Some(Cow::Borrowed(name.as_bytes())),
        Name::None => call.map(|call| Cow::Borrowed(call.name.as_slice())),
    }
    .filter(|name| !name.is_empty())
}

/// Its first text that is not empty.
pub(super) fn first_text<'r>(result: &ResultItem<'r>) -> Option<Value<'r>> {
    result.parts.iter().find_map(|part| match part {
        Part::Text(text) if text.span().len() > 2 && text.kind() == Kind::String => Some(*text),
        _ => None,
    })
}

/// Its text says that its tool failed.
pub(super) fn has_error_prefix(result: &ResultItem<'_>) -> bool {
    let begins = first_text(result).and_then(|text| text.beginning(ERROR_PREFIX.len()));
    begins.is_some_and(|begins| begins == ERROR_PREFIX.as_bytes())
}

/// It says that its tool failed, by the provider's own means or in its text.
pub fn says_failed(result: &ResultItem<'_>) -> bool {
    result.failure == Failure::Failed || has_error_prefix(result)
}
