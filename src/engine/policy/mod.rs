//! Policies: each looks at a subject and a read-only view, and reports findings.
//!
//! A policy is one file and two registry lines. Policies never import one another; what several need stands
//! in this module or in `scan`. A policy cannot change state, and what it reports holds no text from outside.

mod globs;
pub mod intent;
mod media;
mod placeholders;
mod registry;
mod report;
mod results;
mod schema;
mod scope;
mod sg01_output_bounds;
mod sg02_failure_signals;
mod sg03_verbatim_turns;
mod sg04_argument_checks;
mod sg05_render_safety;
mod sg06_pinned_tools;
mod sg07_call_idempotency;
mod sg08_final_arguments;
mod sg09_pure_results;
mod sg10_call_pairing;
mod sg11_secret_leaks;
mod sg12_injected_instructions;
mod sg13_media_results;
mod sg14_server_results;
mod sg15_verdict_bypass;
mod tools;
pub mod truncate;
mod turns;

pub use media::Medium;
pub use registry::Policies;
pub use report::{Report, growth};
pub use results::{ERROR_PREFIX, says_failed};
pub use schema::{Compiled, Dialect, SchemaCache};
pub use scope::{Effective, FleetTrust, MAX_OVERRIDES, Origin, Override, Scope, Scopes, Variants, Who, sets_nothing};
pub use tools::{Definitions, ToolKnown};
pub use turns::{TurnKind, TurnView, open_loop};

use super::Millis;
use super::decision::{Checkpoint, Decision};
pub use super::event::Format;
use super::event::Provider;
use super::event::{CutReason, Form, Name, Part, ResultItem, Started, ToolDef};
use super::json::{JsonError, Kind, Value};
use super::layer::{Layer, Span};
use super::pins::PinTable;
use super::pins::canonical::Fingerprint;
use super::scan::text::Reader;
use super::state::{Call, Conversation, Exchange, ResultFact};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// Whether a policy's findings count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    Enforce,
    Monitor,
    Off,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    Low,
    Medium,
    High,
    Critical,
}

/// The base policy that `--profile` picks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    Strict,
    #[default]
    Standard,
    Monitor,
    Off,
}

impl Profile {
    pub fn name(self) -> &'static str {
        match self {
            Profile::Strict => "strict",
            Profile::Standard => "standard",
            Profile::Monitor => "monitor",
            Profile::Off => "off",
        }
    }
}

/// One rule of a policy. `effect` is that of `standard`; `strict` may be stronger.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    pub name: &'static str,
    pub effect: Decision,
    pub strict: Decision,
    pub severity: Severity,
    /// A fixed template, lower case, no full stop: what is wrong and what follows.
    pub message: &'static str,
}

/// What a policy says of itself.
#[derive(Debug, Clone, Copy)]
pub struct Meta {
    /// `SG01`.
    pub code: &'static str,
    /// Its number, for bit sets.
    pub number: u8,
    pub name: &'static str,
    /// The checklist item or rule it stands for.
    pub checklist: &'static str,
    pub summary: &'static str,
    pub rules: &'static [Rule],
}

/// An option that cannot hold: the path within the policy's options, the value's limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionsProblem {
    pub path: String,
    pub problem: String,
}

/// The rule of a policy that has to pass something over.
const NOT_OBSERVED: Rule = Rule {
    name: "not_observed",
    effect: Decision::Allow,
    strict: Decision::Allow,
    severity: Severity::Low,
    message: "what this policy needs was not seen, so it says nothing of the subject",
};

/// A policy.
pub trait Policy: Sized + Send + Sync {
    const META: Meta;
    /// It looks when all others have: what it asks for depends on their edits.
    const LAST: bool = false;
    /// Rules that can redact although they do so in no profile. Those that do so in one can anyway.
    const REDACTS: &'static [Rule] = &[];
    type Options: Default + Clone + Serialize + for<'de> Deserialize<'de>;
    /// Every option that cannot hold, so that an operator sees all of them at once.
    fn problems(_options: &Self::Options) -> Vec<OptionsProblem> {
        Vec::new()
    }
    /// Only of options that have no [`Policy::problems`].
    fn new(options: Self::Options, profile: Profile) -> Self;
    fn check<'r>(&self, subject: &Subject<'_, 'r>, view: &View<'_>, report: &mut Report<'r>);
}

