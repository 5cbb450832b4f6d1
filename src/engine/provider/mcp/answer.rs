//! What an answer says, by the method that was asked.
//!
//! The shape never decides which method it was: a list of tools in answer to a `tools/call` is that call's
//! result. Everything that a client may put before a model is a part, in document order: texts, names and
//! descriptions of links, `structuredContent`, `_meta`, annotations, error messages and their data. A member that
//! is a mark (`mimeType`, `isError`) and is no such thing, or too long for one, is opaque, like an unknown member.

use super::super::{member, resembles, string, type_of};
use super::in_another_case;
use crate::engine::event::{Failure, Method, Name, Part, ResultItem, ResultShape, RpcSays};
use crate::engine::json::{Kind, Value};

/// The result of a tool, or of what stands for one.
#[derive(Debug)]
pub struct Answer<'r> {
    pub result: ResultItem<'r>,
    /// A value that cannot be read in one way only.
    pub unclear: Option<Value<'r>>,
}

/// The longest value of a member that is a mark and no text, bytes.
const WORD_BYTES: usize = 128;

/// Whether the answer says that the call goes on once the client has given more input, and nothing else: what
/// stands beside that is read by clients that do not know it.
pub fn asks_for_input(result: Value<'_>) -> bool {
    const ASKS: [&str; 4] = ["resultType", "inputRequests", "requestState", "_meta"];
    let alone = || result.members().all(|(name, _)| ASKS.iter().any(|known| name.is(known)));
    result.get("resultType").is_some_and(|kind| kind.is("input_required")) && alone()
}

/// Reads an answer to `method`, `None` where the request is not known. `sure`: that it is this request's.
pub fn read<'r>(message: Value<'r>, says: RpcSays<'r>, method: Option<Method>, sure: bool) -> Answer<'r> {
    let mut parts = Parts::default();
    let mut failure = Failure::Unsaid;
    let (mut shape, mut item, mut content, mut failure_value) = (ResultShape::McpAnswer, message, None, None);
    match says {
        RpcSays::Error(error) => {
            failure = Failure::Failed;
            content = Some(error);
            parts.error(error);
        }
        RpcSays::Result(result) => {
            content = Some(result);
            match method {
                _ if result.kind() != Kind::Object => parts.value(result),
                Some(Method::Read) if sure => parts.object(result, &[RESOURCES]),
                Some(Method::Prompt) if sure => parts.object(result, &[PROMPT]),
                Some(_) if sure => parts.object(result, &[CALL]),
                _ => parts.object(result, &[CALL, RESOURCES, PROMPT]),
            }
            if matches!(method, Some(Method::Call | Method::Task)) && result.kind() == Kind::Object {
                (shape, item, content) = (ResultShape::McpResult, result, result.get("content"));
            }
            if matches!(method, Some(Method::Call | Method::Task) | None) {
                failure_value = result.get("isError");
                failure = match failure_value.and_then(|value| value.bool()) {
                    Some(true) => Failure::Failed,
                    Some(false) => Failure::Ok,
                    None => Failure::Unsaid,
                };
            }
        }
        _ => {}
    }
    parts.beside(message);
    let result = ResultItem {
        shape,
        item,
        content,
        parts: parts.found,
        call_id: message.get("id"),
        tool: match method {
            Some(Method::Read) => Name::Implied("resources/read"),
            Some(Method::Prompt) => Name::Implied("prompts/get"),
            Some(Method::Task) => Name::Implied("tasks/result"),
            _ => Name::None,
        },
        server: None,
        failure,
        failure_value,
        error_code: None,
        addresses: Vec::new(),
        source: None,
        url: None,
        fetched_at: None,
        display: None,
    };
    Answer { result, unclear: parts.unclear }
}

/// The result of a `tools/call` by itself.
pub fn of_call(result: Value<'_>) -> ResultItem<'_> {
    let mut parts = Parts::default();
    parts.object(result, &[CALL]);
    let content = result.get("content");
    ResultItem { content, parts: parts.found, ..ResultItem::new(ResultShape::McpResult, result) }
}

/// How a member is read.
#[derive(Clone, Copy)]
enum As {
    /// A JSON string that the model reads; anything else there is a value that it reads.
    Text,
    Json,
    /// One content block, or an array of them.
    Blocks,
    /// An array of resources' contents, or one.
    Resources,
    Messages,
    Blob,
    /// Marks that say nothing to a model.
    Word,
    Number,
    Flag,
}

type Members = &'static [(&'static str, As)];

const CALL: Members = &[
    ("content", As::Blocks),
    ("structuredContent", As::Json),
    ("_meta", As::Json),
    // A result of 2024-10-07, which clients still take.
    ("toolResult", As::Json),
    // The call goes on in the background: `tasks/result` brings its output.
    ("task", As::Json),
    ("isError", As::Flag),
    ("resultType", As::Word),
];
const RESOURCES: Members = &[
    ("contents", As::Resources),
    ("_meta", As::Json),
    ("resultType", As::Word),
    ("ttlMs", As::Number),
    ("cacheScope", As::Word),
];
const PROMPT: Members =
    &[("description", As::Text), ("messages", As::Messages), ("_meta", As::Json), ("resultType", As::Word)];
