//! Gemini: as many responses behind a turn as it has calls, by id or by name (`provider-formats` §6.6).

use super::super::Report;
use super::{
    Answer, Asked, DUPLICATE_ANSWER, Elsewhere, History, MISSING_RESULT, ORPHAN_RESULT, WRONG_ROLE, late, refuse,
};
use crate::engine::event::{Party, ResultShape};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet, VecDeque};

pub(super) const COUNT: &str =
    "the number of function response parts is equal to the number of function call parts of the function call turn";
const TURN: &str = "function response turn comes immediately after a function call turn";
const ROLE: &str = "function calls stand in model contents, function responses in user contents";

/// The calls of one run of model contents that wait for a response.
#[derive(Default)]
struct Turn<'h, 'r> {
    calls: Vec<&'h Asked<'r>>,
    by_id: HashMap<&'h [u8], usize>,
    by_name: HashMap<&'h [u8], VecDeque<usize>>,
    answered: HashSet<usize>,
    ids: HashSet<&'h [u8]>,
}

pub(super) fn check<'r>(history: &History<'r>, elsewhere: &mut Elsewhere<'_>, report: &mut Report<'r>) {
    let mut turns: HashMap<u32, Turn<'_, 'r>> = HashMap::new();
    for asked in &history.asked {
        match asked.party {
            Party::Model if asked.is_client() => {
                let turn = turns.entry(asked.group).or_default();
                if !asked.id.is_empty() {
                    turn.by_id.insert(&asked.id, turn.calls.len());
                }
                turn.by_name.entry(&asked.name).or_default().push_back(turn.calls.len());
                turn.calls.push(asked);
            }
            Party::Model => {}
            _ => refuse(report, &WRONG_ROLE, asked.facts.item, ROLE),
        }
    }
    let named: HashSet<&Cow<'r, [u8]>> = history.asked.iter().map(|asked| &asked.name).collect();
    // Those that are named go first, so that no nameless one takes their calls.
    let (by_id, by_name): (Vec<_>, Vec<_>) = history.answers.iter().partition(|answer| {
        let turn = answer.group.checked_sub(1).and_then(|group| turns.get(&group));
        turn.is_some_and(|turn| turn.by_id.contains_key(&*answer.id))
    });
    for answer in by_id.into_iter().chain(by_name) {
        if answer.party != Party::User || answer.shape == ResultShape::Server {
            refuse(report, &WRONG_ROLE, answer.item, ROLE);
            continue;
        }
        let turn = answer.group.checked_sub(1).and_then(|group| turns.get_mut(&group));
        if turn.is_none() && elsewhere.is_kept() && !history.begins_before(answer.group) {
            elsewhere.answers(&answer.id);
        } else {
            match turn {
                Some(turn) => turn.take(answer, report),
                // Its calls are further up.
                None if named.contains(&answer.name) => late(report, false, answer.item, TURN),
                None => refuse(report, &ORPHAN_RESULT, answer.item, TURN),
            }
        }
    }
    let last = history.turns.iter().map(|(_, group)| *group).max();
    for (group, turn) in &turns {
        // What the model said last need not be answered yet.
        for (ix, asked) in turn.calls.iter().enumerate().filter(|_| Some(*group) != last) {
            if !turn.answered.contains(&ix) {
                refuse(report, &MISSING_RESULT, asked.facts.item, COUNT);
            }
        }
    }
}

impl<'h, 'r> Turn<'h, 'r> {
    fn take(&mut self, answer: &'h Answer<'r>, report: &mut Report<'r>) {
        let id: &[u8] = &answer.id;
        if !id.is_empty() && !self.ids.insert(id) {
            return refuse(report, &DUPLICATE_ANSWER, answer.item, COUNT);
        }
        let of_id = self.by_id.get(id).copied();
        let waiting = self.by_name.get_mut(&*answer.name);
        let of_name = || {
            let waiting = waiting?;
            while let Some(ix) = waiting.pop_front() {
                if !self.answered.contains(&ix) {
                    return Some(ix);
                }
            }
            None
        };
        match of_id.or_else(of_name) {
            Some(ix) => {
                self.answered.insert(ix);
            }
            None => refuse(report, &ORPHAN_RESULT, answer.item, COUNT),
        }
    }
}
