//! SG08: nothing acts on arguments that are not final.
//!
//! # What it checks
//! Calls that ended without becoming final, and starts and results of tools against the state of the call
//! that they name: `cut_call`, `started_before_final`, `acted_on_incomplete`, `acted_on_cancelled`,
//! `started_with_other_arguments`.
//!
//! # Why it matters
//! Every provider sends end markers on arguments that are cut. A file written from half a stream, or a
//! command list that a repairer closed, looks like success until somebody misses the other half.
//!
//! # Violates
//! - The response ends by `max_tokens` inside a call: `cut_call`, so that a host which waits is answered.
//! - `tool.started` arrives while the call's text is still being streamed: `started_before_final`.
//! - A call was cut and its result stands in the next request: `acted_on_incomplete`.
//! - The provider took a final call back (Live's `toolCallCancellation`) and its tool is started, or its result
//!   sent: `acted_on_cancelled`.
//! - The host's `arguments_sha256` is not that of the final text: `started_with_other_arguments`.
//!
//! ```example cut_call: anthropic.messages, openai.responses, openai.chat, xai.responses, xai.chat, gemini.generate_content
//! cut lookup {"q":"a"}
//! ```
//! ```example acted_on_incomplete: anthropic.messages, openai.responses, openai.chat, xai.responses, xai.chat, gemini.generate_content
//! cut lookup {"q":"a"}
//! start
//! ```
//! ```example started_before_final: anthropic.messages, openai.responses, openai.chat, xai.responses, xai.chat, gemini.generate_content
//! open lookup {"q":"a"}
//! start
//! ```
//! ```example started_with_other_arguments
//! call lookup {"q":"a"}
//! start other
//! ```
//! ```example acted_on_cancelled: gemini.live
//! call lookup {"q":"a"}
//! event model.chunk {"toolCallCancellation":{"ids":["call_1"]}}
//! result "late"
//! ```
//!
//! # Holds
//! - A call is final by the terminal table and the host starts it with the same digest.
//! - A cut call that was not started is answered by a result which says that it failed: the provider wants an
//!   answer for every call, and nothing was run.
//! - Starts of calls that nobody could have seen (a partial conversation, a history kept elsewhere, no
//!   response on the topic): `not_observed`, once a conversation (`no_call`; `no_starts` where the host does not
//!   tell of starts).
//!
//! ```example holds
//! call lookup {"q":"a"}
//! start
//! result "a is open"
//! ```
//!
//! # Options
//! None.
//!
//! # Source
//! Checklist item 8 and rule 6 of `untrusted-tool-outputs.md`; `provider-formats` §9; `field-bugs` 17 to 22.

use super::{
    CallSubject, Evidence, Meta, NOT_OBSERVED, Place, Policy, Profile, Report, ResultSubject, Rule, Severity,
    StartSubject, Subject, View,
};
use crate::engine::decision::Decision;
use crate::engine::event::{Executor, Failure, Provider, ResultShape};
use crate::engine::state::{Call, CallStatus, Exchange, ResponseState};
use serde::{Deserialize, Serialize};

const CUT_CALL: Rule = Rule {
    name: "cut_call",
    effect: Decision::Block,
    strict: Decision::Block,
    severity: Severity::High,
    message: "the call ended before its arguments were final; it must not run",
};
const STARTED_BEFORE_FINAL: Rule = Rule {
    name: "started_before_final",
    effect: Decision::Block,
    strict: Decision::Block,
    severity: Severity::Critical,
    message: "the tool was started or answered before the call's arguments were final",
};
const ACTED_ON_INCOMPLETE: Rule = Rule {
    name: "acted_on_incomplete",
    effect: Decision::Block,
    strict: Decision::Block,
    severity: Severity::Critical,
    message: "the call ended incomplete and was started or answered all the same",
};
const ACTED_ON_CANCELLED: Rule = Rule {
    name: "acted_on_cancelled",
    effect: Decision::Block,
    strict: Decision::Block,
    severity: Severity::High,
    message: "the provider took the call back, and it was started or answered all the same",
};
const STARTED_WITH_OTHER_ARGUMENTS: Rule = Rule {
    name: "started_with_other_arguments",
    effect: Decision::Block,
    strict: Decision::Block,
    severity: Severity::Critical,
    message: "the tool was started with arguments whose digest is not that of the final arguments",
};

/// The policy. Stateless: everything it needs is in the conversation.
pub struct FinalArguments;

/// None.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {}

impl Policy for FinalArguments {
    const META: Meta = Meta {
        code: "SG08",
        number: 8,
        name: "final_arguments",
        checklist: "item 8, rule 6",
        summary: "tools run only on arguments that are final",
        rules: &[
            CUT_CALL,
            STARTED_BEFORE_FINAL,
            ACTED_ON_INCOMPLETE,
            STARTED_WITH_OTHER_ARGUMENTS,
            NOT_OBSERVED,
            ACTED_ON_CANCELLED,
        ],
    };
    type Options = Options;

