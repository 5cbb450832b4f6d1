//! Items of a response: calls, and the results and tool lists that stand among them.

use super::super::{Translated, member, named, opaque, resembles, string, type_of, unclear};
use super::results;
use crate::engine::event::{
    Args, CallFacts, CutReason, Event, Executor, Fate, Form, ItemStatus, Name, Slot, Stop, ToolDef, ToolFamily, Tools,
};
use crate::engine::json::{Kind, Value};

/// The types of items that are calls.
const CALLS: [&str; 11] = [
    "apply_patch_call",
    "code_interpreter_call",
    "computer_call",
    "custom_tool_call",
    "function_call",
    "local_shell_call",
    "mcp_approval_request",
    "mcp_call",
    "program",
    "shell_call",
    "tool_search_call",
];

/// An item that has begun.
pub(super) fn added<'r>(item: Value<'r>, slot: Slot, out: &mut Translated<'r>) {
    let kind = type_of(item);
    if misspelt(&kind) || is_twofold(item) {
        return unclear(item, out);
    }
    if let Some(mut call) = call(&kind, item, slot) {
        if kind == "tool_search_call" {
            call.id = None;
        }
        out.events.push(Event::Open(call));
    }
}

/// An item that is done. `listed`: it stands in the final list of a streamed response.
pub(super) fn item<'r>(item: Value<'r>, slot: Slot, listed: bool, out: &mut Translated<'r>) {
    let kind = type_of(item);
    if is_twofold(item) {
        return unclear(item, out);
    }
    let call = call(&kind, item, slot);
    let is_call = call.is_some();
    if let Some(call) = call {
        out.events.push(Event::Item { call, status: status(&kind, item), listed });
    }
    if !is_call && misspelt(&kind) {
        return unclear(item, out);
    }
    if kind == "message" {
        message(item, listed, out);
    }
    if let Some(seal) = named(item, "encrypted_content").filter(|_| kind == "reasoning") {
        out.events.push(Event::Signed { slot, of_call: false, seal, id: named(item, "id"), required: false });
    }
    if listed {
        return;
    }
    if let Some(result) = results::of_response(&kind, item) {
        let closes = false;
        out.events.push(Event::ServerResult { result, closes });
    }
    match &*kind {
        "mcp_list_tools" | "tool_search_output" | "additional_tools" => late_tools(item, out),
        "message" | "reasoning" | "compaction" => {}
        kind if is_call || results::is_result(kind) => {}
        _ => opaque(item, "item", out),
    }
}

/// A message: its refusal is the response's, and what it cites is what a search found. Other annotations name files.
fn message<'r>(item: Value<'r>, listed: bool, out: &mut Translated<'r>) {
    for part in item.get("content").into_iter().flat_map(|content| content.items()) {
        if type_of(part) == "refusal" {
            refused(out);
        }
        if !listed {
            let annotations = part.get("annotations").into_iter().flat_map(|list| list.items());
            let files = annotations.filter(|annotation| type_of(*annotation) != "url_citation");
            files.for_each(|annotation| opaque(annotation, "annotation", out));
            if let Some(result) = results::cited(item, part) {
                out.events.push(Event::ServerResult { result, closes: false });
            }
        }
    }
}

/// The model refused, and the response is `completed` all the same: none of its calls may be acted on.
pub(super) fn refused(out: &mut Translated<'_>) {
    let cut = Fate::Cut(CutReason::Refused);
    out.events.push(Event::Stop(Stop { client: cut, provider: cut, choice: None }));
}

/// A computer's action stands alone or in a list: where both are there, one of them would not be looked at.
fn is_twofold(item: Value<'_>) -> bool {
    type_of(item) == "computer_call" && ["action", "actions"].iter().all(|name| member(item, name).is_some())
}

/// No type at all, or one that a laxer reader takes for a call's.
fn misspelt(kind: &str) -> bool {
    kind.is_empty() || !CALLS.contains(&kind) && resembles(kind, &CALLS)
}

fn status(kind: &str, item: Value<'_>) -> ItemStatus {
    let status = item.get("status").filter(|status| !status.is_null());
    let Some(status) = status else {
        return ItemStatus::Complete;
    };
    let by_program = || {
        let caller = item.get("caller").and_then(|caller| caller.get("type"));
        caller.is_some_and(|caller| caller.is("program"))
    };
    match status.str().as_deref() {
        Some("completed") => ItemStatus::Complete,
        // The call was made and its tool failed: the arguments are whole.
        Some("failed") if matches!(kind, "mcp_call" | "code_interpreter_call") => ItemStatus::Complete,
        Some("in_progress") if by_program() => ItemStatus::Suspended,
        _ => ItemStatus::Incomplete,
    }
}

