//! What the conversation knows of its provider's signatures: where each stood, and which call it signed.

use super::super::View;
use crate::engine::event::{Executor, Provider, Slot};
use crate::engine::state::{Call, Conversation, Exchange, ResponseState, clip};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

type Digest = [u8; 16];

/// The order of what a response says: its place, and there parts before the call, in order of arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Rank(Slot, bool, usize);

/// Something that a response said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spot {
    pub exchange: u32,
    pub rank: Rank,
    /// The call that it is; none: a part that is no call.
    pub call: Option<u32>,
}

pub(super) struct Known<'s> {
    conversation: &'s Conversation,
    seals: HashMap<Digest, Spot>,
    /// Calls by seal and what they say: several may bear one seal.
    alike: HashMap<(Digest, Digest), VecDeque<Spot>>,
    /// Calls by id; of several the latest.
    ids: HashMap<&'s [u8], Spot>,
    /// Parts by the digest of their id.
    parts: HashMap<Digest, Spot>,
    /// Calls of an exchange by what they say, in order.
    said: HashMap<(u32, Digest), VecDeque<Spot>>,
    /// The exchanges with a call that says this.
    saying: HashMap<Digest, Vec<u32>>,
    taken: HashSet<u32>,
    /// The first signed call of each exchange.
    first: BTreeMap<u32, (Rank, u32)>,
}

impl<'s> Known<'s> {
    pub fn new(view: &View<'s>, provider: Provider) -> Self {
        let conversation = view.conversation;
        let mut known = Self {
            conversation,
            seals: HashMap::new(),
            alike: HashMap::new(),
            ids: HashMap::new(),
            parts: HashMap::new(),
            said: HashMap::new(),
            saying: HashMap::new(),
            taken: HashSet::new(),
            first: BTreeMap::new(),
        };
        for (n, exchange) in conversation.exchanges.iter().filter(|(_, e)| e.provider == provider) {
            for (order, part) in exchange.seals.iter().enumerate() {
                let spot = Spot { exchange: *n, rank: Rank(part.slot, false, order), call: None };
                if let Some(seal) = part.seal {
                    known.seals.insert(seal, spot);
                }
                if let Some(id) = part.id {
                    known.parts.insert(id, spot);
                }
            }
        }
        for (n, call) in &conversation.calls {
            let exchange = conversation.exchanges.get(&call.exchange);
            if exchange.is_some_and(|exchange| exchange.provider == provider && *n >= exchange.run) {
                known.add(*n, call);
            }
        }
        for spots in known.said.values_mut() {
            spots.make_contiguous().sort_by_key(|spot| spot.rank);
        }
        known
    }

    fn add(&mut self, n: u32, call: &'s Call) {
        let spot = Spot { exchange: call.exchange, rank: Rank(call.slot, true, 0), call: Some(n) };
        if !call.effective_id().is_empty() {
            self.ids.insert(call.effective_id(), spot);
        }
        if let Some(seal) = call.seal {
            self.seals.insert(seal, spot);
            self.alike.entry((seal, call.said.unwrap_or_default())).or_default().push_back(spot);
            let first = self.first.entry(call.exchange).or_insert((spot.rank, n));
            *first = (*first).min((spot.rank, n));
        }
        if let Some(said) = call.said.filter(|_| call.executor == Executor::Client) {
            self.said.entry((call.exchange, said)).or_default().push_back(spot);
            let saying = self.saying.entry(said).or_default();
            if saying.last() != Some(&call.exchange) {
                saying.push(call.exchange);
            }
        }
    }

