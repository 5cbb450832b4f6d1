//! Starts of tools that came ahead of what makes their call final.
//!
//! Kafka orders per producer. Where the host and whoever publishes the model's chunks are two, a start may
//! overtake the response's ending. It waits for it, a short time and in small numbers.

use super::conversation::Waiting;
use super::session::Session;
use crate::engine::Millis;

/// Starts of one conversation that wait.
const WAITING: usize = 8;
/// The longest event data that waits, bytes.
const DATA: usize = 2 << 10;

impl Session<'_> {
    /// Lets a start wait; false where there is no room for it, so that it is judged at once.
    pub fn wait(&mut self, start: Waiting) -> bool {
        let room = self.conversation().head.waiting.len() < WAITING && start.bytes() <= DATA;
        if room {
            self.head().waiting.push(start);
        }
        room
    }

    /// Takes out the starts whose call has ended, and those that came at or before `since`.
    pub fn released(&mut self, since: Millis) -> Vec<Waiting> {
        let due = |session: &Self, start: &Waiting| {
            let call = session.call_by_id(&start.call_id);
            start.time <= since || call.is_some_and(|(_, call)| !call.is_open())
        };
        let waiting = &self.conversation().head.waiting;
        let out: Vec<bool> = waiting.iter().map(|start| due(self, start)).collect();
        if !out.contains(&true) {
            return Vec::new();
        }
        let mut out = out.into_iter();
        self.head().waiting.extract_if(.., |_| out.next().unwrap_or(false)).collect()
    }
}
