//! SG10: every call of a request has one result, where its provider wants it.
//!
//! # What it checks
//! The calls and the results that a request's history holds, by the rules of the API that will read it:
//! `missing_result`, `orphan_result`, `duplicate_answer`, `wrong_position`, `wrong_role`, `split_results`,
//! `invalid_id`. The evidence names the refusal that would follow.
//!
//! - Anthropic: all results of a turn in the user message right behind it, one for each id; runs of messages of one
//!   role count as one, system messages do not part them. Server tools pair inside assistant content, across
//!   `pause_turn`: the last turn may end in one that is still running.
//! - OpenAI and xAI Responses: one output for each `call_id`, before the model's next turn, in any order. Calls that
//!   the provider runs need none.
//! - Chat: one `tool` message for each id, directly behind the calls, with no other role between.
//! - Gemini: as many responses as calls in the content run behind the calls, by id where both have one, else by
//!   name. That they stand in one content and in order is SG03's.
//!
//! # Why it matters
//! A history that lost a result, or gained one that no call asked for, is refused by the API in the best case. In
//! the worst case a compatible server takes it, and the model reads one tool's output as another's.
//!
//! # Violates
//! - A turn asked `toolu_1` and `toolu_2`, and the next message answers only the first: `missing_result`.
//! - A `function_call_output` whose `call_id` no call has: `orphan_result`.
//! - Two `tool` messages with one `tool_call_id`: `duplicate_answer`.
//! - A result that comes behind the model's next turn: `wrong_position`; if others of its turn stood where they
//!   belong, `split_results`.
//! - A `tool_result` in an assistant message: `wrong_role`.
//! - `tool_use.id` with a character outside `[a-zA-Z0-9_-]`, a `call_id` of more than 64: `invalid_id`.
//!
//! ```example missing_result: anthropic.messages, openai.responses, openai.chat, xai.responses, xai.chat, gemini.generate_content
//! call lookup {"q":"a"}
//! call lookup {"q":"b"}
//! result {"source":"api:doors","content":"open"}
//! ```
//! ```example orphan_result: anthropic.messages
//! event model.request {"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"open"}]}]}
//! ```
//! ```example orphan_result: openai.responses, xai.responses
//! event model.request {"input":[{"role":"user","content":"go on"},{"type":"function_call_output","call_id":"call_1","output":"open"}]}
//! ```
//! ```example orphan_result: openai.chat, xai.chat
//! event model.request {"messages":[{"role":"user","content":"go on"},{"role":"tool","tool_call_id":"call_1","content":"open"}]}
//! ```
//! ```example orphan_result: gemini.generate_content
//! event model.request {"contents":[{"role":"user","parts":[{"functionResponse":{"name":"lookup","response":{"result":"open"}}}]}]}
//! ```
//! ```example duplicate_answer: openai.responses, xai.responses
//! event model.request {"input":[{"role":"user","content":"go on"},{"type":"function_call","call_id":"c1","name":"lookup","arguments":"{}"},{"type":"function_call_output","call_id":"c1","output":"open"},{"type":"function_call_output","call_id":"c1","output":"shut"}]}
//! ```
//! ```example duplicate_answer: openai.chat, xai.chat
//! event model.request {"messages":[{"role":"user","content":"go on"},{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"lookup","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c1","content":"open"},{"role":"tool","tool_call_id":"c1","content":"shut"}]}
//! ```
//! ```example wrong_role, missing_result: anthropic.messages
//! event model.request {"messages":[{"role":"user","content":"go on"},{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"lookup","input":{}},{"type":"tool_result","tool_use_id":"toolu_1","content":"open"}]}]}
//! ```
//! ```example split_results: openai.chat, xai.chat
//! event model.request {"messages":[{"role":"user","content":"go on"},{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"lookup","arguments":"{}"}},{"id":"c2","type":"function","function":{"name":"lookup","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c1","content":"open"},{"role":"user","content":"and?"},{"role":"tool","tool_call_id":"c2","content":"shut"}]}
//! ```
//! ```example wrong_position: openai.responses
//! event model.request {"input":[{"type":"function_call_output","call_id":"c1","output":"open"},{"type":"function_call","call_id":"c1","name":"lookup","arguments":"{}"}]}
//! ```
//! ```example invalid_id: anthropic.messages
//! event model.request {"messages":[{"role":"user","content":"go on"},{"role":"assistant","content":[{"type":"tool_use","id":"call:1","name":"lookup","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"call:1","content":"open"}]}]}
//! ```
//!
//! # Holds
//! - Parallel calls answered in one message, in any order of ids.
//! - A result whose call stands in a history kept elsewhere (`previous_response_id`, `conversation`,
//!   `historyfrom`): its call is looked up in the conversation's state, and so are the other calls of that turn.
//!   What was never seen gives `not_observed`, once a conversation.
//! - Chat's older `function` messages, which have no id.
//!
//! ```example holds: anthropic.messages, openai.responses, openai.chat, xai.responses, xai.chat, gemini.generate_content
//! call lookup {"q":"a"}
//! call lookup {"q":"b"}
//! result {"source":"api:doors","content":"open"}
//! result {"source":"api:doors","content":"shut"}
//! ```
//!
//! # Does not apply
//! - `gemini.live`: a function may answer late, several times or not at all; what answers no known call is `not_observed`
//! - `mcp`: JSON-RPC pairs an answer with its request by id, and an answer to nothing is judged as a message
//!
//! # Options
//! None.
//!
//! # Source
//! Row *Multiple results* of `untrusted-tool-outputs.md`; `provider-formats` §2.6, §3.5, §4.3, §4.4, §4.6, §5.4,
//! §6.6; the refusals are those of §11.

