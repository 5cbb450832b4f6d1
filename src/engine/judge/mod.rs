//! Judge: one record from its envelope to its emissions.
//!
//! This is the middle of the journey: events are absorbed by the state, what became judgeable is shown to
//! the policies, findings fold to a decision, and verdicts, redacted copies and dead letters are written to
//! [`Out`]. Nothing here knows a provider's wire shape or a policy's rule.

mod call;
mod content;
mod definitions;
mod expiry;
mod loss;
mod mcp;
mod pairing;
mod publish;
mod record;
mod render;
mod request;
mod result;
mod seals;
mod start;
mod texts;

use super::digest::Keyed;
use super::event::{CutReason, Event, Name, Side};
use super::json::{Documents, JsonLimits, Value};
use super::layer::{Edit, Layer};
use super::policy::{Evidence, Place, Policies, Profile, Report, Subject, View, Who};
use super::provider::{self, Provider, Translated};
use super::redact::{can_be_made, touches_opaque};
use super::state::{At, Session, StateLimits};
use super::verdict::{Checkpoint, SubjectOut, engine_finding};
use super::wire::{Envelope, EventType};
use super::{Engine, Input, Millis, Observation, Out};
use bumpalo::Bump;
pub(super) use expiry::tick;
use publish::Draft;
pub(super) use record::{panicked, record};
use request::Request;
use std::borrow::Cow;
use std::sync::Arc;

/// Where what is emitted comes from: a record, or for an expiry the conversation's memory of one.
#[derive(Clone, Copy)]
struct Origin<'a> {
    topic: &'a str,
    partition: i32,
    offset: i64,
    key: Option<&'a [u8]>,
    event_id: Option<&'a str>,
    time: Option<Millis>,
    traceparent: Option<&'a str>,
    tracestate: Option<&'a str>,
    fleet: &'a str,
    agent: &'a str,
    conversation: Option<&'a [u8]>,
    response_id: Option<&'a [u8]>,
    provider: Option<Provider>,
    /// It claims a fleet that it may not.
    unpermitted: bool,
}

/// Everything that one record's judging needs.
struct Run<'a, 'r: 'a> {
    engine: &'a Engine,
    bump: &'r Bump,
    origin: Origin<'a>,
    documents: Documents<'r>,
    out: &'a mut Out,
    /// What holds for its fleet and agent, where that is not what holds for all.
    policies: Option<Arc<Policies>>,
    limits: StateLimits,
    at: At,
    /// Next ordinal by checkpoint.
    ordinals: [u32; 8],
    emitted: u64,
    /// Subjects for which this step had no room left.
    omitted: u64,
    /// Several requests were unanswered when this response began: said once.
    ambiguous: bool,
    /// Entries below this number are of earlier records, as far as that matters.
    earlier: u32,
}

/// The checkpoint of a record that is judged as a whole.
fn checkpoint_of(envelope: &Envelope<'_>) -> Checkpoint {
    match envelope.kind {
        EventType::ModelRequest => Checkpoint::ModelRequest,
        EventType::ToolStarted => Checkpoint::ToolStart,
        EventType::ToolResult => Checkpoint::ToolResult,
        EventType::Render => Checkpoint::Render,
        EventType::McpMessage if provider::mcp::direction(envelope) != Some(Side::Client) => Checkpoint::ToolResult,
        EventType::ModelResponse
        | EventType::ModelChunk
        | EventType::ModelClosed
        | EventType::McpMessage
        | EventType::Unknown => Checkpoint::ToolCall,
    }
}

impl<'a, 'r> Run<'a, 'r> {
    fn new(engine: &'a Engine, bump: &'r Bump, origin: Origin<'a>, out: &'a mut Out, at: At) -> Self {
        let limits = StateLimits::from(&engine.settings.limits);
        let json = JsonLimits { depth: engine.settings.limits.json_depth, nodes: engine.settings.limits.json_nodes };
        let documents = Documents::new(bump, json);
        let who = Who { fleet: origin.fleet.as_bytes(), agent: origin.agent.as_bytes(), tool: None, server: None };
        let policies = engine.scopes.of(&who, &out.variants);
        Self {
            engine,
            bump,
            origin,
            documents,
            out,
            policies,
            limits,
            at,
            ordinals: [0; 8],
            emitted: 0,
            omitted: 0,
            ambiguous: false,
            earlier: u32::MAX,
        }
    }

    fn off(&self) -> bool {
        self.policies().profile() == Profile::Off
    }

