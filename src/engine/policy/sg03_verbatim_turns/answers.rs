//! Gemini's answers: one content for the calls of a turn, in their order, each an object.

use super::super::{Evidence, Place, Report, RequestSubject, ResultSubject, TurnKind};
use super::{RESPONSE_NOT_OBJECT, SPLIT_PARALLEL_ANSWERS, Said};
use crate::engine::decision::Decision;
use crate::engine::event::{Executor, Name, Party, ResultShape};
use crate::engine::json::{Kind, Value};
use crate::engine::layer::{Edit, Span};
use std::borrow::Cow;

const COUNT: &str = "number of function response parts is equal to the number of function call parts";
const ORDER: &str = "function responses stand in the order of their calls";

/// A call or an answer, as far as one is found by the other.
struct Half<'r> {
    id: Cow<'r, [u8]>,
    name: Cow<'r, [u8]>,
    message: u32,
    item: Value<'r>,
}

/// The answers to each turn's calls stand together and in order. That there is one for each is SG10's.
pub(super) fn check<'r>(request: &RequestSubject<'_, 'r>, said: &mut Said<'_, 'r>) {
    let (mut asked, mut answers): (Vec<Half<'r>>, Vec<Half<'r>>) = (Vec::new(), Vec::new());
    let mut group = None;
    for turn in request.turns.iter().filter(|turn| matches!(turn.at.party, Party::Model | Party::User)) {
        if group.replace(turn.at.group).is_some_and(|last| last != turn.at.group) && turn.at.party == Party::Model {
            together(&asked, &answers, said);
            (asked, answers) = (Vec::new(), Vec::new());
        }
        let message = turn.at.message;
        match turn.kind {
            TurnKind::Call(call) if call.executor == Executor::Client && turn.at.party == Party::Model => {
                let (id, name) = (text(call.id), named(call.name));
                asked.push(Half { id, name, message, item: call.item });
            }
            TurnKind::Result(at) => {
                let Some(result) = request.results.get(at).map(|result| &result.item) else { continue };
                if result.shape == ResultShape::GeminiResponse {
                    let (id, name) = (text(result.call_id), named(result.tool));
                    answers.push(Half { id, name, message, item: result.item });
                }
            }
            _ => {}
        }
    }
    together(&asked, &answers, said);
}

fn together<'r>(asked: &[Half<'r>], answers: &[Half<'r>], said: &mut Said<'_, 'r>) {
    let Some(first) = answers.first().filter(|_| !asked.is_empty()) else { return };
    if let Some(apart) = answers.iter().find(|answer| answer.message != first.message) {
        return said.refuse(&SPLIT_PARALLEL_ANSWERS, apart.item, COUNT);
    }
    // Where all have ids they are told by them, else by their names.
    let by_id = asked.iter().chain(answers).all(|half| !half.id.is_empty());
    let key = |half: &Half<'r>| if by_id { half.id.to_vec() } else { half.name.to_vec() };
    let sorted = |halves: &[Half<'r>]| {
        let mut keys: Vec<Vec<u8>> = halves.iter().map(key).collect();
        keys.sort_unstable();
        keys
    };
    let other = asked.iter().zip(answers).find(|(call, answer)| key(call) != key(answer));
    if let Some((_, answer)) = other
        && sorted(asked) == sorted(answers)
    {
        said.refuse(&SPLIT_PARALLEL_ANSWERS, answer.item, ORDER);
    }
}

fn text(value: Option<Value<'_>>) -> Cow<'_, [u8]> {
    value.and_then(|value| value.text()).unwrap_or_default()
}

fn named(name: Name<'_>) -> Cow<'_, [u8]> {
    match name {
        Name::Wire(value) => value.text().unwrap_or_default(),
        Name::Implied(_) | Name::None => Cow::default(),
    }
}

/// `response` is an object; what is none becomes one, with the value under `result`.
pub(super) fn check_result<'r>(subject: &ResultSubject<'_, 'r>, report: &mut Report<'r>) {
    let Some(content) = subject.result.content.filter(|_| subject.result.shape == ResultShape::GeminiResponse) else {
        return;
    };
    if content.kind() == Kind::Object {
        return;
    }
    let place = Place::Value { value: content, range: None };
    if report.find(&RESPONSE_NOT_OBJECT, place, Evidence::None) == Decision::Redact {
        let span = content.span();
        let at = |offset| Span { start: offset, end: offset, ..span };
        report.edit(Edit::new(at(span.start), b"{\"result\":".to_vec()));
        report.edit(Edit::new(at(span.end), b"}".to_vec()));
    }
}
