//! Judging MCP messages: calls, answers, and what a server tells of its tools.
//!
//! A message is either a fact (a request, a list of tools, a cancellation), a call, or an answer. What an
//! answer is is decided by the request that it answers, found by server, asking side and id; an answer that
//! fits no request that is waiting is judged as a tool's output all the same, and blocked, since a client
//! might take it. All results of one record share one copy of it: it holds the edits of all of them, or there
//! is none.

use super::Run;
use super::publish::Draft;
use super::request::remembered;
use super::result::{Content, mark_answered};
use crate::engine::digest::{Role, hex, push_json_string, sha256, short};
use crate::engine::event::{
    Args, CallFacts, Event, Executor, Fate, Form, ItemStatus, Method, Name, Rpc, RpcSays, Side, Slot, Stop, ToolDef,
    ToolFamily,
};
use crate::engine::json::{self, JsonLimits, Kind, Value};
use crate::engine::layer::{Edit, Layer};
use crate::engine::policy::{Evidence, Place};
use crate::engine::provider::mcp::answer;
use crate::engine::provider::{Provider, Translated};
use crate::engine::state::{Call, CallStatus, ExchangePart, Ready, RpcRequest, RpcStatus, Session, Want, clip};
use crate::engine::verdict::{Checkpoint, Decision, engine_finding};
use crate::engine::wire::Envelope;
use crate::engine::{Input, Observation, OnBlock};
use std::borrow::Cow;

