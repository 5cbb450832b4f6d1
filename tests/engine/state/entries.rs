//! Journal, changelog, history, orders.

use super::script::*;
use bumpalo::Bump;
use sluicegate::engine::event::{CutReason, Method, Side};
use sluicegate::engine::provider::Provider;
use sluicegate::engine::state::*;
use sluicegate::engine::verdict::Decision;

fn key(n: u128) -> ConvKey {
    ConvKey(n << 64 | n)
}

fn touch<T>(state: &mut PartitionState, n: u128, offset: i64, f: impl FnOnce(&mut Session<'_>) -> T) -> T {
    let at = At { offset, time: offset };
    f(&mut state.open(key(n), at, &LIMITS, &|| Head { name: vec![n as u8], ..Head::default() }))
}

fn absorb(session: &mut Session<'_>, line: &str, at: i64) -> Vec<Ready> {
    let bump = Bump::new();
    let at = At { offset: at, time: at };
    let part = ExchangePart::ResponseStart;
    let want = Want { host_id: Some(b"x"), payload_id: None, provider: Provider::OpenAiResponses, part, at };
    let (n, _) = session.exchange(want);
    let mut ready = Vec::new();
    session.absorb(n, &event(document(&bump, line)), at, &LIMITS, &mut ready);
    ready
}

fn writes(state: &PartitionState) -> Vec<(u8, u32, Option<usize>)> {
    let mut out = Vec::new();
    state.writes(&mut |key, value| out.push((key[0], u32::from(key[24]), value.map(<[u8]>::len))));
    out
}

/// A delta writes the head, its call and the page it touched, not the whole text.
#[test]
fn only_dirty_pages_are_written() {
    let mut state = PartitionState::new();
    let text = |n: usize| format!(r#"["append",0,"{}"]"#, "a".repeat(n));
    touch(&mut state, 1, 1, |s| absorb(s, r#"["open",0,{"id":"a","name":"f"}]"#, 1));
    touch(&mut state, 1, 2, |s| absorb(s, &text(10_000), 2));
    let pages = |w: Vec<(u8, u32, Option<usize>)>| w.into_iter().filter(|(k, ..)| *k == 4).collect::<Vec<_>>();
    assert_eq!(pages(writes(&state)), [(4, 0, Some(4097)), (4, 1, Some(4097)), (4, 2, Some(1809))]);
    state.accept();
    touch(&mut state, 1, 3, |s| absorb(s, &text(4_000), 3));
    assert_eq!(pages(writes(&state)), [(4, 2, Some(4097)), (4, 3, Some(1713))]);
    state.accept();
    touch(&mut state, 1, 4, |s| absorb(s, r#"["restate",0,{"text":"short"}]"#, 4));
    assert_eq!(pages(writes(&state)), [(4, 0, Some(6)), (4, 1, None), (4, 2, None), (4, 3, None)]);
    state.accept();
    touch(&mut state, 1, 5, |s| absorb(s, r#"["close",0]"#, 5));
    assert_eq!(pages(writes(&state)), []);
    state.rollback();
    touch(&mut state, 1, 6, |_| ());
    state.remove(key(1));
    assert!(writes(&state).iter().all(|(_, _, value)| value.is_none()));
    assert_eq!(pages(writes(&state)), [(4, 0, None)]);
    state.accept();
    assert_eq!(state.stats(), Stats::default());
}

#[test]
fn what_came_and_went_in_one_transaction_leaves_no_trace() {
    let mut state = PartitionState::new();
    touch(&mut state, 1, 1, |s| absorb(s, r#"["item",0,{"id":"a","name":"f","text":"{}"}]"#, 1));
    state.remove(key(1));
    assert_eq!(writes(&state), []);
}

#[test]
fn a_conversation_made_anew_replaces_the_old_one_entry_by_entry() {
    let mut log = Changelog::default();
    let mut state = PartitionState::new();
    for offset in 1..4 {
        touch(&mut state, 1, offset, |s| absorb(s, r#"["open",0,{"id":"a","name":"f","text":"x"}]"#, 1));
        touch(&mut state, 1, offset, |s| absorb(s, r#"["open",1,{"id":"b","name":"f","text":"y"}]"#, 1));
        log.take(&state);
        state.accept();
        state.remove(key(1));
        touch(&mut state, 1, offset, |s| absorb(s, r#"["open",0,{"id":"c","name":"f"}]"#, 1));
        log.take(&state);
        state.accept();
        assert_eq!(answers(&log.restore()), answers(&state));
    }
}

#[test]
fn what_cannot_be_read_is_an_error() {
    let mut state = PartitionState::new();
    touch(&mut state, 1, 1, |s| absorb(s, r#"["open",0,{"id":"a","name":"f","text":"x"}]"#, 1));
    let mut log = Changelog::default();
    log.take(&state);
    let (head, value) = log.0.iter().next().unwrap();
    let fresh = PartitionState::new;
    let with = |n: usize, byte: u8| {
        let mut key = head.clone();
        key[n] = byte;
        key
    };
    let newer: Vec<u8> = std::iter::once(9).chain(value[1..].iter().copied()).collect();
    assert_eq!(fresh().restore(head, Some(&newer)), Err(StateError::UnknownVersion { found: 9 }));
    assert_eq!(fresh().restore(&with(0, 0xFF), Some(value)), Err(StateError::BadKey));
    assert_eq!(fresh().restore(&with(0, 0xFF), None), Err(StateError::BadKey));
    assert_eq!(fresh().restore(&with(24, 1), Some(value)), Err(StateError::BadKey));
    assert_eq!(fresh().restore(&head[1..], Some(value)), Err(StateError::BadKey));
    assert_eq!(fresh().restore(head, Some(&[])), Err(StateError::BadValue));
    assert_eq!(fresh().restore(head, Some(&value[..value.len() - 1])), Err(StateError::BadValue));
    let longer: Vec<u8> = value.iter().copied().chain([0]).collect();
    assert_eq!(fresh().restore(head, Some(&longer)), Err(StateError::BadValue));
    for (missing, _) in log.0.iter().filter(|(k, _)| matches!(k[0], 1 | 4)) {
        let mut state = fresh();
        for (key, value) in log.0.iter().filter(|(k, _)| *k != missing) {
            state.restore(key, Some(value)).unwrap();
        }
        assert_eq!(state.restored(), Err(StateError::Incomplete));
    }
}

#[test]
fn history_forgets_the_oldest_settled() {
    let mut state = PartitionState::new();
    let mut open = 0;
    for i in 0..100 {
        touch(&mut state, 1, i, |s| {
            if i == 0 {
                absorb(s, r#"["open",9,{"id":"open","name":"f"}]"#, i);
                open = s.call_by_id(b"open").unwrap().0;
            }
            let bump = Bump::new();
            let at = At { offset: i, time: i };
            let host = format!("h{i}");
            let part = ExchangePart::ResponseStart;
            let provider = Provider::OpenAiResponses;
            let want = Want { host_id: Some(host.as_bytes()), payload_id: None, provider, part, at };
            let (n, _) = s.exchange(want);
            let mut ready = Vec::new();
            let item = format!(r#"["item",0,{{"id":"c{i}","name":"f","text":"{{}}"}}]"#);
            for line in [&item, r#"["stop","final","final"]"#, r#"["end"]"#] {
                s.absorb(n, &event(document(&bump, line)), at, &LIMITS, &mut ready);
            }
            for Ready::Call(n) in ready {
                s.settle(n, [i as u8; 32], None, Decision::Allow);
            }
            s.note_result(fact(i as u8));
        });
    }
    let c = state.get(key(1)).unwrap();
    assert_eq!((c.calls.len(), c.results.len(), c.exchanges.len()), (65, 64, 64));
    assert!(c.calls.contains_key(&open) && c.exchanges.contains_key(&c.calls[&open].exchange));
    touch(&mut state, 1, 101, |s| {
        assert!(s.call_by_id(b"c35").is_none() && s.call_by_id(b"c36").is_some() && s.call_by_id(b"").is_none());
        assert_eq!(s.call_by_id(b"c99").unwrap().1.bytes, 2);
        assert!(s.result(&[35; 16], &[35; 16]).is_none() && s.result(&[36; 16], &[36; 16]).is_some());
    });
}

fn fact(n: u8) -> ResultFact {
    ResultFact {
        call_id: [n; 16],
        content: [n; 16],
        policy: [0; 8],
        clean: true,
        action: Decision::Allow,
        first_seen: 0,
        copy: None,
        withheld: Decision::Allow,
        from_host: n.is_multiple_of(2),
        failed: n.is_multiple_of(3).then_some(true),
        call: None,
    }
}

#[test]
fn the_least_recently_used_goes_first_also_within_a_transaction_and_after_a_restore() {
    let mut log = Changelog::default();
    let mut state = PartitionState::new();
    for (offset, n) in [1, 2, 3, 4, 1, 5].into_iter().enumerate() {
        touch(&mut state, n, offset as i64, |_| ());
        if offset == 3 {
            log.take(&state);
            state.accept();
        }
    }
    // A tick does not make a conversation newer.
    drop(state.open_due(key(2), &LIMITS));
    log.take(&state);
    let mut restored = log.restore();
    let bytes = state.stats().bytes;
    let limits = StateLimits { partition_bytes: bytes * 3 / 5, ..LIMITS };
    for state in [&mut state, &mut restored] {
        state.savepoint();
        for _ in 0..2 {
            let session = state.open(key(9), At { offset: 9, time: 9 }, &limits, &Head::default);
            assert_eq!(session.evicted(), 2);
            drop(session);
            let left: Vec<u128> = (1..10).filter(|n| state.get(key(*n)).is_some()).collect();
            assert_eq!(left, [1, 4, 5, 9]);
            state.rollback_to_savepoint();
            assert_eq!(state.stats().bytes, bytes);
        }
    }
}

#[test]
fn deadlines_come_oldest_first_and_leave_with_what_they_wait_for() {
    let mut state = PartitionState::new();
    let open = r#"["open",0,{"id":"a","name":"f"}]"#;
    touch(&mut state, 1, 500, |s| absorb(s, open, 500));
    touch(&mut state, 2, 100, |_| ());
    touch(&mut state, 3, 300, |s| absorb(s, open, 300));
    let check = |state: &PartitionState| {
        assert_eq!(state.due(1_299, 9, &LIMITS), []);
        assert_eq!(state.due(1_300, 9, &LIMITS), [key(3)]);
        assert_eq!(state.due(1_500, 9, &LIMITS), [key(3), key(1)]);
        assert_eq!(state.due(1_500, 1, &LIMITS), [key(3)]);
        assert_eq!(state.due(60_100, 9, &LIMITS), [key(3), key(1), key(2)]);
    };
    check(&state);
    state.accept();
    check(&state);
    let mut session = state.open_due(key(3), &LIMITS).unwrap();
    let mut ready = Vec::new();
    session.cut_idle(299, &mut ready);
    assert_eq!(ready, []);
    session.cut_idle(300, &mut ready);
    let [Ready::Call(n)] = ready[..] else { panic!("{ready:?}") };
    assert_eq!(session.conversation().calls[&n].status, CallStatus::Cut(CutReason::Expired));
    session.settle(n, [0; 32], Some([1; 16]), Decision::Block);
    drop(session);
    assert_eq!(state.due(1_500, 9, &LIMITS), [key(1)]);
    assert_eq!(state.get(key(3)).unwrap().head.clock, 300);
    state.remove(key(1));
    assert_eq!(state.due(60_300, 9, &LIMITS), [key(2), key(3)]);
    state.rollback();
    check(&state);
}

#[test]
fn loans_keep_sizes_and_indexes_true() {
    let mut log = Changelog::default();
    let mut state = PartitionState::new();
    touch(&mut state, 1, 1, |s| {
        absorb(s, r#"["open",0,{"id":"a","name":"f","text":"x"}]"#, 1);
        let (n, _) = s.call_by_id(b"a").unwrap();
        s.call_mut(n).unwrap().id = b"other".to_vec();
        s.head().name = b"a longer name".to_vec();
        assert_eq!(s.call_by_id(b"other").map(|(n, _)| n), Some(n));
        s.exchange_mut(0).unwrap().elsewhere = true;
    });
    log.take(&state);
    let before = answers(&state);
    state.accept();
    assert_eq!(answers(&log.restore()), before);
    touch(&mut state, 1, 2, |s| s.call_mut(1).unwrap().started = true);
    touch(&mut state, 1, 3, |s| s.head().record_key = Some(vec![1; 99]));
    state.rollback();
    assert_eq!(answers(&state), before);
}

#[test]
fn a_new_conversation_is_partial() {
    let mut state = PartitionState::new();
    touch(&mut state, 1, 1, |_| ());
    assert!(state.get(key(1)).unwrap().head.partial);
}

fn asked(server: u8, from: Side, id: u32) -> RpcRequest {
    let mut digest = [0; 16];
    digest[..4].copy_from_slice(&id.to_be_bytes());
    let status = RpcStatus::Pending;
    RpcRequest {
        server: [server; 16],
        id: digest,
        from,
        method: Method::Call,
        call: None,
        status,
        answer: None,
        exchange: None,
    }
}

#[test]
fn requests_are_bounded_and_the_busiest_connection_forgets_its_own() {
    let mut state = PartitionState::new();
    touch(&mut state, 1, 1, |s| {
        let first = asked(1, Side::Client, 0);
        assert_eq!(s.ask(first), 0);
        assert_eq!(s.ask(asked(2, Side::Server, 0)), 0);
        let (settled, _) = s.asked(&first.server, first.from, &asked(1, Side::Client, 0).id).unwrap();
        let forgotten: u64 = (1..400).map(|id| s.ask(asked(2, Side::Server, id))).sum();
        assert_eq!(forgotten, 401 - 256);
        let known = |s: &Session<'_>, r: RpcRequest| s.asked(&r.server, r.from, &r.id).is_some();
        assert!(known(s, first), "another connection's");
        assert!(!known(s, asked(2, Side::Server, 0)) && known(s, asked(2, Side::Server, 399)));
        assert!(!known(s, asked(2, Side::Client, 399)), "the other side's id");
        // What is answered goes before what waits.
        s.set_request_status(settled, RpcStatus::Answered);
        assert_eq!(s.ask(asked(2, Side::Server, 400)), 1);
        assert!(!known(s, first));
        assert_eq!(s.conversation().requests.len(), 256);
    });
}

#[test]
fn a_request_is_one_entry_and_goes_with_its_conversation() {
    let mut log = Changelog::default();
    let mut state = PartitionState::new();
    touch(&mut state, 1, 1, |s| s.ask(asked(1, Side::Client, 7)));
    let kinds = |state: &PartitionState| writes(state).into_iter().map(|(kind, ..)| kind).collect::<Vec<_>>();
    assert_eq!(kinds(&state), [1, 9]);
    log.take(&state);
    state.accept();
    let restored = log.restore();
    assert_eq!(answers(&restored), answers(&state));
    assert_eq!(restored.get(key(1)).unwrap().requests.len(), 1);
    // The same id again is another request.
    touch(&mut state, 1, 2, |s| s.ask(asked(1, Side::Client, 7)));
    assert_eq!(kinds(&state), [1, 9, 9]);
    log.take(&state);
    state.accept();
    assert_eq!(state.get(key(1)).unwrap().requests.len(), 1);
    state.remove(key(1));
    log.take(&state);
    state.accept();
    assert!(log.0.is_empty());
    assert_eq!(state.stats(), Stats::default());
}
