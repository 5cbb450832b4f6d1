//! Records of the topics of pins: decisions, and definitions that were seen.
//!
//! A record's key is a JSON array: server, client, kind, name, digest, so that compaction keeps the latest record
//! of each definition. `client` is `"*"` or the digest of the capabilities that the client declared; `kind` is
//! `tool` or `instructions`, whose name is empty. A decision without a value takes the decision back.
//!
//! Readers ignore members that they do not know; another `v` is another format, which approves nothing here.

use crate::engine::digest::{hex, push_json_string};
use crate::engine::json::{self, JsonLimits, Value};
use crate::engine::layer::Layer;
use bumpalo::Bump;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The version that this build writes and reads.
pub const VERSION: u64 = 1;

/// The largest definition that a sighting carries, bytes of its canonical form.
pub const DEFINITION_BYTES: usize = 256 << 10;

/// The largest record of a sighting, with its key: what a topic of default settings takes.
pub const SIGHTING_BYTES: usize = 768 << 10;

/// What the line of a decision says that was taken back.
const WITHDRAWN: &str = "withdrawn";

/// What an operator said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    Approved,
    Rejected,
}

impl Standing {
    pub fn name(self) -> &'static str {
        match self {
            Standing::Approved => "approved",
            Standing::Rejected => "rejected",
        }
    }
}

/// What is wrong with a record. Holds no text of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordError {
    /// Not the array that a key is.
    Key,
    /// Not an object with the members of a decision.
    Value,
    Version,
    /// Key and value speak of two things.
    Mismatch,
    /// Of a line: records come in the order of their offsets.
    Order,
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Key => "its key is not one of a pin",
            Self::Value => "its value is not a decision",
            Self::Version => "its format is unknown to this release",
            Self::Mismatch => "its value speaks of another definition than its key",
            Self::Order => "its offset is not behind that of the record before it",
        })
    }
}

/// Which definition.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub server: Vec<u8>,
    /// `None`: any client.
    pub capabilities: Option<[u8; 32]>,
    /// `None`: the server's instructions.
    pub name: Option<Vec<u8>>,
    pub digest: [u8; 32],
}

impl Key {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![b'['];
        push_json_string(&mut out, &self.server);
        out.push(b',');
        push_json_string(&mut out, self.client().as_bytes());
        out.push(b',');
        push_json_string(&mut out, self.kind().as_bytes());
        out.push(b',');
        push_json_string(&mut out, self.name.as_deref().unwrap_or_default());
        out.push(b',');
        push_json_string(&mut out, shown(&self.digest).as_bytes());
        out.push(b']');
        out
    }

    fn client(&self) -> String {
        self.capabilities.map_or_else(|| "*".to_owned(), |digest| shown(&digest))
    }

    fn kind(&self) -> &'static str {
        if self.name.is_some() { "tool" } else { "instructions" }
    }

    /// # Errors
    /// [`RecordError::Key`].
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let bump = Bump::new();
        let root = parse(&bump, bytes).ok_or(RecordError::Key)?;
        let mut parts = root.items();
        let key = Self::read(&mut |_| parts.next());
        key.filter(|_| root.items().count() == 5).ok_or(RecordError::Key)
    }

    /// The key that the members of a value repeat.
    fn named(value: Value<'_>) -> Option<Self> {
        Self::read(&mut |name| value.get(name))
    }

    /// Its parts in order, asked for by name.
    fn read<'v>(part: &mut dyn FnMut(&str) -> Option<Value<'v>>) -> Option<Self> {
        let mut next = |name| part(name).and_then(|part| part.text());
        let (server, client, kind) = (next("server")?, next("client")?, next("kind")?);
        let (name, digest) = (next("name")?, next("digest")?);
        Some(Self {
            server: server.into_owned(),
            capabilities: if &*client == b"*" { None } else { Some(digest_of(&client)?) },
            name: match &*kind {
                b"tool" => Some(name.into_owned()),
                b"instructions" => None,
                _ => return None,
            },
            digest: digest_of(&digest)?,
        })
    }
}

/// `sha256:` and the digest in hex.
pub fn shown(digest: &[u8; 32]) -> String {
    format!("sha256:{}", hex(digest))
}

