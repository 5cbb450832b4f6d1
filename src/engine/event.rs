//! The vocabulary: what every provider's wire shapes are translated into.
//!
//! Reassembly, pairing and policies know these events only. They borrow from the record (`'r`): a value is
//! a place in a parsed document, so whoever reports a finding can point at it and whoever edits can splice
//! it. The vocabulary is wide enough for all providers of `provider-formats` §0 to §9; a wire shape that
//! means none of these is [`Event::Opaque`], never an error.
//!
//! Order is the document's. A request is `RequestBegin`, any of `Tool` and `Turn`, `RequestEnd`. A response,
//! streamed or whole, is `Begin`, any of the call and result events, `Stop` (how it ended is known), `End`
//! (its terminal marker was seen). A whole body gives the same events as a stream.

mod output;
mod tool;
mod turn;
mod untrusted;

pub use output::{Address, Failure, Part, ResultItem, ResultShape};
pub use tool::{ToolDef, ToolFamily, Tools};
pub use turn::{Party, Standing, Turn, gemini_generation};
pub use untrusted::Untrusted;

use super::json::Value;

/// The provider formats of the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub enum Provider {
    OpenAiResponses,
    OpenAiChat,
    AnthropicMessages,
    XaiResponses,
    XaiChat,
    GeminiGenerateContent,
    GeminiLive,
    Mcp,
}

impl Provider {
    pub const ALL: [Provider; 8] = [
        Provider::OpenAiResponses,
        Provider::OpenAiChat,
        Provider::AnthropicMessages,
        Provider::XaiResponses,
        Provider::XaiChat,
        Provider::GeminiGenerateContent,
        Provider::GeminiLive,
        Provider::Mcp,
    ];
    /// The attribute's value.
    pub fn name(self) -> &'static str {
        match self {
            Provider::OpenAiResponses => "openai.responses",
            Provider::OpenAiChat => "openai.chat",
            Provider::AnthropicMessages => "anthropic.messages",
            Provider::XaiResponses => "xai.responses",
            Provider::XaiChat => "xai.chat",
            Provider::GeminiGenerateContent => "gemini.generate_content",
            Provider::GeminiLive => "gemini.live",
            Provider::Mcp => "mcp",
        }
    }
    pub fn from_name(name: &str) -> Option<Provider> {
        Self::ALL.into_iter().find(|p| p.name() == name)
    }
    /// Whether one connection is one exchange: its tools are said once, when it is set up, and every later
    /// message of the client adds to it.
    pub fn is_session(self) -> bool {
        self == Provider::GeminiLive
    }
    /// Whether a response is a set of choices (Gemini: candidates) that end one by one, each by its own marker.
    /// Every chunk of such a response begins alike, so a beginning that repeats is no new one.
    pub fn has_choices(self) -> bool {
        matches!(self, Provider::OpenAiChat | Provider::XaiChat | Provider::GeminiGenerateContent)
    }
}

/// A call's position within its response: Responses `(output_index, 0)`, Chat `(tool_calls index, choice)`,
/// Anthropic `(content block index, 0)`, Gemini `(order of arrival, candidate)`, MCP `(order of arrival, 0)` in
/// the one exchange of its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct Slot(pub u32, pub u32);

impl Slot {
    /// The place of a call where the wire numbers none: what opens a call takes the response's next number, what
    /// adds to one means the latest. The state puts the number in.
    pub const fn arrival(choice: u32) -> Self {
        Self(u32::MAX, choice)
    }
    pub fn is_arrival(self) -> bool {
        self.0 == u32::MAX
    }
}

/// Who runs a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Executor {
    Client,
    Provider,
}

/// What a call's arguments are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Form {
    /// JSON in text (`function_call.arguments`, `input_json_delta`); published under `arguments`.
    JsonText,
    /// A JSON value on the wire (`tool_search_call.arguments`, a shell `action`); published under `arguments`, raw bytes.
    JsonValue,
    /// Free text or code (`custom_tool_call.input`, `code_interpreter_call.code`); published under `input`.
    FreeText,
}

