//! Logs: where they go, how much, and how often.
//!
//! Every line has a stable code in `event`. The level can be changed while the process runs. Of each place in the
//! source at most [`BURST`] lines are written in [`WINDOW`]; what is left out is counted, never queued: a broker
//! that fails a thousand times a second must not fill a disk. No line holds text from outside.

use super::config::{Log, LogFormat};
use super::panics;
use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tracing::callsite::Identifier;
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Filter, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt, reload};

/// How many lines a place may write in a window.
const BURST: u32 = 50;
const WINDOW: Duration = Duration::from_secs(10);

static SUPPRESSED: AtomicU64 = AtomicU64::new(0);
static LEVEL: Mutex<Option<reload::Handle<EnvFilter, Registry>>> = Mutex::new(None);

/// Starts logging to standard error. Only the first call has an effect.
pub fn init_logs(log: &Log, colour: bool) {
    let (level, handle) = reload::Layer::new(filter(&log.level));
    let lines = fmt::layer().with_writer(std::io::stderr).with_target(false);
    let registry = tracing_subscriber::registry().with(level);
    let started = match log.format {
        LogFormat::Human => registry.with(lines.with_ansi(colour).with_filter(Bounded::default())).try_init(),
        LogFormat::Json => {
            panics::as_json();
            let lines = lines.with_writer(|| Named(io::stderr())).json().flatten_event(true).with_current_span(false);
            registry.with(lines.with_filter(Bounded::default())).try_init()
        }
    };
    if started.is_ok() {
        *LEVEL.lock().unwrap_or_else(PoisonError::into_inner) = Some(handle);
    }
}

/// Other levels hold from now on; they were checked with the configuration.
pub fn set_level(level: &str) {
    if let Some(handle) = &*LEVEL.lock().unwrap_or_else(PoisonError::into_inner) {
        let _ = handle.reload(filter(level));
    }
}

/// Lines that were left out since the process started.
pub fn suppressed() -> u64 {
    SUPPRESSED.load(Ordering::Relaxed)
}

/// Ours and the Kafka client's. Other libraries see what records hold, and some write it down (an HTML parser every
/// token), so of them only warnings are shown, and of that parser nothing.
const SHOWN: [&str; 3] = ["sluicegate", "librdkafka", "rdkafka"];

fn filter(level: &str) -> EnvFilter {
    EnvFilter::try_new(directives(level)).unwrap_or_else(|_| EnvFilter::new("info"))
}

fn directives(level: &str) -> String {
    let mut all = vec!["warn".to_owned()];
    for part in level.split(',').map(str::trim) {
        match part.split_once('=') {
            Some((target, _)) if SHOWN.contains(&target.split("::").next().unwrap_or_default()) => {
                all.push(part.to_owned());
            }
            Some(_) => {}
            None => {
                if matches!(part.to_ascii_lowercase().as_str(), "off" | "error") {
                    all.push(part.to_owned());
                }
                all.extend(SHOWN.map(|target| format!("{target}={part}")));
            }
        }
    }
    all.extend(["html5ever=off", "markup5ever=off"].map(str::to_owned));
    all.join(",")
}

/// Names a line's time `ts`; the formatter, which has another name for it, writes a line at once.
struct Named<W>(W);

impl<W: Write> Write for Named<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let Some(rest) = line.strip_prefix(br#"{"timestamp":"#) else { return self.0.write(line) };
        self.0.write_all(&[br#"{"ts":"#, rest].concat())?;
        Ok(line.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// What a place wrote in its window.
struct Written {
    since: Instant,
    lines: u32,
}

impl Written {
    fn may(&mut self, now: Instant) -> bool {
        if now.duration_since(self.since) >= WINDOW {
            *self = Written { since: now, lines: 0 };
        }
        self.lines = self.lines.saturating_add(1);
        self.lines <= BURST
    }
}

/// See the module. Places are call sites, so there are as many as the program has.
#[derive(Default)]
struct Bounded(Mutex<HashMap<Identifier, Written>>);

impl<S: Subscriber> Filter<S> for Bounded {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }
    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        let (place, now) = (event.metadata().callsite(), Instant::now());
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let may = places.entry(place).or_insert(Written { since: now, lines: 0 }).may(now);
        if !may {
            SUPPRESSED.fetch_add(1, Ordering::Relaxed);
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};

    struct Lines(Sender<Vec<u8>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.0.send(bytes.to_vec());
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn no_level_shows_what_other_libraries_read() {
        for level in ["trace", "debug", "info,html5ever=trace", "html5ever::tokenizer=trace,trace", "sluicegate=trace"]
        {
            let (sender, lines) = channel();
            let writer = Mutex::new(Lines(sender));
            let registry = tracing_subscriber::registry().with(filter(level)).with(fmt::layer().with_writer(writer));
            tracing::subscriber::with_default(registry, || {
                tracing::trace!(target: "html5ever::tokenizer", "marker");
                tracing::error!(target: "markup5ever", "marker");
                tracing::debug!(target: "another", "marker");
                tracing::info!(target: "sluicegate::runtime", "ours");
            });
            let text: Vec<u8> = lines.try_iter().flatten().collect();
            let text = String::from_utf8(text).unwrap();
            assert!(text.contains("ours") && !text.contains("marker"), "{level}: {text}");
        }
        assert_eq!(directives("off").split(',').next_back(), Some("markup5ever=off"));
    }

    #[test]
    fn a_line_of_json_begins_with_its_time() {
        let (send, lines) = channel();
        let writer = move || Named(Lines(send.clone()));
        let layer = fmt::layer().with_writer(writer).json().flatten_event(true);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            tracing::info!(event = "one", timestamp = 7);
        });
        let lines: Vec<Vec<u8>> = lines.try_iter().collect();
        let [line] = lines.as_slice() else { panic!("{} pieces", lines.len()) };
        assert!(line.starts_with(br#"{"ts":"20"#) && line.ends_with(b"}\n"), "{}", String::from_utf8_lossy(line));
        let line: serde_json::Value = serde_json::from_slice(line).unwrap();
        assert_eq!((&line["event"], &line["timestamp"]), (&"one".into(), &7.into()));
    }

    #[test]
    fn a_place_is_heard_again_in_the_next_window() {
        let now = Instant::now();
        let mut written = Written { since: now, lines: 0 };
        assert_eq!((0..BURST * 3).filter(|_| written.may(now)).count(), BURST as usize);
        assert!(!written.may(now + WINDOW / 2));
        assert!(written.may(now + WINDOW));
    }

    #[test]
    fn another_place_is_not_to_blame() {
        let (send, lines) = channel();
        let layer = fmt::layer().with_writer(move || Lines(send.clone())).with_filter(Bounded::default());
        let before = suppressed();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            for _ in 0..BURST * 3 {
                tracing::info!(event = "flood");
            }
            tracing::info!(event = "quiet");
        });
        let text = String::from_utf8(lines.into_iter().flatten().collect()).unwrap();
        assert_eq!(text.matches("flood").count(), BURST as usize);
        assert_eq!(text.matches("quiet").count(), 1);
        assert_eq!(suppressed() - before, u64::from(BURST) * 2);
    }
}
