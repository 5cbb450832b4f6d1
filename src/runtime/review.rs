//! What there is to review of tool definitions: decisions and sightings, put together for people.
//!
//! Everything here that stands in a definition was written by a server, so text goes to a terminal only as
//! [`safe`] makes it: no control characters, no characters of direction or without width, no lone marks.

use crate::engine::json::{self, JsonLimits, Kind, Value};
use crate::engine::layer::Layer;
use crate::engine::pins::record::{DecisionRecord, Key, RecordError, Sighting, Standing};
use crate::engine::pins::{Change, Pin, PinTable, Stands, canonical::Fingerprint, diff};
use bumpalo::Bump;
use std::collections::BTreeMap;

/// A definition beyond this is not compared line by line, lines.
const DIFF_LINES: usize = 3000;
/// Text is broken behind so many characters.
const WIDTH: usize = 100;

/// How a definition stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Nobody decided on any definition of that name.
    Unpinned,
    /// Another one of that name is approved.
    Changed,
    Approved,
    Rejected,
}

impl State {
    pub fn name(self) -> &'static str {
        match self {
            State::Unpinned => "unpinned",
            State::Changed => "changed",
            State::Approved => "approved",
            State::Rejected => "rejected",
        }
    }
    pub fn is_open(self) -> bool {
        matches!(self, State::Unpinned | State::Changed)
    }
}

/// One definition: by server, name and digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub server: Vec<u8>,
    /// `None`: the server's instructions.
    pub name: Option<Vec<u8>>,
    pub digest: [u8; 32],
    /// The clients that saw it, or for which it was decided; `None` among them: any, or one that said nothing.
    pub clients: Vec<Option<[u8; 32]>>,
    pub state: State,
    /// Since the latest approved one of that name.
    pub changes: Vec<Change>,
    /// In canonical form, where it is at hand.
    pub definition: Option<Vec<u8>>,
    pub definition_bytes: u64,
    /// Where and when it was seen last.
    pub seen: Option<Place>,
    pub decided: Option<Decided>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub topic: String,
    pub partition: i64,
    pub offset: i64,
    /// Milliseconds since the epoch.
    pub time: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decided {
    pub by: String,
    pub reason: String,
    pub at: String,
}

type Same = (Vec<u8>, Option<Vec<u8>>, [u8; 32]);

/// Both topics, read to their ends.
#[derive(Debug, Default)]
pub struct Book {
    table: PinTable,
    decisions: BTreeMap<Key, DecisionRecord>,
    sightings: BTreeMap<Key, Sighting>,
    /// Records that say nothing: topic, partition, offset.
    pub unreadable: Vec<(String, i32, i64, RecordError)>,
}

impl Book {
    /// A record of the pins topic, in order of offsets.
    pub fn decision(&mut self, topic: &str, offset: i64, key: &[u8], value: Option<&[u8]>) {
        if let Err(error) = self.table.apply(offset, key, value) {
            self.unreadable.push((topic.to_owned(), 0, offset, error));
        }
        let Ok(key) = Key::decode(key) else { return };
        let read = value.and_then(|value| DecisionRecord::decode(&key, value).ok());
        match read {
            Some(record) => drop(self.decisions.insert(key, record)),
            None => drop(self.decisions.remove(&key)),
        }
    }

    /// A record of the sightings topic; partitions in any order.
    pub fn sighting(&mut self, topic: &str, (partition, offset): (i32, i64), key: &[u8], value: Option<&[u8]>) {
        let Some(value) = value else {
            if let Ok(key) = Key::decode(key) {
                self.sightings.remove(&key);
            }
            return;
        };
        match Sighting::decode(key, value) {
            Err(error) => self.unreadable.push((topic.to_owned(), partition, offset, error)),
            Ok(sighting) => {
                let known = self.sightings.get(&sighting.key);
                if known.is_none_or(|known| known.time <= sighting.time) {
                    self.sightings.insert(sighting.key.clone(), sighting);
                }
            }
        }
    }

    pub fn table(&self) -> &PinTable {
        &self.table
    }

