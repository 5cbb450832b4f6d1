//! `check`: the service's engine on files.
//!
//! A file is a partition: its index is the partition number, a line's number is its offset, and it has its own
//! state. Nothing is read ahead, so a file may be larger than memory.

use super::style::{Cell, Style, Tone, decision_tone, table};
use super::{Exit, Failure, Global, engine, raw};
use crate::engine::pins::PinTable;
use crate::engine::provider::Provider;
use crate::engine::state::PartitionState;
use crate::engine::verdict::Decision;
use crate::engine::wire::EventType;
use crate::engine::{Emission, Engine, Input, Observation, Out, Remaining, TickSource, To};
use crate::runtime::config::Need;
use base64::Engine as _;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read as _, Write};
use std::sync::Arc;

#[derive(clap::Args)]
pub struct Args {
    /// Files of one CloudEvent a line; - is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,
    /// json prints one output record a line
    #[arg(long, value_enum, default_value = "human")]
    format: Format,
    /// The files are raw provider traffic (SSE, a JSON body, or one JSON event a line), not CloudEvents
    #[arg(long, value_parser = provider(), value_name = "PROVIDER")]
    provider: Option<Provider>,
    /// Exit with 1 when a verdict's decision is at least this
    #[arg(long, value_enum, default_value = "block", value_name = "DECISION")]
    fail_on: FailOn,
    /// The topic that the lines stand for [default: check]; without it, the topics of fleets do not count
    #[arg(long)]
    topic: Option<String>,
    /// Decisions on tools that hold, as `pins export` writes them; without it nothing was decided
    #[arg(long, value_name = "FILE")]
    pins: Option<String>,
    /// Expire what is idle at this time (RFC 3339, or milliseconds since 1970); without it nothing expires
    #[arg(long, value_parser = time, value_name = "TIME")]
    now: Option<i64>,
}

impl Args {
    fn topic(&self) -> &str {
        self.topic.as_deref().unwrap_or("check")
    }
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Human,
    Json,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum FailOn {
    Redact,
    Block,
    Never,
}

fn provider() -> impl TypedValueParser<Value = Provider> {
    PossibleValuesParser::new(Provider::ALL.map(Provider::name))
        .try_map(|name| Provider::from_name(&name).ok_or("not a provider"))
}

fn time(text: &str) -> Result<i64, String> {
    if let Ok(ms) = text.parse() {
        return Ok(ms);
    }
    text.parse::<jiff::Timestamp>()
        .map(jiff::Timestamp::as_millisecond)
        .map_err(|_| "must be a time such as 2026-01-01T00:00:00Z, or milliseconds since 1970".into())
}

/// Files judged so far.
struct Session<'a, W: Write> {
    engine: Engine,
    args: &'a Args,
    out: W,
    emitted: Out,
    rows: Vec<Vec<Cell>>,
    counts: BTreeMap<&'static str, u64>,
    records: u64,
    worst: Decision,
    /// Records whose data could not be read, and of providers that are not judged.
    undecodable: u64,
    deadletters: u64,
    judged: u64,
    /// Events of other types than Sluicegate's.
    unknown: u64,
    /// Values that are no event of their provider's.
    strange: u64,
    /// Files of which nothing was judged, since there is nothing in them.
    empty: u64,
}

pub fn run(global: &Global, args: &Args) -> Result<Exit, Failure> {
    let config = global.load(Need::Engine)?;
    let mut settings = global.settings(&config, "local")?;
    settings.trust_event_time = true;
    // Whoever waits for a file has all of it.
    settings.limits.reorder_window_ms = 0;
    settings.lines = args.provider.is_none();
    if args.topic.is_none() {
        settings.fleets.values_mut().for_each(|trust| trust.topics.clear());
    }
    let mut engine = engine(settings)?;
    if let Some(file) = &args.pins {
        engine.set_pins(Arc::new(decisions(file)?));
    }
    let mut session = Session {
        engine,
        args,
        out: BufWriter::new(io::stdout().lock()),
        emitted: Out::default(),
        rows: Vec::new(),
        counts: BTreeMap::new(),
        records: 0,
        worst: Decision::Allow,
        undecodable: 0,
        deadletters: 0,
        judged: 0,
        unknown: 0,
        strange: 0,
        empty: 0,
    };
    for (n, file) in args.files.iter().enumerate() {
        let partition = i32::try_from(n).map_err(|_| Failure::usage("too many files"))?;
        session.file(partition, file)?;
    }
    if args.format == Format::Human {
        session.report(Style::new(global, &io::stdout()))?;
    }
    session.out.flush()?;
    session.say_unjudged();
    let limit = match args.fail_on {
        FailOn::Redact => Decision::Redact,
        FailOn::Block => Decision::Block,
        FailOn::Never => return Ok(Exit::Fine),
    };
    let nothing = session.judged == 0 && session.strange > 0;
    let unread = session.deadletters > 0 || session.undecodable > 0 || session.empty > 0 || nothing;
    Ok(if unread || session.worst >= limit { Exit::Findings } else { Exit::Fine })
}