/// The digest that is shown so.
pub fn digest_of(text: &[u8]) -> Option<[u8; 32]> {
    let text = text.strip_prefix(b"sha256:").filter(|text| text.len() == 64)?;
    let mut out = [0; 32];
    for (byte, pair) in out.iter_mut().zip(text.chunks_exact(2)) {
        let pair = std::str::from_utf8(pair).ok()?;
        *byte = u8::from_str_radix(pair, 16).ok()?;
    }
    Some(out)
}

fn parse<'b>(bump: &'b Bump, bytes: &[u8]) -> Option<Value<'b>> {
    let layer = Layer::record(bump, bump.alloc_slice_copy(bytes));
    json::parse(bump, layer, JsonLimits::default()).ok()
}

/// A record of the pins topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecisionRecord {
    pub key: Key,
    pub standing: Standing,
    /// Who decided, why, and when (RFC 3339), as they said.
    pub by: String,
    pub reason: String,
    pub at: String,
    /// The definition as JSON.
    definition: Option<Vec<u8>>,
}

impl DecisionRecord {
    /// `definition`: in canonical form, the one that has the key's digest.
    pub fn new(key: Key, standing: Standing, definition: Option<Vec<u8>>) -> Self {
        Self { key, standing, by: String::new(), reason: String::new(), at: String::new(), definition }
    }

    /// The definition in canonical form.
    pub fn definition(&self) -> Option<Vec<u8>> {
        let bump = Bump::new();
        self.definition.as_deref().and_then(|text| parse(&bump, text)).map(super::canonical::canonical)
    }

    pub fn encode(&self) -> Vec<u8> {
        self.object().end()
    }

    fn object(&self) -> Object {
        let mut out = Object::new();
        out.subject(&self.key);
        out.text("decision", self.standing.name().as_bytes());
        out.text("by", self.by.as_bytes());
        out.text("reason", self.reason.as_bytes());
        out.text("at", self.at.as_bytes());
        out.json("definition", self.definition.as_deref().unwrap_or(b"null"));
        out
    }

    /// # Errors
    /// What is wrong with it.
    pub fn decode(key: &Key, value: &[u8]) -> Result<Self, RecordError> {
        let bump = Bump::new();
        let root = parse(&bump, value).ok_or(RecordError::Value)?;
        subject(key, root)?;
        let text = |name: &str| root.get(name).and_then(|v| v.str()).unwrap_or_default().into_owned();
        let standing = match &*text("decision") {
            "approved" => Standing::Approved,
            "rejected" => Standing::Rejected,
            _ => return Err(RecordError::Value),
        };
        let definition = root.get("definition").filter(|v| !v.is_null()).map(|v| v.raw().to_vec());
        Ok(Self { key: key.clone(), standing, by: text("by"), reason: text("reason"), at: text("at"), definition })
    }
}

/// A record of the pins topic as one line of a file: its value, which repeats its key, and its offset. One that took a
/// decision back has no value: its line says `withdrawn`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// `None`: the one behind the line before.
    pub offset: Option<i64>,
    pub key: Key,
    pub decision: Option<DecisionRecord>,
}

impl Line {
    /// JSON in ASCII: what a terminal would act on stands as its number.
    pub fn encode(&self) -> String {
        let mut out = match &self.decision {
            Some(decision) => decision.object(),
            None => {
                let mut out = Object::new();
                out.subject(&self.key);
                out.text("decision", WITHDRAWN.as_bytes());
                out
            }
        };
        if let Some(offset) = self.offset {
            out.json("offset", offset.to_string().as_bytes());
        }
        let mut ascii = String::new();
        for c in String::from_utf8_lossy(&out.end()).chars() {
            if c.is_ascii() && !c.is_ascii_control() {
                ascii.push(c);
            } else {
                let mut units = [0; 2];
                c.encode_utf16(&mut units).iter().for_each(|unit| ascii.push_str(&format!("\\u{unit:04x}")));
            }
        }
        ascii
    }

    /// # Errors
    /// What is wrong with it.
    pub fn decode(line: &[u8]) -> Result<Self, RecordError> {
        let bump = Bump::new();
        let root = parse(&bump, line).ok_or(RecordError::Value)?;
        let key = Key::named(root).ok_or(RecordError::Key)?;
        let decision = match root.get("decision").is_some_and(|decision| decision.is(WITHDRAWN)) {
            true => subject(&key, root).map(|()| None)?,
            false => Some(DecisionRecord::decode(&key, line)?),
        };
        let offset = root.get("offset").map(|offset| offset.i64().filter(|n| *n >= 0).ok_or(RecordError::Value));
        Ok(Self { offset: offset.transpose()?, key, decision })
    }
}