    /// Every definition, those that wait for a decision first, then by server and name.
    pub fn entries(&self) -> Vec<Entry> {
        let mut found: BTreeMap<Same, Entry> = BTreeMap::new();
        for (key, record) in &self.decisions {
            let entry = found.entry(same(key)).or_insert_with(|| blank(key));
            entry.clients.push(key.capabilities);
            // A rejection is stronger.
            if entry.decided.is_none() || record.standing == Standing::Rejected {
                entry.state = match record.standing {
                    Standing::Approved => State::Approved,
                    Standing::Rejected => State::Rejected,
                };
                let (by, reason, at) = (record.by.clone(), record.reason.clone(), record.at.clone());
                entry.decided = Some(Decided { by, reason, at });
            }
            if let Some(definition) = record.definition() {
                entry.definition_bytes = definition.len() as u64;
                entry.definition = Some(definition);
            }
        }
        for (key, sighting) in &self.sightings {
            let entry = found.entry(same(key)).or_insert_with(|| blank(key));
            let stands = self.table.stands(&key.server, key.capabilities.as_ref(), key.name.as_deref(), &key.digest);
            let (topic, offset) = (sighting.topic.clone(), sighting.offset);
            let seen = Place { topic, partition: sighting.partition, offset, time: sighting.time };
            if entry.seen.as_ref().is_none_or(|known| known.time < seen.time) {
                entry.seen = Some(seen);
            }
            if entry.definition.is_none() {
                entry.definition.clone_from(&sighting.definition);
                entry.definition_bytes = sighting.definition_bytes;
            }
            if let Stands::Undecided { other } = stands {
                if !entry.state.is_open() {
                    // Decided for other clients only.
                    entry.clients.clear();
                }
                entry.clients.push(key.capabilities);
                entry.state = if other.is_some() { State::Changed } else { State::Unpinned };
                if let Some(other) = other {
                    entry.changes = changes(other, entry.definition.as_deref());
                }
            }
        }
        let mut all: Vec<Entry> = found.into_values().collect();
        all.sort_by(|a, b| (!a.state.is_open(), &a.server, &a.name).cmp(&(!b.state.is_open(), &b.server, &b.name)));
        all
    }

    /// The latest approved definition of that name beside this one.
    pub fn approved(&self, entry: &Entry) -> Option<&Pin> {
        let same = |(server, name, _): &(&[u8], Option<&[u8]>, &Pin)| {
            *server == entry.server.as_slice() && *name == entry.name.as_deref()
        };
        let others = self.table.all().filter(same).map(|(.., pin)| pin);
        let others = others.filter(|pin| pin.standing == Standing::Approved && pin.digest != entry.digest);
        others.max_by_key(|pin| pin.offset)
    }

    /// The records that make a decision: those of other clients on the same definition are taken back, so that what
    /// was decided last holds. `by_client`: only for the clients that said what they are able to; for one that said
    /// nothing it cannot be decided alone.
    pub fn decide(
        &self,
        entry: &Entry,
        standing: Standing,
        by_client: bool,
        decided: &Decided,
    ) -> Vec<(Key, Option<DecisionRecord>)> {
        let mut clients: Vec<Option<[u8; 32]>> = match by_client {
            true => entry.clients.iter().copied().filter(Option::is_some).collect(),
            false => vec![None],
        };
        clients.sort_unstable();
        clients.dedup();
        let key = |capabilities: Option<[u8; 32]>| Key {
            server: entry.server.clone(),
            capabilities,
            name: entry.name.clone(),
            digest: entry.digest,
        };
        let mut out = Vec::new();
        for client in &clients {
            let mut record = DecisionRecord::new(key(*client), standing, entry.definition.clone());
            record.by.clone_from(&decided.by);
            record.reason.clone_from(&decided.reason);
            record.at.clone_from(&decided.at);
            out.push((key(*client), Some(record)));
        }
        let of_this = |key: &&Key| same(key) == (entry.server.clone(), entry.name.clone(), entry.digest);
        let stale = self.decisions.keys().filter(of_this).filter(|key| !clients.contains(&key.capabilities));
        out.extend(stale.filter(|_| !by_client).map(|key| (key.clone(), None)));
        out
    }
}

fn same(key: &Key) -> Same {
    (key.server.clone(), key.name.clone(), key.digest)
}

fn blank(key: &Key) -> Entry {
    Entry {
        server: key.server.clone(),
        name: key.name.clone(),
        digest: key.digest,
        clients: Vec::new(),
        state: State::Unpinned,
        changes: Vec::new(),
        definition: None,
        definition_bytes: 0,
        seen: None,
        decided: None,
    }
}

