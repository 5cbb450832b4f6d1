//! What a transaction writes, and how the same bytes become state again.
//!
//! The journal names every entry that was touched; the first undo of each tells what is committed of it, so
//! that entries which came and went inside the transaction leave no trace, and text pages that are no longer
//! needed get their tombstones.

use super::ConvKey;
use super::codec::{self, Entry, Kind, PAGE, Place, StateError, StateKey};
use super::conversation::{Call, Conversation};
use super::journal::{Log, Undo};
use super::store::{ByKey, Stored};
use std::collections::{BTreeMap, HashMap, HashSet};

/// What is to be done about one touched entry.
struct Touched {
    /// It is in the committed state.
    committed: bool,
    text: Text,
}

/// A touched call's text.
#[derive(Clone, Copy, Default)]
struct Text {
    /// Its committed length, once that is known.
    committed: Option<usize>,
    /// The first byte that may differ from what is committed; `None`: none.
    from: Option<usize>,
}

impl Text {
    fn touch(&mut self, prior: usize, from: usize) {
        self.committed.get_or_insert(prior);
        self.from = Some(self.from.map_or(from, |f| f.min(from)));
    }
}

type Map = BTreeMap<(Kind, ConvKey, u32), Touched>;

fn entry(map: &mut Map, kind: Kind, key: ConvKey, n: u32, committed: bool) -> &mut Touched {
    let fresh = || Touched { committed, text: Text { committed: (!committed).then_some(0), from: None } };
    map.entry((kind, key, n)).or_insert_with(fresh)
}

fn touched(log: &Log) -> Map {
    let mut map = Map::new();
    for (key, undo) in &log.ops {
        let key = *key;
        match undo {
            Undo::Created => {
                entry(&mut map, Kind::Head, key, 0, false);
            }
            Undo::Removed(stored) => removed(&mut map, key, &stored.conversation),
            Undo::Clock { .. } | Undo::Head(_) => {
                entry(&mut map, Kind::Head, key, 0, true);
            }
            Undo::Exchange(n, prior) => {
                entry(&mut map, Kind::Exchange, key, *n, prior.is_some());
            }
            Undo::Toolset(n, prior) => {
                entry(&mut map, Kind::Toolset, key, *n, prior.is_some());
            }
            Undo::Tool(n, prior) => {
                entry(&mut map, Kind::Tool, key, *n, prior.is_some());
            }
            Undo::Result(n, prior) => {
                entry(&mut map, Kind::Result, key, *n, prior.is_some());
            }
            Undo::Piece(n, prior) => {
                entry(&mut map, Kind::Piece, key, *n, prior.is_some());
            }
            Undo::Rpc(n, prior) => {
                entry(&mut map, Kind::Rpc, key, *n, prior.is_some());
            }
            Undo::Seen(n, prior) => {
                entry(&mut map, Kind::Seen, key, *n, prior.is_some());
            }
            Undo::Call(n, prior) => {
                let len = prior.as_ref().map_or(0, |call| call.text.len());
                entry(&mut map, Kind::Call, key, *n, prior.is_some()).text.touch(len, 0);
            }
            Undo::Facts(n, _) => {
                entry(&mut map, Kind::Call, key, *n, true);
            }
            Undo::Text { n, len, tail, .. } => {
                let from = len - tail.map_or(0, |t| t.len());
                entry(&mut map, Kind::Call, key, *n, true).text.touch(*len, from);
            }
            Undo::Replaced { n, text, .. } => {
                entry(&mut map, Kind::Call, key, *n, true).text.touch(text.len(), 0);
            }
        }
    }
    map
}

/// A whole conversation went: what it held and was not touched before is committed.
fn removed(map: &mut Map, key: ConvKey, conversation: &Conversation) {
    entry(map, Kind::Head, key, 0, true);
    for (kind, numbers) in numbers(conversation) {
        for n in numbers {
            entry(map, kind, key, n, true);
        }
    }
    for (n, call) in &conversation.calls {
        entry(map, Kind::Call, key, *n, true).text.touch(call.text.len(), 0);
    }
}

