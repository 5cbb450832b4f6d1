//! Decide: findings fold to a decision and an action, and become a verdict without text from outside.

pub use super::decision::{Checkpoint, Decision};
use super::digest::{Keyed, is_shown};
use super::json::{Documents, Segment, Value};
use super::layer::{Layer, Step};
use super::policy::{Evidence, Finding, Meta, Mode, Place, Rule, Severity};
use super::provider::fields;
use serde::{Serialize, Serializer};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// Findings of the engine itself: limits, gaps, what it could not read or could not do.
pub static SG00: Meta = Meta {
    code: "SG00",
    number: 0,
    name: "engine",
    checklist: "what the engine itself found",
    summary: "limits, undecodable input, and redactions that could not be made",
    rules: &[
        rule(
            "record_too_large",
            Decision::Block,
            Severity::High,
            "the record is over the size limit and was judged by its envelope alone",
        ),
        rule(
            "undecodable",
            Decision::Block,
            Severity::High,
            "the data could not be decoded, so nothing in it was judged",
        ),
        rule(
            "ambiguous_members",
            Decision::Block,
            Severity::High,
            "a member stands twice, so parsers would read two different messages",
        ),
        rule(
            "output_too_large",
            Decision::Block,
            Severity::High,
            "the redacted record would exceed its topic's limit and is withheld",
        ),
        rule(
            "not_redactable",
            Decision::Block,
            Severity::High,
            "a redaction cannot be made exactly here, so the whole is blocked",
        ),
        rule(
            "redaction_unfit",
            Decision::Block,
            Severity::High,
            "what redactions leave of the arguments does not pass a check that the whole passed, so the call is blocked",
        ),
        rule("results_changed", Decision::Redact, Severity::Medium, "results in this request were redacted or blocked"),
        rule(
            "results_withheld",
            Decision::Block,
            Severity::High,
            "results in this request were blocked and blocked results are withheld",
        ),
        rule(
            "ambiguous_exchange",
            Decision::Allow,
            Severity::Low,
            "several requests were unanswered; the response took the latest",
        ),
        rule(
            "verdicts_omitted",
            Decision::Block,
            Severity::High,
            "this record asked for more output than a step may give; what has no verdict of its own is blocked",
        ),
        rule(
            "text_behind_end",
            Decision::Block,
            Severity::Critical,
            "text came for a call behind the end of its response; its arguments are not those that were judged",
        ),
        rule("response_unasked", Decision::Block, Severity::High, "an answer came to a request that nobody made"),
        rule("response_repeated", Decision::Block, Severity::High, "a second answer came to one request"),
        rule(
            "response_cancelled",
            Decision::Block,
            Severity::High,
            "an answer came to a request that had been taken back",
        ),
        rule(
            "request_unseen",
            Decision::Allow,
            Severity::Low,
            "the request that this answers was not seen, so the answer was judged without it",
        ),
        rule(
            "fleet_not_permitted",
            Decision::Allow,
            Severity::Medium,
            "the record claims a fleet that it may not, so the policy of the default fleet judges it",
        ),
        rule(
            "definitions_withheld",
            Decision::Block,
            Severity::High,
            "a server's list of tools in this request is blocked, and no tool is dropped from a request",
        ),
        rule("unknown_part", Decision::Block, Severity::Medium, "a part that is not understood stands in a result"),
    ],
};

const fn rule(name: &'static str, effect: Decision, severity: Severity, message: &'static str) -> Rule {
    Rule { name, effect, strict: effect, severity, message }
}

/// A finding of the engine.
///
/// Falls back to the first rule for a name that is not listed, which a test rules out.
pub fn engine_finding<'r>(name: &str, place: Place<'r>, evidence: Evidence) -> Finding<'r> {
    let rule = SG00.rules.iter().find(|r| r.name == name).unwrap_or(&SG00.rules[0]);
    Finding { policy: &SG00, rule, effect: rule.effect, mode: Mode::Enforce, place, evidence }
}

