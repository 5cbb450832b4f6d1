//! A record of an input topic: which conversation and which response it belongs to, who speaks for whom, and what
//! becomes of one that cannot be read.
//!
//! The journey up to the conversation is here: decode, translate, open the state. What the events mean for it is
//! [`Run`]'s. Invariant: every record ends in exactly one outcome, and one that is lost makes nothing final.

use super::expiry::settle_due;
use super::{Origin, Run, checkpoint_of, loss, publish};
use crate::engine::event::{CutReason, Event};
use crate::engine::json::JsonLimits;
use crate::engine::provider::{self, Provider, Translated};
use crate::engine::state::{
    At, ExchangePart, Head, PartitionState, Ready, ResponseState, Sequence, Session, StateLimits, Want,
};
use crate::engine::wire::{self, Decoded, Envelope, EventType, Reject};
use crate::engine::{Engine, Input, Millis, Observation, Out, Outcome, Settings, TickSource, To};
use bumpalo::Bump;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The fleet and the agent of whoever claims none.
const DEFAULT: &str = "default";

/// One record of an input topic.
pub fn record(engine: &Engine, bump: &Bump, state: &mut PartitionState, input: &Input<'_>, out: &mut Out) -> Outcome {
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
        if envelope.kind == EventType::McpMessage {
            run.unread_list(&mut session, &envelope);
        }
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
pub fn panicked(engine: &Engine, state: &mut PartitionState, input: &Input<'_>, out: &mut Out) -> Outcome {
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
