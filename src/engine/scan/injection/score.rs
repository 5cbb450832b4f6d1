//! What the phrases of one sentence are worth together.
//!
//! Each family has a worth of its own; the sentence's score is the greatest of them and half of the others, so
//! that a bid to ignore which also asks for the key is more than either. A bid to act that overrides, hides and
//! leaks nothing never reaches what blocks.

use super::automata::{self, Hit};
use super::phrases::Mark;
use super::{Kind, LEAST, LEAST_OWN, ORDER_AT_MOST, View};
use std::ops::Range;

mod softened;

/// Bytes between a verb and what it is about.
const NEAR: usize = 90;
/// Bytes between what is sent and the rest of the sentence's parts.
const FAR: usize = 160;
/// What may stand between a verb and what turns it around (`do not just ignore`, and not `never mind, ignore`).
const BETWEEN: [&str; 8] = ["", "ever", "just", "simply", "blindly", "silently", "to", "try to"];

/// By kind.
pub(super) struct Scores {
    own: [u32; 7],
}

impl Scores {
    /// The kinds that are told, each with the sentence's score.
    pub fn told(&self) -> impl Iterator<Item = (Kind, u32)> + '_ {
        let most = self.own.iter().copied().max().unwrap_or(0);
        let all: u32 = self.own.iter().sum();
        let mut score = (most + (all - most) / 2).min(100);
        let order = self.own[Kind::ModelOrder as usize];
        if order == most && (all - most) < 30 {
            score = score.min(ORDER_AT_MOST);
        }
        let kinds = Kind::ALL.into_iter().zip(self.own);
        let told = kinds.filter(|(_, own)| *own >= LEAST_OWN).map(move |(kind, _)| (kind, score));
        told.filter(|(_, score)| *score >= LEAST)
    }

    fn raise(&mut self, kind: Kind, to: u32) {
        let own = &mut self.own[kind as usize];
        *own = (*own).max(to);
    }

    fn of(&self, kind: Kind) -> u32 {
        self.own[kind as usize]
    }
}

/// The last of each that was met.
#[derive(Default)]
struct Met {
    verb: Option<(Hit, bool)>,
    object: Option<(Hit, bool)>,
    scope: Option<(Hit, bool)>,
    not: Option<Hit>,
    told: Option<Hit>,
    model: Option<Hit>,
    must: Option<Hit>,
    action: Option<Hit>,
    reply: Option<Hit>,
    reveal: Option<(Hit, bool)>,
    prompt: Option<(Hit, bool)>,
    send: Option<Hit>,
    secret: Option<Hit>,
    to: Option<Hit>,
    role: bool,
    alone: u32,
    /// Where the last of those ended.
    alone_end: usize,
}

/// The scores of a sentence; `None` where nothing is worth telling. `unseen`: it stands where no reader looks.
pub(super) fn sentence(view: &View, sentence: &Range<usize>, hits: &[Hit], unseen: bool) -> Option<Scores> {
    let mut scores = Scores { own: [0; 7] };
    let mut met = Met::default();
    for hit in hits {
        meet(view, sentence, *hit, &mut met, &mut scores);
    }
    let most = softened::most(view, sentence, met.verb, met.object);
    scores.own[Kind::OverridePhrase as usize] = scores.of(Kind::OverridePhrase).min(most);
    images(view, sentence, hits, &mut scores);
    model_order(&met, &mut scores);
    exfiltration(&met, &mut scores);
    // A forged turn that says what the answer must hold is an order given by it.
    let forged = scores.of(Kind::RoleForgery);
    if forged >= 30 && (met.reply.is_some() || (met.must.is_some() && met.action.is_some())) {
        scores.raise(Kind::RoleForgery, forged + 15);
    }
    if met.role {
        let led = scores.own.iter().any(|own| *own >= 30) || (met.must.is_some() && met.action.is_some());
        scores.raise(Kind::RoleForgery, if led { 45 } else { 15 });
    }
    let told = scores.own.iter().any(|own| *own >= LEAST_OWN);
    if unseen && told {
        scores.raise(Kind::HiddenText, 50);
    }
    told.then_some(scores)
}