fn parse<'b>(bump: &'b Bump, text: &'b [u8]) -> Option<Value<'b>> {
    json::parse(bump, Layer::record(bump, text), JsonLimits::default()).ok()
}

/// The classes of change from an approved definition to another.
fn changes(old: &Pin, new: Option<&[u8]>) -> Vec<Change> {
    let bump = Bump::new();
    let Some(new) = new.and_then(|text| parse(&bump, text)) else { return vec![Change::Unclassified] };
    match (old.definition.as_deref().and_then(|text| parse(&bump, text)), &old.print) {
        (Some(old), _) => diff::changes(old, new).into_iter().map(|(change, _)| change).collect(),
        (None, Some(print)) => Change::of_parts(&print.parts, &Fingerprint::of(new).parts).into_iter().collect(),
        (None, None) => vec![Change::Unclassified],
    }
}

/// Text for a terminal: what is no ordinary character stands as its number, a backslash twice.
pub fn safe(text: &[u8]) -> String {
    let mut out = String::with_capacity(text.len());
    for c in String::from_utf8_lossy(text).chars() {
        match c {
            '\'' | '"' => out.push(c),
            // Letters without a shape.
            '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' => out.extend(c.escape_unicode()),
            c => out.extend(c.escape_debug()),
        }
    }
    out
}

/// A definition as lines for people: a member a line, text broken at its own line ends and at [`WIDTH`].
pub fn lines(definition: &[u8]) -> Vec<String> {
    let bump = Bump::new();
    let mut out = Vec::new();
    match parse(&bump, definition) {
        Some(value) => write(value, 0, "", &mut out),
        None => out.push("(not readable)".to_owned()),
    }
    out
}

fn write(value: Value<'_>, depth: usize, name: &str, out: &mut Vec<String>) {
    let pad = "  ".repeat(depth);
    let label = if name.is_empty() { String::new() } else { format!("{name}: ") };
    match value.kind() {
        Kind::Object if value.members().next().is_some() => {
            out.push(format!("{pad}{label}{{"));
            for (name, value) in value.members() {
                write(value, depth + 1, &safe(&name.text().unwrap_or_default()), out);
            }
            out.push(format!("{pad}}}"));
        }
        Kind::Array if value.items().next().is_some() => {
            out.push(format!("{pad}{label}["));
            for item in value.items() {
                write(item, depth + 1, "", out);
            }
            out.push(format!("{pad}]"));
        }
        Kind::String => {
            let text = value.text().unwrap_or_default();
            let mut parts: Vec<String> = text.split(|b| *b == b'\n').flat_map(|line| wrapped(&safe(line))).collect();
            if parts.len() == 1 {
                out.push(format!("{pad}{label}\"{}\"", parts.remove(0)));
                return;
            }
            out.push(format!("{pad}{label}text of {} bytes", text.len()));
            out.extend(parts.into_iter().map(|part| format!("{pad}  | {part}")));
        }
        _ => out.push(format!("{pad}{label}{}", safe(value.raw()))),
    }
}

/// Pieces of at most [`WIDTH`] characters, broken behind spaces where there are some.
fn wrapped(text: &str) -> Vec<String> {
    let mut out = vec![String::new()];
    let mut length = 0;
    for word in text.split_inclusive(' ') {
        let mut rest: Vec<char> = word.chars().collect();
        if length + rest.len() > WIDTH && length > 0 {
            out.push(String::new());
            length = 0;
        }
        while !rest.is_empty() {
            if length == WIDTH {
                out.push(String::new());
                length = 0;
            }
            let take = rest.len().min(WIDTH - length);
            if let Some(line) = out.last_mut() {
                line.extend(rest.drain(..take));
            }
            length += take;
        }
    }
    out
}

