//! The engine that holds now, as this process knows it.
//!
//! Whoever judges takes the newest when a transaction begins for a partition, so all verdicts that a partition's
//! transaction holds were made by one engine, and name its digest. Invariant: an engine that was handed out never
//! changes.

use crate::engine::Engine;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

/// The newest engine, and how often it was replaced.
pub struct Current {
    engine: RwLock<Engine>,
    version: AtomicU64,
}

impl Current {
    pub fn new(engine: Engine) -> Self {
        Self { engine: RwLock::new(engine), version: AtomicU64::new(0) }
    }
    /// Changes with every [`Current::set`]: cheap to ask, for each transaction of each partition.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }
    /// The engine, and the version it came with.
    pub fn newest(&self) -> (Engine, u64) {
        let engine = self.engine.read().unwrap_or_else(PoisonError::into_inner);
        (engine.clone(), self.version())
    }
    /// Another engine judges from the next transactions on.
    pub fn set(&self, engine: Engine) {
        let mut held = self.engine.write().unwrap_or_else(PoisonError::into_inner);
        *held = engine;
        self.version.fetch_add(1, Ordering::AcqRel);
    }
}
