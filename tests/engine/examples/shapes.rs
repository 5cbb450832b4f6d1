//! One story in the wire shapes of every provider.
//!
//! A story is what an agent does: tools, calls that a model makes, outputs that come back. Each provider writes
//! it down in its own way; `None` where it has no way.

use serde_json::{Value, json};
use sluicegate::engine::provider::Provider;

/// A call and, once it came, its output.
#[derive(Debug, Clone)]
pub struct Call {
    pub id: String,
    pub name: String,
    /// JSON text as the model wrote it.
    pub arguments: String,
    pub output: Option<Output>,
}

#[derive(Debug, Clone)]
pub struct Output {
    pub value: Value,
    /// Flagged by the provider's own means.
    pub flagged: bool,
    /// It is a file, which stands in place of the value or beside it.
    pub file: Option<File>,
}

/// A file in base64, and the type that it declares.
#[derive(Debug, Clone)]
pub struct File {
    pub kind: String,
    pub data: String,
}

impl File {
    fn is_image(&self) -> bool {
        self.kind.starts_with("image/")
    }
    fn url(&self) -> String {
        format!("data:{};base64,{}", self.kind, self.data)
    }
}

/// A model's turn: calls made in parallel, and what is said behind their outputs.
#[derive(Debug, Clone, Default)]
pub struct Round {
    pub calls: Vec<Call>,
    pub said: Vec<String>,
}

#[derive(Debug, Clone)]
pub struct Tool {
    pub name: String,
    pub description: String,
    pub schema: Value,
}

/// How a model's turn ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    Good,
    MaxTokens,
    /// The stream goes on: nothing has ended.
    None,
}