    /// What was signed with this: of several, the call with this id, then one that says the same.
    pub fn by_seal(&mut self, seal: Digest, of_id: Option<Spot>, said: Option<Digest>) -> Option<Spot> {
        let found = self.seals.get(&seal).copied()?;
        let same = |spot: &Spot| spot.call.and_then(|n| self.call(n)).is_some_and(|call| call.seal == Some(seal));
        if let Some(spot) = of_id.filter(same) {
            return Some(spot);
        }
        let mut spots = self.alike.get_mut(&(seal, said.unwrap_or_default()));
        while let Some(spot) = spots.as_mut().and_then(|spots| spots.pop_front()) {
            if !spot.call.is_some_and(|n| self.taken.contains(&n)) {
                return Some(spot);
            }
        }
        Some(found)
    }
    pub fn by_id(&self, id: &[u8]) -> Option<Spot> {
        self.ids.get(&*clip(id)).copied().filter(|_| !id.is_empty())
    }
    pub fn by_part_id(&self, id: Digest) -> Option<Spot> {
        self.parts.get(&id).copied()
    }
    /// That call has its echo.
    pub fn take(&mut self, n: u32) {
        self.taken.insert(n);
    }
    /// The next call without an echo that says this, of one of these exchanges; of none given, the latest that has one.
    pub fn by_said(&mut self, said: Digest, exchanges: &[u32]) -> Option<Spot> {
        if !exchanges.is_empty() {
            return exchanges.iter().find_map(|exchange| self.next(*exchange, said));
        }
        while let Some(latest) = self.saying.get(&said).and_then(|saying| saying.last()).copied() {
            if let Some(spot) = self.next(latest, said) {
                return Some(spot);
            }
            self.saying.get_mut(&said).and_then(Vec::pop);
        }
        None
    }
    fn next(&mut self, exchange: u32, said: Digest) -> Option<Spot> {
        let spots = self.said.get_mut(&(exchange, said))?;
        while let Some(spot) = spots.pop_front() {
            if spot.call.is_some_and(|n| self.taken.insert(n)) {
                return Some(spot);
            }
        }
        None
    }
    /// Whether a call of this exchange says that.
    pub fn says(&self, exchange: u32, said: Digest) -> bool {
        self.said.contains_key(&(exchange, said))
    }
    pub fn call(&self, n: u32) -> Option<&'s Call> {
        self.conversation.calls.get(&n)
    }
    pub fn exchange(&self, n: u32) -> Option<&'s Exchange> {
        self.conversation.exchanges.get(&n)
    }
    /// Everything that the response signed was seen.
    pub fn is_whole(&self, exchange: u32) -> bool {
        let exchange = self.exchange(exchange);
        exchange.is_some_and(|e| e.response == ResponseState::Ended && e.lost.is_none() && !e.seals_omitted)
    }
    /// It is signed, and its API takes it back without.
    pub fn is_lenient(&self, exchange: u32) -> bool {
        self.exchange(exchange).is_some_and(|known| {
            !known.seals_required && (self.first.contains_key(&exchange) || !known.seals.is_empty())
        })
    }
    /// Whether this is the signed call by which its API tells a set of parallel ones.
    pub fn is_first(&self, exchange: u32, n: u32) -> bool {
        self.first.get(&exchange).is_some_and(|(_, first)| *first == n)
    }
    /// The digest of the text that was signed with that part.
    pub fn thought(&self, spot: Spot) -> Option<[u64; 2]> {
        let part = self.exchange(spot.exchange)?.seals.get(spot.rank.2)?;
        spot.call.is_none().then_some(part.thought)
    }
    /// The signed parts of an exchange; those of one id are one, and any of their seals is the provider's.
    pub fn signed(&self, exchange: u32) -> Vec<Vec<Rank>> {
        let mut of_id: HashMap<Digest, usize> = HashMap::new();
        let mut found: Vec<Vec<Rank>> = Vec::new();
        let parts = self.exchange(exchange).map_or(&[][..], |exchange| &exchange.seals);
        for (order, part) in parts.iter().enumerate().filter(|(_, part)| part.seal.is_some()) {
            let rank = Rank(part.slot, false, order);
            let known = part.id.and_then(|id| of_id.get(&id).copied()).and_then(|at| found.get_mut(at));
            match known {
                Some(ranks) => ranks.push(rank),
                None => {
                    of_id.extend(part.id.map(|id| (id, found.len())));
                    found.push(vec![rank]);
                }
            }
        }
        found
    }
}
