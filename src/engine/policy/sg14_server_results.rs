//! SG14: what the provider's own tools read and ran is known, and came from where it may.
//!
//! # What it checks
//! Results of tools that the provider ran, as the model's response tells them (web search and its citations, fetches,
//! code execution, hosted shells, file search, hosted MCP, advisors, Gemini's grounding), and the code that such
//! tools were given:
//! - `host_not_allowed` (block): an address whose host is among `denied_hosts` (`denied`), or, where `allowed_hosts`
//!   has any, is not among those (`not_listed`) or cannot be told (`unreadable`). Hosts are compared as they are
//!   connected to: lower case, in their ASCII form. Gemini's redirect addresses count as the site that stands beside
//!   them.
//! - `unsafe_retrieval` (block): the provider says that a page is unsafe (`retrieval_unsafe`), or an address leads
//!   into a private network (`metadata`, `loopback`, `link_local`, `private`, `internal_name` and kin, as in SG04), is
//!   not http (`scheme`), or names a user (`credentials`).
//! - `server_tool_error` (monitor): the tool failed; the label is the provider's code where it is one of its closed
//!   list, else `failed`.
//! - `model_code` (monitor): the provider ran code or commands that the model wrote; the label is the tool.
//!
//! The texts of such results are bounded by SG01 and searched by SG11 and SG12 like any other.
//!
//! # Why it matters
//! These results never pass the host: the model has read them when the response arrives. The verdict cannot unsay
//! that. It tells the host to stop, or to strip the result from the history, before what was read there becomes the
//! next call.
//!
//! # Violates
//! - A search that found `https://paste.example/x` under `denied_hosts: ["paste.example"]`.
//! - A fetch of `http://169.254.169.254/`, however it is written (`http://0xa9fea9fe/`).
//! - `URL_RETRIEVAL_STATUS_UNSAFE` of a page that Gemini was to read.
//! - `max_uses_exceeded` of a web search: the model goes on without what it asked for.
//!
//! ```example host_not_allowed: anthropic.messages
//! option denied_hosts=["paste.example"]
//! event model.response {"id":"msg_1","type":"message","role":"assistant","content":[{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"a"}},{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[{"type":"web_search_result","url":"https://paste.example/x","title":"x","encrypted_content":"eA=="}]}],"stop_reason":"end_turn"}
//! ```
//! ```example host_not_allowed: anthropic.messages
//! option allowed_hosts=["bücher.example"]
//! event model.response {"id":"msg_1","type":"message","role":"assistant","content":[{"type":"server_tool_use","id":"srvtoolu_1","name":"web_fetch","input":{"url":"https://bucher.example/"}},{"type":"web_fetch_tool_result","tool_use_id":"srvtoolu_1","content":{"type":"web_fetch_result","url":"https://bucher.example/","content":{"type":"document","source":{"type":"text","media_type":"text/plain","data":"hello"}}}}],"stop_reason":"end_turn"}
//! ```
//! ```example host_not_allowed: openai.responses, xai.responses
//! option denied_hosts=["*.paste.example"]
//! event model.response {"id":"resp_1","object":"response","status":"completed","output":[{"type":"web_search_call","id":"ws_1","status":"completed","action":{"type":"search","query":"a","sources":[{"type":"url","url":"https://www.paste.example/x"}]}}]}
//! ```
//! ```example host_not_allowed: openai.responses, xai.responses
//! option denied_hosts=["paste.example"]
//! event model.response {"id":"resp_1","object":"response","status":"completed","output":[{"type":"message","id":"msg_1","role":"assistant","content":[{"type":"output_text","text":"see x","annotations":[{"type":"url_citation","start_index":0,"end_index":5,"url":"https://paste.example/x","title":"x"}]}]}]}
//! ```
//! ```example host_not_allowed: gemini.generate_content
//! option allowed_hosts=["example.org"]
//! event model.response {"responseId":"r1","candidates":[{"index":0,"finishReason":"STOP","content":{"role":"model","parts":[{"text":"x"}]},"groundingMetadata":{"groundingChunks":[{"web":{"uri":"https://vertexaisearch.cloud.google.com/grounding-api-redirect/AbC","title":"paste.example"}}]}}]}
//! ```
//! ```example unsafe_retrieval: anthropic.messages
//! event model.response {"id":"msg_1","type":"message","role":"assistant","content":[{"type":"server_tool_use","id":"srvtoolu_1","name":"web_fetch","input":{"url":"http://0xa9fea9fe/"}},{"type":"web_fetch_tool_result","tool_use_id":"srvtoolu_1","content":{"type":"web_fetch_result","url":"http://0xa9fea9fe/","content":{"type":"document","source":{"type":"text","media_type":"text/plain","data":"role"}}}}],"stop_reason":"end_turn"}
//! ```
//! ```example unsafe_retrieval: openai.responses, xai.responses
//! event model.response {"id":"resp_1","object":"response","status":"completed","output":[{"type":"web_search_call","id":"ws_1","status":"completed","action":{"type":"open_page","url":"http://vault.corp/secrets"}}]}
//! ```
//! ```example unsafe_retrieval, server_tool_error: gemini.generate_content
//! event model.response {"responseId":"r1","candidates":[{"index":0,"finishReason":"STOP","content":{"role":"model","parts":[{"text":"x"}]},"urlContextMetadata":{"urlMetadata":[{"retrievedUrl":"https://example.org/x","urlRetrievalStatus":"URL_RETRIEVAL_STATUS_UNSAFE"}]}}]}
//! ```
//! ```example server_tool_error: anthropic.messages
//! event model.response {"id":"msg_1","type":"message","role":"assistant","content":[{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"a"}},{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":{"type":"web_search_tool_result_error","error_code":"max_uses_exceeded"}}],"stop_reason":"end_turn"}
//! ```
//! ```example server_tool_error: openai.responses, xai.responses
//! event model.response {"id":"resp_1","object":"response","status":"completed","output":[{"type":"mcp_call","id":"mcp_1","server_label":"docs","name":"search","arguments":"{}","output":null,"error":{"type":"http_error","code":503,"message":"unavailable"},"status":"failed"}]}
//! ```
//! ```example server_tool_error, model_code: xai.responses
//! event model.response {"id":"resp_1","object":"response","status":"completed","output":[{"type":"code_interpreter_call","id":"ci_1","status":"completed","code":"run()","outputs":[{"type":"logs","logs":"{\"stdout\":\"\",\"stderr\":\"no\",\"exit_code\":1}"}]}]}
//! ```
//! ```example server_tool_error, model_code: gemini.generate_content
//! event model.response {"responseId":"r1","candidates":[{"index":0,"finishReason":"STOP","content":{"role":"model","parts":[{"executableCode":{"language":"PYTHON","code":"run()"}},{"codeExecutionResult":{"outcome":"OUTCOME_DEADLINE_EXCEEDED"}}]}}]}
//! ```
//! ```example server_tool_error, model_code: gemini.live
//! event model.chunk {"serverContent":{"modelTurn":{"parts":[{"executableCode":{"language":"PYTHON","code":"run()"}},{"codeExecutionResult":{"outcome":"OUTCOME_FAILED","output":"no"}}]},"turnComplete":true}}
//! ```
//! ```example model_code: anthropic.messages
//! event model.response {"id":"msg_1","type":"message","role":"assistant","content":[{"type":"server_tool_use","id":"srvtoolu_1","name":"bash_code_execution","input":{"command":"ls"}},{"type":"bash_code_execution_tool_result","tool_use_id":"srvtoolu_1","content":{"type":"bash_code_execution_result","stdout":"a","stderr":"","return_code":0,"content":[]}}],"stop_reason":"end_turn"}
//! ```
//! ```example model_code: openai.responses, xai.responses
//! event model.response {"id":"resp_1","object":"response","status":"completed","output":[{"type":"code_interpreter_call","id":"ci_1","status":"completed","code":"run()","outputs":null}]}
//! ```
//!
//! # Holds
//! - Public pages, where no list is set.
//! - A page below `*.example.org` where `allowed_hosts` has that; `*.example.org` does not take in `example.org`.
//! - An error: the model was told, and goes on. It is said and counted, and nothing is stopped.
//!
//! ```example holds
//! ran "the door is open"
//! ```
//! ```example holds: anthropic.messages
//! option allowed_hosts=["bücher.example"]
//! event model.response {"id":"msg_1","type":"message","role":"assistant","content":[{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"a"}},{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[{"type":"web_search_result","url":"https://xn--bcher-kva.example/x","title":"x","encrypted_content":"eA=="}]}],"stop_reason":"end_turn"}
//! ```
//! ```example holds: gemini.live
//! event model.chunk {"serverContent":{"modelTurn":{"parts":[{"executableCode":{"language":"PYTHON","code":"run()"}},{"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"1"}}]},"turnComplete":true}}
//! ```
//! ```example holds: gemini.generate_content
//! option allowed_hosts=["*.example.org"]
//! event model.response {"responseId":"r1","candidates":[{"index":0,"finishReason":"STOP","content":{"role":"model","parts":[{"text":"x"}]},"groundingMetadata":{"groundingChunks":[{"web":{"uri":"https://vertexaisearch.cloud.google.com/grounding-api-redirect/AbC","title":"A title","domain":"www.example.org"}}]}}]}
//! ```
//!
//! # Does not apply
//! - `openai.chat`, `xai.chat`: their responses hold no results of tools that the provider ran
//! - `mcp`: a server is the host's own choice; nothing of it is run by a model's provider
//!
//! # Options
//! - `allowed_hosts` (none: all): names, or `*.` and a name for everything below it. At most 1 000, each a host.
//! - `denied_hosts` (none): the same; a host that both name is denied.
//!
//! Addresses without a scheme (`example.org/x`, `//example.org/x`) are read as `http:`.
//!
//! # Source
//! `untrusted-tool-outputs.md` on typed server-tool results; `provider-formats` §2.3, §4.3, §5.1, §6.3, §10.

