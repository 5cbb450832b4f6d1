//! OpenAI.
pub mod responses;
