//! SG09: results come back pure, and as text.
//!
//! # What it checks
//! The turn that hands results to the model, and what the results are made of: `mixed_turn`, `results_not_first`,
//! `unsupported_block`, `empty_result`.
//!
//! # Why it matters
//! What stands beside a tool's output is read with the authority of the user, so whoever can put text there speaks
//! as the user. A turn of results alone can be checked as results, and text can be looked into.
//!
//! # Violates
//! - The request's last turn has results and something else (Anthropic and Gemini: in the merged user content;
//!   Responses and Chat: a user item behind outputs with no turn of the model's between): `mixed_turn`, which only
//!   the profile `strict` blocks.
//! - Anthropic: text stands before the results of its turn. The API refuses it: `results_not_first`.
//! - A result holds a block that is neither text nor media: `unsupported_block`, which only `strict` blocks.
//! - A result says nothing at all: `empty_result`.
//!
//! ```example mixed_turn: anthropic.messages, openai.responses, openai.chat, xai.responses, xai.chat, gemini.generate_content
//! profile strict
//! call lookup {"q":"a"}
//! result {"source":"api:doors","content":"open"}
//! say "Now answer the question."
//! ```
//! ```example results_not_first: anthropic.messages
//! event model.request {"messages":[{"role":"user","content":"go on"},{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"lookup","input":{}}]},{"role":"user","content":[{"type":"text","text":"here it is"},{"type":"tool_result","tool_use_id":"toolu_1","content":"open"}]}]}
//! ```
//! ```example unsupported_block: anthropic.messages
//! profile strict
//! event model.request {"messages":[{"role":"user","content":"go on"},{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"lookup","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":[{"type":"hologram","data":"x"}]}]}]}
//! ```
//! ```example empty_result: anthropic.messages, openai.responses, openai.chat, xai.responses, xai.chat, gemini.generate_content, gemini.live
//! result ""
//! ```
//!
//! # Holds
//! - A turn of results alone, however many user messages it is written as.
//! - Text behind the results of an earlier turn: the model has answered since.
//! - Text, references to tools, search results and documents that are text.
//! - Media: those are SG13's.
//!
//! ```example holds: anthropic.messages, openai.responses, openai.chat, xai.responses, xai.chat, gemini.generate_content, gemini.live
//! profile strict
//! call lookup {"q":"a"}
//! result {"source":"api:doors","content":"open"}
//! ```
//!
//! # Does not apply
//! - `mcp`: its answers are no turn of a model's history; they are judged where a request carries them
//!
//! # Options
//! None.
//!
//! # Source
//! `averta-tool-results.md` (*Pure Means Pure*, *Supported Content*); `provider-formats` §4.6: of 241 recorded turns
//! of results 14 have text behind them, so what the API takes `standard` takes.

use super::{
    Evidence, Meta, Place, Policy, Profile, Report, RequestSubject, ResultSubject, Rule, Severity, Subject, TurnKind,
    View,
};
use crate::engine::decision::Decision;
use crate::engine::event::{Part, Party, Provider, ResultShape};
use crate::engine::json::{Kind, Value};
use serde::{Deserialize, Serialize};

const MIXED_TURN: Rule = Rule {
    name: "mixed_turn",
    effect: Decision::Allow,
    strict: Decision::Block,
    severity: Severity::Medium,
    message: "the last turn mixes tool results with other content; send that as a turn of its own, later",
};
const RESULTS_NOT_FIRST: Rule = Rule {
    name: "results_not_first",
    effect: Decision::Block,
    strict: Decision::Block,
    severity: Severity::High,
    message: "other content stands before the tool results of its turn; the API refuses the request",
};
const UNSUPPORTED_BLOCK: Rule = Rule {
    name: "unsupported_block",
    effect: Decision::Allow,
    strict: Decision::Block,
    severity: Severity::Medium,
    message: "a tool result holds a block that is neither text nor a known medium; nothing looked into it",
};
const EMPTY_RESULT: Rule = Rule {
    name: "empty_result",
    effect: Decision::Allow,
    strict: Decision::Allow,
    severity: Severity::Low,
    message: "a tool result says nothing",
};

/// The policy. Stateless.
pub struct PureResults;

/// None.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {}

impl Policy for PureResults {
    const META: Meta = Meta {
        code: "SG09",
        number: 9,
        name: "pure_results",
        checklist: "Averta: pure continuation, supported content",
        summary: "results come back pure, and as text",
        rules: &[MIXED_TURN, RESULTS_NOT_FIRST, UNSUPPORTED_BLOCK, EMPTY_RESULT],
    };
    type Options = Options;

