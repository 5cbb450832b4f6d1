//! Judging MCP messages: calls, answers, and what a server tells of its tools.
//!
//! A message is either a fact (a request, a list of tools, a cancellation), a call, or an answer. What an
//! answer is is decided by the request that it answers, found by server, asking side and id; an answer that
//! fits no request that is waiting is judged as a tool's output all the same, and blocked, since a client
//! might take it; but not where the request may have been made before anybody looked, or was forgotten. Who sent
//! a message may be unsaid: then a server may have, and what may be a tool's output is judged as that. All results of one record share one copy of it: it holds the edits of all of them, or there
//! is none.

use super::Run;
use super::content::Content;
use super::definitions::Declared;
use super::publish::Draft;
use super::result::{Copied, Said, Settled, mark_answered};
use crate::engine::digest::{Role, hex, push_json_string, sha256, short};
use crate::engine::event::{
    Args, CallFacts, Event, Executor, Fate, Form, ItemStatus, Method, Name, Rpc, RpcSays, Side, Slot, Stop, Tools,
};
use crate::engine::json::{self, JsonLimits, Kind, Value};
use crate::engine::layer::{Edit, Layer};
use crate::engine::policy::{Evidence, Place};
use crate::engine::provider::mcp::{answer, direction};
use crate::engine::provider::{Provider, Translated, member, sse};
use crate::engine::state::{
    Call, CallStatus, Exchange, ExchangePart, Ready, RpcRequest, RpcStatus, Session, Want, clip,
};
use crate::engine::verdict::{Checkpoint, Decision, engine_finding};
use crate::engine::wire::Envelope;
use crate::engine::{Input, Observation};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// The server that a record's messages go to or come from.
struct Peer<'r> {
    /// As a JSON string of its own.
    name: Option<Value<'r>>,
    text: &'r str,
    digest: [u8; 16],
    /// The id of its exchange: the one that holds what it lists.
    exchange: Vec<u8>,
    /// The record says which side sent it.
    said: bool,
}

/// What a `tools/call` asks for.
#[derive(Clone, Copy)]
struct Asked<'r> {
    name: Value<'r>,
    arguments: Option<Value<'r>>,
    again: bool,
}

/// A result whose verdict waits for the record's copy.
struct Held<'r> {
    draft: Draft<'r, 'static>,
    edits: Vec<Edit<'r>>,
    /// `None`: a list of tools, or instructions.
    output: Option<Output>,
}

/// What is remembered of a tool's output.
struct Output {
    content: Content,
    copied: Copied,
    said: Said,
    first_seen: i64,
}

/// What one record's messages left to do.
#[derive(Default)]
struct Left<'r> {
    results: Vec<Held<'r>>,
    /// Messages that nobody looks into.
    opaque: Vec<(Value<'r>, &'static str)>,
}

impl<'a, 'r> Run<'a, 'r> {
    /// One record: a message or a batch of them. Of one that cannot be read as a whole nothing stands.
    pub(super) fn messages(
        &mut self,
        session: &mut Session<'_>,
        envelope: &Envelope<'r>,
        input: &Input<'_>,
        translated: &Translated<'r>,
    ) {
        let quiet = || envelope.data.is_some_and(|data| sse::is_quiet(data.bytes));
        let unread = match (translated.unclear, translated.undecodable) {
            (Some((value, rule)), _) => Some(engine_finding(rule, Place::Value { value, range: None }, Evidence::None)),
            (None, Some((_, error))) => {
                Some(engine_finding("undecodable", Place::Whole, Evidence::Offset { at: u64::from(error.at) }))
            }
            (None, None) if translated.events.is_empty() && quiet() => return,
            (None, None) if translated.events.is_empty() => {
                Some(engine_finding("undecodable", Place::Whole, Evidence::None))
            }
            (None, None) => None,
        };
        if let Some(finding) = unread {
            self.unread_list(session, envelope);
            return self.unread(session, envelope, None, finding);
        }
        let peer = self.peer(envelope.mcp_server.unwrap_or_default(), direction(envelope).is_some());
        let mut left = Left::default();
        for event in &translated.events {
            let Event::Rpc(rpc) = event else { continue };
            self.message(session, &peer, rpc, &mut left);
        }
        for (_, kind) in &left.opaque {
            self.opaque(kind);
        }
        self.results(session, envelope, input, left);
    }

