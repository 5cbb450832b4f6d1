//! Results: outputs that a client sends (`provider-formats` §2.6), and those of tools that the provider ran.

use super::super::{member, named, string, type_of};
use crate::engine::event::{Address, Failure, Name, Part, ResultItem, ResultShape};
use crate::engine::json::{Kind, Value};

/// The result that an item of a response is, or holds.
pub(super) fn of_response<'r>(kind: &str, item: Value<'r>) -> Option<ResultItem<'r>> {
    let base = |tool, content| ResultItem { tool, ..blank(ResultShape::Server, item, content) };
    Some(match kind {
        "mcp_call" => mcp_call(item)?,
        "mcp_list_tools" => {
            let error = member(item, "error")?;
            ResultItem {
                server: named(item, "server_label"),
                parts: error_parts(error),
                failure: Failure::Failed,
                failure_value: Some(error),
                error_code: error_code(error),
                ..base(Name::Implied("mcp_list_tools"), Some(error))
            }
        }
        "code_interpreter_call" => {
            let outputs = member(item, "outputs").filter(|o| o.items().next().is_some())?;
            ResultItem {
                parts: outputs.items().map(logs).collect(),
                ..ended(item, base(Name::Implied("code_interpreter"), Some(outputs)))
            }
        }
        "web_search_call" => {
            let action = member(item, "action");
            ResultItem {
                parts: action.map(search).unwrap_or_default(),
                addresses: action.map(visited).unwrap_or_default(),
                ..ended(item, base(Name::Implied("web_search"), action))
            }
        }
        "file_search_call" => {
            let base = base(Name::Implied("file_search"), member(item, "results"));
            ResultItem { parts: file_search(item), ..ended(item, base) }
        }
        "image_generation_call" => {
            let content = string(item, "result");
            let kind = "image";
            let prompt = string(item, "revised_prompt").map(Part::Text);
            ResultItem {
                parts: content.map(|value| Part::Media { value, kind }).into_iter().chain(prompt).collect(),
                ..ended(item, base(Name::Implied("image_generation"), content))
            }
        }
        "shell_call_output" => {
            let shell = shell(item);
            let timeout = shell.failure_value.is_some_and(|outcome| type_of(outcome) == "timeout");
            let code = if timeout { "timeout" } else { "exit_code" };
            let error_code = (shell.failure == Failure::Failed).then_some(code);
            ResultItem { shape: ResultShape::Server, error_code, ..shell }
        }
        "program_output" => {
            let content = member(item, "result");
            ResultItem { parts: text_or_json(content), ..ended(item, base(Name::Implied("program"), content)) }
        }
        _ => return None,
    })
}

/// A result that stands in its call, by how that says it ended.
fn ended<'r>(item: Value<'r>, result: ResultItem<'r>) -> ResultItem<'r> {
    let status = item.get("status");
    let code = ["failed", "incomplete"].into_iter().find(|code| status.is_some_and(|status| status.is(code)));
    let failure = if code.is_some() { Failure::Failed } else { result.failure };
    let failure_value = if code.is_some() { status } else { result.failure_value };
    ResultItem { failure, failure_value, error_code: code, ..result }
}

/// The pages that a part of a message cites: what a search found, in the model's words.
pub(super) fn cited<'r>(message: Value<'r>, part: Value<'r>) -> Option<ResultItem<'r>> {
    let annotations = part.get("annotations")?;
    let cited = || annotations.items().filter(|annotation| type_of(*annotation) == "url_citation");
    let texts = cited().flat_map(|c| ["title", "url"].into_iter().filter_map(move |name| string(c, name)));
    let parts: Vec<Part<'r>> = texts.map(Part::Text).collect();
    let addresses = cited().filter_map(|citation| string(citation, "url")).map(Address::plain).collect();
    let tool = Name::Implied("web_search");
    let base = blank(ResultShape::Server, message, Some(annotations));
    (!parts.is_empty()).then_some(ResultItem { tool, parts, addresses, ..base })
}

/// Item types that are a result, whether or not one is there yet.
pub(super) fn is_result(kind: &str) -> bool {
    matches!(
        kind,
        "web_search_call" | "file_search_call" | "image_generation_call" | "shell_call_output" | "program_output"
    )
}

