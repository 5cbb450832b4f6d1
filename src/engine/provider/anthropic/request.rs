//! The request body: tools, then the history block by block.

use super::super::{Translated, member, named, opaque, string, type_of};
use super::{call, content, is_server_result, server_result};
use crate::engine::event::{Event, Name, Party, ResultItem, ResultShape, Slot, Standing, ToolDef, ToolFamily, Turn};
use crate::engine::json::{Kind, Value};
use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::BTreeMap;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    User,
    Assistant,
    System,
    Unknown,
}

pub(in crate::engine::provider) fn request<'r>(body: Value<'r>, elsewhere: bool, out: &mut Translated<'r>) {
    if body.kind() != Kind::Object {
        return opaque(body, "event", out);
    }
    out.events.push(Event::RequestBegin { body, elsewhere });
    for tool in body.get("tools").into_iter().flat_map(|t| t.items()) {
        match definition(tool, false) {
            Some(definition) => out.events.push(Event::Tool(definition)),
            None => opaque(tool, "tool", out),
        }
    }
    if let Some(system) = member(body, "system") {
        push(beside(system, Party::System), Turn::System(system), out);
    }
    let own = Own::new();
    if let Some(value) = member(body, "messages").filter(|messages| messages.kind() != Kind::Array) {
        let kind = "message";
        push(beside(value, Party::Unknown), Turn::Opaque { value, kind }, out);
    }
    let mut group = 0;
    let mut last = None;
    for (message, number) in body.get("messages").into_iter().flat_map(|m| m.items()).zip(0..) {
        let role = role(message);
        if matches!(role, Role::User | Role::Assistant) {
            // Consecutive messages of one role count as one; system messages among them do not part them.
            group += u32::from(last.is_some_and(|last| last != role));
            last = Some(role);
        }
        let at = Standing { group, message: number, party: party(role), ..beside(message, Party::Unknown) };
        blocks(message, role, at, out, &mut |block, out| {
            addition(body, &own, block, out);
        });
    }
    out.events.push(Event::RequestEnd);
}

fn role(message: Value<'_>) -> Role {
    match message.get("role").and_then(|role| role.str()).as_deref() {
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("system") => Role::System,
        _ => Role::Unknown,
    }
}

fn party(role: Role) -> Party {
    match role {
        Role::User => Party::User,
        Role::Assistant => Party::Model,
        Role::System => Party::System,
        Role::Unknown => Party::Unknown,
    }
}

/// What stands in no message.
fn beside(whole: Value<'_>, party: Party) -> Standing<'_> {
    Standing { group: 0, message: 0, party, whole, seal: None }
}

/// The blocks of one message; `add` takes the tools that a system message brings.
fn blocks<'r>(
    message: Value<'r>,
    role: Role,
    at: Standing<'r>,
    out: &mut Translated<'r>,
    add: &mut dyn FnMut(Value<'r>, &mut Translated<'r>),
) {
    let kind = "message";
    let value = message;
    let content = match message.get("content") {
        Some(content) if role != Role::Unknown && matches!(content.kind(), Kind::String | Kind::Array) => content,
        _ => return push(at, Turn::Opaque { value, kind }, out),
    };
    if content.kind() == Kind::String {
        return push(at, said(role, content), out);
    }
    for (block, index) in content.items().zip(0..) {
        let kind = type_of(block);
        if role == Role::System && kind == "tool_addition" {
            add(block, out);
            continue;
        }
        let seal = match &*kind {
            "thinking" => named(block, "signature"),
            "redacted_thinking" => named(block, "data"),
            _ => None,
        };
        push(Standing { whole: block, seal, ..at }, turn(&kind, block, role, Slot(index, 0)), out);
    }
}