const MESSAGE: Members = &[("role", As::Word), ("content", As::Blocks), ("_meta", As::Json)];
const RESOURCE: Members =
    &[("uri", As::Text), ("mimeType", As::Word), ("text", As::Text), ("blob", As::Blob), ("_meta", As::Json)];
const TEXT: Members = &[("type", As::Word), ("text", As::Text), ("annotations", As::Json), ("_meta", As::Json)];
const LINK: Members = &[
    ("type", As::Word),
    ("uri", As::Text),
    ("name", As::Text),
    ("title", As::Text),
    ("description", As::Text),
    ("mimeType", As::Word),
    ("size", As::Number),
    ("icons", As::Json),
    ("annotations", As::Json),
    ("_meta", As::Json),
];
const EMBEDDED: Members =
    &[("type", As::Word), ("resource", As::Resources), ("annotations", As::Json), ("_meta", As::Json)];
const BLOCKS: [&str; 5] = ["text", "image", "audio", "resource_link", "resource"];

#[derive(Default)]
struct Parts<'r> {
    found: Vec<Part<'r>>,
    unclear: Option<Value<'r>>,
}

impl<'r> Parts<'r> {
    /// A value that the model reads whatever it is.
    fn value(&mut self, value: Value<'r>) {
        match value.kind() {
            Kind::Null => {}
            Kind::String => self.found.push(Part::Text(value)),
            _ => self.found.push(Part::Json(value)),
        }
    }
    fn opaque(&mut self, value: Value<'r>, kind: &'static str) {
        self.found.push(Part::Opaque { value, kind });
    }
    fn error(&mut self, error: Value<'r>) {
        if error.kind() != Kind::Object {
            return self.value(error);
        }
        self.object(error, &[&[("code", As::Number), ("message", As::Text), ("data", As::Json)]]);
    }
    fn object(&mut self, object: Value<'r>, known: &[Members]) {
        let known = || known.iter().copied().flatten();
        if object.kind() != Kind::Object {
            return self.value(object);
        }
        for (name, value) in object.members() {
            match known().find(|(known, _)| name.is(known)) {
                Some((_, how)) => self.member(value, *how),
                None if in_another_case(name, known().map(|(known, _)| *known)) => {
                    self.unclear.get_or_insert(value);
                }
                None => self.opaque(value, "member"),
            }
        }
    }
    fn member(&mut self, value: Value<'r>, how: As) {
        match how {
            As::Word => self.mark(value, Kind::String),
            As::Number => self.mark(value, Kind::Number),
            As::Flag => self.mark(value, Kind::Bool),
            As::Text | As::Json => self.value(value),
            As::Blob => self.found.push(Part::Media { value, kind: "blob" }),
            As::Blocks => self.each(value, Self::block),
            As::Resources => self.each(value, |parts, value| parts.object(value, &[RESOURCE])),
            As::Messages => self.each(value, |parts, value| parts.object(value, &[MESSAGE])),
        }
    }
    fn mark(&mut self, value: Value<'r>, kind: Kind) {
        let short = value.kind() == kind && value.span().len() <= WORD_BYTES;
        if !short && !value.is_null() {
            self.opaque(value, "member");
        }
    }
    /// What the message holds beside its result.
    fn beside(&mut self, message: Value<'r>) {
        for (name, value) in message.members() {
            match () {
                () if name.is("result") || name.is("error") => {}
                () if name.is("jsonrpc") => self.mark(value, Kind::String),
                () if name.is("id") => self.mark(value, value.kind()),
                () => self.opaque(value, "member"),
            }
        }
    }
    fn each(&mut self, value: Value<'r>, mut read: impl FnMut(&mut Self, Value<'r>)) {
        match value.kind() {
            Kind::Array => value.items().for_each(|item| read(self, item)),
            _ => read(self, value),
        }
    }
    fn block(&mut self, block: Value<'r>) {
        if block.kind() != Kind::Object {
            return self.value(block);
        }
        match &*type_of(block) {
            "text" if string(block, "text").is_some() => self.object(block, &[TEXT]),
            "image" => self.media(block, "image"),
            "audio" => self.media(block, "audio"),
            "resource_link" => self.object(block, &[LINK]),
            "resource" if member(block, "resource").is_some() => self.object(block, &[EMBEDDED]),
            kind if kind.is_empty() || resembles(kind, &BLOCKS) => {
                self.unclear.get_or_insert(block);
            }
            _ => self.opaque(block, "block"),
        }
    }
    /// Beside its data a picture may carry text.
    fn media(&mut self, block: Value<'r>, kind: &'static str) {
        for (name, value) in block.members() {
            match () {
                () if name.is("data") => self.found.push(Part::Media { value, kind }),
                () if name.is("annotations") || name.is("_meta") => self.value(value),
                () if name.is("type") || name.is("mimeType") => self.mark(value, Kind::String),
                () => self.opaque(value, "member"),
            }
        }
    }
}