/// The decisions of a file: one record of the pins topic a line.
fn decisions(name: &str) -> Result<PinTable, Failure> {
    let unreadable =
        |e: &io::Error| Failure::usage(format!("--pins {name}: {e}; give a file that `pins export` wrote"));
    let mut reader = BufReader::new(File::open(name).map_err(|e| unreadable(&e))?);
    let mut table = PinTable::default();
    let mut line = Vec::new();
    let mut number = 0_u64;
    while reader.read_until(b'\n', &mut line).map_err(|e| unreadable(&e))? > 0 {
        number += 1;
        if !line.trim_ascii().is_empty() {
            table
                .apply_line(line.trim_ascii())
                .map_err(|e| Failure::usage(format!("--pins {name}: line {number}: {e}; `pins export` writes them")))?;
        }
        line.clear();
    }
    Ok(table)
}

impl<W: Write> Session<'_, W> {
    fn file(&mut self, partition: i32, name: &str) -> Result<(), Failure> {
        let unreadable =
            |e: &io::Error| Failure::usage(format!("{name}: {e}; give a readable file of one CloudEvent a line, or -"));
        let reader: Box<dyn BufRead> = if name == "-" {
            Box::new(BufReader::new(io::stdin()))
        } else {
            Box::new(BufReader::with_capacity(1 << 16, File::open(name).map_err(|e| unreadable(&e))?))
        };
        let mut state = PartitionState::new();
        state.begin();
        let before = self.records;
        match self.args.provider {
            None => self.lines(partition, name, reader, &mut state)?,
            Some(provider) => {
                let mut bytes = Vec::new();
                let mut reader = reader;
                reader.read_to_end(&mut bytes).map_err(|e| unreadable(&e))?;
                self.raw(partition, name, provider, &bytes, &mut state)?;
            }
        }
        if self.records == before {
            self.empty += 1;
            let _ = writeln!(io::stderr(), "{name}: empty; there is nothing to judge in it");
        }
        if let Some(now) = self.args.now {
            self.expire(partition, name, now, &mut state)?;
        }
        state.accept();
        Ok(())
    }

    fn lines(
        &mut self,
        partition: i32,
        name: &str,
        mut reader: Box<dyn BufRead>,
        state: &mut PartitionState,
    ) -> Result<(), Failure> {
        let mut line = Vec::new();
        let mut offset = 0;
        loop {
            line.clear();
            let n = reader
                .read_until(b'\n', &mut line)
                .map_err(|e| Failure::usage(format!("{name}: line {}: {e}", offset + 1)))?;
            if n == 0 {
                return Ok(());
            }
            let text = line.strip_suffix(b"\n").unwrap_or(&line);
            let text = text.strip_suffix(b"\r").unwrap_or(text);
            if !text.is_empty() {
                self.record(
                    &Input {
                        topic: self.args.topic(),
                        partition,
                        offset,
                        timestamp: None,
                        key: None,
                        headers: &[],
                        value: Some(text),
                    },
                    name,
                    state,
                )?;
            }
            offset += 1;
            // The journal of a transaction is memory; a file has no transactions.
            if offset % 256 == 0 {
                state.accept();
                state.begin();
            }
        }
    }

    /// Raw traffic as binary-mode events of one conversation, the file's.
    fn raw(
        &mut self,
        partition: i32,
        name: &str,
        provider: Provider,
        bytes: &[u8],
        state: &mut PartitionState,
    ) -> Result<(), Failure> {
        let stem: String = std::path::Path::new(name)
            .file_name()
            .and_then(|n| n.to_str())
            .unwrap_or("-")
            .chars()
            .filter(char::is_ascii)
            .take(128)
            .collect();
        for (offset, (kind, body)) in raw::events(provider, bytes).into_iter().enumerate() {
            let id = offset.to_string();
            let media = if kind.sse { "text/event-stream" } else { "application/json" };
            let headers: [(&str, Option<&[u8]>); 7] = [
                ("ce_specversion", Some(b"1.0")),
                ("ce_id", Some(id.as_bytes())),
                ("ce_source", Some(b"/check")),
                ("ce_type", Some(kind.name.as_bytes())),
                ("ce_provider", Some(provider.name().as_bytes())),
                ("ce_conversation", Some(stem.as_bytes())),
                ("content-type", Some(media.as_bytes())),
            ];
            let value = (!body.is_empty()).then_some(body);
            let offset = i64::try_from(offset).unwrap_or(i64::MAX);
            self.record(
                &Input {
                    topic: self.args.topic(),
                    partition,
                    offset,
                    timestamp: None,
                    key: None,
                    // A closing has no data, so no content type.
                    headers: if value.is_some() { &headers } else { &headers[..6] },
                    value,
                },
                name,
                state,
            )?;
        }
        Ok(())
    }

    fn record(&mut self, input: &Input<'_>, name: &str, state: &mut PartitionState) -> Result<(), Failure> {
        self.engine.step(state, input, &mut self.emitted);
        self.records += 1;
        self.observations(name, input.offset);
        self.emissions(name, Some(input.offset))
    }

    fn expire(&mut self, partition: i32, name: &str, now: i64, state: &mut PartitionState) -> Result<(), Failure> {
        loop {
            let source = TickSource { topic: self.args.topic(), partition, now };
            let remaining = self.engine.tick(state, source, 1000, &mut self.emitted);
            self.emissions(name, None)?;
            if remaining == Remaining::None {
                return Ok(());
            }
        }
    }

    /// Says which record could not be judged, and why: silence would read as innocence.
    fn observations(&mut self, name: &str, offset: i64) {
        let mut said = Vec::new();
        for observation in &self.emitted.observations {
            match observation {
                Observation::Undecodable { .. } => {
                    self.undecodable += 1;
                    said.push("undecodable_data: not what its type and provider say, or no JSON".to_owned());
                }
                Observation::DeadLetter { reason } => {
                    self.deadletters += 1;
                    let hint = hint(reason).map_or(String::new(), |hint| format!("; {hint}"));
                    said.push(format!("{reason}: dead letter{hint}"));
                }
                // Of a stream's quiet events there are many; what is no event of the provider's at all is said.
                Observation::Opaque { kind: "event", count, .. } => self.strange += count,
                Observation::Event { kind: EventType::Unknown, .. } => {
                    self.unknown += 1;
                    said.push("unknown_type: no event of Sluicegate's, so it passes".to_owned());
                }
                _ => {}
            }
        }
        let line = offset + 1;
        for what in said {
            let _ = writeln!(io::stderr(), "{name}:{line}: {what}");
        }
    }

    /// What the summary counts beside verdicts and dead letters.
    fn unjudged(&self) -> Vec<String> {
        let counted = [
            (self.undecodable, "with undecodable data"),
            (self.unknown, "of unknown types"),
            (self.strange, "not understood (another provider's?)"),
        ];
        counted.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect()
    }

    fn say_unjudged(&self) {
        let mut counts = Vec::new();
        if self.deadletters > 0 {
            counts.push(count(self.deadletters, "dead letter"));
        }
        counts.extend(self.unjudged());
        if !counts.is_empty() {
            let _ = writeln!(io::stderr(), "not judged: {}", counts.join(", "));
        }
    }

    /// Prints, or keeps for the table, what one step emitted.
    fn emissions(&mut self, name: &str, offset: Option<i64>) -> Result<(), Failure> {
        let emissions = std::mem::take(&mut self.emitted.emissions);
        for emission in &emissions {
            let verdict = match emission.to {
                To::Verdicts => emission.value.as_deref().and_then(|v| serde_json::from_slice::<Value>(v).ok()),
                _ => None,
            };
            if let Some(verdict) = &verdict {
                self.judged += 1;
                let decision = match verdict["decision"].as_str() {
                    Some("block") => Decision::Block,
                    Some("redact") => Decision::Redact,
                    _ => Decision::Allow,
                };
                self.worst = self.worst.max(decision);
            }
            match self.args.format {
                Format::Json => {
                    self.out.write_all(line(emission).as_bytes())?;
                    self.out.write_all(b"\n")?;
                }
                Format::Human => self.keep(name, offset, emission, verdict.as_ref()),
            }
        }
        // The buffer goes back, so that its room is used again.
        self.emitted.emissions = emissions;
        Ok(())
    }

    fn keep(&mut self, name: &str, offset: Option<i64>, emission: &Emission, verdict: Option<&Value>) {
        let counted = match (emission.to, verdict) {
            (To::Redacted, _) => "redacted records",
            (To::DeadLetters, _) => "dead letters",
            (To::Sightings, _) => "new definitions",
            (To::Verdicts, Some(v)) => match v["action"].as_str() {
                Some("block") => "block",
                Some("redact") => "redact",
                _ => "allow",
            },
            (To::Verdicts, None) => "unreadable verdicts",
        };
        *self.counts.entry(counted).or_default() += 1;
        let place = offset.map_or_else(|| "expired".into(), |o| (o + 1).to_string());
        let place = if self.args.files.len() > 1 { format!("{name}:{place}") } else { place };
        if let Some(verdict) = verdict {
            let mut row = vec![place.into()];
            row.extend(verdict_cells(verdict));
            self.rows.push(row);
        } else if emission.to == To::DeadLetters {
            let reason = header(emission, "sluicegate_dlq_reason");
            let dead = Cell(Tone::Bad, "dead letter".into());
            self.rows.push(vec![place.into(), "-".into(), "-".into(), "-".into(), dead, reason.into()]);
        }
    }

    fn report(&mut self, style: Style) -> Result<(), Failure> {
        let head = ["line", "call, tool", "checkpoint", "decision", "action", "rules"];
        if !self.rows.is_empty() {
            write!(self.out, "{}", table(style, &head, &self.rows))?;
        }
        let named = |(what, n): (&&str, &u64)| match what.strip_suffix('s').filter(|one| one.contains(' ')) {
            Some(one) => count(*n, one),
            None => format!("{n} {what}"),
        };
        let mut counts: Vec<String> = self.counts.iter().map(named).collect();
        counts.extend(self.unjudged());
        let counts = if counts.is_empty() { "nothing to judge".into() } else { counts.join(", ") };
        writeln!(self.out, "{}: {counts}", count(self.records, "record"))?;
        Ok(())
    }
}

