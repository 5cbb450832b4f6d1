//! The model's turns of the open tool loop against what its provider signed of them.

use super::super::{RequestSubject, Rule, TurnKind, TurnView, View, open_loop};
use super::known::{Known, Rank, Spot};
use super::{ALTERED_CALL, ALTERED_SIGNATURE, MISSING_SIGNATURE, MOVED_SIGNATURE, REORDERED_PARTS, Said};
use crate::engine::event::{CallFacts, Executor, Party, Provider, gemini_generation};
use crate::engine::json::{Kind, Value};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

const NO_SIGNATURE: &str = "Function call is missing a thought_signature in functionCall parts";
const CORRUPTED: &str = "Corrupted thought signature";
const NO_THINKING: &str = "Expected `thinking` or `redacted_thinking`, but found `tool_use`";
const MODIFIED: &str = "`thinking` or `redacted_thinking` blocks cannot be modified";
const CIPHER: &str = "The encrypted content could not be verified";
const FOLLOWING: &str = "reasoning was provided without its required following item";

/// One thing that the model said, as it comes back.
struct Item<'t, 'r> {
    turn: &'t TurnView<'r>,
    call: Option<CallFacts<'r>>,
    /// What of a response it is.
    spot: Option<Spot>,
    /// Told by its seal.
    exact: bool,
    /// It is what its provider said, in another place.
    moved: bool,
}

impl<'r> Item<'_, 'r> {
    fn place(&self) -> Value<'r> {
        self.turn.at.whole
    }
    /// Signed, not by a placeholder, and by nothing that is known.
    fn is_strange(&self) -> bool {
        self.turn.seal.is_some() && !self.exact && !self.turn.placeholder
    }
    fn is_client_call(&self) -> bool {
        self.call.is_some_and(|call| call.executor == Executor::Client)
    }
}

pub(super) fn check<'r>(
    request: &RequestSubject<'_, 'r>,
    view: &View<'_>,
    provider: Provider,
    said: &mut Said<'_, 'r>,
) {
    let turns = request.turns.get(open_loop(request.turns, provider)..).unwrap_or_default();
    let mut items: Vec<Item<'_, 'r>> = turns.iter().filter(|turn| turn.at.party == Party::Model).map(item).collect();
    if items.is_empty() {
        return;
    }
    let mut echo = Echo {
        provider,
        body: request.body,
        generation: request.body.get("model").and_then(gemini_generation),
        known: Known::new(view, provider),
        of_group: HashMap::new(),
        present: HashSet::new(),
    };
    echo.locate(&mut items);
    echo.each(&mut items, said);
    echo.parts(&items, said);
    echo.order(&items, said);
    if provider == Provider::OpenAiResponses {
        followed(turns, said);
    }
}

fn item<'t, 'r>(turn: &'t TurnView<'r>) -> Item<'t, 'r> {
    let call = match turn.kind {
        TurnKind::Call(call) => Some(call),
        _ => None,
    };
    Item { turn, call, spot: None, exact: false, moved: false }
}

struct Echo<'s, 'r> {
    provider: Provider,
    body: Value<'r>,
    /// Gemini's, if the request says it.
    generation: Option<u32>,
    known: Known<'s>,
    /// The exchanges of which a run of messages holds something.
    of_group: HashMap<u32, Vec<u32>>,
    /// What was signed and came back, or in whose place something else did.
    present: HashSet<(u32, Rank)>,
}

