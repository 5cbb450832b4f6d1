//! Reassembly.
