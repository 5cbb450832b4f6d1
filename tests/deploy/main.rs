//! What an operator installs and looks at: made from the code, and tried on the real tools.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests read files and clocks, run tools, and fail by panicking"
)]

mod acls;
mod chart;
mod compose;
mod evolution;
mod files;
mod image;
mod process;
mod schemas;
mod supply;
#[allow(dead_code, reason = "shared with the tests against Kafka, which use all of it")]
#[path = "../kafka/support/mod.rs"]
mod support;
mod watch;
