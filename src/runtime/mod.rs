//! The effects: Kafka, HTTP, configuration, logs and metrics, the command line.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "clocks, files, sockets and threads are banned in the engine; this is where they live"
)]

pub mod acls;
pub mod admin;
pub mod canary;
pub mod cli;
pub mod config;
pub mod current;
pub mod embedded;
pub mod engine_judge;
pub mod environment;
pub mod judge;
pub mod kafka;
pub mod listener;
pub mod logs;
pub mod panics;
pub mod pins;
pub mod port;
pub mod reload;
pub mod reporter;
pub mod restore;
pub mod review;
pub mod schema;
pub mod service;
pub mod settings;
pub mod telemetry;
pub mod worker;
