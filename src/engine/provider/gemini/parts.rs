//! Parts of what the model says: calls, pieces of calls, and code that Gemini runs.

use super::super::{Translated, named, opaque, resembles, unclear};
use super::{field, is_spelt, list, misspelt, results};
use crate::engine::event::{Args, CallFacts, Event, Executor, Form, ItemStatus, LeafValue, Name, Slot};
use crate::engine::json::{Kind, Value};
use std::borrow::Cow;

/// What a part carries: one of these.
pub(super) const PAYLOADS: [&str; 9] = [
    "codeExecutionResult",
    "executableCode",
    "fileData",
    "functionCall",
    "functionResponse",
    "inlineData",
    "text",
    "toolCall",
    "toolResponse",
];
/// What may stand beside it.
const BESIDE: [&str; 5] = ["mediaResolution", "partMetadata", "thought", "thoughtSignature", "videoMetadata"];

/// What a part is.
pub(super) enum Payload<'r> {
    /// Its name in camel case, and its value.
    One(&'static str, Value<'r>),
    /// Side fields only.
    None,
    /// A kind that is new to this build.
    Strange,
    /// Several, or one that is misspelt, or no part at all.
    Unclear,
}

pub(super) fn payload(part: Value<'_>) -> Payload<'_> {
    if part.kind() != Kind::Object {
        return Payload::Unclear;
    }
    let (mut found, mut strange) = (None, false);
    for (name, value) in part.members().filter(|(_, value)| !value.is_null()) {
        let name = name.text().unwrap_or(Cow::Borrowed(b""));
        let spelt = |known: &[&'static str]| known.iter().copied().find(|known| is_spelt(&name, known));
        match (spelt(&PAYLOADS), spelt(&BESIDE)) {
            (Some(known), _) if found.is_none() => found = Some((known, value)),
            (Some(_), _) => return Payload::Unclear,
            (None, Some(_)) => {}
            _ if resembles(&String::from_utf8_lossy(&name), &PAYLOADS) => return Payload::Unclear,
            _ => strange = true,
        }
    }
    match found {
        Some((name, value)) => Payload::One(name, value),
        None if strange => Payload::Strange,
        None => Payload::None,
    }
}

/// The parts of a candidate's (or a Live turn's) content.
pub(super) fn of_content<'r>(content: Value<'r>, choice: u32, out: &mut Translated<'r>) {
    let parts = list(content, "parts", out);
    for part in parts {
        self::part(part, choice, out);
        signed(part, choice, out);
    }
}

/// What Gemini signed stands beside what the part carries, of a streamed call on its first piece.
fn signed<'r>(part: Value<'r>, choice: u32, out: &mut Translated<'r>) {
    let seal = field(part, "thoughtSignature", out).filter(|seal| seal.kind() == Kind::String && seal.raw().len() > 2);
    if let Some(seal) = seal {
        let of_call = matches!(payload(part), Payload::One("functionCall", _));
        let slot = Slot::arrival(choice);
        out.events.push(Event::Signed { slot, of_call, seal, id: None, required: true });
    }
}

fn part<'r>(part: Value<'r>, choice: u32, out: &mut Translated<'r>) {
    let slot = Slot::arrival(choice);
    match payload(part) {
        Payload::One("functionCall", call) => function_call(call, slot, out),
        Payload::One("executableCode", code) => match facts("executableCode", code, slot, out) {
            Some(call) => {
                // Pieces look alike, so the first one's text is appended too.
                let text = call.args;
                out.events.push(Event::Open(CallFacts { args: Args::Absent, ..call }));
                if let Args::Text(text) = text {
                    out.events.push(Event::Append { slot, part: 0, text });
                }
            }
            None => unclear(code, out),
        },
        Payload::One("toolCall", tool) => match facts("toolCall", tool, slot, out) {
            Some(call) => item(call, out),
            None => unclear(tool, out),
        },
        Payload::One(kind @ ("codeExecutionResult" | "toolResponse"), result) => {
            match results::of_provider(kind, result, out) {
                Some(result) => {
                    let status = ItemStatus::Complete;
                    if kind == "codeExecutionResult" {
                        out.events.push(Event::Close { slot, status });
                    }
                    out.events.push(Event::ServerResult { result, closes: false });
                }
                None => unclear(result, out),
            }
        }
        Payload::One("text", text) if text.kind() != Kind::String => unclear(part, out),
        // No tool of the client's answers inside a model's turn.
        Payload::One("functionResponse", _) | Payload::Strange => opaque(part, "part", out),
        Payload::One(..) | Payload::None => {}
        Payload::Unclear => unclear(part, out),
    }
}

fn item<'r>(call: CallFacts<'r>, out: &mut Translated<'r>) {
    out.events.push(Event::Item { call, status: ItemStatus::Complete, listed: false });
}

