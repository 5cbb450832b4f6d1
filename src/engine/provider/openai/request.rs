//! The request body: tools, then the history item by item.

use super::super::{Translated, member, named, opaque, string, type_of};
use super::responses::conversation;
use super::{items, results};
use crate::engine::event::{Event, Party, ResultItem, Slot, Standing, Turn};
use crate::engine::json::{Kind, Value};

/// Who an item speaks for: a run of items of one side is one group.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Model,
    User,
}

pub(in crate::engine::provider) fn request<'r>(body: Value<'r>, elsewhere: bool, out: &mut Translated<'r>) {
    if body.kind() != Kind::Object {
        return opaque(body, "event", out);
    }
    conversation(body, out);
    let input = body.get("input");
    let history = || input.into_iter().flat_map(|input| input.items());
    let referred = ["previous_response_id", "conversation"].into_iter().any(|name| member(body, name).is_some())
        || history().any(|item| type_of(item) == "item_reference");
    out.events.push(Event::RequestBegin { body, elsewhere: elsewhere || referred });
    items::tools(body.get("tools"), None, false, out);
    if let Some(instructions) = member(body, "instructions") {
        push(beside(instructions, Party::System), Turn::System(instructions), out);
    }
    if let Some(text) = input.filter(|input| input.kind() == Kind::String) {
        push(beside(text, Party::User), Turn::User(text), out);
    }
    if let Some(value) = input.filter(|input| !matches!(input.kind(), Kind::String | Kind::Array | Kind::Null)) {
        let kind = "item";
        push(beside(value, Party::Unknown), Turn::Opaque { value, kind }, out);
    }
    let mut group = 0;
    let mut last = None;
    for (item, index) in history().zip(0..) {
        let (turns, side) = turns(item, Slot(index, 0));
        if side.is_some() {
            group += u32::from(last.is_some() && last != side);
            last = side;
        }
        let kind = type_of(item);
        let seal = named(item, "encrypted_content").filter(|_| kind == "reasoning");
        let at = Standing { group, message: index, party: party(&turns, side), whole: item, seal };
        for turn in turns.into_iter().flatten() {
            push(at, turn, out);
        }
        if matches!(&*kind, "" | "message") {
            strange_parts(item, at, out);
        }
        if matches!(&*kind, "mcp_list_tools" | "tool_search_output" | "additional_tools") {
            items::late_tools(item, out);
        }
    }
    out.events.push(Event::RequestEnd);
}

fn party(turns: &[Option<Turn<'_>>; 2], side: Option<Side>) -> Party {
    match (side, turns) {
        (Some(Side::Model), _) => Party::Model,
        (Some(Side::User), _) => Party::User,
        (None, [Some(Turn::System(_)), _]) => Party::System,
        (None, _) => Party::Unknown,
    }
}

/// What stands in no list.
fn beside(whole: Value<'_>, party: Party) -> Standing<'_> {
    Standing { group: 0, message: 0, party, whole, seal: None }
}

/// An item of `input` that is a client's output.
pub(in crate::engine::provider) fn result(item: Value<'_>) -> Option<ResultItem<'_>> {
    results::of_request(&type_of(item), item)
}

/// One item as one or two turns, and its side; system items and tool lists have none.
fn turns<'r>(item: Value<'r>, slot: Slot) -> ([Option<Turn<'r>>; 2], Option<Side>) {
    let kind = type_of(item);
    let model = |turn| ([Some(turn), None], Some(Side::Model));
    let user = |turn| ([Some(turn), None], Some(Side::User));
    let unread = || Turn::ServerResult { item, call_id: named(item, "call_id").or_else(|| named(item, "id")) };
    let own_result = || results::of_response(&kind, item).map_or_else(unread, Turn::Ran);
    if let Some(call) = items::call(&kind, item, slot) {
        let holds = matches!(&*kind, "mcp_call" | "code_interpreter_call");
        let result = holds.then(own_result);
        return ([Some(Turn::Call(call)), result], Some(Side::Model));
    }
    if is_server_output(&kind, item) {
        return model(own_result());
    }
    if let Some(result) = results::of_request(&kind, item) {
        return user(Turn::Result(result));
    }
    match &*kind {
        "" | "message" => match item.get("role").and_then(|role| role.str()).as_deref() {
            Some("user") => user(Turn::User(item)),
            Some("assistant") => model(Turn::Model(item)),
            Some("system" | "developer") => ([Some(Turn::System(item)), None], None),
            _ => strange(item, "message"),
        },
        "reasoning" | "compaction" => model(Turn::Model(item)),
        "web_search_call" | "file_search_call" | "image_generation_call" => {
            let found = ["results", "result", "output"].into_iter().any(|name| member(item, name).is_some());
            ([Some(Turn::Model(item)), found.then(own_result)], Some(Side::Model))
        }
        "mcp_list_tools" => ([Some(own_result()), None], None),
        "additional_tools" => ([None, None], None),
        "item_reference" => strange(item, "reference"),
        _ => strange(item, "item"),
    }
}

fn strange<'r>(value: Value<'r>, kind: &'static str) -> ([Option<Turn<'r>>; 2], Option<Side>) {
    ([Some(Turn::Opaque { value, kind }), None], None)
}

/// What stands in a message's content beside the parts that a message has: an output in there is none of the
/// client's results, and read by the model all the same.
fn strange_parts<'r>(message: Value<'r>, at: Standing<'r>, out: &mut Translated<'r>) {
    let Some(content) = member(message, "content").filter(|content| content.kind() != Kind::String) else { return };
    let mut list = |value: Value<'r>, kind| push(Standing { whole: value, ..at }, Turn::Opaque { value, kind }, out);
    if content.kind() != Kind::Array {
        return list(content, "message");
    }
    for part in content.items() {
        let said = |name| string(part, name).is_some();
        let known = match &*type_of(part) {
            "input_text" | "output_text" | "text" | "summary_text" | "reasoning_text" => said("text"),
            "refusal" => said("refusal"),
            "input_image" | "input_file" | "input_audio" | "output_audio" | "computer_screenshot" => true,
            _ => false,
        };
        if !known {
            list(part, "part");
        }
    }
}

/// Outputs that the provider made itself and the client only repeats.
fn is_server_output(kind: &str, item: Value<'_>) -> bool {
    let by_server = || item.get("execution").is_some_and(|e| e.is("server"));
    kind == "program_output" || kind == "tool_search_output" && by_server()
}

fn push<'r>(at: Standing<'r>, turn: Turn<'r>, out: &mut Translated<'r>) {
    out.events.push(Event::Turn { at, turn });
}