/// The strongest effect that is asked for, and the strongest that is enforced.
pub fn fold(findings: &[Finding<'_>]) -> (Decision, Decision) {
    let mut decision = Decision::Allow;
    let mut action = Decision::Allow;
    for finding in findings {
        decision = decision.max(finding.effect);
        if finding.mode == Mode::Enforce {
            action = action.max(finding.effect);
        }
    }
    (decision, action)
}

/// One step of `at`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AtStep {
    #[serde(rename = "in")]
    pub within: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
}

/// Bytes of a pointer in a verdict.
const MAX_POINTER: usize = 1024;
/// Bytes of a masked segment in a pointer, its slash included.
const MASKED: usize = 15;

/// Names that a pointer may show although they came from outside: wire fields, and properties of the
/// schema of the tool in question.
pub struct Names<'a> {
    keyed: &'a Keyed,
    /// Harmless ones only.
    properties: BTreeSet<String>,
}

impl<'a> Names<'a> {
    pub fn new(keyed: &'a Keyed) -> Self {
        Self { keyed, properties: BTreeSet::new() }
    }

    /// Adds every property name that a JSON Schema declares, at any depth. For schemas that came with a request
    /// only: what a response brought was not written by the operator's agent.
    pub fn add_schema(&mut self, schema: Value<'_>) {
        for (value, is_key) in schema.walk() {
            if is_key || !value.key().is_some_and(|k| k.is("properties")) {
                continue;
            }
            for (name, _) in value.members() {
                if let Some(name) = name.str().filter(|name| is_shown(name.as_bytes())) {
                    self.properties.insert(name.into_owned());
                }
            }
        }
    }