/// `1 record`, `2 records`.
pub fn count(n: u64, one: &str) -> String {
    format!("{n} {one}{}", if n == 1 { "" } else { "s" })
}

/// Call and tool, checkpoint, decision, action, rules.
pub fn verdict_cells(verdict: &Value) -> Vec<Cell> {
    let subject = &verdict["subject"];
    let who: Vec<&str> =
        [&subject["call_id"], &subject["tool"]].iter().filter_map(|v| v.as_str()).filter(|t| !t.is_empty()).collect();
    let who = if who.is_empty() { "-".into() } else { who.join(" ") };
    let mut rules: Vec<String> = Vec::new();
    for finding in verdict["findings"].as_array().into_iter().flatten() {
        let policy = finding["policy"].as_str().unwrap_or("");
        let mut rule = format!("{policy} {}", finding["rule"].as_str().unwrap_or(""));
        if let Some(label) = finding["evidence"]["label"].as_str().or(finding["evidence"]["keyword"].as_str()) {
            rule.push_str(&format!(" ({label})"));
        }
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }
    let text = |v: &Value| v.as_str().unwrap_or("-").to_owned();
    let (decision, action) = (text(&verdict["decision"]), text(&verdict["action"]));
    vec![
        who.into(),
        text(&verdict["checkpoint"]).into(),
        Cell(decision_tone(&decision), decision),
        Cell(decision_tone(&action), action),
        rules.join(", ").into(),
    ]
}