/// Lines that went (`-`), came (`+`) and stand beside them (space). `None`: too long to compare so.
pub fn compared(old: &[String], new: &[String]) -> Option<Vec<(char, String)>> {
    const AROUND: usize = 2;
    let head = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let (old_rest, new_rest) = (old.get(head..)?, new.get(head..)?);
    let tail = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(|(a, b)| a == b).count();
    let a = old_rest.get(..old_rest.len() - tail)?;
    let b = new_rest.get(..new_rest.len() - tail)?;
    if a.len() > DIFF_LINES || b.len() > DIFF_LINES {
        return None;
    }
    // Longest common subsequences of what follows each pair of places.
    let wide = b.len() + 1;
    let mut common = vec![0_u16; (a.len() + 1) * wide];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            let next = |i: usize, j: usize| common.get(i * wide + j).copied().unwrap_or_default();
            let best = if a.get(i) == b.get(j) { next(i + 1, j + 1) + 1 } else { next(i + 1, j).max(next(i, j + 1)) };
            if let Some(at) = common.get_mut(i * wide + j) {
                *at = best;
            }
        }
    }
    let mut all: Vec<(char, &String)> = old.iter().take(head).map(|line| (' ', line)).collect();
    let (mut i, mut j) = (0, 0);
    while i < a.len() || j < b.len() {
        let next = |i: usize, j: usize| common.get(i * wide + j).copied().unwrap_or_default();
        match (a.get(i), b.get(j)) {
            (Some(x), Some(y)) if x == y => {
                all.push((' ', x));
                (i, j) = (i + 1, j + 1);
            }
            (Some(x), y) if y.is_none() || next(i + 1, j) >= next(i, j + 1) => {
                all.push(('-', x));
                i += 1;
            }
            (_, Some(y)) => {
                all.push(('+', y));
                j += 1;
            }
            _ => break,
        }
    }
    all.extend(old_rest.iter().skip(a.len()).map(|line| (' ', line)));
    let near = |at: usize| {
        let from = at.saturating_sub(AROUND);
        all.iter().skip(from).take(at - from + AROUND + 1).any(|(mark, _)| *mark != ' ')
    };
    let shown = all.iter().enumerate().filter(|(at, _)| near(*at));
    Some(shown.map(|(_, (mark, line))| (*mark, (*line).clone())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::digest::sha256;

    fn key(server: &str, definition: &str, client: Option<[u8; 32]>) -> Key {
        let name = Some(b"search".to_vec());
        Key { server: server.into(), capabilities: client, name, digest: sha256(definition.as_bytes()) }
    }

    fn seen(book: &mut Book, definition: &str, client: Option<[u8; 32]>, time: i64) {
        let sighting = Sighting {
            key: key("docs", definition, client),
            changed: false,
            definition: Some(definition.into()),
            definition_bytes: definition.len() as u64,
            topic: "events".into(),
            partition: 0,
            offset: time,
            time,
        };
        book.sighting("s", (0, time), &sighting.key.encode(), Some(&sighting.encode()));
    }

    fn apply(book: &mut Book, made: Vec<(Key, Option<DecisionRecord>)>) {
        for (key, record) in made {
            let offset = book.table.offset().map_or(0, |offset| offset + 1);
            book.decision("p", offset, &key.encode(), record.map(|record| record.encode()).as_deref());
        }
    }

    const ONE: &str = r#"{"description":"Searches.","name":"search"}"#;
    const TWO: &str = r#"{"description":"Sends.","name":"search"}"#;

    fn who() -> Decided {
        Decided { by: "ada".into(), reason: "read it".into(), at: "2026-01-01T00:00:00Z".into() }
    }

    #[test]
    fn sightings_wait_until_they_are_decided() {
        let mut book = Book::default();
        let (a, b) = (Some([1; 32]), Some([2; 32]));
        seen(&mut book, ONE, a, 1);
        seen(&mut book, ONE, b, 2);
        let [one] = book.entries().try_into().unwrap();
        assert_eq!((one.state, one.clients.len(), one.seen.as_ref().unwrap().time), (State::Unpinned, 2, 2));
        let made = book.decide(&one, Standing::Approved, false, &who());
        assert_eq!(made.len(), 1);
        apply(&mut book, made);
        seen(&mut book, TWO, a, 3);
        let [changed, approved] = book.entries().try_into().unwrap();
        assert_eq!((changed.state, changed.changes.as_slice()), (State::Changed, &[Change::Description][..]));
        assert_eq!((approved.state, approved.decided.unwrap().by.as_str()), (State::Approved, "ada"));
        assert_eq!(book.approved(&changed).unwrap().digest, one.digest);
        // For the client that saw it only.
        let made = book.decide(&changed, Standing::Rejected, true, &who());
        apply(&mut book, made);
        assert_eq!(book.entries().iter().filter(|e| e.state == State::Rejected).count(), 1);
        seen(&mut book, TWO, b, 4);
        let open = book.entries().into_iter().find(|e| e.state.is_open()).unwrap();
        assert_eq!(open.clients, [b]);
        // One that said nothing may be the one that it was rejected for.
        seen(&mut book, TWO, None, 5);
        let mut open = book.entries().into_iter().find(|e| e.state.is_open()).unwrap();
        assert_eq!(open.clients, [b]);
        // And cannot be decided for alone.
        open.clients.push(None);
        let keys = |made: Vec<(Key, _)>| made.into_iter().map(|(key, _)| key.capabilities).collect::<Vec<_>>();
        assert_eq!(keys(book.decide(&open, Standing::Approved, true, &who())), [b]);
        // What is decided for any client takes the place of what was decided for one.
        let made = book.decide(&open, Standing::Approved, false, &who());
        assert_eq!(made.iter().map(|(_, record)| record.is_some()).collect::<Vec<_>>(), [true, false]);
        apply(&mut book, made);
        assert!(book.entries().iter().all(|e| e.state == State::Approved));
    }

    #[test]
    fn bad_records_are_counted_and_decide_nothing() {
        let mut book = Book::default();
        book.decision("p", 0, b"x", Some(b"{}"));
        book.decision("p", 1, &key("docs", ONE, None).encode(), Some(b"{}"));
        book.sighting("s", (3, 9), b"x", Some(b"{}"));
        assert_eq!(book.unreadable.len(), 3);
        assert!(book.entries().is_empty());
    }

    #[test]
    fn nothing_of_a_server_reaches_a_terminal_raw() {
        let bad = "a\u{1b}[2Jb\u{202e}c\u{200b}d\u{e0041}e\u{3164}f\r\ng\\\"\u{9b}h\u{fe0f}";
        let shown = safe(bad.as_bytes());
        assert!(shown.chars().all(|c| !c.is_control() && c.is_ascii()), "{shown}");
        assert_eq!(safe("Größe 検索 é".as_bytes()), "Größe 検索 é");
        assert_eq!(safe(b"\xED\xA0\x80a"), "\u{fffd}\u{fffd}\u{fffd}a");
        let definition = serde_json::json!({"name": "x", "description": bad, "\u{1b}k": [1, {"a": "b\u{7}"}]});
        for line in lines(definition.to_string().as_bytes()) {
            assert!(line.chars().all(|c| !c.is_control() && c.is_ascii()), "{line}");
        }
    }

    #[test]
    fn lines_hold_everything_and_stay_short() {
        let long = "word ".repeat(80);
        let definition = serde_json::json!({"name": "x", "description": format!("{long}\n{}", "y".repeat(250))});
        let shown = lines(definition.to_string().as_bytes());
        assert!(shown.iter().all(|line| line.chars().count() <= WIDTH + 10), "{shown:#?}");
        let text: String = shown.iter().filter_map(|line| line.trim_start().strip_prefix("| ")).collect();
        assert_eq!(text, format!("{long}{}", "y".repeat(250)));
        // A member that stands twice stands twice.
        assert_eq!(lines(br#"{"a":1,"a":2,"b":[],"c":{}}"#), ["{", "  a: 1", "  a: 2", "  b: []", "  c: {}", "}"]);
        assert_eq!(lines(b"{"), ["(not readable)"]);
    }

    #[test]
    fn a_comparison_can_be_read_back() {
        let of = |text: &str| text.chars().map(String::from).collect::<Vec<_>>();
        for (old, new) in [("abcdef", "abxdef"), ("", "abc"), ("abc", ""), ("abcabba", "cbabac"), ("same", "same")] {
            let shown = compared(&of(old), &of(new)).unwrap();
            let went: String = shown.iter().filter(|(m, _)| *m == '-').map(|(_, l)| l.as_str()).collect();
            let came: String = shown.iter().filter(|(m, _)| *m == '+').map(|(_, l)| l.as_str()).collect();
            let count = |text: &str, c: char| text.matches(c).count();
            for c in 'a'..='z' {
                let now = (count(old, c) + count(&came, c)).checked_sub(count(&went, c));
                assert_eq!(now, Some(count(new, c)), "{old} {new} {shown:?}");
            }
        }
        assert!(compared(&of("same"), &of("same")).unwrap().is_empty());
        let long: Vec<String> = (0..4000).map(|n| n.to_string()).collect();
        let other: Vec<String> = (0..4000).map(|n| (n * 7).to_string()).collect();
        assert!(compared(&long, &other[1..]).is_none());
    }
}
