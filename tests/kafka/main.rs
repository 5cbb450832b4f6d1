//! Tests against Apache Kafka itself: exactly-once, faults, refusals.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests read files and clocks, and fail by panicking"
)]

mod binary;
mod canary;
mod embedded;
mod exactly_once;
mod hostile;
mod instance;
mod outages;
mod pins;
mod recorded;
mod refusals;
mod reload;
mod support;