fn header(emission: &Emission, name: &str) -> String {
    let found = emission.headers.iter().find(|(n, _)| n == name);
    found.map_or_else(|| "-".into(), |(_, v)| String::from_utf8_lossy(v).into_owned())
}

/// What to do about a dead letter.
fn hint(reason: &str) -> Option<&'static str> {
    Some(match reason {
        "invalid_json" => "a line is one CloudEvent; raw traffic (SSE, a body over several lines) needs --provider",
        "no_conversation" => "an event needs `conversation`, `responseid`, or an id in its data",
        "unknown_provider" => "`provider` must name one that `check --help` lists, or the data must show it",
        "missing_attribute" => "a CloudEvent needs id, source, specversion and type",
        _ => return None,
    })
}

/// One emission as `check --format json` prints it.
fn line(emission: &Emission) -> String {
    let to = match emission.to {
        To::Verdicts => "verdicts",
        To::Redacted => "redacted",
        To::DeadLetters => "deadletters",
        To::Sightings => "sightings",
    };
    let mut headers: Map<String, Value> = Map::new();
    for (name, value) in &emission.headers {
        let value = text_or_base64(value);
        // A dead letter keeps the original's headers, which may repeat a name.
        match headers.get_mut(name) {
            None => drop(headers.insert(name.clone(), value)),
            Some(Value::Array(all)) => all.push(value),
            Some(first) => *first = json!([first.clone(), value]),
        }
    }
    let raw = match (emission.to, &emission.value) {
        (To::Verdicts, Some(value)) => {
            std::str::from_utf8(value).ok().and_then(|t| RawValue::from_string(t.to_owned()).ok())
        }
        _ => None,
    };
    let key = emission.key.as_deref().map_or(Value::Null, text_or_base64);
    let value = match raw {
        Some(raw) => raw.get().to_owned(),
        None => emission.value.as_deref().map_or(Value::Null, text_or_base64).to_string(),
    };
    format!(r#"{{"to":"{to}","key":{key},"headers":{},"value":{value}}}"#, Value::Object(headers))
}

fn text_or_base64(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => json!({"base64": base64::engine::general_purpose::STANDARD.encode(bytes)}),
    }
}
