//! SG04: final arguments are one JSON value that fits the tool's schema.
//!
//! # What it checks
//! - The text: `invalid_json`, `trailing_data`, `merged_calls`, `duplicate_keys`, `too_deep`, `too_large`,
//!   `lone_surrogate`, `number_out_of_range`, `imprecise_integer`. Nothing is ever repaired.
//! - The tool: `schema_mismatch` against its JSON Schema (violations listed by place and keyword),
//!   `bad_schema` where that cannot be used or not in full, `schema_too_large` where it was too large to keep,
//!   `unknown_tool` for a tool that the request does not declare, `wrong_form` for one that it declares as
//!   another kind (free text for a function, JSON for a custom tool).
//! - `not_observed` where the definitions were not seen: `no_request`, `tools_elsewhere`. It stands on every
//!   verdict on a call of the client's, which is then incomplete; for the provider's own once a conversation.
//! - The call: `args_mismatch` (the provider restated another text than it streamed), `wrapped_calls` (several
//!   calls hidden in one; each inner call is judged too), `model_code` (the arguments are code).
//!
//! # Why it matters
//! Parsers differ: on two members of one name, on half an emoji, on `1e999`. What a guard reads one way and a
//! tool another is a way around the guard. Text that a repairer would close is a command list cut short.
//!
//! # Violates
//! - `{"city":"a"}{"city":"b"}`: `merged_calls`. `{"a":1} x`: `trailing_data`. `{"a":`: `invalid_json`.
//! - `{"a":1,"a":2}`, `{"a":"\ud83d"}`, `{"a":1e999}`: `duplicate_keys`, `lone_surrogate`, `number_out_of_range`.
//! - `{}` for a tool that requires `to`: `schema_mismatch` with `required`.
//! - `multi_tool_use.parallel`: `wrapped_calls`.
//!
//! ```example schema_mismatch: anthropic.messages, openai.responses, openai.chat, xai.responses, xai.chat, gemini.generate_content, gemini.live
//! tool send_mail {"type":"object","required":["to"],"properties":{"to":{"type":"string"}}}
//! call send_mail {}
//! ```
//! ```example unknown_tool: anthropic.messages, openai.responses, openai.chat, xai.responses, xai.chat, gemini.generate_content, gemini.live
//! call send_mail {}
//! ```
//! ```example merged_calls: openai.responses, openai.chat, xai.responses, xai.chat
//! call lookup {"city":"a"}{"city":"b"}
//! ```
//! ```example trailing_data: openai.responses, openai.chat, xai.responses, xai.chat
//! call lookup {"a":1} x
//! ```
//! ```example invalid_json: openai.responses, openai.chat, xai.responses, xai.chat
//! call lookup {"a":x}
//! ```
//! ```example duplicate_keys: openai.responses, openai.chat, xai.responses, xai.chat
//! call lookup {"a":1,"a":2}
//! ```
//! ```example lone_surrogate: openai.responses, openai.chat, xai.responses, xai.chat
//! call lookup {"a":"\ud83d"}
//! ```
//! ```example number_out_of_range: openai.responses, openai.chat, xai.responses, xai.chat
//! call lookup {"a":1e999}
//! ```
//! ```example too_deep
//! option max_depth=3
//! call lookup {"a":{"b":{"c":{}}}}
//! ```
//! ```example too_large
//! option max_bytes=1024
//! call lookup {"a":"<<2000*x>>"}
//! ```
//! ```example wrapped_calls, schema_mismatch: openai.responses, openai.chat, xai.responses, xai.chat
//! tool send_mail {"type":"object","required":["to"]}
//! call multi_tool_use.parallel {"tool_uses":[{"recipient_name":"functions.send_mail","parameters":{}}]}
//! ```
//! ```example bad_schema: anthropic.messages, openai.responses, openai.chat, xai.responses, xai.chat, gemini.generate_content, gemini.live
//! tool find {"$ref":"https://schemas.example/find.json"}
//! call find {"q":1}
//! ```
//! ```example args_mismatch: openai.responses, xai.responses
//! event model.chunk {"type":"response.created","response":{"id":"r","object":"response","status":"in_progress"}}
//! event model.chunk {"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","id":"f","call_id":"c","name":"lookup","arguments":""}}
//! event model.chunk {"type":"response.function_call_arguments.delta","output_index":0,"item_id":"f","delta":"{\"a\":1}"}
//! event model.chunk {"type":"response.function_call_arguments.done","output_index":0,"item_id":"f","arguments":"{\"a\":2}"}
//! event model.chunk {"type":"response.completed","response":{"id":"r","object":"response","status":"completed","output":[{"type":"function_call","id":"f","call_id":"c","name":"lookup","arguments":"{\"a\":2}","status":"completed"}]}}
//! ```
//!
//! # Holds
//! - Empty text of a final call is `{}`; `null` is `{}` where the schema accepts an empty object.
//! - Integers above 2^53 (`imprecise_integer`, allow, low).
//! - A tool that is deferred or found by tool search; calls that the provider runs.
//! - Free text and code are bounded and well-formed, not parsed.
//!
//! ```example holds
//! call lookup {"q":"a"}
//! ```
//! ```example holds: anthropic.messages, openai.responses, openai.chat, xai.responses, xai.chat, gemini.generate_content, gemini.live
//! tool send_mail {"type":"object","required":["to"],"properties":{"to":{"type":"string"}}}
//! call send_mail {"to":"door@house.example"}
//! ```
//! ```example holds: openai.responses, openai.chat, xai.responses, xai.chat
//! call lookup {"n":9007199254740993}
//! ```
//!
//! # Options
//! - `max_bytes` (524 288; 1 024 to 8 388 608), `max_depth` (64; 1 to 128), `max_violations` (16; 1 to 64).
//! - `assert_formats` (false): `format` in schemas asserts.
//!
//! # Source
//! Checklist item 4 and rule 2 of `untrusted-tool-outputs.md`; `provider-formats` §0, §2.5, §8; `field-bugs` A.

