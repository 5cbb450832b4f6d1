//! State: reassembly, journal, changelog, orders. Scripts are data; each runs in several ways that must agree.

#[path = "state/assembly.rs"]
mod assembly;
#[path = "state/entries.rs"]
mod entries;
#[path = "state/exchanges.rs"]
mod exchanges;
#[path = "state/identity.rs"]
mod identity;
#[path = "state/leaves.rs"]
mod leaves;
#[path = "state/properties.rs"]
mod properties;
#[path = "state/script.rs"]
mod script;
