//! What the operator says of tools: schemas of their own, and what parameters are.

use super::super::globs;
use super::super::schema::{Compiled, Dialect, MAX_SCHEMA_BYTES};
use super::super::{Evidence, OptionsProblem, Place, Report, Rule};
use super::{
    ArgumentChecks, INTERNAL_URL, PATH_TRAVERSAL, SHELL_METACHARACTERS, SQL_METACHARACTERS, TEMPLATE_EXPRESSION,
};
use crate::engine::decision::Decision;
use crate::engine::json::{Kind as JsonKind, Value};
use crate::engine::layer::{Layer, Span};
use crate::engine::scan::parameters::{self, Found, Kind};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

const MAX_TOOLS: usize = 256;
const MAX_PARAMETERS: usize = 64;
const MAX_NAME: usize = 256;
/// Bytes of all schemas together.
const MAX_SCHEMAS: usize = 4 << 20;
/// Findings of one call; more of the same tell nobody anything.
const MOST: usize = 32;

/// One tool, as the operator knows it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolEntry {
    /// The name that calls have.
    pub tool: String,
    /// Only on this MCP server; without one, whoever has the tool.
    #[serde(default)]
    pub server: Option<String>,
    /// Only in this namespace.
    #[serde(default)]
    pub namespace: Option<String>,
    /// A JSON Schema that arguments must fit, beside the one that the request declares.
    #[serde(default)]
    pub schema: Option<serde_json::Value>,
    /// A member's name, or a pointer into the arguments (`*`: every member or item), and what stands there.
    #[serde(default)]
    pub parameters: BTreeMap<String, Kind>,
    /// Findings by kind of parameter block.
    #[serde(default)]
    pub enforce: bool,
}

impl ToolEntry {
    fn schema_text(&self) -> Option<String> {
        self.schema.as_ref().map(serde_json::Value::to_string)
    }
}

/// Everything that an entry cannot be.
pub(super) fn problems(tools: &[ToolEntry], formats: bool) -> Vec<OptionsProblem> {
    let mut found = Vec::new();
    let mut say = |path: String, problem: String| found.push(OptionsProblem { path, problem });
    if tools.len() > MAX_TOOLS {
        say("tools".to_owned(), format!("{} tools are more than {MAX_TOOLS}", tools.len()));
        return found;
    }
    let mut known = BTreeSet::new();
    let mut total = 0;
    for (n, entry) in tools.iter().enumerate() {
        let names =
            [("tool", Some(&entry.tool)), ("server", entry.server.as_ref()), ("namespace", entry.namespace.as_ref())];
        for (name, value) in names {
            let length = value.map_or(1, String::len);
            check(length, 1..=MAX_NAME, "bytes", |problem| say(format!("tools.{n}.{name}"), problem));
            let named = value.filter(|value| !value.is_empty());
            let pattern = named.and_then(|value| globs::no_name(&format!("tools.{n}.{name}"), value));
            pattern.into_iter().for_each(|found| say(found.path, found.problem));
        }
        if entry.schema.is_none() && entry.parameters.is_empty() {
            say(format!("tools.{n}"), "says nothing of its tool: give it schema or parameters".to_owned());
        } else if entry.enforce && entry.parameters.is_empty() {
            say(format!("tools.{n}.enforce"), "sets nothing: it is for what is found in parameters".to_owned());
        }
        for name in entry.parameters.keys() {
            if let Some(problem) = no_place(name) {
                say(format!("tools.{n}.parameters"), problem);
            }
        }
        if !known.insert((&entry.tool, &entry.server, &entry.namespace)) {
            say(format!("tools.{n}.tool"), format!("{} is said before; one entry says all of a tool", entry.tool));
        }
        check(entry.parameters.len(), 0..=MAX_PARAMETERS, "parameters", |problem| {
            say(format!("tools.{n}.parameters"), problem);
        });
        if entry.parameters.keys().any(|name| name.len() > MAX_NAME) {
            say(format!("tools.{n}.parameters"), format!("a name is longer than {MAX_NAME} bytes"));
        }
        let Some(schema) = entry.schema_text() else { continue };
        total += schema.len();
        let path = || format!("tools.{n}.schema");
        if !entry.schema.as_ref().is_some_and(serde_json::Value::is_object) {
            say(path(), "a schema is an object".to_owned());
        } else if schema.len() > MAX_SCHEMA_BYTES {
            say(path(), format!("{} bytes are more than {MAX_SCHEMA_BYTES}", schema.len()));
        } else if let Some(problem) = entry.schema.as_ref().and_then(|schema| Compiled::problem(schema, formats)) {
            say(path(), problem);
        }
    }
    if total > MAX_SCHEMAS {
        say("tools".to_owned(), format!("{total} bytes of schemas are more than {MAX_SCHEMAS}"));
    }
    found
}

/// Why a name or pointer means no place in any arguments.
fn no_place(name: &str) -> Option<String> {
    let escapes = || name.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
    let why = match () {
        () if name.starts_with("$.") || name.starts_with("$[") || name.starts_with('#') => {
            "is read as no path of another language; give a member's name, or a pointer such as /a/b"
        }
        () if name.starts_with('/') && !escapes() => "is no pointer: `~` is written ~0 there, and `/` ~1",
        () if name.contains('*') && !name.starts_with('/') => {
            "is a member's name; `*` stands in pointers, such as /*/b"
        }
        () if name.starts_with('/') && name.split('/').any(|segment| segment.contains('*') && segment != "*") => {
            "is no pointer: `*` stands for a whole segment"
        }
        () => return None,
    };
    Some(format!("{name:?} {why}"))
}