/// The output that an item of a request's `input` is.
pub(super) fn of_request<'r>(kind: &str, item: Value<'r>) -> Option<ResultItem<'r>> {
    let output = item.get("output");
    let base = |shape, tool| ResultItem { tool, ..blank(shape, item, output) };
    Some(match kind {
        "function_call_output" | "custom_tool_call_output" => {
            let tool = named(item, "name").map_or(Name::None, Name::Wire);
            ResultItem { parts: output_parts(output), ..base(ResultShape::ResponsesOutput, tool) }
        }
        "shell_call_output" => shell(item),
        "local_shell_call_output" => {
            ResultItem { parts: text_or_json(output), ..base(ResultShape::PlainOutput, Name::Implied("local_shell")) }
        }
        "apply_patch_call_output" => {
            let status = item.get("status");
            let says = |word| status.is_some_and(|status| status.is(word));
            ResultItem {
                parts: text_or_json(output),
                failure: match (says("completed"), says("failed")) {
                    (true, _) => Failure::Ok,
                    (_, true) => Failure::Failed,
                    _ => Failure::Unsaid,
                },
                failure_value: status,
                ..base(ResultShape::PlainOutput, Name::Implied("apply_patch"))
            }
        }
        "computer_call_output" => {
            let kind = "image";
            ResultItem {
                parts: output.map(|value| Part::Media { value, kind }).into_iter().collect(),
                ..base(ResultShape::TypedOutput, Name::Implied("computer"))
            }
        }
        "tool_search_output" => {
            let content = member(item, "tools");
            ResultItem {
                tool: Name::Implied("tool_search"),
                parts: content.map(Part::Json).into_iter().collect(),
                ..blank(ResultShape::TypedOutput, item, content)
            }
        }
        "mcp_approval_response" => {
            let content = string(item, "reason");
            ResultItem {
                call_id: named(item, "approval_request_id"),
                parts: content.map(Part::Text).into_iter().collect(),
                ..blank(ResultShape::TypedOutput, item, content)
            }
        }
        _ => return None,
    })
}

/// The longest value of a member that is a mark and no text, bytes.
const WORD_BYTES: usize = 128;
/// The members of a command's outcome.
const OUTCOME: [&str; 2] = ["exit_code", "type"];

fn blank<'r>(shape: ResultShape, item: Value<'r>, content: Option<Value<'r>>) -> ResultItem<'r> {
    ResultItem {
        content,
        call_id: named(item, "call_id").or_else(|| match type_of(item).as_ref() {
            // Outputs that a client sends have an id of their own, which names no call; only the oldest of
            // them, and items that hold call and result in one, are found by it.
            "local_shell_call_output" => named(item, "id"),
            _ if shape == ResultShape::Server => named(item, "id"),
            _ => None,
        }),
        ..ResultItem::new(shape, item)
    }
}

