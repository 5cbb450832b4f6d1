//! SG02: a failed tool says so by its provider's means, and says no more than its reader needs.
//!
//! # What it checks
//! An output is known to have failed from its host (`outcome: error`), from an MCP answer (`isError`, a JSON-RPC
//! `error`) of the same tool with the same text, or from its own flag: Anthropic `is_error`, Gemini `{"error": …}`, a
//! shell's `outcome`, `[TOOL ERROR]` before the text elsewhere.
//! - `unflagged_failure` (redact): the failure is known, and the output does not say it by its provider's means; the
//!   copy adds the flag. Where only the text reads like a failure (`Error:`, `Traceback`, `panicked at`), and where
//!   no flag can be added, it is said and nothing more.
//! - `flag_without_failure` (monitor): flagged, and its host said that the tool did well.
//! - `contradicting_signals` (monitor): flagged as good beside `[TOOL ERROR]`; Gemini's `error` beside `output`.
//!
//! In failed outputs (those of tools that the provider ran are read already, so there all is only said):
//! - `stack_trace` (redact): traces of Python, Java and Kotlin, JavaScript, Go, Rust, C#, Ruby, PHP, Dart, C and C++
//!   sanitizers, and what SQL engines quote. Of each stay type and first line, and
//!   what is left is looked at again until nothing goes, so that a copy is not changed once more.
//! - `internal_path`, `internal_host` (redact): paths of machines and home directories; private addresses, names of
//!   private networks. They become `[path]` and `[host]`, also in what stays of a trace.
//! - `secret_in_failure` (redact): credentials, passwords, keys, as SG11 finds them and with its placeholders.
//!
//! Diagnostic outputs (shell, code execution, test runners) keep their text, which an agent needs to mend what failed:
//! there traces are said only (`strict`: redacted), paths and hosts are not looked for, and secrets are redacted.
//! - `not_observed`: neither a host's event nor the output in a request tells how the tool ended.
//!
//! # Why it matters
//! A model that takes an error for an answer acts on it. Traces tell whoever steers the conversation file names,
//! versions, hosts and queries, and push what matters out of the context.
//!
//! # Violates
//! - `tool.result` says `outcome: error`; the request carries the text without `is_error`, without `[TOOL ERROR]`.
//! - `Traceback … TimeoutError: no answer` as an error's text: `TimeoutError: no answer` is left.
//! - `connect ECONNREFUSED 10.2.0.7:5432`: `connect ECONNREFUSED [host]`.
//!
//! ```example unflagged_failure: anthropic.messages, openai.responses, openai.chat, xai.responses, xai.chat, gemini.generate_content, gemini.live
//! call lookup {"q":"a"}
//! host-error "no such row"
//! result "no such row"
//! ```
//! ```example unflagged_failure: openai.responses, xai.responses
//! event tool.result {"call_id":"a","outcome":"error","content":"no such file"}
//! event model.request {"input":[{"type":"shell_call","call_id":"a","action":{"commands":["ls x"]},"status":"completed"},{"type":"shell_call_output","call_id":"a","output":[{"stdout":"no such file","stderr":"","outcome":{"type":"exit","exit_code":0}}]}]}
//! ```
//! ```example unflagged_failure, not_observed: anthropic.messages, openai.responses, openai.chat, xai.responses, xai.chat
//! call lookup {"q":"b"}
//! result "a is open"
//! call lookup {"q":"a"}
//! result "Error: no such row"
//! ```
//! ```example flag_without_failure: anthropic.messages, openai.responses, openai.chat, xai.responses, xai.chat, gemini.generate_content, gemini.live
//! call lookup {"q":"a"}
//! host "no such row"
//! error "no such row"
//! ```
//! ```example contradicting_signals
//! host "[TOOL ERROR] no such row"
//! ```
//! ```example contradicting_signals: gemini.generate_content
//! event model.request {"contents":[{"role":"model","parts":[{"functionCall":{"name":"pay","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"name":"pay","response":{"output":"paid","error":"not paid"}}}]}]}
//! ```
//! ```example stack_trace
//! call run_job {"n":1}
//! error "Traceback (most recent call last):\n  File \"/home/app/jobs/run.py\", line 4, in main\n    connect()\nTimeoutError: no answer"
//! ```
//! ```example stack_trace, internal_path
//! host-error "java.io.IOException: cannot open /srv/app/conf/a.yml\n\tat com.example.Conf.read(Conf.java:12)\n\tat com.example.Main.main(Main.java:3)\nstopped, see /var/log/app/a.log"
//! ```
//! ```example secret_in_failure
//! call lookup {"q":"a"}
//! error "cannot log in with password=n0t-r3al-at-all"
//! ```
//! ```example internal_path, internal_host
//! call lookup {"q":"a"}
//! error "cannot read /home/deploy/app/key.yml: connect ECONNREFUSED 10.2.0.7:5432"
//! ```
//!
//! # Holds
//! - `{"type":"tool_result","is_error":true,"content":"no such row"}`.
//! - A trace in the output of a shell or of a test runner; one in a page that was fetched without an error.
//! - A public address, a path below a web host.
//!
//! ```example holds
//! call lookup {"q":"a"}
//! host-error "no such row"
//! error "no such row"
//! ```
//! ```example holds
//! call run_tests {"q":"a"}
//! error "Traceback (most recent call last):\n  File \"/home/app/jobs/run.py\", line 4, in main\n    connect()\nTimeoutError: no answer"
//! ```
//! ```example holds
//! call lookup {"q":"a"}
//! result "how to read a trace:\nTraceback (most recent call last):\n  File \"/home/app/jobs/run.py\", line 4, in main\n    connect()\nTimeoutError: no answer"
//! ```
//!
//! # Options
//! - `output_is_diagnostic`: further tools whose output is diagnostic, as names with `*` for any run of characters
//!   (none; at most 256 of 128 bytes). Known are `bash`, `shell`, `local_shell`, `terminal`, code execution under its
//!   usual names, and tools named `*run_test*`, `*pytest*`, `*test_runner*`.
//! - `keep_bytes` (2 048; 256 to 65 536): what stays of a trace's first line at most. What stands beside a trace
//!   stays whole.
//!
//! # Source
//! Checklist item 2, rule 3 and row *Signalling failure* of `untrusted-tool-outputs.md`; `provider-formats` §2.6, §4.6,
//! §5.6. Anthropic refuses `is_error` beside anything but text (`all content must be type 'text' if 'is_error' is true`),
//! so that there no flag is added.

