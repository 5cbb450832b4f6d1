//! A server's list, tool by tool, and its instructions.

use super::super::{DefinitionsSubject, Evidence, Place, Report, View};
use super::{
    CHANGED_INSTRUCTIONS, CHANGED_TOOL, ENDLESS_LIST, HIDDEN_TEXT, Options, RENAMED_TOOL, SHADOWED_TOOL, UNPINNED_TOOL,
};
use crate::engine::decision::Decision;
use crate::engine::event::{Name, ToolDef};
use crate::engine::json::{self, JsonLimits, Value};
use crate::engine::layer::Layer;
use crate::engine::pins::canonical::{Fingerprint, SCHEMA, TEXT};
use crate::engine::pins::{Change, Pin, Stands, diff};
use crate::engine::scan::{invisible, names};
use crate::engine::state::{Listed, clip};
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};

/// A definition beyond this is not compared part by part, bytes.
const COMPARED_BYTES: usize = 256 << 10;

/// What is known beside the list.
struct Known<'v> {
    server: Cow<'v, [u8]>,
    capabilities: Option<[u8; 32]>,
    round: u32,
    /// This server's definitions, by name and in order of first sight.
    own: HashMap<Option<&'v [u8]>, Vec<&'v Listed>>,
    /// Looks of the names of other servers' tools, and whether one has exactly that name.
    looks: HashMap<Vec<u8>, HashSet<&'v [u8]>>,
    /// Names of other servers' tools that are no ordinary words.
    others: HashSet<&'v [u8]>,
}

pub(super) fn text_of(name: Name<'_>) -> Option<Cow<'_, [u8]>> {
    match name {
        Name::Wire(value) => value.text(),
        Name::Implied(name) => Some(Cow::Borrowed(name.as_bytes())),
        Name::None => None,
    }
}

pub(super) fn check<'r>(
    options: &Options,
    list: &DefinitionsSubject<'_, 'r>,
    view: &View<'_>,
    report: &mut Report<'r>,
) {
    let known = known(list, view);
    endless(options, list, view, &known, report);
    if let (Some(text), Some(print)) = (list.instructions, list.instructions_print) {
        instructions(options, text, &print, view, &known, report);
    }
    let mut looks: HashMap<Vec<u8>, u32> = HashMap::new();
    let here: Vec<(Option<Cow<'r, [u8]>>, &ToolDef<'r>, &Fingerprint)> =
        list.tools.iter().zip(list.prints).map(|(tool, print)| (text_of(tool.name), tool, print)).collect();
    let listed: HashSet<&[u8]> = here.iter().filter_map(|(name, ..)| name.as_deref()).collect();
    let gone = gone(view, &known, &listed);
    for (name, tool, print) in &here {
        let Some(name) = name else {
            label(report, &UNPINNED_TOOL, Decision::Block, tool.item, ("pin", "no_name"));
            continue;
        };
        let stands = view.pins.stands(&known.server, known.capabilities.as_ref(), Some(name), &print.digest);
        let most = if matches!(stands, Stands::Approved(_)) { Decision::Allow } else { Decision::Block };
        let unknown = judge(options, (name, tool.item, print), stands, (view, &known), report);
        if unknown {
            renamed(name, tool.item, print, &gone, report);
        }
        let look = names::skeleton(name);
        let before = looks.entry(look.clone()).or_default();
        *before += 1;
        if *before > 1 {
            label(report, &SHADOWED_TOOL, most, tool.item, ("shadow", "same_list"));
        }
        shadows(name, &look, tool.item, most, (view, &known, &listed), report);
        hidden(tool.item, most, report);
    }
    removed(list, &known, &listed, report);
}

fn known<'v>(list: &DefinitionsSubject<'_, '_>, view: &View<'v>) -> Known<'v> {
    let server = list.server.and_then(|server| server.text()).map(|text| clip(&text).into_owned()).unwrap_or_default();
    let conversation = view.conversation;
    let seen = conversation.server_seen(&server);
    let mut known = Known {
        capabilities: seen.and_then(|seen| seen.capabilities),
        round: seen.map_or(0, |seen| seen.round),
        own: HashMap::new(),
        looks: HashMap::new(),
        others: HashSet::new(),
        server: Cow::Owned(server),
    };
    for listed in conversation.listed() {
        if *listed.server == *known.server {
            known.own.entry(listed.name.as_deref()).or_default().push(listed);
        } else if let Some(name) = listed.name.as_deref() {
            known.looks.entry(names::skeleton(name)).or_default().insert(name);
            if names::is_distinctive(name) {
                known.others.insert(name);
            }
        }
    }
    known
}

