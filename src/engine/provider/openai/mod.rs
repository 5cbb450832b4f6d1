//! OpenAI.
pub mod chat;
mod items;
pub mod request;
pub mod responses;
mod results;
