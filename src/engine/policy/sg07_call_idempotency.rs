//! SG07: a call runs once, and has one result.
//!
//! # What it checks
//! - `duplicate_start`: the host began to run a call that it began before. A start that names an idempotency key is
//!   only reported: whoever runs the tool can tell that it is a retry.
//! - `duplicate_result`: the same output came again for one call. Reported only.
//! - `conflicting_result`: two `tool.result` events, or two answers inside one request, say different things for one
//!   call. What the gate itself put in place of an output counts as that output.
//! - `rewritten_result`: a later request carries another output for a call than was seen before; clients clear old
//!   outputs. Reported only.
//! - `duplicate_call_id`: two calls of one response have the same id, so that their results cannot be told apart; the
//!   second is blocked. An id that comes again in a later response is reported only (`strict`: blocked), and so are
//!   calls that the provider runs.
//! - `missing_idempotency_key`: a tool that is marked as side-effecting, by `side_effecting` or by the hints of an
//!   approved pin, was started without one.
//! - `repeated_intent`: the same tool with the same arguments under another id, a short time before. A hint, never a
//!   proof: a retry makes a new id, and so does a second wish.
//! - `not_observed`: the conversation's beginning was not seen (`beginning`), so what comes first may have come before.
//!
//! # Why it matters
//! Streams drop, hosts retry, providers repeat a block: the card is charged three times. Where two results claim one
//! call, the model reads whichever comes last, and so does whoever forged it.
//!
//! # Violates
//! - One body with two `tool_use` blocks `toolu_1`; a stream that repeats a call's id with other arguments.
//! - `tool.started` for `call_1`, twice.
//! - `tool.result` for `call_1`: "paid", then "declined".
//!
//! ```example duplicate_start
//! call lookup {"q":"a"}
//! start
//! start
//! ```
//! ```example conflicting_result
//! call lookup {"q":"a"}
//! host {"source":"api:doors","content":"open"}
//! host {"source":"api:doors","content":"closed"}
//! ```
//! ```example conflicting_result, not_observed: anthropic.messages, openai.responses, openai.chat
//! event tool.result {"call_id":"a","outcome":"ok","content":"paid"}
//! event tool.result {"call_id":"a","outcome":"ok","content":"declined"}
//! ```
//! ```example conflicting_result: anthropic.messages
//! event model.request {"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"pay","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"paid"},{"type":"tool_result","tool_use_id":"a","content":"declined"}]}]}
//! ```
//! ```example conflicting_result: openai.responses, xai.responses
//! event model.request {"input":[{"type":"function_call","call_id":"a","name":"pay","arguments":"{}"},{"type":"function_call_output","call_id":"a","output":"paid"},{"type":"function_call_output","call_id":"a","output":"declined"}]}
//! ```
//! ```example conflicting_result: gemini.generate_content
//! event model.request {"contents":[{"role":"model","parts":[{"functionCall":{"id":"a","name":"pay","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"id":"a","name":"pay","response":{"output":"paid"}}},{"functionResponse":{"id":"a","name":"pay","response":{"output":"declined"}}}]}]}
//! ```
//! ```example conflicting_result: openai.chat, xai.chat
//! event model.request {"messages":[{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"pay","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":"paid"},{"role":"tool","tool_call_id":"a","content":"declined"}]}
//! ```
//! ```example duplicate_result
//! call lookup {"q":"a"}
//! host {"source":"api:doors","content":"open"}
//! host {"source":"api:doors","content":"open"}
//! ```
//! ```example duplicate_call_id: anthropic.messages
//! event model.request {"messages":[]}
//! event model.response {"id":"msg_1","type":"message","role":"assistant","stop_reason":"tool_use","content":[{"type":"tool_use","id":"a","name":"pay","input":{}},{"type":"tool_use","id":"a","name":"pay","input":{}}]}
//! ```
//! ```example duplicate_call_id: openai.chat, xai.chat
//! event model.request {"messages":[]}
//! event model.response {"id":"c","object":"chat.completion","choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"pay","arguments":"{}"}},{"id":"a","type":"function","function":{"name":"pay","arguments":"{}"}}]}}]}
//! ```
//! ```example duplicate_call_id: openai.responses, xai.responses
//! event model.request {"input":"go"}
//! event model.response {"id":"r","object":"response","status":"completed","output":[{"type":"function_call","id":"f1","call_id":"a","name":"pay","arguments":"{}","status":"completed"},{"type":"function_call","id":"f2","call_id":"a","name":"pay","arguments":"{}","status":"completed"}]}
//! ```
//! ```example duplicate_call_id: gemini.generate_content
//! event model.request {"contents":[]}
//! event model.response {"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"id":"a","name":"pay","args":{}}},{"functionCall":{"id":"a","name":"pay","args":{}}}]},"finishReason":"STOP"}]}
//! ```
//! ```example missing_idempotency_key
//! option side_effecting=["look*"]
//! call lookup {"q":"a"}
//! start
//! ```
//! ```example repeated_intent: openai.chat, openai.responses, anthropic.messages, xai.chat, xai.responses, gemini.generate_content, gemini.live
//! call lookup {"q":"a","n":1}
//! result {"source":"api:doors","content":"open"}
//! call lookup {"n":1,"q":"a"}
//! ```
//! ```example rewritten_result: anthropic.messages
//! event model.request {"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"pay","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"paid"}]}]}
//! event model.request {"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"pay","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"[cleared]"}]}]}
//! ```
//!
//! # Holds
//! - A history that is sent again with every request.
//! - An output that the gate redacted or withheld, put into a request in its redacted form.
//! - Two calls in a row with other arguments.
//! - Gemini answers with `willContinue`: more of them are to come.
//!
//! ```example holds
//! call lookup {"q":"a"}
//! start
//! result {"source":"api:doors","content":"open"}
//! again
//! call lookup {"q":"b"}
//! start
//! ```
//!
//! # Options
//! - `side_effecting`: tools that change something, as names with `*` for any run of characters (none; at most 256
//!   of 128 bytes).
//!   Beside them count MCP tools of which an approved pin ([pins](../pins.md)) says `readOnlyHint: false` or
//!   `destructiveHint: true`, and neither `readOnlyHint: true` nor `idempotentHint: true`. Hints that nobody approved
//!   count for nothing, MCP's defaults for hints that are absent neither, and no hint takes a tool out of this list.
//!   The pin is found where the call or its start (`mcpserver`) names the server: a tool that a client offers its
//!   model under a name of its own (`mcp__docs__send`) belongs into the list.
//! - `window_seconds`: how long a call is remembered for `repeated_intent` (600; 0 to 86 400, 0 turns it off).
//!
//! # Source
//! Checklist item 7 and rule 7 of `untrusted-tool-outputs.md`; `field-bugs` 37 to 40.