fn label<'r>(
    report: &mut Report<'r>,
    rule: &'static super::Rule,
    most: Decision,
    value: Value<'r>,
    (kind, label): (&'static str, &'static str),
) {
    report.find_at_most(rule, most, Place::Value { value, range: None }, Evidence::Label { kind, label });
}

fn endless<'r>(
    options: &Options,
    list: &DefinitionsSubject<'_, 'r>,
    view: &View<'_>,
    known: &Known<'_>,
    report: &mut Report<'r>,
) {
    let Some(next) = list.next else { return };
    let Some(seen) = view.conversation.server_seen(&known.server) else { return };
    if seen.looped {
        label(report, &ENDLESS_LIST, Decision::Block, next, ("cursor", "repeated"));
    } else if seen.pages >= options.max_pages {
        let count = Evidence::Count { found: u64::from(seen.pages) + 1, limit: u64::from(options.max_pages) };
        report.find(&ENDLESS_LIST, Place::Value { value: next, range: None }, count);
    }
}

fn instructions<'r>(
    options: &Options,
    text: Value<'r>,
    print: &Fingerprint,
    view: &View<'_>,
    known: &Known<'_>,
    report: &mut Report<'r>,
) {
    let stands = view.pins.stands(&known.server, known.capabilities.as_ref(), None, &print.digest);
    let first = known.own.get(&None).and_then(|seen| seen.first());
    let trusted = || match first {
        Some(first) => first.digest == print.digest,
        None => !view.conversation.sights_full(),
    };
    let said = match stands {
        Stands::Approved(_) => None,
        Stands::Rejected => Some("rejected"),
        Stands::Undecided { other: Some(_) } => Some("changed"),
        Stands::Undecided { other: None } if options.trust_first => (!trusted()).then_some("changed"),
        Stands::Undecided { other: None } => Some("none"),
    };
    if let Some(said) = said {
        label(report, &CHANGED_INSTRUCTIONS, Decision::Block, text, ("pin", said));
    }
    hidden(text, if said.is_none() { Decision::Allow } else { Decision::Block }, report);
}

/// Says how a definition stands. True if no pin speaks of a tool of that name.
fn judge<'r>(
    options: &Options,
    (name, item, print): (&[u8], Value<'r>, &Fingerprint),
    stands: Stands<'_>,
    (view, known): (&View<'_>, &Known<'_>),
    report: &mut Report<'r>,
) -> bool {
    match stands {
        Stands::Approved(_) => false,
        Stands::Rejected => {
            label(report, &UNPINNED_TOOL, Decision::Block, item, ("pin", "rejected"));
            false
        }
        Stands::Undecided { other: Some(pin) } => {
            changed(options, changes(pin, item, print, report), report);
            false
        }
        Stands::Undecided { other: None } => {
            let name = clip(name);
            let first = known.own.get(&Some(&*name)).and_then(|seen| seen.first());
            let trusted = options.trust_first && !(first.is_none() && view.conversation.sights_full());
            if !trusted {
                label(report, &UNPINNED_TOOL, Decision::Block, item, ("pin", "none"));
            }
            if let Some(first) = first.filter(|first| first.digest != print.digest) {
                let classes = Change::of_parts(&first.parts, &print.parts);
                changed(options, classes.into_iter().map(|change| (change, item)).collect(), report);
            }
            !trusted
        }
    }
}

/// The classes of change since a pin's definition, and where they show.
fn changes<'r>(pin: &Pin, item: Value<'r>, print: &Fingerprint, report: &Report<'r>) -> Vec<(Change, Value<'r>)> {
    let small = |text: &&[u8]| text.len() <= COMPARED_BYTES && item.span().len() <= COMPARED_BYTES;
    let old = pin.definition.as_deref().filter(small).and_then(|text| {
        let bump = report.bump();
        json::parse(bump, Layer::record(bump, bump.alloc_slice_copy(text)), JsonLimits::default()).ok()
    });
    match (old, &pin.print) {
        (Some(old), _) => diff::changes(old, item),
        (None, Some(old)) => Change::of_parts(&old.parts, &print.parts).into_iter().map(|c| (c, item)).collect(),
        (None, None) => vec![(Change::Unclassified, item)],
    }
}

/// A change passes if all its classes may.
fn changed<'r>(options: &Options, changes: Vec<(Change, Value<'r>)>, report: &mut Report<'r>) {
    let passes = changes.iter().all(|(change, _)| options.allowed_changes.contains(change));
    let most = if passes { Decision::Allow } else { Decision::Block };
    for (change, value) in changes {
        label(report, &CHANGED_TOOL, most, value, ("change", change.name()));
    }
}

