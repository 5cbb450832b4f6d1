//! Which call a start or a result means.
//!
//! By its id, where calls have one. Gemini's mostly have none, and a host that runs them makes up its own: there, a
//! start means the first call of that tool that was not started, and the id that it names is the call's from then
//! on. Results in a request answer the calls of the turn before them in order, tool by tool.

use super::Run;
use crate::engine::event::{Name, ResultItem};
use crate::engine::state::{Call, Session};
use std::borrow::Cow;
use std::collections::HashMap;

impl<'r> Run<'_, 'r> {
    /// The call that a host names. `done`: whether it cannot mean this one any more.
    pub(super) fn call_of(
        &self,
        session: &mut Session<'_>,
        id: &[u8],
        tool: &[u8],
        done: impl Fn(&Call) -> bool,
    ) -> Option<u32> {
        if let Some((n, _)) = session.call_by_id(id) {
            return Some(n);
        }
        let fits = |call: &Call| (tool.is_empty() || call.name == tool) && call.item_id.is_empty() && !done(call);
        let n = session.without_ids().find(|(_, call)| fits(call)).map(|(n, _)| n)?;
        session.adopt(n, id);
        Some(n)
    }
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
