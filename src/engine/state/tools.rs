//! Tool definitions: sets that exchanges share by digest.
//!
//! An agent sends the same list with every request; it is kept once. Definitions that arrive late go
//! into a set of their own behind it, which grows: one entry for each, whatever the request declared.

use super::codec::SCHEMA_BYTES;
use super::conversation::{Exchange, ResponseState, Tool, Toolset};
use super::journal::Undo;
use super::session::Session;
use super::store::{clip, tool_bytes, tool_hash};
use crate::engine::event::ToolFamily;

/// Definitions kept of one set.
const TOOLS: usize = 1024;

impl Session<'_> {
    /// Sets the exchange's toolset: the one with this digest if the conversation has it, else a new one made
    /// of `tools()` (called only then). Toolsets no exchange refers to any more are dropped.
    pub fn set_toolset(&mut self, exchange: u32, digest: [u8; 16], tools: &mut dyn FnMut() -> Vec<Tool>) {
        self.end_loan();
        if !self.conversation().exchanges.contains_key(&exchange) {
            return;
        }
        let n = match self.toolset_of(digest) {
            Some(n) => n,
            None => {
                let tools = tools();
                self.make_room(exchange, tools.iter().map(tool_bytes).sum());
                self.add_toolset(digest, tools)
            }
        };
        self.refer(exchange, Some(n), None);
    }

    /// Adds late definitions to the exchange: to a toolset of their own, `Exchange::late`, made with the first
    /// of them. A late definition never replaces one of the request, unless it is withheld; among themselves the
    /// latest counts.
    /// `digest` is that of the late definitions.
    pub fn add_tools(&mut self, exchange: u32, digest: [u8; 16], tools: Vec<Tool>) {
        self.end_loan();
        let Some(known) = self.conversation().exchanges.get(&exchange) else { return };
        let (own, mut late) = (known.toolset, known.late);
        for tool in tools.into_iter().map(kept) {
            let withheld = tool.family == ToolFamily::Withheld;
            if !withheld && own.is_some_and(|own| self.tool_in(own, &tool).is_some()) {
                continue;
            }
            let n = match late {
                Some(n) => n,
                None => {
                    let n = self.number();
                    self.log.push(self.key, Undo::Toolset(n, None));
                    self.stored.set_toolset(n, Some(Toolset { digest, omitted: 0, stale: false }));
                    self.edit_exchange(exchange, |e| e.late = Some(n));
                    late = Some(n);
                    n
                }
            };
            self.add_late(n, Tool { toolset: n, ..tool });
        }
    }

    fn add_late(&mut self, set: u32, tool: Tool) {
        let known = self.tool_in(set, &tool);
        let prior = known.and_then(|t| self.conversation().tools.get(&t));
        if prior == Some(&tool) {
            return;
        }
        let held = self.stored.index.tools_in.get(&set).copied().unwrap_or(0);
        let full = known.is_none() && held >= TOOLS;
        if full || tool_bytes(&tool) > self.room_for_definitions(true) {
            self.omit(set);
            return;
        }
        let t = match known {
            Some(t) => t,
            None => self.number(),
        };
        let prior = self.stored.set_tool(t, Some(tool)).map(Box::new);
        self.log.push(self.key, Undo::Tool(t, prior));
    }

    /// Lets go of definitions that earlier requests declared, the oldest first, where their responses are over: an
    /// agent may declare others with every request.
    fn make_room(&mut self, keep: u32, bytes: u64) {
        while self.room_for_definitions(false) < bytes {
            let over = |(n, e): &(&u32, &Exchange)| {
                let open = self.stored.index.open_in.contains_key(n);
                **n != keep && e.toolset.is_some() && e.response == ResponseState::Ended && !open
            };
            let Some((n, late)) = self.conversation().exchanges.iter().find(over).map(|(n, e)| (*n, e.late)) else {
                return;
            };
            self.refer(n, None, late);
        }
    }

    /// Bytes that definitions may still take. A server that lists very much must leave room for calls and for what
    /// requests declare.
    fn room_for_definitions(&self, late: bool) -> u64 {
        let limit = self.limits.conversation_bytes;
        let share = if late { limit / 4 } else { limit / 2 };
        let of_kind = share.saturating_sub(self.stored.index.defined[usize::from(late)]);
        of_kind.min(limit.saturating_sub(self.stored.index.bytes))
    }

    /// Counts a late definition that is not kept.
    fn omit(&mut self, set: u32) {
        let Some(prior) = self.conversation().toolsets.get(&set).cloned() else { return };
        let omitted = prior.omitted.saturating_add(1);
        self.log.push(self.key, Undo::Toolset(set, Some(Box::new(prior.clone()))));
        self.stored.set_toolset(set, Some(Toolset { omitted, ..prior }));
    }

    /// The definition of that name in a set.
    fn tool_in(&self, set: u32, like: &Tool) -> Option<u32> {
        let hash = tool_hash(like);
        let name = |t: &Tool| t.server == like.server && t.namespace == like.namespace && t.name == like.name;
        let mut alike = self.stored.index.tools.range((set, hash, 0)..=(set, hash, u32::MAX)).map(|(.., t)| *t);
        alike.find(|t| self.conversation().tools.get(t).is_some_and(name))
    }

    fn toolset_of(&self, digest: [u8; 16]) -> Option<u32> {
        // Late definitions are never shared by digest.
        let late = |n: u32| self.conversation().exchanges.values().any(|e| e.late == Some(n));
        let mut sets = self.conversation().toolsets.iter();
        sets.find(|(n, set)| set.digest == digest && !late(**n)).map(|(n, _)| *n)
    }

    fn add_toolset(&mut self, digest: [u8; 16], tools: Vec<Tool>) -> u32 {
        let n = self.number();
        self.log.push(self.key, Undo::Toolset(n, None));
        let mut set = Toolset { digest, omitted: 0, stale: false };
        for (at, tool) in tools.into_iter().enumerate() {
            let tool = Tool { toolset: n, ..kept(tool) };
            if at >= TOOLS || tool_bytes(&tool) > self.room_for_definitions(tool.late) {
                set.omitted = set.omitted.saturating_add(1);
                continue;
            }
            let t = self.number();
            self.log.push(self.key, Undo::Tool(t, None));
            self.stored.set_tool(t, Some(tool));
        }
        self.stored.set_toolset(n, Some(set));
        n
    }

    /// Points the exchange at its toolsets and drops those that are no longer referred to.
    pub(super) fn refer(&mut self, exchange: u32, toolset: Option<u32>, late: Option<u32>) {
        let Some(old) = self.conversation().exchanges.get(&exchange).map(|e| (e.toolset, e.late)) else {
            return;
        };
        if old != (toolset, late) {
            self.edit_exchange(exchange, |e| (e.toolset, e.late) = (toolset, late));
            self.release(old.0);
            self.release(old.1);
        }
    }

    /// Drops a toolset if no exchange refers to it.
    pub(super) fn release(&mut self, toolset: Option<u32>) {
        let Some(n) = toolset else { return };
        if self.conversation().exchanges.values().any(|e| e.toolset == toolset || e.late == toolset) {
            return;
        }
        let prior = self.stored.set_toolset(n, None).map(Box::new);
        self.log.push(self.key, Undo::Toolset(n, prior));
        let tools = self.stored.index.tools.range((n, 0, 0)..=(n, u64::MAX, u32::MAX));
        let dropped: Vec<u32> = tools.map(|(.., t)| *t).collect();
        for t in dropped {
            let prior = self.stored.set_tool(t, None).map(Box::new);
            self.log.push(self.key, Undo::Tool(t, prior));
        }
    }
}

/// A definition as it is kept: small enough for one entry.
fn kept(tool: Tool) -> Tool {
    let large = tool.schema.as_ref().is_some_and(|s| s.len() > SCHEMA_BYTES);
    let clipped = |text: Vec<u8>| clip(&text).into_owned();
    Tool {
        name: clipped(tool.name),
        namespace: tool.namespace.map(clipped),
        server: tool.server.map(clipped),
        schema: tool.schema.filter(|_| !large),
        schema_omitted: tool.schema_omitted || large,
        ..tool
    }
}