mod flag;
mod settle;

use super::globs;
use super::placeholders::Placeholders;
use super::results::{ERROR_PREFIX, first_text, has_error_prefix, says_failed, tool_name};
use super::{
    Evidence, Meta, OptionsProblem, Place, Policy, Profile, Report, ResultSubject, Rule, Severity, Subject, View,
};
use crate::engine::decision::{Checkpoint, Decision};
use crate::engine::event::{Failure, Provider, ResultItem, ResultShape};
use crate::engine::scan::internal::{self, Kind};
use crate::engine::scan::text::{Role, Text};
use crate::engine::scan::traces::{self, Trace};
use crate::engine::state::ResultFact;
use serde::{Deserialize, Serialize};
use settle::Wanted;

/// Tools whose output is for whoever mends what failed.
const DIAGNOSTIC: [&str; 19] = [
    "bash",
    "Bash",
    "shell",
    "local_shell",
    "terminal",
    "run_command",
    "execute_command",
    "run_shell_command",
    "code_execution",
    "bash_code_execution",
    "code_interpreter",
    "python",
    "run_code",
    "execute_code",
    "exec_command",
    "*run_test*",
    "*pytest*",
    "*test_runner*",
    "run_in_terminal",
];
/// Findings of one rule in one output; all of them are redacted.
const MOST_FOUND: usize = 16;

const fn rule(name: &'static str, effect: Decision, severity: Severity, message: &'static str) -> Rule {
    Rule { name, effect, strict: effect, severity, message }
}

const UNFLAGGED_FAILURE: Rule = rule(
    "unflagged_failure",
    Decision::Redact,
    Severity::Medium,
    "the tool failed and its output does not say so by the provider's means; the model takes it for an answer",
);
const FLAG_WITHOUT_FAILURE: Rule = rule(
    "flag_without_failure",
    Decision::Allow,
    Severity::Low,
    "the output is flagged as an error, and its host said that the tool did well",
);
const CONTRADICTING_SIGNALS: Rule = rule(
    "contradicting_signals",
    Decision::Allow,
    Severity::Low,
    "the output says both that the tool failed and that it did not",
);
const STACK_TRACE: Rule = rule(
    "stack_trace",
    Decision::Redact,
    Severity::Medium,
    "a stack trace stands in a failed output; its type and first line are kept",
);
const INTERNAL_PATH: Rule =
    rule("internal_path", Decision::Redact, Severity::Low, "a path of a machine stands in a failed output");
