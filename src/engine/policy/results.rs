//! What a result says of itself, whatever its wire form.

use crate::engine::event::{Failure, Name, Part, ResultItem};
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
pub(super) fn first_text<'r>(result: &ResultItem<'r>) -> Option<Cow<'r, [u8]>> {
    let text = |part: &Part<'r>| match part {
        Part::Text(text) if text.span().len() > 2 => text.text(),
        _ => None,
    };
    result.parts.iter().find_map(text)
}

/// Its text says that its tool failed.
pub(super) fn has_error_prefix(result: &ResultItem<'_>) -> bool {
    first_text(result).is_some_and(|text| text.trim_ascii_start().starts_with(ERROR_PREFIX.as_bytes()))
}

/// It says that its tool failed, by the provider's own means or in its text.
pub fn says_failed(result: &ResultItem<'_>) -> bool {
    result.failure == Failure::Failed || has_error_prefix(result)
}