    /// What holds for the record's fleet and agent.
    fn policies(&self) -> &Policies {
        self.policies.as_deref().unwrap_or(self.engine.scopes.base())
    }

    /// What holds for a draft's subject.
    fn policies_of<'p>(&'p self, draft: &'p Draft<'_, '_>) -> &'p Policies {
        draft.policies.as_deref().unwrap_or(self.policies())
    }

    /// What holds for a tool and a server of that fleet and agent, where that may be something else.
    fn scoped(&self, tool: Option<&[u8]>, server: Option<&[u8]>) -> Option<Arc<Policies>> {
        let (fleet, agent) = (self.origin.fleet.as_bytes(), self.origin.agent.as_bytes());
        self.engine.scopes.of(&Who { fleet, agent, tool, server }, &self.out.variants)
    }

    fn keyed(&self) -> &'a Keyed {
        &self.engine.keyed
    }

    /// Absorbs the events of a record in order and judges what becomes judgeable.
    fn events(
        &mut self,
        session: &mut Session<'_>,
        envelope: &Envelope<'r>,
        input: &Input<'_>,
        exchange: Option<u32>,
        translated: Translated<'r>,
    ) {
        let mut request: Option<Request<'r>> = None;
        let mut ready = Vec::new();
        for event in &translated.events {
            match (event, &mut request) {
                (Event::RequestBegin { body, elsewhere }, _) => {
                    request = Some(Request::new(*body, *elsewhere));
                }
                (Event::Tool(tool), Some(request)) => request.tools.push(*tool),
                (Event::Tool(tool), None) => {
                    if let Some(n) = exchange {
                        self.late_tool(session, n, tool);
                    }
                }
                (Event::Listed(tools), Some(request)) => request.lists.push(tools.clone()),
                (Event::Listed(tools), None) => {
                    if let Some(n) = exchange {
                        self.hosted_list(session, n, tools);
                    }
                }
                (Event::Turn { at, turn }, Some(request)) => request.turn(at, turn),
                (Event::RequestEnd, _) => {
                    if let (Some(request), Some(n)) = (request.take(), exchange) {
                        self.request(session, envelope, input, n, &request);
                    }
                }
                (Event::Started(started), _) => self.started(session, envelope, exchange, started),
                (Event::HostResult(result), _) => self.host_result(session, envelope, input, result),
                (Event::Rendered(rendered), _) => self.rendered(session, envelope, input, rendered),
                (Event::Signed { .. } | Event::Thought { .. }, _) => self.signed(session, exchange, event),
                (Event::Opaque { kind, value }, _) => {
                    self.opaque(kind);
                    if *kind == "delta" && exchange.is_some_and(|n| loss::is_of_call(session, n, *value)) {
                        self.out.observations.push(Observation::Undecodable { provider: self.origin.provider });
                        self.lost(session, envelope, exchange, CutReason::Undecodable);
                    }
                }
                _ => {
                    let Some(n) = exchange else { continue };
                    let late = session.absorb(n, event, self.at, &self.limits, &mut ready);
                    if matches!(event, Event::Begin { .. }) {
                        self.name_response(session, envelope, n);
                    }
                    self.ended(session, ready.drain(..));
                    if let Some(call) = late {
                        self.behind_end(session, call);
                    }
                    if let Event::ServerResult { result, .. } = event {
                        self.server_result(session, n, result);
                    }
                }
            }
        }
        let judged = translated.events.iter().any(|event| match envelope.kind {
            EventType::ModelRequest => matches!(event, Event::RequestBegin { .. }),
            EventType::ToolStarted => matches!(event, Event::Started(_)),
            EventType::ToolResult => matches!(event, Event::HostResult(_)),
            EventType::Render => matches!(event, Event::Rendered(_)),
            _ => true,
        });
        let must = !matches!(
            envelope.kind,
            EventType::ModelResponse | EventType::ModelChunk | EventType::ModelClosed | EventType::McpMessage
        );
        let unread = match (translated.unclear, translated.undecodable) {
            (Some((value, rule)), _) => {
                let place = Place::Value { value, range: None };
                Some(engine_finding(rule, place, Evidence::None))
            }
            (None, Some((_, error))) => {
                Some(engine_finding("undecodable", Place::Whole, Evidence::Offset { at: u64::from(error.at) }))
            }
            // JSON, but not what its type says: somebody may wait for a verdict, so there is one.
            (None, None) if must && !judged => Some(engine_finding("undecodable", Place::Whole, Evidence::None)),
            (None, None) => None,
        };
        if let Some(finding) = unread {
            self.unread(session, envelope, exchange, finding);
        }
    }

    /// What verdicts call the response: the host's id of it, else its own, which its beginning may bring.
    fn name_response(&mut self, session: &Session<'_>, envelope: &Envelope<'_>, exchange: u32) {
        let known = session.conversation().exchanges.get(&exchange);
        if envelope.response_id.is_none()
            && let Some(id) = known.and_then(|e| e.host_id.as_deref().or(e.payload_id.as_deref()))
            && self.origin.response_id != Some(id)
        {
            self.origin.response_id = Some(self.bump.alloc_slice_copy(id));
        }
    }

    /// Counts something not understood. A record may hold very many, so they are one fact a kind.
    fn opaque(&mut self, seen: &'static str) {
        let same = |o: &&mut Observation| matches!(o, Observation::Opaque { kind, .. } if *kind == seen);
        match self.out.observations.iter_mut().find(same) {
            Some(Observation::Opaque { count, .. }) => *count += 1,
            _ => {
                let provider = self.origin.provider;
                self.out.observations.push(Observation::Opaque { provider, kind: seen, count: 1 });
            }
        }
    }

    /// A verdict on a record of which only the envelope could be read.
    fn envelope_verdict(&mut self, envelope: &Envelope<'r>, finding: super::policy::Finding<'r>) {
        let checkpoint = checkpoint_of(envelope);
        let mut draft = Draft::new(self.next_id(checkpoint), checkpoint);
        draft.complete = false;
        draft.subject = SubjectOut {
            call_id: envelope.call_id.map(|id| self.clean(id.as_bytes())),
            tool: envelope.tool.map(|tool| self.clean(tool.as_bytes())),
            ..SubjectOut::default()
        };
        draft.findings.push(finding);
        self.emit(draft);
    }

    /// Shows a subject to the policies. Gives their report, and the `not_observed` bits they used.
    fn check(&self, session: &Session<'_>, exchange: Option<u32>, subject: &Subject<'_, 'r>) -> (Report<'r>, u32) {
        let view = self.view(session, exchange);
        let mut report = Report::new(self.bump);
        if !self.engine.scopes.is_one() {
            let (tool, server) = subject.names();
            report.policies = self.scoped(tool.as_deref(), server.as_deref());
        }
        let own = report.policies.clone();
        own.as_deref().unwrap_or(self.policies()).check(subject, &view, &mut report);
        let said = report.not_observed;
        (report, said)
    }

    /// Whether every edit can be made, as far as the layer in which their subject stands, and none touches an
    /// opaque field. What cannot be made in the layers around it shows when the copy is made, which blocks too.
    fn editable(&self, edits: &[Edit<'r>], layer: &'r Layer<'r>) -> bool {
        can_be_made(layer, edits) && !edits.iter().any(|edit| touches_opaque(edit, &self.documents))
    }

    fn view<'v>(&'v self, session: &'v Session<'_>, exchange: Option<u32>) -> View<'v> {
        let conversation = session.conversation();
        let exchange = exchange.and_then(|n| conversation.exchanges.get(&n));
        View {
            conversation,
            exchange,
            provider: self.origin.provider.or(exchange.map(|e| e.provider)),
            fleet: self.origin.fleet,
            agent: self.origin.agent,
            now: conversation.head.clock,
            schemas: &self.out.schemas,
            pins: &self.engine.pins,
        }
    }

    /// The call that a host event names: in its data, else by the attribute `callid`.
    fn call_id<'v>(&self, value: Option<Value<'v>>, envelope: &Envelope<'v>) -> Cow<'v, [u8]> {
        match value.and_then(|v| v.text()).filter(|text| !text.is_empty()) {
            Some(text) => text,
            None => Cow::Borrowed(envelope.call_id.unwrap_or_default().as_bytes()),
        }
    }

    fn clean(&self, bytes: &[u8]) -> String {
        self.keyed().identifier(super::event::Untrusted::new(bytes))
    }

    fn clean_name(&self, name: &Name<'_>) -> Option<String> {
        match name {
            Name::Wire(value) => value.text().filter(|t| !t.is_empty()).map(|t| self.clean(&t)),
            Name::Implied(name) => Some((*name).to_owned()),
            Name::None => None,
        }
    }

    fn clean_value(&self, value: Option<Value<'_>>) -> Option<String> {
        value.and_then(|v| v.text()).filter(|t| !t.is_empty()).map(|t| self.clean(&t))
    }
}
