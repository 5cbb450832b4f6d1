//! Edits become bytes.
