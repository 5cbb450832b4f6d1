//! The pure zone's tests: no Kafka, no network, no clock.

mod conformance;
#[path = "support/describe.rs"]
mod describe;
mod journey;
mod json;
mod layer;
mod providers;
mod recorded;
mod state;
mod support;
mod wire;
