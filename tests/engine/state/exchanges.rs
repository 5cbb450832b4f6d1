//! Which exchange a record belongs to, and what is kept of exchanges and their tools.

use super::script::*;
use sluicegate::engine::event::ToolFamily;
use sluicegate::engine::provider::Provider;
use sluicegate::engine::state::*;

const AT: At = At { offset: 1, time: 1 };
use ExchangePart::{Request, ResponseRest, ResponseStart};

fn want<'a>(host: &'a str, payload: &'a str, part: ExchangePart) -> Want<'a> {
    let id = |s: &'a str| (!s.is_empty()).then_some(s.as_bytes());
    Want { host_id: id(host), payload_id: id(payload), provider: Provider::OpenAiResponses, part, at: AT }
}

fn with<T>(state: &mut PartitionState, f: impl FnOnce(&mut Session<'_>) -> T) -> T {
    f(&mut state.open(KEY, AT, &LIMITS, &Head::default))
}

fn request(session: &mut Session<'_>, host: &str) -> u32 {
    let (n, _) = session.exchange(want(host, "", Request));
    session.exchange_mut(n).unwrap().request_seen = true;
    n
}

fn set(session: &mut Session<'_>, n: u32, response: ResponseState) {
    session.exchange_mut(n).unwrap().response = response;
}

#[test]
fn the_hosts_id_decides() {
    with(&mut PartitionState::new(), |s| {
        let a = request(s, "a");
        let b = request(s, "b");
        assert_eq!(s.exchange(want("a", "p", ResponseStart)), (a, false));
        assert_eq!(s.exchange(want("b", "p", ResponseRest)), (b, false));
        assert_eq!(s.exchange(want("a", "", Request)), (a, false));
        assert!(s.exchange(want("c", "", ResponseRest)).0 > b);
    });
}

#[test]
fn a_response_takes_the_latest_unanswered_request_and_says_if_there_were_more() {
    with(&mut PartitionState::new(), |s| {
        let a = request(s, "");
        let b = request(s, "");
        let named = request(s, "x");
        assert_eq!(s.exchange(want("", "p", ResponseStart)), (b, true));
        set(s, b, ResponseState::Open);
        s.exchange_mut(b).unwrap().payload_id = Some(b"p".to_vec());
        assert_eq!(s.exchange(want("", "q", ResponseStart)), (a, false));
        assert_eq!(s.exchange(want("", "p", ResponseRest)), (b, false));
        assert_eq!(s.exchange(want("", "", ResponseRest)), (b, false));
        set(s, a, ResponseState::Open);
        assert_eq!(s.exchange(want("", "p", ResponseStart)), (b, false));
        set(s, a, ResponseState::Ended);
        set(s, b, ResponseState::Ended);
        assert!(s.exchange(want("", "r", ResponseStart)).0 > named);
    });
}

/// An unknown id on a chunk: Responses proxies rotate it, elsewhere it is another response's.
#[test]
fn an_unknown_payload_id_on_a_chunk() {
    with(&mut PartitionState::new(), |s| {
        let (n, _) = s.exchange(want("", "p", ResponseStart));
        set(s, n, ResponseState::Open);
        assert_eq!(s.exchange(want("", "rotated", ResponseRest)), (n, false));
        let chat = Want { provider: Provider::OpenAiChat, ..want("", "c", ResponseStart) };
        let (chat_n, _) = s.exchange(chat);
        set(s, chat_n, ResponseState::Open);
        let other = Want { payload_id: Some(b"d"), part: ResponseRest, ..chat };
        assert!(s.exchange(other).0 > chat_n);
    });
}

#[test]
fn a_chunk_of_nothing_known_is_a_partial_exchange() {
    with(&mut PartitionState::new(), |s| {
        let (n, ambiguous) = s.exchange(want("", "", ResponseRest));
        assert!(!ambiguous && !s.conversation().exchanges[&n].request_seen);
    });
}

#[test]
fn ended_exchanges_are_forgotten_first() {
    with(&mut PartitionState::new(), |s| {
        let awaited = request(s, "first");
        let ended = request(s, "second");
        set(s, ended, ResponseState::Ended);
        for i in 0..63 {
            request(s, &format!("x{i}"));
        }
        let exchanges = &s.conversation().exchanges;
        assert_eq!(exchanges.len(), 64);
        assert!(exchanges.contains_key(&awaited) && !exchanges.contains_key(&ended));
    });
}

fn tool(name: &str, schema: Option<&[u8]>) -> Tool {
    Tool {
        toolset: 0,
        name: name.as_bytes().to_vec(),
        namespace: None,
        server: None,
        family: ToolFamily::Function,
        schema: schema.map(<[u8]>::to_vec),
        schema_omitted: false,
        late: false,
    }
}

fn names(session: &Session<'_>, exchange: u32) -> Vec<String> {
    let c = session.conversation();
    let sets = [c.exchanges[&exchange].toolset, c.exchanges[&exchange].late];
    let mut names: Vec<String> = c
        .tools
        .values()
        .filter(|t| sets.contains(&Some(t.toolset)))
        .map(|t| String::from_utf8_lossy(&t.name).into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn equal_toolsets_are_kept_once_and_dropped_with_their_last_exchange() {
    with(&mut PartitionState::new(), |s| {
        let (a, b) = (request(s, "a"), request(s, "b"));
        s.set_toolset(a, [1; 16], &mut || vec![tool("f", None), tool("g", Some(b"{}"))]);
        s.set_toolset(b, [1; 16], &mut || panic!("known already"));
        assert_eq!((s.conversation().toolsets.len(), s.conversation().tools.len()), (1, 2));
        s.add_tools(b, [2; 16], vec![tool("h", None), tool("g", Some(b"[]"))]);
        assert_eq!(
            (names(s, a), names(s, b)),
            (vec!["f".into(), "g".into()], vec!["f".into(), "g".into(), "h".into()])
        );
        let held = |s: &Session<'_>| (s.conversation().toolsets.len(), s.conversation().tools.len());
        assert_eq!(held(s), (2, 3), "a late definition never replaces the request's own");
        s.add_tools(b, [2; 16], vec![tool("h", None)]);
        assert_eq!(held(s), (2, 3), "known late tools add nothing");
        s.add_tools(b, [4; 16], vec![tool("h", Some(b"{}"))]);
        assert_eq!(held(s), (2, 3), "of late definitions the last counts");
        s.set_toolset(a, [2; 16], &mut || vec![tool("own", None)]);
        assert_eq!(names(s, a), ["own"], "late sets are never shared by digest");
        s.set_toolset(a, [3; 16], &mut Vec::new);
        s.set_toolset(b, [3; 16], &mut Vec::new);
        assert_eq!((s.conversation().toolsets.len(), s.conversation().tools.len()), (1, 0));
    });
}

#[test]
fn a_schema_too_large_for_an_entry_is_left_out_and_says_so() {
    let mut state = PartitionState::new();
    with(&mut state, |s| {
        let a = request(s, "a");
        s.set_toolset(a, [1; 16], &mut || vec![tool("f", Some(&[b' '; 70_000])), tool(&"n".repeat(100_000), None)]);
        let tools: Vec<&Tool> = s.conversation().tools.values().collect();
        assert!(tools[0].schema_omitted && tools[0].schema.is_none() && !tools[1].schema_omitted);
    });
    dump(&state);
}

#[test]
fn long_ids_are_found_and_stay_apart() {
    let (a, b) = ("x".repeat(2_000) + "a", "x".repeat(2_000) + "b");
    with(&mut PartitionState::new(), |s| {
        let n = request(s, &a);
        assert_ne!(request(s, &b), n);
        assert_eq!(request(s, &a), n);
    });
}

/// One at a time or all at once: an entry for each, and no more than the cap.
#[test]
fn late_tools_are_appended_up_to_a_number() {
    let mut state = PartitionState::new();
    let mut log = Changelog::default();
    state.begin();
    with(&mut state, |s| {
        let a = request(s, "a");
        s.set_toolset(a, [1; 16], &mut || vec![tool("own", None)]);
    });
    log.take(&state);
    state.accept();
    let before = answers(&state);
    for round in 0..2 {
        state.begin();
        with(&mut state, |s| {
            let (a, _) = s.exchange(want("a", "", ResponseRest));
            for i in 0..2_000 {
                s.add_tools(a, [2; 16], vec![tool(&format!("t{i}"), None)]);
            }
            let c = s.conversation();
            let (own, late) = (c.exchanges[&a].toolset.unwrap(), c.exchanges[&a].late.unwrap());
            assert_eq!((c.toolsets[&own].omitted, c.toolsets[&late].omitted), (0, 2_000 - 1_024));
            assert_eq!((c.toolsets.len(), c.tools.len()), (2, 1_025));
        });
        let mut written = 0;
        state.writes(&mut |key, _| written += usize::from(key[0] == 7));
        assert_eq!(written, 1_024);
        if round == 0 {
            state.rollback();
            assert_eq!(answers(&state), before);
        }
    }
    log.take(&state);
    state.accept();
    assert_eq!(answers(&log.restore()), answers(&state));
}

fn facts(s: &Session<'_>, n: u32) -> (bool, bool, Vec<String>) {
    let e = &s.conversation().exchanges[&n];
    (e.request_seen, e.elsewhere, names(s, n))
}

fn with_tools(s: &mut Session<'_>, host: &str, name: &str) -> u32 {
    let n = request(s, host);
    s.set_toolset(n, [name.len() as u8; 16], &mut || vec![tool(name, None)]);
    n
}

/// The gateway tried again: the second beginning takes the place of the first, with its request.
#[test]
fn a_response_that_begins_again_keeps_its_request() {
    with(&mut PartitionState::new(), |s| {
        let a = with_tools(s, "", "f");
        assert_eq!(s.exchange(want("", "p", ResponseStart)).0, a);
        set(s, a, ResponseState::Open);
        s.exchange_mut(a).unwrap().payload_id = Some(b"p".to_vec());
        assert_eq!(s.exchange(want("", "q", ResponseStart)).0, a);
        set(s, a, ResponseState::Ended);
        s.exchange_mut(a).unwrap().failed = true;
        assert_eq!(s.exchange(want("", "r", ResponseStart)).0, a);
        // An unanswered request goes before.
        let b = with_tools(s, "", "gg");
        assert_eq!(s.exchange(want("", "r", ResponseStart)), (b, false));
    });
}

/// No id switches off what the conversation's request declared.
#[test]
fn a_response_without_a_request_inherits_the_latest() {
    let yes = |name: &str| (true, false, vec![name.to_owned()]);
    with(&mut PartitionState::new(), |s| {
        let (before, _) = s.exchange(want("early", "", ResponseRest));
        let a = with_tools(s, "a", "f");
        assert_eq!(facts(s, before), (false, false, vec![]));
        s.exchange(want("early", "", ResponseRest));
        assert_eq!(facts(s, before), yes("f"));
        set(s, a, ResponseState::Ended);
        let (other, _) = s.exchange(want("mismatched", "", ResponseStart));
        assert_eq!(facts(s, other), yes("f"));
        let foreign = Want { provider: Provider::AnthropicMessages, ..want("foreign", "", ResponseStart) };
        let (foreign, _) = s.exchange(foreign);
        assert_eq!(facts(s, foreign), yes("f"));
        with_tools(s, "b", "gg");
        let (other, _) = s.exchange(want("mismatched too", "", ResponseStart));
        assert_eq!(facts(s, other), yes("gg"));
        // Its own request comes after all.
        let (own, _) = s.exchange(want("mismatched", "", Request));
        assert!(!s.conversation().exchanges[&own].inherited && !s.conversation().exchanges[&own].request_seen);
        // An inherited request waits for no response.
        let (none, _) = s.exchange(want("", "", ResponseRest));
        assert_ne!(s.exchange(want("", "x", ResponseStart)).0, none);
    });
}

#[test]
fn a_flood_of_exchanges_forgets_no_request_and_no_tools() {
    with(&mut PartitionState::new(), |s| {
        let waiting = with_tools(s, "waiting", "f");
        let source = with_tools(s, "source", "gg");
        set(s, source, ResponseState::Ended);
        for i in 0..200 {
            // Requests that could not be read.
            s.exchange(want(&format!("r{i}"), "", Request));
        }
        for i in 0..200 {
            let (n, _) = s.exchange(want(&format!("x{i}"), "", ResponseStart));
            set(s, n, ResponseState::Ended);
            assert_eq!(names(s, n), ["gg"]);
        }
        assert!(s.conversation().exchanges.contains_key(&waiting));
    });
}

#[test]
fn numbers_of_a_source() {
    use Sequence::*;
    let steps: [(&str, u64, &str, Sequence); 14] = [
        ("a", 5, "e5", First),
        ("a", 6, "e6", Next),
        ("a", 6, "e6", Duplicate),
        ("a", 6, "other", Back),
        ("a", 5, "e5", Back),
        ("a", 7, "e7", Next),
        ("b", 1, "e1", First),
        ("a", 10, "e10", Gap { missing: 2 }),
        ("a", u64::MAX, "last", Gap { missing: u64::MAX - 11 }),
        ("a", u64::MAX, "last", Duplicate),
        ("a", 1, "anew", Back),
        ("a", 2, "e2", Next),
        ("", 0, "", First),
        ("", 0, "", Duplicate),
    ];
    let mut state = PartitionState::new();
    let mut log = Changelog::default();
    for (source, number, id, expected) in steps {
        state.begin();
        let before = answers(&state);
        for _ in 0..2 {
            state.savepoint();
            let got = with(&mut state, |s| s.sequence(source.as_bytes(), number, id.as_bytes()));
            assert_eq!(got, expected, "{source} {number} {id}");
            state.rollback_to_savepoint();
            assert_eq!(answers(&state), before);
        }
        with(&mut state, |s| s.sequence(source.as_bytes(), number, id.as_bytes()));
        log.take(&state);
        state.accept();
        let restored = log.restore();
        assert_eq!(answers(&restored), answers(&state));
        state = restored;
    }
    with(&mut state, |s| {
        for i in 0..8 {
            assert_eq!(s.sequence(format!("s{i}").as_bytes(), 1, b"x"), First);
        }
        assert_eq!(s.conversation().head.sources.len(), 8);
        assert_eq!(s.sequence(b"s0", 2, b"x"), Next);
        assert_eq!(s.sequence(b"a", 3, b"x"), First, "the least recently used is forgotten");
        assert_eq!(s.sequence(b"s0", 3, b"x"), Next);
    });
}

/// Absorbs lines as one response's records would, without a host id. Gives the exchange and what ended.
fn stream(s: &mut Session<'_>, payload: &str, lines: &[&str]) -> (u32, Vec<String>) {
    let bump = bumpalo::Bump::new();
    let (mut n, mut out) = (0, Vec::new());
    for (at, text) in lines.iter().enumerate() {
        let part = if at == 0 { ResponseStart } else { ResponseRest };
        n = s.exchange(want("", if at == 0 { payload } else { "" }, part)).0;
        let mut ready = Vec::new();
        s.absorb(n, &event(document(&bump, text)), AT, &LIMITS, &mut ready);
        for Ready::Call(call) in ready {
            out.push(line(&s.conversation().calls[&call]));
        }
    }
    (n, out)
}

#[test]
fn a_retried_response_supersedes_and_is_held_to_the_same_tools() {
    let call = r#"["item",0,{"id":"a","name":"f","text":"1"}]"#;
    let other = r#"["item",0,{"id":"b","name":"f","text":"2"}]"#;
    let end = [r#"["stop","final","final"]"#, r#"["end"]"#];
    with(&mut PartitionState::new(), |s| {
        let a = with_tools(s, "", "f");
        assert_eq!(stream(s, "m1", &[r#"["begin","m1"]"#, call]), (a, vec![]));
        let second = [r#"["begin","m2"]"#, other, r#"["error","failed"]"#];
        let cut = vec!["a f superseded 1".to_owned(), "b f failed 2".to_owned()];
        assert_eq!(stream(s, "m2", &second), (a, cut));
        let third = [r#"["begin","m3"]"#, call, end[0], end[1]];
        assert_eq!(stream(s, "m3", &third), (a, vec!["a f final 1".to_owned()]));
        assert_eq!(facts(s, a), (true, false, vec!["f".to_owned()]));
        // It ended well: what comes now is another response, held to the same tools.
        let (b, _) = stream(s, "m4", &[r#"["begin","m4"]"#]);
        assert!(b > a && facts(s, b) == facts(s, a));
    });
}

/// Digests of what a provider signed outlast a restart, go with a rollback, and are bounded.
#[test]
fn what_was_signed_is_kept() {
    let (mut state, mut log) = (PartitionState::new(), Changelog::default());
    state.begin();
    let (a, n) = with(&mut state, |s| {
        let (a, _) = s.exchange(want("a", "", ResponseStart));
        (a, s.exchange(want("b", "", ResponseStart)).0)
    });
    let call = |line: &str, state: &mut PartitionState| {
        let bump = bumpalo::Bump::new();
        with(state, |s| s.absorb(a, &event(document(&bump, line)), AT, &LIMITS, &mut Vec::new()));
    };
    call(r#"["open",1,{"id":"c","name":"f"}]"#, &mut state);
    log.take(&state);
    state.accept();
    let before = answers(&state);
    let part = |n: u32| (sluicegate::engine::event::Slot(n, 0), None);
    for round in 0..2 {
        state.begin();
        with(&mut state, |s| {
            s.seal_call(a, sluicegate::engine::event::Slot(1, 0), [1; 16], true);
            s.thought(a, part(0).0, |so_far| [so_far[0] + 3, 4]);
            s.thought(a, part(0).0, |so_far| [so_far[0] + 3, 5]);
            s.seal_part(a, part(0), [2; 16], false);
            // Without an id the latest word holds; with one, every word does, at the place of the first.
            s.seal_part(a, part(2), [3; 16], false);
            s.seal_part(a, part(2), [4; 16], false);
            s.seal_part(a, (part(3).0, Some([9; 16])), [5; 16], false);
            s.seal_part(a, (part(7).0, Some([9; 16])), [6; 16], false);
            let known = &s.conversation().exchanges[&a];
            let shown: Vec<_> = known.seals.iter().map(|seal| (seal.slot.0, seal.seal, seal.thought)).collect();
            let seal = |byte: u8| Some([byte; 16]);
            let none = [0, 0];
            assert_eq!(shown, [(0, seal(2), [6, 5]), (2, seal(4), none), (3, seal(5), none), (3, seal(6), none)]);
            assert!(known.seals_required && !known.seals_omitted);
            assert!(s.conversation().calls.values().any(|call| call.seal == seal(1)));
            for at in 0..100 {
                s.seal_part(n, part(at), [at as u8; 16], false);
            }
            let many = &s.conversation().exchanges[&n];
            assert!(many.seals.len() == 64 && many.seals_omitted && !many.seals_required);
        });
        if round == 0 {
            state.rollback();
            assert_eq!(answers(&state), before);
        }
    }
    log.take(&state);
    state.accept();
    assert_eq!(answers(&log.restore()), answers(&state));
}