mod against_schema;
mod wellformed;

use super::{
    CallSubject, Definitions, Evidence, Meta, OptionsProblem, Place, Policy, Profile, Report, Rule, Severity, Subject,
    View,
};
use crate::engine::decision::Decision;
use crate::engine::event::{Executor, Form};
use crate::engine::json::Value;
use serde::{Deserialize, Serialize};

const fn block(name: &'static str, message: &'static str) -> Rule {
    Rule { name, effect: Decision::Block, strict: Decision::Block, severity: Severity::High, message }
}

const fn allow(name: &'static str, message: &'static str) -> Rule {
    Rule { name, effect: Decision::Allow, strict: Decision::Allow, severity: Severity::Low, message }
}

const INVALID_JSON: Rule = block("invalid_json", "the arguments are not JSON");
const TRAILING_DATA: Rule = block("trailing_data", "something follows the arguments' JSON value");
const MERGED_CALLS: Rule = block("merged_calls", "a second JSON value follows the first: two calls were merged");
const DUPLICATE_KEYS: Rule = block("duplicate_keys", "an object has two members of one name");
const TOO_DEEP: Rule = block("too_deep", "the arguments nest deeper than they may");
const TOO_LARGE: Rule = block("too_large", "the arguments are longer than they may be");
const LONE_SURROGATE: Rule = block("lone_surrogate", "the text holds half a surrogate pair");
const NUMBER_OUT_OF_RANGE: Rule = block("number_out_of_range", "a number is not finite as a double");
const IMPRECISE_INTEGER: Rule = allow("imprecise_integer", "an integer is above what a double can hold exactly");
const SCHEMA_MISMATCH: Rule = block("schema_mismatch", "the arguments do not fit the tool's schema");
const BAD_SCHEMA: Rule =
    allow("bad_schema", "the tool's schema cannot be used; the arguments were not checked against it");
const SCHEMA_TOO_LARGE: Rule = Rule {
    name: "schema_too_large",
    effect: Decision::Allow,
    strict: Decision::Block,
    severity: Severity::Medium,
    message: "the tool's schema is too large to be kept; the arguments were not checked against it",
};
const WRONG_FORM: Rule = block("wrong_form", "the tool is declared as another kind than it is called as");
const NOT_OBSERVED: Rule =
    allow("not_observed", "the tool's definition was not seen, so the call was not checked against it");
const UNKNOWN_TOOL: Rule = block("unknown_tool", "the request declares no tool of this name");
const ARGS_MISMATCH: Rule = block("args_mismatch", "the restated arguments differ from those that were streamed");
const WRAPPED_CALLS: Rule = block("wrapped_calls", "several calls are wrapped in one");
const MODEL_CODE: Rule = allow("model_code", "the arguments are code or commands that the model wrote");

/// The policy.
pub struct ArgumentChecks {
    options: Options,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    pub max_bytes: u64,
    pub max_depth: u32,
    pub max_violations: u32,
    pub assert_formats: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { max_bytes: 512 << 10, max_depth: 64, max_violations: 16, assert_formats: false }
    }
}

