//! Any chunking, any interleaving, any transaction boundary gives the same.

use super::script::*;
use bumpalo::Bump;
use proptest::prelude::*;
use sluicegate::engine::event::{Method, Side};
use sluicegate::engine::provider::Provider;
use sluicegate::engine::state::*;
use sluicegate::engine::verdict::Decision;

/// A text as pieces of its JSON spelling in UTF-16 escapes: cuts fall inside surrogate pairs too.
fn pieces(text: &str, cuts: &[usize]) -> Vec<String> {
    let units: Vec<u16> = text.encode_utf16().collect();
    let mut cuts: Vec<usize> = cuts.iter().map(|c| c % (units.len() + 1)).collect();
    cuts.extend([0, units.len()]);
    cuts.sort_unstable();
    let spell = |units: &[u16]| units.iter().map(|u| format!("\\u{u:04x}")).collect::<String>();
    cuts.windows(2).map(|w| spell(&units[w[0]..w[1]])).collect()
}

fn text() -> impl Strategy<Value = String> {
    prop::collection::vec(
        prop_oneof![Just('😀'), Just('a'), Just('"'), Just('é'), Just('𝕏'), Just('\u{10FFFF}')],
        0..12,
    )
    .prop_map(|chars| chars.into_iter().collect())
}

#[derive(Debug, Clone)]
struct Streamed {
    text: String,
    cuts: Vec<usize>,
    restated: usize,
}

fn streamed() -> impl Strategy<Value = Streamed> {
    let cuts = prop::collection::vec(any::<usize>(), 0..6);
    (text(), cuts, 0..3usize).prop_map(|(text, cuts, restated)| Streamed { text, cuts, restated })
}