/// A record of the topic of sightings: a definition that nobody decided on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sighting {
    pub key: Key,
    /// Whether the server has an approved pin of that name.
    pub changed: bool,
    /// In canonical form; `None` where it is too large to be shown.
    pub definition: Option<Vec<u8>>,
    pub definition_bytes: u64,
    /// Where it was seen, by a record's place, and when (milliseconds).
    pub topic: String,
    pub partition: i64,
    pub offset: i64,
    pub time: i64,
}

impl Sighting {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Object::new();
        out.subject(&self.key);
        out.text("state", if self.changed { b"changed" } else { b"unpinned" });
        let mut seen = Object::new();
        seen.text("topic", self.topic.as_bytes());
        seen.json("partition", self.partition.to_string().as_bytes());
        seen.json("offset", self.offset.to_string().as_bytes());
        seen.json("time", self.time.to_string().as_bytes());
        out.json("seen", &seen.end());
        out.json("definition_bytes", self.definition_bytes.to_string().as_bytes());
        out.json("definition", self.definition.as_deref().unwrap_or(b"null"));
        out.end()
    }

    /// # Errors
    /// What is wrong with it.
    pub fn decode(key: &[u8], value: &[u8]) -> Result<Self, RecordError> {
        let key = Key::decode(key)?;
        let bump = Bump::new();
        let root = parse(&bump, value).ok_or(RecordError::Value)?;
        subject(&key, root)?;
        let seen = root.get("seen");
        let number = |name: &str| seen.and_then(|s| s.get(name)).and_then(|v| v.i64()).unwrap_or_default();
        let topic = seen.and_then(|s| s.get("topic")).and_then(|v| v.str()).unwrap_or_default().into_owned();
        Ok(Self {
            key,
            changed: root.get("state").is_some_and(|state| state.is("changed")),
            definition: root.get("definition").filter(|v| !v.is_null()).map(super::canonical::canonical),
            definition_bytes: root.get("definition_bytes").and_then(|v| v.u64()).unwrap_or_default(),
            topic,
            partition: number("partition"),
            offset: number("offset"),
            time: number("time"),
        })
    }
}

/// The members by which a value repeats its key.
fn subject(key: &Key, root: Value<'_>) -> Result<(), RecordError> {
    match root.get("v").and_then(|v| v.u64()) {
        Some(VERSION) => {}
        Some(_) => return Err(RecordError::Version),
        None => return Err(RecordError::Value),
    }
    let text = |name: &str| root.get(name).and_then(|v| v.text()).unwrap_or_default();
    let same = *text("server") == *key.server
        && *text("client") == *key.client().as_bytes()
        && *text("kind") == *key.kind().as_bytes()
        && *text("name") == *key.name.as_deref().unwrap_or_default()
        && digest_of(&text("digest")) == Some(key.digest);
    if same { Ok(()) } else { Err(RecordError::Mismatch) }
}

/// A JSON object being written.
struct Object(Vec<u8>);

impl Object {
    fn new() -> Self {
        Self(vec![b'{'])
    }
    fn subject(&mut self, key: &Key) {
        self.json("v", VERSION.to_string().as_bytes());
        self.text("server", &key.server);
        self.text("client", key.client().as_bytes());
        self.text("kind", key.kind().as_bytes());
        self.text("name", key.name.as_deref().unwrap_or_default());
        self.text("digest", shown(&key.digest).as_bytes());
    }
    fn json(&mut self, name: &str, value: &[u8]) {
        if self.0.len() > 1 {
            self.0.push(b',');
        }
        push_json_string(&mut self.0, name.as_bytes());
        self.0.push(b':');
        self.0.extend_from_slice(value);
    }
    fn text(&mut self, name: &str, value: &[u8]) {
        let mut text = Vec::with_capacity(value.len() + 2);
        push_json_string(&mut text, value);
        self.json(name, &text);
    }
    fn end(mut self) -> Vec<u8> {
        self.0.push(b'}');
        self.0
    }
}
