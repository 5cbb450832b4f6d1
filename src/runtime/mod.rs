//! The effects.
