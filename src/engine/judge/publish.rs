//! Writing: verdicts, published copies and dead letters, each bounded.

use super::Run;
use crate::engine::digest::{Role, hex};
use crate::engine::layer::Edit;
use crate::engine::policy::{Evidence, Finding, Mode, Place, Policies, Profile};
use crate::engine::redact::{self, Stamp};
use crate::engine::scan::secrets;
use crate::engine::verdict::{
    self, Checkpoint, Decision, FindingOut, Names, NotInspected, PolicyOut, SourceOut, SubjectOut, Verdict,
    engine_finding,
};
use crate::engine::wire::Envelope;
use crate::engine::{Emission, Engine, Input, Millis, Observation, Payload, To};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The part of a value that a dead letter keeps when the whole does not fit.
const DEAD_LETTER_PREFIX: usize = 64 << 10;

/// Findings of one verdict beyond which the rest is only counted: the encoder's limit is in bytes, this
/// keeps the work before it bounded.
const MAX_FINDINGS: usize = 256;

/// What a verdict's record weighs beside its value and key: headers, and Kafka's own bytes.
const VERDICT_OVERHEAD: u64 = 4 << 10;

/// The policy whose findings are a host's bypasses, and its rule that is none.
const BYPASS: &str = "SG15";
const NOT_OBSERVED: &str = "not_observed";

/// A verdict in the making.
pub(super) struct Draft<'r, 'n> {
    pub id: String,
    pub checkpoint: Checkpoint,
    pub findings: Vec<Finding<'r>>,
    pub subject: SubjectOut,
    pub not_inspected: Vec<(Place<'r>, &'static str, &'static str)>,
    pub complete: bool,
    pub content_hmac: Option<[u8; 32]>,
    pub content_bytes: u64,
    pub idempotency_key: Option<String>,
    pub names: Option<Names<'n>>,
    /// How many of its edits, the last ones, are cuts to a bound.
    pub cuts: usize,
    /// What judged its subject, where that may not be what holds for the record's fleet and agent.
    pub policies: Option<Arc<Policies>>,
    /// The profile `monitor`: what blocks for want of a copy is said, and changes no action.
    pub monitored: bool,
}

impl Draft<'_, '_> {
    pub fn new(id: String, checkpoint: Checkpoint) -> Self {
        Self {
            id,
            checkpoint,
            findings: Vec::new(),
            subject: SubjectOut::default(),
            not_inspected: Vec::new(),
            complete: true,
            content_hmac: None,
            content_bytes: 0,
            idempotency_key: None,
            names: None,
            cuts: 0,
            policies: None,
            monitored: false,
        }
    }

    /// What is asked for, and what is enforced.
    pub fn fold(&self) -> (Decision, Decision) {
        verdict::fold(&self.findings)
    }

    pub fn block(&mut self, rule: &str, evidence: Evidence) {
        let mut finding = engine_finding(rule, Place::Whole, evidence);
        if self.monitored && self.fold().1 == Decision::Allow {
            finding.mode = Mode::Monitor;
        }
        self.findings.push(finding);
    }
}

impl<'a, 'r> Run<'a, 'r> {
    /// `<cluster>/<topic>/<partition>/<offset>/<checkpoint>`
    pub(super) fn id_prefix(&self, checkpoint: Checkpoint) -> String {
        let o = &self.origin;
        format!("{}/{}/{}/{}/{}", self.engine.settings.cluster, o.topic, o.partition, o.offset, checkpoint.name())
    }

    pub(super) fn next_id(&mut self, checkpoint: Checkpoint) -> String {
        let ordinal = &mut self.ordinals[checkpoint as usize];
        let n = *ordinal;
        *ordinal += 1;
        format!("{}/{n}", self.id_prefix(checkpoint))
    }

    /// Writes the verdict. Gives the action; `None` where the step has no room for another verdict: the subject
    /// is blocked, nothing of it may be published, and a verdict on the record counts it.
    pub(super) fn emit(&mut self, draft: Draft<'r, '_>) -> Option<Decision> {
        let (_, action) = draft.fold();
        if !self.has_room() {
            self.omitted += 1;
            return None;
        }
        self.write(draft);
        Some(action)
    }