/// What is judged.
#[derive(Debug, Clone, Copy)]
pub enum Subject<'s, 'r> {
    /// Arguments that are final, or a call that ended without.
    Call(&'s CallSubject<'s, 'r>),
    Start(&'s StartSubject<'s, 'r>),
    Result(&'s ResultSubject<'s, 'r>),
    Request(&'s RequestSubject<'s, 'r>),
    Definitions(&'s DefinitionsSubject<'s, 'r>),
    Render(&'s RenderSubject<'s, 'r>),
}

impl<'r> Subject<'_, 'r> {
    pub fn checkpoint(&self) -> Checkpoint {
        match self {
            Subject::Call(_) => Checkpoint::ToolCall,
            Subject::Start(_) => Checkpoint::ToolStart,
            Subject::Result(r) => r.checkpoint,
            Subject::Request(_) => Checkpoint::ModelRequest,
            Subject::Definitions(_) => Checkpoint::ToolDefinitions,
            Subject::Render(_) => Checkpoint::Render,
        }
    }

    /// The tool and the server that it is about.
    pub fn names(&self) -> (Option<Cow<'_, [u8]>>, Option<Cow<'_, [u8]>>) {
        match self {
            Subject::Call(call) => of_call(Some(call.call)),
            Subject::Start(start) => {
                let (tool, server) = of_call(start.call);
                (tool.or_else(|| start.started.tool.and_then(|tool| tool.text())), server)
            }
            Subject::Result(result) => names_of(result.result, result.call),
            Subject::Request(_) => (None, None),
            Subject::Definitions(definitions) => (None, definitions.server.and_then(|server| server.text())),
            Subject::Render(render) => of_call(render.call),
        }
    }

    /// The texts in it that came from outside the operator's own code. A request has none of its own: its results
    /// are subjects themselves.
    fn read(&self, reader: &mut Reader<'r>) {
        match self {
            Subject::Call(call) => match (&call.args, call.cut) {
                (Some(Ok(value)), _) => reader.value(*value),
                (_, None) => reader.layer(call.layer),
                (_, Some(_)) => {}
            },
            Subject::Result(result) => read_result(result.result, reader),
            Subject::Definitions(definitions) => definitions.values.iter().for_each(|value| reader.value(*value)),
            Subject::Render(render) => reader.value(render.content),
            Subject::Start(_) | Subject::Request(_) => {}
        }
    }
}

/// A result's texts, and behind them what is said of it.
fn read_result<'r>(result: &ResultItem<'r>, reader: &mut Reader<'r>) {
    let mut files = Vec::new();
    let mut told = BTreeSet::new();
    for part in &result.parts {
        match *part {
            Part::Text(value) | Part::Json(value) => {
                told.insert(value.span().start);
                reader.value(value);
            }
            // A text document, a drawing: what it says is read as any text.
            Part::Media { value, .. } => {
                let text = Medium::of(value).and_then(|medium| medium.text(reader.bump()));
                text.into_iter().for_each(|text| reader.decoded(text));
                files.push(value);
            }
            Part::Opaque { .. } => {}
        }
    }
    // Some of a file's members are parts of their own.
    let is_said = |value: Value<'r>| Medium::is_said(value) && !told.contains(&value.span().start);
    for file in files.into_iter().filter(|file| file.kind() == Kind::Object) {
        reader.beside(file, is_said);
    }
    for value in [result.source, result.url].into_iter().flatten() {
        reader.beside(value, |_| true);
    }
}

fn of_call(call: Option<&Call>) -> (Option<Cow<'_, [u8]>>, Option<Cow<'_, [u8]>>) {
    let name = call.map(|call| call.name.as_slice()).filter(|name| !name.is_empty());
    (name.map(Cow::Borrowed), call.and_then(|call| call.server.as_deref()).map(Cow::Borrowed))
}

/// The tool and the server of a result: its call's, else its own.
pub fn names_of<'n>(result: &ResultItem<'n>, call: Option<&'n Call>) -> (Option<Cow<'n, [u8]>>, Option<Cow<'n, [u8]>>) {
    let (tool, server) = of_call(call);
    let own = || match result.tool {
        Name::Wire(name) => name.text(),
        Name::Implied(name) => Some(Cow::Borrowed(name.as_bytes())),
        Name::None => None,
    };
    (tool.or_else(own), server.or_else(|| result.server.and_then(|server| server.text())))
}

/// A call that ended.
#[derive(Debug)]
pub struct CallSubject<'s, 'r> {
    pub call: &'s Call,
    /// `None`: final. Otherwise why it was cut.
    pub cut: Option<CutReason>,
    /// The assembled text as a layer of its own (`Step::Arguments`); for an empty final JSON call, `{}`.
    pub layer: &'r Layer<'r>,
    /// The text as it was assembled was empty (so `layer` holds `{}`).
    pub empty: bool,
    /// The latest earlier call that has the same id.
    pub same_id: Option<&'s Call>,
    /// Digest of tool and canonical arguments; `None` for free text, and where they are no JSON or very long.
    pub intent: Option<[u8; 16]>,
    /// The text parsed, for `JsonText` and `JsonValue`; `None` for free text and for cut calls.
    pub args: Option<Result<Value<'r>, JsonError>>,
}

impl CallSubject<'_, '_> {
    pub fn is_json(&self) -> bool {
        !matches!(self.call.form, Form::FreeText)
    }
}

/// The host began to run a tool.
#[derive(Debug)]
pub struct StartSubject<'s, 'r> {
    pub started: Started<'r>,
    /// The call it names, if known.
    pub call: Option<&'s Call>,
    /// The server that its event names.
    pub server: Option<&'s [u8]>,
    /// Its record came ahead of the one that ended its call, and it waited for that.
    pub early: bool,
    /// It was started before.
    pub again: bool,
}

/// A tool's output.
#[derive(Debug)]
pub struct ResultSubject<'s, 'r> {
    pub checkpoint: Checkpoint,
    pub result: &'s ResultItem<'r>,
    /// The call it answers, if known.
    pub call: Option<&'s Call>,
    /// When content was first seen (provenance's `fetched_at`).
    pub first_seen: Millis,
    /// UTF-8 bytes of all text parts, decoded.
    pub text_bytes: u64,
    /// Digest of what it says, as in [`ResultFact::content`].
    pub content: [u8; 16],
    /// What earlier records said for the same call under the same id, in order. Of results without an id only
    /// those that say the same.
    pub earlier: &'s [&'s ResultFact],
}

/// A request about to be sent.
#[derive(Debug)]
pub struct RequestSubject<'s, 'r> {
    pub body: Value<'r>,
    /// Its client results in document order, each with what was decided for it.
    pub results: &'s [RequestResult<'r>],
    /// Its history, in document order.
    pub turns: &'s [TurnView<'r>],
    /// The tools that it defines, late ones included.
    pub tools: &'s [ToolDef<'r>],
    /// Part of the history is not in it.
    pub elsewhere: bool,
    /// The tools that it defines itself or in its history, with their digests; none where this very list was looked
    /// at before. Lists of servers that it repeats are not among them.
    pub own: &'s [(ToolDef<'r>, Fingerprint)],
}