mod anthropic;
mod chat;
mod elsewhere;
mod gemini;
mod responses;

use super::{
    Evidence, Meta, NOT_OBSERVED, Place, Policy, Profile, Report, RequestSubject, Rule, Severity, Subject, TurnKind,
    TurnView, View,
};
use crate::engine::decision::Decision;
use crate::engine::event::{CallFacts, Executor, Name, Party, Provider, ResultItem, ResultShape};
use crate::engine::json::Value;
use elsewhere::Elsewhere;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

const fn rule(name: &'static str, message: &'static str) -> Rule {
    Rule { name, effect: Decision::Block, strict: Decision::Block, severity: Severity::High, message }
}

const MISSING_RESULT: Rule =
    rule("missing_result", "a call has no result where the provider wants it; the API refuses the request");
const ORPHAN_RESULT: Rule =
    rule("orphan_result", "a result answers no call that stands before it; the API refuses the request");
const DUPLICATE_ANSWER: Rule =
    rule("duplicate_answer", "a call has more than one result; the API refuses the request, or the model reads both");
const WRONG_POSITION: Rule =
    rule("wrong_position", "a result does not stand right behind the turn of its call; the API refuses the request");
const WRONG_ROLE: Rule =
    rule("wrong_role", "a call or result stands in a message of the wrong role; the API refuses the request");
const SPLIT_RESULTS: Rule =
    rule("split_results", "the results of one turn are spread over several turns; the API refuses the request");
const INVALID_ID: Rule =
    rule("invalid_id", "a call or result has an id that the provider does not take; the API refuses the request");
/// The policy. Stateless: everything it needs is in the request and the conversation.
pub struct CallPairing;

/// None.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {}

impl Policy for CallPairing {
    const META: Meta = Meta {
        code: "SG10",
        number: 10,
        name: "call_pairing",
        checklist: "row Multiple results",
        summary: "every call of a request has one result, where its provider wants it",
        rules: &[
            MISSING_RESULT,
            ORPHAN_RESULT,
            DUPLICATE_ANSWER,
            WRONG_POSITION,
            WRONG_ROLE,
            SPLIT_RESULTS,
            INVALID_ID,
            NOT_OBSERVED,
        ],
    };
    type Options = Options;

    fn new(_options: Options, _profile: Profile) -> Self {
        Self
    }

    fn check<'r>(&self, subject: &Subject<'_, 'r>, view: &View<'_>, report: &mut Report<'r>) {
        let (Subject::Request(request), Some(provider)) = (subject, view.provider) else { return };
        let history = History::of(request, provider);
        let mut elsewhere = Elsewhere::new(request, view);
        match provider {
            Provider::AnthropicMessages => anthropic::check(&history, &mut elsewhere, report),
            Provider::OpenAiResponses | Provider::XaiResponses => {
                responses::check(&history, provider, &mut elsewhere, report);
            }
            Provider::OpenAiChat | Provider::XaiChat => chat::check(&history, &mut elsewhere, report),
            Provider::GeminiGenerateContent | Provider::GeminiLive => gemini::check(&history, &mut elsewhere, report),
            Provider::Mcp => return,
        }
        if provider != Provider::GeminiLive {
            elsewhere.unanswered(&history, provider, report);
        }
        if elsewhere.unseen {
            report.not_observed(&Self::META, view, "no_call");
        }
    }
}

