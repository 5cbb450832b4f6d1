//! Arguments against the tool's schemas: those that were declared, and the operator's.

use super::super::schema::{Compiled, Violation, to_serde};
use super::super::{Dialect, Evidence, Place, Report, View};
use super::operator::Known;
use super::{ArgumentChecks, BAD_SCHEMA, INVALID_JSON, NO_SCHEMA, SCHEMA_MISMATCH, SCHEMA_TOO_LARGE};
use crate::engine::event::{Provider, ToolFamily};
use crate::engine::json::{Kind, Value};
use crate::engine::state::Tool;
use bumpalo::Bump;
use serde_json::Map;
use std::collections::HashSet;

impl ArgumentChecks {
    /// Definitions of one name hold all: a caller that knows one of them must not be let down by another.
    /// `registered`: the arguments were held against a schema of the operator's.
    pub(super) fn check_schemas<'r>(
        &self,
        tools: &[&Tool],
        registered: bool,
        args: Value<'r>,
        view: &View<'_>,
        report: &mut Report<'r>,
    ) {
        let has_none =
            |tool: &&Tool| tool.family == ToolFamily::Function && tool.schema.is_none() && !tool.schema_omitted;
        if !registered && tools.iter().all(has_none) {
            report.find(&NO_SCHEMA, Place::Whole, Evidence::Label { kind: "schema", label: "definition" });
        }
        for tool in tools.iter().filter(|tool| tool.family == ToolFamily::Function) {
            self.check_schema(tool, args, view, report);
        }
    }

    /// Whether the operator has a schema for the tool; the arguments were then held against it.
    pub(super) fn check_registered<'r>(&self, known: &[&Known], args: Value<'r>, report: &mut Report<'r>) -> bool {
        let mut checked = false;
        for schema in known.iter().filter_map(|known| known.schema.as_ref()) {
            self.check_compiled(schema, args, report);
            checked = true;
        }
        checked
    }

    fn check_schema<'r>(&self, tool: &Tool, args: Value<'r>, view: &View<'_>, report: &mut Report<'r>) {
        let Some(schema) = &tool.schema else {
            if tool.schema_omitted {
                say_unusable("too_large", report);
            }
            return;
        };
        let compiled = view.schemas.get_in(dialect(view), schema, self.options.assert_formats);
        self.check_compiled(&compiled, args, report);
    }

    fn check_compiled<'r>(&self, compiled: &Compiled, args: Value<'r>, report: &mut Report<'r>) {
        if let Some(label) = compiled.flaw().or_else(|| compiled.flaw_for(args.span().len())) {
            say_unusable(label, report);
        }
        if compiled.flaw().is_none() {
            self.say_violations(compiled, args, report);
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
