//! Tests of the runtime that need no Kafka: configuration, metrics, the listener, the command line.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::expect_used,
    clippy::panic,
    reason = "tests read files, clocks and sockets, and fail by panicking"
)]

mod admin;
mod cli;
mod commands;
mod config;
mod docs;
mod fixture;
mod metrics;
mod panics;
mod pins;
mod reference;
mod shell;
