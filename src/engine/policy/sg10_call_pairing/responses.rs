//! OpenAI and xAI Responses: one output for each call before the model's next turn (`provider-formats` §2.6, §5.4).

use super::super::Report;
use super::{DUPLICATE_ANSWER, Elsewhere, History, INVALID_ID, MISSING_RESULT, ORPHAN_RESULT, late, refuse};
use crate::engine::event::{Form, Provider};
use crate::engine::json::Value;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet, VecDeque};

pub(super) const MISSING: &str = "No tool output found for function call";
const ORPHAN: &str = "No tool call found for function call output";
const LENGTH: &str = "call_id has 1 to 64 characters";

/// Longest `call_id` of OpenAI's, characters.
const ID_CHARS: usize = 64;

pub(super) fn check<'r>(
    history: &History<'r>,
    provider: Provider,
    elsewhere: &mut Elsewhere<'_>,
    report: &mut Report<'r>,
) {
    let mut by_id: HashMap<Cow<'r, [u8]>, VecDeque<usize>> = HashMap::new();
    for (ix, asked) in history.asked.iter().enumerate() {
        let by_item = is_answered_by_item(asked.facts.item);
        let unnamed = asked.facts.id.is_none() && asked.is_client() && !by_item;
        if unnamed || is_long(&asked.id, provider) {
            refuse(report, &INVALID_ID, asked.facts.item, LENGTH);
        }
        by_id.entry(asked.id.clone()).or_default().push_back(ix);
        let item = asked.facts.item_id.filter(|_| by_item).and_then(|id| id.text());
        if let Some(item) = item.filter(|item| **item != *asked.id) {
            by_id.entry(item).or_default().push_back(ix);
        }
    }
    let mut answered: HashSet<usize> = HashSet::new();
    let mut searches = history
        .asked
        .iter()
        .enumerate()
        .filter(|(_, asked)| asked.facts.form == Form::JsonValue && *asked.name == *b"tool_search");
    let mut behind: Vec<(u32, Value<'r>)> = Vec::new();
    let mut in_time: HashSet<u32> = HashSet::new();
    for answer in &history.answers {
        let search = answer.item.get("type").is_some_and(|kind| kind.is("tool_search_output"));
        if answer.id.is_empty() && search {
            // Whose it is, its place says.
            let open = searches.by_ref().find(|(ix, _)| !answered.contains(ix)).map(|(ix, _)| ix);
            answered.extend(open);
            continue;
        }
        if answer.id.is_empty() || is_long(&answer.id, provider) {
            refuse(report, &INVALID_ID, answer.item, LENGTH);
            continue;
        }
        let mut calls = by_id.get_mut(&answer.id);
        let mut open = || loop {
            let ix = calls.as_mut()?.pop_front()?;
            if answered.insert(ix) {
                return history.asked.get(ix);
            }
        };
        let Some(asked) = open() else {
            match (calls.is_some(), elsewhere.is_kept()) {
                (true, _) => refuse(report, &DUPLICATE_ANSWER, answer.item, MISSING),
                (false, true) => elsewhere.answers(&answer.id),
                (false, false) => refuse(report, &ORPHAN_RESULT, answer.item, ORPHAN),
            }
            continue;
        };
        match answer.order > asked.order && answer.group <= asked.group.saturating_add(1) {
            true => {
                in_time.insert(asked.group);
            }
            false => behind.push((asked.group, answer.item)),
        }
    }
    for (group, item) in behind {
        late(report, in_time.contains(&group), item, MISSING);
    }
    for (ix, asked) in history.asked.iter().enumerate() {
        if asked.is_client() && !asked.id.is_empty() && !answered.contains(&ix) {
            refuse(report, &MISSING_RESULT, asked.facts.item, MISSING);
        }
    }
}

fn is_long(id: &[u8], provider: Provider) -> bool {
    // Where a character begins.
    let chars = id.iter().filter(|byte| **byte & 0xC0 != 0x80).count();
    provider == Provider::OpenAiResponses && chars > ID_CHARS
}

/// Calls whose answers may name them by the item's own id.
fn is_answered_by_item(item: Value<'_>) -> bool {
    let kind = item.get("type");
    ["local_shell_call", "mcp_approval_request", "tool_search_call"]
        .iter()
        .any(|known| kind.is_some_and(|k| k.is(known)))
}
