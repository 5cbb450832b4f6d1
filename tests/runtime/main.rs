//! Tests of the runtime that need no Kafka: configuration, metrics, the listener, the command line.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests read files, clocks and sockets")]

mod admin;
mod cli;
mod config;
mod docs;
mod fixture;
mod metrics;
