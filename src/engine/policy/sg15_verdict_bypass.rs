//! SG15: what a host does is what the verdicts allow.
//!
//! # What it checks
//! Starts, results and requests against verdicts that stood before them:
//! - `started_despite_block` (block): the tool was started, or an output came, for a final call whose verdict's action
//!   was `block`. An output that says that its tool failed, by the provider's own means or by `[TOOL ERROR]`, is
//!   what a host that obeys sends for such a call, and is none of these.
//! - `blocked_result_forwarded`, `unredacted_result_forwarded` (block): a request carries the very content of an
//!   output for which its host was given an error form, or a copy with something taken out.
//! - `started_before_verdict` (monitor; `strict` blocks): the start came ahead of the record that made its call final,
//!   so no verdict can have been waited for.
//! - `not_observed`: the host tells of no starts (`no_starts`), so that only outputs are held against verdicts.
//!
//! # Why it matters
//! A gate that is skipped by one code path, or that fails open after its deadline, leaves every dashboard green: the
//! verdict says `block`, and the tool ran. This is the policy that tells the two apart. Every finding counts in
//! `bypasses_total`, whose alert is worth a page.
//!
//! # Violates
//! - A call is blocked for its arguments and the host starts it: `started_despite_block`.
//! - The host publishes a raw output, is given its error form, and sends the output to the model: the request is
//!   blocked with `blocked_result_forwarded`; the finding stands at the output in the request.
//! - The output was cut and the whole of it stands in the request: `unredacted_result_forwarded`.
//! - A start overtakes its call's last chunk: it waits for `limits.reorder_window_ms`, then `started_before_verdict`.
//!   Two producers may have swapped them, hence the monitor. Where nothing waits (a window of 0), and where the end
//!   does not come in time, it is SG08's `started_before_final`.
//!
//! ```example started_despite_block
//! tool lookup {"type":"object","properties":{"q":{"type":"string"}},"required":["q"]}
//! call lookup {}
//! start
//! ```
//! ```example started_despite_block: anthropic.messages, openai.responses, openai.chat, xai.responses, xai.chat, gemini.generate_content
//! tool lookup {"type":"object","properties":{"q":{"type":"string"}},"required":["q"]}
//! call lookup {}
//! result "a is open"
//! ```
//! ```example blocked_result_forwarded: anthropic.messages, openai.responses, openai.chat, xai.responses, xai.chat, gemini.generate_content
//! call lookup {"q":"a"}
//! host "<<2097153*x>>"
//! result "<<2097153*x>>"
//! ```
//! ```example unredacted_result_forwarded: anthropic.messages, openai.responses, openai.chat, xai.responses, xai.chat, gemini.generate_content
//! call lookup {"q":"a"}
//! host "<<70000*x>>"
//! result "<<70000*x>>"
//! ```
//!
//! # Holds
//! - A blocked call is answered by an error that the host wrote itself; it was not started.
//! - The request carries the copy that the host was given, or an output that no event of its own told of: then the
//!   request itself is what its results are judged by, and its copy is what is sent.
//! - A redaction that only put something around the output (its source) kept nothing back: the bare output is no
//!   bypass.
//! - A verdict whose action was `allow` under `monitor` binds nobody. Cut calls are SG08's.
//!
//! ```example holds
//! tool lookup {"type":"object","properties":{"q":{"type":"string"}},"required":["q"]}
//! call lookup {}
//! error "[TOOL ERROR] not run: blocked"
//! ```
//! ```example holds
//! call lookup {"q":"a"}
//! start
//! host "a is open"
//! result "a is open"
//! ```
//! ```example holds
//! call lookup {"q":"a"}
//! result "<<70000*x>>"
//! again
//! ```
//!
//! # Options
//! None.
//!
//! # Source
//! `POLICIES` SG15 (what enforcement means); `CONTRACT` §5: what a host did against a verdict is itself judged.

use super::results::says_failed;
use super::{
    Evidence, Meta, NOT_OBSERVED, Place, Policy, Profile, Report, RequestSubject, ResultSubject, Rule, Severity,
    StartSubject, Subject, View,
};
use crate::engine::decision::Decision;
use crate::engine::event::{Executor, Provider, ResultShape};
use crate::engine::state::{Call, CallStatus};
use serde::{Deserialize, Serialize};

