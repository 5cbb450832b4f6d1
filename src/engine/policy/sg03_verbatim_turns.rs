//! SG03: the model's turns come back as the provider signed them.
//!
//! # What it checks
//! The parts that a provider signed or encrypted in its responses, against what the next request sends back of them:
//! Gemini's `thoughtSignature`, Anthropic's `thinking` and `redacted_thinking` blocks, OpenAI's and xAI's
//! `reasoning.encrypted_content`. Digests of them, and where they stood, are kept in the conversation's state.
//! Compared is the open tool loop: what stands behind the user's last words.
//!
//! - `missing_signature`: a part that was signed comes back without it, where the API refuses that: Gemini 3 and later,
//!   the first call of a parallel set; Anthropic, thinking inside the open loop.
//! - `altered_signature`: another signature stands in its place, or the thinking that it signs is another text.
//! - `moved_signature`: Gemini's signature stands inside `functionCall` instead of beside it, or on another part.
//! - `reordered_parts`: a signed part and others of its response changed places; with OpenAI, a reasoning item lost
//!   the item that it led to.
//! - `altered_call`: name or arguments of a signed call are others.
//! - `synthetic_signature`: one of the placeholders that Google published for history that Gemini did not write.
//! - `tolerated_difference`: a signature was left out where the API takes that.
//! - `split_parallel_answers`, `response_not_object`: Gemini wants the answers to a turn's calls in one content, in
//!   their order, each an object. A scalar or list is put under `result`.
//!
//! Signatures are compared decoded, in either alphabet of base64, padded or not. Arguments are compared as values:
//! order of members, escapes and spelling of numbers do not count.
//!
//! # Why it matters
//! A client that rebuilds the model's turn from its own records loses what the provider needs to go on: the request
//! is refused, or the model continues without its own reasoning. A turn that differs from what the model said is also
//! how words are put in its mouth.
//!
//! # Violates
//! ```example missing_signature: gemini.generate_content
//! event model.response {"modelVersion":"gemini-3-pro","responseId":"r1","candidates":[{"index":0,"finishReason":"STOP","content":{"role":"model","parts":[{"functionCall":{"name":"lookup","args":{"q":"a"}},"thoughtSignature":"c2lnbmVk"}]}}]}
//! event model.request {"contents":[{"role":"user","parts":[{"text":"go on"}]},{"role":"model","parts":[{"functionCall":{"name":"lookup","args":{"q":"a"}}}]},{"role":"user","parts":[{"functionResponse":{"name":"lookup","response":{"result":"open"}}}]}]}
//! ```
//! ```example missing_signature: anthropic.messages
//! event model.response {"type":"message","id":"msg_1","role":"assistant","stop_reason":"tool_use","content":[{"type":"thinking","thinking":"look it up","signature":"c2lnbmVk"},{"type":"tool_use","id":"toolu_1","name":"lookup","input":{}}]}
//! event model.request {"messages":[{"role":"user","content":"go on"},{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"lookup","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"open"}]}]}
//! ```
//! ```example altered_signature: anthropic.messages
//! event model.response {"type":"message","id":"msg_1","role":"assistant","stop_reason":"tool_use","content":[{"type":"thinking","thinking":"look it up","signature":"c2lnbmVk"},{"type":"tool_use","id":"toolu_1","name":"lookup","input":{}}]}
//! event model.request {"messages":[{"role":"user","content":"go on"},{"role":"assistant","content":[{"type":"thinking","thinking":"leave it","signature":"c2lnbmVk"},{"type":"tool_use","id":"toolu_1","name":"lookup","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"open"}]}]}
//! ```
//! ```example altered_signature: openai.responses, xai.responses
//! event model.response {"object":"response","id":"resp_1","status":"completed","output":[{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"c2lnbmVk"},{"type":"function_call","id":"fc_1","call_id":"call_1","name":"lookup","arguments":"{}","status":"completed"}]}
//! event model.request {"input":[{"role":"user","content":"go on"},{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"b3RoZXI="},{"type":"function_call","id":"fc_1","call_id":"call_1","name":"lookup","arguments":"{}"},{"type":"function_call_output","call_id":"call_1","output":"open"}]}
//! ```
//! ```example altered_signature: gemini.generate_content
//! event model.response {"responseId":"r1","candidates":[{"index":0,"finishReason":"STOP","content":{"role":"model","parts":[{"functionCall":{"name":"lookup","args":{"q":"a"}},"thoughtSignature":"c2lnbmVk"}]}}]}
//! event model.request {"contents":[{"role":"user","parts":[{"text":"go on"}]},{"role":"model","parts":[{"functionCall":{"name":"lookup","args":{"q":"a"}},"thoughtSignature":"b3RoZXI="}]},{"role":"user","parts":[{"functionResponse":{"name":"lookup","response":{"result":"open"}}}]}]}
//! ```
//! ```example moved_signature: gemini.generate_content
//! event model.request {"contents":[{"role":"user","parts":[{"text":"go on"}]},{"role":"model","parts":[{"functionCall":{"name":"lookup","args":{},"thoughtSignature":"c2lnbmVk"}}]},{"role":"user","parts":[{"functionResponse":{"name":"lookup","response":{"result":"open"}}}]}]}
//! ```
//! ```example reordered_parts: anthropic.messages
//! event model.response {"type":"message","id":"msg_1","role":"assistant","stop_reason":"tool_use","content":[{"type":"thinking","thinking":"look it up","signature":"c2lnbmVk"},{"type":"tool_use","id":"toolu_1","name":"lookup","input":{}}]}
//! event model.request {"messages":[{"role":"user","content":"go on"},{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"lookup","input":{}},{"type":"thinking","thinking":"look it up","signature":"c2lnbmVk"}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"open"}]}]}
//! ```
//! ```example reordered_parts: openai.responses, xai.responses
//! event model.response {"object":"response","id":"resp_1","status":"completed","output":[{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"c2lnbmVk"},{"type":"function_call","id":"fc_1","call_id":"call_1","name":"lookup","arguments":"{}","status":"completed"}]}
//! event model.request {"input":[{"role":"user","content":"go on"},{"type":"function_call","id":"fc_1","call_id":"call_1","name":"lookup","arguments":"{}"},{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"c2lnbmVk"},{"type":"function_call_output","call_id":"call_1","output":"open"}]}
//! ```
//! ```example reordered_parts: gemini.generate_content
//! event model.response {"responseId":"r1","candidates":[{"index":0,"finishReason":"STOP","content":{"role":"model","parts":[{"functionCall":{"name":"lookup","args":{"q":"a"}},"thoughtSignature":"c2lnbmVk"},{"functionCall":{"name":"lookup","args":{"q":"b"}}}]}}]}
//! event model.request {"contents":[{"role":"user","parts":[{"text":"go on"}]},{"role":"model","parts":[{"functionCall":{"name":"lookup","args":{"q":"b"}}},{"functionCall":{"name":"lookup","args":{"q":"a"}},"thoughtSignature":"c2lnbmVk"}]},{"role":"user","parts":[{"functionResponse":{"name":"lookup","response":{"result":"shut"}}},{"functionResponse":{"name":"lookup","response":{"result":"open"}}}]}]}
//! ```
//! ```example altered_call: gemini.generate_content
//! event model.response {"responseId":"r1","candidates":[{"index":0,"finishReason":"STOP","content":{"role":"model","parts":[{"functionCall":{"name":"lookup","args":{"q":"a"}},"thoughtSignature":"c2lnbmVk"}]}}]}
//! event model.request {"contents":[{"role":"user","parts":[{"text":"go on"}]},{"role":"model","parts":[{"functionCall":{"name":"lookup","args":{"q":"b"}},"thoughtSignature":"c2lnbmVk"}]},{"role":"user","parts":[{"functionResponse":{"name":"lookup","response":{"result":"open"}}}]}]}
//! ```
//! ```example synthetic_signature: gemini.generate_content
//! profile strict
//! event model.request {"contents":[{"role":"user","parts":[{"text":"go on"}]},{"role":"model","parts":[{"functionCall":{"name":"lookup","args":{}},"thoughtSignature":"skip_thought_signature_validator"}]},{"role":"user","parts":[{"functionResponse":{"name":"lookup","response":{"result":"open"}}}]}]}
//! ```
//! ```example tolerated_difference: gemini.generate_content
//! event model.response {"modelVersion":"gemini-2.5-flash","responseId":"r1","candidates":[{"index":0,"finishReason":"STOP","content":{"role":"model","parts":[{"functionCall":{"name":"lookup","args":{"q":"a"}},"thoughtSignature":"c2lnbmVk"}]}}]}
//! event model.request {"contents":[{"role":"user","parts":[{"text":"go on"}]},{"role":"model","parts":[{"functionCall":{"name":"lookup","args":{"q":"a"}}}]},{"role":"user","parts":[{"functionResponse":{"name":"lookup","response":{"result":"open"}}}]}]}
//! ```
//! ```example split_parallel_answers: gemini.generate_content
//! event model.request {"contents":[{"role":"user","parts":[{"text":"go on"}]},{"role":"model","parts":[{"functionCall":{"name":"a","args":{}}},{"functionCall":{"name":"b","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"name":"a","response":{"result":"open"}}}]},{"role":"user","parts":[{"functionResponse":{"name":"b","response":{"result":"shut"}}}]}]}
//! ```
//! ```example response_not_object: gemini.generate_content
//! event model.request {"contents":[{"role":"user","parts":[{"text":"go on"}]},{"role":"model","parts":[{"functionCall":{"name":"lookup","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"name":"lookup","response":"open"}}]}]}
//! ```
//! ```example response_not_object: gemini.live
//! event model.request {"toolResponse":{"functionResponses":[{"id":"1","name":"lookup","response":"open"}]}}
//! ```
//!
//! # Holds
//! - Only the first of parallel calls is signed, and only that one is asked for.
//! - Differences in `caller`, `cache_control`, citations, ids and empty text; signatures written in the other base64.
//! - Turns before the user's last words: providers leave out or ignore what was signed of them.
//! - Reasoning that OpenAI or xAI keeps themselves (`previous_response_id`, stored items).
//! - A turn written as several messages of one role.
//! - A turn whose response was not seen: only what the request itself shows is held against it (thinking without the
//!   member `signature`, a first call without one where the request names Gemini 3, a signature inside its call);
//!   else `not_observed`, once a conversation.
//! - Anything of Gemini 2, which signs and does not ask for it: `tolerated_difference`. A copy of a signature on
//!   another call of the turn, beside the original, is one too.
//!
//! ```example holds: anthropic.messages
//! event model.response {"type":"message","id":"msg_1","role":"assistant","stop_reason":"tool_use","content":[{"type":"thinking","thinking":"look it up","signature":"c2lnbmVk"},{"type":"tool_use","id":"toolu_1","name":"lookup","input":{},"caller":{"type":"direct"}}]}
//! event model.request {"messages":[{"role":"user","content":"go on"},{"role":"assistant","content":[{"type":"thinking","thinking":"look it up","signature":"c2lnbmVk"},{"type":"tool_use","id":"toolu_1","name":"lookup","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"open"}]}]}
//! ```
//! ```example holds: openai.responses, xai.responses
//! event model.response {"object":"response","id":"resp_1","status":"completed","output":[{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"c2lnbmVk"},{"type":"function_call","id":"fc_1","call_id":"call_1","name":"lookup","arguments":"{}","status":"completed"}]}
//! event model.request {"input":[{"role":"user","content":"go on"},{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"c2lnbmVk"},{"type":"function_call","id":"fc_1","call_id":"call_1","name":"lookup","arguments":"{}"},{"type":"function_call_output","call_id":"call_1","output":"open"}]}
//! ```
//! ```example holds: gemini.generate_content
//! event model.response {"modelVersion":"gemini-3-pro","responseId":"r1","candidates":[{"index":0,"finishReason":"STOP","content":{"role":"model","parts":[{"functionCall":{"name":"lookup","args":{"q":"a"}},"thoughtSignature":"-_-_"},{"functionCall":{"name":"lookup","args":{"q":"b"}}}]}}]}
//! event model.request {"contents":[{"role":"user","parts":[{"text":"go on"}]},{"role":"model","parts":[{"functionCall":{"name":"lookup","args":{"q":"a"}},"thoughtSignature":"+/+/"},{"functionCall":{"name":"lookup","args":{"q":"b"}}}]},{"role":"user","parts":[{"functionResponse":{"name":"lookup","response":{"result":"open"}}},{"functionResponse":{"name":"lookup","response":{"result":"shut"}}}]}]}
//! ```
//! ```example holds: gemini.live
//! event model.request {"toolResponse":{"functionResponses":[{"id":"1","name":"lookup","response":{"result":"open"}}]}}
//! ```
//!
//! # Does not apply
//! - `openai.chat`, `xai.chat`: their messages have no signed parts
//! - `mcp`: it carries no model's turn
//!
//! # Options
//! None.
//!
//! # Source
//! Checklist item 3 and rows *Multiple results* and *Result item* of `untrusted-tool-outputs.md`; `provider-formats`
//! §2.3, §2.6, §4.6, §6.4, §6.6, §11. Of 99 recorded signatures 23 came back re-encoded, 22 of them were accepted.