fn check(found: usize, bounds: RangeInclusive<usize>, what: &str, mut say: impl FnMut(String)) {
    if !bounds.contains(&found) {
        say(format!("{found} {what} are not between {} and {}", bounds.start(), bounds.end()));
    }
}

/// An entry ready for use.
pub(super) struct Known {
    tool: String,
    server: Option<String>,
    namespace: Option<String>,
    pub schema: Option<Compiled>,
    parameters: Vec<(Vec<String>, Kind)>,
    enforce: bool,
}

impl Known {
    pub fn new(entry: ToolEntry, formats: bool) -> Known {
        let schema = entry.schema_text();
        Known {
            schema: schema.map(|text| Compiled::new(Dialect::JsonSchema, text.as_bytes(), formats)),
            parameters: entry.parameters.into_iter().map(|(name, kind)| (segments(name), kind)).collect(),
            tool: entry.tool,
            server: entry.server,
            namespace: entry.namespace,
            enforce: entry.enforce,
        }
    }

    fn is(&self, name: &[u8], namespace: Option<&[u8]>, server: Option<&[u8]>) -> bool {
        let is = |wanted: &Option<String>, found: Option<&[u8]>| {
            wanted.as_ref().is_none_or(|wanted| found == Some(wanted.as_bytes()))
        };
        self.tool.as_bytes() == name && is(&self.server, server) && is(&self.namespace, namespace)
    }
}

/// `/a/b` as RFC 6901 has it; anything else is one name.
fn segments(name: String) -> Vec<String> {
    if name.is_empty() {
        return Vec::new();
    }
    match name.strip_prefix('/') {
        Some(rest) => rest.split('/').map(|segment| segment.replace("~1", "/").replace("~0", "~")).collect(),
        None => vec![name],
    }
}

impl ArgumentChecks {
    /// Entries that mean a tool.
    pub(super) fn known<'k>(&'k self, name: &[u8], namespace: Option<&[u8]>, server: Option<&[u8]>) -> Vec<&'k Known> {
        self.known.iter().filter(|known| known.is(name, namespace, server)).collect()
    }
}

/// Looks at the parameters that an operator named. Also at arguments that are not sound otherwise: whoever reads
/// them reads one of what is there.
pub(super) fn check_parameters<'r>(known: &[&Known], args: Value<'r>, report: &mut Report<'r>) {
    let mut left = MOST;
    for entry in known {
        for (path, kind) in &entry.parameters {
            for place in places(args, path) {
                for (value, _) in place.walk().filter(|(value, _)| value.kind() == JsonKind::String) {
                    let Some(text) = value.text() else { continue };
                    let at = |found: &Found| Place::Value {
                        value,
                        range: found.range.map(|(start, end)| (start as u32, end as u32)),
                    };
                    say(entry, *kind, &text, &at, &mut left, report);
                }
            }
        }
    }
}

/// The same for input that is one text, which `""` names.
pub(super) fn check_free_text<'r>(known: &[&Known], layer: &'r Layer<'r>, report: &mut Report<'r>) {
    let mut left = MOST;
    for entry in known {
        for (_, kind) in entry.parameters.iter().filter(|(path, _)| path.is_empty()) {
            let at = |found: &Found| match found.range {
                Some((start, end)) => Place::Span(Span { layer, start: start as u32, end: end as u32 }),
                None => Place::Whole,
            };
            say(entry, *kind, layer.bytes, &at, &mut left, report);
        }
    }
}

fn say<'r>(
    entry: &Known,
    kind: Kind,
    text: &[u8],
    at: &dyn Fn(&Found) -> Place<'r>,
    left: &mut usize,
    report: &mut Report<'r>,
) {
    let lossy = String::from_utf8_lossy(text);
    let is_exact = lossy.len() == text.len() && lossy.as_bytes() == text;
    let least = if entry.enforce { Decision::Block } else { Decision::Allow };
    for found in parameters::find(kind, &lossy).into_iter().take(*left) {
        let found = if is_exact { found } else { Found { range: None, ..found } };
        let evidence = Evidence::Found { kind: "parameter", label: found.label, count: found.count };
        report.find_at_least(rule(kind), least, at(&found), evidence);
        *left -= 1;
    }
}

fn rule(kind: Kind) -> &'static Rule {
    match kind {
        Kind::Path => &PATH_TRAVERSAL,
        Kind::Url => &INTERNAL_URL,
        Kind::Sql => &SQL_METACHARACTERS,
        Kind::Shell => &SHELL_METACHARACTERS,
        Kind::Template => &TEMPLATE_EXPRESSION,
    }
}

/// The values at a path: of two members of one name both.
fn places<'r>(args: Value<'r>, path: &[String]) -> Vec<Value<'r>> {
    let mut at = vec![args];
    for segment in path {
        let mut next = Vec::new();
        for value in at {
            match value.kind() {
                JsonKind::Object if segment == "*" => next.extend(value.members().map(|(_, member)| member)),
                JsonKind::Object => {
                    next.extend(value.members().filter(|(key, _)| key.is(segment)).map(|(_, member)| member));
                }
                JsonKind::Array if segment == "*" => next.extend(value.items()),
                JsonKind::Array => next.extend(segment.parse().ok().and_then(|ix| value.items().nth(ix))),
                _ => {}
            }
        }
        at = next;
    }
    at
}