fn numbers(c: &Conversation) -> [(Kind, Vec<u32>); 7] {
    [
        (Kind::Exchange, c.exchanges.keys().copied().collect()),
        (Kind::Result, c.results.keys().copied().collect()),
        (Kind::Toolset, c.toolsets.keys().copied().collect()),
        (Kind::Tool, c.tools.keys().copied().collect()),
        (Kind::Piece, c.pieces.keys().copied().collect()),
        (Kind::Rpc, c.requests.keys().copied().collect()),
        (Kind::Seen, c.seen.keys().copied().collect()),
    ]
}

fn pages(len: usize) -> u32 {
    len.div_ceil(PAGE) as u32
}

/// Buffers for one record, and where it goes.
struct Writer<'p> {
    key: StateKey,
    value: Vec<u8>,
    put: &'p mut dyn FnMut(&StateKey, Option<&[u8]>),
}

impl Writer<'_> {
    /// Writes the live entry, or a tombstone if it is committed but no longer there.
    fn write(&mut self, conversation: Option<&Conversation>, place: Place, committed: bool) {
        place.encode(&mut self.key);
        match conversation.map(|c| codec::encode(c, place, &mut self.value)) {
            Some(Some(())) => (self.put)(&self.key, Some(&self.value)),
            _ if committed => (self.put)(&self.key, None),
            _ => {}
        }
    }
}

/// Every touched entry, in key order.
pub(super) fn writes(log: &Log, conversations: &ByKey<Stored>, put: &mut dyn FnMut(&StateKey, Option<&[u8]>)) {
    let map = touched(log);
    let mut writer = Writer { key: StateKey::new(), value: Vec::new(), put };
    let live = |key: &ConvKey| conversations.get(key).map(|s| &s.conversation);
    let mut texts_done = false;
    for ((kind, key, n), entry) in &map {
        // Text is a kind of its own that orders behind the calls it belongs to.
        if *kind > Kind::Text && !std::mem::replace(&mut texts_done, true) {
            texts(&map, &live, &mut writer);
        }
        writer.write(live(key), Place::new(*kind, *key, *n), entry.committed);
    }
    if !texts_done {
        texts(&map, &live, &mut writer);
    }
}

fn texts<'c>(map: &Map, live: &dyn Fn(&ConvKey) -> Option<&'c Conversation>, writer: &mut Writer<'_>) {
    for ((kind, key, n), entry) in map {
        let (Kind::Call, Some(from)) = (kind, entry.text.from) else { continue };
        let conversation = live(key);
        let len = conversation.and_then(|c| c.calls.get(n)).map_or(0, |c| c.text.len());
        let committed = entry.text.committed.unwrap_or(0);
        if from >= len && committed == len {
            continue;
        }
        let committed = pages(committed);
        // A text that was cut short ends in a page whose rest is no longer valid.
        let first = (from.min(len) / PAGE) as u32;
        for page in first..pages(len).max(committed) {
            let place = Place { page, ..Place::new(Kind::Text, *key, *n) };
            writer.write(conversation, place, page < committed);
        }
    }
}

/// Every live entry, in key order.
pub(super) fn entries(conversations: &ByKey<Stored>, put: &mut dyn FnMut(&StateKey, Option<&[u8]>)) {
    let mut places = Vec::new();
    for (key, stored) in conversations {
        let c = &stored.conversation;
        places.push(Place::new(Kind::Head, *key, 0));
        for (kind, numbers) in numbers(c) {
            places.extend(numbers.into_iter().map(|n| Place::new(kind, *key, n)));
        }
        for (n, call) in &c.calls {
            places.push(Place::new(Kind::Call, *key, *n));
            let page = |page| Place { page, ..Place::new(Kind::Text, *key, *n) };
            places.extend((0..pages(call.text.len())).map(page));
        }
    }
    places.sort_unstable();
    let mut writer = Writer { key: StateKey::new(), value: Vec::new(), put };
    for place in places {
        writer.write(conversations.get(&place.key).map(|s| &s.conversation), place, false);
    }
}

/// What a restore has read so far.
#[derive(Default)]
pub(super) struct Restore {
    heads: HashSet<ConvKey>,
    /// Length of each call's text.
    lengths: HashMap<(ConvKey, u32), u64>,
    pages: HashMap<(ConvKey, u32), BTreeMap<u32, Vec<u8>>>,
}

