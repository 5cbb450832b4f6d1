//! Events as compact text, for golden files and failure messages.

use sluicegate::engine::event::{
    Args, CallFacts, Event, Fate, LeafValue, Method, Name, Part, ResultItem, Rpc, RpcSays, Stop, ToolDef, Turn,
};
use sluicegate::engine::json::Value;
use sluicegate::engine::provider::Translated;
use sluicegate::engine::provider::mcp::answer;

fn raw(value: Value<'_>) -> String {
    let text = String::from_utf8_lossy(value.raw()).into_owned();
    match text.chars().count() {
        0..=72 => text,
        n => format!("{}…({n})", text.chars().take(40).collect::<String>()),
    }
}

pub fn name(name: Name<'_>) -> String {
    match name {
        Name::Wire(value) => raw(value),
        Name::Implied(name) => format!("={name}"),
        Name::None => "-".into(),
    }
}

fn leaf(value: LeafValue<'_>) -> String {
    match value {
        LeafValue::Text(text) => raw(text),
        LeafValue::Number(number) => raw(number),
        LeafValue::Bool(value) => value.to_string(),
        LeafValue::Null => "null".into(),
    }
}

fn option(label: &str, value: Option<Value<'_>>) -> String {
    value.map_or(String::new(), |value| format!(" {label}={}", raw(value)))
}

fn args(args: Args<'_>) -> String {
    match args {
        Args::Absent => "absent".into(),
        Args::Text(value) => format!("text {}", raw(value)),
        Args::Raw(value) => format!("raw {}", raw(value)),
    }
}

fn call(call: &CallFacts<'_>) -> String {
    format!(
        "{}.{} {}{}{}{}{} {:?} {:?} {}",
        call.slot.0,
        call.slot.1,
        name(call.name),
        option("id", call.id),
        option("item", call.item_id),
        option("ns", call.namespace),
        option("server", call.server),
        call.executor,
        call.form,
        args(call.args)
    )
}

fn result(result: &ResultItem<'_>) -> String {
    let parts: Vec<String> = result
        .parts
        .iter()
        .map(|part| match part {
            Part::Text(value) => format!("text {}", raw(*value)),
            Part::Json(value) => format!("json {}", raw(*value)),
            Part::Media { kind, .. } => format!("media {kind}"),
            Part::Opaque { kind, .. } => format!("opaque {kind}"),
        })
        .collect();
    format!(
        "{:?} {}{}{} {:?}{}{}{}{} [{}]",
        result.shape,
        name(result.tool),
        option("call", result.call_id),
        option("server", result.server),
        result.failure,
        option("by", result.failure_value),
        result.error_code.map_or(String::new(), |c| format!(" code={c}")),
        option("source", result.source),
        option("url", result.url),
        parts.join(", ")
    )
}

fn tool(tool: &ToolDef<'_>) -> String {
    format!(
        "{}{}{} {:?}{}{}",
        name(tool.name),
        option("ns", tool.namespace),
        option("server", tool.server),
        tool.family,
        option("schema", tool.schema),
        if tool.late { " late" } else { "" }
    )
}

fn fate(fate: Fate) -> String {
    match fate {
        Fate::Cut(reason) => format!("cut:{}", reason.label()),
        Fate::Final => "final".into(),
        Fate::Carry => "carry".into(),
    }
}

fn turn(turn: &Turn<'_>) -> String {
    match turn {
        Turn::Call(facts) => format!("call {}", call(facts)),
        Turn::Result(item) => format!("result {}", result(item)),
        Turn::Ran(item) => format!("ran {}", result(item)),
        Turn::ServerResult { call_id, .. } => format!("server-result{}", option("call", *call_id)),
        Turn::Model(value) => format!("model {}", raw(*value)),
        Turn::User(value) => format!("user {}", raw(*value)),
        Turn::System(value) => format!("system {}", raw(*value)),
        Turn::Opaque { value, kind } => format!("opaque {kind} {}", raw(*value)),
    }
}

