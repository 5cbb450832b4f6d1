//! The sample traffic: its records, and `demo --bootstrap`, which sends them to somebody else's brokers.
//!
//! There the service judges, not this process. Each round is of conversations of its own, so that a service which
//! remembers the last one does not see every call twice.

use super::super::run::Signals;
use super::super::style::Style;
use super::super::{Exit, Failure, Global};
use super::{EVENTS, TOPIC};
use crate::runtime::config::{Need, Time};
use crate::runtime::kafka::tap::Feed;
use crate::runtime::logs::init_logs;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long the brokers may take to acknowledge a round.
const FLUSH: Duration = Duration::from_secs(30);

/// One record of the sample.
pub struct Sample {
    pub key: String,
    pub headers: Vec<(String, String)>,
    pub value: Option<Vec<u8>>,
}

/// The sample in binary mode: attributes as headers, the data as the value, untouched.
pub fn samples() -> Result<Vec<Sample>, Failure> {
    let mut samples = Vec::new();
    for line in EVENTS.lines() {
        samples.push(sample(line).map_err(|e| Failure::usage(format!("the sample traffic is damaged: {e}")))?);
    }
    samples.push(Sample { key: "ops-broken".into(), headers: Vec::new(), value: Some(b"tail -f app.log".to_vec()) });
    Ok(samples)
}

fn sample(line: &str) -> Result<Sample, serde_json::Error> {
    let event: BTreeMap<String, &RawValue> = serde_json::from_str(line)?;
    let mut sample = Sample { key: String::new(), headers: Vec::new(), value: None };
    let mut text = false;
    for (name, raw) in event {
        if name == "data" {
            sample.value = Some(raw.get().replace("@LOG@", &log_text()).into_bytes());
            continue;
        }
        let value: String = serde_json::from_str(raw.get())?;
        if name == "conversation" {
            sample.key.clone_from(&value);
        }
        text |= name == "datacontenttype" && value.starts_with("text/");
        let header = if name == "datacontenttype" { "content-type".into() } else { format!("ce_{name}") };
        sample.headers.push((header, value));
    }
    if text && let Some(value) = &sample.value {
        sample.value = Some(serde_json::from_slice::<String>(value)?.into_bytes());
    }
    Ok(sample)
}

/// A tool result of about 90 KiB, as JSON string content.
fn log_text() -> String {
    let mut text = String::new();
    for n in 0..1_400 {
        let (minute, second) = (n / 60 % 60, n % 60);
        text.push_str(&format!(
            "2026-01-01T00:{minute:02}:{second:02}Z INFO  worker-{} handled job {n} in 12 ms\\n",
            n % 8
        ));
    }
    text
}

/// Puts every sample into a conversation of this round.
fn rename(samples: &mut [Sample], round: &str) {
    for sample in samples {
        sample.key = format!("{}-{round}", sample.key);
        for (name, value) in &mut sample.headers {
            if name == "ce_conversation" || name == "ce_id" {
                *value = format!("{value}-{round}");
            }
        }
    }
}

/// Sends every sample and waits until all are acknowledged.
pub fn send(feed: &Feed, topic: &str, samples: &[Sample]) -> Result<(), Failure> {
    for s in samples {
        let headers: Vec<(&str, &str)> = s.headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        feed.send(topic, &s.key, &headers, s.value.as_deref())?;
    }
    Ok(feed.flush(FLUSH)?)
}

/// Sends the sample to the brokers at `bootstrap`: once, or every so often until a signal comes.
pub fn run(global: &Global, bootstrap: &str, every: Option<Time>) -> Result<Exit, Failure> {
    let config = global.load(Need::Engine)?;
    init_logs(&config.log, Style::new(global, &std::io::stderr()).on());
    let mut settings = config.settings().map_err(|p| Failure::problems(&[p]))?;
    settings.bootstrap = bootstrap.to_owned();
    let topic = settings.inputs.first().map_or(TOPIC, String::as_str);
    let feed = Feed::new(&settings)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| Failure::Said(Exit::Environment, format!("no thread runtime: {e}")))?;
    let mut signals = runtime.block_on(async { Signals::new() })?;
    loop {
        let mut samples = samples()?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        rename(&mut samples, &format!("{now:x}"));
        send(&feed, topic, &samples)?;
        let mut out = std::io::stdout().lock();
        writeln!(out, "{} sample events sent to {topic} at {bootstrap}, conversations end in -{now:x}", samples.len())?;
        out.flush()?;
        drop(out);
        let Some(every) = every else { return Ok(Exit::Fine) };
        let stopped = runtime.block_on(async { tokio::time::timeout(every.0, signals.next()).await.is_ok() });
        if stopped {
            return Ok(Exit::Fine);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_has_conversations_of_its_own() {
        let (Ok(mut one), Ok(other)) = (samples(), samples()) else { unreachable!("the sample is whole") };
        rename(&mut one, "1f");
        for (new, old) in one.iter().zip(&other) {
            assert_eq!(new.key, format!("{}-1f", old.key));
            assert_eq!(new.value, old.value);
            let named = new.headers.iter().find(|(name, _)| name == "ce_conversation");
            assert!(named.is_none_or(|(_, value)| *value == new.key));
        }
    }
}
