//! SG01: a tool's output is bounded, and says where it came from.
//!
//! # What it checks
//! - `oversize_result`: text of one output above `max_bytes` keeps head and tail around a marker; JSON stays
//!   JSON. Addresses and names of blocks are never cut: where texts alone do not save enough, whole blocks go from
//!   the end, and one text block says how many. An MCP result's `structuredContent` (and JSON beside it) is cut in
//!   its long strings only, so that every value keeps its type.
//! - `uncuttable_result`: what cannot be cut so becomes the provider's error form.
//! - `oversize_total`: all outputs of one request above `max_total_bytes`; the largest are cut first, none below
//!   its marker.
//! - `hard_limit`: text and parts that are not understood above `block_bytes`, media above `block_media_bytes`
//!   (both as they stand on the wire). `too_many_parts`, `too_deep`: shapes made to exhaust a reader.
//! - `missing_provenance`: the output is not an object that carries `source` beside `content`. A `tool.result`
//!   is wrapped; in requests it is only said. Results that the provider types carry provenance already.
//! - `unbounded_server_tool`: a server tool of the request has a bound of its own that is not used.
//!
//! # Why it matters
//! One HTML dump pushes a conversation over its context window, and then even the call that would compact it
//! fails. Text whose source is not named cannot be distrusted by where it came from.
//!
//! # Violates
//! - A log of 156 776 bytes under a cap of 65 536: `[sluicegate: 91 319 of 156 776 bytes omitted; 1 204 lines]`.
//! - `{"rows":[…10 000…]}`: the rows end with `{"_truncated":{"omitted":9876,"of":10000,"bytes":…}}`.
//! - 1 000 links, 132 000 bytes: the first 500, then `[sluicegate: 500 of 1 000 parts omitted; 66 012 bytes]`.
//! - `structuredContent` with 40 000 numbers: no part of the list would be the list, so it is withheld.
//! - A `web_fetch` tool without `max_content_tokens`.
//!
//! ```example oversize_result
//! option max_bytes=1024
//! result "<<300*0123456789>>"
//! ```
//! ```example oversize_result
//! option max_bytes=1024
//! result {"source":"api:rows","content":[<<400*"0123456789",>>"end"]}
//! ```
//! ```example hard_limit
//! option max_bytes=1024
//! option block_bytes=2048
//! result "<<300*0123456789>>"
//! ```
//! ```example too_deep
//! option max_depth=3
//! result {"a":{"b":{"c":{"d":1}}}}
//! ```
//! ```example oversize_total: anthropic.messages, openai.responses, openai.chat, xai.responses, xai.chat, gemini.generate_content, gemini.live
//! option max_bytes=1024
//! option max_total_bytes=1500
//! call lookup {"page":1}
//! call lookup {"page":2}
//! result "<<1000*1>>"
//! result "<<1000*2>>"
//! ```
//! ```example missing_provenance
//! host "the door is open"
//! ```
//! ```example too_many_parts: anthropic.messages
//! option max_parts=1
//! event model.request {"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]}]}
//! ```
//! ```example uncuttable_result: mcp
//! option max_bytes=1024
//! event mcp.message {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rows","arguments":{}}}
//! event mcp.message {"jsonrpc":"2.0","id":1,"result":{"content":[],"structuredContent":{"rows":[<<900*1,>>1]}}}
//! ```
//! ```example unbounded_server_tool: anthropic.messages
//! event model.request {"messages":[],"tools":[{"type":"web_fetch_20260209","name":"web_fetch"}]}
//! ```
//!
//! # Holds
//! - Output at or under the cap, also one that was cut before. JSON that carries our marker is counted without blanks
//!   between its members and with letters for `\u` escapes, as it was when it was cut, so that a host may spell it anew.
//! - `{"source":"mcp:files","content":"…"}`, as an object or as a string that holds it.
//! - The gate's own error form, which stands for an output that was withheld.
//!
//! ```example holds
//! option max_bytes=1024
//! result {"source":"api:doors","content":"open"}
//! ```
//! ```example holds
//! host {"source":"api:doors","content":"open"}
//! ```
//! ```example holds
//! option max_bytes=1024
//! result "the door is open, <<20*and open, >>and stays so"
//! ```
//!
//! # Options
//! - `max_bytes` (65 536; at least 1 024, at most `block_bytes`), `block_bytes` (2 097 152).
//! - `block_media_bytes` (16 777 216; 1 024 to 67 108 864).
//! - `max_total_bytes` (524 288; at least `max_bytes`).
//! - `tools`: by tool name, its own `max_bytes` and `block_bytes`. A server's `_meta` never raises a limit.
//! - `head_percent` (75), `max_parts` (10 000), `max_depth` (128).
//! - `allowed_includes`: values of a request's `include[]` that bring no tool output.
//!
//! # Source
//! Checklist item 1, rules 1 and 4 and row *Size* of `untrusted-tool-outputs.md`; `field-bugs` F and 32;
//! `provider-formats` §2.6, §4.6.