const STARTED_DESPITE_BLOCK: Rule = Rule {
    name: "started_despite_block",
    effect: Decision::Block,
    strict: Decision::Block,
    severity: Severity::Critical,
    message: "the call was blocked, and it was started or answered all the same; its host does not obey",
};
const STARTED_BEFORE_VERDICT: Rule = Rule {
    name: "started_before_verdict",
    effect: Decision::Allow,
    strict: Decision::Block,
    severity: Severity::Medium,
    message: "the tool was started before the call could have a verdict; its host does not wait",
};
const BLOCKED_RESULT_FORWARDED: Rule = Rule {
    name: "blocked_result_forwarded",
    effect: Decision::Block,
    strict: Decision::Block,
    severity: Severity::Critical,
    message: "a blocked output stands in a request as it was; the request is withheld",
};
const UNREDACTED_RESULT_FORWARDED: Rule = Rule {
    name: "unredacted_result_forwarded",
    effect: Decision::Block,
    strict: Decision::Block,
    severity: Severity::Critical,
    message: "an output stands in a request as it was before its redaction; the request is withheld",
};
/// The policy. Stateless: verdicts and copies are facts of the conversation.
pub struct VerdictBypass;

/// None.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {}

impl Policy for VerdictBypass {
    const META: Meta = Meta {
        code: "SG15",
        number: 15,
        name: "verdict_bypass",
        checklist: "what enforcement means",
        summary: "hosts do what the verdicts allow, and nothing else",
        rules: &[
            STARTED_DESPITE_BLOCK,
            STARTED_BEFORE_VERDICT,
            BLOCKED_RESULT_FORWARDED,
            UNREDACTED_RESULT_FORWARDED,
            NOT_OBSERVED,
        ],
    };
    type Options = Options;

    fn new(_options: Options, _profile: Profile) -> Self {
        Self
    }

    fn check<'r>(&self, subject: &Subject<'_, 'r>, view: &View<'_>, report: &mut Report<'r>) {
        match subject {
            Subject::Start(start) => check_start(start, report),
            Subject::Result(result) => check_result(result, view, report),
            Subject::Request(request) => check_request(request, report),
            _ => {}
        }
    }
}

/// A final call that was not to run.
fn is_blocked(call: &Call) -> bool {
    call.status == CallStatus::Final && call.executor == Executor::Client && call.action == Some(Decision::Block)
}

fn check_start<'r>(subject: &StartSubject<'_, 'r>, report: &mut Report<'r>) {
    let Some(call) = subject.call else { return };
    if is_blocked(call) {
        let label = Evidence::Label { kind: "host", label: "started" };
        report.find(&STARTED_DESPITE_BLOCK, Place::Whole, label);
    } else if subject.early && call.status == CallStatus::Final {
        report.find(&STARTED_BEFORE_VERDICT, Place::Whole, Evidence::None);
    }
}

fn check_result<'r>(subject: &ResultSubject<'_, 'r>, view: &View<'_>, report: &mut Report<'r>) {
    let Some(call) = subject.call.filter(|_| subject.result.shape != ResultShape::Server) else { return };
    if call.executor == Executor::Provider {
        return;
    }
    // What an MCP client asks for is the start itself.
    let exchange = view.conversation.exchanges.get(&call.exchange);
    if !view.conversation.head.starts_seen && exchange.is_some_and(|exchange| exchange.provider != Provider::Mcp) {
        report.not_observed(&VerdictBypass::META, view, "no_starts");
    }
    // Providers want an answer for every call: for one that was not run, an error.
    if is_blocked(call) && !says_failed(subject.result) {
        let label = Evidence::Label { kind: "host", label: "answered" };
        report.find(&STARTED_DESPITE_BLOCK, Place::Whole, label);
    }
}

fn check_request<'r>(subject: &RequestSubject<'_, 'r>, report: &mut Report<'r>) {
    for result in subject.results {
        let rule = match result.withheld {
            Decision::Allow => continue,
            Decision::Redact => &UNREDACTED_RESULT_FORWARDED,
            Decision::Block => &BLOCKED_RESULT_FORWARDED,
        };
        report.find(rule, Place::Value { value: result.item.item, range: None }, Evidence::None);
    }
}