/// One record: its type (short), further attributes, and its data.
#[derive(Debug, Clone)]
pub struct Record {
    pub kind: &'static str,
    pub attributes: Vec<(&'static str, String)>,
    pub data: Value,
}

impl Record {
    pub fn new(kind: &'static str, data: Value) -> Self {
        Self { kind, attributes: Vec::new(), data }
    }
    fn from(self, side: &str) -> Self {
        let attributes = vec![("direction", side.to_owned()), ("mcpserver", "files".to_owned())];
        Self { attributes, ..self }
    }
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn parsed(arguments: &str) -> Value {
    serde_json::from_str(arguments).unwrap_or_else(|_| json!({}))
}

/// Whether a JSON value says all of a text: a stream carries others too.
fn is_plain(arguments: &str) -> bool {
    let length = |text: &str| text.bytes().filter(|b| !b.is_ascii_whitespace()).count();
    length(arguments) == length(&parsed(arguments).to_string())
}

/// The request that follows these rounds.
pub fn request(provider: Provider, tools: &[Tool], rounds: &[Round]) -> Option<Vec<Record>> {
    let data = match provider {
        Provider::AnthropicMessages => anthropic(tools, rounds),
        Provider::OpenAiResponses | Provider::XaiResponses => responses(tools, rounds),
        Provider::OpenAiChat | Provider::XaiChat => chat(tools, rounds),
        Provider::GeminiGenerateContent => gemini(tools, rounds),
        Provider::GeminiLive => return live(tools, rounds),
        Provider::Mcp => return mcp_request(tools, rounds),
    };
    Some(vec![Record::new("model.request", data)])
}

fn prefixed(output: &Output) -> String {
    let text = text_of(&output.value);
    if output.flagged { format!("[TOOL ERROR] {text}") } else { text }
}

fn anthropic(tools: &[Tool], rounds: &[Round]) -> Value {
    let mut messages = vec![json!({"role": "user", "content": "go on"})];
    for round in rounds {
        let calls = round.calls.iter();
        let used =
            calls.map(|c| json!({"type": "tool_use", "id": c.id, "name": c.name, "input": parsed(&c.arguments)}));
        messages.push(json!({"role": "assistant", "content": used.collect::<Vec<_>>()}));
        let mut content = Vec::new();
        for call in &round.calls {
            if let Some(output) = &call.output {
                let said = output.file.as_ref().map_or_else(
                    || json!(text_of(&output.value)),
                    |file| {
                        let source = json!({"type": "base64", "media_type": file.kind, "data": file.data});
                        json!([{"type": if file.is_image() { "image" } else { "document" }, "source": source}])
                    },
                );
                let mut block = json!({"type": "tool_result", "tool_use_id": call.id, "content": said});
                if output.flagged {
                    block["is_error"] = json!(true);
                }
                content.push(block);
            }
        }
        content.extend(round.said.iter().map(|text| json!({"type": "text", "text": text})));
        if !content.is_empty() {
            messages.push(json!({"role": "user", "content": content}));
        }
    }
    let tools = tools.iter();
    let tools = tools.map(|t| json!({"name": t.name, "description": t.description, "input_schema": t.schema}));
    json!({"model": "m", "max_tokens": 100, "tools": tools.collect::<Vec<_>>(), "messages": messages})
}

fn responses(tools: &[Tool], rounds: &[Round]) -> Value {
    let mut input = vec![json!({"role": "user", "content": "go on"})];
    for round in rounds {
        for call in &round.calls {
            input.push(
                json!({"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments}),
            );
        }
        for call in &round.calls {
            if let Some(output) = &call.output {
                let said = output.file.as_ref().map_or_else(
                    || json!(prefixed(output)),
                    |file| match file.is_image() {
                        true => json!([{"type": "input_image", "image_url": file.url()}]),
                        false => json!([{"type": "input_file", "filename": "file", "file_data": file.url()}]),
                    },
                );
                input.push(json!({"type": "function_call_output", "call_id": call.id, "output": said}));
            }
        }
        input.extend(round.said.iter().map(|text| json!({"role": "user", "content": text})));
    }
    let tools = tools.iter();
    let tools = tools.map(|t| {
        json!({"type": "function", "name": t.name, "description": t.description, "parameters": t.schema, "strict": false})
    });
    json!({"model": "m", "tools": tools.collect::<Vec<_>>(), "input": input})
}

fn chat(tools: &[Tool], rounds: &[Round]) -> Value {
    let mut messages = vec![json!({"role": "user", "content": "go on"})];
    for round in rounds {
        let calls = round.calls.iter().map(chat_call);
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": calls.collect::<Vec<_>>()}));
        for call in &round.calls {
            if let Some(output) = &call.output {
                let said = output.file.as_ref().map_or_else(
                    || json!(prefixed(output)),
                    |file| match file.is_image() {
                        true => json!([{"type": "image_url", "image_url": {"url": file.url()}}]),
                        false => json!([{"type": "file", "file": {"filename": "file", "file_data": file.url()}}]),
                    },
                );
                messages.push(json!({"role": "tool", "tool_call_id": call.id, "content": said}));
            }
        }
        messages.extend(round.said.iter().map(|text| json!({"role": "user", "content": text})));
    }
    let tools = tools.iter();
    let tools = tools.map(|t| {
        json!({"type": "function", "function": {"name": t.name, "description": t.description, "parameters": t.schema}})
    });
    json!({"model": "m", "tools": tools.collect::<Vec<_>>(), "messages": messages})
}

fn chat_call(call: &Call) -> Value {
    json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}})
}

fn gemini(tools: &[Tool], rounds: &[Round]) -> Value {
    let mut contents = vec![json!({"role": "user", "parts": [{"text": "go on"}]})];
    for round in rounds {
        contents.push(json!({"role": "model", "parts": gemini_calls(&round.calls)}));
        let outputs = round.calls.iter().filter_map(|call| Some((call, call.output.as_ref()?)));
        let mut parts: Vec<Value> =
            outputs.map(|(call, output)| json!({"functionResponse": answer(call, output)})).collect();
        parts.extend(round.said.iter().map(|text| json!({"text": text})));
        if !parts.is_empty() {
            contents.push(json!({"role": "user", "parts": parts}));
        }
    }
    json!({"contents": contents, "tools": declarations(tools)})
}

fn declarations(tools: &[Tool]) -> Value {
    let tools = tools.iter();
    let tools = tools.map(|t| json!({"name": t.name, "description": t.description, "parametersJsonSchema": t.schema}));
    json!([{"functionDeclarations": tools.collect::<Vec<_>>()}])
}

/// Only the first of parallel calls is signed.
fn gemini_calls(calls: &[Call]) -> Vec<Value> {
    let part = |(at, c): (usize, &Call)| {
        let mut part = json!({"functionCall": {"id": c.id, "name": c.name, "args": parsed(&c.arguments)}});
        if at == 0 {
            part["thoughtSignature"] = json!(format!("c2lnbmVk{}", c.id));
        }
        part
    };
    calls.iter().enumerate().map(part).collect()
}

fn answer(call: &Call, output: &Output) -> Value {
    let response = match (&output.value, output.flagged) {
        (value, true) => json!({"error": value}),
        (Value::Object(_), false) => output.value.clone(),
        (value, false) => json!({"result": value}),
    };
    let mut answer = json!({"id": call.id, "name": call.name, "response": response});
    if let Some(file) = &output.file {
        answer["parts"] = json!([{"inlineData": {"mimeType": file.kind, "data": file.data}}]);
    }
    answer
}

fn live(tools: &[Tool], rounds: &[Round]) -> Option<Vec<Record>> {
    let Some(round) = rounds.last() else {
        let setup = json!({"setup": {"model": "models/m", "tools": declarations(tools)}});
        return Some(vec![Record::new("model.request", setup)]);
    };
    if !round.said.is_empty() {
        return None;
    }
    let outputs = round.calls.iter().filter_map(|call| Some((call, call.output.as_ref()?)));
    let answers: Vec<Value> = outputs.map(|(call, output)| answer(call, output)).collect();
    Some(vec![Record::new("model.request", json!({"toolResponse": {"functionResponses": answers}}))])
}

/// A server's list of tools, or what it answers to calls.
fn mcp_request(tools: &[Tool], rounds: &[Round]) -> Option<Vec<Record>> {
    let Some(round) = rounds.last() else {
        let ask = json!({"jsonrpc": "2.0", "id": "list", "method": "tools/list"});
        let listed = tools.iter();
        let listed = listed.map(|t| json!({"name": t.name, "description": t.description, "inputSchema": t.schema}));
        let result = json!({"tools": listed.collect::<Vec<_>>()});
        let answer = json!({"jsonrpc": "2.0", "id": "list", "result": result});
        let record = |data| Record::new("mcp.message", data);
        return Some(vec![record(ask).from("client"), record(answer).from("server")]);
    };
    if !round.said.is_empty() {
        return None;
    }
    let outputs = round.calls.iter().filter_map(|call| Some((call, call.output.as_ref()?)));
    let answers = outputs.map(|(call, output)| {
        let block = output.file.as_ref().map_or_else(
            || json!({"type": "text", "text": text_of(&output.value)}),
            |file| match file.is_image() {
                true => json!({"type": "image", "mimeType": file.kind, "data": file.data}),
                false => json!({"type": "resource", "resource":
                    {"uri": "file:///a/file", "mimeType": file.kind, "blob": file.data}}),
            },
        );
        let content = json!([block]);
        let result = json!({"content": content, "isError": output.flagged});
        Record::new("mcp.message", json!({"jsonrpc": "2.0", "id": call.id, "result": result})).from("server")
    });
    Some(answers.collect())
}

/// The model's turn.
pub fn response(provider: Provider, calls: &[Call], ending: Ending) -> Option<Vec<Record>> {
    let whole = |data| Some(vec![Record::new("model.response", data)]);
    if ending == Ending::None {
        return stream(provider, calls.first()?);
    }
    let good = ending == Ending::Good;
    match provider {
        Provider::AnthropicMessages if good && calls.len() == 1 && !is_plain(&calls.first()?.arguments) => {
            let mut records = stream(provider, calls.first()?)?;
            let end = [
                json!({"type": "content_block_stop", "index": 0}),
                json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}),
                json!({"type": "message_stop"}),
            ];
            records.extend(end.map(|data| Record::new("model.chunk", data)));
            Some(records)
        }
        Provider::AnthropicMessages => {
            let used = calls.iter();
            let used =
                used.map(|c| json!({"type": "tool_use", "id": c.id, "name": c.name, "input": parsed(&c.arguments)}));
            let stop = if good { "tool_use" } else { "max_tokens" };
            whole(json!({"id": format!("msg_{}", calls.first()?.id), "type": "message", "role": "assistant",
                "content": used.collect::<Vec<_>>(), "stop_reason": stop}))
        }
        Provider::OpenAiResponses | Provider::XaiResponses => {
            let status = if good { "completed" } else { "incomplete" };
            let items = calls.iter().map(|c| {
                json!({"type": "function_call", "id": format!("fc_{}", c.id), "call_id": c.id, "name": c.name,
                    "arguments": c.arguments, "status": status})
            });
            let mut data = json!({"id": format!("resp_{}", calls.first()?.id), "object": "response", "status": status,
                "output": items.collect::<Vec<_>>()});
            if !good {
                data["incomplete_details"] = json!({"reason": "max_output_tokens"});
            }
            whole(data)
        }
        Provider::OpenAiChat | Provider::XaiChat => {
            let finish = if good { "tool_calls" } else { "length" };
            let made: Vec<Value> = calls.iter().map(chat_call).collect();
            whole(json!({"id": format!("chatcmpl-{}", calls.first()?.id), "object": "chat.completion", "choices": [
                {"index": 0, "finish_reason": finish,
                 "message": {"role": "assistant", "content": null, "tool_calls": made}}]}))
        }
        Provider::GeminiGenerateContent => {
            let finish = if good { "STOP" } else { "MAX_TOKENS" };
            whole(
                json!({"responseId": format!("r{}", calls.first()?.id), "modelVersion": "gemini-3-pro", "candidates": [
                {"index": 0, "finishReason": finish, "content": {"role": "model", "parts": gemini_calls(calls)}}]}),
            )
        }
        Provider::GeminiLive if good => {
            let calls = calls.iter();
            let calls = calls.map(|c| json!({"id": c.id, "name": c.name, "args": parsed(&c.arguments)}));
            let data = json!({"toolCall": {"functionCalls": calls.collect::<Vec<_>>()}});
            Some(vec![Record::new("model.chunk", data)])
        }
        Provider::Mcp if good => {
            let records = calls.iter().map(|c| {
                let arguments: Value = serde_json::from_str(&c.arguments).ok()?;
                let params = json!({"name": c.name, "arguments": arguments});
                let data = json!({"jsonrpc": "2.0", "id": c.id, "method": "tools/call", "params": params});
                Some(Record::new("mcp.message", data).from("client"))
            });
            records.collect()
        }
        Provider::GeminiLive | Provider::Mcp => None,
    }
}

