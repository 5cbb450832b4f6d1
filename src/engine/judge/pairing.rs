//! Which call a start or a result means.
//!
//! By its id, where calls have one. Calls of a model and of several MCP servers may share one: then tool and server
//! say which is meant, and where they leave it open, the one of which less may happen. Gemini's mostly have none,
//! and a host that runs them makes up its own: there, a start means the call of that tool with the arguments that it
//! names, or the first that was not started, and the id that it names is the call's from then on. Results in a request answer the calls of the turn before them in order, tool by tool.

use super::Run;
use super::call::is_rpc;
use crate::engine::digest::hex;
use crate::engine::event::{Name, ResultItem};
use crate::engine::state::{Call, CallStatus, Session, clip};
use std::borrow::Cow;
use std::collections::HashMap;

/// What a host says of the call that it started or that answered.
#[derive(Clone, Copy)]
pub(super) struct Naming<'v> {
    pub id: &'v [u8],
    /// Empty where it is not said, like the others.
    pub tool: &'v [u8],
    pub server: &'v [u8],
    pub arguments_sha256: &'v [u8],
}

impl Naming<'_> {
    fn fits(&self, call: &Call) -> bool {
        let same = |said: &[u8], known: &[u8]| said.is_empty() || known.is_empty() || *clip(said) == *known;
        same(self.tool, &call.name) && same(self.server, call.server.as_deref().unwrap_or_default())
    }
    /// Of the calls with this id that fit, or of all if none does, the latest of each source; of those one that
    /// may not run, else the one that has these arguments, else one that is not done.
    fn call(&self, session: &Session<'_>, done: impl Fn(&Call) -> bool) -> Option<u32> {
        let any = session.calls_by_id(self.id).any(|(_, call)| self.fits(call));
        let mut sources: Vec<(bool, Option<&[u8]>)> = Vec::new();
        let mut found = None;
        for (n, call) in session.calls_by_id(self.id).filter(|(_, call)| !any || self.fits(call)) {
            let source = (is_rpc(session, call), call.server.as_deref());
            if sources.contains(&source) {
                continue;
            }
            sources.push(source);
            let (n, call) = first_of(session, self.id, (n, call));
            let barred = call.status != CallStatus::Final || call.cancelled;
            let exact = call.sha256.is_some_and(|sha| is_hex(self.arguments_sha256, &sha));
            found = found.max(Some((barred, exact, !done(call), n)));
        }
        found.map(|(.., n)| n)
    }
}

/// The call of a model's that has this id: requests and responses of models name no others.
pub(super) fn model_call(session: &Session<'_>, id: &[u8]) -> Option<u32> {
    let latest = session.calls_by_id(id).find(|(_, call)| !is_rpc(session, call));
    latest.map(|latest| first_of(session, id, latest).0)
}

/// Where a response says one and the same call again, what follows answers the first of them.
fn first_of<'s>(session: &'s Session<'_>, id: &[u8], (n, call): (u32, &'s Call)) -> (u32, &'s Call) {
    let same = |other: &Call| {
        let known = call.sha256.is_some() && other.sha256 == call.sha256;
        known && other.exchange == call.exchange && other.status == call.status && other.name == call.name
    };
    session.calls_by_id(id).filter(|(_, other)| same(other)).last().unwrap_or((n, call))
}

impl<'r> Run<'_, 'r> {
    /// The call that a host names. `done`: whether it cannot mean this one any more.
    pub(super) fn call_of(
        &self,
        session: &mut Session<'_>,
        naming: Naming<'_>,
        done: impl Fn(&Call) -> bool,
    ) -> Option<u32> {
        if let Some(n) = naming.call(session, &done) {
            return Some(n);
        }
        let Naming { id, tool, arguments_sha256, .. } = naming;
        let fits = |call: &Call| (tool.is_empty() || call.name == tool) && call.item_id.is_empty() && !done(call);
        // What it says of the arguments tells more than the order.
        let exact = |call: &Call| call.sha256.is_some_and(|sha| is_hex(arguments_sha256, &sha));
        let open = || session.without_ids().filter(|(_, call)| fits(call));
        let n = open().find(|(_, call)| exact(call)).or_else(|| open().next()).map(|(n, _)| n)?;
        session.adopt(n, id);
        Some(n)
    }
}

fn is_hex(text: &[u8], digest: &[u8; 32]) -> bool {
    text.len() == 64 && hex(digest).as_bytes().eq_ignore_ascii_case(text)
}

/// What a result calls its tool, on the wire.
pub(super) fn tool_of<'r>(result: &ResultItem<'r>) -> Cow<'r, [u8]> {
    match result.tool {
        Name::Wire(name) => name.text().unwrap_or_default(),
        Name::Implied(name) => Cow::Borrowed(name.as_bytes()),
        Name::None => Cow::default(),
    }
}

/// The results of a request that bear no id, numbered tool by tool within the latest group of them: those before
/// it answered calls of earlier turns.
#[derive(Default)]
pub(super) struct InOrder<'r> {
    group: Option<u32>,
    seen: HashMap<Cow<'r, [u8]>, usize>,
    /// Result to its number.
    numbers: HashMap<usize, usize>,
}

impl<'r> InOrder<'r> {
    pub fn add(&mut self, at: usize, group: u32, result: &ResultItem<'r>) {
        if result.call_id.is_some() {
            return;
        }
        if self.group != Some(group) {
            *self = Self { group: Some(group), ..Self::default() };
        }
        let next = self.seen.entry(tool_of(result)).or_default();
        self.numbers.insert(at, *next);
        *next += 1;
    }
    /// The call that the result at this place answers.
    pub fn call(&self, session: &Session<'_>, at: usize, result: &ResultItem<'_>) -> Option<u32> {
        let number = *self.numbers.get(&at)?;
        let tool = tool_of(result);
        let mut calls = session.without_ids().filter(|(_, call)| call.name == *tool);
        calls.nth(number).map(|(n, _)| n)
    }
}
