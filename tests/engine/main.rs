//! The pure zone's tests: no Kafka, no network, no clock.

mod conformance;
#[path = "support/describe.rs"]
mod describe;
mod journey;
mod json;
mod layer;
mod policies;
mod providers;
mod recorded;
mod schema;
mod state;
mod support;
mod truncate;
mod wire;
