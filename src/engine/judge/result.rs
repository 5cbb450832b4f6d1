//! Judging tool outputs: raw host results, results in requests, and results of tools that the provider ran.

use super::content::Content;
use super::pairing::{Naming, model_call, tool_of};
use super::publish::Draft;
use super::texts::text_after;
use super::{Run, call};
use crate::engine::digest::short;
use crate::engine::event::{Failure, Name, Part, ResultItem, ResultShape};
use crate::engine::json::{self, JsonLimits, Value};
use crate::engine::layer::{Edit, Layer};
use crate::engine::policy::{Evidence, Medium, Place, Profile, ResultSubject, Subject, growth, names_of, says_failed};
use crate::engine::provider;
use crate::engine::redact::{self, error_form};
use crate::engine::state::{Call, ResultFact, Session};
use crate::engine::verdict::{Checkpoint, Decision, SubjectOut, engine_finding};
use crate::engine::wire::Envelope;
use crate::engine::{Input, Observation, OnBlock};

/// What judging one result gave.
pub(super) struct Judged<'r> {
    pub decision: Decision,
    pub action: Decision,
    /// What its safe copy needs.
    pub edits: Vec<Edit<'r>>,
    /// How many of those, the last ones, are cuts to a bound.
    pub cuts: usize,
    /// Digests of what it says, and of its copy.
    pub content: [u8; 16],
    pub copy: Option<[u8; 16]>,
    /// Its text after those edits, bytes.
    pub text_bytes: u64,
    /// Of those, what edits other than cuts add.
    pub growth: u64,
    /// What the copy leaves out that its host was given of the same output in an event of its own.
    pub withheld: Decision,
    /// It is blocked, and its request cannot be sent without it.
    pub stuck: bool,
}

/// The copy of a result, as far as it is remembered.
#[derive(Clone, Copy)]
pub(super) struct Copied {
    content: Option<[u8; 16]>,
    /// What it leaves out.
    withheld: Decision,
}

/// What is remembered of a result beside its verdict.
#[derive(Clone, Copy)]
pub(super) struct Settled {
    pub first_seen: i64,
    pub copied: Copied,
    /// The copy is that of the result's own record, which its host was given in its place.
    pub own: bool,
    pub said: Said,
}

/// What a result says of itself.
#[derive(Clone, Copy)]
pub(super) struct Said {
    from_host: bool,
    failed: Option<bool>,
    /// The call that it answers.
    call: Option<u32>,
}

impl Said {
    pub fn of(result: &ResultItem<'_>, call: Option<u32>) -> Self {
        let failed = match result.failure {
            Failure::Ok => Some(false),
            _ => says_failed(result).then_some(true),
        };
        Self { from_host: result.shape == ResultShape::Host, failed, call }
    }
}

impl<'a, 'r> Run<'a, 'r> {
    /// Raw output before it is put into a request: a verdict, and always a copy that is safe to use.
    pub(super) fn host_result(
        &mut self,
        session: &mut Session<'_>,
        envelope: &Envelope<'r>,
        input: &Input<'_>,
        result: &ResultItem<'r>,
    ) {
        let id = self.call_id(result.call_id, envelope);
        let server = envelope.mcp_server.unwrap_or_default().as_bytes();
        let naming = Naming { id: &id, tool: &tool_of(result), server, arguments_sha256: b"" };
        let found = self.call_of(session, naming, |call| call.answered);
        if self.off() {
            mark_answered(session, found);
            return;
        }
        let content = self.content(result, &id);
        let (mut draft, edits, first_seen, said) =
            self.draft(session, Checkpoint::ToolResult, result, found, &content, None);
        draft.subject.call_id = (!id.is_empty()).then(|| self.clean(&id));
        let copy = if self.withholds(&draft) { None } else { self.copy(&mut draft, envelope, input, &edits) };
        // A copy that cannot be made, or does not fit, is a finding too.
        let copied = self.copied(result, &edits, draft.fold().1);
        let settled = Settled { first_seen, copied, own: true, said: Said::of(result, found) };
        self.settle(session, &content, (&draft, &edits), settled);
        let said_it = self.emit(draft).is_some();
        self.publish(said_it, copy, &edits);
        session.head().said |= said;
        mark_answered(session, found);
    }

