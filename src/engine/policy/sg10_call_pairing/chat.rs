//! Chat: `tool` messages directly behind the calls, one for each id (`provider-formats` §3.5).

use super::super::Report;
use super::{
    Answer, Asked, DUPLICATE_ANSWER, Elsewhere, History, INVALID_ID, MISSING_RESULT, ORPHAN_RESULT, WRONG_ROLE, late,
    refuse,
};
use crate::engine::event::Party;
use crate::engine::json::Value;
use std::collections::{HashMap, HashSet};

pub(super) const MISSING: &str = "an assistant message with 'tool_calls' must be followed by tool messages";
const ORPHAN: &str = "messages with role 'tool' must be a response to a preceding message with 'tool_calls'";
const ID: &str = "tool_call_id is required";
const ROLE: &str = "tool_calls stand in assistant messages";

/// The calls of one run of assistant messages, and how they are answered.
#[derive(Default)]
struct Turn<'h, 'r> {
    calls: HashMap<&'h [u8], &'h Asked<'r>>,
    answered: HashSet<&'h [u8]>,
    /// A tool message was seen behind them.
    replied: bool,
}

pub(super) fn check<'r>(history: &History<'r>, elsewhere: &mut Elsewhere<'_>, report: &mut Report<'r>) {
    let mut asked = history.asked.iter().peekable();
    let mut answers = history.answers.iter().peekable();
    let mut turns: Vec<Turn<'_, 'r>> = vec![Turn::default()];
    // Which turn a call belongs to, the latest one of that id.
    let mut turn_of: HashMap<&[u8], usize> = HashMap::new();
    let mut open = true;
    let first = history.turns.iter().position(|(party, _)| *party == Party::Model);
    let mut behind: Vec<(usize, &Answer<'r>)> = Vec::new();
    for (order, (party, _)) in history.turns.iter().enumerate() {
        let call = asked.next_if(|asked| asked.order == order);
        let answer = answers.next_if(|answer| answer.order == order);
        let replied = turns.last().is_some_and(|turn| turn.replied);
        match party {
            Party::Model if replied || !open => {
                turns.push(Turn::default());
                open = true;
            }
            Party::Model | Party::Tool => {}
            // Another role between the calls and their results.
            Party::User | Party::System | Party::Unknown => open &= turns.last().is_some_and(|t| t.calls.is_empty()),
        }
        let last = turns.len().saturating_sub(1);
        if let Some(call) = call {
            if call.party != Party::Model {
                refuse(report, &WRONG_ROLE, call.facts.item, ROLE);
            } else if !call.id.is_empty() {
                turn_of.insert(&call.id, last);
                if let Some(turn) = turns.last_mut() {
                    turn.calls.insert(&call.id, call);
                }
            } else if !is_legacy(call.facts.item) {
                refuse(report, &INVALID_ID, call.facts.item, ID);
            }
        }
        let Some(answer) = answer else { continue };
        if answer.id.is_empty() {
            if !answer.item.get("role").is_some_and(|role| role.is("function")) {
                refuse(report, &INVALID_ID, answer.item, ID);
            }
            continue;
        }
        let id: &[u8] = &answer.id;
        let own = turn_of.get(id).copied();
        let Some(turn) = own.and_then(|own| turns.get_mut(own)) else {
            match elsewhere.is_kept() && first.is_none_or(|first| first > order) {
                true => elsewhere.answers(id),
                false => refuse(report, &ORPHAN_RESULT, answer.item, ORPHAN),
            }
            continue;
        };
        turn.replied |= own == Some(last) && open;
        match turn.answered.insert(id) {
            false => refuse(report, &DUPLICATE_ANSWER, answer.item, ORPHAN),
            true if own != Some(last) || !open => behind.push((own.unwrap_or_default(), answer)),
            true => {}
        }
    }
    for (own, answer) in behind {
        let in_time = turns.get(own).is_some_and(|turn| turn.replied);
        late(report, in_time, answer.item, MISSING);
    }
    let open = |turn: &Turn<'_, 'r>| -> Vec<Value<'r>> {
        let calls = turn.calls.iter().filter(|(id, _)| !turn.answered.contains(*id));
        calls.map(|(_, asked)| asked.facts.item).collect()
    };
    for item in turns.iter().flat_map(open) {
        refuse(report, &MISSING_RESULT, item, MISSING);
    }
}

/// The older form, whose calls have a name in place of an id.
fn is_legacy(item: Value<'_>) -> bool {
    item.key().is_some_and(|key| key.is("function_call"))
}