/// The server that a record's messages go to or come from.
struct Peer<'r> {
    /// As a JSON string of its own.
    name: Option<Value<'r>>,
    text: &'r str,
    digest: [u8; 16],
    /// The id of its exchange: the one that holds what it lists.
    exchange: Vec<u8>,
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
    content: Content,
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
        let unread = match (translated.unclear, translated.undecodable) {
            (Some((value, rule)), _) => Some(engine_finding(rule, Place::Value { value, range: None }, Evidence::None)),
            (None, Some((_, error))) => {
                Some(engine_finding("undecodable", Place::Whole, Evidence::Offset { at: u64::from(error.at) }))
            }
            (None, None) if translated.events.is_empty() => {
                Some(engine_finding("undecodable", Place::Whole, Evidence::None))
            }
            (None, None) => None,
        };
        if let Some(finding) = unread {
            return self.unread(session, envelope, None, finding);
        }
        let peer = self.peer(envelope.mcp_server.unwrap_or_default());
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

    fn peer(&self, server: &'r str) -> Peer<'r> {
        let mut name = Vec::with_capacity(server.len() + 2);
        push_json_string(&mut name, server.as_bytes());
        let layer = Layer::record(self.bump, self.bump.alloc_slice_copy(&name));
        let name = json::parse(self.bump, layer, JsonLimits::default()).ok().filter(|_| !server.is_empty());
        let digest = short(self.keyed().digest(Role::Identifier, &[b"mcp", server.as_bytes()]));
        let exchange = clip(format!("mcp:{server}").as_bytes()).into_owned();
        Peer { name, text: server, digest, exchange }
    }

    /// The server's exchange, if its client was heard before.
    fn heard(session: &Session<'_>, peer: &Peer<'_>) -> Option<u32> {
        let mut exchanges = session.conversation().exchanges.iter();
        let own = |host: &Option<Vec<u8>>| host.as_deref() == Some(peer.exchange.as_slice());
        exchanges.find(|(_, e)| e.provider == Provider::Mcp && own(&e.host_id)).map(|(n, _)| *n)
    }

    fn message(&mut self, session: &mut Session<'_>, peer: &Peer<'r>, rpc: &Rpc<'r>, left: &mut Left<'r>) {
        match rpc.says {
            RpcSays::Call { name, arguments, again } => {
                self.tool_call(session, peer, rpc, Asked { name, arguments, again });
            }
            RpcSays::Request { method, kind } => {
                left.opaque.extend(kind.map(|kind| (rpc.item, kind)));
                match rpc.from {
                    Some(_) => self.ask(session, peer, rpc, (method, None)),
                    None => left.opaque.push((rpc.item, "mcp_direction")),
                }
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
                if let Some(n) = Self::heard(session, peer) {
                    session.tools_changed(n);
                }
            }
            RpcSays::Notice { kind } => left.opaque.extend(kind.map(|kind| (rpc.item, kind))),
            RpcSays::Result(_) | RpcSays::Error(_) => self.answer(session, peer, rpc, left),
        }
    }

    /// A request is remembered, so that its answer is read by it.
    fn ask(&mut self, session: &mut Session<'_>, peer: &Peer<'r>, rpc: &Rpc<'r>, what: (Method, Option<u32>)) {
        let (method, call) = what;
        if rpc.from == Some(Side::Client) {
            self.exchange(session, peer);
        }
        let (Some(from), Some(id)) = (rpc.from, rpc.id) else { return };
        let request =
            RpcRequest { server: peer.digest, id: self.id_digest(id), from, method, call, status: RpcStatus::Pending };
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
            return self.ask(session, peer, rpc, (Method::Call, Some(n)));
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
        self.ask(session, peer, rpc, (Method::Call, n));
        self.ended(session, ready);
    }

    /// Servers share ids, and every connection numbers anew: the call's number among its server's counts too.
    pub(super) fn rpc_idempotency(&self, server: &[u8], call: &Call) -> String {
        let conversation = self.origin.conversation.unwrap_or_default();
        let number = call.slot.0.to_be_bytes();
        let digest = self.keyed().digest(Role::Idempotency, &[conversation, &call.id, server, &number]);
        hex(&digest[..16])
    }

    fn answer(&mut self, session: &mut Session<'_>, peer: &Peer<'r>, rpc: &Rpc<'r>, left: &mut Left<'r>) {
        let asker = match rpc.from {
            Some(side) => side.other(),
            None => {
                let waits = |side| {
                    let known = self.asked(session, peer, side, rpc.id);
                    known.is_some_and(|(_, known)| known.status == RpcStatus::Pending)
                };
                // An answer of the server's is judged, so that is what it is in doubt.
                let both = waits(Side::Client) && waits(Side::Server);
                if both {
                    left.opaque.push((rpc.item, "mcp_direction"));
                }
                if !both && waits(Side::Server) { Side::Server } else { Side::Client }
            }
        };
        let found = self.asked(session, peer, asker, rpc.id);
        if asker == Side::Server {
            match found {
                Some((n, _)) => session.set_request_status(n, RpcStatus::Answered),
                None => left.opaque.push((rpc.item, "mcp_unasked")),
            }
            left.opaque.push((rpc.item, "mcp_answer"));
            return;
        }
        let (request, anomaly) = match found {
            Some((n, known)) => match known.status {
                RpcStatus::Pending if self.is_fact(session, peer, rpc, (n, known), left) => return,
                RpcStatus::Pending => (Some((n, known)), None),
                RpcStatus::NeedsInput | RpcStatus::Answered => (Some((n, known)), Some("response_repeated")),
                RpcStatus::Cancelled => (Some((n, known)), Some("response_cancelled")),
            },
            // An error may answer what could not be read.
            None if rpc.id.is_none() && matches!(rpc.says, RpcSays::Error(_)) => (None, Some("request_unseen")),
            None if Self::heard(session, peer).is_some() => (None, Some("response_unasked")),
            None => (None, Some("request_unseen")),
        };
        if let (Some((n, _)), None) = (request, anomaly) {
            session.set_request_status(n, RpcStatus::Answered);
        }
        self.result(session, peer, rpc, (request.map(|(_, known)| known), anomaly), left);
    }

    /// Whether the first answer to a request is no tool's output, but a fact or nothing that is looked into.
    fn is_fact(
        &mut self,
        session: &mut Session<'_>,
        peer: &Peer<'r>,
        rpc: &Rpc<'r>,
        (n, known): (u32, RpcRequest),
        left: &mut Left<'r>,
    ) -> bool {
        match (known.method, rpc.says) {
            (Method::Call | Method::Read | Method::Prompt | Method::Task, RpcSays::Result(result))
                if answer::asks_for_input(result) =>
            {
                session.set_request_status(n, RpcStatus::NeedsInput);
                left.opaque.push((rpc.item, "mcp_input_required"));
                return true;
            }
            (Method::Call | Method::Read | Method::Prompt | Method::Task, _) => return false,
            (Method::List, RpcSays::Result(result)) => self.listed(session, peer, (result, true), left),
            (Method::ListPage, RpcSays::Result(result)) => self.listed(session, peer, (result, false), left),
            (Method::Hello, RpcSays::Result(_)) => {}
            _ => left.opaque.push((rpc.item, "mcp_answer")),
        }
        session.set_request_status(n, RpcStatus::Answered);
        true
    }

    /// What a server lists are facts of it.
    fn listed(&mut self, session: &mut Session<'_>, peer: &Peer<'r>, page: (Value<'r>, bool), left: &mut Left<'r>) {
        let (result, first) = page;
        let Some(list) = result.get("tools").filter(|tools| tools.kind() == Kind::Array) else {
            left.opaque.push((result, "mcp_answer"));
            return;
        };
        let mut stream = self.keyed().stream(Role::Tools);
        let mut tools = Vec::new();
        for item in list.items() {
            stream.part(item.raw());
            let Some(name) = item.get("name").filter(|name| name.kind() == Kind::String) else {
                left.opaque.push((item, "mcp_tool"));
                continue;
            };
            tools.push(remembered(&ToolDef {
                name: Name::Wire(name),
                namespace: None,
                server: peer.name,
                family: ToolFamily::Function,
                schema: item.get("inputSchema"),
                item,
                late: true,
            }));
        }
        let last = result.get("nextCursor").is_none_or(|cursor| cursor.is_null());
        let exchange = self.exchange(session, peer);
        session.list_tools(exchange, short(stream.finish()), (first, last), tools);
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
        let read = answer::read(rpc.item, rpc.says, request.map(|known| known.method));
        let mut result = read.result;
        result.server = peer.name;
        let id = id_text(rpc.id);
        let content = self.content(&result, &[b"mcp:", peer.text.as_bytes(), b"/", &*id].concat());
        let exchange = Self::heard(session, peer);
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
        left.results.push(Held { draft, edits, content, first_seen });
    }

    /// The verdicts on a record's results, and the copy that they share.
    fn results(&mut self, session: &mut Session<'_>, envelope: &Envelope<'r>, input: &Input<'_>, left: Left<'r>) {
        let Left { mut results, opaque } = left;
        let action = |held: &Held<'_>| held.draft.fold().1;
        let blocked = results.iter().any(|held| action(held) == Decision::Block);
        let edits: Vec<Edit<'r>> = results.iter().flat_map(|held| held.edits.iter().cloned()).collect();
        let strongest = (0..results.len()).rev().max_by_key(|at| results.get(*at).map(action));
        let Some(held) = strongest.and_then(|at| results.get_mut(at)) else { return };
        // The copy carries them too.
        for (value, kind) in opaque {
            let place = Place::Value { value, range: None };
            held.draft.not_inspected.push((place, kind, "no inspector for this message"));
            held.draft.complete = false;
        }
        let withheld = blocked && self.engine.on_block() == OnBlock::Withhold;
        let copy = if withheld { None } else { self.copy(&mut held.draft, envelope, input, &edits) };
        let stuck = results.iter().filter(|held| action(held) == Decision::Block).count() as u64;
        let mut said = true;
        for mut held in results {
            if copy.is_none() && action(&held) < Decision::Block {
                held.draft.block("results_withheld", Evidence::Count { found: stuck, limit: 0 });
            }
            let (decision, action) = held.draft.fold();
            self.remember(session, &held.content, decision, action, held.draft.complete, held.first_seen);
            let oversize = self.observe_size(&held.draft, &held.content, &held.edits);
            self.out.observations.extend(oversize);
            said &= self.emit(held.draft).is_some();
        }
        if let (true, Some(copy)) = (said, copy) {
            self.push(copy);
        }
    }
}

/// An id as text; empty if there is none.
fn id_text<'v>(id: Option<Value<'v>>) -> Cow<'v, [u8]> {
    match id {
        Some(id) => id.text().unwrap_or(Cow::Borrowed(id.raw())),
        None => Cow::Borrowed(b""),
    }
}

/// The call of that tool and those arguments whose answer asked for input, with its request.
fn goes_on(session: &Session<'_>, peer: &Peer<'_>, call: Asked<'_>) -> Option<(u32, u32)> {
    let name = call.name.text()?;
    let digest = sha256(call.arguments.map_or(b"{}", |arguments| arguments.raw()));
    let same = |n: &u32| {
        let known = session.conversation().calls.get(n);
        known.is_some_and(|c| c.status == CallStatus::Final && c.name == *clip(&name) && c.sha256 == Some(digest))
    };
    session.awaiting_input(peer.digest).find(|(_, n)| same(n))
}
