//! The pure zone's tests: no Kafka, no network, no clock.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests read files and clocks, and fail by panicking"
)]

mod arguments;
mod averta;
mod beside;
mod bounds;
mod bypass;
mod chat;
mod conformance;
mod copies;
mod detect;
mod docs;
mod examples;
mod failures;
mod field_bugs;
mod framing;
#[path = "../../fuzz/src/lib.rs"]
mod fuzz;
mod fuzz_corpus;
mod gemini;
mod hosted;
mod injection;
mod journey;
mod json;
mod layer;
mod mcp;
mod media;
mod network;
mod obeying;
mod observed;
mod oddities;
mod order;
mod pairing;
mod pin_records;
mod pins;
mod poison;
mod policies;
mod providers;
mod recorded;
mod recorded_effects;
mod render;
mod repeats;
mod schema;
mod schemas;
mod scopes;
mod secrets;
mod served;
mod state;
mod support;
mod taken_apart;
mod tidy;
mod truncate;
mod turns;
mod verbatim;
mod wire;
mod xai;

use fuzz::describe;