    fn new(_options: Options, _profile: Profile) -> Self {
        Self
    }

    fn check<'r>(&self, subject: &Subject<'_, 'r>, view: &View<'_>, report: &mut Report<'r>) {
        match subject {
            Subject::Call(call) => check_call(call, report),
            Subject::Start(start) => check_start(start, view, report),
            Subject::Result(result) => check_result(result, view, report),
            _ => {}
        }
    }
}

fn check_call<'r>(subject: &CallSubject<'_, 'r>, report: &mut Report<'r>) {
    let Some(reason) = subject.cut else { return };
    let label = Evidence::Label { kind: "cut", label: reason.label() };
    report.find(&CUT_CALL, Place::Whole, label);
    if subject.call.started || subject.call.answered {
        report.find(&ACTED_ON_INCOMPLETE, Place::Whole, label);
    }
}

fn check_start<'r>(subject: &StartSubject<'_, 'r>, view: &View<'_>, report: &mut Report<'r>) {
    let Some(call) = subject.call else {
        if is_blind(view) {
            report.not_observed(&FinalArguments::META, view, "no_call");
        } else {
            let label = Evidence::Label { kind: "call", label: "unknown" };
            report.find(&STARTED_BEFORE_FINAL, Place::Whole, label);
        }
        return;
    };
    check_status(call, report);
    let Some(given) = subject.started.arguments_sha256.filter(|given| !given.is_null()) else { return };
    if let (CallStatus::Final, Some(digest)) = (call.status, call.sha256)
        && !given.text().is_some_and(|text| is_hex_of(&text, &digest))
    {
        report.find(&STARTED_WITH_OTHER_ARGUMENTS, Place::Value { value: given, range: None }, Evidence::None);
    }
}

fn check_result<'r>(subject: &ResultSubject<'_, 'r>, view: &View<'_>, report: &mut Report<'r>) {
    if subject.result.shape == ResultShape::Server {
        return;
    }
    let Some(call) = subject.call else {
        if subject.result.shape == ResultShape::Host && !is_blind(view) {
            let label = Evidence::Label { kind: "call", label: "unknown" };
            report.find(&STARTED_BEFORE_FINAL, Place::Whole, label);
        } else {
            report.not_observed(&FinalArguments::META, view, "no_call");
        }
        return;
    };
    // A provider's own calls end with their answers, across turns if need be.
    if call.executor == Executor::Provider {
        return;
    }
    if !view.conversation.head.starts_seen {
        report.not_observed(&FinalArguments::META, view, "no_starts");
    }
    let says_not_run = subject.result.failure == Failure::Failed && !call.started;
    if !(matches!(call.status, CallStatus::Cut(_)) && says_not_run) {
        check_status(call, report);
    }
}

fn check_status(call: &Call, report: &mut Report<'_>) {
    if call.cancelled {
        report.find(&ACTED_ON_CANCELLED, Place::Whole, Evidence::None);
    }
    match call.status {
        CallStatus::Open => {
            let label = Evidence::Label { kind: "call", label: "open" };
            report.find(&STARTED_BEFORE_FINAL, Place::Whole, label);
        }
        CallStatus::Closed(_) => {
            let label = Evidence::Label { kind: "call", label: "closed" };
            report.find(&STARTED_BEFORE_FINAL, Place::Whole, label);
        }
        CallStatus::Cut(reason) => {
            let label = Evidence::Label { kind: "cut", label: reason.label() };
            report.find(&ACTED_ON_INCOMPLETE, Place::Whole, label);
        }
        CallStatus::Final => {}
    }
}

/// Whether a call can have ended without this conversation knowing of it.
fn is_blind(view: &View<'_>) -> bool {
    let conversation = view.conversation;
    // What an MCP client asks for says nothing of the model's responses.
    let of_model = |exchange: &Exchange| exchange.provider != Provider::Mcp;
    let called = |call: &Call| conversation.exchanges.get(&call.exchange).is_none_or(of_model);
    let answered = |exchange: &Exchange| of_model(exchange) && exchange.response != ResponseState::Awaited;
    let responses_seen = conversation.calls.values().any(called) || conversation.exchanges.values().any(answered);
    // A host names calls that have no id by one of its own.
    let nameless = conversation.calls.values().any(|call| call.effective_id().is_empty());
    conversation.head.partial
        || nameless
        || !responses_seen
        || view.exchange.is_some_and(|exchange| exchange.elsewhere)
        || conversation.exchanges.values().any(|exchange| exchange.elsewhere)
}

fn is_hex_of(text: &[u8], digest: &[u8; 32]) -> bool {
    let nibble = |byte: u8| char::from(byte).to_digit(16);
    text.len() == 64
        && text.chunks_exact(2).zip(digest).all(|(pair, byte)| {
            nibble(pair[0]).zip(nibble(pair[1])).is_some_and(|(high, low)| high * 16 + low == u32::from(*byte))
        })
}
