//! Anthropic: results in the user message right behind the turn (`provider-formats` §4.3, §4.4, §4.6).

use super::super::Report;
use super::{
    Asked, DUPLICATE_ANSWER, Elsewhere, History, INVALID_ID, MISSING_RESULT, ORPHAN_RESULT, WRONG_ROLE, late, refuse,
};
use crate::engine::event::{Party, ResultShape};
use crate::engine::json::Value;
use std::collections::{HashMap, HashSet};

pub(super) const MISSING: &str = "`tool_use` ids were found without `tool_result` blocks immediately after";
const ORPHAN: &str = "unexpected `tool_use_id` found in `tool_result` blocks";
const TWICE: &str = "each tool_use must have a single result";
const UNIQUE: &str = "`tool_use` ids must be unique";
const PATTERN: &str = "String should match pattern '^[a-zA-Z0-9_-]+$'";
const SERVER_PATTERN: &str = "String should match pattern '^srvtoolu_[a-zA-Z0-9_]+$'";
const ROLE: &str = "tool_use stands in assistant messages, tool_result in user messages";
const RUNNING: &str = "tool use was found without a corresponding tool result block";

pub(super) fn check<'r>(history: &History<'r>, elsewhere: &mut Elsewhere<'_>, report: &mut Report<'r>) {
    let mut clients: HashMap<(u32, &[u8]), &Asked<'r>> = HashMap::new();
    let mut groups: HashMap<&[u8], u32> = HashMap::new();
    for asked in &history.asked {
        ids(asked, report);
        if asked.party != Party::Model {
            refuse(report, &WRONG_ROLE, asked.facts.item, ROLE);
        } else if asked.is_client() && !asked.id.is_empty() {
            groups.insert(&asked.id, asked.group);
            if clients.insert((asked.group, &asked.id), asked).is_some() {
                refuse(report, &INVALID_ID, asked.facts.item, UNIQUE);
            }
        }
    }
    let mut answered: HashSet<(u32, &[u8])> = HashSet::new();
    let mut behind: Vec<(u32, Value<'r>)> = Vec::new();
    for answer in &history.answers {
        if answer.party != Party::User || answer.shape == ResultShape::Server {
            refuse(report, &WRONG_ROLE, answer.item, ROLE);
            continue;
        }
        if !is_plain(&answer.id) {
            refuse(report, &INVALID_ID, answer.item, PATTERN);
            continue;
        }
        let id: &[u8] = &answer.id;
        let turn = answer.group.checked_sub(1).map(|group| (group, id)).filter(|turn| clients.contains_key(turn));
        match (turn, groups.get(id)) {
            (Some(turn), _) if !answered.insert(turn) => refuse(report, &DUPLICATE_ANSWER, answer.item, TWICE),
            (Some(_), _) => {}
            (None, Some(group)) => {
                // Said once, at the result.
                if answered.insert((*group, id)) {
                    behind.push((*group, answer.item));
                } else {
                    refuse(report, &DUPLICATE_ANSWER, answer.item, TWICE);
                }
            }
            (None, None) if elsewhere.is_kept() && !history.begins_before(answer.group) => elsewhere.answers(id),
            (None, None) => refuse(report, &ORPHAN_RESULT, answer.item, ORPHAN),
        }
    }
    let in_time: HashSet<u32> = history.answers.iter().filter_map(|answer| answer.group.checked_sub(1)).collect();
    for (group, item) in behind {
        late(report, in_time.contains(&group), item, ORPHAN);
    }
    for asked in clients.values().filter(|asked| !answered.contains(&(asked.group, &asked.id))) {
        refuse(report, &MISSING_RESULT, asked.facts.item, MISSING);
    }
    servers(history, elsewhere, report);
}

fn ids<'r>(asked: &Asked<'r>, report: &mut Report<'r>) {
    let server = asked.facts.item.get("type").is_some_and(|kind| kind.is("server_tool_use"));
    let rest = asked.id.strip_prefix(b"srvtoolu_");
    let of_server = rest.is_some_and(|rest| is_plain(rest) && !rest.contains(&b'-'));
    match (server, is_plain(&asked.id)) {
        (true, _) if !of_server => refuse(report, &INVALID_ID, asked.facts.item, SERVER_PATTERN),
        (false, false) => refuse(report, &INVALID_ID, asked.facts.item, PATTERN),
        _ => {}
    }
}

fn is_plain(id: &[u8]) -> bool {
    !id.is_empty() && id.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// Calls that the provider runs: their results stand behind them in assistant content, perhaps turns later. One in
/// the latest turn may still be running.
fn servers<'r>(history: &History<'r>, elsewhere: &mut Elsewhere<'_>, report: &mut Report<'r>) {
    let called: HashSet<&[u8]> = history.asked.iter().map(|asked| &*asked.id).collect();
    let ran: HashSet<&[u8]> = history.ran.iter().map(|answer| &*answer.id).collect();
    let latest = history.last_group(Party::Model);
    for asked in history.asked.iter().filter(|asked| !asked.is_client() && asked.party == Party::Model) {
        if Some(asked.group) != latest && !ran.contains(&*asked.id) {
            refuse(report, &MISSING_RESULT, asked.facts.item, RUNNING);
        }
    }
    for answer in &history.ran {
        if answer.party != Party::Model {
            refuse(report, &WRONG_ROLE, answer.item, ROLE);
        } else if !called.contains(&*answer.id) {
            match elsewhere.is_kept() {
                true => elsewhere.answers(&answer.id),
                false => refuse(report, &ORPHAN_RESULT, answer.item, ORPHAN),
            }
        }
    }
}
