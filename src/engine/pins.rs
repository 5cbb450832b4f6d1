//! Pins: which definitions of MCP tools an operator has approved.
//!
//! A pin is a decision on the digest of a whole definition ([`canonical`]): name, title, description, both
//! schemas, annotations, icons, `_meta`. The order of tools and of members does not matter. A server's
//! instructions are pinned in the same way. Decisions are records of a compacted topic ([`record`]); folded in
//! the order of their offsets they are a [`PinTable`], which the engine is given whole and never changes: a new
//! decision is another table, taken between two transactions.
//!
//! A decision is keyed by server and by what the server's client declared to be able to, since a server lists
//! other tools to other clients. One without capabilities holds for any client: the same text is the same text,
//! whoever asked for it. One with them holds for clients that declared just that; of a client that was not seen
//! to declare anything (a provider, say) it approves nothing. What differs by client is which tools are listed, so
//! an absence is never compared across clients.
//!
//! Invariants: a table is a function of its records; a record that cannot be read approves nothing, and takes
//! an earlier approval under its key away; an approval is of bytes, so a definition that came with it counts
//! only if it has the digest that was approved.
//!
//! Left out: keyed digests. Definitions are published by their servers, operators compare digests across
//! clusters, and a decision must outlive a change of the fingerprint key.

pub mod canonical;
pub mod diff;
pub mod record;

use super::json::{self, JsonLimits, Value};
use super::layer::Layer;
use bumpalo::Bump;
use canonical::Fingerprint;
pub use diff::Change;
use record::{DecisionRecord, Key, Line, RecordError, Standing};
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

/// An agent of a fleet, as whose tools are remembered.
pub fn own_agent(fleet: &str, agent: &str) -> [u8; 16] {
    let mut name = Vec::with_capacity(fleet.len() + agent.len() + 1);
    name.extend_from_slice(fleet.as_bytes());
    name.push(0);
    name.extend_from_slice(agent.as_bytes());
    super::digest::short(super::digest::sha256(&name))
}

/// Order: server, name, digest, client. No name: the server's instructions.
type Place = (Vec<u8>, Option<Vec<u8>>, [u8; 32], Option<[u8; 32]>);

/// A decision.
#[derive(Debug, Clone)]
pub struct Pin {
    pub standing: Standing,
    pub digest: [u8; 32],
    /// `None`: for any client.
    pub capabilities: Option<[u8; 32]>,
    /// The definition in canonical form, where the decision brought the one that it approves.
    pub definition: Option<Arc<[u8]>>,
    pub print: Option<Fingerprint>,
    /// Its hints say that calling the tool changes something.
    pub side_effects: bool,
    /// Of its record.
    pub offset: i64,
}

impl Pin {
    /// Whether it was decided for a client that declared this, `None`: for one of which nothing is known.
    fn holds_for(&self, capabilities: Option<&[u8; 32]>) -> bool {
        self.capabilities.is_none() || self.capabilities.as_ref() == capabilities
    }
}

/// All decisions up to an offset.
#[derive(Debug, Clone, Default)]
pub struct PinTable {
    pins: BTreeMap<Place, Pin>,
    /// Servers by the name of a tool that one of their pins approves.
    names: BTreeMap<Vec<u8>, BTreeSet<Vec<u8>>>,
    offset: Option<i64>,
}

/// How a definition stands with the operator.
#[derive(Debug, Clone, Copy)]
pub enum Stands<'p> {
    Approved(&'p Pin),
    Rejected,
    /// Nobody decided on it; `other`: the latest approval of another definition of that name.
    Undecided {
        other: Option<&'p Pin>,
    },
}

impl PinTable {
    /// The offset of the last record that is in it; `None`: nothing was read.
    pub fn offset(&self) -> Option<i64> {
        self.offset
    }

    pub fn len(&self) -> usize {
        self.pins.len()
    }

    pub fn is_empty(&self) -> bool {
        self.pins.is_empty()
    }

    /// Everything up to this offset is in it, whatever was compacted away.
    pub fn reach(&mut self, offset: i64) {
        self.offset = self.offset.max(Some(offset));
    }

    /// Folds in one record of the topic, in order of offsets.
    ///
    /// # Errors
    /// What is wrong with it. It decides nothing then, and neither does what stood under its key.
    pub fn apply(&mut self, offset: i64, key: &[u8], value: Option<&[u8]>) -> Result<(), RecordError> {
        self.reach(offset);
        let key = Key::decode(key)?;
        let place = (key.server.clone(), key.name.clone(), key.digest, key.capabilities);
        let read = value.map(|value| DecisionRecord::decode(&key, value)).transpose();
        let result = read.map(|read| match read {
            Some(decision) => {
                self.pins.insert(place.clone(), pin(&decision, offset));
            }
            None => {
                self.pins.remove(&place);
            }
        });
        if result.is_err() {
            self.pins.remove(&place);
        }
        self.name(&place);
        result
    }

    /// Folds in one line of a file, as [`PinTable::apply`] does its record.
    ///
    /// # Errors
    /// What is wrong with it, or that it stands behind a line of a later offset. Nothing is folded in then.
    pub fn apply_line(&mut self, line: &[u8]) -> Result<(), RecordError> {
        let line = Line::decode(line)?;
        let next = self.offset.map_or(0, |offset| offset.saturating_add(1));
        let offset = line.offset.unwrap_or(next);
        if offset < next {
            return Err(RecordError::Order);
        }
        self.apply(offset, &line.key.encode(), line.decision.map(|decision| decision.encode()).as_deref())
    }

