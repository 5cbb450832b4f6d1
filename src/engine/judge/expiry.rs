//! What ends because nothing came: idle calls, and conversations that have to go.

use super::{Origin, Run};
use crate::engine::state::{At, ConvKey, Head, PartitionState, Ready, Session, StateLimits};
use crate::engine::verdict::Checkpoint;
use crate::engine::{Engine, Millis, Observation, Out, Remaining, TickSource};
use bumpalo::Bump;

/// Expires what is due, oldest first.
pub(in crate::engine) fn tick(
    engine: &Engine,
    bump: &Bump,
    state: &mut PartitionState,
    source: TickSource<'_>,
    budget: u32,
    out: &mut Out,
) -> Remaining {
    let limits = StateLimits::from(&engine.settings.limits);
    let due: Vec<ConvKey> = state.due(source.now, budget, &limits);
    let more = due.len() as u64 >= u64::from(budget);
    let idle_since = source.now.saturating_sub(limits.call_ttl_ms as i64);
    let cut = |session: &mut Session<'_>, ready: &mut Vec<Ready>| session.cut_idle(idle_since, ready);
    for key in due {
        let clock = settle_due(engine, bump, state, key, source, out, &cut);
        let idle_out = clock.is_some_and(|c| c.saturating_add(limits.conversation_ttl_ms as i64) <= source.now);
        if idle_out {
            state.remove(key);
            out.observations.push(Observation::Evicted { reason: "ttl" });
        }
    }
    if more { Remaining::Some } else { Remaining::None }
}

/// Cuts open calls of a conversation that no record speaks for, each with its verdict. Gives its clock.
pub(super) fn settle_due(
    engine: &Engine,
    bump: &Bump,
    state: &mut PartitionState,
    key: ConvKey,
    source: TickSource<'_>,
    out: &mut Out,
    cut: &dyn Fn(&mut Session<'_>, &mut Vec<Ready>),
) -> Option<Millis> {
    let mut session = state.open_due(key, &StateLimits::from(&engine.settings.limits))?;
    let head = session.conversation().head.clone();
    let mut ready = Vec::new();
    cut(&mut session, &mut ready);
    for Ready::Call(n) in ready {
        expire(engine, bump, &mut session, &head, source, n, out);
    }
    if !head.waiting.is_empty() {
        let origin = origin_of(&head, source, head.last_offset);
        let mut run = Run::new(engine, bump, origin, out, At { offset: head.last_offset, time: source.now });
        run.release(&mut session, source.now);
    }
    Some(head.clock)
}

/// The verdict of an expiry takes its id from the record that opened the call, so a repeat is the same verdict.
fn expire(
    engine: &Engine,
    bump: &Bump,
    session: &mut Session<'_>,
    head: &Head,
    source: TickSource<'_>,
    n: u32,
    out: &mut Out,
) {
    let conversation = session.conversation();
    let Some(call) = conversation.calls.get(&n) else { return };
    let opened = call.opened;
    let ordinal = conversation.calls.range(..n).filter(|(_, c)| c.opened.offset == opened.offset).count();
    let exchange = conversation.exchanges.get(&call.exchange);
    let response_id: Option<Vec<u8>> = exchange.and_then(|e| e.host_id.clone().or(e.payload_id.clone()));
    let provider = exchange.map(|e| e.provider);
    let origin = Origin { response_id: response_id.as_deref(), provider, ..origin_of(head, source, opened.offset) };
    let mut run = Run::new(engine, bump, origin, out, At { offset: opened.offset, time: source.now });
    let id = format!("{}/expired-{ordinal}", run.id_prefix(Checkpoint::ToolCall));
    run.call(session, n, Some(id));
}

/// The origin of what no record gives: the conversation's own memory.
fn origin_of<'a>(head: &'a Head, source: TickSource<'a>, offset: i64) -> Origin<'a> {
    Origin {
        topic: source.topic,
        partition: source.partition,
        offset,
        key: head.record_key.as_deref(),
        event_id: None,
        time: None,
        traceparent: None,
        tracestate: None,
        unpermitted: false,
        fleet: std::str::from_utf8(&head.fleet).unwrap_or("default"),
        agent: std::str::from_utf8(&head.agent).unwrap_or("default"),
        conversation: Some(&head.name),
        response_id: None,
        provider: None,
    }
}
