//! Judging the start of a tool: at once, or when what it came ahead of has had its time.

use super::pairing::Naming;
use super::publish::Draft;
use super::result::text_of;
use super::{Origin, Run, call};
use crate::engine::Millis;
use crate::engine::event::Started;
use crate::engine::json::{self, JsonLimits};
use crate::engine::layer::Layer;
use crate::engine::policy::{StartSubject, Subject};
use crate::engine::provider;
use crate::engine::state::{At, Call, Session, Waiting};
use crate::engine::verdict::{Checkpoint, SubjectOut};
use crate::engine::wire::Envelope;

/// How a start came.
#[derive(Clone, Copy)]
struct Came {
    /// Ahead of the record that ended its call, and it waited for that.
    early: bool,
    /// A second time.
    again: bool,
}

impl<'a, 'r> Run<'a, 'r> {
    /// The host began to run a tool.
    pub(super) fn started(
        &mut self,
        session: &mut Session<'_>,
        envelope: &Envelope<'r>,
        exchange: Option<u32>,
        started: &Started<'r>,
    ) {
        let id = self.call_id(started.call_id, envelope);
        let server = envelope.mcp_server.unwrap_or_default().as_bytes();
        let found = self.meant(session, (&id, server), started);
        session.head().starts_seen = true;
        let open = found.and_then(|n| session.conversation().calls.get(&n)).map(Call::is_open);
        // Of a call that nobody may have seen there is nothing to wait for.
        let early = open.unwrap_or(!session.conversation().head.partial);
        let call = found.and_then(|n| session.conversation().calls.get(&n));
        let waits_too = |start: &Waiting| !id.is_empty() && *start.call_id == *id;
        let again = call.is_some_and(|call| call.started) || session.conversation().head.waiting.iter().any(waits_too);
        let waits = !self.off() && self.limits.reorder_window_ms > 0 && early && !id.is_empty();
        if !(waits && session.wait(self.waiting((&id, server), started, again))) {
            self.start(session, (&id, server), (exchange, found), started, Came { early: false, again });
        }
        if let Some(call) = found.and_then(|n| session.call_mut(n)) {
            call.started = true;
        }
    }

    fn meant(&self, session: &mut Session<'_>, (id, server): (&[u8], &[u8]), started: &Started<'r>) -> Option<u32> {
        let (tool, sha) = (text_of(started.tool), text_of(started.arguments_sha256));
        let naming = Naming { id, tool: &tool, server, arguments_sha256: &sha };
        self.call_of(session, naming, |call| call.started)
    }

    fn waiting(&self, (id, server): (&[u8], &[u8]), started: &Started<'r>, again: bool) -> Waiting {
        let text = |text: Option<&str>| text.map(str::as_bytes).unwrap_or_default().to_vec();
        Waiting {
            call_id: id.to_vec(),
            offset: self.at.offset,
            time: self.at.time,
            event_id: text(self.origin.event_id),
            event_time: self.origin.time,
            traceparent: text(self.origin.traceparent),
            tracestate: text(self.origin.tracestate),
            server: server.to_vec(),
            data: started.item.raw().to_vec(),
            again,
        }
    }

    /// Judges the starts that need not wait any more, each as if its own record were read now.
    pub(super) fn release(&mut self, session: &mut Session<'_>, now: Millis) {
        if session.conversation().head.waiting.is_empty() {
            return;
        }
        let since = now.saturating_sub(self.limits.reorder_window_ms as i64);
        for start in session.released(since) {
            let text =
                |text: &'_ [u8]| std::str::from_utf8(text).ok().filter(|text| !text.is_empty()).map(str::to_owned);
            let (event_id, parent, state) = (text(&start.event_id), text(&start.traceparent), text(&start.tracestate));
            let origin = Origin {
                offset: start.offset,
                event_id: event_id.as_deref(),
                time: start.event_time,
                traceparent: parent.as_deref(),
                tracestate: state.as_deref(),
                response_id: None,
                ..self.origin
            };
            let at = At { offset: start.offset, time: start.time };
            let mut own = Run::new(self.engine, self.bump, origin, self.out, at);
            (own.emitted, own.omitted) = (self.emitted, self.omitted);
            let data = Layer::record(self.bump, self.bump.alloc_slice_copy(&start.data));
            let limits = &self.engine.settings.limits;
            let limits = JsonLimits { depth: limits.json_depth, nodes: limits.json_nodes };
            if let Ok(body) = json::parse(self.bump, data, limits) {
                let started = provider::host::started(body);
                let found = own.meant(session, (&start.call_id, &start.server), &started);
                let came = Came { early: true, again: start.again };
                own.start(session, (&start.call_id, &start.server), (None, found), &started, came);
            }
            (self.emitted, self.omitted) = (own.emitted, own.omitted);
        }
    }

    fn start(
        &mut self,
        session: &mut Session<'_>,
        (id, server): (&[u8], &[u8]),
        (exchange, found): (Option<u32>, Option<u32>),
        started: &Started<'r>,
        came: Came,
    ) {
        if !self.off() {
            let conversation = session.conversation();
            let call = found.and_then(|n| conversation.calls.get(&n));
            let server = Some(server).filter(|server| !server.is_empty());
            let subject = StartSubject { started: *started, call, server, early: came.early, again: came.again };
            let exchange = exchange.or(call.map(|c| c.exchange));
            let (report, said) = self.check(session, exchange, &Subject::Start(&subject));
            let mut draft = Draft::new(self.next_id(Checkpoint::ToolStart), Checkpoint::ToolStart);
            let tool = call.map(|c| c.name.clone()).or(started.tool.and_then(|v| v.text()).map(|t| t.into_owned()));
            draft.subject = SubjectOut {
                call_id: (!id.is_empty()).then(|| self.clean(id)),
                tool: tool.filter(|t| !t.is_empty()).map(|t| self.clean(&t)),
                server: call.and_then(|c| c.server.as_ref()).map(|s| self.clean(s)),
                executor: call.map(call::executor_name),
            };
            draft.policies = report.policies;
            draft.findings = report.findings;
            draft.content_bytes = started.item.span().len() as u64;
            self.emit(draft);
            session.head().said |= said;
        }
        if let Some(call) = found.and_then(|n| session.call_mut(n)) {
            call.started = true;
        }
    }
}