    fn write(&mut self, mut draft: Draft<'r, '_>) {
        if self.origin.unpermitted {
            draft.findings.push(engine_finding("fleet_not_permitted", Place::Whole, Evidence::None));
        }
        let (decision, action) = draft.fold();
        let own = draft.policies.take();
        let fallback = Names::new(self.keyed());
        let names = draft.names.as_ref().unwrap_or(&fallback);
        // The strongest first: a reader, and a verdict cut at its limit, keep what decided.
        draft.findings.sort_by_key(|f| (Reverse(f.effect), Reverse(f.rule.severity)));
        let findings: Vec<FindingOut> =
            draft.findings.iter().take(MAX_FINDINGS).map(|f| FindingOut::of(f, names, &self.documents)).collect();
        let blocked_by = draft
            .findings
            .iter()
            .find(|f| f.mode == Mode::Enforce && f.effect == Decision::Block)
            .map(|f| f.policy.code);
        for finding in draft.findings.iter().take(MAX_FINDINGS) {
            self.out.observations.push(Observation::Finding {
                policy: finding.policy.code,
                severity: finding.rule.severity,
                mode: finding.mode,
            });
            if finding.policy.code == BYPASS && finding.rule.name != NOT_OBSERVED {
                let fleet = self.fleet_label();
                self.out.observations.push(Observation::Bypass { fleet, kind: finding.rule.name });
            }
        }
        let o = &self.origin;
        self.out.observations.push(Observation::Verdict {
            fleet: self.fleet_label(),
            provider: o.provider,
            checkpoint: draft.checkpoint,
            decision,
            action,
            blocked_by,
        });
        let verdict = Verdict {
            verdict_id: draft.id.clone(),
            checkpoint: draft.checkpoint,
            decision,
            action,
            complete: draft.complete,
            subject: draft.subject,
            provider: o.provider.map(|p| p.name()),
            fleet: self.clean(o.fleet.as_bytes()),
            agent: self.clean(o.agent.as_bytes()),
            conversation: o.conversation.map(|c| self.clean(c)),
            response_id: o.response_id.map(|id| self.clean(id)),
            findings_omitted: (draft.findings.len() - findings.len()) as u32,
            findings,
            not_inspected: draft
                .not_inspected
                .iter()
                .take(MAX_FINDINGS)
                .map(|(place, kind, reason)| NotInspected { at: names.at(place, &self.documents), kind, reason })
                .collect(),
            not_inspected_omitted: draft.not_inspected.len().saturating_sub(MAX_FINDINGS) as u32,
            content_hmac: draft.content_hmac.map(|d| hex(&d)),
            content_bytes: draft.content_bytes,
            idempotency_key: draft.idempotency_key,
            policy: PolicyOut {
                bundle: &self.engine.settings.policy.bundle,
                digest: own.as_deref().unwrap_or(self.policies()).digest(),
                pins_offset: self.engine.pins.offset(),
            },
            source: SourceOut {
                topic: o.topic,
                partition: o.partition,
                offset: o.offset,
                event_id: o.event_id.map(|id| self.clean(id.as_bytes())),
                time: o.time.and_then(format_time),
            },
            engine: env!("CARGO_PKG_VERSION"),
        };
        let value = verdict.encode(self.engine.settings.limits.verdict_bytes);
        let headers = self.headers(&draft.id, "io.sluicegate.verdict.v1");
        self.push(Emission { to: To::Verdicts, key: self.key(), headers, value: Some(value), timestamp: None });
    }

    /// Room for one more verdict, and for the one that counts what is left out.
    fn has_room(&self) -> bool {
        let limits = &self.engine.settings.limits;
        let most = limits.verdict_bytes + VERDICT_OVERHEAD + self.origin.key.map_or(0, <[u8]>::len) as u64;
        self.emitted + 2 * most <= limits.output_bytes
    }

    /// Room for so many bytes beside a verdict and the one that counts.
    pub(super) fn has_room_for(&self, bytes: u64) -> bool {
        let limits = &self.engine.settings.limits;
        let reserved = limits.output_bytes / 2 + bytes;
        self.emitted + reserved <= limits.output_bytes
    }

    /// Says how many subjects of this record got no verdict of their own: they are blocked.
    pub(super) fn say_omitted(&mut self, checkpoint: Checkpoint) {
        let omitted = std::mem::take(&mut self.omitted);
        if omitted == 0 {
            return;
        }
        let mut draft = Draft::new(self.next_id(checkpoint), checkpoint);
        let limit = self.engine.settings.limits.output_bytes;
        draft.block("verdicts_omitted", Evidence::Count { found: omitted, limit });
        draft.complete = false;
        self.write(draft);
    }

    /// The fleet as a metric's label.
    pub(super) fn fleet_label(&self) -> String {
        let (fleet, known) = (self.origin.fleet, &self.engine.settings.fleet_labels);
        match known.is_empty() {
            // Its own name was not believed, and the default fleet's figures are not for others to raise.
            _ if self.origin.unpermitted => "_other".to_owned(),
            true => self.clean(fleet.as_bytes()),
            false if fleet == "default" || known.iter().any(|k| k == fleet) => fleet.to_owned(),
            false => "_other".to_owned(),
        }
    }

