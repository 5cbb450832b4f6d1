//! Calls inside a call.
//!
//! Models make up a tool that runs several at once (`multi_tool_use.parallel`), which no request declares. A host
//! that knows it runs calls that nobody judged, so the wrapper is blocked, and what is inside is judged as if it
//! stood by itself. A tool of such a shape that the request declares is a tool like others.

use super::super::{CallSubject, Definitions, Evidence, Place, Policy, Report, View};
use super::{ArgumentChecks, UNKNOWN_TOOL, WRAPPED_CALLS, WRONG_FORM, operator, wellformed};
use crate::engine::event::{Executor, Form};
use crate::engine::json::{JsonLimits, Kind, Value, parse};
use crate::engine::layer::Step;

/// Inner calls that are judged; the wrapper is blocked whatever they are.
const MAX_INNER: usize = 16;
/// Wrappers inside wrappers that are opened.
const MAX_LEVELS: u32 = 3;

/// Names by which models call what is not there; `-` and `_` stand for dots that a provider does not take.
const NAMES: [&str; 9] = [
    "batch",
    "batch_tool",
    "multi_tool_use",
    "multi_tool_use-parallel",
    "multi_tool_use.parallel",
    "multi_tool_use__parallel",
    "multi_tool_use_parallel",
    "parallel",
    "parallel_tool_calls",
];
/// Members that list the calls, that name their tools, that hold their arguments.
const LISTS: [&str; 5] = ["tool_uses", "tool_calls", "function_calls", "calls", "invocations"];
const RECIPIENTS: [&str; 4] = ["recipient_name", "tool_name", "name", "tool"];
const PARAMETERS: [&str; 4] = ["parameters", "arguments", "input", "args"];

fn member<'r>(value: Value<'r>, names: &[&str]) -> Option<Value<'r>> {
    names.iter().find_map(|name| value.get(name))
}

/// The member that names an inner call's tool, and the one that holds its arguments.
fn inner_call(value: Value<'_>) -> Option<(Value<'_>, Option<Value<'_>>)> {
    let value = value.get("function").filter(|function| function.kind() == Kind::Object).unwrap_or(value);
    let recipient = member(value, &RECIPIENTS).filter(|name| name.kind() == Kind::String)?;
    Some((recipient, member(value, &PARAMETERS)))
}

fn is_wrapper_name(name: &[u8]) -> bool {
    NAMES.iter().any(|known| known.as_bytes() == name)
}

/// The calls that arguments list.
fn listed(args: Value<'_>) -> Vec<Value<'_>> {
    let list = member(args, &LISTS).into_iter().flat_map(|list| list.items());
    list.filter(|value| inner_call(*value).is_some()).collect()
}

impl ArgumentChecks {
    /// Whether the call is a wrapper, which is then reported with the calls inside.
    pub(super) fn check_wrapped<'r>(
        &self,
        subject: &CallSubject<'_, 'r>,
        args: Value<'r>,
        view: &View<'_>,
        report: &mut Report<'r>,
    ) -> bool {
        let call = subject.call;
        let inner = listed(args);
        // The shape that models make up, whatever they call it, and the name that nothing else has.
        let uses = args.get("tool_uses").and_then(|uses| uses.items().next());
        let made_up = uses.is_some_and(|first| first.get("recipient_name").is_some())
            || call.name.starts_with(b"multi_tool_use")
            || call.namespace.as_deref() == Some(b"multi_tool_use");
        let is_wrapper = match view.definitions(call) {
            Definitions::Declared(_) => false,
            Definitions::Undeclared | Definitions::Withheld => {
                made_up || (is_wrapper_name(&call.name) && !inner.is_empty())
            }
            Definitions::Unseen(_) | Definitions::WrongForm => made_up,
        };
        if call.executor == Executor::Provider || !is_wrapper {
            return false;
        }
        let evidence = Evidence::Count { found: inner.len() as u64, limit: 1 };
        report.find(&WRAPPED_CALLS, Place::Whole, evidence);
        let mut left = MAX_INNER;
        self.check_inner(subject, &inner, 1, &mut left, view, report);
        true
    }

    fn check_inner<'r>(
        &self,
        subject: &CallSubject<'_, 'r>,
        inner: &[Value<'r>],
        level: u32,
        left: &mut usize,
        view: &View<'_>,
        report: &mut Report<'r>,
    ) {
        let call = subject.call;
        for (recipient, parameters) in inner.iter().filter_map(|inner| inner_call(*inner)) {
            let Some(next) = left.checked_sub(1) else { return };
            *left = next;
            let Some(name) = recipient.text() else { continue };
            let name = name.strip_prefix(b"functions.").unwrap_or(&name);
            let args = parameters.and_then(|parameters| self.inner_arguments(parameters, report));
            let calls = args.map(listed).unwrap_or_default();
            if !calls.is_empty() && level < MAX_LEVELS && is_wrapper_name(name) {
                self.check_inner(subject, &calls, level + 1, left, view, report);
                continue;
            }
            let known = self.known(name, None, call.server.as_deref());
            if let Some(args) = args {
                operator::check_parameters(&known, args, report);
            }
            let registered = args.is_some_and(|args| self.check_registered(&known, args, report));
            match view.definitions_named(call, Form::JsonText, name, None) {
                Definitions::Declared(tools) => {
                    if let Some(args) = args {
                        self.check_schemas(&tools, registered, args, view, report);
                    }
                }
                Definitions::WrongForm => {
                    report.find(&WRONG_FORM, Place::Value { value: recipient, range: None }, Evidence::None);
                }
                Definitions::Undeclared | Definitions::Withheld => {
                    report.find(&UNKNOWN_TOOL, Place::Value { value: recipient, range: None }, Evidence::None);
                }
                Definitions::Unseen(_) if registered => {}
                Definitions::Unseen(label) => report.skipped(&Self::META, label),
            }
        }
    }

    /// An inner call's arguments, also where they are JSON in a string.
    fn inner_arguments<'r>(&self, parameters: Value<'r>, report: &mut Report<'r>) -> Option<Value<'r>> {
        if parameters.kind() != Kind::String {
            return Some(parameters);
        }
        let layer = parameters.text_layer(report.bump(), Step::Json)?.ok()?;
        let limits = JsonLimits { depth: self.options.max_depth + 1, ..JsonLimits::default() };
        match parse(report.bump(), layer, limits) {
            Ok(args) => wellformed::check_value(args, self.options.max_depth, report).then_some(args),
            Err(error) => {
                wellformed::say_error(layer, error, self.options.max_depth, report);
                None
            }
        }
    }
}