use super::globs;
use super::{
    CallSubject, Evidence, Meta, OptionsProblem, Place, Policy, Profile, Report, RequestResult, RequestSubject,
    ResultSubject, Rule, Severity, StartSubject, Subject, TurnKind, View,
};
use crate::engine::decision::Decision;
use crate::engine::digest::sha256;
use crate::engine::event::{Executor, Provider, ResultShape};
use crate::engine::json::Value;
use crate::engine::state::{Call, CallStatus};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::HashMap;

/// Latest calls of a conversation among which an intent is looked for.
const LOOKED_AT: usize = 256;

const fn rule(name: &'static str, effect: Decision, severity: Severity, message: &'static str) -> Rule {
    Rule { name, effect, strict: effect, severity, message }
}

const DUPLICATE_START: Rule = rule(
    "duplicate_start",
    Decision::Block,
    Severity::High,
    "the call was started before; it must not run a second time",
);
const DUPLICATE_RESULT: Rule =
    rule("duplicate_result", Decision::Allow, Severity::Low, "the same output came again for this call");
const CONFLICTING_RESULT: Rule = rule(
    "conflicting_result",
    Decision::Block,
    Severity::High,
    "the call has another output already; which of them is its own cannot be told",
);
const REWRITTEN_RESULT: Rule = rule(
    "rewritten_result",
    Decision::Allow,
    Severity::Low,
    "the history carries another output for this call than was seen before",
);
const DUPLICATE_CALL_ID: Rule = rule(
    "duplicate_call_id",
    Decision::Block,
    Severity::High,
    "an earlier call has this id; their results cannot be told apart",
);
const MISSING_IDEMPOTENCY_KEY: Rule = rule(
    "missing_idempotency_key",
    Decision::Block,
    Severity::Medium,
    "the tool has side effects and was started without an idempotency key; a retry would repeat them",
);
const REPEATED_INTENT: Rule = rule(
    "repeated_intent",
    Decision::Allow,
    Severity::Low,
    "the same tool was called with the same arguments under another id a short time before",
);
const NOT_OBSERVED: Rule = rule(
    "not_observed",
    Decision::Allow,
    Severity::Low,
    "what this policy needs was not seen, so it says nothing of what came before",
);