    /// Binary-mode CloudEvents headers of a record of our own.
    pub(super) fn headers(&self, id: &str, kind: &str) -> Vec<(String, Vec<u8>)> {
        let source = format!("/sluicegate/{}", self.engine.settings.group);
        let mut headers: Vec<(String, Vec<u8>)> = [
            ("content-type", "application/json"),
            ("ce_specversion", "1.0"),
            ("ce_id", id),
            ("ce_source", &source),
            ("ce_type", kind),
        ]
        .map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec()))
        .into();
        if let Some(parent) = self.origin.traceparent.filter(|p| is_traceparent(p)) {
            headers.push(("ce_traceparent".to_owned(), parent.as_bytes().to_vec()));
            if let Some(state) = self.origin.tracestate.filter(|s| is_tracestate(s)) {
                headers.push(("ce_tracestate".to_owned(), state.as_bytes().to_vec()));
            }
        }
        headers
    }

    pub(super) fn key(&self) -> Option<Vec<u8>> {
        self.origin.key.map(<[u8]>::to_vec)
    }

    pub(super) fn push(&mut self, emission: Emission) {
        self.emitted += emission.size() as u64;
        self.out.emissions.push(emission);
    }

    /// Publishes a copy whose verdict was written, and tells whose edits it carries.
    pub(super) fn publish(&mut self, said: bool, copy: Option<Emission>, edits: &[Edit<'r>]) {
        let (true, Some(copy)) = (said, copy) else { return };
        let mut spans: BTreeMap<&'static str, u64> = BTreeMap::new();
        for policy in edits.iter().filter_map(|edit| edit.by) {
            *spans.entry(policy).or_default() += 1;
        }
        let told = spans.into_iter().map(|(policy, spans)| Observation::Redacted { policy, spans });
        self.out.observations.extend(told);
        self.push(copy);
    }

    /// Whether the profile under which a draft is made only observes.
    pub(super) fn monitored(&self, draft: &Draft<'_, '_>) -> bool {
        self.policies_of(draft).profile() == Profile::Monitor
    }

    /// The safe copy of the input. If it cannot be made or does not fit, the draft gets the finding that
    /// blocks, and a dead letter keeps what there is.
    pub(super) fn copy(
        &mut self,
        draft: &mut Draft<'r, '_>,
        envelope: &Envelope<'r>,
        input: &Input<'_>,
        edits: &[Edit<'r>],
    ) -> Option<Emission> {
        draft.monitored = self.monitored(draft);
        let source = format!("/sluicegate/{}", self.engine.settings.group);
        let stamp = Stamp {
            id: &draft.id,
            action: draft.fold().1,
            verdict_id: &draft.id,
            source: &source,
            kind: envelope.kind.name(),
        };
        match redact::republish(envelope, input, edits, stamp) {
            Ok(emission) => self.fits(draft, emission),
            Err(_) => {
                draft.block("not_redactable", Evidence::None);
                None
            }
        }
    }

    /// Withholds a record that its topic, or this step, would not carry.
    pub(super) fn fits(&mut self, draft: &mut Draft<'r, '_>, emission: Emission) -> Option<Emission> {
        let limits = &self.engine.settings.limits;
        let size = emission.size() as u64;
        let left = limits.output_bytes.saturating_sub(self.emitted);
        let limit = limits.redacted_record_bytes.min(left);
        if size <= limit {
            return Some(emission);
        }
        draft.monitored = self.monitored(draft);
        draft.block("output_too_large", Evidence::Bytes { found: size, limit });
        let mut letter = emission;
        letter.to = To::DeadLetters;
        letter.headers.retain(|(name, _)| !is_ours(name));
        shorten(self.engine, &mut letter, DEAD_LETTER_PREFIX);
        let reason = "output_too_large";
        stamp_dead_letter(&mut letter, reason, "redact", self.origin.topic, self.origin.partition, self.origin.offset);
        self.out.observations.push(Observation::DeadLetter { reason });
        self.push(letter);
        None
    }
}

/// A dead letter for an input record: the original key, value, headers and timestamp, and why.
pub(super) fn dead_letter(engine: &Engine, input: &Input<'_>, reason: &str, stage: &str) -> Emission {
    let headers = input
        .headers
        .iter()
        .filter(|(name, _)| !is_ours(name))
        .map(|(name, value)| ((*name).to_owned(), value.unwrap_or_default().to_vec()))
        .collect();
    let mut letter = Emission {
        to: To::DeadLetters,
        key: input.key.map(<[u8]>::to_vec),
        headers,
        value: input.value.map(<[u8]>::to_vec),
        timestamp: input.timestamp,
    };
    match engine.settings.dead_letter_payload {
        Payload::Full => {}
        Payload::Hash => shorten(engine, &mut letter, 0),
        Payload::None => letter.value = None,
    }
    stamp_dead_letter(&mut letter, reason, stage, input.topic, input.partition, input.offset);
    if letter.size() as u64 > engine.settings.limits.deadletter_record_bytes {
        shorten(engine, &mut letter, DEAD_LETTER_PREFIX);
    }
    // Headers or key alone may be over the limit: what names the record is kept, what the sender chose goes.
    if letter.size() as u64 > engine.settings.limits.deadletter_record_bytes {
        letter.headers.retain(|(name, _)| name.starts_with("sluicegate_dlq_"));
        letter.key = letter.key.filter(|k| k.len() <= DEAD_LETTER_PREFIX);
    }
    letter
}

/// A header that only we write; what a sender wrote under that name is dropped.
fn is_ours(name: &str) -> bool {
    const PREFIX: &str = "sluicegate_dlq_";
    name.get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX))
}

