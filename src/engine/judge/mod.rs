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
use super::state::{
    At, ExchangePart, Head, PartitionState, Ready, ResponseState, Sequence, Session, StateLimits, Want,
};
use super::verdict::{Checkpoint, SubjectOut, engine_finding};
use super::wire::{self, Decoded, Envelope, EventType, Reject};
use super::{Engine, Input, Millis, Observation, Out, Outcome, Settings, TickSource, To};
use bumpalo::Bump;
use expiry::settle_due;
pub(super) use expiry::tick;
use publish::Draft;
use request::Request;
use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
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

/// The fleet and the agent of whoever claims none.
const DEFAULT: &str = "default";

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

/// One record of an input topic.
pub(super) fn record(
    engine: &Engine,
    bump: &Bump,
    state: &mut PartitionState,
    input: &Input<'_>,
    out: &mut Out,
) -> Outcome {
    let settings = &engine.settings;
    let options = wire::DecodeOptions { limits: &settings.limits, lines: settings.lines };
    let (envelope, oversize) = match wire::decode(bump, input, options) {
        Decoded::Event(envelope) => (envelope, false),
        Decoded::Oversize(envelope) => (envelope, true),
        Decoded::Reject(reject) => {
            let outcome = reject_record(engine, input, reject, out);
            loss::lost_record(engine, bump, state, input, out);
            return outcome;
        }
    };
    if envelope.kind == EventType::Unknown && !oversize {
        out.observations.push(Observation::Event { provider: envelope.provider, kind: envelope.kind });
        return Outcome::Passed;
    }
    let json = JsonLimits { depth: settings.limits.json_depth, nodes: settings.limits.json_nodes };
    // Host events are judged whoever's call they answer; model events need to know whose wire shape they are.
    let needs_provider =
        matches!(envelope.kind, EventType::ModelRequest | EventType::ModelResponse | EventType::ModelChunk);
    // A stream may go on in the middle of an event.
    let response_id = envelope.response_id.map(str::as_bytes);
    let named = envelope.conversation.map(str::as_bytes).or(input.key);
    let named = named.filter(|name| !name.is_empty()).map(|name| engine.keyed.conversation(name));
    let begun = match envelope.kind {
        EventType::ModelChunk | EventType::ModelClosed if !oversize => {
            let key = named.or_else(|| response_id.map(|id| engine.keyed.conversation(id)));
            key.and_then(|key| state.get(key)).and_then(|known| Some((known, known.begun(response_id)?)))
        }
        _ => None,
    };
    // A read in the middle of a long event is kept as it came.
    let grows = begun.is_some_and(|(_, begun)| provider::goes_on(&envelope, begun.bytes, begun.last));
    let beginning = begun.filter(|_| !grows).map(|(known, _)| known.beginning(response_id)).unwrap_or_default();
    let begun = begun.map(|(_, begun)| begun.provider);
    let provider = match envelope.provider.or(begun) {
        None if needs_provider && !oversize => match provider::detect_provider(bump, &envelope, json) {
            None => {
                let outcome = reject_record(engine, input, Reject::UnknownProvider, out);
                loss::lost_record(engine, bump, state, input, out);
                return outcome;
            }
            told => told,
        },
        given => given,
    };
    out.observations.push(Observation::Event { provider, kind: envelope.kind });
    let mut translated = match (oversize, provider) {
        (true, _) => Translated::new(bump),
        _ if grows => Translated { rest: envelope.data.map_or(&[], |data| data.bytes), ..Translated::new(bump) },
        // Host events mean the same whoever's call they answer.
        (false, provider) => {
            provider::translate(bump, &envelope, provider.unwrap_or(Provider::AnthropicMessages), &beginning, json)
        }
    };
    let payload_id = translated.response_id.and_then(|v| v.text());
    let payload_conversation = translated.conversation.and_then(|v| v.text());
    let name: Option<&[u8]> = envelope
        .conversation
        .map(str::as_bytes)
        .or(input.key)
        .or(payload_conversation.as_deref())
        .or(response_id)
        .or(payload_id.as_deref())
        .filter(|name| !name.is_empty());
    let Some(name) = name else {
        return reject_record(engine, input, Reject::NoConversation, out);
    };
    let event_time = envelope.time.and_then(publish::parse_time);
    let time = input.timestamp.or(event_time.filter(|_| settings.trust_event_time)).unwrap_or(0);
    let (fleet, agent, unpermitted) = believed(settings, &envelope, input.topic);
    let origin = Origin {
        topic: input.topic,
        partition: input.partition,
        offset: input.offset,
        key: input.key,
        event_id: Some(envelope.id).filter(|id| !id.is_empty()),
        time: event_time,
        traceparent: envelope.traceparent,
        tracestate: envelope.tracestate,
        fleet,
        agent,
        conversation: Some(name),
        response_id,
        provider,
        unpermitted,
    };
    let key = named.unwrap_or_else(|| engine.keyed.conversation(name));
    let source = TickSource { topic: input.topic, partition: input.partition, now: time };
    while let Some(victim) = state.to_evict(key, &StateLimits::from(&settings.limits)) {
        let cut = |session: &mut Session<'_>, ready: &mut Vec<Ready>| session.cut_all(CutReason::Limit, ready);
        settle_due(engine, bump, state, victim, TickSource { now: Millis::MAX, ..source }, out, &cut);
        state.remove(victim);
        out.observations.push(Observation::Evicted { reason: "size" });
    }
    let mut run = Run::new(engine, bump, origin, out, At { offset: input.offset, time });
    let head = || Head {
        name: name.to_vec(),
        record_key: input.key.map(<[u8]>::to_vec),
        fleet: origin.fleet.as_bytes().to_vec(),
        agent: origin.agent.as_bytes().to_vec(),
        partial: true,
        ..Head::default()
    };
    let limits = run.limits;
    let mut session = state.open(key, run.at, &limits, &head);
    let clock = session.conversation().head.clock;
    run.release(&mut session, clock);
    let mut behind_gap = false;
    if let Some(number) = envelope.sequence {
        match session.sequence(envelope.source.as_bytes(), number, envelope.id.as_bytes()) {
            Sequence::Duplicate => return outcome(run.out),
            // What is missing may have held a part of any call that is open: none may become final without it.
            // So may what comes late: whether it was applied before cannot be told.
            Sequence::Gap { .. } | Sequence::Back => {
                run.missed(&mut session);
                behind_gap = true;
                if begun.is_some() {
                    translated = Translated::new(bump);
                    translated.undecodable = Some(provider::unkept(bump));
                }
            }
            Sequence::First | Sequence::Next => {}
        }
    }
    let part = match envelope.kind {
        EventType::ModelRequest => Some(ExchangePart::Request),
        EventType::ModelResponse => Some(ExchangePart::ResponseStart),
        EventType::ModelChunk if translated.events.iter().any(|e| matches!(e, Event::Begin { .. })) => {
            match provider.is_some_and(Provider::has_choices) {
                true => Some(ExchangePart::ResponsePart),
                false => Some(ExchangePart::ResponseStart),
            }
        }
        // Which response it is the beginning of is not known yet.
        EventType::ModelChunk if translated.events.is_empty() && !translated.rest.is_empty() => None,
        EventType::ModelChunk | EventType::ModelClosed => Some(ExchangePart::ResponseRest),
        _ => None,
    };
    // A closing may lack the provider: then it closes whatever its id, or the conversation, has open.
    let provider = provider.or_else(|| latest_provider(&session, response_id));
    run.origin.provider = provider;
    let exchange = part.zip(provider).map(|(part, provider)| {
        let want = Want { host_id: response_id, payload_id: payload_id.as_deref(), provider, part, at: run.at };
        session.exchange(want)
    });
    // The first that is seen of a response need not be its first piece then.
    if let Some((n, _)) = exchange.filter(|_| behind_gap && envelope.kind == EventType::ModelChunk) {
        session.cut_exchange(n, CutReason::Gap, &mut Vec::new());
    }
    if let Some((n, _)) = exchange
        && run.origin.response_id.is_none()
    {
        let known = session.conversation().exchanges.get(&n);
        run.origin.response_id =
            known.and_then(|e| e.host_id.as_deref().or(e.payload_id.as_deref())).map(|id| &*bump.alloc_slice_copy(id));
    }
    if !oversize
        && matches!(envelope.kind, EventType::ModelChunk | EventType::ModelResponse)
        && let Some(provider) = provider
    {
        run.foreign(&mut session, response_id, provider);
    }
    if let Some(provider) = provider
        && (begun.is_some() || !translated.rest.is_empty())
        && (envelope.data.is_some() || envelope.kind == EventType::ModelClosed)
    {
        let kept = match grows {
            true => session.grow_beginning(response_id, provider, translated.rest),
            false => session.keep_beginning(response_id, provider, translated.rest),
        };
        if !kept {
            translated.undecodable = Some(provider::unkept(bump));
        }
    }
    if oversize {
        run.oversize(&mut session, &envelope, input, exchange.map(|(n, _)| n));
    } else if envelope.kind == EventType::McpMessage {
        run.messages(&mut session, &envelope, input, &translated);
    } else {
        run.ambiguous = exchange.is_some_and(|(_, ambiguous)| ambiguous);
        if let Some((n, _)) = exchange
            && response_id.is_none()
            && payload_id.is_none()
            && loss::is_stray(&session, n, input.offset, &translated.events)
        {
            run.lost(&mut session, &envelope, None, CutReason::Undecodable);
        }
        run.events(&mut session, &envelope, input, exchange.map(|(n, _)| n), translated);
    }
    // What ended in this record may be what a start waited for.
    run.release(&mut session, Millis::MIN);
    run.say_omitted(checkpoint_of(&envelope));
    outcome(run.out)
}

