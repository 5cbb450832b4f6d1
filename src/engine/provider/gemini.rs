//! Gemini `generateContent` and `streamGenerateContent`.

pub(super) mod live;

use super::{Translated, opaque};
use crate::engine::json::Value;

pub(super) fn request<'r>(body: Value<'r>, _elsewhere: bool, out: &mut Translated<'r>) {
    opaque(body, "event", out);
}

pub(super) fn response<'r>(value: Value<'r>, out: &mut Translated<'r>) {
    opaque(value, "event", out);
}