use super::{
    CallSubject, Evidence, Meta, OptionsProblem, Place, Policy, Profile, Report, ResultSubject, Rule, Severity,
    Subject, View,
};
use crate::engine::decision::Decision;
use crate::engine::event::{Address, Executor, Failure, ResultShape};
use crate::engine::json::Value;
use crate::engine::scan::hosts::{self, Hosts};
use serde::{Deserialize, Serialize};

const MOST_HOSTS: usize = 1000;

const fn rule(name: &'static str, effect: Decision, severity: Severity, message: &'static str) -> Rule {
    Rule { name, effect, strict: effect, severity, message }
}

const HOST_NOT_ALLOWED: Rule = rule(
    "host_not_allowed",
    Decision::Block,
    Severity::High,
    "a tool that the provider ran took something from a host that it may not; the model has read it",
);
const UNSAFE_RETRIEVAL: Rule = rule(
    "unsafe_retrieval",
    Decision::Block,
    Severity::High,
    "a tool that the provider ran was sent to an address that is not safe",
);
const SERVER_TOOL_ERROR: Rule = rule(
    "server_tool_error",
    Decision::Allow,
    Severity::Low,
    "a tool that the provider ran failed, and the model goes on without its output",
);
const MODEL_CODE: Rule =
    rule("model_code", Decision::Allow, Severity::Low, "the provider ran code that the model wrote");