/// Whose policy applies, and whether a claim of that was not believed.
fn believed<'r>(settings: &Settings, envelope: &Envelope<'r>, topic: &str) -> (&'r str, &'r str, bool) {
    let (fleet, agent) = (envelope.fleet.unwrap_or(DEFAULT), envelope.agent.unwrap_or(DEFAULT));
    let permits = |name: &str| settings.fleets.get(name).map(|trust| trust.permits(topic, envelope.source));
    // Whoever claims no fleet is one of the default fleet, which need not be named. Its agents are believed only
    // where it is: overrides that name agents name fleets too.
    let permitted = permits(fleet).unwrap_or(fleet == DEFAULT);
    if settings.fleets.is_empty() || permitted {
        return (fleet, agent, false);
    }
    // Whoever may not speak for a fleet does not speak for its agents.
    (DEFAULT, DEFAULT, fleet != DEFAULT || agent != DEFAULT)
}

/// What was said on the way counts: of a conversation that had to go, of a start that need not wait any more.
fn outcome(out: &Out) -> Outcome {
    match out.emissions.iter().any(|emission| emission.to == To::Verdicts) {
        true => Outcome::Judged,
        false => Outcome::Passed,
    }
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

fn latest_provider(session: &Session<'_>, response_id: Option<&[u8]>) -> Option<Provider> {
    let mut exchanges = session.conversation().exchanges.values().rev();
    let found = exchanges.find(|e| match response_id {
        Some(id) => e.host_id.as_deref() == Some(id),
        None => e.response == ResponseState::Open,
    });
    found.map(|e| e.provider)
}

/// A record that cannot be read at all.
fn reject_record(engine: &Engine, input: &Input<'_>, reject: Reject, out: &mut Out) -> Outcome {
    let stage = if reject == Reject::EnginePanic { "judge" } else { "decode" };
    let emission = publish::dead_letter(engine, input, reject.label(), stage);
    out.emissions.push(emission);
    out.observations.push(Observation::DeadLetter { reason: reject.label() });
    Outcome::Rejected(reject)
}

/// A record whose judging panicked: nothing of it stands but the dead letter, and what it may have been a part
/// of does not become final.
pub(super) fn panicked(engine: &Engine, state: &mut PartitionState, input: &Input<'_>, out: &mut Out) -> Outcome {
    out.clear();
    let outcome = reject_record(engine, input, Reject::EnginePanic, out);
    let bump = Bump::new();
    let cut = catch_unwind(AssertUnwindSafe(|| loss::lost_record(engine, &bump, state, input, out)));
    if cut.is_err() {
        state.rollback_to_savepoint();
        out.clear();
        return reject_record(engine, input, Reject::EnginePanic, out);
    }
    outcome
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