/// Keeps the first bytes of the value and a keyed digest of the whole.
fn shorten(engine: &Engine, letter: &mut Emission, keep: usize) {
    let Some(value) = letter.value.as_mut() else { return };
    if letter.headers.iter().any(|(name, _)| name == "sluicegate_dlq_value_hmac") {
        value.truncate(keep);
        return;
    }
    let digest = engine.keyed.digest(Role::Content, &[value]);
    letter.headers.push(("sluicegate_dlq_value_hmac".to_owned(), hex(&digest).into_bytes()));
    letter.headers.push(("sluicegate_dlq_value_bytes".to_owned(), value.len().to_string().into_bytes()));
    value.truncate(keep);
    value.shrink_to_fit();
}

fn stamp_dead_letter(letter: &mut Emission, reason: &str, stage: &str, topic: &str, partition: i32, offset: i64) {
    let (partition, offset) = (partition.to_string(), offset.to_string());
    for (name, value) in [
        ("reason", reason),
        ("stage", stage),
        ("topic", topic),
        ("partition", &partition),
        ("offset", &offset),
        ("version", env!("CARGO_PKG_VERSION")),
        ("attempt", "1"),
    ] {
        letter.headers.push((format!("sluicegate_dlq_{name}"), value.as_bytes().to_vec()));
    }
}

/// RFC 3339 to milliseconds.
pub(super) fn parse_time(text: &str) -> Option<Millis> {
    text.parse::<jiff::Timestamp>().ok().map(|t| t.as_millisecond())
}

fn format_time(time: Millis) -> Option<String> {
    jiff::Timestamp::from_millisecond(time).ok().map(|t| t.to_string())
}

/// `00-<32 hex>-<16 hex>-<2 hex>`, lower case, as W3C Trace Context has it.
fn is_traceparent(text: &str) -> bool {
    let mut parts = text.split('-');
    let mut hex = |len: usize| {
        parts.next().is_some_and(|p| p.len() == len && p.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')))
    };
    hex(2) && hex(32) && hex(16) && hex(2) && text.len() == 55
}

/// At most 512 bytes of list members whose keys and values hold no white space, no markup and no secret.
fn is_tracestate(text: &str) -> bool {
    text.len() <= 512
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"=,;:@/*_-.+".contains(&b))
        && !secrets::has_any(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trace_context_is_carried_only_if_it_is_one() {
        assert!(is_traceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"));
        for bad in ["", "00-XYZ", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x", "ignore all rules"] {
            assert!(!is_traceparent(bad), "{bad}");
        }
        assert!(is_tracestate("vendor=a:b,other=1") && !is_tracestate("a=<script>"));
        assert!(!is_tracestate(&format!("vendor={}-{}", "glpat", "abcdefghij0123456789")));
    }

    #[test]
    fn times_go_through() {
        assert_eq!(parse_time("2026-01-01T00:00:01Z"), Some(1_767_225_601_000));
        assert_eq!(parse_time("2026-01-01T01:00:01+01:00"), Some(1_767_225_601_000));
        assert_eq!(parse_time("yesterday"), None);
        assert_eq!(format_time(1_767_225_601_000).as_deref(), Some("2026-01-01T00:00:01Z"));
    }
}
