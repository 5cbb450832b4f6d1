//! The decisions on tool definitions, as this process knows them.
//!
//! Whoever judges takes the newest [`PinTable`] when a transaction begins for a partition, so all verdicts that a
//! partition's transaction holds were made by one table, and name its offset. Invariant: a table that was handed out
//! never changes.

use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use crate::engine::pins::PinTable;

/// The newest table, and how new it is.
#[derive(Debug, Default)]
pub struct Pins {
    table: RwLock<Arc<PinTable>>,
    /// When the table was last known to hold everything; `None`: nobody follows.
    current: Mutex<Option<Instant>>,
    /// Decisions of the table, and records that are none.
    told: Mutex<(usize, u64)>,
}

impl Pins {
    /// A table that nobody changes.
    pub fn fixed(table: PinTable) -> Self {
        Self { table: RwLock::new(Arc::new(table)), ..Self::default() }
    }
    pub fn newest(&self) -> Arc<PinTable> {
        Arc::clone(&self.table.read().unwrap_or_else(PoisonError::into_inner))
    }
    /// How long ago it held everything; `None`: nobody follows.
    pub fn age(&self) -> Option<Duration> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).map(|at| at.elapsed())
    }
    /// How many decisions there are, and how many records of the topic are none.
    pub fn counts(&self) -> (usize, u64) {
        *self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another table holds from the next transactions on.
    pub fn set(&self, table: &PinTable, unreadable: u64) {
        *self.told.lock().unwrap_or_else(PoisonError::into_inner) = (table.len(), unreadable);
        *self.table.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(table.clone());
    }
    /// It holds everything that there is now.
    pub fn is_current(&self) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }
}