impl<'r> Echo<'_, 'r> {
    fn is_gemini(&self) -> bool {
        self.provider == Provider::GeminiGenerateContent
    }

    /// Finds each item among what responses said: by its seal, its id, and where calls have none by what they say.
    fn locate(&mut self, items: &mut [Item<'_, 'r>]) {
        let gemini = self.is_gemini();
        for item in items.iter_mut() {
            let id = item.call.and_then(|call| call.id).and_then(|id| id.text());
            let by_id = id.and_then(|id| self.known.by_id(&id));
            let seal = item.turn.seal.filter(|_| !item.turn.placeholder);
            let by_seal = seal.and_then(|seal| self.known.by_seal(seal, by_id, item.turn.said));
            item.exact = by_seal.is_some();
            item.spot = by_seal.or(by_id).or_else(|| item.turn.id.and_then(|id| self.known.by_part_id(id)));
            item.moved = gemini && item.exact && is_displaced(item, &self.known);
            if let Some(spot) = item.spot {
                spot.call.filter(|_| !item.moved).into_iter().for_each(|n| self.known.take(n));
                note(&mut self.of_group, item.turn.at.group, spot.exchange);
            }
        }
        for item in items.iter_mut().filter(|item| gemini && item.spot.is_none() && item.is_client_call()) {
            let of_group = self.of_group.get(&item.turn.at.group).map_or(&[][..], Vec::as_slice);
            item.spot = item.turn.said.and_then(|said| self.known.by_said(said, of_group));
            if let Some(spot) = item.spot {
                note(&mut self.of_group, item.turn.at.group, spot.exchange);
            }
        }
        for item in items {
            let here = item.exact && !item.moved || item.turn.placeholder;
            self.present.extend(item.spot.filter(|_| here).map(|spot| (spot.exchange, spot.rank)));
        }
    }

    /// Says what is wrong with an item, unless its API takes it so.
    fn fault(&self, item: &Item<'_, 'r>, rule: &'static Rule, label: &'static str, said: &mut Said<'_, 'r>) {
        let lenient = match item.spot {
            Some(spot) => self.is_gemini() && self.known.is_lenient(spot.exchange),
            None => self.generation.is_some_and(|major| major < 3),
        };
        match lenient {
            true => said.tolerate(item.place()),
            false => said.refuse(rule, item.place(), label),
        }
    }

    /// Each item by itself.
    fn each(&mut self, items: &mut [Item<'_, 'r>], said: &mut Said<'_, 'r>) {
        let mut groups = HashSet::new();
        for item in items {
            let of_set = item.is_client_call() && groups.insert(item.turn.at.group);
            let inside = item.call.filter(|_| self.is_gemini()).is_some_and(|call| holds_signature(call.item));
            // A copy of a signature that stands where it belongs does no harm.
            let copied = item.moved && item.spot.is_some_and(|spot| self.present.contains(&(spot.exchange, spot.rank)));
            if copied && !inside {
                said.tolerate(item.place());
            } else if inside || item.moved {
                item.moved = true;
                self.fault(item, &MOVED_SIGNATURE, NO_SIGNATURE, said);
            } else if let Some(spot) = item.spot {
                self.located(item, spot, said);
            } else if self.is_gemini() && item.is_client_call() {
                match item.turn.at.seal {
                    Some(_) => said.unseen |= !item.turn.placeholder,
                    None if !of_set => {}
                    // What wrote it is not known, but what will read it.
                    None => match self.generation {
                        Some(major) if major >= 3 => said.refuse(&MISSING_SIGNATURE, item.place(), NO_SIGNATURE),
                        Some(_) => {}
                        None => said.unseen = true,
                    },
                }
            }
        }
    }

    /// An item of a response that was seen.
    fn located(&mut self, item: &Item<'_, 'r>, spot: Spot, said: &mut Said<'_, 'r>) {
        let call = spot.call.and_then(|n| self.known.call(n));
        if item.exact {
            match call {
                Some(call) if call.said.is_some() && call.said != item.turn.said => {
                    self.fault(item, &ALTERED_CALL, CORRUPTED, said);
                }
                None if self.known.thought(spot).is_some_and(|thought| thought != item.turn.thought) => {
                    self.fault(item, &ALTERED_SIGNATURE, MODIFIED, said);
                }
                _ => {}
            }
        } else if item.is_strange() {
            // Another seal than the one that it had, or one where there was none.
            if self.known.is_whole(spot.exchange) {
                self.present.insert((spot.exchange, spot.rank));
                self.fault(item, &ALTERED_SIGNATURE, if self.is_gemini() { CORRUPTED } else { CIPHER }, said);
            } else {
                said.unseen = true;
            }
        } else if self.is_gemini()
            && item.turn.seal.is_none()
            && let Some(n) = spot.call.filter(|_| call.is_some_and(|call| call.seal.is_some()))
        {
            match self.known.is_first(spot.exchange, n) {
                true => self.fault(item, &MISSING_SIGNATURE, NO_SIGNATURE, said),
                false => said.tolerate(item.place()),
            }
        }
    }

    /// The signed parts of every response that comes back: none is left out, and nothing stands in its place.
    fn parts(&self, items: &[Item<'_, 'r>], said: &mut Said<'_, 'r>) {
        let mut groups: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (group, exchanges) in &self.of_group {
            exchanges.iter().for_each(|exchange| groups.entry(*exchange).or_default().push(*group));
        }
        let mut loose = Loose::default();
        for item in items.iter().filter(|item| item.call.is_none() && item.spot.is_none()) {
            let (group, whole) = (item.turn.at.group, item.place());
            if item.is_strange() {
                loose.strange.entry(group).or_default().push_back(whole);
            } else if whole.get("type").is_some_and(|kind| kind.is("thinking")) && item.turn.at.seal.is_none() {
                loose.unsigned.entry(group).or_default().push_back(whole);
            }
        }
        let mut first: HashMap<u32, Value<'r>> = HashMap::new();
        for item in items {
            item.spot.into_iter().for_each(|spot| {
                first.entry(spot.exchange).or_insert(item.place());
            });
        }
        for (exchange, groups) in groups.iter().filter(|(exchange, _)| self.known.is_whole(**exchange)) {
            if let Some(first) = first.get(exchange) {
                self.parts_of(*exchange, (groups, *first), &mut loose, said);
            }
        }
        said.unseen |= loose.strange.values().any(|rest| !rest.is_empty());
        // The API wants the member, whoever the model was.
        for (_, rest) in loose.unsigned.iter().filter(|(group, _)| !self.of_group.contains_key(group)) {
            for block in rest.iter().filter(|block| block.get("signature").is_none()) {
                said.refuse(&MISSING_SIGNATURE, *block, NO_THINKING);
            }
        }
    }

    fn parts_of(
        &self,
        exchange: u32,
        (groups, first): (&[u32], Value<'r>),
        loose: &mut Loose<'r>,
        said: &mut Said<'_, 'r>,
    ) {
        let off = || self.body.get("thinking").and_then(|it| it.get("type")).is_some_and(|kind| kind.is("disabled"));
        let wanted = self.known.exchange(exchange).is_some_and(|known| known.seals_required);
        let required = self.provider == Provider::AnthropicMessages && wanted && !off();
        let lenient = self.is_gemini() && self.known.is_lenient(exchange);
        let altered = match self.provider {
            Provider::AnthropicMessages => MODIFIED,
            Provider::GeminiGenerateContent => CORRUPTED,
            _ => CIPHER,
        };
        let mut told = false;
        for ranks in self.known.signed(exchange) {
            if ranks.iter().any(|rank| self.present.contains(&(exchange, *rank))) {
                continue;
            }
            if let Some(other) = next(&mut loose.strange, groups) {
                match lenient {
                    true => said.tolerate(other),
                    false => said.refuse(&ALTERED_SIGNATURE, other, altered),
                }
                continue;
            }
            let place = next(&mut loose.unsigned, groups).unwrap_or(first);
            match required {
                true if !std::mem::replace(&mut told, true) => said.refuse(&MISSING_SIGNATURE, place, NO_THINKING),
                true => {}
                false => said.tolerate(place),
            }
        }
    }

    /// What a response signed stands where it stood among the rest.
    fn order(&self, items: &[Item<'_, 'r>], said: &mut Said<'_, 'r>) {
        // Of each exchange, the furthest of what came so far: of all, and of what is signed.
        let mut furthest: HashMap<u32, (Rank, Option<Rank>)> = HashMap::new();
        let mut told = HashSet::new();
        let refusal = match self.provider {
            Provider::AnthropicMessages => MODIFIED,
            Provider::GeminiGenerateContent => NO_SIGNATURE,
            _ => FOLLOWING,
        };
        for item in items.iter().filter(|item| !item.moved) {
            let Some(spot) = item.spot else { continue };
            let (all, signed) = furthest.entry(spot.exchange).or_insert((spot.rank, None));
            let behind = if item.exact { Some(*all) } else { *signed };
            if behind.is_some_and(|behind| behind > spot.rank) && told.insert(spot.exchange) {
                self.fault(item, &REORDERED_PARTS, refusal, said);
            }
            *all = (*all).max(spot.rank);
            if item.exact {
                *signed = (*signed).max(Some(spot.rank));
            }
        }
    }
}