impl Policy for ArgumentChecks {
    const META: Meta = Meta {
        code: "SG04",
        number: 4,
        name: "argument_checks",
        checklist: "item 4, rule 2",
        summary: "final arguments are one JSON value that fits the tool's schema",
        rules: &[
            INVALID_JSON,
            TRAILING_DATA,
            MERGED_CALLS,
            DUPLICATE_KEYS,
            TOO_DEEP,
            TOO_LARGE,
            LONE_SURROGATE,
            NUMBER_OUT_OF_RANGE,
            IMPRECISE_INTEGER,
            SCHEMA_MISMATCH,
            BAD_SCHEMA,
            UNKNOWN_TOOL,
            ARGS_MISMATCH,
            WRAPPED_CALLS,
            MODEL_CODE,
            SCHEMA_TOO_LARGE,
            WRONG_FORM,
            NOT_OBSERVED,
        ],
    };
    type Options = Options;

    fn problems(options: &Options) -> Vec<OptionsProblem> {
        let bounds = [
            ("max_bytes", options.max_bytes, 1 << 10, 8 << 20),
            ("max_depth", options.max_depth.into(), 1, 128),
            ("max_violations", options.max_violations.into(), 1, 64),
        ];
        let outside = bounds.into_iter().filter(|(_, value, least, most)| !(least..=most).contains(&value));
        outside
            .map(|(path, value, least, most)| OptionsProblem {
                path: path.to_owned(),
                problem: format!("{value} is not between {least} and {most}"),
            })
            .collect()
    }

    fn new(options: Options, _profile: Profile) -> Result<Self, OptionsProblem> {
        match Self::problems(&options).into_iter().next() {
            Some(problem) => Err(problem),
            None => Ok(Self { options }),
        }
    }

    fn check<'r>(&self, subject: &Subject<'_, 'r>, view: &View<'_>, report: &mut Report<'r>) {
        if let Subject::Call(call) = subject
            && call.cut.is_none()
        {
            self.check_call(call, view, report);
        }
    }
}

impl ArgumentChecks {
    fn check_call<'r>(&self, subject: &CallSubject<'_, 'r>, view: &View<'_>, report: &mut Report<'r>) {
        let call = subject.call;
        if call.conflict {
            report.find(&ARGS_MISMATCH, Place::Whole, Evidence::None);
        }
        let bytes = subject.layer.bytes.len() as u64;
        if bytes > self.options.max_bytes || call.overflow {
            let evidence = Evidence::Bytes { found: bytes, limit: self.options.max_bytes };
            report.find(&TOO_LARGE, Place::Whole, evidence);
        }
        if let Some(label) = code_label(call.form, &call.name) {
            report.find(&MODEL_CODE, Place::Whole, Evidence::Label { kind: "code", label });
        }
        let args = match subject.is_json() {
            true => self.check_text(subject, report),
            false => {
                wellformed::check_unicode(subject.layer, report);
                None
            }
        };
        if let Some(args) = args
            && self.check_wrapped(subject, args, view, report)
        {
            return;
        }
        match view.definitions(call) {
            Definitions::Unseen(label) if call.executor == Executor::Client => report.skipped(&Self::META, label),
            Definitions::Unseen(label) => report.not_observed(&Self::META, view, label),
            // What the provider runs is not the request's to declare.
            Definitions::Undeclared if call.executor == Executor::Client => {
                report.find(&UNKNOWN_TOOL, Place::Whole, Evidence::None);
            }
            Definitions::Undeclared => {}
            Definitions::WrongForm => {
                report.find(&WRONG_FORM, Place::Whole, Evidence::None);
            }
            Definitions::Declared(tools) => {
                if let Some(args) = args {
                    self.check_schemas(&tools, args, view, report);
                }
            }
        }
    }

    /// The parsed arguments, if they can be held against a schema.
    fn check_text<'r>(&self, subject: &CallSubject<'_, 'r>, report: &mut Report<'r>) -> Option<Value<'r>> {
        match subject.args {
            Some(Ok(args)) => wellformed::check_value(args, self.options.max_depth, report).then_some(args),
            Some(Err(error)) => {
                wellformed::say_error(subject.layer, error, self.options.max_depth, report);
                None
            }
            None => {
                // An engine that did not parse what it called JSON: nothing was looked at, so nothing passes.
                report.find(&INVALID_JSON, Place::Whole, Evidence::None);
                None
            }
        }
    }
}

/// What kind of code the arguments are.
fn code_label(form: Form, name: &[u8]) -> Option<&'static str> {
    match (form, name) {
        (_, b"shell" | b"local_shell" | b"bash" | b"bash_code_execution") => Some("shell"),
        (_, b"apply_patch") => Some("patch"),
        (_, b"code_interpreter" | b"code_execution" | b"program") => Some("program"),
        (_, b"text_editor_code_execution" | b"str_replace_based_edit_tool") => Some("file"),
        (Form::FreeText, _) => Some("free_text"),
        (Form::JsonText | Form::JsonValue, _) => None,
    }
}