/// A message; an answer as it reads where a tool was called.
fn rpc(rpc: &Rpc<'_>) -> String {
    let says = match rpc.says {
        RpcSays::Call { name, arguments, again } => {
            format!("call{} {}{}", if again { " again" } else { "" }, raw(name), option("arguments", arguments))
        }
        RpcSays::Request { method, kind } => format!("request {method:?} {}", kind.unwrap_or("-")),
        RpcSays::Cancelled { request } => format!("cancelled {}", raw(request)),
        RpcSays::ToolsChanged => "tools-changed".into(),
        RpcSays::Notice { kind } => format!("notice {}", kind.unwrap_or("-")),
        RpcSays::Result(value) if answer::asks_for_input(value) => "asks for input".into(),
        RpcSays::Result(_) | RpcSays::Error(_) => {
            let read = answer::read(rpc.item, rpc.says, Some(Method::Call), true);
            format!("answer {}{}", result(&read.result), option("unclear", read.unclear))
        }
    };
    let from = rpc.from.map_or("?".into(), |side| format!("{side:?}").to_lowercase());
    format!("rpc {from}{} {says}", option("id", rpc.id))
}

/// The beginning of what may be long.
fn short(value: Value<'_>) -> String {
    raw(value).chars().take(24).collect()
}

/// An event as one line.
pub fn describe(event: &Event<'_>) -> String {
    match event {
        Event::RequestBegin { elsewhere, .. } => format!("request elsewhere={elsewhere}"),
        Event::Tool(definition) => format!("tool {}", tool(definition)),
        Event::Listed(list) => format!("listed {}", list.tools.len()),
        Event::Turn { at, turn: item } => format!("turn {} {}", at.group, turn(item)),
        Event::RequestEnd => "request-end".into(),
        Event::Begin { id, again } => format!("begin{} again={again}", option("id", *id)),
        Event::Open(facts) => format!("open {}", call(facts)),
        Event::Append { slot, part, text } => {
            format!("append {}.{} part={part} {}", slot.0, slot.1, raw(*text))
        }
        Event::Leaf { slot, path, value, more } => {
            let more = if *more { " more" } else { "" };
            format!("leaf {}.{} {} {}{more}", slot.0, slot.1, raw(*path), leaf(*value))
        }
        Event::Restate { slot, args: value } => {
            format!("restate {}.{} {}", slot.0, slot.1, args(*value))
        }
        Event::Close { slot, status } => format!("close {}.{} {status:?}", slot.0, slot.1),
        Event::Item { call: facts, status, listed } => {
            let listed = if *listed { " listed" } else { "" };
            format!("item {status:?}{listed} {}", call(facts))
        }
        Event::ServerResult { result: item, closes } => {
            format!("server-result closes={closes} {}", result(item))
        }
        Event::Signed { slot, of_call, seal, id, required } => {
            let of = if *of_call { "call" } else { "part" };
            let required = if *required { " required" } else { "" };
            format!("signed {of} {}.{} {}{}{required}", slot.0, slot.1, short(*seal), option("id", *id))
        }
        Event::Thought { slot, text } => format!("thought {}.{} {}", slot.0, slot.1, short(*text)),
        Event::Stop(Stop { client, provider, choice }) => {
            let choice = choice.map_or(String::new(), |c| format!(" choice={c}"));
            format!("stop client={} provider={}{choice}", fate(*client), fate(*provider))
        }
        Event::End { choice } => choice.map_or("end".into(), |c| format!("end choice={c}")),
        Event::Cancel { id } => format!("cancel {}", raw(*id)),
        Event::Error { reason } => format!("error {}", reason.label()),
        Event::Closed => "closed".into(),
        Event::Started(started) => format!(
            "started{}{}{}{}",
            option("call", started.call_id),
            option("tool", started.tool),
            option("key", started.idempotency_key),
            option("sha256", started.arguments_sha256)
        ),
        Event::HostResult(item) => format!("host-result {}", result(item)),
        Event::Rendered(shown) => format!("rendered {:?} {}", shown.format, raw(shown.content)),
        Event::Rpc(message) => rpc(message),
        Event::Opaque { value, kind } => format!("opaque {kind} {}", raw(*value)),
    }
}

#[allow(dead_code, reason = "not every test crate shows whole records")]
pub fn lines(translated: &Translated<'_>) -> Vec<String> {
    let mut lines: Vec<String> = translated.events.iter().map(describe).collect();
    lines.extend(translated.response_id.map(|id| format!("# response {}", raw(id))));
    lines.extend(translated.conversation.map(|id| format!("# conversation {}", raw(id))));
    lines.extend(
        translated
            .undecodable
            .map(|(layer, error)| format!("# undecodable {:?} at {} of {:?}", error.kind, error.at, layer.step)),
    );
    lines.extend(translated.unclear.map(|(value, rule)| format!("# unclear {rule} {}", raw(value))));
    lines
}
