//! Tool definitions: sets that exchanges share by digest.
//!
//! An agent sends the same list with every request; it is kept once. Definitions that arrive late make a new
//! set, so that what an earlier call was checked against does not change under it.

use super::codec::SCHEMA_BYTES;
use super::conversation::{Tool, Toolset};
use super::journal::Undo;
use super::session::Session;
use super::store::{clip, tool_bytes};
use sha2::{Digest, Sha256};

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
            None => self.add_toolset(digest, tools(), 0),
        };
        self.refer(exchange, Some(n));
    }

    /// Adds late definitions to the exchange's toolset (a copy with the union; a definition of the same name
    /// replaces the earlier one). `digest` is that of the late definitions.
    pub fn add_tools(&mut self, exchange: u32, digest: [u8; 16], tools: Vec<Tool>) {
        self.end_loan();
        let Some(old) = self.conversation().exchanges.get(&exchange).map(|e| e.toolset) else {
            return;
        };
        let mut union: Vec<Tool> = match old {
            Some(old) => self.conversation().tools.values().filter(|t| t.toolset == old).cloned().collect(),
            None => Vec::new(),
        };
        let (mut changed, omitted) = (old.is_none(), self.omitted(old));
        for tool in tools.into_iter().map(kept) {
            let name = |t: &Tool| (t.server.clone(), t.namespace.clone(), t.name.clone());
            match union.iter_mut().find(|t| name(t) == name(&tool)) {
                Some(known) => {
                    let tool = Tool { toolset: known.toolset, ..tool };
                    changed |= *known != tool;
                    *known = tool;
                }
                None => {
                    changed = true;
                    union.push(tool);
                }
            }
        }
        if !changed {
            return;
        }
        let known = old.and_then(|n| self.conversation().toolsets.get(&n)).map(|t| t.digest);
        let mut hash = Sha256::new();
        hash.update(known.unwrap_or_default());
        hash.update(digest);
        let mut digest = [0; 16];
        digest.copy_from_slice(&hash.finalize()[..16]);
        let n = match self.toolset_of(digest) {
            Some(n) => n,
            None => self.add_toolset(digest, union, omitted),
        };
        self.refer(exchange, Some(n));
    }

    fn omitted(&self, toolset: Option<u32>) -> u32 {
        let toolset = toolset.and_then(|n| self.conversation().toolsets.get(&n));
        toolset.map_or(0, |t| t.omitted)
    }
    fn toolset_of(&self, digest: [u8; 16]) -> Option<u32> {
        let mut sets = self.conversation().toolsets.iter();
        sets.find(|(_, set)| set.digest == digest).map(|(n, _)| *n)
    }

    fn add_toolset(&mut self, digest: [u8; 16], tools: Vec<Tool>, omitted: u32) -> u32 {
        let n = self.number();
        self.log.push(self.key, Undo::Toolset(n, None));
        let mut set = Toolset { digest, omitted };
        for (at, tool) in tools.into_iter().enumerate() {
            let tool = Tool { toolset: n, ..kept(tool) };
            let room = self.limits.conversation_bytes.saturating_sub(self.stored.index.bytes);
            if at >= TOOLS || tool_bytes(&tool) > room {
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

    /// Points the exchange at a toolset and drops the one that is no longer referred to.
    pub(super) fn refer(&mut self, exchange: u32, toolset: Option<u32>) {
        let Some(old) = self.conversation().exchanges.get(&exchange).map(|e| e.toolset) else {
            return;
        };
        if old != toolset {
            self.edit_exchange(exchange, |e| e.toolset = toolset);
            self.release(old);
        }
    }

    /// Drops a toolset if no exchange refers to it.
    pub(super) fn release(&mut self, toolset: Option<u32>) {
        let Some(n) = toolset else { return };
        if self.conversation().exchanges.values().any(|e| e.toolset == Some(n)) {
            return;
        }
        let prior = self.stored.set_toolset(n, None).map(Box::new);
        self.log.push(self.key, Undo::Toolset(n, prior));
        let tools = &self.stored.conversation.tools;
        let dropped: Vec<u32> = tools.iter().filter(|(_, t)| t.toolset == n).map(|(t, _)| *t).collect();
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
