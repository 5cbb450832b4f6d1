//! What a request offers its model: the agent's own tools, and those that it took from a server. What its history
//! brings (a search's output, `additional_tools`, `tool_addition`) is looked at for the second only: the same tool
//! may stand in there with fewer members than in the request's list.

use super::super::{Evidence, Place, Report, RequestSubject, View};
use super::lists::text_of;
use super::{CHANGED_TOOL, Options, UNPINNED_TOOL};
use crate::engine::decision::Decision;
use crate::engine::pins::canonical::{Fingerprint, TEXT, brief};
use crate::engine::pins::{Stands, own_agent};
use crate::engine::state::Listed;
use std::collections::HashMap;

pub(super) fn check<'r>(options: &Options, request: &RequestSubject<'_, 'r>, view: &View<'_>, report: &mut Report<'r>) {
    if request.own.is_empty() {
        return;
    }
    let first = view.conversation.own_tools(&own_agent(view.fleet, view.agent));
    let first: HashMap<[u8; 8], [u8; 8]> = first.into_iter().flat_map(|own| own.tools.iter().copied()).collect();
    let mut taken: HashMap<[u8; 8], Vec<&Listed>> = HashMap::new();
    for listed in view.conversation.listed() {
        if let Some(text) = listed.parts.get(TEXT).filter(|text| **text != [0; 8]) {
            taken.entry(*text).or_default().push(listed);
        }
    }
    for (tool, print) in request.own {
        let Some(name) = text_of(tool.name) else { continue };
        let place = Place::Value { value: tool.item, range: None };
        if let Some(listed) = origin(&name, print, &taken) {
            if let Some((rule, label)) = standing(options, listed, view) {
                report.find(rule, place, Evidence::Label { kind: "pin", label });
            }
        } else if !tool.late && first.get(&brief(&name)).is_some_and(|known| *known != brief(&print.digest)) {
            let label = Evidence::Label { kind: "change", label: "own_tool" };
            report.find_at_most(&CHANGED_TOOL, Decision::Allow, place, label);
        }
    }
}

/// The server's tool that a definition repeats: clients put a name of their own before its name, and write its
/// schema in another dialect, but leave its description alone.
fn origin<'v>(name: &[u8], print: &Fingerprint, taken: &HashMap<[u8; 8], Vec<&'v Listed>>) -> Option<&'v Listed> {
    let same = taken.get(print.parts.get(TEXT)?)?;
    let named = |listed: &&&Listed| listed.name.as_deref().is_some_and(|own| !own.is_empty() && name.ends_with(own));
    same.iter().filter(named).max_by_key(|listed| listed.name.as_ref().map_or(0, Vec::len)).copied()
}

/// What is wrong with a server's tool that was listed in this conversation.
fn standing(options: &Options, listed: &Listed, view: &View<'_>) -> Option<(&'static super::Rule, &'static str)> {
    let capabilities = view.conversation.server_seen(&listed.server).and_then(|seen| seen.capabilities);
    let name = listed.name.as_deref();
    match view.pins.stands(&listed.server, capabilities.as_ref(), name, &listed.digest) {
        Stands::Approved(_) => None,
        Stands::Rejected => Some((&UNPINNED_TOOL, "rejected")),
        Stands::Undecided { other: Some(_) } => Some((&CHANGED_TOOL, "changed")),
        Stands::Undecided { other: None } if options.trust_first => {
            let same = |known: &&Listed| known.server == listed.server && known.name == listed.name;
            let first = view.conversation.listed().find(same)?;
            (first.digest != listed.digest).then_some((&CHANGED_TOOL, "changed"))
        }
        Stands::Undecided { other: None } => Some((&UNPINNED_TOOL, "none")),
    }
}