fn said(role: Role, value: Value<'_>) -> Turn<'_> {
    match role {
        Role::Assistant => Turn::Model(value),
        Role::System => Turn::System(value),
        _ => Turn::User(value),
    }
}

/// A block by its type: where a result or a call stands in the wrong role, it still is one.
fn turn<'r>(kind: &str, block: Value<'r>, role: Role, slot: Slot) -> Turn<'r> {
    if let Some(call) = call(kind, block, slot) {
        return Turn::Call(call);
    }
    if kind == "tool_result" {
        return Turn::Result(tool_result(block));
    }
    // No provider speaks in a user's message: whoever wrote this wants the model to read it as a tool's output.
    if kind.ends_with("_tool_result") && role == Role::User {
        return Turn::Result(server_result(kind, block));
    }
    if is_server_result(kind, block) {
        return Turn::Ran(server_result(kind, block));
    }
    match (role, kind) {
        (_, "text") if string(block, "text").is_none() => Turn::Opaque { value: block, kind: "block" },
        (_, "text")
        | (Role::User, "image" | "document" | "search_result" | "container_upload")
        | (Role::Assistant, "thinking" | "redacted_thinking" | "compaction" | "fallback" | "container_upload") => {
            said(role, block)
        }
        _ => Turn::Opaque { value: block, kind: "block" },
    }
}

pub(in crate::engine::provider) fn tool_result(item: Value<'_>) -> ResultItem<'_> {
    let content = item.get("content");
    let (failure, failure_value) = content::flag(item);
    ResultItem {
        content,
        parts: content::parts(content),
        call_id: named(item, "tool_use_id"),
        failure,
        failure_value,
        ..ResultItem::new(ResultShape::AnthropicToolResult, item)
    }
}

/// The request's own tools by name, read once and only where a system message refers to one.
type Own<'r> = OnceCell<BTreeMap<Cow<'r, [u8]>, ToolDef<'r>>>;

fn by_name(body: Value<'_>) -> BTreeMap<Cow<'_, [u8]>, ToolDef<'_>> {
    let tools = body.get("tools").into_iter().flat_map(|tools| tools.items());
    let named = tools.filter_map(|tool| Some((named(tool, "name")?.text()?, definition(tool, true)?)));
    named.collect()
}

/// A tool that a system message adds. A `tool_reference` names one of the request's own, held back until
/// now (`defer_loading`): its definition stands there.
fn addition<'r>(body: Value<'r>, own: &Own<'r>, block: Value<'r>, out: &mut Translated<'r>) {
    let Some(tool) = block.get("tool") else {
        return opaque(block, "tool", out);
    };
    let reference = type_of(tool) == "tool_reference";
    let name = named(tool, "name").or_else(|| named(tool, "tool_name"));
    let referred = name.filter(|_| reference).and_then(|name| {
        let own = own.get_or_init(|| by_name(body));
        own.get(&name.text()?).copied()
    });
    let unseen = name.map(|name| ToolDef {
        name: Name::Wire(name),
        namespace: None,
        server: None,
        family: ToolFamily::Function,
        schema: None,
        item: tool,
        late: true,
    });
    let definition = match reference {
        true => referred.or(unseen),
        false => definition(tool, true),
    };
    match definition {
        Some(definition) => out.events.push(Event::Tool(definition)),
        None => opaque(block, "tool", out),
    }
}

fn definition(tool: Value<'_>, late: bool) -> Option<ToolDef<'_>> {
    let kind = type_of(tool);
    let family = match &*kind {
        "" | "custom" => ToolFamily::Function,
        _ => ToolFamily::Typed,
    };
    let name = match named(tool, "name") {
        Some(name) => Name::Wire(name),
        None if kind == "mcp_toolset" => Name::Implied("mcp_toolset"),
        None => return None,
    };
    Some(ToolDef {
        name,
        namespace: None,
        server: named(tool, "mcp_server_name"),
        family,
        schema: member(tool, "input_schema"),
        item: tool,
        late,
    })
}

fn push<'r>(at: Standing<'r>, turn: Turn<'r>, out: &mut Translated<'r>) {
    out.events.push(Event::Turn { at, turn });
}
