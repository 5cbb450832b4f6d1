//! Sluicegate: a consumer group that judges what agents' tools say and what models ask tools to do.
//!
//! Two zones: [`engine`] is pure and total, [`runtime`] (feature `runtime`) has the effects.

pub mod engine;
#[cfg(feature = "runtime")]
pub mod runtime;