    /// A result that a request puts before the model; `answers`: the call that it answers by its place. A verdict
    /// unless this content was judged before, edits wherever it appears.
    pub(super) fn request_result(
        &mut self,
        session: &mut Session<'_>,
        exchange: u32,
        result: &ResultItem<'r>,
        answers: Option<u32>,
    ) -> Judged<'r> {
        let id = text_of(result.call_id);
        let found = model_call(session, &id).or(answers);
        let content = self.content(result, &id);
        let known = session.result(&content.call_id, &short(content.digest)).cloned();
        let key = self.key_for(session, result, found);
        // One that says otherwise whether its tool failed is another one.
        let said = Said::of(result, found);
        let judged_before = known
            .as_ref()
            .is_some_and(|fact| fact.policy == key && (fact.failed == Some(true)) == (said.failed == Some(true)));
        let withheld = known.as_ref().map_or(Decision::Allow, |fact| fact.withheld);
        if let Some(fact) = &known
            && judged_before
            && fact.clean
        {
            mark_answered(session, found);
            return Judged {
                decision: Decision::Allow,
                action: Decision::Allow,
                edits: Vec::new(),
                cuts: 0,
                content: fact.content,
                copy: fact.copy,
                text_bytes: content.text_bytes,
                growth: 0,
                withheld,
                stuck: false,
            };
        }
        let (draft, edits, first_seen, said) =
            self.draft(session, Checkpoint::ToolResult, result, found, &content, Some(exchange));
        let (decision, action) = draft.fold();
        // Where it has no error form, the request cannot go without it.
        let stuck = self.withholds(&draft) || action == Decision::Block && edits.is_empty();
        let cuts = draft.cuts;
        let (others, cut) = edits.split_at(if cuts > 0 || action == Decision::Redact { edits.len() - cuts } else { 0 });
        let growth = growth(result, others);
        let text_bytes = text_after(result, content.text_bytes, cut) + growth;
        let mut copy = known.and_then(|fact| fact.copy);
        if !judged_before {
            let copied = self.copied(result, &edits, action);
            copy = copied.content.or(copy);
            let settled = Settled { first_seen, copied, own: false, said: Said::of(result, found) };
            self.tell(session, &content, (draft, &edits), settled);
            session.head().said |= said;
        }
        mark_answered(session, found);
        let content = short(content.digest);
        Judged { decision, action, edits, cuts, content, copy, text_bytes, growth, withheld, stuck }
    }

    /// The provider ran the tool: a verdict cannot unsay what the model has read, so nothing is edited.
    pub(super) fn server_result(&mut self, session: &mut Session<'_>, exchange: u32, result: &ResultItem<'r>) {
        let id = text_of(result.call_id);
        if self.off() {
            let found = model_call(session, &id);
            mark_answered(session, found);
            return;
        }
        let content = self.content(result, &id);
        self.judge_server_result(session, exchange, result, &id, &content);
    }

    /// A result of a provider-run tool that a request repeats. What its response gave was judged there; what
    /// this conversation never saw, a client may have written: it is judged here.
    pub(super) fn echoed_result(
        &mut self,
        session: &mut Session<'_>,
        exchange: u32,
        result: &ResultItem<'r>,
    ) -> Option<Judged<'r>> {
        let id = text_of(result.call_id);
        let content = self.content(result, &id);
        let key = self.key_for(session, result, model_call(session, &id));
        let known = session.result(&content.call_id, &short(content.digest));
        if known.is_some_and(|fact| fact.policy == key) {
            return None;
        }
        Some(self.judge_server_result(session, exchange, result, &id, &content))
    }

    fn judge_server_result(
        &mut self,
        session: &mut Session<'_>,
        exchange: u32,
        result: &ResultItem<'r>,
        id: &[u8],
        content: &Content,
    ) -> Judged<'r> {
        let found = model_call(session, id);
        let (draft, edits, first_seen, said) =
            self.draft(session, Checkpoint::ServerResult, result, found, content, Some(exchange));
        let (decision, action) = draft.fold();
        let copied = Copied { content: None, withheld: Decision::Allow };
        let settled = Settled { first_seen, copied, own: false, said: Said::of(result, found) };
        self.tell(session, content, (draft, &edits), settled);
        session.head().said |= said;
        mark_answered(session, found);
        let (withheld, stuck) = (Decision::Allow, action == Decision::Block);
        let (text_bytes, edits, copy) = (content.text_bytes, Vec::new(), None);
        let content = short(content.digest);
        Judged { decision, action, edits, cuts: 0, content, copy, text_bytes, growth: 0, withheld, stuck }
    }

    /// The verdict in the making, and the edits that its action needs: what the policies asked for, or the
    /// provider's error form where it is blocked.
    pub(super) fn draft(
        &mut self,
        session: &mut Session<'_>,
        checkpoint: Checkpoint,
        result: &ResultItem<'r>,
        found: Option<u32>,
        content: &Content,
        exchange: Option<u32>,
    ) -> (Draft<'r, 'static>, Vec<Edit<'r>>, i64, u32) {
        let known = session.result(&content.call_id, &short(content.digest)).map(|fact| fact.first_seen);
        let first_seen = known.unwrap_or(session.conversation().head.clock);
        let conversation = session.conversation();
        let answered = found.and_then(|n| conversation.calls.get(&n));
        let exchange = exchange.or(answered.map(|c| c.exchange));
        let says = short(content.digest);
        let of_call = |fact: &ResultFact| {
            let same = fact.content == says || fact.copy == Some(says);
            let call = fact.call.is_none() || found.is_none() || fact.call == found;
            call && (content.named || same)
        };
        let facts = session.results_of(&content.call_id).into_iter();
        let earlier: Vec<&ResultFact> =
            facts.filter(|(n, fact)| *n < self.earlier && of_call(fact)).map(|(_, fact)| fact).collect();
        let subject = ResultSubject {
            checkpoint,
            result,
            call: answered,
            first_seen,
            text_bytes: content.text_bytes,
            content: says,
            earlier: &earlier,
        };
        let (report, said) = self.check(session, exchange, &Subject::Result(&subject));
        // A result's id is taken here if a copy of its own record carries it; others take it when they are said.
        let copied = matches!(result.shape, ResultShape::Host | ResultShape::McpResult | ResultShape::McpAnswer);
        let id = if copied { self.next_id(checkpoint) } else { String::new() };
        let mut draft = Draft::new(id, checkpoint);
        draft.policies = report.policies;
        draft.monitored = self.monitored(&draft);
        draft.findings = report.findings;
        draft.cuts = report.cuts.len();
        draft.subject = self.result_subject(result, answered);
        draft.content_hmac = Some(content.digest);
        draft.content_bytes = content.bytes;
        self.uninspected(result, &mut draft);
        let asked = [report.edits, report.cuts].concat();
        let edits = self.edits(result, &mut draft, asked);
        (draft, edits, first_seen, said)
    }

    /// The edits that the draft's action needs, of those that were asked for. What cannot be edited is blocked.
    pub(super) fn edits(
        &self,
        result: &ResultItem<'r>,
        draft: &mut Draft<'r, '_>,
        asked: Vec<Edit<'r>>,
    ) -> Vec<Edit<'r>> {
        if draft.fold().1 == Decision::Redact {
            self.documents.know(result.item);
            let editable = || self.editable(&asked, result.item.layer());
            if result.shape == ResultShape::Server || asked.is_empty() || !editable() {
                draft.block("not_redactable", Evidence::None);
            }
        }
        if draft.fold().1 != Decision::Redact {
            draft.cuts = 0;
        }
        match draft.fold().1 {
            Decision::Allow => Vec::new(),
            Decision::Redact => asked,
            Decision::Block => {
                let blocks = draft.findings.iter().find(|f| f.effect == Decision::Block);
                let note = format!("output withheld by policy {}", blocks.map_or("SG00", |f| f.policy.code));
                error_form(result, &note).unwrap_or_default()
            }
        }
    }

    fn result_subject(&self, result: &ResultItem<'r>, answered: Option<&Call>) -> SubjectOut {
        let item_id = || result.item.get("id").and_then(|v| v.text()).map(|t| t.into_owned());
        let id = Some(text_of(result.call_id).into_owned()).filter(|id| !id.is_empty()).or_else(item_id);
        let executor = match (answered, result.shape) {
            (Some(call), _) => call::executor_name(call),
            (None, ResultShape::Server) => "provider",
            (None, _) => "client",
        };
        let name = answered.filter(|c| !c.name.is_empty()).map(|c| self.clean(&c.name));
        SubjectOut {
            call_id: id.map(|id| self.clean(&id)),
            tool: name.or_else(|| match &result.tool {
                Name::None => None,
                other => self.clean_name(other),
            }),
            server: answered
                .and_then(|c| c.server.as_ref())
                .map(|s| self.clean(s))
                .or_else(|| self.clean_value(result.server)),
            executor: Some(executor),
        }
    }

    /// Lists what no policy looks into: a file unless it is one text. In `strict` an unknown part blocks.
    fn uninspected(&self, result: &ResultItem<'r>, draft: &mut Draft<'r, '_>) {
        let is_read = |value| Medium::of(value).is_some_and(|medium| medium.text(self.bump).is_some());
        for part in &result.parts {
            let (value, kind, reason) = match *part {
                Part::Media { value, .. } if is_read(value) => continue,
                Part::Media { value, kind } => (value, kind, "no inspector for media"),
                Part::Opaque { value, kind } => (value, kind, "unknown or opaque part"),
                Part::Text(_) | Part::Json(_) => continue,
            };
            let place = Place::Value { value, range: None };
            draft.complete = false;
            draft.not_inspected.push((place, kind, reason));
            let strict = self.policies_of(draft).profile() == Profile::Strict;
            // What a provider encrypts is known, only not to us.
            if strict && matches!(part, Part::Opaque { .. }) && kind != "encrypted" {
                draft.findings.push(engine_finding("unknown_part", place, Evidence::None));
            }
        }
    }

    /// The settings under which a result would be judged, in short.
    fn key_for(&self, session: &Session<'_>, result: &ResultItem<'r>, found: Option<u32>) -> [u8; 8] {
        if self.engine.scopes.is_one() {
            return self.policies().key();
        }
        let call = found.and_then(|n| session.conversation().calls.get(&n));
        let (tool, server) = names_of(result, call);
        self.scoped(tool.as_deref(), server.as_deref()).as_deref().unwrap_or(self.policies()).key()
    }

    /// Those under which it was.
    pub(super) fn key_of(&self, draft: &Draft<'_, '_>) -> [u8; 8] {
        self.policies_of(draft).key()
    }

    /// Whether nothing is published of a result that this draft blocks.
    pub(super) fn withholds(&self, draft: &Draft<'_, '_>) -> bool {
        let profile = self.policies_of(draft).profile();
        draft.fold().1 == Decision::Block && self.engine.on_block(profile) == OnBlock::Withhold
    }

    /// What is remembered of the copy that these edits make.
    pub(super) fn copied(&self, result: &ResultItem<'r>, edits: &[Edit<'r>], action: Decision) -> Copied {
        // What was only put around a text keeps nothing from whoever reads it.
        let cuts = edits.iter().any(|edit| !edit.span.is_empty());
        let withheld = if action == Decision::Redact && !cuts { Decision::Allow } else { action };
        let limits = &self.engine.settings.limits;
        let limits = JsonLimits { depth: limits.json_depth, nodes: limits.json_nodes };
        let read = || {
            let bytes = redact::made_in(result.item.span(), edits).ok()?;
            let layer = Layer::record(self.bump, self.bump.alloc_slice_copy(&bytes));
            let item = json::parse(self.bump, layer, limits).ok()?;
            let copy = provider::reread(self.bump, result.shape, item)?;
            Some(short(self.unwrapped(&copy).0))
        };
        let content = if edits.is_empty() { None } else { read() };
        Copied { content, withheld }
    }

    /// A result that stands in a larger whole has a verdict of its own, and no copy.
    fn tell(
        &mut self,
        session: &mut Session<'_>,
        content: &Content,
        (draft, edits): (Draft<'r, '_>, &[Edit<'r>]),
        settled: Settled,
    ) {
        self.settle(session, content, (&draft, edits), settled);
        let id = self.next_id(draft.checkpoint);
        self.emit(Draft { id, ..draft });
    }

    /// A result that was judged is remembered, and how large it was is told.
    pub(super) fn settle(
        &mut self,
        session: &mut Session<'_>,
        content: &Content,
        (draft, edits): (&Draft<'r, '_>, &[Edit<'r>]),
        settled: Settled,
    ) {
        let Settled { first_seen, copied, own, said } = settled;
        let (decision, action) = draft.fold();
        let before = session.result(&content.call_id, &short(content.digest));
        // What a host was given stands until it is given something else.
        let given = before.filter(|_| !own);
        let withheld = if own { copied.withheld } else { given.map_or(Decision::Allow, |fact| fact.withheld) };
        let copy = copied.content.or(given.and_then(|fact| fact.copy));
        session.note_result(ResultFact {
            call_id: content.call_id,
            content: short(content.digest),
            policy: self.key_of(draft),
            clean: decision == Decision::Allow && action == Decision::Allow && draft.complete,
            action,
            first_seen,
            copy,
            withheld,
            from_host: said.from_host,
            failed: said.failed,
            call: said.call,
        });
        self.observe_size(draft, content, edits);
    }

    fn observe_size(&mut self, draft: &Draft<'r, '_>, content: &Content, edits: &[Edit<'r>]) {
        let provider = self.origin.provider;
        self.out.observations.push(Observation::ResultSize { provider, bytes: content.text_bytes });
        let oversize = draft.findings.iter().find(|f| matches!(f.rule.name, "oversize_result" | "hard_limit"));
        if let Some(finding) = oversize {
            let edits = edits.get(edits.len().saturating_sub(draft.cuts)..).filter(|_| draft.cuts > 0).unwrap_or(edits);
            let kept: u64 = edits.iter().map(|e| e.with.len() as u64).sum();
            let taken: u64 = edits.iter().map(|e| e.span.len() as u64).sum();
            let action = if draft.fold().1 == Decision::Allow { Decision::Allow } else { finding.effect };
            let removed = if action == Decision::Allow { 0 } else { taken.saturating_sub(kept) };
            let fleet = self.fleet_label();
            self.out.observations.push(Observation::Oversize { fleet, provider, action, removed });
        }
    }
}

/// The decoded string, empty if there is none.
pub(super) fn text_of<'r>(value: Option<Value<'r>>) -> std::borrow::Cow<'r, [u8]> {
    value.and_then(|v| v.text()).unwrap_or_default()
}

pub(super) fn mark_answered(session: &mut Session<'_>, found: Option<u32>) {
    let fresh = found.filter(|n| session.conversation().calls.get(n).is_some_and(|c| !c.answered));
    if let Some(call) = fresh.and_then(|n| session.call_mut(n)) {
        call.answered = true;
    }
}
