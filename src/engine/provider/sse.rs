//! SSE.