mod cut;
mod provenance;

use super::globs;
use super::results::tool_name;
use super::truncate::{self, Bound};
use super::{
    Evidence, Meta, OptionsProblem, Place, Policy, Profile, Report, RequestSubject, ResultSubject, Rule, Severity,
    Subject, View, growth,
};
use crate::engine::decision::Decision;
use crate::engine::event::{Part, ResultItem, ResultShape};
use crate::engine::json::{JsonError, JsonErrorKind, JsonLimits, Kind, Value, parse, parse_prefix};
use crate::engine::layer::Step;
use crate::engine::state::Call;
use memchr::memmem;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

const fn rule(name: &'static str, effect: Decision, severity: Severity, message: &'static str) -> Rule {
    Rule { name, effect, strict: effect, severity, message }
}

const OVERSIZE_RESULT: Rule = rule(
    "oversize_result",
    Decision::Redact,
    Severity::Medium,
    "the output is longer than its bound; its middle is left out",
);
const OVERSIZE_TOTAL: Rule = rule(
    "oversize_total",
    Decision::Redact,
    Severity::Medium,
    "the outputs of this request are longer than their common bound; the largest are cut",
);
const HARD_LIMIT: Rule =
    rule("hard_limit", Decision::Block, Severity::High, "the output is longer than any output may be");
const UNCUTTABLE_RESULT: Rule = rule(
    "uncuttable_result",
    Decision::Block,
    Severity::Medium,
    "the output is longer than its bound, and could not be cut so that its reader still takes it",
);
const TOO_MANY_PARTS: Rule =
    rule("too_many_parts", Decision::Block, Severity::High, "the output has more parts than any output may have");
const TOO_DEEP: Rule = rule("too_deep", Decision::Block, Severity::High, "the output nests deeper than any output may");
const MISSING_PROVENANCE: Rule =
    rule("missing_provenance", Decision::Redact, Severity::Low, "the output does not say where it came from");
const UNBOUNDED_SERVER_TOOL: Rule = rule(
    "unbounded_server_tool",
    Decision::Allow,
    Severity::Low,
    "a tool that the provider runs is asked for without the bound that it offers",
);

/// The policy.
pub struct OutputBounds {
    options: Options,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    pub max_bytes: u64,
    pub max_total_bytes: u64,
    pub block_bytes: u64,
    pub block_media_bytes: u64,
    pub head_percent: u32,
    pub max_parts: u32,
    pub max_depth: u32,
    pub tools: BTreeMap<String, ToolBounds>,
    pub allowed_includes: Vec<String>,
}