fn lines(slot: usize, call: &Streamed) -> Vec<String> {
    let mut lines = vec![format!(r#"["open",{slot},{{"id":"c{slot}","name":"f","raw":{{}}}}]"#)];
    lines.extend(pieces(&call.text, &call.cuts).iter().map(|p| format!(r#"["append",{slot},"{p}"]"#)));
    let whole = pieces(&call.text, &[]).concat();
    for _ in 0..call.restated.min(call.text.len()) {
        lines.push(format!(r#"["restate",{slot},{{"text":"{whole}"}}]"#));
    }
    lines.push(format!(r#"["close",{slot}]"#));
    lines
}

/// Deals the lines of each slot in the order the picks give, keeping each slot's own order.
fn interleave(mut queues: Vec<std::collections::VecDeque<String>>, picks: &[usize]) -> Vec<String> {
    let mut out = Vec::new();
    let mut picks = picks.iter().cycle();
    while queues.iter().any(|q| !q.is_empty()) {
        let from = picks.next().copied().unwrap_or(0);
        let count = queues.len();
        let at = (0..count).map(|i| (from + i) % count).find(|i| !queues[*i].is_empty()).unwrap_or(0);
        out.extend(queues[at].pop_front());
    }
    out
}

#[derive(Debug, Clone)]
enum Step {
    Line(u8, String),
    Host(u8, u8),
    Result(u8, u8),
    Started(u8),
    Tools(u8, u8),
    Late(u8, u8),
    Number(u8, u8),
    Asked(u8, u8),
    Settled(u8, u8),
    Listed(u8, u8),
    Tick(i64),
    Remove(u8),
    Savepoint,
    Commit,
}

fn line() -> impl Strategy<Value = String> {
    let slot = 0..3u8;
    let id = prop_oneof![Just(""), Just("a"), Just("b")];
    let kind = prop_oneof![Just("json"), Just("value")];
    prop_oneof![
        (slot.clone(), id.clone(), kind.clone())
            .prop_map(|(s, i, k)| format!(r#"["open",{s},{{"id":"{i}","name":"f","form":"{k}","raw":{{}}}}]"#)),
        (slot.clone(), 0..6_000usize).prop_map(|(s, n)| format!(r#"["append",{s},"{}"]"#, "x".repeat(n))),
        (slot.clone(), prop_oneof![Just("\\ud83d"), Just("\\ude00"), Just("")])
            .prop_map(|(s, t)| format!(r#"["append",{s},"{t}"]"#)),
        (slot.clone(), 0..9_000usize).prop_map(|(s, n)| format!(r#"["restate",{s},{{"text":"{}"}}]"#, "y".repeat(n))),
        slot.clone().prop_map(|s| format!(r#"["close",{s}]"#)),
        (id.clone(), kind).prop_map(|(i, k)| format!(r#"["open","next",{{"id":"{i}","name":"f","form":"{k}"}}]"#)),
        (prop_oneof![Just("$.a"), Just("$.b[0]"), Just("$.b[7]"), Just("$")], 0..6_000usize, any::<bool>()).prop_map(
            |(path, n, more)| {
                let more = if more { r#","more""# } else { "" };
                format!(r#"["leaf","next","{path}","{}"{more}]"#, "z".repeat(n))
            }
        ),
        id.clone().prop_map(|i| format!(r#"["cancel","{i}"]"#)),
        Just(r#"["close","next"]"#.to_owned()),
        (slot.clone(), id.clone(), any::<bool>(), any::<bool>()).prop_map(|(s, i, listed, provider)| {
            let kind = if listed { "listed" } else { "item" };
            let run = if provider { "provider" } else { "client" };
            format!(r#"["{kind}",{s},{{"id":"{i}","name":"g","run":"{run}","text":"{{}}"}}]"#)
        }),
        id.prop_map(|i| format!(r#"["answered","{i}"]"#)),
        prop_oneof![
            Just(r#"["stop","final","final"]"#),
            Just(r#"["stop","paused","carry"]"#),
            Just(r#"["end"]"#),
            Just(r#"["error","failed"]"#),
            Just(r#"["closed"]"#),
            Just(r#"["begin","r1"]"#),
            Just(r#"["begin","r2"]"#),
            Just(r#"["begin","r1","again"]"#),
        ]
        .prop_map(str::to_owned),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let c = 0..4u8;
    prop_oneof![
        12 => (c.clone(), line()).prop_map(|(c, l)| Step::Line(c, l)),
        2 => (c.clone(), any::<u8>()).prop_map(|(c, h)| Step::Host(c, h)),
        2 => (c.clone(), any::<u8>()).prop_map(|(c, r)| Step::Result(c, r)),
        1 => c.clone().prop_map(Step::Started),
        1 => (c.clone(), 0..3u8).prop_map(|(c, t)| Step::Tools(c, t)),
        1 => (c.clone(), 0..6u8).prop_map(|(c, t)| Step::Late(c, t)),
        1 => (c.clone(), any::<u8>()).prop_map(|(c, n)| Step::Number(c, n)),
        2 => (c.clone(), any::<u8>()).prop_map(|(c, k)| Step::Asked(c, k)),
        1 => (c.clone(), any::<u8>()).prop_map(|(c, k)| Step::Settled(c, k)),
        1 => (c.clone(), 0..16u8).prop_map(|(c, k)| Step::Listed(c, k)),
        1 => (0..5_000i64).prop_map(Step::Tick),
        1 => c.prop_map(Step::Remove),
        2 => Just(Step::Savepoint),
        3 => Just(Step::Commit),
    ]
}

/// Small, so that everything is met: eviction, forgetting, limits.
const SMALL: StateLimits = StateLimits {
    call_bytes: 10_000,
    open_calls_per_response: 2,
    open_calls_per_conversation: 3,
    history: 4,
    conversation_bytes: 24_000,
    partition_bytes: 12_000,
    call_ttl_ms: 20,
    reorder_window_ms: 10,
    conversation_ttl_ms: 200,
};

fn tool(name: u8, schema: usize) -> Tool {
    Tool {
        toolset: 0,
        name: vec![name],
        namespace: None,
        server: None,
        family: sluicegate::engine::event::ToolFamily::Function,
        schema: Some(vec![b' '; schema]),
        schema_omitted: false,
        late: false,
    }
}

fn apply(state: &mut PartitionState, step: &Step, offset: i64) {
    let at = At { offset, time: offset * 10 };
    let (conversation, host) = match step {
        Step::Line(c, _)
        | Step::Result(c, _)
        | Step::Started(c)
        | Step::Tools(c, _)
        | Step::Late(c, _)
        | Step::Number(c, _)
        | Step::Asked(c, _)
        | Step::Settled(c, _)
        | Step::Listed(c, _) => (*c, 0),
        Step::Host(c, h) => (*c, *h),
        Step::Remove(c) => return state.remove(ConvKey(u128::from(*c))),
        Step::Tick(now) => {
            for key in state.due(*now, 2, &SMALL) {
                let mut session = state.open_due(key, &SMALL).unwrap();
                let mut ready = Vec::new();
                session.cut_idle(now - 20, &mut ready);
                for Ready::Call(n) in ready {
                    session.settle(n, [2; 32], Some([3; 16]), Decision::Block);
                }
                let idle = session.conversation().head.clock + 200 <= *now;
                drop(session);
                if idle {
                    state.remove(key);
                }
            }
            return;
        }
        Step::Savepoint | Step::Commit => return,
    };
    let key = ConvKey(u128::from(conversation));
    let mut session = state.open(key, at, &SMALL, &|| Head { name: vec![conversation], ..Head::default() });
    let part = ExchangePart::ResponseStart;
    let host = [host];
    let want = Want { host_id: Some(&host), payload_id: None, provider: Provider::AnthropicMessages, part, at };
    let (n, _) = session.exchange(want);
    let bump = Bump::new();
    let mut ready = Vec::new();
    match step {
        Step::Line(_, line) => {
            session.absorb(n, &event(document(&bump, line)), at, &SMALL, &mut ready);
        }
        Step::Result(_, r) => session.note_result(ResultFact {
            call_id: [*r; 16],
            content: [0; 16],
            policy: [0; 8],
            clean: true,
            action: Decision::Allow,
            first_seen: offset,
            copy: None,
            withheld: Decision::Allow,
            from_host: true,
            failed: Some(false),
            call: Some(n),
        }),
        Step::Started(_) => {
            let call = session.conversation().calls.keys().next().copied();
            if let Some(call) = call.and_then(|n| session.call_mut(n)) {
                call.started = true;
            }
            session.head().starts_seen = true;
        }
        Step::Tools(_, t) => {
            session.set_toolset(n, [*t; 16], &mut || (0..*t).map(|i| tool(i, 100)).collect());
            session.exchange_mut(n).unwrap().request_seen = true;
        }
        Step::Late(_, t) => session.add_tools(n, [0; 16], vec![tool(*t, offset as usize), tool(t + 1, 9_000)]),
        Step::Asked(_, k) => {
            let from = if k % 3 == 0 { Side::Server } else { Side::Client };
            let status = if k % 2 == 0 { RpcStatus::Pending } else { RpcStatus::NeedsInput };
            let call = (k % 5 == 0).then_some(n);
            session.ask(RpcRequest {
                server: [k % 2; 16],
                id: [*k % 24; 16],
                from,
                method: Method::Call,
                call,
                status,
                answer: (k % 7 == 0).then_some([*k; 16]),
                exchange: (k % 3 == 1).then_some(n),
            });
        }
        Step::Settled(_, k) => {
            let found = session.asked(&[k % 2; 16], Side::Client, &[*k % 24; 16]);
            if let Some((request, _)) = found {
                session.set_request_status(request, RpcStatus::Answered);
            }
        }
        Step::Listed(_, k) if k % 4 == 0 => session.tools_changed(n),
        Step::Listed(_, k) => {
            let tools = (0..k / 4).map(|i| tool(i, 100)).collect();
            session.list_tools(n, [k / 4; 16], (k % 4 == 1, k % 2 == 1), tools);
        }
        Step::Number(_, k) => {
            session.sequence(&[k % 16], u64::from(*k) / 16, &[*k]);
        }
        _ => {}
    }
    for Ready::Call(n) in ready {
        session.settle(n, [1; 32], None, Decision::Allow);
    }
}

/// What a state would evict, in order; the state is as it was afterwards.
fn evictions(state: &mut PartitionState) -> Vec<u8> {
    state.savepoint();
    let mut order = Vec::new();
    let new = ConvKey(99);
    while state.stats().conversations > u64::from(state.get(new).is_some()) {
        let limits = StateLimits { partition_bytes: state.stats().bytes - 1, ..SMALL };
        let held = |state: &PartitionState| (0..4).filter(|c| state.get(ConvKey(u128::from(*c))).is_some()).collect();
        let before: Vec<u8> = held(state);
        drop(state.open(new, At { offset: 1 << 40, time: 0 }, &limits, &Head::default));
        let after: Vec<u8> = held(state);
        order.extend(before.into_iter().filter(|c| !after.contains(c)));
    }
    state.rollback_to_savepoint();
    order
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn chunking_and_interleaving_do_not_matter(
        calls in prop::collection::vec(streamed(), 1..4),
        picks in prop::collection::vec(0..4usize, 1..20),
    ) {
        let queues = calls.iter().enumerate().map(|(slot, call)| lines(slot, call).into()).collect();
        let mut script = interleave(queues, &picks);
        script.extend([r#"["stop","final","final"]"#.to_owned(), r#"["end"]"#.to_owned()]);
        let script: Vec<&str> = script.iter().map(String::as_str).collect();
        let (out, _) = run(Way::Once, Provider::OpenAiResponses, &LIMITS, &script);
        let text = |c: &Streamed| if c.text.is_empty() { "{}".to_owned() } else { c.text.clone() };
        let expected: Vec<String> =
            calls.iter().enumerate().map(|(slot, c)| format!("c{slot} f final {}", text(c))).collect();
        prop_assert_eq!(&out, &expected);
        let (restored, _) = run(Way::Restored, Provider::OpenAiResponses, &LIMITS, &script);
        prop_assert_eq!(restored, expected);
    }

    #[test]
    fn undoing_and_restoring_give_the_same(steps in prop::collection::vec(step(), 1..60)) {
        let mut state = PartitionState::new();
        let mut log = Changelog::default();
        state.begin();
        let (mut begun, mut open) = ((answers(&state), 0), Vec::new());
        for (at, step) in steps.iter().enumerate() {
            let before = answers(&state);
            state.savepoint();
            apply(&mut state, step, at as i64);
            let after = answers(&state);
            state.rollback_to_savepoint();
            prop_assert_eq!(answers(&state), before);
            apply(&mut state, step, at as i64);
            prop_assert_eq!(&answers(&state), &after);
            open.push((at, step));
            if matches!(step, Step::Commit) {
                // The whole transaction once more, from its beginning.
                state.rollback();
                prop_assert_eq!(&answers(&state), &begun.0);
                state.begin();
                for (at, step) in open.drain(..) {
                    apply(&mut state, step, at as i64);
                }
                prop_assert_eq!(&answers(&state), &after);
                log.take(&state);
                prop_assert_eq!(&log.0, &dump(&state));
                state.accept();
                prop_assert_eq!(&answers(&state), &after);
                let mut restored = log.restore();
                prop_assert_eq!(&answers(&restored), &after);
                prop_assert_eq!(evictions(&mut restored), evictions(&mut state));
                prop_assert_eq!(&answers(&restored), &after);
                state = restored;
                begun = (after, at);
                state.begin();
            }
        }
    }
}
