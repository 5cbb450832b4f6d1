//! xAI: Responses and Chat, by what differs from OpenAI's.

use super::{Translated, openai};
use crate::engine::json::Value;

pub(super) fn responses_request<'r>(body: Value<'r>, elsewhere: bool, out: &mut Translated<'r>) {
    openai::request::request(body, elsewhere, out);
}

pub(super) fn responses_response<'r>(value: Value<'r>, out: &mut Translated<'r>) {
    openai::responses::response(value, out);
}

pub(super) fn chat_request<'r>(body: Value<'r>, elsewhere: bool, out: &mut Translated<'r>) {
    openai::chat::request(body, elsewhere, out);
}

pub(super) fn chat_response<'r>(value: Value<'r>, out: &mut Translated<'r>) {
    openai::chat::response(value, out);
}