/// Tools of providers that run what they are given, by the names that their calls bear.
const RUNNERS: [&str; 7] = [
    "bash_code_execution",
    "code_execution",
    "code_interpreter",
    "local_shell",
    "program",
    "shell",
    "text_editor_code_execution",
];

/// The policy.
pub struct ServerResults {
    allowed: Hosts,
    denied: Hosts,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    pub allowed_hosts: Vec<String>,
    pub denied_hosts: Vec<String>,
}

impl Policy for ServerResults {
    const META: Meta = Meta {
        code: "SG14",
        number: 14,
        name: "server_results",
        checklist: "typed server-tool results",
        summary: "what the provider's own tools read and ran is known, and came from where it may",
        rules: &[HOST_NOT_ALLOWED, UNSAFE_RETRIEVAL, SERVER_TOOL_ERROR, MODEL_CODE],
    };
    type Options = Options;

    fn problems(options: &Options) -> Vec<OptionsProblem> {
        let lists = [("allowed_hosts", &options.allowed_hosts), ("denied_hosts", &options.denied_hosts)];
        let mut found = Vec::new();
        for (path, names) in lists {
            if names.len() > MOST_HOSTS {
                let problem = format!("{} names are more than {MOST_HOSTS}", names.len());
                found.push(OptionsProblem { path: path.to_owned(), problem });
            }
            if let Some(name) = Hosts::refused(names) {
                let problem = format!("{name:?} is no host: a name such as example.org, or *.example.org");
                found.push(OptionsProblem { path: path.to_owned(), problem });
            }
        }
        found
    }

