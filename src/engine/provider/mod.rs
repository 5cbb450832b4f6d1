//! Translate: provider wire shapes become events of the one vocabulary. Stateless.
//!
//! The providers are a closed set: an enum and one `match`. Each file documents *wire shapes read*, *how a
//! call is addressed*, *what ends a call* and *oddities*.

pub mod anthropic;
pub mod host;
pub mod openai;
pub mod sse;

use super::event::Event;
use super::json::{JsonError, JsonLimits, Value};
use super::layer::Layer;
use super::wire::{Envelope, EventType};
use bumpalo::Bump;

/// The provider formats of the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub enum Provider {
    OpenAiResponses,
    OpenAiChat,
    AnthropicMessages,
    XaiResponses,
    XaiChat,
    GeminiGenerateContent,
    GeminiLive,
    Mcp,
}

impl Provider {
    pub const ALL: [Provider; 8] = [
        Provider::OpenAiResponses,
        Provider::OpenAiChat,
        Provider::AnthropicMessages,
        Provider::XaiResponses,
        Provider::XaiChat,
        Provider::GeminiGenerateContent,
        Provider::GeminiLive,
        Provider::Mcp,
    ];
    /// The attribute's value.
    pub fn name(self) -> &'static str {
        match self {
            Provider::OpenAiResponses => "openai.responses",
            Provider::OpenAiChat => "openai.chat",
            Provider::AnthropicMessages => "anthropic.messages",
            Provider::XaiResponses => "xai.responses",
            Provider::XaiChat => "xai.chat",
            Provider::GeminiGenerateContent => "gemini.generate_content",
            Provider::GeminiLive => "gemini.live",
            Provider::Mcp => "mcp",
        }
    }
    pub fn from_name(name: &str) -> Option<Provider> {
        Self::ALL.into_iter().find(|p| p.name() == name)
    }
    /// Whether this build reads its shapes; others pass, counted.
    pub fn supported(self) -> bool {
        matches!(self, Provider::OpenAiResponses | Provider::AnthropicMessages)
    }
}

/// What translating one record gave.
#[derive(Debug, Default)]
pub struct Translated<'r> {
    pub events: Vec<Event<'r>>,
    /// The data, or one event of the stream in it, is not JSON: the first error and its layer. Events before
    /// it stand; the response's open calls are cut.
    pub undecodable: Option<(&'r Layer<'r>, JsonError)>,
    /// The payload's own response id, when it names one.
    pub response_id: Option<Value<'r>>,
    /// The provider's own conversation or session id, when it names one.
    pub conversation: Option<Value<'r>>,
}

/// Translates a record's data. Chunks may be one event, an array of them, or raw `text/event-stream`
/// (told by the content type, or by the text not beginning like JSON).
pub fn translate<'r>(
    _bump: &'r Bump,
    _envelope: &Envelope<'r>,
    _provider: Provider,
    _limits: JsonLimits,
) -> Translated<'r> {
    todo!()
}

/// Tells provider and event type of bare data by its shape. `None`: not known.
pub fn detect(_data: Value<'_>) -> Option<(Provider, EventType)> {
    todo!()
}
