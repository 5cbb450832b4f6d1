//! Where phrases stand in a view.
//!
//! In two passes, because most sentences hold nothing, and because the words that count beside others (`to`, `all`,
//! `must`) are in every text. The first pass goes over the whole text and looks for the signs: phrases without
//! which no sentence is worth telling ([`Mark::is_sign`]), and the marks that part a text. The second goes over
//! sentences that hold a sign, and looks for all phrases.
//!
//! Invariant: a sentence without a sign scores less than [`LEAST`](super::LEAST), whatever else is in it.

use super::own;
use super::phrases::{self, Mark};
use crate::engine::scan::literals::Literals;
use crate::engine::scan::normalise::{self, View};
use aho_corasick::{AhoCorasick, AhoCorasickKind, Input, MatchKind};
use std::ops::Range;
use std::sync::LazyLock;

/// A phrase in the view.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hit {
    pub mark: Mark,
    pub start: usize,
    pub end: usize,
}

struct Phrase {
    text: String,
    mark: Mark,
    /// It may begin, and end, within a word.
    within: (bool, bool),
}

/// Phrases and what finds them; `search` is `None` if it could not be built (a test holds that it can).
struct Automaton<S> {
    search: Option<S>,
    marks: Vec<(Mark, (bool, bool))>,
}

impl<S> Automaton<S> {
    fn new(phrases: impl Iterator<Item = Phrase>, build: impl FnOnce(Vec<String>) -> Option<S>) -> Self {
        let (texts, marks) = phrases.map(|phrase| (phrase.text, (phrase.mark, phrase.within))).unzip();
        Self { search: build(texts), marks }
    }

    /// The hit, if its words begin and end where the text's do. Words end at `seams` too.
    fn hit(&self, text: &str, at: Range<usize>, phrase: usize, seams: &[usize]) -> Option<Hit> {
        let (mark, (left, right)) = self.marks.get(phrase).copied()?;
        let parts = |at| parts_words(text, at) || seams.binary_search(&at).is_ok();
        let is_whole = (left || parts(at.start)) && (right || parts(at.end));
        is_whole.then_some(Hit { mark, start: at.start, end: at.end })
    }
}

impl Automaton<AhoCorasick> {
    fn compact(phrases: impl Iterator<Item = Phrase>) -> Self {
        let mut builder = AhoCorasick::builder();
        builder.match_kind(MatchKind::Standard).kind(Some(AhoCorasickKind::ContiguousNFA));
        Self::new(phrases, |texts| builder.build(texts).ok())
    }

    /// What stands in a range of a text, in order of ends.
    fn find(&self, text: &str, range: Range<usize>, seams: &[usize], hits: &mut Vec<Hit>) {
        let Some(search) = &self.search else { return };
        let all = search.find_overlapping_iter(Input::new(text).range(range));
        hits.extend(all.filter_map(|at| self.hit(text, at.range(), at.pattern().as_usize(), seams)));
    }
}

impl Automaton<Literals> {
    fn find(&self, text: &str, seams: &[usize], hits: &mut Vec<Hit>) {
        let Some(search) = &self.search else { return };
        search.find(text.as_bytes(), |phrase, at| hits.extend(self.hit(text, at, phrase, seams)));
    }
}

/// Signs of ASCII alone: a table of what follows each byte, small and quick. Most texts need no other.
static SIGNS: LazyLock<Automaton<Literals>> = LazyLock::new(|| {
    Automaton::new(signs_of_phrases().filter(|p| p.text.is_ascii()), |texts| Literals::new(texts, true))
});
static FOREIGN_SIGNS: LazyLock<Automaton<AhoCorasick>> =
    LazyLock::new(|| Automaton::compact(signs_of_phrases().filter(|p| !p.text.is_ascii())));
static PHRASES: LazyLock<Automaton<AhoCorasick>> = LazyLock::new(|| Automaton::compact(spelled().chain(joined())));

/// A text without any sign, if it is read as it stands. Most members and values are that, and need no view.
pub(super) fn may_hold_a_sign(text: &[u8]) -> bool {
    SIGNS.search.as_ref().is_none_or(|search| search.is_in(text))
}

