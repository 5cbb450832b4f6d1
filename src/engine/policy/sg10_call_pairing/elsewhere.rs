//! The half of a history that is not in the request: what the conversation knows of it.

use super::super::{Evidence, Place, Report, RequestSubject, View};
use super::{History, MISSING_RESULT};
use crate::engine::event::{Executor, Provider};
use crate::engine::state::{Call, CallStatus, Conversation, clip};
use std::collections::{BTreeSet, HashMap, HashSet};

/// What is known of the history before the request.
pub(super) struct Elsewhere<'s> {
    /// Part of the history is kept there.
    kept: bool,
    conversation: &'s Conversation,
    /// The calls by id, looked up only where part of the history is kept elsewhere.
    calls: HashMap<&'s [u8], &'s Call>,
    /// Exchanges whose calls this request answers.
    answered: BTreeSet<u32>,
    /// A result's call was not seen.
    pub unseen: bool,
}

impl<'s> Elsewhere<'s> {
    pub fn new(request: &RequestSubject<'_, '_>, view: &View<'s>) -> Self {
        let conversation = view.conversation;
        let mut calls = HashMap::new();
        let mut answered = BTreeSet::new();
        if request.elsewhere {
            calls.extend(conversation.calls.values().map(|call| (call.effective_id(), call)));
            let previous = request.body.get("previous_response_id").and_then(|id| id.text()).unwrap_or_default();
            let previous = clip(&previous);
            let goes_on = |id: &Option<Vec<u8>>| id.as_deref().is_some_and(|id| !id.is_empty() && *id == *previous);
            let found = conversation.exchanges.iter().rev().find(|(_, exchange)| goes_on(&exchange.payload_id));
            answered.extend(found.map(|(n, _)| *n));
        }
        Self { kept: request.elsewhere, conversation, calls, answered, unseen: false }
    }

    pub fn is_kept(&self) -> bool {
        self.kept
    }

    /// Looks a result's call up. What was not seen is not held against it.
    pub fn answers(&mut self, id: &[u8]) {
        match self.calls.get(&*clip(id)).filter(|_| !id.is_empty()) {
            Some(call) => {
                self.answered.insert(call.exchange);
            }
            None => self.unseen = true,
        }
    }

    /// The other calls of turns that this request answers in part.
    pub fn unanswered(&self, history: &History<'_>, provider: Provider, report: &mut Report<'_>) {
        if self.answered.is_empty() {
            return;
        }
        let given = history.answers.iter().chain(&history.ran);
        let given: HashSet<_> = given.map(|answer| clip(&answer.id)).collect();
        let label = match provider {
            Provider::AnthropicMessages => super::anthropic::MISSING,
            Provider::OpenAiChat | Provider::XaiChat => super::chat::MISSING,
            Provider::GeminiGenerateContent | Provider::GeminiLive => super::gemini::COUNT,
            _ => super::responses::MISSING,
        };
        for (n, call) in &self.conversation.calls {
            let run = self.conversation.exchanges.get(&call.exchange).map_or(0, |exchange| exchange.run);
            let waits = self.answered.contains(&call.exchange)
                && *n >= run
                && call.executor == Executor::Client
                && call.status == CallStatus::Final
                && !call.cancelled
                && !call.id.is_empty();
            if waits && !given.contains(&call.id[..]) {
                report.find(&MISSING_RESULT, Place::Whole, Evidence::Label { kind: "refusal", label });
            }
        }
    }
}