    /// At most [`MAX_POINTER`] bytes: what lies deeper is one masked segment.
    fn pointer(&self, path: &[Segment<'_>]) -> String {
        let mut out = String::new();
        // Where the pointer is cut if it turns out too long.
        let mut cut = (0, 0);
        for (ix, segment) in path.iter().enumerate() {
            out.push('/');
            match segment {
                Segment::Index(n) => out.push_str(&n.to_string()),
                Segment::Name(name) => match std::str::from_utf8(name) {
                    Ok(text) if self.is_shown(text) => out.push_str(&text.replace('~', "~0").replace('/', "~1")),
                    _ => out.push_str(&self.keyed.masked(name).replace('~', "~0")),
                },
            }
            if out.len() <= MAX_POINTER - MASKED {
                cut = (out.len(), ix + 1);
            }
            if out.len() > MAX_POINTER {
                out.truncate(cut.0);
                out.push('/');
                out.push_str(&self.masked_rest(path.get(cut.1..).unwrap_or_default()).replace('~', "~0"));
                break;
            }
        }
        out
    }

    fn is_shown(&self, name: &str) -> bool {
        fields::is_wire_field(name) || self.properties.contains(name)
    }

    fn masked_rest(&self, rest: &[Segment<'_>]) -> String {
        let mut text = Vec::new();
        for segment in rest {
            match segment {
                Segment::Index(n) => text.extend_from_slice(n.to_string().as_bytes()),
                Segment::Name(name) => text.extend_from_slice(name),
            }
            text.push(b'/');
        }
        self.keyed.masked(&text)
    }

    /// The `at` list of a place, outermost step first.
    pub fn at<'r>(&self, place: &Place<'r>, documents: &Documents<'r>) -> Vec<AtStep> {
        let (layer, path) = match place {
            Place::Whole => return Vec::new(),
            Place::Value { value, .. } => (value.layer(), Some(value.path())),
            Place::Missing { object, name } => {
                let mut path = object.path();
                path.push(Segment::Name(Cow::Borrowed(name)));
                (object.layer(), Some(path))
            }
            Place::Span(span) => (span.layer, documents.path(span)),
        };
        let mut steps = Vec::new();
        self.push_steps(layer, path.as_deref(), documents, &mut steps);
        steps
    }

    fn push_steps<'r>(
        &self,
        layer: &'r Layer<'r>,
        path: Option<&[Segment<'r>]>,
        documents: &Documents<'r>,
        steps: &mut Vec<AtStep>,
    ) {
        if let Some(source) = &layer.source {
            // A slice or a decoded text stands at the value of its parent that holds its source.
            let hidden = source.layer.step == Step::Hidden;
            let parent_path = if hidden { None } else { documents.path(source) };
            self.push_steps(source.layer, parent_path.as_deref(), documents, steps);
        }
        let pointer = path.map(|p| self.pointer(p)).filter(|p| !p.is_empty());
        let (within, event) = match layer.step {
            Step::Hidden => return,
            Step::Data => ("data", None),
            Step::Arguments => ("arguments", None),
            Step::Json => ("json", None),
            Step::Base64 => ("base64", None),
            Step::Sse { event } => ("sse", Some(event)),
        };
        if event.is_some() {
            // A stream's event is text; the JSON in it is a step of its own.
            steps.push(AtStep { within, event, pointer: None });
            if pointer.is_some() {
                steps.push(AtStep { within: "json", event: None, pointer });
            }
        } else {
            steps.push(AtStep { within, event: None, pointer });
        }
    }
}

/// A finding as it is published.
#[derive(Debug, Serialize)]
pub struct FindingOut {
    pub policy: &'static str,
    pub name: &'static str,
    pub rule: &'static str,
    pub severity: Severity,
    pub mode: Mode,
    pub effect: Decision,
    pub at: Vec<AtStep>,
    pub range: Option<[u32; 2]>,
    pub message: &'static str,
    #[serde(serialize_with = "evidence")]
    pub evidence: Evidence,
}

fn evidence<S: Serializer>(evidence: &Evidence, serializer: S) -> Result<S::Ok, S::Error> {
    use serde::ser::SerializeMap;
    let mut map = match evidence {
        Evidence::None => return serializer.serialize_none(),
        _ => serializer.serialize_map(None)?,
    };
    match evidence {
        Evidence::None => {}
        Evidence::Bytes { found, limit } => {
            map.serialize_entry("kind", "bytes")?;
            map.serialize_entry("found", found)?;
            map.serialize_entry("limit", limit)?;
        }
        Evidence::Count { found, limit } => {
            map.serialize_entry("kind", "count")?;
            map.serialize_entry("found", found)?;
            map.serialize_entry("limit", limit)?;
        }
        Evidence::Schema { keyword } => {
            map.serialize_entry("kind", "schema")?;
            map.serialize_entry("keyword", keyword)?;
        }
        Evidence::Label { kind, label } => {
            map.serialize_entry("kind", kind)?;
            map.serialize_entry("label", label)?;
        }
        Evidence::Found { kind, label, count } => {
            map.serialize_entry("kind", kind)?;
            map.serialize_entry("label", label)?;
            map.serialize_entry("count", count)?;
        }
        Evidence::Offset { at } => {
            map.serialize_entry("kind", "offset")?;
            map.serialize_entry("at", at)?;
        }
    }
    map.end()
}

impl FindingOut {
    pub fn of<'r>(finding: &Finding<'r>, names: &Names<'_>, documents: &Documents<'r>) -> Self {
        let range = match finding.place {
            Place::Value { range, .. } => range.map(|(a, b)| [a, b]),
            Place::Span(span) => Some([span.start, span.end]),
            Place::Whole | Place::Missing { .. } => None,
        };
        Self {
            policy: finding.policy.code,
            name: finding.policy.name,
            rule: finding.rule.name,
            severity: finding.rule.severity,
            mode: finding.mode,
            effect: finding.effect,
            at: names.at(&finding.place, documents),
            range,
            message: finding.rule.message,
            evidence: finding.evidence,
        }
    }
}

