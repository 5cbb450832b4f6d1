//! The effects.

pub mod embedded;
pub mod environment;
pub mod judge;
pub mod kafka;
pub mod port;
pub mod restore;
pub mod service;
pub mod settings;
pub mod worker;
