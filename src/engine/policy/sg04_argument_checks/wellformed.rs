//! What any two parsers must agree on.

use super::super::{Evidence, Place, Report, Rule};
use super::{
    DUPLICATE_KEYS, IMPRECISE_INTEGER, INVALID_JSON, LONE_SURROGATE, MERGED_CALLS, NUMBER_OUT_OF_RANGE, TOO_DEEP,
    TOO_LARGE, TRAILING_DATA,
};
use crate::engine::json::{JsonError, JsonErrorKind, JsonLimits, Kind, Value, parse_prefix};
use crate::engine::layer::{Layer, Span};
use std::collections::HashSet;

/// Findings of one rule on one text; more of the same tell nobody anything.
const MOST: u32 = 16;

/// Says why a text is not one JSON value.
pub(super) fn say_error<'r>(layer: &'r Layer<'r>, error: JsonError, max_depth: u32, report: &mut Report<'r>) {
    let place = Place::Span(Span { layer, start: error.at, end: error.at });
    let offset = Evidence::Offset { at: error.at.into() };
    match error.kind {
        JsonErrorKind::Truncated | JsonErrorKind::Syntax => {
            report.find(&INVALID_JSON, place, offset);
        }
        JsonErrorKind::Utf8 => {
            let rule =
                if layer.bytes[error.at as usize..].starts_with(&[0xED]) { &LONE_SURROGATE } else { &INVALID_JSON };
            report.find(rule, place, offset);
        }
        JsonErrorKind::Trailing => {
            report.find(trailing(layer, error.at, report), place, offset);
        }
        JsonErrorKind::TooDeep => {
            let evidence = Evidence::Count { found: u64::from(max_depth) + 1, limit: max_depth.into() };
            report.find(&TOO_DEEP, place, evidence);
        }
        JsonErrorKind::TooManyNodes => {
            let limit = u64::from(JsonLimits::default().nodes);
            report.find(&TOO_LARGE, place, Evidence::Count { found: limit + 1, limit });
        }
    }
}

/// A second object or array behind the first is another call's.
fn trailing<'r>(layer: &'r Layer<'r>, at: u32, report: &Report<'r>) -> &'static Rule {
    let opens = |from: usize| super::super::truncate::opens_container(&layer.bytes[from..]);
    let second = || parse_prefix(report.bump(), layer, at, JsonLimits::default()).is_ok();
    if opens(0) && opens(at as usize) && second() { &MERGED_CALLS } else { &TRAILING_DATA }
}

/// Looks at every value. True if a schema can be held against it.
pub(super) fn check_value<'r>(args: Value<'r>, max_depth: u32, report: &mut Report<'r>) -> bool {
    let mut say = Say { report, counts: [0; 5], sound: true };
    let mut ends: Vec<u32> = Vec::new();
    for (value, _) in args.walk() {
        let span = value.span();
        while ends.last().is_some_and(|end| *end <= span.start) {
            ends.pop();
        }
        match value.kind() {
            Kind::String if value.has_lone_surrogate() => say.that(0, &LONE_SURROGATE, value, Evidence::None),
            Kind::Number => check_number(value, &mut say),
            Kind::Array | Kind::Object => {
                ends.push(span.end);
                if ends.len() == max_depth as usize + 1 {
                    let evidence = Evidence::Count { found: ends.len() as u64, limit: max_depth.into() };
                    say.that(3, &TOO_DEEP, value, evidence);
                }
                if value.kind() == Kind::Object {
                    check_names(value, &mut say);
                }
            }
            _ => {}
        }
    }
    say.sound
}

/// Free text is well-formed Unicode.
pub(super) fn check_unicode<'r>(layer: &'r Layer<'r>, report: &mut Report<'r>) {
    if let Err(error) = std::str::from_utf8(layer.bytes) {
        let at = error.valid_up_to() as u32;
        let place = Place::Span(Span { layer, start: at, end: at });
        report.find(&LONE_SURROGATE, place, Evidence::Offset { at: at.into() });
    }
}

fn check_number<'r>(number: Value<'r>, say: &mut Say<'_, 'r>) {
    let Ok(text) = std::str::from_utf8(number.raw()) else { return };
    let double: f64 = text.parse().unwrap_or(f64::INFINITY);
    if !double.is_finite() {
        say.that(1, &NUMBER_OUT_OF_RANGE, number, Evidence::None);
    } else if double.abs() >= 9_007_199_254_740_992.0 && text.bytes().all(|b| b.is_ascii_digit() || b == b'-') {
        let exact = number.i64().is_some_and(|whole| whole.unsigned_abs() <= 1 << 53);
        if !exact {
            say.that(2, &IMPRECISE_INTEGER, number, Evidence::None);
        }
    }
}

/// Names are compared decoded: `"a"` and `"\u0061"` are one.
fn check_names<'r>(object: Value<'r>, say: &mut Say<'_, 'r>) {
    let mut names = HashSet::new();
    for (key, _) in object.members() {
        if key.text().is_some_and(|name| !names.insert(name)) {
            say.that(4, &DUPLICATE_KEYS, key, Evidence::None);
        }
    }
}

struct Say<'a, 'r> {
    report: &'a mut Report<'r>,
    counts: [u32; 5],
    /// Nothing that would make the value mean different things to different readers.
    sound: bool,
}

impl<'r> Say<'_, 'r> {
    fn that(&mut self, slot: usize, rule: &'static Rule, value: Value<'r>, evidence: Evidence) {
        self.sound &= rule.name == IMPRECISE_INTEGER.name;
        self.counts[slot] += 1;
        if self.counts[slot] <= MOST {
            self.report.find(rule, Place::Value { value, range: None }, evidence);
        }
    }
}