/// The call that a payload is, in a response or echoed in a request. `None`: it cannot be read as one.
pub(super) fn facts<'r>(kind: &str, call: Value<'r>, slot: Slot, out: &mut Translated<'r>) -> Option<CallFacts<'r>> {
    if call.kind() != Kind::Object {
        return None;
    }
    let object = |value: Option<Value<'r>>| match value {
        None => Some(Args::Absent),
        Some(value) => (value.kind() == Kind::Object).then_some(Args::Raw(value)),
    };
    let (name, executor, form, args) = match kind {
        "functionCall" => {
            let name = named(call, "name").map_or(Name::None, Name::Wire);
            (name, Executor::Client, Form::JsonValue, object(field(call, "args", out))?)
        }
        "toolCall" => {
            let name = field(call, "toolType", out).filter(|name| name.kind() == Kind::String);
            let name = name.map_or(Name::None, Name::Wire);
            (name, Executor::Provider, Form::JsonValue, object(field(call, "args", out))?)
        }
        "executableCode" => {
            let args = match field(call, "code", out) {
                None => Args::Absent,
                Some(code) => (code.kind() == Kind::String).then_some(Args::Text(code))?,
            };
            (Name::Implied("code_execution"), Executor::Provider, Form::FreeText, args)
        }
        _ => return None,
    };
    let id = call.get("id").filter(|id| !id.is_null());
    if id.is_some_and(|id| id.kind() != Kind::String) {
        return None;
    }
    Some(CallFacts {
        slot,
        id: named(call, "id"),
        item_id: None,
        name,
        namespace: None,
        server: None,
        executor,
        form,
        args,
        item: call,
    })
}

/// A whole call, or a piece of one whose arguments are streamed.
pub(super) fn function_call<'r>(call: Value<'r>, slot: Slot, out: &mut Translated<'r>) {
    if misspelt(call, &["args", "id", "name", "partialArgs", "willContinue"]) {
        return unclear(call, out);
    }
    let Some(facts) = facts("functionCall", call, slot, out) else {
        return unclear(call, out);
    };
    let more = match field(call, "willContinue", out) {
        None => Some(false),
        Some(more) => more.bool(),
    };
    let leaves = field(call, "partialArgs", out);
    let named = call.get("name").is_none_or(|name| name.is_null() || name.kind() == Kind::String);
    let listed = leaves.is_none_or(|leaves| leaves.kind() == Kind::Array);
    let (Some(more), true, true) = (more, named, listed) else {
        return unclear(call, out);
    };
    let whole = matches!(facts.args, Args::Raw(args) if args.members().next().is_some());
    let streamed = leaves.is_some() || more;
    match facts.name {
        Name::Wire(_) if !streamed => return item(facts, out),
        Name::Wire(_) if !whole => out.events.push(Event::Open(CallFacts { args: Args::Absent, ..facts })),
        // Whose piece it is cannot be told: a piece has neither name nor id, and a whole call has no pieces.
        Name::None if facts.id.is_none() && matches!(facts.args, Args::Absent) => {}
        _ => return unclear(call, out),
    }
    for item in leaves.into_iter().flat_map(|leaves| leaves.items()) {
        match leaf(item, slot, out) {
            Some(leaf) => out.events.push(leaf),
            None => return unclear(item, out),
        }
    }
    if !more {
        out.events.push(Event::Close { slot, status: ItemStatus::Complete });
    }
}

/// One of `partialArgs`: exactly one value at a path.
fn leaf<'r>(item: Value<'r>, slot: Slot, out: &mut Translated<'r>) -> Option<Event<'r>> {
    if misspelt(item, &["boolValue", "jsonPath", "nullValue", "numberValue", "stringValue", "willContinue"]) {
        return None;
    }
    let path = field(item, "jsonPath", out).filter(|path| path.kind() == Kind::String)?;
    let more = match field(item, "willContinue", out) {
        None => false,
        Some(more) => more.bool()?,
    };
    let text = field(item, "stringValue", out).map(|value| (value, Kind::String));
    let number = field(item, "numberValue", out).map(|value| (value, Kind::Number));
    let truth = field(item, "boolValue", out).map(|value| (value, Kind::Bool));
    // Here a null is a value: the member itself tells.
    let null = item.members().find(|(name, _)| super::spells(*name, "nullValue")).map(|(_, value)| value);
    if null.is_some_and(|value| !value.is_null() && !value.is("NULL_VALUE")) {
        return None;
    }
    let null = null.map(|value| (value, value.kind()));
    let mut values = [text, number, truth, null].into_iter().flatten();
    let (value, kind) = values.next()?;
    let one = values.next().is_none() && value.kind() == kind && (!more || text.is_some());
    let value = match (text, number, truth) {
        _ if !one => return None,
        (Some(_), _, _) => LeafValue::Text(value),
        (_, Some(_), _) => LeafValue::Number(value),
        (_, _, Some(_)) => LeafValue::Bool(value.bool()?),
        _ => LeafValue::Null,
    };
    Some(Event::Leaf { slot, path, value, more })
}