impl Restore {
    pub fn apply(
        &mut self,
        conversations: &mut ByKey<Stored>,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), StateError> {
        let place = Place::decode(key)?;
        let id = (place.key, place.n);
        let Some(value) = value else {
            match place.kind {
                Kind::Text => {
                    if let Some(pages) = self.pages.get_mut(&id) {
                        pages.remove(&place.page);
                    }
                }
                kind => self.forget(conversations, kind, place),
            }
            return Ok(());
        };
        let entry = codec::decode(place.kind, value)?;
        if let Entry::Page(page) = entry {
            self.pages.entry(id).or_default().insert(place.page, page);
            return Ok(());
        }
        let c = &mut conversations.entry(place.key).or_default().conversation;
        match entry {
            Entry::Head(head) => {
                c.head = head;
                self.heads.insert(place.key);
            }
            Entry::Exchange(exchange) => {
                c.exchanges.insert(place.n, exchange);
            }
            Entry::Call { call, text } => {
                c.calls.insert(place.n, call);
                self.lengths.insert(id, text);
            }
            Entry::Result(fact) => {
                c.results.insert(place.n, fact);
            }
            Entry::Toolset(toolset) => {
                c.toolsets.insert(place.n, toolset);
            }
            Entry::Tool(tool) => {
                c.tools.insert(place.n, tool);
            }
            Entry::Piece(piece) => {
                c.pieces.insert(place.n, piece);
            }
            Entry::Rpc(request) => {
                c.requests.insert(place.n, request);
            }
            Entry::Seen(seen) => {
                c.seen.insert(place.n, seen);
            }
            Entry::Page(_) => {}
        }
        Ok(())
    }

    fn forget(&mut self, conversations: &mut ByKey<Stored>, kind: Kind, place: Place) {
        let Some(stored) = conversations.get_mut(&place.key) else { return };
        let c = &mut stored.conversation;
        match kind {
            Kind::Head => {
                self.heads.remove(&place.key);
            }
            Kind::Exchange => {
                c.exchanges.remove(&place.n);
            }
            Kind::Call => {
                c.calls.remove(&place.n);
                self.lengths.remove(&(place.key, place.n));
            }
            Kind::Result => {
                c.results.remove(&place.n);
            }
            Kind::Toolset => {
                c.toolsets.remove(&place.n);
            }
            Kind::Tool => {
                c.tools.remove(&place.n);
            }
            Kind::Piece => {
                c.pieces.remove(&place.n);
            }
            Kind::Rpc => {
                c.requests.remove(&place.n);
            }
            Kind::Seen => {
                c.seen.remove(&place.n);
            }
            Kind::Text => {}
        }
    }

    /// Joins the pages and checks that nothing is missing.
    pub fn finish(mut self, conversations: &mut ByKey<Stored>) -> Result<(), StateError> {
        let heads = self.heads;
        let bare = |c: &Conversation| *c == Conversation { head: c.head.clone(), ..Default::default() };
        conversations.retain(|key, stored| heads.contains(key) || !bare(&stored.conversation));
        if conversations.keys().any(|key| !heads.contains(key)) {
            return Err(StateError::Incomplete);
        }
        for ((key, n), length) in self.lengths {
            let pages = self.pages.remove(&(key, n)).unwrap_or_default();
            let call = conversations.get_mut(&key).and_then(|s| s.conversation.calls.get_mut(&n));
            join(call.ok_or(StateError::Incomplete)?, pages, length)?;
        }
        if self.pages.values().any(|pages| !pages.is_empty()) {
            return Err(StateError::Incomplete);
        }
        Ok(())
    }
}

fn join(call: &mut Call, pages: BTreeMap<u32, Vec<u8>>, length: u64) -> Result<(), StateError> {
    let count = pages.len();
    call.text = Vec::with_capacity(count * PAGE);
    for (at, (page, bytes)) in pages.into_iter().enumerate() {
        if page as usize != at || (at + 1 < count && bytes.len() != PAGE) {
            return Err(StateError::Incomplete);
        }
        call.text.extend_from_slice(&bytes);
    }
    let whole = call.text.len() as u64 == length;
    whole.then_some(()).ok_or(StateError::Incomplete)
}