    fn new(options: Options, _profile: Profile) -> Self {
        Self { allowed: Hosts::new(&options.allowed_hosts), denied: Hosts::new(&options.denied_hosts) }
    }

    fn check<'r>(&self, subject: &Subject<'_, 'r>, _view: &View<'_>, report: &mut Report<'r>) {
        match subject {
            Subject::Result(result) if result.result.shape == ResultShape::Server => self.result(result, report),
            Subject::Call(call) => code(call, report),
            _ => {}
        }
    }
}

impl ServerResults {
    fn result<'r>(&self, subject: &ResultSubject<'_, 'r>, report: &mut Report<'r>) {
        let result = subject.result;
        for address in &result.addresses {
            self.address(address, report);
        }
        let failed = result.failure == Failure::Failed;
        if failed && result.addresses.iter().all(|address| address.code.is_none()) {
            let label = result.error_code.unwrap_or("failed");
            let place = result.failure_value.map_or(Place::Whole, at);
            report.find(&SERVER_TOOL_ERROR, place, Evidence::Label { kind: "error", label });
        }
    }

    fn address<'r>(&self, address: &Address<'r>, report: &mut Report<'r>) {
        let text = address.value.text().unwrap_or_default();
        let leads = hosts::read(&String::from_utf8_lossy(&text));
        let risk = leads.risk.or(address.code.filter(|code| *code == "retrieval_unsafe"));
        if let Some(label) = risk {
            report.find(&UNSAFE_RETRIEVAL, at(address.value), Evidence::Label { kind: "retrieval", label });
        }
        if let Some(label) = address.code {
            report.find(&SERVER_TOOL_ERROR, at(address.value), Evidence::Label { kind: "error", label });
        }
        let site = address.site.map(|site| {
            let name = site.text().unwrap_or_default();
            hosts::host(&String::from_utf8_lossy(&name)).filter(|name| name.contains('.'))
        });
        let host = site.unwrap_or(leads.host);
        let label = match host {
            Some(host) if self.denied.has(&host) => "denied",
            Some(host) if self.allowed.is_empty() || self.allowed.has(&host) => return,
            None if self.allowed.is_empty() => return,
            Some(_) => "not_listed",
            None => "unreadable",
        };
        report.find(&HOST_NOT_ALLOWED, at(address.value), Evidence::Label { kind: "host", label });
    }
}

fn code<'r>(subject: &CallSubject<'_, 'r>, report: &mut Report<'r>) {
    let runs = RUNNERS.into_iter().find(|name| subject.call.name == name.as_bytes());
    if let Some(label) = runs.filter(|_| subject.call.executor == Executor::Provider) {
        report.find(&MODEL_CODE, Place::Whole, Evidence::Label { kind: "tool", label });
    }
}

fn at(value: Value<'_>) -> Place<'_> {
    Place::Value { value, range: None }
}
