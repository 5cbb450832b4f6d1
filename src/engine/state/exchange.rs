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
use crate::engine::event::{CutReason, Provider};
use std::collections::BTreeMap;

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
    /// A chunk of a response all of whose chunks look alike: the first one, or a later one.
    ResponsePart,
    /// A later chunk, or the closing.
    ResponseRest,
}

/// Exchanges kept of one conversation.
const EXCHANGES: usize = 64;
/// MCP servers, the latest, whose exchanges no other exchange pushes out.
const SERVERS: usize = 16;

/// Item events of these carry no response id, so an unknown one on the events that do (some proxies send a
/// new one each time) says nothing about where the items went.
fn names_only_its_borders(provider: Provider) -> bool {
    matches!(provider, Provider::OpenAiResponses | Provider::XaiResponses)
}

impl Session<'_> {
    /// The exchange that this record's events belong to, found or made:
    /// by `host_id` if given; else by the payload's own id; else, for a request, a new one; for a response's
    /// beginning, the latest unanswered request of that provider (`ambiguous` is true if several were), else the
    /// provider's latest response if it did not end well: the gateway tried again; for
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
            let unnamed = newest().filter(|(_, e)| e.host_id.is_none());
            let open = unnamed.clone().find(|(_, e)| e.response == ResponseState::Open);
            let begins = matches!(want.part, ExchangePart::ResponseStart | ExchangePart::ResponsePart);
            let again = begins
                && by_id.and_then(|n| Some((n, self.conversation().exchanges.get(&n)?))).is_some_and(|(n, e)| {
                    e.response == ResponseState::Ended && unnamed.clone().any(|(m, e)| *m > n && e.is_unanswered())
                });
            match want.part {
                // An id that comes again behind its end is a new response's, if one is awaited.
                _ if by_id.is_some() && !again => by_id,
                _ if want.provider.is_session() => unnamed.map(|(n, _)| *n).next(),
                ExchangePart::Request => None,
                // One that never names itself goes on with what is open.
                ExchangePart::ResponsePart if payload_id.is_none() && open.is_some() => open.map(|(n, _)| *n),
                ExchangePart::ResponseStart | ExchangePart::ResponsePart => {
                    let mut unanswered = unnamed.filter(|(_, e)| e.is_unanswered()).map(|(n, _)| *n);
                    let latest = unanswered.next();
                    ambiguous = unanswered.next().is_some();
                    latest.or_else(|| self.retried(want.provider, payload_id.as_deref()))
                }
                ExchangePart::ResponseRest if payload_id.is_none() || names_only_its_borders(want.provider) => {
                    open.map(|(n, _)| *n)
                }
                ExchangePart::ResponseRest => None,
            }
        };
        if let Some(n) = found {
            self.inherit(n, want);
            return (n, ambiguous);
        }
        let opened = Opened { offset: want.at.offset, time: want.at.time };
        let mut exchange = Exchange::new(want.provider, opened);
        exchange.host_id = host_id.map(|id| id.into_owned());
        if want.part != ExchangePart::Request {
            exchange.payload_id = payload_id.map(|id| id.into_owned());
        }
        let n = self.add_exchange(exchange);
        self.inherit(n, want);
        (n, false)
    }

    /// The exchange whose response begins again, without another request: that of the provider's latest
    /// response, if it is still open or ended by an error. Where every chunk bears its response's id, another
    /// one beside an open response is another response.
    fn retried(&self, provider: Provider, id: Option<&[u8]>) -> Option<u32> {
        let mut exchanges = self.conversation().exchanges.iter().rev();
        let began =
            |e: &Exchange| e.provider == provider && e.host_id.is_none() && e.response != ResponseState::Awaited;
        let (n, latest) = exchanges.find(|(_, e)| began(e))?;
        let other = provider.has_choices() && id.is_some() && latest.payload_id.is_some();
        (latest.response == ResponseState::Open && !other || latest.failed).then_some(*n)
    }

    /// A response whose own request was not seen is held to the latest one of its conversation: its provider's,
    /// or else anyone's. Otherwise an id that matches nothing would switch the checks of its tools off.
    fn inherit(&mut self, n: u32, want: Want<'_>) {
        let Some(known) = self.conversation().exchanges.get(&n) else { return };
        if want.part == ExchangePart::Request {
            if known.inherited {
                self.edit_exchange(n, |e| (e.inherited, e.request_seen) = (false, false));
            }
            return;
        }
        if known.request_seen {
            return;
        }
        let provider = known.provider;
        let gives = |e: &Exchange| e.request_seen && e.provider != Provider::Mcp;
        let seen = || self.conversation().exchanges.iter().rev().filter(|(m, e)| **m != n && gives(e));
        let Some((_, from)) = seen().find(|(_, e)| e.provider == provider).or_else(|| seen().next()) else { return };
        let (elsewhere, toolset, late) = (from.elsewhere, from.toolset, from.late);
        self.edit_exchange(n, |e| (e.inherited, e.request_seen, e.elsewhere) = (true, true, elsewhere));
        self.refer(n, toolset, late);
    }

    fn add_exchange(&mut self, mut exchange: Exchange) -> u32 {
        while self.conversation().exchanges.len() >= EXCHANGES {
            let Some(n) = self.dispensable() else { break };
            let prior = self.stored.set_exchange(n, None);
            let sets = prior.as_ref().map(|e| [e.toolset, e.late]);
            self.log.push(self.key, Undo::Exchange(n, prior.map(Box::new)));
            for set in sets.into_iter().flatten() {
                self.release(set);
            }
        }
        // What was open in a response that is forgotten may go on under its id: as a part of this one.
        let known = &self.conversation().exchanges;
        if self.stored.index.open.iter().any(|(of, _)| !known.contains_key(of)) {
            exchange.lost = Some(CutReason::Limit);
        }
        let n = self.number();
        exchange.run = n;
        self.log.push(self.key, Undo::Exchange(n, None));
        self.stored.set_exchange(n, Some(exchange));
        n
    }

    /// The exchange to forget: the oldest ended one without open calls, else the oldest without open calls, else
    /// the oldest. One whose facts others would inherit goes behind all of those, one whose request is unanswered
    /// behind those, and an MCP server's, which lasts as long as the conversation, goes last.
    fn dispensable(&self) -> Option<u32> {
        let exchanges = &self.conversation().exchanges;
        let mut latest = BTreeMap::new();
        for (n, e) in exchanges.iter().filter(|(_, e)| e.request_seen) {
            latest.insert(e.provider, *n);
        }
        let mut servers = exchanges.iter().rev().filter(|(_, e)| e.provider == Provider::Mcp);
        let kept_from = servers.nth(SERVERS - 1).map_or(0, |(n, _)| *n);
        let open = |n: u32| self.stored.index.open.range((n, 0)..=(n, u32::MAX)).next().is_some();
        let order = |(n, e): &(&u32, &Exchange)| {
            let server = e.provider == Provider::Mcp;
            let source = latest.get(&e.provider) == Some(*n) || server;
            (server && **n >= kept_from, e.is_unanswered(), source, open(**n), e.response != ResponseState::Ended, **n)
        };
        exchanges.iter().min_by_key(order).map(|(n, _)| *n)
    }
}