    fn new(_options: Options, _profile: Profile) -> Self {
        Self
    }

    fn check<'r>(&self, subject: &Subject<'_, 'r>, view: &View<'_>, report: &mut Report<'r>) {
        match subject {
            Subject::Result(result) => check_result(result, report),
            Subject::Request(request) => check_request(request, view, report),
            _ => {}
        }
    }
}

fn check_result<'r>(subject: &ResultSubject<'_, 'r>, report: &mut Report<'r>) {
    let result = subject.result;
    let in_turn = match result.shape {
        ResultShape::AnthropicToolResult
        | ResultShape::ResponsesOutput
        | ResultShape::ShellOutput
        | ResultShape::PlainOutput
        | ResultShape::ChatTool
        | ResultShape::GeminiResponse => true,
        // No turn yet; typed outputs are what their type says; what the provider made is SG14's.
        ResultShape::Host
        | ResultShape::McpResult
        | ResultShape::McpAnswer
        | ResultShape::TypedOutput
        | ResultShape::Server => false,
    };
    if !in_turn {
        return;
    }
    for part in &result.parts {
        // What a provider encrypted is known, only not to us.
        if let Part::Opaque { value, kind } = part
            && *kind != "encrypted"
        {
            let place = Place::Value { value: *value, range: None };
            report.find(&UNSUPPORTED_BLOCK, place, Evidence::Label { kind: "part", label: kind });
        }
    }
    let says_nothing = |part: &Part<'_>| match part {
        Part::Text(value) => holds_nothing(*value),
        // Gemini's output is an object: what it holds counts.
        Part::Json(value) => value.walk().all(|(value, is_key)| is_key || holds_nothing(value)),
        Part::Media { .. } | Part::Opaque { .. } => false,
    };
    if result.parts.iter().all(says_nothing) {
        report.find(&EMPTY_RESULT, Place::Value { value: result.item, range: None }, Evidence::None);
    }
}

fn holds_nothing(value: Value<'_>) -> bool {
    match value.kind() {
        Kind::String => value.text().is_none_or(|text| text.trim_ascii().is_empty()),
        Kind::Object | Kind::Array | Kind::Null => true,
        Kind::Number | Kind::Bool => false,
    }
}

fn check_request<'r>(request: &RequestSubject<'_, 'r>, view: &View<'_>, report: &mut Report<'r>) {
    let Some(provider) = view.provider else { return };
    if provider == Provider::AnthropicMessages {
        results_first(request, report);
    }
    // The last turn is what the model has not answered yet.
    let spoken = |party| matches!(party, Party::User | Party::Tool | Party::Unknown);
    let turns = request.turns.iter().rev().filter(|turn| turn.at.party != Party::System);
    let last = turns.take_while(|turn| spoken(turn.at.party));
    // By its wire one content holds both, or items of both kinds follow one another.
    let merged =
        matches!(provider, Provider::AnthropicMessages | Provider::GeminiGenerateContent | Provider::GeminiLive);
    let (mut others, mut first, mut results) = (0, None, 0);
    for turn in last {
        match turn.kind {
            TurnKind::Result(_) => results += 1,
            TurnKind::User(value) | TurnKind::Opaque { value, .. } if merged || results == 0 => {
                others += 1;
                first = Some(value);
            }
            _ => {}
        }
    }
    if let (Some(value), true) = (first, results > 0) {
        let place = Place::Value { value, range: None };
        report.find(&MIXED_TURN, place, Evidence::Count { found: others, limit: 0 });
    }
}

/// Anthropic takes text behind the results of a turn, not before them.
fn results_first<'r>(request: &RequestSubject<'_, 'r>, report: &mut Report<'r>) {
    let (mut before, mut group) = (None, None);
    let of_client = |at: usize| request.results.get(at).is_some_and(|r| r.item.shape != ResultShape::Server);
    for turn in request.turns.iter().filter(|turn| turn.at.party == Party::User) {
        if group != Some(turn.at.group) {
            (group, before) = (Some(turn.at.group), None);
        }
        match turn.kind {
            TurnKind::User(value) => before = before.or(Some(value)),
            TurnKind::Result(at) if of_client(at) => {
                if let Some(value) = before.take() {
                    let place = Place::Value { value, range: None };
                    let label = "tool_use ids were found without tool_result blocks immediately after";
                    report.find(&RESULTS_NOT_FIRST, place, Evidence::Label { kind: "refusal", label });
                }
            }
            _ => {}
        }
    }
}