const INTERNAL_HOST: Rule = rule(
    "internal_host",
    Decision::Redact,
    Severity::Low,
    "an address or name of a private network stands in a failed output",
);
const SECRET_IN_FAILURE: Rule =
    rule("secret_in_failure", Decision::Redact, Severity::High, "a secret stands in a failed output; it is replaced");
const NOT_OBSERVED: Rule = rule(
    "not_observed",
    Decision::Allow,
    Severity::Low,
    "what this policy needs was not seen, so it cannot tell whether the tool failed",
);

/// The policy.
pub struct FailureSignals {
    options: Options,
    strict: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    pub output_is_diagnostic: Vec<String>,
    pub keep_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { output_is_diagnostic: Vec::new(), keep_bytes: 2 << 10 }
    }
}

impl Policy for FailureSignals {
    const META: Meta = Meta {
        code: "SG02",
        number: 2,
        name: "failure_signals",
        checklist: "item 2, rule 3, row Signalling failure",
        summary: "failures are flagged, without traces, paths and hosts",
        rules: &[
            UNFLAGGED_FAILURE,
            FLAG_WITHOUT_FAILURE,
            CONTRADICTING_SIGNALS,
            STACK_TRACE,
            INTERNAL_PATH,
            INTERNAL_HOST,
            SECRET_IN_FAILURE,
            NOT_OBSERVED,
        ],
    };
    type Options = Options;

    fn problems(options: &Options) -> Vec<OptionsProblem> {
        let mut found = globs::problems("output_is_diagnostic", &options.output_is_diagnostic);
        if !(256..=65_536).contains(&options.keep_bytes) {
            let problem = format!("{} is not between 256 and 65536", options.keep_bytes);
            found.push(OptionsProblem { path: "keep_bytes".to_owned(), problem });
        }
        found
    }

    fn new(options: Options, profile: Profile) -> Self {
        Self { options, strict: profile == Profile::Strict }
    }

    fn check<'r>(&self, subject: &Subject<'_, 'r>, view: &View<'_>, report: &mut Report<'r>) {
        let Subject::Result(result) = subject else { return };
        if result.result.shape == ResultShape::TypedOutput {
            return;
        }
        let diagnostic = self.is_diagnostic(result);
        if self.check_flag(result, diagnostic, view, report) {
            self.check_texts(subject, diagnostic, report);
            check_secrets(subject, report);
        }
    }
}

impl FailureSignals {
    fn is_diagnostic(&self, subject: &ResultSubject<'_, '_>) -> bool {
        let named = |name: &[u8]| {
            DIAGNOSTIC.iter().any(|known| globs::glob(known.as_bytes(), name))
                || globs::matches(&self.options.output_is_diagnostic, name)
        };
        subject.result.shape == ResultShape::ShellOutput
            || tool_name(subject.result, subject.call).is_some_and(|name| named(&name))
    }