/// Blocks that are no part of a known response, by their run of messages.
#[derive(Default)]
struct Loose<'r> {
    /// Signed with something that is not known.
    strange: HashMap<u32, VecDeque<Value<'r>>>,
    /// Thinking that is not signed.
    unsigned: HashMap<u32, VecDeque<Value<'r>>>,
}

/// The next of them in one of these runs.
fn next<'r>(of: &mut HashMap<u32, VecDeque<Value<'r>>>, groups: &[u32]) -> Option<Value<'r>> {
    groups.iter().find_map(|group| of.get_mut(group).and_then(VecDeque::pop_front))
}

fn note(of_group: &mut HashMap<u32, Vec<u32>>, group: u32, exchange: u32) {
    let exchanges = of_group.entry(group).or_default();
    if !exchanges.contains(&exchange) {
        exchanges.push(exchange);
    }
}

/// The signature is written into the call instead of beside it.
fn holds_signature(call: Value<'_>) -> bool {
    let inside = call.get("thoughtSignature").or_else(|| call.get("thought_signature"));
    inside.is_some_and(|seal| seal.kind() == Kind::String)
}

/// A known signature on another part than its own.
fn is_displaced(item: &Item<'_, '_>, known: &Known<'_>) -> bool {
    let Some(spot) = item.spot else { return false };
    let Some(call) = spot.call.and_then(|n| known.call(n)) else { return item.is_client_call() };
    if !item.is_client_call() {
        return true;
    }
    let by_id = item.call.and_then(|call| call.id).and_then(|id| id.text()).and_then(|id| known.by_id(&id));
    let other = by_id.is_some_and(|other| other.exchange == spot.exchange && other.call != spot.call);
    // Where calls have no ids: what it says is what another call of the response said.
    let says = item.turn.said.is_some_and(|said| Some(said) != call.said && known.says(spot.exchange, said));
    other || says
}

/// A reasoning item that has an id is followed by what it led to.
fn followed<'r>(turns: &[TurnView<'r>], said: &mut Said<'_, 'r>) {
    let mut last: Option<&TurnView<'r>> = None;
    let reasons = |turn: &TurnView<'r>| {
        let kind = |name: &str| turn.at.whole.get(name);
        kind("type").is_some_and(|kind| kind.is("reasoning")) && kind("id").is_some_and(|id| id.kind() == Kind::String)
    };
    for turn in turns {
        if let Some(before) = last.filter(|_| matches!(turn.at.party, Party::User | Party::Tool)) {
            said.refuse(&REORDERED_PARTS, before.at.whole, FOLLOWING);
        }
        last = Some(turn).filter(|turn| reasons(turn));
    }
    if let Some(before) = last {
        said.refuse(&REORDERED_PARTS, before.at.whole, FOLLOWING);
    }
}