/// The beginning of a streamed turn: its call has begun and not ended.
fn stream(provider: Provider, call: &Call) -> Option<Vec<Record>> {
    let events = match provider {
        Provider::AnthropicMessages => vec![
            json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "content": []}}),
            json!({"type": "content_block_start", "index": 0,
                "content_block": {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}}),
            json!({"type": "content_block_delta", "index": 0,
                "delta": {"type": "input_json_delta", "partial_json": call.arguments}}),
        ],
        Provider::OpenAiResponses | Provider::XaiResponses => vec![
            json!({"type": "response.created", "response": {"id": "resp_1", "object": "response", "status": "in_progress"}}),
            json!({"type": "response.output_item.added", "output_index": 0,
                "item": {"type": "function_call", "id": "fc_1", "call_id": call.id, "name": call.name, "arguments": ""}}),
            json!({"type": "response.function_call_arguments.delta", "output_index": 0, "item_id": "fc_1",
                "delta": call.arguments}),
        ],
        Provider::OpenAiChat | Provider::XaiChat => {
            let piece = json!({"index": 0, "id": call.id, "type": "function",
                "function": {"name": call.name, "arguments": call.arguments}});
            vec![json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [
                {"index": 0, "delta": {"role": "assistant", "tool_calls": [piece]}, "finish_reason": null}]})]
        }
        Provider::GeminiGenerateContent => vec![json!({"responseId": "r1", "candidates": [
            {"index": 0, "content": {"role": "model", "parts": gemini_calls(std::slice::from_ref(call))}}]})],
        Provider::GeminiLive | Provider::Mcp => return None,
    };
    Some(events.into_iter().map(|data| Record::new("model.chunk", data)).collect())
}

