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
    }
}

fn names(session: &Session<'_>, exchange: u32) -> Vec<String> {
    let c = session.conversation();
    let set = c.exchanges[&exchange].toolset;
    let mut names: Vec<String> = c
        .tools
        .values()
        .filter(|t| Some(t.toolset) == set)
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
        let sets = s.conversation().toolsets.len();
        s.add_tools(b, [2; 16], vec![tool("h", None)]);
        assert_eq!(s.conversation().toolsets.len(), sets, "known late tools make no new set");
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
