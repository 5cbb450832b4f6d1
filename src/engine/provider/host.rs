//! Host events.