/// A tool that the provider ran itself, and what it said.
pub fn served(provider: Provider, output: &Value) -> Option<Vec<Record>> {
    let text = text_of(output);
    let data = match provider {
        Provider::AnthropicMessages => json!({"id": "msg_s", "type": "message", "role": "assistant", "content": [
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "code_execution", "input": {"code": "run()"}},
            {"type": "code_execution_tool_result", "tool_use_id": "srvtoolu_1",
             "content": {"type": "code_execution_result", "stdout": text, "stderr": "", "return_code": 0, "content": []}}],
            "stop_reason": "end_turn"}),
        Provider::OpenAiResponses | Provider::XaiResponses => {
            json!({"id": "resp_s", "object": "response", "status": "completed", "output": [
            {"type": "mcp_call", "id": "mcp_1", "server_label": "docs", "name": "search", "arguments": "{}",
             "output": text, "error": null, "status": "completed"}]})
        }
        Provider::GeminiGenerateContent => {
            json!({"responseId": "rs", "candidates": [{"index": 0, "finishReason": "STOP",
            "content": {"role": "model", "parts": [
                {"executableCode": {"language": "PYTHON", "code": "run()"}},
                {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": text}}]}}]})
        }
        Provider::OpenAiChat | Provider::XaiChat | Provider::GeminiLive | Provider::Mcp => return None,
    };
    Some(vec![Record::new("model.response", data)])
}
