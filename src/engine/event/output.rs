//! A tool's output, wherever it stands: its parts in document order, and what its provider says of it.

use super::{Format, Name};
use crate::engine::json::Value;

/// One piece of a result's content, in document order.
#[derive(Debug, Clone, Copy)]
pub enum Part<'r> {
    /// A JSON string whose decoded content the model reads.
    Text(Value<'r>),
    /// A JSON value (object, array, scalar) that the model reads as it stands.
    Json(Value<'r>),
    /// An image, audio, file, document that is not text; the label names its wire type.
    Media { value: Value<'r>, kind: &'static str },
    /// An opaque or unknown part: never scanned, never edited.
    Opaque { value: Value<'r>, kind: &'static str },
}

/// Whether a result says that its tool failed, by the provider's own means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// No means, or not used.
    Unsaid,
    Ok,
    Failed,
}

/// How the result is written on the wire: what its error form is, where provenance may be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultShape {
    /// Anthropic `tool_result` block: `content`, `is_error`.
    AnthropicToolResult,
    /// OpenAI/xAI `function_call_output` and `custom_tool_call_output`: `output`.
    ResponsesOutput,
    /// `shell_call_output`: `output[]` of `{stdout,stderr,outcome}`.
    ShellOutput,
    /// `local_shell_call_output`, `apply_patch_call_output`: an `output` string.
    PlainOutput,
    /// `computer_call_output`, `tool_search_output`, `mcp_approval_response`: typed, not text.
    TypedOutput,
    /// Chat `role:tool` message: `content`.
    ChatTool,
    /// Gemini `functionResponse.response`.
    GeminiResponse,
    /// MCP `tools/call` result: `content`, `isError`.
    McpResult,
    /// Another JSON-RPC answer of MCP, or an error: the whole message.
    McpAnswer,
    /// `io.sluicegate.tool.result.v1`: `content`, `outcome`.
    Host,
    /// A result inside a model's response: never edited.
    Server,
}

/// An address that a tool of the provider's read, or found.
#[derive(Debug, Clone, Copy)]
pub struct Address<'r> {
    pub value: Value<'r>,
    /// The site that it leads to, where the address is a redirect of the provider's own.
    pub site: Option<Value<'r>>,
    /// How reading it ended, from a closed list, where it did not end well.
    pub code: Option<&'static str>,
}

impl<'r> Address<'r> {
    pub fn plain(value: Value<'r>) -> Self {
        Self { value, site: None, code: None }
    }
}

/// A tool's output, wherever it stands.
#[derive(Debug, Clone)]
pub struct ResultItem<'r> {
    pub shape: ResultShape,
    /// The whole item, block or event data.
    pub item: Value<'r>,
    /// The value that carries the content (`content`, `output`), absent if the item has none.
    pub content: Option<Value<'r>>,
    pub parts: Vec<Part<'r>>,
    pub call_id: Option<Value<'r>>,
    pub tool: Name<'r>,
    pub server: Option<Value<'r>>,
    pub failure: Failure,
    /// The member that says so (`is_error`, `outcome`), if it stands there.
    pub failure_value: Option<Value<'r>>,
    /// A typed error code of a server tool (`max_uses_exceeded`), from a closed list.
    pub error_code: Option<&'static str>,
    /// Of tools that the provider ran: where they went, as far as the response says.
    pub addresses: Vec<Address<'r>>,
    /// Host results: `source`, `url`, `fetched_at` members.
    pub source: Option<Value<'r>>,
    pub url: Option<Value<'r>>,
    pub fetched_at: Option<Value<'r>>,
    /// Host results: people will see it, in this way.
    pub display: Option<Format>,
}

impl<'r> ResultItem<'r> {
    /// One of which nothing is known but where it stands.
    pub fn new(shape: ResultShape, item: Value<'r>) -> Self {
        Self {
            shape,
            item,
            content: None,
            parts: Vec::new(),
            call_id: None,
            tool: Name::None,
            server: None,
            failure: Failure::Unsaid,
            failure_value: None,
            error_code: None,
            addresses: Vec::new(),
            source: None,
            url: None,
            fetched_at: None,
            display: None,
        }
    }
}