/// What differs for one tool.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolBounds {
    pub max_bytes: Option<u64>,
    pub block_bytes: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        let harmless = [
            "computer_call_output.output.image_url",
            "message.input_image.image_url",
            "message.output_text.logprobs",
            "reasoning.encrypted_content",
        ];
        Self {
            max_bytes: 64 << 10,
            max_total_bytes: 512 << 10,
            block_bytes: 2 << 20,
            block_media_bytes: 16 << 20,
            head_percent: 75,
            max_parts: 10_000,
            max_depth: 128,
            tools: BTreeMap::new(),
            allowed_includes: harmless.map(str::to_owned).to_vec(),
        }
    }
}

impl Policy for OutputBounds {
    const META: Meta = Meta {
        code: "SG01",
        number: 1,
        name: "output_bounds",
        checklist: "item 1, rules 1 and 4, row Size",
        summary: "tool output is bounded and carries its source",
        rules: &[
            OVERSIZE_RESULT,
            OVERSIZE_TOTAL,
            HARD_LIMIT,
            UNCUTTABLE_RESULT,
            TOO_MANY_PARTS,
            TOO_DEEP,
            MISSING_PROVENANCE,
            UNBOUNDED_SERVER_TOOL,
        ],
    };
    type Options = Options;
    /// What others add counts too, so that the copy is within the bound.
    const LAST: bool = true;

    fn problems(options: &Options) -> Vec<OptionsProblem> {
        let mut found = Vec::new();
        let mut within = |path: &str, value: u64, least: u64, most: (u64, &str)| {
            let (most, name) = most;
            if !(least..=most).contains(&value) {
                let problem = format!("{value} is not between {least} and {most}{name}");
                found.push(OptionsProblem { path: path.to_owned(), problem });
            }
        };
        let block = (options.block_bytes, " (block_bytes)");
        within("block_bytes", options.block_bytes, 1 << 10, (8 << 20, ""));
        within("block_media_bytes", options.block_media_bytes, 1 << 10, (64 << 20, ""));
        within("max_bytes", options.max_bytes, 1 << 10, block);
        within("max_total_bytes", options.max_total_bytes, options.max_bytes, (64 << 20, ""));
        within("head_percent", options.head_percent.into(), 0, (100, ""));
        within("max_parts", options.max_parts.into(), 1, (10_000, ""));
        within("max_depth", options.max_depth.into(), 1, (128, ""));
        for (name, own) in &options.tools {
            let block_bytes = own.block_bytes.unwrap_or(options.block_bytes);
            let max_bytes = own.max_bytes.unwrap_or(options.max_bytes);
            within(&format!("tools.{name}.block_bytes"), block_bytes, 1 << 10, (8 << 20, ""));
            within(&format!("tools.{name}.max_bytes"), max_bytes, 1 << 10, (block_bytes, " (block_bytes)"));
        }
        let blank = options.tools.iter().filter(|(_, own)| own.max_bytes.or(own.block_bytes).is_none());
        found.extend(blank.map(|(name, _)| OptionsProblem {
            path: format!("tools.{name}"),
            problem: "sets nothing: give it max_bytes or block_bytes".to_owned(),
        }));
        let includes = options.allowed_includes.iter().enumerate();
        found.extend(includes.filter_map(|(ix, name)| globs::no_name(&format!("allowed_includes.{ix}"), name)));
        found.extend(options.tools.keys().filter_map(|name| globs::no_name(&format!("tools.{name}"), name)));
        found
    }

    fn new(options: Options, _profile: Profile) -> Self {
        Self { options }
    }

    fn check<'r>(&self, subject: &Subject<'_, 'r>, _view: &View<'_>, report: &mut Report<'r>) {
        match subject {
            Subject::Result(result) => self.check_result(result, report),
            Subject::Request(request) => {
                self.check_total(request, report);
                self.check_server_tools(request, report);
            }
            _ => {}
        }
    }
}