    /// Holds what is known of the failure against what the output says; answers whether it failed.
    fn check_flag<'r>(
        &self,
        subject: &ResultSubject<'_, 'r>,
        diagnostic: bool,
        view: &View<'_>,
        report: &mut Report<'r>,
    ) -> bool {
        let result = subject.result;
        let place = Place::Value { value: result.content.unwrap_or(result.item), range: None };
        let label = |kind, label| Evidence::Label { kind, label };
        if result.shape == ResultShape::Server {
            return says_failed(result);
        }
        let both = result.shape == ResultShape::GeminiResponse && result.content.is_some_and(flag::says_both);
        if both || (result.failure == Failure::Ok && has_error_prefix(result)) {
            report.find(
                &CONTRADICTING_SIGNALS,
                place,
                label("signals", if both { "error_and_output" } else { "text" }),
            );
        }
        let outcome = if result.shape == ResultShape::Host { Outcome::Unknown } else { outcome(subject, view) };
        let says = says_failed(result) || is_wrapped_error(result);
        // Elsewhere whoever ran the tool speaks for itself.
        let in_request = subject.checkpoint == Checkpoint::ToolResult
            && !matches!(result.shape, ResultShape::Host | ResultShape::McpResult | ResultShape::McpAnswer);
        match (outcome, says) {
            (Outcome::Ok, true) => {
                report.find(&FLAG_WITHOUT_FAILURE, place, label("known_from", "host"));
            }
            (Outcome::Failed(known_from), false) => {
                let edits = flag::edits(result);
                let most = if edits.is_none() { Decision::Allow } else { Decision::Block };
                let evidence = label("known_from", known_from);
                if report.find_at_most(&UNFLAGGED_FAILURE, most, place, evidence) == Decision::Redact {
                    edits.into_iter().flatten().for_each(|edit| report.edit(edit));
                }
                return true;
            }
            (Outcome::Unknown, false) if result.failure == Failure::Unsaid => {
                if !diagnostic && reads_like_failure(subject, report) {
                    report.find_at_most(&UNFLAGGED_FAILURE, Decision::Allow, place, label("known_from", "text"));
                } else if in_request {
                    report.not_observed(&Self::META, view, "no_outcome");
                }
            }
            _ => {}
        }
        says
    }

    fn check_texts<'r>(&self, subject: &Subject<'_, 'r>, diagnostic: bool, report: &mut Report<'r>) {
        let Subject::Result(result) = subject else { return };
        let read = result.result.shape == ResultShape::Server;
        let most = if read || (diagnostic && !self.strict) { Decision::Allow } else { Decision::Block };
        let goes = |report: &Report<'r>, rule| report.comes_to(rule).min(most) == Decision::Redact;
        let mut found = 0;
        for text in report.texts(subject).iter().filter(|text| is_prose(text)) {
            let traces = traces::find(text.bytes());
            for trace in &traces {
                let evidence = Evidence::Label { kind: "language", label: trace.language.name() };
                found += 1;
                if found <= MOST_FOUND {
                    report.find_in(&STACK_TRACE, most, text, (trace.start, trace.end), evidence);
                }
            }
            let wanted = Wanted {
                traces: goes(report, &STACK_TRACE),
                paths: goes(report, &INTERNAL_PATH),
                hosts: goes(report, &INTERNAL_HOST),
                diagnostic,
                keep: self.options.keep_bytes as usize,
            };
            if !diagnostic {
                let reduced: &[Trace] = if wanted.traces { &traces } else { &[] };
                say_internals(text, reduced, most, report);
            }
            if wanted.traces || wanted.paths || wanted.hosts {
                for change in settle::changes(text.bytes(), wanted) {
                    report.edit(text.edit(change.start, change.end, change.with));
                }
            }
        }
    }
}

/// Paths and hosts outside of traces that are reduced: what stands in those is the trace's.
fn say_internals<'r>(text: &Text<'r>, reduced: &[Trace], most: Decision, report: &mut Report<'r>) {
    let all = internal::find(text.bytes());
    let outside = |at: usize| {
        let next = reduced.partition_point(|trace| trace.end <= at);
        reduced.get(next).is_none_or(|trace| trace.start > at)
    };
    for (kind, rule) in [(Kind::Path, &INTERNAL_PATH), (Kind::Host, &INTERNAL_HOST)] {
        let mut own = all.iter().filter(|found| found.kind == kind && outside(found.start)).peekable();
        if let Some((start, end)) = own.peek().map(|first| (first.start, first.end)) {
            let evidence = Evidence::Count { found: own.count() as u64, limit: 0 };
            report.find_in(rule, most, text, (start, end), evidence);
        }
    }
}