#[derive(Debug)]
pub struct RequestResult<'r> {
    pub item: ResultItem<'r>,
    pub action: Decision,
    /// Digest of what it says, as in [`ResultFact::content`], and of its safe copy.
    pub content: [u8; 16],
    pub copy: Option<[u8; 16]>,
    /// UTF-8 bytes of its text parts after its own edits.
    pub text_bytes: u64,
    /// What the copy leaves out that its host was given of this very content, in an event of its own (`tool.result`,
    /// an MCP answer): nothing, parts of the text, or all of it.
    pub withheld: Decision,
    /// Of those, bytes that edits other than cuts add.
    pub growth: u64,
}

/// Tools as a server lists them, or what it says of itself.
#[derive(Debug)]
pub struct DefinitionsSubject<'s, 'r> {
    /// The server's name, if it has one.
    pub server: Option<Value<'r>>,
    pub tools: &'s [ToolDef<'r>],
    /// The digests of each tool.
    pub prints: &'s [Fingerprint],
    /// The array in which they stand, if this is a list.
    pub list: Option<Value<'r>>,
    /// The cursor of the next page.
    pub next: Option<Value<'r>>,
    /// A provider asked for it: nothing in it can be changed.
    pub hosted: bool,
    /// What the server says of how to use it (`instructions`).
    pub instructions: Option<Value<'r>>,
    pub instructions_print: Option<Fingerprint>,
    /// Everything in it that is read: the tools' definitions as they stand, and the instructions.
    pub values: &'s [Value<'r>],
}