/// The call that an item is, in a response or echoed in a request.
pub(super) fn call<'r>(kind: &str, item: Value<'r>, slot: Slot) -> Option<CallFacts<'r>> {
    let named_call = || named(item, "name").map_or(Name::None, Name::Wire);
    let text = |name| match item.get(name) {
        Some(value) if value.kind() == Kind::String => Args::Text(value),
        Some(value) if !value.is_null() => Args::Raw(value),
        _ => Args::Absent,
    };
    let object = |name| member(item, name).map_or(Args::Absent, Args::Raw);
    let server = |runs: bool| match runs {
        true => Executor::Provider,
        false => Executor::Client,
    };
    use Form::{FreeText, JsonText, JsonValue};
    let (name, executor, form, args) = match kind {
        "function_call" => (named_call(), Executor::Client, JsonText, text("arguments")),
        "custom_tool_call" => (named_call(), Executor::Client, FreeText, text("input")),
        "mcp_call" | "mcp_approval_request" => (named_call(), Executor::Provider, JsonText, text("arguments")),
        "code_interpreter_call" => {
            let name = Name::Implied("code_interpreter");
            (name, Executor::Provider, FreeText, text("code"))
        }
        "program" => {
            let name = Name::Implied("program");
            (name, Executor::Provider, FreeText, text("code"))
        }
        "shell_call" => {
            let environment = item.get("environment").map(type_of).unwrap_or_default();
            let executor = server(environment.starts_with("container"));
            (Name::Implied("shell"), executor, JsonValue, object("action"))
        }
        "local_shell_call" => {
            let name = Name::Implied("local_shell");
            (name, Executor::Client, JsonValue, object("action"))
        }
        "apply_patch_call" => {
            let name = Name::Implied("apply_patch");
            (name, Executor::Client, JsonValue, object("operation"))
        }
        "computer_call" => {
            let args = match object("action") {
                Args::Absent => object("actions"),
                action => action,
            };
            (Name::Implied("computer"), Executor::Client, JsonValue, args)
        }
        "tool_search_call" => {
            let executor = server(item.get("execution").is_some_and(|e| e.is("server")));
            (Name::Implied("tool_search"), executor, JsonValue, text("arguments"))
        }
        _ => return None,
    };
    Some(CallFacts {
        slot,
        id: named(item, "call_id"),
        item_id: named(item, "id"),
        name,
        namespace: named(item, "namespace"),
        server: named(item, "server_label"),
        executor,
        form,
        args,
        item,
    })
}

/// Tool definitions that arrive inside the conversation.
pub(super) fn late_tools<'r>(item: Value<'r>, out: &mut Translated<'r>) {
    let server = named(item, "server_label");
    tools(item.get("tools"), server, true, out);
    if type_of(item) == "mcp_list_tools" {
        let list = item.get("tools").filter(|list| list.kind() == Kind::Array);
        let tool = |item: Value<'r>| ToolDef {
            name: string(item, "name").map_or(Name::None, Name::Wire),
            namespace: None,
            server,
            family: ToolFamily::Function,
            schema: member(item, "input_schema"),
            item,
            late: true,
        };
        let tools = list.into_iter().flat_map(|list| list.items()).map(tool).collect();
        out.events.push(Event::Listed(Tools { server, tools, list }));
    }
}

/// A list of definitions. A namespace nests more of them, one level deep.
pub(super) fn tools<'r>(list: Option<Value<'r>>, server: Option<Value<'r>>, late: bool, out: &mut Translated<'r>) {
    for tool in list.into_iter().flat_map(|list| list.items()) {
        if type_of(tool) == "namespace" {
            let namespace = named(tool, "name");
            for inner in tool.get("tools").into_iter().flat_map(|list| list.items()) {
                define(inner, namespace, server, late, out);
            }
        } else {
            define(tool, None, server, late, out);
        }
    }
}

fn define<'r>(
    tool: Value<'r>,
    namespace: Option<Value<'r>>,
    server: Option<Value<'r>>,
    late: bool,
    out: &mut Translated<'r>,
) {
    let kind = type_of(tool);
    let (family, schema) = match &*kind {
        // Lists of a provider-hosted MCP server have no type and MCP's names, in snake case.
        "" => (ToolFamily::Function, "input_schema"),
        "function" => (ToolFamily::Function, "parameters"),
        "custom" => (ToolFamily::Custom, ""),
        _ => (ToolFamily::Typed, ""),
    };
    let name = match (named(tool, "name"), family) {
        (Some(name), _) => Name::Wire(name),
        (None, ToolFamily::Typed) => typed_name(&kind),
        (None, _) => Name::None,
    };
    if matches!(name, Name::None) {
        return opaque(tool, "tool", out);
    }
    let schema = member(tool, schema);
    out.events.push(Event::Tool(ToolDef {
        name,
        namespace,
        server: server.or_else(|| string(tool, "server_label")),
        family,
        schema,
        item: tool,
        late,
    }));
}

/// The name that calls of a built-in tool bear.
fn typed_name(kind: &str) -> Name<'static> {
    const NAMES: [(&str, &str); 11] = [
        ("web_search", "web_search"),
        ("file_search", "file_search"),
        ("computer", "computer"),
        ("code_interpreter", "code_interpreter"),
        ("mcp", "mcp"),
        ("shell", "shell"),
        ("local_shell", "local_shell"),
        ("apply_patch", "apply_patch"),
        ("tool_search", "tool_search"),
        ("programmatic_tool_calling", "program"),
        ("image_generation", "image_generation"),
    ];
    // `web_search_preview`, `computer_use_preview`, `web_search_2025_08_26`: dated and preview names.
    let prefixed = |name: &str| {
        let rest = kind.strip_prefix(name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("_preview") || rest.starts_with("_20"))
    };
    if kind == "computer_use_preview" {
        return Name::Implied("computer");
    }
    NAMES.into_iter().find(|(known, _)| prefixed(known)).map_or(Name::None, |(_, name)| Name::Implied(name))
}
