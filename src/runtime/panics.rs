//! What is said of a panic: where, never what.
//!
//! A panic's message may hold input: slicing a `str` at a bad place prints the text. So the hook prints the place
//! in the source and the thread's name and leaves the payload alone. A defect that a record can reach can be
//! reached by a million of them: of each place the first panic is printed, then each power of two, with the count.
//!
//! Left out: a logger call, which could panic itself or wait for a lock that the panicking thread holds; and the
//! backtrace: the place is what finds a defect, and frames of a flood would bury it.

use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write as _;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Places that are counted apart; those beyond share the last counter.
const PLACES: usize = 64;

/// A place's hash (0: free) and how often it panicked.
struct Place(AtomicU64, AtomicU64);

static SEEN: [Place; PLACES] = [const { Place(AtomicU64::new(0), AtomicU64::new(0)) }; PLACES];
static JSON: AtomicBool = AtomicBool::new(false);

/// Replaces the standard hook. The first thing that `main` does.
pub fn install() {
    std::panic::set_hook(Box::new(|info| {
        let count = info.location().map_or(1, |place| seen(place));
        if count.is_power_of_two() {
            let thread = std::thread::current();
            let text = line(info.location(), thread.name().unwrap_or("unnamed"), count);
            // Nothing more can be done where standard error is closed.
            let _ = std::io::stderr().write_all(text.as_bytes());
        }
    }));
}

/// From here on a panic is one JSON object, as the log is.
pub fn as_json() {
    JSON.store(true, Ordering::Relaxed);
}

/// How often this place panicked, this time included. Takes no lock: another thread may panic while it holds one.
fn seen(place: &Location<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    (place.file(), place.line(), place.column()).hash(&mut hasher);
    let hash = hasher.finish().max(1);
    let known =
        SEEN.iter().find(|known| match known.0.compare_exchange(0, hash, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            Err(taken) => taken == hash,
        });
    known.unwrap_or(&SEEN[PLACES - 1]).1.fetch_add(1, Ordering::AcqRel) + 1
}

fn line(place: Option<&Location<'_>>, thread: &str, count: u64) -> String {
    let at =
        place.map_or_else(|| "unknown".to_owned(), |p| format!("{}:{}:{}", source(p.file()), p.line(), p.column()));
    let mut text = String::new();
    // Both are ours: names of source files and of threads that we start.
    let _ = match JSON.load(Ordering::Relaxed) {
        true => writeln!(
            text,
            "{}",
            serde_json::json!({"level": "ERROR", "event": "panic", "at": at, "thread": thread, "count": count})
        ),
        false => writeln!(text, "ERROR event=\"panic\" at=\"{at}\" thread=\"{thread}\" count={count}"),
    };
    text
}

/// A dependency's file without the folder of the machine that built it.
fn source(file: &str) -> &str {
    file.split_once("/registry/src/").and_then(|(_, rest)| rest.split_once('/')).map_or(file, |(_, rest)| rest)
}

#[cfg(test)]
mod tests {
    use super::source;

    #[test]
    fn a_dependency_is_named_by_its_crate() {
        assert_eq!(
            source("/home/me/.cargo/registry/src/index-1/rdkafka-0.39.0/src/message.rs"),
            "rdkafka-0.39.0/src/message.rs"
        );
        assert_eq!(source("src/engine/json.rs"), "src/engine/json.rs");
    }
}