/// Something about to be shown to a person.
#[derive(Debug)]
pub struct RenderSubject<'s, 'r> {
    pub format: Format,
    pub content: Value<'r>,
    /// The call whose result it is, if known.
    pub call: Option<&'s Call>,
}

/// What a policy may look at beside its subject.
pub struct View<'s> {
    pub conversation: &'s Conversation,
    pub exchange: Option<&'s Exchange>,
    /// `None` for host events that name none and answer no known call.
    pub provider: Option<Provider>,
    pub fleet: &'s str,
    pub agent: &'s str,
    /// The conversation's clock.
    pub now: Millis,
    /// Compiled schemas, kept between records.
    pub schemas: &'s SchemaCache,
    /// What operators decided of servers' tools.
    pub pins: &'s PinTable,
}

/// Where a finding is: an extent of a layer. Its `at` list is made when the verdict is.
#[derive(Debug, Clone, Copy)]
pub enum Place<'r> {
    /// The subject as a whole.
    Whole,
    /// This value (and, if `range` is given, these decoded bytes of its string).
    Value { value: Value<'r>, range: Option<(u32, u32)> },
    /// A member that must be there and is not: its object, and its name as the schema spells it.
    Missing { object: Value<'r>, name: &'r [u8] },
    /// A byte range of a layer that is not JSON.
    Span(Span<'r>),
}

/// What backs a finding up. Cannot hold text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    None,
    Bytes {
        found: u64,
        limit: u64,
    },
    Count {
        found: u64,
        limit: u64,
    },
    /// A JSON Schema keyword of a closed list.
    Schema {
        keyword: &'static str,
    },
    /// A label of a closed set (a cut reason, a kind).
    Label {
        kind: &'static str,
        label: &'static str,
    },
    /// How many of a kind were found in one text; both words are of closed lists.
    Found {
        kind: &'static str,
        label: &'static str,
        count: u64,
    },
    /// Byte offset of a syntax error.
    Offset {
        at: u64,
    },
}

/// One finding.
#[derive(Debug, Clone)]
pub struct Finding<'r> {
    pub policy: &'static Meta,
    pub rule: &'static Rule,
    /// After the profile and the rule's own setting.
    pub effect: Decision,
    pub mode: Mode,
    pub place: Place<'r>,
    pub evidence: Evidence,
}

/// Settings of all policies, as a configuration file gives them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PolicySettings {
    /// The base that everything below stands on.
    pub profile: Profile,
    /// The bundle's name, shown in verdicts.
    pub bundle: String,
    /// By code (`SG01`).
    pub policies: std::collections::BTreeMap<String, OnePolicy>,
    /// Settings for some fleets, agents, tools or servers only, by a name of your own; the more specific wins.
    pub overrides: std::collections::BTreeMap<String, Override>,
    /// Nothing is enforced: every policy that would, observes. The runtime sets it while `break_glass` holds.
    #[serde(skip)]
    pub break_glass: bool,
}

/// Settings of one policy.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OnePolicy {
    /// `None`: the profile's.
    pub mode: Option<Mode>,
    /// Rule name to effect, where it differs from the profile's. `redact` only for rules that have something to change.
    pub rules: std::collections::BTreeMap<String, Decision>,
    /// The policy's own options.
    pub options: serde_json::Map<String, serde_json::Value>,
}
