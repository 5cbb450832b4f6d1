//! The request body: tools, then the history part by part.

use super::super::{Translated, named, opaque};
use super::parts::{Payload, facts, payload};
use super::{field, is_spelt, list, results};
use crate::engine::event::{Event, Name, Party, Slot, Standing, ToolDef, ToolFamily, Turn};
use crate::engine::json::{Kind, Value};

/// Who a content speaks for: a run of contents of one side is one group. Results stand in `user` or, in older
/// clients, in `function`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Model,
    User,
}

/// Tools that Gemini runs, and the names by which they are known here.
const TYPED: [(&str, &str); 9] = [
    ("codeExecution", "code_execution"),
    ("computerUse", "computer_use"),
    ("enterpriseWebSearch", "enterprise_web_search"),
    ("fileSearch", "file_search"),
    ("googleMaps", "google_maps"),
    ("googleSearch", "google_search"),
    ("googleSearchRetrieval", "google_search_retrieval"),
    ("retrieval", "retrieval"),
    ("urlContext", "url_context"),
];

pub(in crate::engine::provider) fn request<'r>(body: Value<'r>, elsewhere: bool, out: &mut Translated<'r>) {
    if body.kind() != Kind::Object {
        return opaque(body, "event", out);
    }
    let cached = field(body, "cachedContent", out).is_some();
    out.events.push(Event::RequestBegin { body, elsewhere: elsewhere || cached });
    head(body, out);
    contents(field(body, "contents", out), out);
    out.events.push(Event::RequestEnd);
}

/// What holds for the whole conversation: tools, and the system's words.
pub(super) fn head<'r>(body: Value<'r>, out: &mut Translated<'r>) {
    for tool in list(body, "tools", out) {
        definitions(tool, out);
    }
    if let Some(system) = field(body, "systemInstruction", out) {
        push(beside(system, Party::System), Turn::System(system), out);
    }
}

fn definitions<'r>(tool: Value<'r>, out: &mut Translated<'r>) {
    for function in list(tool, "functionDeclarations", out) {
        let Some(name) = named(function, "name") else {
            opaque(function, "tool", out);
            continue;
        };
        // Both are not allowed; where both stand, the one that says more.
        let schema = field(function, "parametersJsonSchema", out).or_else(|| field(function, "parameters", out));
        define(Name::Wire(name), ToolFamily::Function, schema, function, out);
    }
    for (name, item) in tool.members() {
        let name = name.text().unwrap_or_default();
        match TYPED.iter().find(|(camel, _)| is_spelt(&name, camel)) {
            Some((_, known)) => define(Name::Implied(known), ToolFamily::Typed, None, item, out),
            None if is_spelt(&name, "functionDeclarations") => {}
            None => opaque(item, "tool", out),
        }
    }
}

fn define<'r>(
    name: Name<'r>,
    family: ToolFamily,
    schema: Option<Value<'r>>,
    item: Value<'r>,
    out: &mut Translated<'r>,
) {
    let late = false;
    out.events.push(Event::Tool(ToolDef { name, namespace: None, server: None, family, schema, item, late }));
}

/// The history. One content may stand without its list.
pub(super) fn contents<'r>(contents: Option<Value<'r>>, out: &mut Translated<'r>) {
    let Some(contents) = contents else { return };
    let mut group = 0;
    let mut last = None;
    let mut each = |content: Value<'r>, message: u32, out: &mut Translated<'r>| {
        let side = side(content, out);
        if side.is_some() {
            group += u32::from(last.is_some() && last != side);
            last = side;
        }
        self::content(content, side, Standing { group, message, ..beside(content, Party::Unknown) }, out);
    };
    match contents.kind() {
        Kind::Array => contents.items().zip(0..).for_each(|(content, message)| each(content, message, out)),
        _ => each(contents, 0, out),
    }
}

fn side<'r>(content: Value<'r>, out: &mut Translated<'r>) -> Option<Side> {
    if content.kind() != Kind::Object {
        return None;
    }
    match field(content, "role", out) {
        None => Some(Side::User),
        Some(role) if role.is("model") => Some(Side::Model),
        Some(role) if role.is("user") || role.is("function") => Some(Side::User),
        Some(_) => None,
    }
}

/// What stands in no content.
pub(super) fn beside(whole: Value<'_>, party: Party) -> Standing<'_> {
    Standing { group: 0, message: 0, party, whole, seal: None }
}

fn content<'r>(content: Value<'r>, side: Option<Side>, at: Standing<'r>, out: &mut Translated<'r>) {
    let Some(side) = side else {
        let kind = "message";
        return push(at, Turn::Opaque { value: content, kind }, out);
    };
    let parts = list(content, "parts", out);
    for (part, index) in parts.zip(0..) {
        let turn = turn(part, side, Slot(index, 0), out);
        let party = match side {
            Side::Model => Party::Model,
            Side::User => Party::User,
        };
        let seal = field(part, "thoughtSignature", out).filter(|seal| seal.kind() == Kind::String);
        push(Standing { party, whole: part, seal, ..at }, turn, out);
    }
}

fn turn<'r>(part: Value<'r>, side: Side, slot: Slot, out: &mut Translated<'r>) -> Turn<'r> {
    let strange = Turn::Opaque { value: part, kind: "part" };
    match payload(part) {
        Payload::One(kind @ ("functionCall" | "executableCode" | "toolCall"), call) => {
            facts(kind, call, slot, out).map_or(strange, Turn::Call)
        }
        Payload::One("functionResponse", item) if item.kind() == Kind::Object => {
            Turn::Result(results::function_response(item, out))
        }
        Payload::One(kind @ ("codeExecutionResult" | "toolResponse"), item) => match side {
            Side::Model => Turn::ServerResult { item, call_id: named(item, "id") },
            // Google does not speak in a user's turn: whoever wrote this wants the model to read it as a tool's output.
            Side::User => results::of_provider(kind, item, out).map_or(strange, Turn::Result),
        },
        Payload::One("text", text) if text.kind() != Kind::String => strange,
        Payload::One("text" | "inlineData" | "fileData", _) | Payload::None => match side {
            Side::Model => Turn::Model(part),
            Side::User => Turn::User(part),
        },
        Payload::One(..) | Payload::Strange | Payload::Unclear => strange,
    }
}

pub(super) fn push<'r>(at: Standing<'r>, turn: Turn<'r>, out: &mut Translated<'r>) {
    out.events.push(Event::Turn { at, turn });
}