    /// While a client waits for a server's list, what cannot be read may be it: some reader has taken it for one, and
    /// nobody knows which tools it declares. Until another list is read, none does.
    pub(super) fn unread_list(&self, session: &mut Session<'_>, envelope: &Envelope<'r>) {
        if direction(envelope) == Some(Side::Client) {
            return;
        }
        let server = self.peer(envelope.mcp_server.unwrap_or_default(), false).digest;
        let waits = |request: &&RpcRequest| {
            let lists = matches!(request.method, Method::List | Method::ListPage);
            request.server == server && lists && request.status == RpcStatus::Pending
        };
        let exchange = session.conversation().requests.values().filter(waits).find_map(|request| request.exchange);
        if let Some(exchange) = exchange {
            let digest = short(self.keyed().digest(Role::Tools, &[b"unread"]));
            session.list_tools(exchange, digest, (true, true), Vec::new());
        }
    }

    fn peer(&self, server: &'r str, said: bool) -> Peer<'r> {
        let mut name = Vec::with_capacity(server.len() + 2);
        push_json_string(&mut name, server.as_bytes());
        let layer = Layer::record(self.bump, self.bump.alloc_slice_copy(&name));
        let name = json::parse(self.bump, layer, JsonLimits::default()).ok().filter(|_| !server.is_empty());
        let digest = short(self.keyed().digest(Role::Identifier, &[b"mcp", server.as_bytes()]));
        let exchange = clip(format!("mcp:{server}").as_bytes()).into_owned();
        Peer { name, text: server, digest, exchange, said }
    }

    /// The server's exchange, if its client was heard before.
    fn heard<'s>(session: &'s Session<'_>, peer: &Peer<'_>) -> Option<(u32, &'s Exchange)> {
        let mut exchanges = session.conversation().exchanges.iter();
        let own = |host: &Option<Vec<u8>>| host.as_deref() == Some(peer.exchange.as_slice());
        exchanges.find(|(_, e)| e.provider == Provider::Mcp && own(&e.host_id)).map(|(n, e)| (*n, e))
    }

    fn message(&mut self, session: &mut Session<'_>, peer: &Peer<'r>, rpc: &Rpc<'r>, left: &mut Left<'r>) {
        match rpc.says {
            RpcSays::Call { name, arguments, again } => {
                self.tool_call(session, peer, rpc, Asked { name, arguments, again });
            }
            RpcSays::Request { method, kind } => {
                left.opaque.extend(kind.map(|kind| (rpc.item, kind)));
                if rpc.from.is_none() {
                    left.opaque.push((rpc.item, "mcp_direction"));
                }
                let hears = matches!(method, Method::Hello | Method::List | Method::ListPage);
                if hears && rpc.from == Some(Side::Client) {
                    self.capabilities(session, peer.text, rpc);
                }
                // What either side may ask is no call of the client's.
                let from = rpc.from.unwrap_or(Side::Server);
                self.ask(session, peer, (from, rpc.id), (method, None));
            }
            RpcSays::Cancelled { request } => {
                let sides = rpc.from.map_or(vec![Side::Client, Side::Server], |side| vec![side]);
                let mut found = sides.into_iter().filter_map(|side| self.asked(session, peer, side, Some(request)));
                let waits = |status| matches!(status, RpcStatus::Pending | RpcStatus::NeedsInput);
                match found.find(|(_, known)| waits(known.status)) {
                    Some((n, _)) => session.set_request_status(n, RpcStatus::Cancelled),
                    None => left.opaque.push((rpc.item, "mcp_cancel")),
                }
            }
            RpcSays::ToolsChanged => {
                if let Some((n, _)) = Self::heard(session, peer) {
                    session.tools_changed(n);
                }
            }
            RpcSays::Notice { kind } => left.opaque.extend(kind.map(|kind| (rpc.item, kind))),
            RpcSays::Result(_) | RpcSays::Error(_) => self.answer(session, peer, rpc, left),
        }
    }