impl OutputBounds {
    fn check_result<'r>(&self, subject: &ResultSubject<'_, 'r>, report: &mut Report<'r>) {
        let result = subject.result;
        let place = Place::Value { value: result.content.unwrap_or(result.item), range: None };
        let parts = result.parts.len() as u64;
        if parts > self.options.max_parts.into() {
            let evidence = Evidence::Count { found: parts, limit: self.options.max_parts.into() };
            if report.find(&TOO_MANY_PARTS, place, evidence) == Decision::Block {
                return;
            }
        }
        let (max_bytes, block_bytes) = self.bounds(result, subject.call);
        let mut bytes: u64 = result.parts.iter().map(|part| part_bytes_at_most(part) as u64).sum();
        if bytes > max_bytes {
            bytes = result.parts.iter().map(|part| part_bytes(part) as u64).sum();
        }
        // Nobody looks into the other parts, so only their size is known.
        let (media, opaque) = raw_bytes(&result.parts);
        for (found, limit) in [(bytes + opaque, block_bytes), (media, self.options.block_media_bytes)] {
            let evidence = Evidence::Bytes { found, limit };
            if found > limit && report.find(&HARD_LIMIT, place, evidence) == Decision::Block {
                return;
            }
        }
        if self.check_depth(result, report) == Decision::Block {
            return;
        }
        let wrapper = provenance::check(subject, max_bytes as usize, report);
        // An output that is wrapped or edited is as long as what is published, so that the published one is not
        // cut again.
        let wrapped = wrapper.as_ref().map(|wrapper| wrapper.len() + wrapper.content.span().len());
        let growth = growth(result, &report.edits) as usize;
        let held = if bytes > max_bytes { result.parts.iter().map(held_bytes).sum() } else { bytes as usize };
        let measured = wrapped.unwrap_or(0).max(held) + growth;
        let room = (max_bytes as usize).saturating_sub(growth);
        if measured as u64 > max_bytes {
            let most = if result.shape == ResultShape::Server { Decision::Allow } else { Decision::Block };
            let evidence = Evidence::Bytes { found: measured as u64, limit: max_bytes };
            if report.find_at_most(&OVERSIZE_RESULT, most, place, evidence) == Decision::Redact {
                let edits = match &wrapper {
                    Some(wrapper) => {
                        let bound = self.bound(room.saturating_sub(wrapper.len()));
                        Some(truncate::value(report.bump(), wrapper.content, bound))
                    }
                    None => cut::cut(report.bump(), result, self.bound(room)),
                };
                match edits {
                    Some(cuts) => report.cuts.extend(cuts),
                    None => {
                        let evidence = Evidence::Bytes { found: measured as u64, limit: max_bytes };
                        report.find(&UNCUTTABLE_RESULT, place, evidence);
                    }
                }
            }
        }
        if let Some(wrapper) = wrapper {
            report.edits.extend(wrapper.edits());
        }
    }

    fn bound(&self, cap: usize) -> Bound {
        Bound { cap, head_percent: self.options.head_percent }
    }

    /// The bounds of this output's tool.
    fn bounds(&self, result: &ResultItem<'_>, call: Option<&Call>) -> (u64, u64) {
        let (mut max_bytes, mut block_bytes) = (self.options.max_bytes, self.options.block_bytes);
        if !self.options.tools.is_empty()
            && let Some(name) = tool_name(result, call)
            && let Some(own) = std::str::from_utf8(&name).ok().and_then(|name| self.options.tools.get(name))
        {
            max_bytes = own.max_bytes.unwrap_or(max_bytes);
            block_bytes = own.block_bytes.unwrap_or(block_bytes);
        }
        (max_bytes, block_bytes)
    }

    /// Depth is that of one output: of a value in the event, or of a text that is JSON.
    fn check_depth<'r>(&self, result: &ResultItem<'r>, report: &mut Report<'r>) -> Decision {
        let limit = self.options.max_depth;
        let mut worst = Decision::Allow;
        for part in &result.parts {
            let (Part::Text(value) | Part::Json(value)) = *part else { continue };
            if is_deeper(value, limit, report) {
                let evidence = Evidence::Count { found: u64::from(limit) + 1, limit: limit.into() };
                worst = worst.max(report.find(&TOO_DEEP, Place::Value { value, range: None }, evidence));
            }
        }
        worst
    }

    /// Results are cut anew from the original with a smaller bound; their own cuts are void. Where each is at its
    /// least, the total stays what it is.
    fn check_total<'r>(&self, request: &RequestSubject<'_, 'r>, report: &mut Report<'r>) {
        let total: u64 = request.results.iter().map(|result| result.text_bytes).sum();
        let limit = self.options.max_total_bytes;
        if total <= limit {
            return;
        }
        let evidence = Evidence::Bytes { found: total, limit };
        if report.find(&OVERSIZE_TOTAL, Place::Whole, evidence) != Decision::Redact {
            return;
        }
        // Blocked results have their error form already.
        let size = |ix: usize| match request.results[ix].action {
            Decision::Block => 0,
            _ => request.results[ix].text_bytes as usize,
        };
        let sizes: Vec<(usize, usize)> = (0..request.results.len())
            .map(size)
            .zip(request.results)
            .map(|(size, result)| (size, size.min(cut::least(&result.item))))
            .collect();
        let level = truncate::level_above(&sizes, limit as usize).unwrap_or(0);
        for (ix, (result, (size, least))) in request.results.iter().zip(sizes).enumerate() {
            let cap = level.max(least);
            let room = cap.saturating_sub(result.growth as usize);
            if size > cap
                && let Some(cuts) = cut::cut(report.bump(), &result.item, self.bound(room))
            {
                report.cuts.extend(cuts);
                report.recut.push(ix as u32);
            }
        }
    }

    fn check_server_tools<'r>(&self, request: &RequestSubject<'_, 'r>, report: &mut Report<'r>) {
        let mut say = |value, label| {
            let evidence = Evidence::Label { kind: "server_tool", label };
            report.find(&UNBOUNDED_SERVER_TOOL, Place::Value { value, range: None }, evidence);
        };
        for tool in request.body.get("tools").into_iter().flat_map(|tools| tools.items()) {
            let kind = tool.get("type").and_then(|kind| kind.text());
            let unbounded = tool.get("max_content_tokens").is_none_or(|bound| bound.is_null());
            if kind.is_some_and(|kind| kind.starts_with(b"web_fetch")) && unbounded {
                say(tool, "web_fetch");
            }
        }
        for include in request.body.get("include").into_iter().flat_map(|include| include.items()) {
            if !self.options.allowed_includes.iter().any(|allowed| include.is(allowed)) {
                say(include, "include");
            }
        }
        let input = request.body.get("input");
        let items = || input.into_iter().flat_map(|input| input.items());
        let is = |item: &Value<'r>, kind: &str| item.get("type").is_some_and(|found| found.is(kind));
        let bounded = |value: Value<'r>| value.get("max_output_length").filter(|bound| !bound.is_null()).is_some();
        let asked: Vec<Cow<'r, [u8]>> = items()
            .filter(|item| is(item, "shell_call") && item.get("action").is_some_and(bounded))
            .filter_map(|item| item.get("call_id")?.text())
            .collect();
        for output in items().filter(|item| is(item, "shell_call_output") && !bounded(*item)) {
            if output.get("call_id").and_then(|id| id.text()).is_some_and(|id| asked.contains(&id)) {
                say(output, "shell");
            }
        }
    }
}

