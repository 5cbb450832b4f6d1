//! Arguments against the tool's schema, also those of calls inside a call.

use super::super::schema::{Compiled, Violation, to_serde};
use super::super::{CallSubject, Definitions, Dialect, Evidence, Place, Report, View};
use super::{
    ArgumentChecks, BAD_SCHEMA, INVALID_JSON, SCHEMA_MISMATCH, SCHEMA_TOO_LARGE, UNKNOWN_TOOL, WRAPPED_CALLS,
    WRONG_FORM,
};
use crate::engine::event::{Executor, Form, Provider, ToolFamily};
use crate::engine::json::{Kind, Value};
use crate::engine::policy::Policy;
use crate::engine::state::Tool;
use bumpalo::Bump;
use serde_json::Map;
use std::collections::HashSet;

/// Inner calls that are judged; the wrapper is blocked whatever they are.
const MAX_INNER: usize = 16;

impl ArgumentChecks {
    /// Definitions of one name hold all: a caller that knows one of them must not be let down by another.
    pub(super) fn check_schemas<'r>(&self, tools: &[&Tool], args: Value<'r>, view: &View<'_>, report: &mut Report<'r>) {
        for tool in tools.iter().filter(|tool| tool.family == ToolFamily::Function) {
            self.check_schema(tool, args, view, report);
        }
    }

    fn check_schema<'r>(&self, tool: &Tool, args: Value<'r>, view: &View<'_>, report: &mut Report<'r>) {
        let Some(schema) = &tool.schema else {
            if tool.schema_omitted {
                say_unusable("too_large", report);
            }
            return;
        };
        let bytes = args.span().len();
        let compiled = view.schemas.get_in(dialect(view), schema, self.options.assert_formats);
        if let Some(label) = compiled.flaw().or_else(|| compiled.flaw_for(bytes)) {
            say_unusable(label, report);
        }
        if compiled.flaw().is_none() {
            self.say_violations(&compiled, args, report);
        }
    }

    fn say_violations<'r>(&self, compiled: &Compiled, args: Value<'r>, report: &mut Report<'r>) {
        // A model that has nothing to say may say `null`: it is `{}` where that is accepted.
        let instance = match args.kind() {
            Kind::Null if compiled.accepts(&serde_json::Value::Null) => return,
            Kind::Null => Some(serde_json::Value::Object(Map::new())),
            _ => to_serde(args),
        };
        let Some(instance) = instance else {
            // Every value that got here converts; one that does not was not looked at, so it does not pass.
            report.find(&INVALID_JSON, Place::Value { value: args, range: None }, Evidence::None);
            return;
        };
        let most = self.options.max_violations as usize;
        let mut left = most;
        for violation in compiled.violations(&instance, args.span().len(), most) {
            for place in places(args, &violation, left, report.bump()) {
                let evidence = Evidence::Schema { keyword: violation.keyword };
                report.find(&SCHEMA_MISMATCH, place, evidence);
                left -= 1;
            }
        }
    }

    /// Whether the call is a wrapper, which is then reported with the calls inside.
    pub(super) fn check_wrapped<'r>(
        &self,
        subject: &CallSubject<'_, 'r>,
        args: Value<'r>,
        view: &View<'_>,
        report: &mut Report<'r>,
    ) -> bool {
        let call = subject.call;
        let named = [b"multi_tool_use.parallel".as_slice(), b"multi_tool_use"].contains(&call.name.as_slice())
            || (call.name == b"parallel" && call.namespace.as_deref() == Some(b"multi_tool_use"));
        let inner: Vec<Value<'r>> = args.get("tool_uses").into_iter().flat_map(|uses| uses.items()).collect();
        let shaped = inner.first().is_some_and(|first| first.get("recipient_name").is_some());
        let declared = matches!(view.definitions(call), Definitions::Declared(_));
        if declared || call.executor == Executor::Provider || !(named || shaped) {
            return false;
        }
        let evidence = Evidence::Count { found: inner.len() as u64, limit: 1 };
        report.find(&WRAPPED_CALLS, Place::Whole, evidence);
        for inner in inner.into_iter().take(MAX_INNER) {
            let Some(recipient) = inner.get("recipient_name") else { continue };
            let Some(name) = recipient.text() else { continue };
            let name = name.strip_prefix(b"functions.").unwrap_or(&name);
            match view.definitions_named(call, Form::JsonText, name, None) {
                Definitions::Declared(tools) => {
                    if let Some(parameters) = inner.get("parameters") {
                        self.check_schemas(&tools, parameters, view, report);
                    }
                }
                Definitions::WrongForm => {
                    report.find(&WRONG_FORM, Place::Value { value: recipient, range: None }, Evidence::None);
                }
                Definitions::Undeclared => {
                    report.find(&UNKNOWN_TOOL, Place::Value { value: recipient, range: None }, Evidence::None);
                }
                Definitions::Unseen(label) => report.skipped(&Self::META, label),
            }
        }
        true
    }
}

/// What the schemas of the exchange are written in.
fn dialect(view: &View<'_>) -> Dialect {
    match view.exchange.map(|exchange| exchange.provider).or(view.provider) {
        Some(Provider::GeminiGenerateContent | Provider::GeminiLive) => Dialect::Gemini,
        _ => Dialect::JsonSchema,
    }
}

/// A schema that cannot be held against the arguments, or not in full.
fn say_unusable(label: &'static str, report: &mut Report<'_>) {
    let rule = if label == "too_large" { &SCHEMA_TOO_LARGE } else { &BAD_SCHEMA };
    report.find(rule, Place::Whole, Evidence::Label { kind: "schema", label });
    report.incomplete = true;
}

/// The places that a violation speaks of, at most `most`: members that may not be there, or the one that is
/// missing, else the value itself. One pass over the members, however many there are.
fn places<'r>(args: Value<'r>, violation: &Violation, most: usize, bump: &'r Bump) -> Vec<Place<'r>> {
    if most == 0 {
        return Vec::new();
    }
    let value = follow(args, &violation.pointer);
    if let Some(name) = &violation.missing {
        return vec![Place::Missing { object: value, name: bump.alloc_slice_copy(name.as_bytes()) }];
    }
    let at = |value| Place::Value { value, range: None };
    let names: HashSet<&[u8]> = violation.unexpected.iter().take(most).map(String::as_bytes).collect();
    let among = |key: Value<'r>| key.text().is_some_and(|name| names.contains(&*name));
    let members = value.members().filter(|(key, _)| !names.is_empty() && among(*key));
    let unexpected: Vec<Place<'r>> = members.map(|(_, member)| at(member)).take(most).collect();
    if unexpected.is_empty() { vec![at(value)] } else { unexpected }
}

/// The value at a pointer, as far as it leads.
fn follow<'r>(args: Value<'r>, pointer: &str) -> Value<'r> {
    let mut value = args;
    for segment in pointer.split('/').skip(1) {
        let next = match value.kind() {
            Kind::Object => value.get(&segment.replace("~1", "/").replace("~0", "~")),
            Kind::Array => segment.parse().ok().and_then(|ix| value.items().nth(ix)),
            _ => None,
        };
        let Some(next) = next else { break };
        value = next;
    }
    value
}