/// The signs of a view in order of their ends. What this gate writes is read as such only to the letter, and
/// nothing else is read in it.
pub(super) fn signs(view: &View, text: &[u8], seams: &[usize]) -> Vec<Hit> {
    let mut hits = Vec::new();
    SIGNS.find(&view.text, seams, &mut hits);
    if !view.text.is_ascii() {
        FOREIGN_SIGNS.find(&view.text, 0..view.text.len(), seams, &mut hits);
        hits.sort_by_key(|hit| hit.end);
    }
    own::left_out(&view.text, &(0..view.text.len()), &mut hits);
    let mut signs: Vec<Hit> = Vec::with_capacity(hits.len());
    let mut gate = 0;
    for hit in hits {
        let counts = match hit.mark {
            Mark::Gate(gate) => text.get(view.source_range(hit.start, hit.end)) == Some(gate.text().as_bytes()),
            Mark::Role => names_a_turn(view, hit),
            // `opacity:0.5` hides nothing; what is parted by unseen characters is no number.
            Mark::Invisible => {
                let behind = view.text.as_bytes().get(hit.end..).unwrap_or_default();
                !matches!(behind, [b'.', b'0'..=b'9', ..]) || seams.binary_search(&hit.end).is_ok()
            }
            _ => true,
        };
        if !counts || hit.start < gate {
            continue;
        }
        if let Mark::Gate(_) = hit.mark {
            while signs.last().is_some_and(|sign| sign.end > hit.start) {
                signs.pop();
            }
            gate = hit.end;
        }
        signs.push(hit);
    }
    signs
}

/// Every phrase of a sentence, in order of their ends.
pub(super) fn phrases(view: &View, sentence: &Range<usize>, seams: &[usize]) -> Vec<Hit> {
    let mut hits = Vec::new();
    PHRASES.find(&view.text, sentence.clone(), seams, &mut hits);
    own::left_out(&view.text, sentence, &mut hits);
    hits
}

/// A role's name where a line begins, as in a transcript.
pub(super) fn names_a_turn(view: &View, role: Hit) -> bool {
    view.text.as_bytes().get(role.end) == Some(&b':')
        && view.lines.binary_search_by_key(&role.start, |(line, _)| *line as usize).is_ok()
}

/// No word goes on here.
fn parts_words(text: &str, at: usize) -> bool {
    let (before, behind) = text.split_at_checked(at).unwrap_or_default();
    !(before.ends_with(is_worded) && behind.starts_with(is_worded))
}

/// A letter or digit of a script that parts words by spaces.
fn is_worded(c: char) -> bool {
    c.is_alphanumeric() && c < '\u{e00}'
}

fn spelled() -> impl Iterator<Item = Phrase> {
    phrases::PHRASES.iter().flat_map(|(mark, spelled)| {
        spelled.split(';').map(|phrase| {
            let stem = phrase.strip_suffix('*');
            let text = normalise::fold(stem.unwrap_or(phrase));
            Phrase { text, mark: *mark, within: (false, stem.is_some()) }
        })
    })
}

/// The phrases of [`phrases::JOINED`], with and without spaces.
fn joined() -> impl Iterator<Item = Phrase> {
    let [verbs, alls, scopes, objects] = phrases::JOINED;
    let mut found = Vec::new();
    for verb in verbs {
        for all in alls {
            for scope in scopes.iter().filter(|scope| !(all.is_empty() && scope.is_empty())) {
                for object in objects {
                    let words = [*verb, *all, *scope, *object];
                    let spaced = words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
                    // With spaces it is a phrase like others, worth less where its words are common.
                    let worth = if scope.is_empty() { 45 } else { 85 };
                    let phrase = |text, worth| Phrase { text, mark: phrases::joined(worth), within: (true, true) };
                    found.push(phrase(spaced.replace(' ', ""), 85));
                    found.push(phrase(spaced, worth));
                }
            }
        }
    }
    found.into_iter()
}

fn signs_of_phrases() -> impl Iterator<Item = Phrase> {
    let [verbs, ..] = phrases::JOINED;
    let begun = verbs.iter().map(|verb| Phrase { text: (*verb).to_owned(), mark: Mark::Joined, within: (true, true) });
    spelled().filter(|phrase| phrase.mark.is_sign()).chain(begun)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn automata_are_built_and_the_quick_one_is_small() {
        assert!(FOREIGN_SIGNS.search.is_some() && PHRASES.search.is_some());
        let bytes = SIGNS.search.as_ref().unwrap().memory_usage();
        assert!(bytes < 8 << 20, "{bytes}");
    }

    /// One phrase of each mark that is no sign, in every order of two: no sentence of them is told.
    #[test]
    fn nothing_is_told_without_a_sign() {
        let common = phrases::PHRASES.iter().filter(|(mark, _)| !mark.is_sign());
        let words: Vec<&str> = common.map(|(_, spelled)| spelled.split(';').next().unwrap_or_default()).collect();
        assert!(words.len() > 10);
        for first in &words {
            for second in &words {
                let text = format!("{first} {} {second} {}", words.join(" "), words.join(" "));
                let view = normalise::view(text.as_bytes());
                let all = 0..view.text.len();
                let scores = super::super::score::sentence(&view, &all, &phrases(&view, &all, &[]), false);
                let told = scores.iter().flat_map(|scores| scores.told()).collect::<Vec<_>>();
                assert_eq!(told, [], "{text}");
            }
        }
    }
}