/// Bytes that the model reads: of text decoded, of a value as it stands.
fn part_bytes(part: &Part<'_>) -> usize {
    match part {
        Part::Text(value) => value.text().map_or(0, |text| text.len()),
        Part::Json(value) => value.span().len(),
        Part::Media { .. } | Part::Opaque { .. } => 0,
    }
}

/// The same, where JSON that was cut before is counted as it was then: whoever spells it anew puts blanks between its
/// members, and escapes for letters that need none. Cut once more it would say less each time. Of blanks so much
/// counts for nothing as the rest would ask for, and no more.
fn held_bytes(part: &Part<'_>) -> usize {
    const BLANKS: usize = 1024;
    let whole = part_bytes(part);
    let (Part::Text(value) | Part::Json(value)) = part else { return whole };
    let text = if value.kind() == Kind::String { value.text().unwrap_or_default() } else { Cow::Borrowed(value.raw()) };
    let marked =
        || [&b"[sluicegate: "[..], b"\"_truncated\""].iter().any(|mark| memchr::memmem::find(&text, mark).is_some());
    if !truncate::opens_container(&text) || !marked() {
        return whole;
    }
    let (mut held, mut blanks, mut quoted) = (0, 0, false);
    let mut rest = &text[..];
    while let Some((byte, behind)) = rest.split_first() {
        rest = behind;
        match byte {
            b'"' => quoted = !quoted,
            b' ' | b'\t' | b'\n' | b'\r' if !quoted => {
                blanks += 1;
                continue;
            }
            b'\\' if quoted => {
                let escaped = rest.first() == Some(&b'u');
                let digits = rest.get(1..5).filter(|_| escaped).and_then(|hex| std::str::from_utf8(hex).ok());
                let unit = digits.and_then(|hex| u16::from_str_radix(hex, 16).ok());
                // Halves of a pair are two bytes each of the four that it is.
                let (length, taken) = match unit {
                    Some(0xD800..=0xDFFF | 0x80..=0x7FF) => (2, 5),
                    Some(0x800..) => (3, 5),
                    Some(_) => (6, 5),
                    None => (2, 1),
                };
                held += length;
                rest = rest.get(taken..).unwrap_or_default();
                continue;
            }
            _ => {}
        }
        held += 1;
    }
    if blanks <= held / 4 + BLANKS { held } else { whole }
}

