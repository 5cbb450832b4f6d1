//! What servers listed of their tools, and what agents declared first: digests, so that a change shows.
//!
//! A definition is remembered by server, name and digest; the one of the least number is what the server said
//! first. Nothing of these is evicted while the conversation lasts: what does not fit is not remembered, so a
//! server that lists very much pushes out nobody's first sight, and its further tools were never seen. Names are
//! text from outside; definitions themselves are not kept.

use super::journal::Undo;
use super::session::Session;
use super::store::clip;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Entries of this kind in one conversation: definitions, and what else there is beside them.
const SEEN: usize = 1024;
const BESIDE: usize = 64;
/// Tools of one agent whose first digests are kept.
const OWN: usize = 1024;
/// Marks of cursors kept of one list.
const CURSORS: usize = 256;

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Seen {
    Server(ServerSeen),
    Listed(Listed),
    Own(OwnTools),
}

/// A server, as the lists of it go.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ServerSeen {
    pub server: Vec<u8>,
    /// Digest of what its client last declared to be able to; `None`: not seen.
    pub capabilities: Option<[u8; 32]>,
    /// Lists begun so far.
    pub round: u32,
    /// Pages of the running list.
    pub pages: u32,
    /// Short digests of the cursors that the running list gave.
    pub cursors: Vec<[u8; 8]>,
    /// One of them came twice.
    pub looped: bool,
}

/// A definition, or a server's instructions (`name` is `None`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    pub server: Vec<u8>,
    pub name: Option<Vec<u8>>,
    pub digest: [u8; 32],
    /// Short digests of its parts.
    pub parts: [[u8; 8]; 5],
    /// The list that showed it last.
    pub round: u32,
}

/// What an agent declared of tools first: short digests of names and definitions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnTools {
    /// Of fleet and agent.
    pub agent: [u8; 16],
    /// Digest of its latest list.
    pub latest: [u8; 16],
    pub tools: Vec<([u8; 8], [u8; 8])>,
}

impl Seen {
    /// What it takes to remember it, bytes.
    pub(super) fn bytes(&self) -> u64 {
        let held = match self {
            Seen::Server(server) => server.server.len() + 8 * server.cursors.len(),
            Seen::Listed(listed) => listed.server.len() + listed.name.as_ref().map_or(0, Vec::len),
            Seen::Own(own) => 16 * own.tools.len(),
        };
        224 + held as u64
    }
}

impl super::Conversation {
    pub fn server_seen(&self, server: &[u8]) -> Option<&ServerSeen> {
        let server = clip(server);
        self.seen.values().find_map(|seen| match seen {
            Seen::Server(known) if known.server == *server => Some(known),
            _ => None,
        })
    }

    /// What servers listed, in order of first sight.
    pub fn listed(&self) -> impl Iterator<Item = &Listed> {
        self.seen.values().filter_map(|seen| match seen {
            Seen::Listed(listed) => Some(listed),
            _ => None,
        })
    }

    pub fn own_tools(&self, agent: &[u8; 16]) -> Option<&OwnTools> {
        self.seen.values().find_map(|seen| match seen {
            Seen::Own(own) if own.agent == *agent => Some(own),
            _ => None,
        })
    }

    /// Whether there is no room for the first sight of another definition.
    pub fn sights_full(&self) -> bool {
        self.seen.len() >= SEEN
    }
}