/// A call that the history holds.
struct Asked<'r> {
    id: Cow<'r, [u8]>,
    name: Cow<'r, [u8]>,
    facts: CallFacts<'r>,
    party: Party,
    group: u32,
    /// Its place among all items of the history.
    order: usize,
}

impl Asked<'_> {
    fn is_client(&self) -> bool {
        self.facts.executor == Executor::Client
    }
}

/// A result that the history holds, of the client's or of a tool that the provider ran.
struct Answer<'r> {
    id: Cow<'r, [u8]>,
    name: Cow<'r, [u8]>,
    shape: ResultShape,
    item: Value<'r>,
    party: Party,
    group: u32,
    order: usize,
}

/// A request's calls and results, in document order.
struct History<'r> {
    asked: Vec<Asked<'r>>,
    /// The client's results.
    answers: Vec<Answer<'r>>,
    /// Results of tools that the provider ran.
    ran: Vec<Answer<'r>>,
    /// Every item's party and group.
    turns: Vec<(Party, u32)>,
    /// The first group in which somebody but the system speaks.
    first: Option<u32>,
}

impl<'r> History<'r> {
    fn of(request: &RequestSubject<'_, 'r>, provider: Provider) -> Self {
        let mut history =
            Self { asked: Vec::new(), answers: Vec::new(), ran: Vec::new(), turns: Vec::new(), first: None };
        for (order, turn) in request.turns.iter().enumerate() {
            history.add(order, turn, request, provider);
        }
        history
    }

    fn add(&mut self, order: usize, turn: &TurnView<'r>, request: &RequestSubject<'_, 'r>, provider: Provider) {
        let at = turn.at;
        let (party, group) = (at.party, at.group);
        self.turns.push((party, group));
        if self.first.is_none() && matches!(party, Party::Model | Party::User | Party::Tool) {
            self.first = Some(group);
        }
        let text = |value: Option<Value<'r>>| value.and_then(|value| value.text()).unwrap_or_default();
        match turn.kind {
            TurnKind::Call(facts) => {
                let id = text(facts.id);
                // What is answered by the item's own id.
                let own = id.is_empty() && matches!(provider, Provider::OpenAiResponses | Provider::XaiResponses);
                let id = if own { text(facts.item_id) } else { id };
                let name = name(facts.name);
                self.asked.push(Asked { id, name, facts, party, group, order });
            }
            TurnKind::Result(at) => {
                let Some(result) = request.results.get(at).map(|result| &result.item) else { return };
                let ResultItem { item, shape, .. } = *result;
                let (id, name) = (text(result.call_id), name(result.tool));
                self.answers.push(Answer { id, name, shape, item, party, group, order });
            }
            TurnKind::Ran { item, call_id } => {
                let (id, shape) = (text(call_id), ResultShape::Server);
                self.ran.push(Answer { id, name: Cow::default(), shape, item, party, group, order });
            }
            TurnKind::Model(_) | TurnKind::User(_) | TurnKind::System(_) | TurnKind::Opaque { .. } => {}
        }
    }

    /// The number of the latest group of this party.
    fn last_group(&self, party: Party) -> Option<u32> {
        self.turns.iter().rev().find(|(p, _)| *p == party).map(|(_, group)| *group)
    }
    /// Whether something stands in a group before this one.
    fn begins_before(&self, group: u32) -> bool {
        self.first.is_some_and(|first| first < group)
    }
}

fn name<'r>(name: Name<'r>) -> Cow<'r, [u8]> {
    match name {
        Name::Wire(value) => value.text().unwrap_or_default(),
        Name::Implied(name) => Cow::Borrowed(name.as_bytes()),
        Name::None => Cow::default(),
    }
}

/// Says what is wrong with a call or result, and what the API would say of it.
fn refuse<'r>(report: &mut Report<'r>, rule: &'static Rule, item: Value<'r>, label: &'static str) {
    report.find(rule, Place::Value { value: item, range: None }, Evidence::Label { kind: "refusal", label });
}

/// Late results of turns some of which were answered in time are split, others in the wrong place.
fn late<'r>(report: &mut Report<'r>, in_time: bool, item: Value<'r>, label: &'static str) {
    refuse(report, if in_time { &SPLIT_RESULTS } else { &WRONG_POSITION }, item, label);
}