/// The value of a call's arguments in one event.
#[derive(Debug, Clone, Copy)]
pub enum Args<'r> {
    /// Not in this event.
    Absent,
    /// A JSON string whose decoded content is the argument text.
    Text(Value<'r>),
    /// A JSON value that is the argument itself: its raw bytes count.
    Raw(Value<'r>),
}

/// The value of one leaf of a streamed argument object.
#[derive(Debug, Clone, Copy)]
pub enum LeafValue<'r> {
    /// A JSON string: a string, or a piece of one.
    Text(Value<'r>),
    Number(Value<'r>),
    Bool(bool),
    Null,
}

/// A name that stands on the wire, or one that follows from the type (`shell_call` is `shell`).
#[derive(Debug, Clone, Copy)]
pub enum Name<'r> {
    Wire(Value<'r>),
    Implied(&'static str),
    /// Not known yet, or none.
    None,
}

/// What is known of a call when an event shows it. Attributes that are absent leave earlier ones standing.
#[derive(Debug, Clone, Copy)]
pub struct CallFacts<'r> {
    pub slot: Slot,
    /// The correlating id (`call_id`, `id`); null and empty count as absent.
    pub id: Option<Value<'r>>,
    /// The item's own id, used where no correlating id exists.
    pub item_id: Option<Value<'r>>,
    pub name: Name<'r>,
    pub namespace: Option<Value<'r>>,
    pub server: Option<Value<'r>>,
    pub executor: Executor,
    pub form: Form,
    pub args: Args<'r>,
    /// The whole item or block as it stands, for its place.
    pub item: Value<'r>,
}

/// What an item says of itself at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum ItemStatus {
    /// `completed`, or no status at all.
    Complete,
    /// `in_progress` of a call made by a program that is now suspended: its arguments are whole.
    Suspended,
    /// `incomplete`, or anything that is not an end.
    Incomplete,
}

/// Why a call never became final. The label of `cut_call`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub enum CutReason {
    /// The output token limit, or the context window.
    MaxTokens,
    ContentFilter,
    Refused,
    /// The provider reported an error or a failed response.
    Failed,
    /// The turn paused or was compacted before the call's end.
    Paused,
    /// The turn ended by a marker that does not let client calls run (`end_turn` beside `tool_use`).
    EndedOtherwise,
    /// The item itself says that it is incomplete, or its text breaks off where items say nothing.
    ItemIncomplete,
    /// `model.closed` came before a terminal marker.
    TransportClosed,
    /// No event for the time to live.
    Expired,
    /// Another response began in its place.
    Superseded,
    /// The provider cancelled it.
    Cancelled,
    /// Fragments for a call that was never opened.
    Orphan,
    /// An event of its response could not be decoded.
    Undecodable,
    /// It outgrew a limit.
    Limit,
    /// Records of its conversation are missing, by their sequence numbers.
    Gap,
}

impl CutReason {
    /// The label in verdicts and metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::MaxTokens => "max_tokens",
            Self::ContentFilter => "content_filter",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Paused => "paused",
            Self::EndedOtherwise => "ended_otherwise",
            Self::ItemIncomplete => "item_incomplete",
            Self::TransportClosed => "transport_closed",
            Self::Expired => "expired",
            Self::Superseded => "superseded",
            Self::Cancelled => "cancelled",
            Self::Orphan => "orphan",
            Self::Undecodable => "undecodable",
            Self::Limit => "limit",
            Self::Gap => "gap",
        }
    }
}

/// What a response's ending means for the calls of one executor that are still open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Fate {
    /// Closed calls become final, unless their item says otherwise.
    Final,
    Cut(CutReason),
    /// They stay open across the boundary (`pause_turn` and provider-run calls).
    Carry,
}

/// How a response ended, by the terminal table (`provider-formats` §9).
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Stop {
    pub client: Fate,
    pub provider: Fate,
    /// Chat: the choice it speaks of. `None`: the whole response.
    pub choice: Option<u32>,
}

/// How a text is shown to people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    Html,
    Markdown,
    Text,
    Terminal,
}

impl Format {
    pub fn from_name(name: &str) -> Option<Format> {
        match name {
            "html" => Some(Format::Html),
            "markdown" => Some(Format::Markdown),
            "text" => Some(Format::Text),
            "terminal" => Some(Format::Terminal),
            _ => None,
        }
    }
}