mod answers;
mod echo;
mod known;

use super::{Evidence, Meta, NOT_OBSERVED, Place, Policy, Profile, Report, Rule, Severity, Subject, View};
use crate::engine::decision::Decision;
use crate::engine::event::Provider;
use crate::engine::json::Value;
use serde::{Deserialize, Serialize};

const fn rule(name: &'static str, message: &'static str) -> Rule {
    Rule { name, effect: Decision::Block, strict: Decision::Block, severity: Severity::High, message }
}

const MISSING_SIGNATURE: Rule =
    rule("missing_signature", "what the provider signed comes back without its signature; the API refuses the request");
const ALTERED_SIGNATURE: Rule = rule(
    "altered_signature",
    "a signature, or the thinking that it signs, is not what the provider sent; the API refuses the request",
);
const MOVED_SIGNATURE: Rule =
    rule("moved_signature", "a signature does not stand where the provider put it; the API refuses the request");
const REORDERED_PARTS: Rule =
    rule("reordered_parts", "a signed part does not stand where it stood in its turn; the API refuses the request");
const ALTERED_CALL: Rule =
    rule("altered_call", "name or arguments of a signed call are not what the model said; the API refuses the request");
const SYNTHETIC_SIGNATURE: Rule = Rule {
    name: "synthetic_signature",
    effect: Decision::Allow,
    strict: Decision::Block,
    severity: Severity::Low,
    message: "a placeholder stands in place of a signature; this turn was not written by the model",
};
const TOLERATED_DIFFERENCE: Rule = Rule {
    name: "tolerated_difference",
    effect: Decision::Allow,
    strict: Decision::Allow,
    severity: Severity::Low,
    message: "what the provider signed was left out where its API takes that; the model goes on without it",
};
const SPLIT_PARALLEL_ANSWERS: Rule = rule(
    "split_parallel_answers",
    "the answers to parallel calls do not stand in one content in the order of the calls; the API refuses the request",
);
const RESPONSE_NOT_OBJECT: Rule = Rule {
    name: "response_not_object",
    effect: Decision::Redact,
    strict: Decision::Redact,
    severity: Severity::Medium,
    message: "a function's response is no object; it is put into one",
};
/// The policy. Stateless: everything it needs is in the request and the conversation.
pub struct VerbatimTurns;