/// `output` as text, or as a list of parts.
fn output_parts(output: Option<Value<'_>>) -> Vec<Part<'_>> {
    match output {
        Some(list) if list.kind() == Kind::Array => {
            list.items().flat_map(|value| [Some(part(value)), annotations(value)]).flatten().collect()
        }
        other => text_or_json(other),
    }
}

/// What a text cites: titles, addresses, names of files.
fn annotations(value: Value<'_>) -> Option<Part<'_>> {
    let list = member(value, "annotations").filter(|list| list.items().next().is_some());
    list.filter(|_| type_of(value) == "output_text").map(Part::Json)
}

fn part(value: Value<'_>) -> Part<'_> {
    let opaque = |kind| Part::Opaque { value, kind };
    let kind = match &*type_of(value) {
        "input_text" | "output_text" | "text" => {
            return string(value, "text").map_or(opaque("part"), Part::Text);
        }
        "input_image" => "image",
        "input_file" => "file",
        "input_audio" => "audio",
        _ => return opaque("part"),
    };
    Part::Media { value, kind }
}

fn text_or_json(value: Option<Value<'_>>) -> Vec<Part<'_>> {
    match value {
        Some(value) if value.kind() == Kind::String => vec![Part::Text(value)],
        Some(value) if !value.is_null() => vec![Part::Json(value)],
        _ => Vec::new(),
    }
}

/// `output[]` of `{stdout, stderr, outcome}`: failed if any command timed out or did not exit with 0.
fn shell(item: Value<'_>) -> ResultItem<'_> {
    let output = item.get("output");
    let mut parts = Vec::new();
    let (mut failure, mut failure_value) = (Failure::Unsaid, None);
    for entry in output.into_iter().flat_map(|output| output.items()) {
        if entry.kind() != Kind::Object {
            parts.extend(text_or_json(Some(entry)));
            continue;
        }
        for name in ["stdout", "stderr"] {
            parts.extend(string(entry, name).map(Part::Text));
        }
        parts.extend(beside(entry));
        let Some(outcome) = member(entry, "outcome") else {
            continue;
        };
        let good = match &*type_of(outcome) {
            "exit" => outcome.get("exit_code").and_then(|code| code.i64()) == Some(0),
            _ => false,
        };
        if failure != Failure::Failed {
            failure_value = Some(outcome);
            failure = if good { Failure::Ok } else { Failure::Failed };
        }
    }
    if output.is_some_and(|output| output.kind() != Kind::Array) {
        parts = text_or_json(output);
    }
    ResultItem {
        tool: Name::Implied("shell"),
        parts,
        failure,
        failure_value,
        ..blank(ResultShape::ShellOutput, item, output)
    }
}

/// What an entry of a shell's output holds beside its texts and its outcome.
fn beside(entry: Value<'_>) -> impl Iterator<Item = Part<'_>> {
    const SHORT: [&str; 4] = ["created_by", "max_output_length", "status", "type"];
    let strange = |name: &Value<'_>, value: &Value<'_>| match value.kind() {
        Kind::Null => false,
        Kind::String if ["stdout", "stderr"].iter().any(|known| name.is(known)) => false,
        // A word says something of the command; more than that is text for the model.
        _ if value.span().len() > WORD_BYTES => true,
        Kind::String | Kind::Number => !SHORT.iter().any(|known| name.is(known)),
        Kind::Object => !name.is("outcome") || value.members().any(|(name, _)| !OUTCOME.iter().any(|o| name.is(o))),
        Kind::Array | Kind::Bool => true,
    };
    let kind = "part";
    let members = entry.members().filter(move |(name, value)| strange(name, value));
    members.map(move |(_, value)| Part::Opaque { value, kind })
}

/// A call that the provider made to an MCP server holds its own output; `None` while there is none.
fn mcp_call(item: Value<'_>) -> Option<ResultItem<'_>> {
    let output = member(item, "output");
    let error = member(item, "error");
    let content = output.or(error)?;
    let mut parts = text_or_json(output);
    parts.extend(error.into_iter().flat_map(error_parts));
    let failed = item.get("status").is_some_and(|status| status.is("failed"));
    Some(ResultItem {
        tool: named(item, "name").map_or(Name::None, Name::Wire),
        server: named(item, "server_label"),
        parts,
        failure: match failed || error.is_some() {
            true => Failure::Failed,
            false => Failure::Ok,
        },
        failure_value: error,
        error_code: error.and_then(error_code),
        ..blank(ResultShape::Server, item, Some(content))
    })
}

/// An MCP error: text in old traffic, else an object with a message, or with the tool's own content.
fn error_parts(error: Value<'_>) -> Vec<Part<'_>> {
    let message = string(error, "message").map(Part::Text);
    match (message, member(error, "content")) {
        (None, None) => text_or_json(Some(error)),
        (message, content) => message.into_iter().chain(output_parts(content)).collect(),
    }
}

fn error_code(error: Value<'_>) -> Option<&'static str> {
    let kind = type_of(error);
    ["http_error", "mcp_protocol_error", "mcp_tool_execution_error"].into_iter().find(|known| kind == *known)
}

fn logs(output: Value<'_>) -> Part<'_> {
    let logs = string(output, "logs").map(Part::Text);
    logs.unwrap_or_else(|| match &*type_of(output) {
        "image" => Part::Media { value: output, kind: "image" },
        _ => Part::Opaque { value: output, kind: "part" },
    })
}

/// What a web search looked for and looked at. What it read stays with the provider.
fn search(action: Value<'_>) -> Vec<Part<'_>> {
    let mut parts: Vec<Part<'_>> =
        ["query", "pattern", "url"].into_iter().filter_map(|name| string(action, name)).map(Part::Text).collect();
    parts.extend(texts(action.get("queries")));
    for source in action.get("sources").into_iter().flat_map(|s| s.items()) {
        parts.extend(["url", "title"].into_iter().filter_map(|name| string(source, name)).map(Part::Text));
    }
    parts
}

/// Where a web search went.
fn visited(action: Value<'_>) -> Vec<Address<'_>> {
    let sources = action.get("sources").into_iter().flat_map(|sources| sources.items());
    let urls = string(action, "url").into_iter().chain(sources.filter_map(|source| string(source, "url")));
    urls.map(Address::plain).collect()
}

fn file_search(item: Value<'_>) -> Vec<Part<'_>> {
    let mut parts: Vec<Part<'_>> = texts(item.get("queries")).collect();
    for result in item.get("results").into_iter().flat_map(|r| r.items()) {
        parts.extend(["filename", "text"].into_iter().filter_map(|name| string(result, name)).map(Part::Text));
        parts.extend(result.get("attributes").filter(|a| a.members().next().is_some()).map(Part::Json));
    }
    parts
}

fn texts(list: Option<Value<'_>>) -> impl Iterator<Item = Part<'_>> {
    list.into_iter().flat_map(|list| list.items()).filter(|item| item.kind() == Kind::String).map(Part::Text)
}
