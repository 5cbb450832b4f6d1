//! Judging tool outputs: raw host results, results in requests, and results of tools that the provider ran.

use super::pairing::{Naming, model_call, tool_of};
use super::publish::Draft;
use super::{Run, call};
use crate::engine::digest::{Role, short};
use crate::engine::event::{Name, Part, ResultItem, ResultShape};
use crate::engine::json::Value;
use crate::engine::layer::Edit;
use crate::engine::policy::{Evidence, Place, Profile, ResultSubject, Subject};
use crate::engine::redact::error_form;
use crate::engine::state::{Call, ResultFact, Session};
use crate::engine::verdict::{Checkpoint, Decision, SubjectOut, engine_finding};
use crate::engine::wire::Envelope;
use crate::engine::{Input, Observation, OnBlock};
use std::borrow::Cow;

/// What judging one result gave.
pub(super) struct Judged<'r> {
    pub decision: Decision,
    pub action: Decision,
    /// What its safe copy needs.
    pub edits: Vec<Edit<'r>>,
    /// Its text after those edits, bytes.
    pub text_bytes: u64,
}

/// A result as the policies and the state see it.
pub(super) struct Content {
    digest: [u8; 32],
    call_id: [u8; 16],
    /// Decoded text, bytes.
    text_bytes: u64,
    bytes: u64,
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
        let withheld = draft.fold().1 == Decision::Block && self.engine.on_block() == OnBlock::Withhold;
        let copy = if withheld { None } else { self.copy(&mut draft, envelope, input, &edits) };
        // A copy that cannot be made, or does not fit, is a finding too.
        let (decision, action) = draft.fold();
        self.remember(session, &content, decision, action, draft.complete, first_seen);
        let oversize = self.observe_size(&draft, &content, &edits);
        self.out.observations.extend(oversize);
        let said_it = self.emit(draft).is_some();
        if let (true, Some(copy)) = (said_it, copy) {
            self.push(copy);
        }
        session.head().said |= said;
        mark_answered(session, found);
    }

    /// A result that a request puts before the model; `answers`: the call that it answers by its place. A verdict unless this content was judged before; edits
    /// wherever it appears.
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
        let judged_before = known.as_ref().is_some_and(|fact| fact.policy == self.engine.policy_key());
        if let Some(fact) = &known
            && judged_before
            && fact.clean
        {
            mark_answered(session, found);
            return Judged {
                decision: Decision::Allow,
                action: Decision::Allow,
                edits: Vec::new(),
                text_bytes: content.text_bytes,
            };
        }
        let (draft, edits, first_seen, said) =
            self.draft(session, Checkpoint::ToolResult, result, found, &content, Some(exchange));
        let (decision, action) = draft.fold();
        let text_bytes = text_after(result, content.text_bytes, &edits);
        if !judged_before {
            self.remember(session, &content, decision, action, draft.complete, first_seen);
            let oversize = self.observe_size(&draft, &content, &edits);
            self.out.observations.extend(oversize);
            let id = self.next_id(Checkpoint::ToolResult);
            self.emit(Draft { id, ..draft });
            session.head().said |= said;
        }
        mark_answered(session, found);
        Judged { decision, action, edits, text_bytes }
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
        let known = session.result(&content.call_id, &short(content.digest));
        if known.is_some_and(|fact| fact.policy == self.engine.policy_key()) {
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
        self.remember(session, content, decision, action, draft.complete, first_seen);
        let oversize = self.observe_size(&draft, content, &edits);
        self.out.observations.extend(oversize);
        let id = self.next_id(Checkpoint::ServerResult);
        self.emit(Draft { id, ..draft });
        session.head().said |= said;
        mark_answered(session, found);
        Judged { decision, action, edits: Vec::new(), text_bytes: content.text_bytes }
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
        let subject = ResultSubject { checkpoint, result, call: answered, first_seen, text_bytes: content.text_bytes };
        let (report, said) = self.check(session, exchange, &Subject::Result(&subject));
        // A result's id is taken here if a copy of its own record carries it; others take it when they are said.
        let copied = matches!(result.shape, ResultShape::Host | ResultShape::McpResult | ResultShape::McpAnswer);
        let id = if copied { self.next_id(checkpoint) } else { String::new() };
        let mut draft = Draft::new(id, checkpoint);
        draft.monitored = self.monitored();
        draft.findings = report.findings;
        draft.subject = self.result_subject(result, answered);
        draft.content_hmac = Some(content.digest);
        draft.content_bytes = content.bytes;
        self.uninspected(result, &mut draft);
        let edits = self.edits(result, &mut draft, report.edits);
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
            let editable = || self.editable(&asked, result.item.layer());
            if result.shape == ResultShape::Server || asked.is_empty() || !editable() {
                draft.block("not_redactable", Evidence::None);
            }
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

    /// Lists what no policy looks into. In `strict` an unknown part blocks.
    fn uninspected(&self, result: &ResultItem<'r>, draft: &mut Draft<'r, '_>) {
        for part in &result.parts {
            let (value, kind, reason) = match *part {
                Part::Media { value, kind } => (value, kind, "no inspector for media"),
                Part::Opaque { value, kind } => (value, kind, "unknown or opaque part"),
                Part::Text(_) | Part::Json(_) => continue,
            };
            let place = Place::Value { value, range: None };
            draft.complete = false;
            draft.not_inspected.push((place, kind, reason));
            let strict = self.engine.settings.policy.profile == Profile::Strict;
            // What a provider encrypts is known, only not to us.
            if strict && matches!(part, Part::Opaque { .. }) && kind != "encrypted" {
                draft.findings.push(engine_finding("unknown_part", place, Evidence::None));
            }
        }
    }

    /// Digest and sizes of a result, over its decoded parts, so that the same text compares equal however it
    /// is wrapped.
    pub(super) fn content(&self, result: &ResultItem<'r>, id: &[u8]) -> Content {
        let keyed = self.keyed();
        let mut stream = keyed.stream(Role::Content);
        let (mut text_bytes, mut bytes) = (0u64, 0u64);
        let mut feed = |part: &[u8], is_text: bool| {
            stream.part(part);
            bytes += part.len() as u64;
            if is_text {
                text_bytes += part.len() as u64;
            }
        };
        for part in &result.parts {
            match part {
                Part::Text(value) => feed(&value.text().unwrap_or_default(), true),
                Part::Json(value) => feed(value.raw(), true),
                Part::Media { value, .. } | Part::Opaque { value, .. } => feed(value.raw(), false),
            }
        }
        // Where results bear no id, the tool tells them apart.
        let tool = if id.is_empty() { tool_of(result) } else { Cow::default() };
        let call_id = short(keyed.digest(Role::CallId, &[id, &tool]));
        Content { digest: stream.finish(), call_id, text_bytes, bytes }
    }

    pub(super) fn remember(
        &self,
        session: &mut Session<'_>,
        content: &Content,
        decision: Decision,
        action: Decision,
        complete: bool,
        first_seen: i64,
    ) {
        session.note_result(ResultFact {
            call_id: content.call_id,
            content: short(content.digest),
            policy: self.engine.policy_key(),
            clean: decision == Decision::Allow && action == Decision::Allow && complete,
            action,
            first_seen,
        });
    }

    pub(super) fn observe_size(
        &self,
        draft: &Draft<'r, '_>,
        content: &Content,
        edits: &[Edit<'r>],
    ) -> Vec<Observation> {
        let mut seen = vec![Observation::ResultSize { provider: self.origin.provider, bytes: content.text_bytes }];
        let oversize = draft.findings.iter().find(|f| matches!(f.rule.name, "oversize_result" | "hard_limit"));
        if let Some(finding) = oversize {
            let kept: u64 = edits.iter().map(|e| e.with.len() as u64).sum();
            let taken: u64 = edits.iter().map(|e| e.span.len() as u64).sum();
            let action = if draft.fold().1 == Decision::Allow { Decision::Allow } else { finding.effect };
            let removed = if action == Decision::Allow { 0 } else { taken.saturating_sub(kept) };
            seen.push(Observation::Oversize {
                fleet: self.fleet_label(),
                provider: self.origin.provider,
                action,
                removed,
            });
        }
        seen
    }
}

/// The text of a result after its edits, bytes; rather too many than too few.
fn text_after(result: &ResultItem<'_>, text_bytes: u64, edits: &[Edit<'_>]) -> u64 {
    // An edit of the record's own layer may take whole parts with it: what was text there is what counts.
    let (mut outer, inner): (Vec<&Edit<'_>>, Vec<&Edit<'_>>) =
        edits.iter().partition(|edit| std::ptr::eq(edit.span.layer, result.item.layer()) && !edit.span.is_empty());
    outer.sort_unstable_by_key(|edit| edit.span.start);
    let mut whole = vec![false; outer.len()];
    let mut taken = 0;
    for part in &result.parts {
        let (Part::Text(value) | Part::Json(value)) = part else { continue };
        let span = value.span();
        let at = outer.partition_point(|edit| edit.span.start <= span.start).checked_sub(1);
        if let Some(at) = at.filter(|at| outer.get(*at).is_some_and(|edit| span.end <= edit.span.end)) {
            let bytes =
                if matches!(part, Part::Text(_)) { value.text().map_or(0, |text| text.len()) } else { span.len() };
            taken += bytes as u64;
            whole.get_mut(at).into_iter().for_each(|whole| *whole = true);
        }
    }
    let shorter = |edit: &Edit<'_>| (edit.span.len() as u64).saturating_sub(edit.with.len() as u64);
    taken += inner.iter().map(|edit| shorter(edit)).sum::<u64>();
    let mut added = 0;
    for (edit, whole) in outer.iter().zip(whole) {
        match whole {
            true => added += edit.with.len() as u64,
            false => taken += shorter(edit),
        }
    }
    (text_bytes + added).saturating_sub(taken)
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
