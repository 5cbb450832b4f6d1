//! OpenAI.
mod items;
pub mod request;
pub mod responses;
mod results;