/// The policy.
pub struct CallIdempotency {
    options: Options,
    strict: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    pub side_effecting: Vec<String>,
    pub window_seconds: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { side_effecting: Vec::new(), window_seconds: 600 }
    }
}

impl Policy for CallIdempotency {
    const META: Meta = Meta {
        code: "SG07",
        number: 7,
        name: "call_idempotency",
        checklist: "item 7, rule 7",
        summary: "a call runs once and has one result",
        rules: &[
            DUPLICATE_START,
            DUPLICATE_RESULT,
            CONFLICTING_RESULT,
            REWRITTEN_RESULT,
            DUPLICATE_CALL_ID,
            MISSING_IDEMPOTENCY_KEY,
            REPEATED_INTENT,
            NOT_OBSERVED,
        ],
    };
    type Options = Options;

    fn problems(options: &Options) -> Vec<OptionsProblem> {
        let mut found = globs::problems("side_effecting", &options.side_effecting);
        if options.window_seconds > 86_400 {
            let problem = format!("{} is not between 0 and 86400", options.window_seconds);
            found.push(OptionsProblem { path: "window_seconds".to_owned(), problem });
        }
        found
    }

    fn new(options: Options, profile: Profile) -> Self {
        Self { options, strict: profile == Profile::Strict }
    }

    fn check<'r>(&self, subject: &Subject<'_, 'r>, view: &View<'_>, report: &mut Report<'r>) {
        match subject {
            Subject::Call(call) => self.check_call(call, view, report),
            Subject::Start(start) => self.check_start(start, view, report),
            Subject::Result(result) => check_result(result, view, report),
            Subject::Request(request) => check_request(request, report),
            _ => {}
        }
    }
}

impl CallIdempotency {
    fn check_call<'r>(&self, subject: &CallSubject<'_, 'r>, view: &View<'_>, report: &mut Report<'r>) {
        let call = subject.call;
        // An MCP client numbers its requests, per connection.
        if subject.cut.is_some() || is_rpc(call, view) {
            return;
        }
        say_partial(view, report);
        // A call that never became final was not run under its id.
        if let Some(first) = subject.same_id.filter(|first| first.status == CallStatus::Final) {
            let within = first.exchange == call.exchange;
            let alike = first.name == call.name && first.sha256 == Some(sha256(subject.layer.bytes));
            let label = match (within, alike) {
                (false, _) => "another_response",
                (true, true) => "same_arguments",
                (true, false) => "other_arguments",
            };
            let counts = call.executor == Executor::Client && (within || self.strict);
            let most = if counts { Decision::Block } else { Decision::Allow };
            report.find_at_most(&DUPLICATE_CALL_ID, most, Place::Whole, Evidence::Label { kind: "call_id", label });
        }
        self.check_intent(subject, view, report);
    }

    fn check_intent<'r>(&self, subject: &CallSubject<'_, 'r>, view: &View<'_>, report: &mut Report<'r>) {
        let call = subject.call;
        let Some(intent) = subject.intent.filter(|_| self.options.window_seconds > 0) else { return };
        let since = call.opened.time.saturating_sub(self.options.window_seconds as i64 * 1000);
        let is_alike = |other: &&Call| {
            let own = std::ptr::eq(*other, call);
            let same_id = !call.id.is_empty() && other.id == call.id;
            let ran = other.status == CallStatus::Final && other.action != Some(Decision::Block);
            let alike = other.intent == Some(intent) && other.opened.time >= since;
            !own && !same_id && ran && alike && !is_rpc(other, view)
        };
        let calls = view.conversation.calls.values().rev().take(LOOKED_AT);
        let found = calls.filter(is_alike).count() as u64;
        if found > 0 {
            report.find(&REPEATED_INTENT, Place::Whole, Evidence::Count { found, limit: 0 });
        }
    }

    fn check_start<'r>(&self, subject: &StartSubject<'_, 'r>, view: &View<'_>, report: &mut Report<'r>) {
        say_partial(view, report);
        let key = subject.started.idempotency_key.and_then(|key| key.text()).filter(|key| !key.is_empty());
        if subject.again {
            let most = if key.is_some() { Decision::Allow } else { Decision::Block };
            report.find_at_most(&DUPLICATE_START, most, Place::Whole, Evidence::None);
        }
        let called = subject.call.map(|call| Cow::Borrowed(call.name.as_slice())).filter(|name| !name.is_empty());
        let name = called.or_else(|| subject.started.tool.and_then(|tool| tool.text()));
        let Some(name) = name.filter(|_| key.is_none()) else { return };
        let by = match globs::matches(&self.options.side_effecting, &name) {
            true => Evidence::None,
            false if is_marked(&name, subject, view) => Evidence::Label { kind: "marked_by", label: "approved_hint" },
            false => return,
        };
        report.find(&MISSING_IDEMPOTENCY_KEY, Place::Whole, by);
    }
}