/// A part that no policy looked into.
#[derive(Debug, Serialize)]
pub struct NotInspected {
    pub at: Vec<AtStep>,
    pub kind: &'static str,
    pub reason: &'static str,
}

/// Who or what was judged. Identifiers are already clean.
#[derive(Debug, Default, Serialize)]
pub struct SubjectOut {
    pub call_id: Option<String>,
    pub tool: Option<String>,
    pub server: Option<String>,
    pub executor: Option<&'static str>,
}

#[derive(Debug, Serialize)]
pub struct PolicyOut<'a> {
    pub bundle: &'a str,
    pub digest: &'a str,
    pub pins_offset: Option<i64>,
}

#[derive(Debug, Serialize)]
pub struct SourceOut<'a> {
    pub topic: &'a str,
    pub partition: i32,
    pub offset: i64,
    pub event_id: Option<String>,
    pub time: Option<String>,
}

/// `io.sluicegate.verdict.v1`.
#[derive(Debug, Serialize)]
pub struct Verdict<'a> {
    pub verdict_id: String,
    pub checkpoint: Checkpoint,
    pub decision: Decision,
    pub action: Decision,
    pub complete: bool,
    pub subject: SubjectOut,
    pub provider: Option<&'static str>,
    pub fleet: String,
    pub agent: String,
    pub conversation: Option<String>,
    pub response_id: Option<String>,
    pub findings: Vec<FindingOut>,
    #[serde(skip_serializing_if = "is_zero")]
    pub findings_omitted: u32,
    pub not_inspected: Vec<NotInspected>,
    #[serde(skip_serializing_if = "is_zero")]
    pub not_inspected_omitted: u32,
    pub content_hmac: Option<String>,
    pub content_bytes: u64,
    pub idempotency_key: Option<String>,
    pub policy: PolicyOut<'a>,
    pub source: SourceOut<'a>,
    pub engine: &'static str,
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

impl Verdict<'_> {
    /// The JSON, at most `limit` bytes: the findings and parts beyond it are counted instead of listed. If that is not enough, the last finding's place and then what names the
    /// subject go. What remains are our own identifiers, decisions and digests.
    pub fn encode(mut self, limit: u64) -> Vec<u8> {
        loop {
            // Serialising plain structs to memory cannot fail.
            let json = serde_json::to_vec(&self).unwrap_or_default();
            if json.len() as u64 <= limit || !self.shrink() {
                return json;
            }
        }
    }

    /// Takes something away; false if there is nothing left that may go.
    fn shrink(&mut self) -> bool {
        if self.findings.len() > 1 || !self.not_inspected.is_empty() {
            let kept = self.not_inspected.len() / 2;
            self.not_inspected_omitted += (self.not_inspected.len() - kept) as u32;
            self.not_inspected.truncate(kept);
            let kept = self.findings.len().div_ceil(2);
            self.findings_omitted += (self.findings.len() - kept) as u32;
            self.findings.truncate(kept);
            return true;
        }
        if let Some(finding) = self.findings.last_mut() {
            if finding.at.is_empty() {
                self.findings.clear();
                self.findings_omitted += 1;
            } else {
                finding.at.clear();
                finding.range = None;
            }
            return true;
        }
        let subject = std::mem::take(&mut self.subject);
        let named = [subject.call_id, subject.tool, subject.server, self.conversation.take(), self.response_id.take()];
        let named =
            named.into_iter().chain([self.source.event_id.take(), self.source.time.take()]).any(|n| n.is_some());
        self.subject.executor = subject.executor;
        let fleet = std::mem::take(&mut self.fleet);
        let agent = std::mem::take(&mut self.agent);
        let bundle = std::mem::take(&mut self.policy.bundle);
        named || !fleet.is_empty() || !agent.is_empty() || !bundle.is_empty()
    }
}