    /// A request is remembered, so that its answer is read by it.
    fn ask(
        &mut self,
        session: &mut Session<'_>,
        peer: &Peer<'r>,
        (from, id): (Side, Option<Value<'r>>),
        (mut method, mut call): (Method, Option<u32>),
    ) {
        let exchange = (from == Side::Client).then(|| self.exchange(session, peer));
        if let Some(n) = exchange {
            session.saw_request(n, id.and_then(|id| id.u64()), method == Method::Hello);
        }
        let Some(id) = id else { return };
        // The server may have written a request that is not said to be the client's: it turns no output into a fact.
        if !peer.said && !method.gives_output() && exchange.is_some_and(|n| forgot(session, n)) {
            method = Method::Call;
        }
        let known = self.asked(session, peer, from, Some(id)).map(|(_, known)| known);
        if let Some(known) = known.filter(|known| !peer.said && known.method.gives_output()) {
            if known.status == RpcStatus::Pending {
                return self.opaque("mcp_direction");
            }
            if !method.gives_output() {
                (method, call) = (known.method, known.call);
            }
        }
        let request = RpcRequest {
            server: peer.digest,
            id: self.id_digest(id),
            from,
            method,
            call,
            status: RpcStatus::Pending,
            answer: None,
            exchange,
        };
        let count = session.ask(request);
        if count > 0 {
            self.out.observations.push(Observation::Opaque {
                provider: self.origin.provider,
                kind: "mcp_forgotten",
                count,
            });
        }
    }

    fn exchange(&self, session: &mut Session<'_>, peer: &Peer<'_>) -> u32 {
        let want = Want {
            host_id: Some(&peer.exchange),
            payload_id: None,
            provider: Provider::Mcp,
            part: ExchangePart::Request,
            at: self.at,
        };
        session.exchange(want).0
    }

    /// `1` and `"1"` are two ids.
    fn id_digest(&self, id: Value<'_>) -> [u8; 16] {
        let kind: &[u8] = if id.kind() == Kind::String { b"string" } else { b"number" };
        short(self.keyed().digest(Role::CallId, &[kind, &id_text(Some(id))]))
    }

    fn asked(
        &self,
        session: &Session<'_>,
        peer: &Peer<'_>,
        from: Side,
        id: Option<Value<'_>>,
    ) -> Option<(u32, RpcRequest)> {
        session.asked(&peer.digest, from, &self.id_digest(id?))
    }

    /// A call is final at once. One that goes on with an earlier one, which waited for input, is that one.
    fn tool_call(&mut self, session: &mut Session<'_>, peer: &Peer<'r>, rpc: &Rpc<'r>, call: Asked<'r>) {
        let earlier = if call.again { goes_on(session, peer, call) } else { None };
        if let Some((request, n)) = earlier {
            session.set_request_status(request, RpcStatus::Answered);
            return self.ask(session, peer, (Side::Client, rpc.id), (Method::Call, Some(n)));
        }
        let exchange = self.exchange(session, peer);
        let call = CallFacts {
            slot: Slot::arrival(0),
            id: rpc.id,
            item_id: None,
            name: Name::Wire(call.name),
            namespace: None,
            server: peer.name,
            executor: Executor::Client,
            form: Form::JsonText,
            args: call.arguments.map_or(Args::Absent, Args::Raw),
            item: rpc.item,
        };
        let stop = Stop { client: Fate::Final, provider: Fate::Final, choice: None };
        let mut ready = Vec::new();
        for event in [
            Event::Item { call, status: ItemStatus::Complete, listed: false },
            Event::Stop(stop),
            Event::End { choice: None },
        ] {
            session.absorb(exchange, &event, self.at, &self.limits, &mut ready);
        }
        let n = ready.first().map(|Ready::Call(n)| *n);
        self.ask(session, peer, (Side::Client, rpc.id), (Method::Call, n));
        let calls = &mut session.head().rpc_calls;
        *calls = calls.saturating_add(1);
        self.ended(session, ready);
    }

    /// Servers share ids, and every connection numbers anew: the call's number in its conversation counts too. So
    /// does what it asks for, since a conversation may be forgotten and counted anew.
    pub(super) fn rpc_idempotency(&self, session: &Session<'_>, call: &Call, arguments: &[u8; 32]) -> String {
        let conversation = self.origin.conversation.unwrap_or_default();
        let number = session.conversation().head.rpc_calls.to_be_bytes();
        let server = call.server.as_deref().unwrap_or_default();
        let parts = [conversation, &call.id, server, &number, &call.name, arguments];
        hex(&self.keyed().digest(Role::Idempotency, &parts)[..16])
    }

    fn answer(&mut self, session: &mut Session<'_>, peer: &Peer<'r>, rpc: &Rpc<'r>, left: &mut Left<'r>) {
        let theirs = self.asked(session, peer, Side::Server, rpc.id);
        if rpc.from == Some(Side::Client) {
            match theirs {
                Some((n, _)) => session.set_request_status(n, RpcStatus::Answered),
                None => left.opaque.push((rpc.item, "mcp_unasked")),
            }
            return left.opaque.push((rpc.item, "mcp_answer"));
        }
        // It may be the client's, to what the server asked: then the client's own request still waits.
        let theirs = theirs.filter(|(_, known)| rpc.from.is_none() && known.status == RpcStatus::Pending);
        if theirs.is_some() {
            left.opaque.push((rpc.item, "mcp_direction"));
        }
        let theirs = theirs.map(|(n, _)| n);
        let found = self.asked(session, peer, Side::Client, rpc.id);
        let request = found.map(|(_, known)| known);
        let Some((n, known)) = found else {
            let anomaly = if theirs.is_some() { None } else { Some(unmatched(session, peer, rpc)) };
            if let Some(n) = theirs {
                session.set_request_status(n, RpcStatus::Answered);
            }
            return self.result(session, peer, rpc, (None, anomaly), left);
        };
        let digest = self.answer_digest(rpc);
        let asks = matches!(rpc.says, RpcSays::Result(result) if answer::asks_for_input(result));
        let again = known.answer == Some(digest);
        let anomaly = match known.status {
            RpcStatus::Pending if known.method.gives_output() && asks => {
                session.answer_request(n, RpcStatus::NeedsInput, digest);
                return left.opaque.push((rpc.item, "mcp_input_required"));
            }
            RpcStatus::Pending => None,
            // As it was, when a stream is resumed.
            RpcStatus::NeedsInput | RpcStatus::Answered if again && asks => {
                return left.opaque.push((rpc.item, "mcp_input_required"));
            }
            RpcStatus::NeedsInput | RpcStatus::Answered if again && !known.method.gives_output() => return,
            RpcStatus::NeedsInput | RpcStatus::Answered if again || theirs.is_some() => None,
            RpcStatus::NeedsInput | RpcStatus::Answered => Some("response_repeated"),
            RpcStatus::Cancelled => Some("response_cancelled"),
        };
        match theirs {
            Some(n) => session.set_request_status(n, RpcStatus::Answered),
            None if known.status == RpcStatus::Pending => session.answer_request(n, RpcStatus::Answered, digest),
            None => {}
        }
        if known.status == RpcStatus::Pending && !known.method.gives_output() {
            return self.fact(session, peer, rpc, known.method, left);
        }
        self.result(session, peer, rpc, (request, anomaly), left);
    }

    fn answer_digest(&self, rpc: &Rpc<'_>) -> [u8; 16] {
        let (kind, value): (&[u8], _) = match rpc.says {
            RpcSays::Error(error) => (b"error", error.raw()),
            RpcSays::Result(result) => (b"result", result.raw()),
            _ => (b"", rpc.item.raw()),
        };
        short(self.keyed().digest(Role::Content, &[kind, value]))
    }

    /// The first answer to a request that is for no tool's output: a fact, or nothing that is looked into.
    fn fact(&mut self, session: &mut Session<'_>, peer: &Peer<'r>, rpc: &Rpc<'r>, method: Method, left: &mut Left<'r>) {
        match (method, rpc.says) {
            (Method::List, RpcSays::Result(result)) => self.listing(session, peer, (result, true), left),
            (Method::ListPage, RpcSays::Result(result)) => self.listing(session, peer, (result, false), left),
            (Method::Hello, RpcSays::Result(result)) => {
                // Clients put them before the model.
                if let Some(instructions) = member(result, "instructions") {
                    let exchange = self.exchange(session, peer);
                    let tools = Tools { server: peer.name, tools: Vec::new(), list: None };
                    let (next, first, hosted) = (None, false, false);
                    let said = Declared { tools, instructions: Some(instructions), next, first, hosted };
                    self.said(session, exchange, &said, left);
                }
            }
            _ => left.opaque.push((rpc.item, "mcp_answer")),
        }
    }

    /// A list of tools, and what a server says of how to use it.
    fn listing(&mut self, session: &mut Session<'_>, peer: &Peer<'r>, page: (Value<'r>, bool), left: &mut Left<'r>) {
        let exchange = self.exchange(session, peer);
        let Some(said) = Self::listed(peer.name, page) else {
            left.opaque.push((page.0, "mcp_answer"));
            return;
        };
        let nameless = said.tools.tools.iter().filter(|tool| matches!(tool.name, Name::None));
        left.opaque.extend(nameless.map(|tool| (tool.item, "mcp_tool")));
        let withheld = self.said(session, exchange, &said, left);
        self.know(session, exchange, &said, &withheld);
    }

    /// Gives the tools that are withheld.
    fn said(
        &mut self,
        session: &mut Session<'_>,
        exchange: u32,
        said: &Declared<'r>,
        left: &mut Left<'r>,
    ) -> BTreeSet<usize> {
        if self.off() {
            return BTreeSet::new();
        }
        let (draft, edits, withheld) = self.definitions(session, Some(exchange), said);
        left.results.push(Held { draft, edits, output: None });
        withheld
    }

    /// A tool's output, or what stands for one.
    fn result(
        &mut self,
        session: &mut Session<'_>,
        peer: &Peer<'r>,
        rpc: &Rpc<'r>,
        (request, anomaly): (Option<RpcRequest>, Option<&'static str>),
        left: &mut Left<'r>,
    ) {
        let call = request.and_then(|known| known.call);
        if self.off() {
            return mark_answered(session, call);
        }
        let read = answer::read(rpc.item, rpc.says, request.map(|known| known.method), peer.said);
        let mut result = read.result;
        result.server = peer.name;
        let id = id_text(rpc.id);
        let content = self.content(&result, &[b"mcp:", peer.text.as_bytes(), b"/", &*id].concat());
        let exchange = Self::heard(session, peer).map(|(n, _)| n);
        let (mut draft, edits, first_seen, said) =
            self.draft(session, Checkpoint::ToolResult, &result, call, &content, exchange);
        draft.subject.call_id = (!id.is_empty()).then(|| self.clean(&id));
        let item = Place::Value { value: rpc.item, range: None };
        draft.findings.extend(anomaly.map(|rule| engine_finding(rule, item, Evidence::None)));
        draft.complete &= anomaly.is_none();
        if let Some(value) = read.unclear {
            draft.findings.push(engine_finding("undecodable", Place::Value { value, range: None }, Evidence::None));
        }
        let edits = self.edits(&result, &mut draft, edits);
        session.head().said |= said;
        mark_answered(session, call);
        let copied = self.copied(&result, &edits, draft.fold().1);
        let said = Said::of(&result, call);
        left.results.push(Held { draft, edits, output: Some(Output { content, copied, said, first_seen }) });
    }

    /// The verdicts on a record's results, and the copy that they share.
    fn results(&mut self, session: &mut Session<'_>, envelope: &Envelope<'r>, input: &Input<'_>, left: Left<'r>) {
        let Left { mut results, opaque } = left;
        let action = |held: &Held<'_>| held.draft.fold().1;
        let edits: Vec<Edit<'r>> = results.iter().flat_map(|held| held.edits.iter().cloned()).collect();
        let withheld = results.iter().any(|held| self.withholds(&held.draft));
        let strongest = (0..results.len()).rev().max_by_key(|at| results.get(*at).map(action));
        let Some(held) = strongest.and_then(|at| results.get_mut(at)) else { return };
        // The copy carries them too.
        for (value, kind) in opaque {
            let place = Place::Value { value, range: None };
            held.draft.not_inspected.push((place, kind, "no inspector for this message"));
            held.draft.complete = false;
        }
        let copy = if withheld { None } else { self.copy(&mut held.draft, envelope, input, &edits) };
        let stuck = results.iter().filter(|held| action(held) == Decision::Block).count() as u64;
        let mut said = true;
        for mut held in results {
            if copy.is_none() && action(&held) < Decision::Block {
                held.draft.block("results_withheld", Evidence::Count { found: stuck, limit: 0 });
            }
            if let Some(Output { content, copied, said, first_seen }) = held.output {
                let settled = Settled { first_seen, copied, own: true, said };
                self.settle(session, &content, (&held.draft, &held.edits), settled);
            }
            said &= self.emit(held.draft).is_some();
        }
        self.publish(said, copy, &edits);
    }
}

/// An id as text; empty if there is none.
fn id_text<'v>(id: Option<Value<'v>>) -> Cow<'v, [u8]> {
    match id {
        Some(id) => id.text().unwrap_or(Cow::Borrowed(id.raw())),
        None => Cow::Borrowed(b""),
    }
}

fn forgot(session: &Session<'_>, exchange: u32) -> bool {
    session.conversation().exchanges.get(&exchange).is_some_and(|e| e.forgot)
}

/// What is wrong with an answer whose request is not known.
fn unmatched(session: &Session<'_>, peer: &Peer<'_>, rpc: &Rpc<'_>) -> &'static str {
    // An error may answer what could not be read.
    if rpc.id.is_none() && matches!(rpc.says, RpcSays::Error(_)) {
        return "request_unseen";
    }
    let Some((_, known)) = Run::heard(session, peer) else { return "request_unseen" };
    let before = rpc.id.and_then(|id| id.u64()).zip(known.seen_from).is_some_and(|(id, from)| id < from);
    if known.forgot || before { "request_unseen" } else { "response_unasked" }
}

/// The call of that tool and those arguments whose answer asked for input, with its request. One that was blocked
/// does not go on: it is judged again.
fn goes_on(session: &Session<'_>, peer: &Peer<'_>, call: Asked<'_>) -> Option<(u32, u32)> {
    let name = call.name.text()?;
    let digest = sha256(call.arguments.map_or(b"{}", |arguments| arguments.raw()));
    let same = |n: &u32| {
        let known = session.conversation().calls.get(n);
        known.is_some_and(|c| {
            let may_run = c.status == CallStatus::Final && c.action != Some(Decision::Block);
            may_run && c.name == *clip(&name) && c.sha256 == Some(digest)
        })
    };
    session.awaiting_input(peer.digest).find(|(_, n)| same(n))
}
