//! JSON-RPC requests of MCP connections, so that an answer is read by what was asked.
//!
//! Ids are numbered by each side of each server's connection, so a request is known by server, asker and id.
//! An answered or cancelled one is kept for a while: a second answer is told from a first, and from the first
//! one sent again. Many are bounded: settled ones go first, then the oldest of the side that has most, so that a
//! server which asks very much forgets its own. The definitions that a server lists stand in the late toolset of its exchange, since it
//! wrote them and not the operator's agent.

use super::conversation::{Tool, Toolset};
use super::journal::Undo;
use super::session::Session;
use crate::engine::event::{Method, Side};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Requests kept of one conversation.
const REQUESTS: usize = 256;

/// A request that was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RpcRequest {
    /// Keyed digests of the server's name and of the id with its type.
    pub server: [u8; 16],
    pub id: [u8; 16],
    /// Who asked.
    pub from: Side,
    pub method: Method,
    /// The call that it is.
    pub call: Option<u32>,
    pub status: RpcStatus,
    /// Keyed digest of its first answer.
    pub answer: Option<[u8; 16]>,
    /// The exchange of its server, where the client asked.
    pub exchange: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RpcStatus {
    Pending,
    /// The answer asks for input: another request goes on with the call.
    NeedsInput,
    Answered,
    Cancelled,
}

impl Session<'_> {
    /// Remembers a request; one of the same id is thereby forgotten. Gives how many others were.
    pub fn ask(&mut self, request: RpcRequest) -> u64 {
        self.end_loan();
        if let Some((n, _)) = self.asked(&request.server, request.from, &request.id) {
            self.set_rpc(n, None);
        }
        let mut forgotten = 0;
        while self.conversation().requests.len() >= REQUESTS {
            let Some((n, gone)) = self.forgettable(&request) else { break };
            self.set_rpc(n, None);
            if let (RpcStatus::Pending, Some(exchange)) = (gone.status, gone.exchange) {
                self.tally(exchange, |e| e.forgot = true);
            }
            forgotten += 1;
        }
        let n = self.number();
        self.set_rpc(n, Some(request));
        forgotten
    }

    /// What another request takes the place of: a settled one, its own side's first, else the oldest one of the
    /// side that has most of them waiting.
    fn forgettable(&self, new: &RpcRequest) -> Option<(u32, RpcRequest)> {
        let requests = &self.conversation().requests;
        let own = |r: &RpcRequest| r.server == new.server && r.from == new.from;
        let settled = requests.iter().filter(|(_, r)| r.status != RpcStatus::Pending);
        let found = settled.min_by_key(|(n, r)| (!own(r), **n)).or_else(|| {
            let side = |r: &RpcRequest| (r.from == Side::Server, r.server);
            let mut held = BTreeMap::<_, usize>::new();
            requests.values().for_each(|r| *held.entry(side(r)).or_default() += 1);
            let (most, _) = held.into_iter().max_by_key(|(side, count)| (*count, *side))?;
            requests.iter().find(|(_, r)| side(r) == most)
        });
        found.map(|(n, r)| (*n, *r))
    }

    /// The client of an exchange asked something. `hello`: that begins the connection.
    pub fn saw_request(&mut self, exchange: u32, number: Option<u64>, hello: bool) {
        let known = self.conversation().exchanges.get(&exchange).and_then(|e| e.seen_from);
        let from = if hello { Some(0) } else { known.into_iter().chain(number).min() };
        if from != known {
            self.tally(exchange, |e| e.seen_from = from);
        }
    }

    /// The request of that id.
    pub fn asked(&self, server: &[u8; 16], from: Side, id: &[u8; 16]) -> Option<(u32, RpcRequest)> {
        let same = |r: &RpcRequest| r.server == *server && r.from == from && r.id == *id;
        self.conversation().requests.iter().rev().find(|(_, r)| same(r)).map(|(n, r)| (*n, *r))
    }

    /// The calls of that server whose latest answer asked for input, latest first, with their requests.
    pub fn awaiting_input(&self, server: [u8; 16]) -> impl Iterator<Item = (u32, u32)> {
        let waits = move |r: &RpcRequest| r.server == server && r.status == RpcStatus::NeedsInput;
        let requests = self.conversation().requests.iter().rev().filter(move |(_, r)| waits(r));
        requests.filter_map(|(n, r)| Some((*n, r.call?)))
    }

    pub fn set_request_status(&mut self, n: u32, status: RpcStatus) {
        self.end_loan();
        let known = self.conversation().requests.get(&n).copied();
        if let Some(known) = known.filter(|known| known.status != status) {
            self.set_rpc(n, Some(RpcRequest { status, ..known }));
        }
    }

    /// A request got its first answer.
    pub fn answer_request(&mut self, n: u32, status: RpcStatus, answer: [u8; 16]) {
        self.end_loan();
        if let Some(known) = self.conversation().requests.get(&n).copied() {
            self.set_rpc(n, Some(RpcRequest { status, answer: Some(answer), ..known }));
        }
    }

    /// A page of a server's list. The first one replaces what is known; behind the last one what it does not
    /// declare is undeclared.
    pub fn list_tools(&mut self, exchange: u32, digest: [u8; 16], (first, last): (bool, bool), tools: Vec<Tool>) {
        self.end_loan();
        let Some(late) = self.conversation().exchanges.get(&exchange).map(|e| e.late) else { return };
        let set = late.and_then(|n| self.conversation().toolsets.get(&n));
        // The same list again, as clients ask for it.
        let same = first && set.is_some_and(|set| set.digest == digest);
        if first && !same {
            self.refer(exchange, None, None);
        }
        if !same {
            self.add_tools(exchange, digest, tools);
        }
        self.edit_late(exchange, |set| {
            set.stale = false;
            if !first && late.is_some() {
                set.digest.iter_mut().zip(digest).for_each(|(old, new)| *old ^= new);
            }
        });
        // Pages whose beginning was not seen are not the whole list.
        self.set_whole(exchange, last && (first || late.is_some()));
    }

    /// The server says that its list is another one now: what it does not declare may be declared.
    pub fn tools_changed(&mut self, exchange: u32) {
        self.end_loan();
        self.edit_late(exchange, |set| set.stale = true);
        self.set_whole(exchange, false);
    }

    fn set_whole(&mut self, exchange: u32, whole: bool) {
        if self.conversation().exchanges.get(&exchange).is_some_and(|e| e.request_seen != whole) {
            self.tally(exchange, |e| e.request_seen = whole);
        }
    }

    fn edit_late(&mut self, exchange: u32, edit: impl FnOnce(&mut Toolset)) {
        let late = self.conversation().exchanges.get(&exchange).and_then(|e| e.late);
        let Some((n, prior)) = late.and_then(|n| Some((n, self.conversation().toolsets.get(&n)?.clone()))) else {
            return;
        };
        let mut set = prior.clone();
        edit(&mut set);
        if set != prior {
            self.stored.set_toolset(n, Some(set));
            self.log.push(self.key, Undo::Toolset(n, Some(Box::new(prior))));
        }
    }

    fn set_rpc(&mut self, n: u32, new: Option<RpcRequest>) {
        let prior = self.stored.set_request(n, new);
        self.log.push(self.key, Undo::Rpc(n, prior));
    }
}
