//! Tests against Apache Kafka itself: exactly-once, faults, refusals.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests of effects have them, and say what is wrong by failing"
)]

mod embedded;
mod exactly_once;
mod hostile;
mod instance;
mod outages;
mod recorded;
mod refusals;
mod support;
mod throughput;