fn check_secrets<'r>(subject: &Subject<'_, 'r>, report: &mut Report<'r>) {
    let read = matches!(subject, Subject::Result(result) if result.result.shape == ResultShape::Server);
    let most = if read { Decision::Allow } else { Decision::Block };
    let secrets = report.secrets(subject);
    let texts = report.texts(subject);
    let mut placeholders = Placeholders::default();
    for of_text in secrets.chunk_by(|(a, _), (b, _)| a == b) {
        let Some(text) = of_text.first().and_then(|(at, _)| texts.get(*at)) else { continue };
        let likely = || of_text.iter().map(|(_, secret)| secret).filter(|secret| secret.is_likely());
        let mut said: Vec<(&'static str, Decision)> = Vec::new();
        for secret in likely() {
            let value = text.bytes().get(secret.start..secret.end).unwrap_or_default();
            let name = placeholders.of(("secret", secret.kind), value);
            let told = said.iter().find(|(kind, _)| *kind == secret.kind).map(|(_, decision)| *decision);
            let decision = told.unwrap_or_else(|| {
                let count = likely().filter(|other| other.kind == secret.kind).count() as u64;
                let evidence = Evidence::Found { kind: "secret", label: secret.kind, count };
                let decision = report.find_in(&SECRET_IN_FAILURE, most, text, (secret.start, secret.end), evidence);
                said.push((secret.kind, decision));
                decision
            });
            if decision == Decision::Redact {
                report.edit(text.edit(secret.start, secret.end, name.into_bytes()));
            }
        }
    }
}

/// How a tool ended, as others than this output tell.
enum Outcome {
    /// With a label of where it is known from.
    Failed(&'static str),
    Ok,
    Unknown,
}

fn outcome(subject: &ResultSubject<'_, '_>, view: &View<'_>) -> Outcome {
    let same = |fact: &ResultFact| fact.content == subject.content || fact.copy == Some(subject.content);
    let host = subject.earlier.iter().rev().find(|fact| fact.from_host);
    match host.map(|fact| fact.failed) {
        Some(Some(true)) => return Outcome::Failed("host"),
        Some(Some(false)) => return Outcome::Ok,
        _ => {}
    }
    if subject.earlier.iter().any(|fact| fact.failed == Some(true) && same(fact)) {
        return Outcome::Failed("flag");
    }
    // A client gives an MCP tool a name of its own, of which the server's is the end.
    let Some(name) = tool_name(subject.result, subject.call) else { return Outcome::Unknown };
    let of_tool = |fact: &&ResultFact| {
        let call = fact.call.and_then(|n| view.conversation.calls.get(&n));
        let call = call.filter(|call| !call.name.is_empty() && name.ends_with(&call.name));
        call.and_then(|call| view.exchange_of(call)).is_some_and(|exchange| exchange.provider == Provider::Mcp)
    };
    let mut facts = view.conversation.results.values().rev();
    match facts.find(|fact| same(fact) && of_tool(fact)).and_then(|fact| fact.failed) {
        Some(true) => Outcome::Failed("mcp"),
        _ => Outcome::Unknown,
    }
}

/// A text that reads like a failure, by its beginning or by a trace in it.
fn reads_like_failure<'r>(subject: &ResultSubject<'_, 'r>, report: &mut Report<'r>) -> bool {
    const BEGINS: [&str; 10] = [
        "error:",
        "error executing ",
        "exception:",
        "fatal:",
        "panic:",
        "traceback ",
        "unhandled exception",
        "failed:",
        "tool error",
        "mcp error",
    ];
    let longest = BEGINS.iter().map(|word| word.len()).max().unwrap_or(0);
    let begins = first_text(subject.result).and_then(|text| text.beginning(longest)).is_some_and(|text| {
        BEGINS
            .iter()
            .any(|word| text.get(..word.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(word.as_bytes())))
    });
    begins || report.texts(&Subject::Result(subject)).iter().any(|text| !traces::find(text.bytes()).is_empty())
}

/// The error form inside the wrapper that names its source.
fn is_wrapped_error(result: &ResultItem<'_>) -> bool {
    const BEGINS: &[u8] = b"{\"source\":";
    let text = first_text(result).filter(|text| text.beginning(BEGINS.len()).is_some_and(|begins| begins == BEGINS));
    let text = text.and_then(|text| text.text()).filter(|text| text.starts_with(BEGINS));
    let before = format!("\"content\":\"{ERROR_PREFIX}");
    text.is_some_and(|text| memchr::memmem::find(&text, before.as_bytes()).is_some())
}

/// Texts that somebody reads: no names of members, no addresses that must stay one.
fn is_prose(text: &Text<'_>) -> bool {
    let address = text.member.is_some_and(|name| ["uri", "url"].iter().any(|known| name.is(known)));
    !matches!(text.role, Role::Key | Role::Beside) && !address
}

/// The nearest character boundary at or before this place.
fn boundary(text: &[u8], at: usize) -> usize {
    let mut at = at.min(text.len());
    while at > 0 && text.get(at).is_some_and(|byte| byte & 0xC0 == 0x80) {
        at -= 1;
    }
    at
}