    /// Brings the names up to date with what is approved.
    fn name(&mut self, (server, name, ..): &Place) {
        let Some(name) = name else { return };
        let approved = self.of(server, Some(name)).any(|pin| pin.standing == Standing::Approved);
        let servers = self.names.entry(name.clone()).or_default();
        match approved {
            true => servers.insert(server.clone()),
            false => servers.remove(server),
        };
        if servers.is_empty() {
            self.names.remove(name);
        }
    }

    fn of(&self, server: &[u8], name: Option<&[u8]>) -> impl Iterator<Item = &Pin> {
        let name = name.map(<[u8]>::to_vec);
        let from = (server.to_vec(), name.clone(), [0; 32], None);
        let to = (server.to_vec(), name, [0xFF; 32], Some([0xFF; 32]));
        self.pins.range((Bound::Included(from), Bound::Included(to))).map(|(_, pin)| pin)
    }

    /// How a definition stands. `capabilities`: what the client declared, `None` where that was not seen: it may be
    /// any client then, so a rejection for one counts, and an approval for one does not. A rejection is stronger
    /// than an approval.
    pub fn stands(
        &self,
        server: &[u8],
        capabilities: Option<&[u8; 32]>,
        name: Option<&[u8]>,
        digest: &[u8; 32],
    ) -> Stands<'_> {
        let may_hold = |pin: &&Pin| match (&pin.capabilities, capabilities) {
            (Some(own), Some(asked)) => own == asked,
            _ => true,
        };
        let rejected = |pin: &Pin| pin.standing == Standing::Rejected && pin.digest == *digest;
        if self.of(server, name).filter(may_hold).any(rejected) {
            return Stands::Rejected;
        }
        let approved = || {
            let holds = |pin: &&Pin| pin.standing == Standing::Approved && pin.holds_for(capabilities);
            self.of(server, name).filter(holds)
        };
        match approved().find(|pin| pin.digest == *digest) {
            Some(pin) => Stands::Approved(pin),
            None => Stands::Undecided { other: approved().max_by_key(|pin| pin.offset) },
        }
    }

    /// Whether an approved definition of that tool says that calling it changes something. Hints that nobody
    /// approved count for nothing, and of several approved definitions one suffices.
    pub fn has_side_effects(&self, server: &[u8], capabilities: Option<&[u8; 32]>, name: &[u8]) -> bool {
        let approved = self.of(server, Some(name)).filter(|pin| pin.standing == Standing::Approved);
        approved.filter(|pin| pin.side_effects).any(|pin| {
            let other = pin.capabilities.as_ref().zip(capabilities).is_some_and(|(own, asked)| own != asked);
            !other
        })
    }

    /// The approved tools of a server, by name.
    pub fn approved(&self, server: &[u8]) -> impl Iterator<Item = (&[u8], &Pin)> {
        let from = (server.to_vec(), Some(Vec::new()), [0; 32], None);
        let of_server = self.pins.range((Bound::Included(from), Bound::Unbounded));
        let of_server = of_server.take_while({
            let server = server.to_vec();
            move |((of, ..), _)| *of == server
        });
        let approved = of_server.filter(|(_, pin)| pin.standing == Standing::Approved);
        approved.filter_map(|((_, name, ..), pin)| Some((name.as_deref()?, pin)))
    }

    /// Whether a pin approves a tool of that name for another server.
    pub fn elsewhere(&self, name: &[u8], server: &[u8]) -> bool {
        self.names.get(name).is_some_and(|servers| servers.iter().any(|of| of != server))
    }

    /// Every decision with its server and its name, in order.
    pub fn all(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>, &Pin)> {
        self.pins.iter().map(|((server, name, ..), pin)| (server.as_slice(), name.as_deref(), pin))
    }
}

fn pin(decision: &DecisionRecord, offset: i64) -> Pin {
    let definition = decision.definition().filter(|text| super::digest::sha256(text) == decision.key.digest);
    let read = definition.as_deref().and_then(|text| {
        let bump = Bump::new();
        let value = json::parse(&bump, Layer::record(&bump, text), JsonLimits::default()).ok()?;
        Some((Fingerprint::of(value), changes_something(value)))
    });
    Pin {
        standing: decision.standing,
        digest: decision.key.digest,
        capabilities: decision.key.capabilities,
        definition: definition.map(Arc::from),
        print: read.map(|(print, _)| print),
        side_effects: read.is_some_and(|(_, effects)| effects),
        offset,
    }
}

/// What a definition's hints say of calling its tool twice. Only what is said counts: MCP's defaults would mark
/// every tool of a server that says nothing (`provider-formats` §7.3).
fn changes_something(definition: Value<'_>) -> bool {
    let hints = definition.get("annotations");
    let says = |name: &str| hints.and_then(|hints| hints.get(name)).and_then(|hint| hint.bool());
    let changes = says("readOnlyHint") == Some(false) || says("destructiveHint") == Some(true);
    changes && says("readOnlyHint") != Some(true) && says("idempotentHint") != Some(true)
}