/// Bytes of the media and of the parts that are not understood, as they stand on the wire.
fn raw_bytes(parts: &[Part<'_>]) -> (u64, u64) {
    parts.iter().fold((0, 0), |(media, opaque), part| match part {
        Part::Media { value, .. } => (media + value.span().len() as u64, opaque),
        Part::Opaque { value, .. } => (media, opaque + value.span().len() as u64),
        Part::Text(_) | Part::Json(_) => (media, opaque),
    })
}

/// An upper bound of [`part_bytes`] that costs nothing: escapes are longer than what they stand for.
fn part_bytes_at_most(part: &Part<'_>) -> usize {
    match part {
        Part::Text(value) | Part::Json(value) => value.span().len(),
        Part::Media { .. } | Part::Opaque { .. } => 0,
    }
}

/// Whether so many brackets open in a string, by its bytes as they stand: they may be spelled as escapes.
fn may_nest(value: Value<'_>, limit: u32) -> bool {
    let opening = value.raw().iter().filter(|byte| matches!(byte, b'{' | b'[')).count();
    opening > limit as usize || memmem::find(value.raw(), b"\\u").is_some()
}

fn is_deeper<'r>(value: Value<'r>, limit: u32, report: &Report<'r>) -> bool {
    let bump = report.bump();
    let limits = JsonLimits { depth: limit, nodes: JsonLimits::default().nodes };
    let too_deep = |error: JsonError| error.kind == JsonErrorKind::TooDeep;
    match value.kind() {
        Kind::Array | Kind::Object => {
            parse_prefix(bump, value.layer(), value.span().start, limits).is_err_and(too_deep)
        }
        Kind::String if truncate::may_hold_container(value) && may_nest(value, limit) => {
            let Some(Ok(layer)) = value.text_layer(bump, Step::Json) else { return false };
            // A text that is not JSON, however many brackets it opens, is only a text.
            parse(bump, layer, limits).is_err_and(too_deep)
                && parse(bump, layer, JsonLimits { depth: u32::MAX, ..limits }).is_ok()
        }
        _ => false,
    }
}