/// Whether an approved pin says that calling this tool changes something. Its server is the one that the call goes
/// to, or that the start names.
fn is_marked(name: &[u8], subject: &StartSubject<'_, '_>, view: &View<'_>) -> bool {
    let Some(server) = subject.call.and_then(|call| call.server.as_deref()).or(subject.server) else { return false };
    let client = view.conversation.server_seen(server).and_then(|seen| seen.capabilities);
    view.pins.has_side_effects(server, client.as_ref(), name)
}

fn check_result<'r>(subject: &ResultSubject<'_, 'r>, view: &View<'_>, report: &mut Report<'r>) {
    let result = subject.result;
    let is_own = |shape| !matches!(shape, ResultShape::Server | ResultShape::McpResult | ResultShape::McpAnswer);
    if !is_own(result.shape) {
        return;
    }
    let place = Place::Value { value: result.content.unwrap_or(result.item), range: None };
    let same = |content: [u8; 16], copy: Option<[u8; 16]>| content == subject.content || copy == Some(subject.content);
    let mut others = subject.earlier.iter().filter(|fact| fact.from_host || result.shape != ResultShape::Host);
    let seen = others.clone().next().is_some();
    let again = others.any(|fact| same(fact.content, fact.copy));
    match (result.shape == ResultShape::Host, seen, again) {
        (true, true, true) => drop(report.find(&DUPLICATE_RESULT, place, Evidence::None)),
        (true, true, false) => drop(report.find(&CONFLICTING_RESULT, place, Evidence::None)),
        (false, true, false) => drop(report.find(&REWRITTEN_RESULT, place, Evidence::None)),
        (_, false, _) => say_partial(view, report),
        _ => {}
    }
}

/// Answers to one call inside one request. An id that a later call has again is another one's from there on.
fn check_request<'r>(subject: &RequestSubject<'_, 'r>, report: &mut Report<'r>) {
    let id = |value: Option<Value<'r>>| value.and_then(|id| id.text()).filter(|id| !id.is_empty());
    let mut answered: HashMap<Cow<'r, [u8]>, &RequestResult<'r>> = HashMap::new();
    for turn in subject.turns {
        match turn.kind {
            TurnKind::Call(call) => {
                if let Some(id) = id(call.id) {
                    answered.remove(&id);
                }
            }
            TurnKind::Result(at) => {
                let Some(result) = subject.results.get(at).filter(|result| !goes_on(result)) else { continue };
                let Some(id) = id(result.item.call_id) else { continue };
                let Some(first) = answered.insert(id, result) else { continue };
                let place = Place::Value { value: result.item.item, range: None };
                let rule = if says_the_same(first, result) { &DUPLICATE_RESULT } else { &CONFLICTING_RESULT };
                report.find(rule, place, Evidence::None);
            }
            _ => {}
        }
    }
}

fn says_the_same(a: &RequestResult<'_>, b: &RequestResult<'_>) -> bool {
    a.content == b.content || a.copy == Some(b.content) || b.copy == Some(a.content)
}

fn is_rpc(call: &Call, view: &View<'_>) -> bool {
    view.exchange_of(call).is_some_and(|exchange| exchange.provider == Provider::Mcp)
}

/// Gemini: another answer to the same call is to come.
fn goes_on(result: &RequestResult<'_>) -> bool {
    let says = |name| result.item.item.get(name).and_then(|value| value.bool()) == Some(true);
    result.item.shape == ResultShape::GeminiResponse && (says("willContinue") || says("will_continue"))
}

/// What came before the beginning that was seen may have had the same id.
fn say_partial(view: &View<'_>, report: &mut Report<'_>) {
    if view.conversation.head.partial {
        report.not_observed(&CallIdempotency::META, view, "beginning");
    }
}