/// Tools of this server that are approved or were listed before, and are not listed beside these, by the digest of
/// their schemas: name and digest of the description.
type Gone<'v> = HashMap<[u8; 8], Vec<(&'v [u8], [u8; 8])>>;

/// Candidates of one digest that are looked at.
const CANDIDATES: usize = 8;

fn gone<'v>(view: &View<'v>, known: &Known<'v>, listed: &HashSet<&[u8]>) -> Gone<'v> {
    let of_pins = view.pins.approved(&known.server);
    let of_pins = of_pins.filter_map(|(name, pin)| Some((name, pin.print.as_ref()?.parts)));
    let of_lists = known.own.iter().filter_map(|(name, seen)| Some(((*name)?, seen.first()?.parts)));
    let mut gone = Gone::new();
    for (name, parts) in of_pins.chain(of_lists) {
        // On another page of the running list it is there.
        let seen = known.own.get(&Some(name)).into_iter().flatten();
        let here = listed.contains(name) || seen.into_iter().any(|seen| seen.round == known.round);
        let (text, schema) = (part(&parts, TEXT), part(&parts, SCHEMA));
        let alike = gone.entry(schema).or_default();
        // Tools without parameters are alike by chance.
        if !here && schema != [0; 8] && alike.len() < CANDIDATES {
            alike.push((name, text));
        }
    }
    gone
}

fn part(parts: &[[u8; 8]; 5], at: usize) -> [u8; 8] {
    parts.get(at).copied().unwrap_or_default()
}

fn renamed<'r>(name: &[u8], item: Value<'r>, print: &Fingerprint, gone: &Gone<'_>, report: &mut Report<'r>) {
    let alike = gone.get(&part(&print.parts, SCHEMA)).into_iter().flatten().filter(|(other, _)| *other != name);
    let same = alike.map(|(_, text)| *text == part(&print.parts, TEXT)).max();
    if let Some(same) = same {
        let said = if same { "same_content" } else { "same_schemas" };
        label(report, &RENAMED_TOOL, Decision::Block, item, ("renamed", said));
    }
}

fn shadows<'r>(
    name: &[u8],
    look: &[u8],
    item: Value<'r>,
    most: Decision,
    (view, known, listed): (&View<'_>, &Known<'_>, &HashSet<&[u8]>),
    report: &mut Report<'r>,
) {
    if let Some(alike) = known.looks.get(look) {
        let said = if alike.contains(name) { "same_name" } else { "confusable_name" };
        label(report, &SHADOWED_TOOL, most, item, ("shadow", said));
    }
    let own = |word: &[u8]| word == name || listed.contains(word) || known.own.contains_key(&Some(word));
    let theirs = |word: &[u8]| known.others.contains(word) || view.pins.elsewhere(word, &known.server);
    for (value, is_key) in item.walk() {
        let Some(text) = value.text().filter(|_| !is_key) else { continue };
        if names::words(&text).any(|word| names::is_distinctive(word) && theirs(word) && !own(word)) {
            return label(report, &SHADOWED_TOOL, most, value, ("shadow", "description"));
        }
    }
}

/// Each kind of hidden text once, where it stands first.
fn hidden<'r>(item: Value<'r>, most: Decision, report: &mut Report<'r>) {
    let mut said = BTreeSet::new();
    for (value, _) in item.walk() {
        let Some(text) = value.text() else { continue };
        for (kind, start, end) in invisible::find(&text) {
            if said.insert(kind) {
                let place = Place::Value { value, range: Some((start as u32, end as u32)) };
                let evidence = Evidence::Label { kind: "hidden", label: kind.label() };
                report.find_at_most(&HIDDEN_TEXT, most, place, evidence);
            }
        }
    }
}

/// Tools of the last whole list that this one lacks. A client that can do less is shown less, so it is only said.
fn removed<'r>(list: &DefinitionsSubject<'_, 'r>, known: &Known<'_>, listed: &HashSet<&[u8]>, report: &mut Report<'r>) {
    let Some(array) = list.list.filter(|_| list.next.is_none() && !list.hosted) else { return };
    let gone = known.own.iter().filter_map(|(name, seen)| Some(((*name)?, seen.iter().map(|s| s.round).max()?)));
    let gone = gone.filter(|(name, round)| !listed.contains(name) && round.saturating_add(1) == known.round).count();
    if gone > 0 {
        label(report, &CHANGED_TOOL, Decision::Allow, array, ("change", Change::Removed.name()));
    }
}
