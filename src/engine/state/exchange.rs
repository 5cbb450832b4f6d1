//! Which exchange a record belongs to.
//!
//! The host's exchange id decides; without it the payload's own; without that, order: Kafka keeps one
//! producer's order, so a response belongs to the latest unanswered request and a chunk to the latest open
//! response. What cannot be told is a new, partial exchange rather than a guess that would let one response's
//! ending settle another's calls.

use super::At;
use super::conversation::{Exchange, Opened, ResponseState};
use super::journal::Undo;
use super::session::Session;
use super::store::clip;
use crate::engine::event::Provider;

/// How to find an exchange.
#[derive(Debug, Clone, Copy)]
pub struct Want<'a> {
    pub host_id: Option<&'a [u8]>,
    pub payload_id: Option<&'a [u8]>,
    pub provider: Provider,
    pub part: ExchangePart,
    pub at: At,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExchangePart {
    Request,
    /// A whole response, or the first event of a streamed one.
    ResponseStart,
    /// A later chunk, or the closing.
    ResponseRest,
}

/// Exchanges kept of one conversation.
const EXCHANGES: usize = 64;

/// Item events of these carry no response id, so an unknown one on the events that do (some proxies send a
/// new one each time) says nothing about where the items went.
fn names_only_its_borders(provider: Provider) -> bool {
    matches!(provider, Provider::OpenAiResponses | Provider::XaiResponses)
}

impl Session<'_> {
    /// The exchange that this record's events belong to, found or made:
    /// by `host_id` if given; else by the payload's own id; else, for a request, a new one; for a response's
    /// beginning, the latest unanswered request of that provider (`ambiguous` is true if several were); for
    /// later chunks, the latest open response of that provider.
    ///
    /// A later chunk with a payload id that no exchange has is a new partial exchange, except of OpenAI and xAI
    /// Responses, whose item events name no response: there it belongs to the latest open one.
    pub fn exchange(&mut self, want: Want<'_>) -> (u32, bool) {
        self.end_loan();
        let host_id = want.host_id.filter(|id| !id.is_empty()).map(clip);
        let payload_id = want.payload_id.filter(|id| !id.is_empty()).map(clip);
        let newest = || self.conversation().exchanges.iter().rev().filter(|(_, e)| e.provider == want.provider);
        let mut ambiguous = false;
        let found = if let Some(id) = &host_id {
            newest().find(|(_, e)| e.host_id.as_deref() == Some(&**id)).map(|(n, _)| *n)
        } else {
            let by_id = payload_id
                .as_ref()
                .and_then(|id| newest().find(|(_, e)| e.payload_id.as_deref() == Some(&**id)).map(|(n, _)| *n));
            let mut unnamed = newest().filter(|(_, e)| e.host_id.is_none());
            match want.part {
                _ if by_id.is_some() => by_id,
                ExchangePart::Request => None,
                ExchangePart::ResponseStart => {
                    let awaited = |e: &Exchange| e.request_seen && e.response == ResponseState::Awaited;
                    let mut unanswered = unnamed.filter(|(_, e)| awaited(e)).map(|(n, _)| *n);
                    let latest = unanswered.next();
                    ambiguous = unanswered.next().is_some();
                    latest
                }
                ExchangePart::ResponseRest if payload_id.is_none() || names_only_its_borders(want.provider) => {
                    unnamed.find(|(_, e)| e.response == ResponseState::Open).map(|(n, _)| *n)
                }
                ExchangePart::ResponseRest => None,
            }
        };
        if let Some(n) = found {
            return (n, ambiguous);
        }
        let opened = Opened { offset: want.at.offset, time: want.at.time };
        let mut exchange = Exchange::new(want.provider, opened);
        exchange.host_id = host_id.map(|id| id.into_owned());
        if want.part != ExchangePart::Request {
            exchange.payload_id = payload_id.map(|id| id.into_owned());
        }
        (self.add_exchange(exchange), false)
    }

    fn add_exchange(&mut self, mut exchange: Exchange) -> u32 {
        while self.conversation().exchanges.len() >= EXCHANGES {
            let Some(n) = self.dispensable() else { break };
            let prior = self.stored.set_exchange(n, None);
            let toolset = prior.as_ref().and_then(|e| e.toolset);
            self.log.push(self.key, Undo::Exchange(n, prior.map(Box::new)));
            self.release(toolset);
        }
        let n = self.number();
        exchange.run = n;
        self.log.push(self.key, Undo::Exchange(n, None));
        self.stored.set_exchange(n, Some(exchange));
        n
    }

    /// The exchange to forget: the oldest ended one, else the oldest without open calls, else the oldest.
    fn dispensable(&self) -> Option<u32> {
        let exchanges = &self.conversation().exchanges;
        let open = |n: u32| self.stored.index.open.range((n, 0)..=(n, u32::MAX)).next().is_some();
        let ended = |(n, e): &(&u32, &Exchange)| e.response == ResponseState::Ended && !open(**n);
        let oldest = exchanges.iter().find(ended);
        let oldest = oldest.or_else(|| exchanges.iter().find(|(n, _)| !open(**n)));
        oldest.or_else(|| exchanges.iter().next()).map(|(n, _)| *n)
    }
}