fn meet(view: &View, sentence: &Range<usize>, hit: Hit, met: &mut Met, scores: &mut Scores) {
    match hit.mark {
        Mark::Verb { weak } => {
            // `do not ignore` turns around, `will ignore` tells; `do not follow` is a verb itself.
            if turned(view, met.not, hit) || softened::turned_behind(view, sentence, hit) {
                return;
            }
            let told = beside(met.told, hit, 2) && (!bidden(view, sentence, hit) || permitted(view, hit));
            if !told && !met.verb.is_some_and(|(known, weak)| !weak && hit.start - known.end.min(hit.start) < 30) {
                met.verb = Some((hit, weak));
            }
        }
        Mark::LastVerb => {
            if let Some((object, weak)) = met.object.filter(|(object, _)| gap(*object, hit) <= NEAR) {
                let scope = met.scope.filter(|(scope, _)| gap(*scope, object) <= NEAR);
                scores.raise(Kind::OverridePhrase, pair(false, scope.map(|(_, weak)| weak), weak));
            }
        }
        Mark::Scope { weak } => {
            let own = softened::own(view, sentence, hit);
            if own == Some(softened::Own::Letter) {
                return;
            }
            let weak = weak || own.is_some();
            if met.scope.is_none_or(|(known, known_weak)| known_weak || !weak || gap(known, hit) > NEAR) {
                met.scope = Some((hit, weak));
            }
            // `the instructions above`.
            if let Some((object, _)) = met.object
                && gap(object, hit) <= 30
            {
                overridden(met, object, scores);
            }
        }
        Mark::Object { weak } => {
            if weak && softened::belongs_to(view, met.verb, hit) {
                return;
            }
            met.object = Some((hit, weak));
            overridden(met, hit, scores);
        }
        Mark::Not => met.not = Some(hit),
        Mark::Told => met.told = Some(hit),
        Mark::Model => {
            met.model.get_or_insert(hit);
        }
        Mark::Must => met.must = Some(hit),
        Mark::Action => {
            if !beside(met.told, hit, 2) || bidden(view, sentence, hit) || met.must.is_some() {
                met.action = Some(hit);
            }
        }
        Mark::Reply => met.reply = Some(hit),
        // `ignore the page and say`.
        Mark::Say => {
            let is_led = |(verb, weak): (Hit, bool)| {
                !weak && verb.end <= hit.start && gap(verb, hit) <= NEAR && !softened::names_a_thing(view, verb, hit)
            };
            if met.verb.is_some_and(is_led) {
                scores.raise(Kind::OverridePhrase, 50);
            }
        }
        Mark::Reveal { weak } => {
            let told = beside(met.told, hit, 2) && !bidden(view, sentence, hit);
            if !turned(view, met.not, hit) && !told && met.reveal.is_none_or(|(_, known)| known) {
                met.reveal = Some((hit, weak));
            }
        }
        Mark::Prompt { weak } => {
            if met.prompt.is_none_or(|(_, known)| known) {
                met.prompt = Some((hit, weak));
            }
        }
        Mark::Send => {
            met.send.get_or_insert(hit);
        }
        Mark::Secret => {
            if !softened::is_harmless(view, sentence, hit) {
                met.secret = Some(hit);
            }
        }
        Mark::To => met.to = Some(hit),
        Mark::Role => met.role |= automata::names_a_turn(view, hit),
        Mark::Alone(kind, worth) => {
            if kind == Kind::OverridePhrase && turned(view, met.not, hit) || softened::is_harmless(view, sentence, hit)
            {
                return;
            }
            // `instructions for ai` and `for ai agents` may be one phrase.
            let is_new = hit.start >= met.alone_end || !matches!(kind, Kind::ModelOrder | Kind::FakeToolResult);
            let more = if scores.of(kind) > 0 && met.alone > 0 && is_new { 10 } else { 0 };
            met.alone += 1;
            met.alone_end = hit.end;
            let known = scores.of(kind);
            scores.raise(kind, (known.max(worth) + more).min(90));
        }
        // Images are looked at by themselves; the rest part the text.
        Mark::Image | Mark::Joined | Mark::CommentOpen | Mark::CommentClose => {}
        Mark::Invisible | Mark::About | Mark::Test | Mark::Gate(_) => {}
    }
}

/// What bids to put instructions aside is a quotation: a mark stands before the first of it, and the same behind.
pub(super) fn is_quoted(view: &View, sentence: &Range<usize>, hits: &[Hit]) -> bool {
    let is_bid = |hit: &&Hit| matches!(hit.mark, Mark::Verb { weak: false } | Mark::Alone(Kind::OverridePhrase, _));
    let Some(bid) = hits.iter().filter(is_bid).min_by_key(|hit| hit.start) else { return false };
    let before = view.text.get(sentence.start..bid.start).and_then(|text| text.chars().next_back());
    let behind = view.text.get(bid.end..sentence.end).unwrap_or_default();
    before.is_some_and(|mark| matches!(mark, '"' | '\'' | '`') && behind.contains(mark))
}

/// Bytes from the end of one to the start of the other; 0 where they touch.
fn gap(first: Hit, second: Hit) -> usize {
    second.start.saturating_sub(first.end)
}

/// `first` ends shortly before `second`.
fn beside(first: Option<Hit>, second: Hit, within: usize) -> bool {
    first.is_some_and(|first| first.end <= second.start && second.start - first.end <= within)
}

/// A verb that is turned around by what stands before it.
fn turned(view: &View, not: Option<Hit>, verb: Hit) -> bool {
    let between = not.and_then(|not| view.text.get(not.end..verb.start));
    between.is_some_and(|between| between.len() < 12 && BETWEEN.contains(&between.trim()))
}

