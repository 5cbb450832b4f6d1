//! The request body: tools, then the history message by message.

use super::super::super::{Translated, member, named, object, opaque, string, type_of};
use super::{LEGACY, call, function};
use crate::engine::event::{
    Event, Name, Part, Party, ResultItem, ResultShape, Slot, Standing, ToolDef, ToolFamily, Turn,
};
use crate::engine::json::{Kind, Value};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    System,
    User,
    Assistant,
    /// `tool`, and its predecessor `function`.
    Tool,
    Unknown,
}

pub(in crate::engine::provider) fn request<'r>(body: Value<'r>, elsewhere: bool, out: &mut Translated<'r>) {
    if body.kind() != Kind::Object {
        return opaque(body, "event", out);
    }
    out.events.push(Event::RequestBegin { body, elsewhere });
    for tool in body.get("tools").into_iter().flat_map(|tools| tools.items()) {
        tool_definition(tool, out);
    }
    for tool in body.get("functions").into_iter().flat_map(|functions| functions.items()) {
        define(tool, tool, ToolFamily::Function, out);
    }
    if let Some(value) = member(body, "messages").filter(|messages| messages.kind() != Kind::Array) {
        let kind = "message";
        let at = Standing { group: 0, message: 0, party: Party::Unknown, whole: value, seal: None };
        push(at, Turn::Opaque { value, kind }, out);
    }
    let mut group = 0;
    let mut last = None;
    for (message, number) in body.get("messages").into_iter().flat_map(|messages| messages.items()).zip(0..) {
        let role = role(message);
        if matches!(role, Role::User | Role::Assistant | Role::Tool) {
            // Consecutive messages of one role count as one; system messages among them do not part them.
            group += u32::from(last.is_some_and(|last| last != role));
            last = Some(role);
        }
        let party = match role {
            Role::System => Party::System,
            Role::User => Party::User,
            Role::Assistant => Party::Model,
            Role::Tool => Party::Tool,
            Role::Unknown => Party::Unknown,
        };
        turns(message, role, Standing { group, message: number, party, whole: message, seal: None }, out);
    }
    out.events.push(Event::RequestEnd);
}

fn role(message: Value<'_>) -> Role {
    match message.get("role").and_then(|role| role.str()).as_deref() {
        Some("system" | "developer") => Role::System,
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("tool" | "function") => Role::Tool,
        _ => Role::Unknown,
    }
}

/// One message. An assistant's holds its calls too; a call in any other role still is one.
fn turns<'r>(message: Value<'r>, role: Role, at: Standing<'r>, out: &mut Translated<'r>) {
    let turn = match role {
        Role::System => Turn::System(message),
        Role::User => Turn::User(message),
        Role::Assistant => Turn::Model(message),
        Role::Tool => Turn::Result(result(message)),
        Role::Unknown => Turn::Opaque { value: message, kind: "message" },
    };
    push(at, turn, out);
    let calls = member(message, "tool_calls");
    if let Some(value) = calls.filter(|calls| calls.kind() != Kind::Array) {
        push(at, Turn::Opaque { value, kind: "item" }, out);
    }
    let calls = calls.into_iter().flat_map(|calls| calls.items()).zip(0..);
    let calls = calls.map(|(entry, place)| (entry, call(entry, Slot(place, 0))));
    let legacy = member(message, "function_call").map(|body| (body, function(body, body, Slot(LEGACY, 0))));
    for (value, call) in calls.chain(legacy) {
        let turn = call.map_or(Turn::Opaque { value, kind: "item" }, Turn::Call);
        push(Standing { whole: value, ..at }, turn, out);
    }
    if !matches!(role, Role::Tool | Role::Unknown) {
        strange_parts(message, at, out);
    }
}

/// The output that a client sends. The legacy one has a name in place of an id.
pub(in crate::engine::provider) fn result(item: Value<'_>) -> ResultItem<'_> {
    let content = item.get("content");
    ResultItem {
        content,
        parts: match member(item, "content") {
            Some(list) if list.kind() == Kind::Array => list.items().map(part).collect(),
            Some(text) if text.kind() == Kind::String => vec![Part::Text(text)],
            other => other.map(Part::Json).into_iter().collect(),
        },
        call_id: named(item, "tool_call_id"),
        tool: named(item, "name").map_or(Name::None, Name::Wire),
        ..ResultItem::new(ResultShape::ChatTool, item)
    }
}

fn part(value: Value<'_>) -> Part<'_> {
    let kind = match &*type_of(value) {
        "text" => return string(value, "text").map_or(Part::Opaque { value, kind: "part" }, Part::Text),
        "image_url" => "image",
        "input_audio" => "audio",
        "file" => "file",
        _ => return Part::Opaque { value, kind: "part" },
    };
    Part::Media { value, kind }
}

/// What stands in a message's content beside the parts that a message has: nobody looks into it.
fn strange_parts<'r>(message: Value<'r>, at: Standing<'r>, out: &mut Translated<'r>) {
    let Some(content) = member(message, "content").filter(|content| content.kind() != Kind::String) else { return };
    let mut list = |value: Value<'r>, kind| push(Standing { whole: value, ..at }, Turn::Opaque { value, kind }, out);
    if content.kind() != Kind::Array {
        return list(content, "message");
    }
    for part in content.items() {
        let known = match &*type_of(part) {
            "text" => string(part, "text").is_some(),
            "refusal" => string(part, "refusal").is_some(),
            "image_url" | "input_audio" | "file" | "video_url" => true,
            _ => false,
        };
        if !known {
            list(part, "part");
        }
    }
}

/// A definition: nested by its type, or flat as some servers take it.
fn tool_definition<'r>(tool: Value<'r>, out: &mut Translated<'r>) {
    match (object(tool, "function"), object(tool, "custom")) {
        (Some(body), _) => define(tool, body, ToolFamily::Function, out),
        (None, Some(body)) => define(tool, body, ToolFamily::Custom, out),
        (None, None) if matches!(&*type_of(tool), "" | "function") => define(tool, tool, ToolFamily::Function, out),
        (None, None) => opaque(tool, "tool", out),
    }
}

fn define<'r>(tool: Value<'r>, body: Value<'r>, family: ToolFamily, out: &mut Translated<'r>) {
    let Some(name) = named(body, "name") else {
        return opaque(tool, "tool", out);
    };
    out.events.push(Event::Tool(ToolDef {
        name: Name::Wire(name),
        namespace: None,
        server: None,
        family,
        schema: member(body, "parameters").filter(|_| family == ToolFamily::Function),
        item: tool,
        late: false,
    }));
}

fn push<'r>(at: Standing<'r>, turn: Turn<'r>, out: &mut Translated<'r>) {
    out.events.push(Event::Turn { at, turn });
}
