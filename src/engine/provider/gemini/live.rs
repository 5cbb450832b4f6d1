//! Gemini Live (`BidiGenerateContent`).

use super::super::{Translated, opaque};
use crate::engine::json::Value;

pub(in crate::engine::provider) fn request<'r>(body: Value<'r>, _elsewhere: bool, out: &mut Translated<'r>) {
    opaque(body, "event", out);
}

pub(in crate::engine::provider) fn response<'r>(value: Value<'r>, out: &mut Translated<'r>) {
    opaque(value, "event", out);
}