/// A verb behind `to` or `will` is still a bid to the one who reads: `you have to ignore`, `i want you to ignore`.
fn bidden(view: &View, sentence: &Range<usize>, hit: Hit) -> bool {
    let from = sentence.start.max(hit.start.saturating_sub(24));
    let before = (from..hit.start).find_map(|at| view.text.get(at..hit.start)).unwrap_or_default();
    ["you ", "need to ", "have to ", "must "].iter().any(|bid| before.contains(bid))
}

/// A permission is no bid: `you can ignore the instructions above if`.
fn permitted(view: &View, hit: Hit) -> bool {
    let before = view.text.get(..hit.start).unwrap_or_default();
    ["can ", "may ", "might ", "could "].iter().any(|permit| before.ends_with(permit))
}

/// A verb before an object, and the scope between them or around it.
fn overridden(met: &Met, object: Hit, scores: &mut Scores) {
    let Some((verb, weak_verb)) = met.verb else { return };
    if verb.end > object.start || gap(verb, object) > NEAR {
        return;
    }
    let scope = met.scope.filter(|(scope, _)| scope.start >= verb.start).map(|(_, weak)| weak);
    let weak_object = met.object.is_some_and(|(_, weak)| weak);
    scores.raise(Kind::OverridePhrase, pair(weak_verb, scope, weak_object));
}

/// The worth of a verb with its object; `scope`: none, or whether it is weak.
fn pair(weak_verb: bool, scope: Option<bool>, weak_object: bool) -> u32 {
    match (weak_verb, scope, weak_object) {
        (false, Some(false), false) => 85,
        (false, Some(false), true) => 60,
        (false, Some(true), false) => 60,
        (false, Some(true), true) => 35,
        (false, None, false) => 45,
        (false, None, true) => 15,
        (true, Some(false), false) => 55,
        (true, Some(false), true) | (true, Some(true), _) => 20,
        (true, None, _) => 10,
    }
}

fn model_order(met: &Met, scores: &mut Scores) {
    let near = |a: Option<Hit>, b: Option<Hit>| a.zip(b).is_some_and(|(a, b)| gap(a, b) <= FAR && gap(b, a) <= FAR);
    let must = met.must.is_some();
    let worth = match (near(met.model, met.action), near(met.action, met.reply)) {
        (true, true) => 60,
        (true, false) if must => 40,
        (true, false) => 20,
        (false, true) if must => 45,
        (false, true) => 30,
        (false, false) if met.model.is_some() && met.reply.is_some() => 35,
        (false, false) if must && met.action.is_some() => 5,
        (false, false) => 0,
    };
    let known = scores.of(Kind::ModelOrder);
    // What is addressed to a model and bids it act is more than either.
    let both = if known > 0 && must && met.action.is_some() { 15 } else { 0 };
    scores.raise(Kind::ModelOrder, known.max(worth) + both);
}

fn exfiltration(met: &Met, scores: &mut Scores) {
    if let Some(((reveal, weak), (prompt, common))) = met.reveal.zip(met.prompt)
        && gap(reveal, prompt) <= 60
        && gap(prompt, reveal) <= 60
    {
        scores.raise(Kind::Exfiltration, if weak && common { 20 } else { 55 });
    }
    let Some(secret) = met.secret else { return };
    let sent = met.send.is_some_and(|send| gap(send, secret) <= FAR && gap(secret, send) <= FAR);
    let bid = if met.must.is_some() || met.model.is_some() { 15 } else { 0 };
    // A file of keys is no word that others use too.
    let bid = if scores.of(Kind::Exfiltration) >= 40 { bid.max(15) + 5 } else { bid };
    let worth = match (sent, met.to.is_some(), met.reply.is_some()) {
        (true, true, _) => 40 + bid,
        (true, false, true) => 40 + bid,
        (true, false, false) => 10,
        _ => 0,
    };
    scores.raise(Kind::Exfiltration, worth);
}

/// Markdown images, each from its mark to the next one's.
fn images(view: &View, sentence: &Range<usize>, hits: &[Hit], scores: &mut Scores) {
    let starts = hits.iter().filter(|hit| hit.mark == Mark::Image).map(|hit| hit.start);
    let ends = starts.clone().skip(1).chain([sentence.end]);
    if starts.zip(ends).any(|(start, end)| image_that_tells(view.text.get(start..end).unwrap_or_default())) {
        scores.raise(Kind::Exfiltration, 60);
    }
}

/// A Markdown image whose address has a place for something to fill in.
fn image_that_tells(text: &str) -> bool {
    let Some((_, address)) = text.split_once("](http") else { return false };
    let end = address.find([' ', ')']).unwrap_or(address.len());
    let Some((_, query)) = address.get(..end).unwrap_or_default().split_once('?') else { return false };
    let words = ["conversation", "history", "summary", "secret", "user_input", "prompt", "context", "api_key"];
    query.contains(['{', '<', '[', '$']) || words.iter().any(|word| query.contains(word))
}