/// None.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {}

impl Policy for VerbatimTurns {
    const META: Meta = Meta {
        code: "SG03",
        number: 3,
        name: "verbatim_turns",
        checklist: "item 3",
        summary: "the model's turns come back as the provider signed them",
        rules: &[
            MISSING_SIGNATURE,
            ALTERED_SIGNATURE,
            MOVED_SIGNATURE,
            REORDERED_PARTS,
            ALTERED_CALL,
            SYNTHETIC_SIGNATURE,
            TOLERATED_DIFFERENCE,
            SPLIT_PARALLEL_ANSWERS,
            RESPONSE_NOT_OBJECT,
            NOT_OBSERVED,
        ],
    };
    type Options = Options;

    fn new(_options: Options, _profile: Profile) -> Self {
        Self
    }

    fn check<'r>(&self, subject: &Subject<'_, 'r>, view: &View<'_>, report: &mut Report<'r>) {
        let request = match subject {
            Subject::Result(result) => return answers::check_result(result, report),
            Subject::Request(request) => *request,
            _ => return,
        };
        let Some(provider) = view.provider else { return };
        let signs = matches!(
            provider,
            Provider::AnthropicMessages
                | Provider::OpenAiResponses
                | Provider::XaiResponses
                | Provider::GeminiGenerateContent
        );
        if !signs {
            return;
        }
        for turn in request.turns.iter().filter(|turn| turn.placeholder) {
            let place = Place::Value { value: turn.at.whole, range: None };
            report.find(&SYNTHETIC_SIGNATURE, place, Evidence::None);
        }
        let mut said = Said { report, tolerated: None, unseen: false };
        echo::check(request, view, provider, &mut said);
        if provider == Provider::GeminiGenerateContent {
            answers::check(request, &mut said);
        }
        let Said { report, tolerated, unseen } = said;
        if let Some((place, found)) = tolerated {
            let place = Place::Value { value: place, range: None };
            report.find(&TOLERATED_DIFFERENCE, place, Evidence::Count { found, limit: 0 });
        }
        if unseen {
            report.not_observed(&Self::META, view, "no_response");
        }
    }
}

/// What is said of a request.
struct Said<'a, 'r> {
    report: &'a mut Report<'r>,
    /// The first difference that the API takes, and how many there are.
    tolerated: Option<(Value<'r>, u64)>,
    /// A turn's response was not seen.
    unseen: bool,
}

impl<'r> Said<'_, 'r> {
    fn tolerate(&mut self, place: Value<'r>) {
        let (_, count) = self.tolerated.get_or_insert((place, 0));
        *count += 1;
    }
    /// What is wrong with a part, and what the API would say of it.
    fn refuse(&mut self, rule: &'static Rule, item: Value<'r>, label: &'static str) {
        let place = Place::Value { value: item, range: None };
        self.report.find(rule, place, Evidence::Label { kind: "refusal", label });
    }
}