/// What one record says, in order.
#[derive(Debug, Clone)]
pub enum Event<'r> {
    /// A request is about to be sent. `elsewhere`: part of the history is kept by the provider or was sent
    /// before (`previous_response_id`, `conversation`, `historyfrom`).
    RequestBegin {
        body: Value<'r>,
        elsewhere: bool,
    },
    /// A tool definition: of the request being read, or late, of the response being read.
    Tool(ToolDef<'r>),
    /// A server's list, as a provider that asked for it shows it, or as a request repeats it. Its tools are told
    /// by themselves too.
    Listed(Tools<'r>),
    Turn {
        at: Standing<'r>,
        turn: Turn<'r>,
    },
    RequestEnd,

    /// A response begins; an open one of the same exchange is superseded (`again`: a second `message_start`).
    Begin {
        id: Option<Value<'r>>,
        again: bool,
    },
    /// A call is opened, perhaps with its whole value.
    Open(CallFacts<'r>),
    /// More argument text. `part` numbers pieces that end separately (a shell call's commands).
    Append {
        slot: Slot,
        part: u32,
        text: Value<'r>,
    },
    /// Streamed leaf of an argument object (Gemini `partialArgs`); `more`: the string goes on.
    Leaf {
        slot: Slot,
        path: Value<'r>,
        value: LeafValue<'r>,
        more: bool,
    },
    /// The provider restates the whole text (`*.done`).
    Restate {
        slot: Slot,
        args: Args<'r>,
    },
    /// The item's end marker with nothing restated.
    Close {
        slot: Slot,
        status: ItemStatus,
    },
    /// The authoritative item: opens what was not opened, restates, closes. `listed`: from the final list of
    /// the response object, which may repeat, lack or renumber items.
    Item {
        call: CallFacts<'r>,
        status: ItemStatus,
        listed: bool,
    },
    /// A tool that the provider ran answered. `closes`: the call is thereby final whatever the ending.
    ServerResult {
        result: ResultItem<'r>,
        closes: bool,
    },
    /// The provider signed or encrypted a part of what the model said, and wants it back as it is. `of_call`: the
    /// part is the call at the slot; else it stands there itself, or, at an arrival, before the next call.
    Signed {
        slot: Slot,
        of_call: bool,
        seal: Value<'r>,
        /// The part's own id, if it has one.
        id: Option<Value<'r>>,
        /// The model's provider refuses the next request without it.
        required: bool,
    },
    /// What the model thought, a piece of it: the text that stands with the part at the slot, which the provider
    /// signs when it is over.
    Thought {
        slot: Slot,
        text: Value<'r>,
    },
    /// How the response ends is known.
    Stop(Stop),
    /// Its terminal marker was seen, or that of one choice: what is open there is settled by the last `Stop`,
    /// else cut.
    End {
        choice: Option<u32>,
    },
    /// The provider takes a call back, by its id: its result must not be sent.
    Cancel {
        id: Value<'r>,
    },
    /// The provider reported an error: settles everything open.
    Error {
        reason: CutReason,
    },

    /// The transport of the response ended.
    Closed,
    /// The host began to run a tool.
    Started(Started<'r>),
    /// Raw tool output before it is put into a request.
    HostResult(ResultItem<'r>),
    /// About to be shown to a person.
    Rendered(Rendered<'r>),
    /// A JSON-RPC message. An answer means what its request asked for, which only the conversation knows.
    Rpc(Rpc<'r>),
    /// Something not understood: counted, and listed under `not_inspected`.
    Opaque {
        value: Value<'r>,
        kind: &'static str,
    },
}

/// A party of an MCP connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Side {
    Client,
    Server,
}

impl Side {
    pub fn other(self) -> Side {
        match self {
            Side::Client => Side::Server,
            Side::Server => Side::Client,
        }
    }
}

/// What a JSON-RPC request asks for, as far as its answer is read by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Method {
    /// `tools/call`
    Call,
    /// `tools/list` from its beginning.
    List,
    /// `tools/list` from a cursor on.
    ListPage,
    /// `resources/read`
    Read,
    /// `prompts/get`
    Prompt,
    /// `tasks/result`: a call's output that was put off.
    Task,
    /// `initialize`, `server/discover`
    Hello,
    Other,
}

impl Method {
    /// Whether its answer is output that a model reads.
    pub fn gives_output(self) -> bool {
        matches!(self, Method::Call | Method::Read | Method::Prompt | Method::Task)
    }
}

/// One JSON-RPC message.
#[derive(Debug, Clone, Copy)]
pub struct Rpc<'r> {
    pub item: Value<'r>,
    /// Who sent it, by the attribute or by what only one side says.
    pub from: Option<Side>,
    /// A string or a number.
    pub id: Option<Value<'r>>,
    pub says: RpcSays<'r>,
}

#[derive(Debug, Clone, Copy)]
pub enum RpcSays<'r> {
    /// `tools/call`: final at once. `again`: it goes on with one whose answer asked for input.
    Call {
        name: Value<'r>,
        arguments: Option<Value<'r>>,
        again: bool,
    },
    /// Any other request. `kind`: it holds something that nobody looks into.
    Request {
        method: Method,
        kind: Option<&'static str>,
    },
    /// The sender takes its own request back.
    Cancelled {
        request: Value<'r>,
    },
    /// The server's list of tools is another one now.
    ToolsChanged,
    /// Any other notification.
    Notice {
        kind: Option<&'static str>,
    },
    Result(Value<'r>),
    Error(Value<'r>),
}

/// `io.sluicegate.tool.started.v1`.
#[derive(Debug, Clone, Copy)]
pub struct Started<'r> {
    pub call_id: Option<Value<'r>>,
    pub tool: Option<Value<'r>>,
    pub idempotency_key: Option<Value<'r>>,
    pub arguments_sha256: Option<Value<'r>>,
    pub item: Value<'r>,
}

/// `io.sluicegate.render.v1`.
#[derive(Debug, Clone, Copy)]
pub struct Rendered<'r> {
    pub format: Format,
    /// A string.
    pub content: Value<'r>,
    pub call_id: Option<Value<'r>>,
}