impl Session<'_> {
    /// What a server's client says that it is able to.
    pub fn saw_capabilities(&mut self, server: &[u8], capabilities: [u8; 32]) {
        self.edit_server(server, |known| known.capabilities = Some(capabilities));
    }

    /// A page of a server's list: the first of a new one, or another. `next`: short digest of the cursor that it
    /// gives.
    pub fn saw_page(&mut self, server: &[u8], first: bool, next: Option<[u8; 8]>) {
        self.edit_server(server, |known| {
            if first {
                known.round = known.round.saturating_add(1);
                (known.pages, known.looped) = (0, false);
                known.cursors.clear();
            }
            known.pages = known.pages.saturating_add(1);
            if let Some(next) = next {
                known.looped |= known.cursors.contains(&next);
                if known.cursors.len() < CURSORS && !known.looped {
                    known.cursors.push(next);
                }
            }
        });
    }

    /// Definitions were listed. Gives, for each, whether it is new to the conversation.
    pub fn saw_listed(&mut self, listed: Vec<Listed>) -> Vec<bool> {
        self.end_loan();
        let mut known: HashMap<(Vec<u8>, Option<Vec<u8>>, [u8; 32]), u32> = HashMap::new();
        for (n, seen) in &self.conversation().seen {
            if let Seen::Listed(l) = seen {
                known.insert((l.server.clone(), l.name.clone(), l.digest), *n);
            }
        }
        let mut new = Vec::with_capacity(listed.len());
        for one in listed {
            let server = clip(&one.server).into_owned();
            let name = one.name.as_deref().map(|name| clip(name).into_owned());
            let one = Listed { server, name, ..one };
            let key = (one.server.clone(), one.name.clone(), one.digest);
            new.push(!known.contains_key(&key));
            match known.get(&key).copied() {
                Some(n) => self.set_seen(n, Seen::Listed(one)),
                None => {
                    if let Some(n) = self.add_seen(Seen::Listed(one)) {
                        known.insert(key, n);
                    }
                }
            }
        }
        new
    }

    /// A list of an agent's tools: those of names that it had not declared before are remembered.
    pub fn saw_own(&mut self, agent: [u8; 16], latest: [u8; 16], tools: &[([u8; 8], [u8; 8])]) {
        self.end_loan();
        let found = self.conversation().seen.iter().find_map(|(n, seen)| match seen {
            Seen::Own(own) if own.agent == agent => Some((*n, own.clone())),
            _ => None,
        });
        let (n, mut own) = match found {
            Some((n, own)) => (Some(n), own),
            None => (None, OwnTools { agent, latest, tools: Vec::new() }),
        };
        own.latest = latest;
        let mut names: std::collections::HashSet<[u8; 8]> = own.tools.iter().map(|(name, _)| *name).collect();
        for tool in tools {
            if own.tools.len() < OWN && names.insert(tool.0) {
                own.tools.push(*tool);
            }
        }
        match n {
            Some(n) => self.set_seen(n, Seen::Own(own)),
            None if own.tools.is_empty() => {}
            None => {
                self.add_seen(Seen::Own(own));
            }
        }
    }

    fn edit_server(&mut self, server: &[u8], edit: impl FnOnce(&mut ServerSeen)) {
        self.end_loan();
        let server = clip(server).into_owned();
        let found = self.conversation().seen.iter().find_map(|(n, seen)| match seen {
            Seen::Server(known) if known.server == server => Some((*n, known.clone())),
            _ => None,
        });
        let (n, mut known) = match found {
            Some((n, known)) => (Some(n), known),
            None => (None, ServerSeen { server, ..ServerSeen::default() }),
        };
        edit(&mut known);
        match n {
            Some(n) => self.set_seen(n, Seen::Server(known)),
            None => {
                self.add_seen(Seen::Server(known));
            }
        }
    }

    /// Nothing where there is no room for it.
    fn add_seen(&mut self, seen: Seen) -> Option<u32> {
        let room = SEEN + if matches!(seen, Seen::Listed(_)) { 0 } else { BESIDE };
        if self.conversation().seen.len() >= room {
            return None;
        }
        let n = self.number();
        self.log.push(self.key, Undo::Seen(n, None));
        self.stored.set_seen(n, Some(seen));
        Some(n)
    }

    fn set_seen(&mut self, n: u32, seen: Seen) {
        if self.conversation().seen.get(&n) != Some(&seen) {
            let prior = self.stored.set_seen(n, Some(seen)).map(Box::new);
            self.log.push(self.key, Undo::Seen(n, prior));
        }
    }
}
