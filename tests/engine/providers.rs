//! Translation, by golden files and over the recorded corpus.
//!
//! A golden file holds attributes, data (one record a line, or one `raw` block) and the expected events in
//! the compact form of [`describe`]. `UPDATE=1` rewrites the expectations.

use bumpalo::Bump;
use sluicegate::engine::event::{
    Args, CallFacts, Event, Fate, Name, Part, ResultItem, Stop, ToolDef, Turn,
};
use sluicegate::engine::json::{JsonLimits, Value};
use sluicegate::engine::provider::{Provider, Translated, detect_provider, translate};
use sluicegate::engine::wire::{DecodeOptions, Decoded, decode};
use sluicegate::engine::{Input, Limits};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn raw(value: Value<'_>) -> String {
    let text = String::from_utf8_lossy(value.raw()).into_owned();
    match text.chars().count() {
        0..=72 => text,
        n => format!("{}…({n})", text.chars().take(40).collect::<String>()),
    }
}

fn name(name: Name<'_>) -> String {
    match name {
        Name::Wire(value) => raw(value),
        Name::Implied(name) => format!("={name}"),
        Name::None => "-".into(),
    }
}

fn option(label: &str, value: Option<Value<'_>>) -> String {
    value.map_or(String::new(), |value| format!(" {label}={}", raw(value)))
}

fn args(args: Args<'_>) -> String {
    match args {
        Args::Absent => "absent".into(),
        Args::Text(value) => format!("text {}", raw(value)),
        Args::Raw(value) => format!("raw {}", raw(value)),
    }
}

fn call(call: &CallFacts<'_>) -> String {
    format!(
        "{}.{} {}{}{}{}{} {:?} {:?} {}",
        call.slot.0,
        call.slot.1,
        name(call.name),
        option("id", call.id),
        option("item", call.item_id),
        option("ns", call.namespace),
        option("server", call.server),
        call.executor,
        call.form,
        args(call.args)
    )
}

fn result(result: &ResultItem<'_>) -> String {
    let parts: Vec<String> = result
        .parts
        .iter()
        .map(|part| match part {
            Part::Text(value) => format!("text {}", raw(*value)),
            Part::Json(value) => format!("json {}", raw(*value)),
            Part::Media { kind, .. } => format!("media {kind}"),
            Part::Opaque { kind, .. } => format!("opaque {kind}"),
        })
        .collect();
    format!(
        "{:?} {}{}{} {:?}{}{}{}{} [{}]",
        result.shape,
        name(result.tool),
        option("call", result.call_id),
        option("server", result.server),
        result.failure,
        option("by", result.failure_value),
        result
            .error_code
            .map_or(String::new(), |c| format!(" code={c}")),
        option("source", result.source),
        option("url", result.url),
        parts.join(", ")
    )
}

fn tool(tool: &ToolDef<'_>) -> String {
    format!(
        "{}{}{} {:?}{}{}",
        name(tool.name),
        option("ns", tool.namespace),
        option("server", tool.server),
        tool.family,
        option("schema", tool.schema),
        if tool.late { " late" } else { "" }
    )
}

fn fate(fate: Fate) -> String {
    match fate {
        Fate::Cut(reason) => format!("cut:{}", reason.label()),
        Fate::Final => "final".into(),
        Fate::Carry => "carry".into(),
    }
}

fn turn(turn: &Turn<'_>) -> String {
    match turn {
        Turn::Call(facts) => format!("call {}", call(facts)),
        Turn::Result(item) => format!("result {}", result(item)),
        Turn::ServerResult { call_id, .. } => format!("server-result{}", option("call", *call_id)),
        Turn::Model(value) => format!("model {}", raw(*value)),
        Turn::User(value) => format!("user {}", raw(*value)),
        Turn::System(value) => format!("system {}", raw(*value)),
        Turn::Opaque { value, kind } => format!("opaque {kind} {}", raw(*value)),
    }
}

/// An event as one line.
fn describe(event: &Event<'_>) -> String {
    match event {
        Event::RequestBegin { elsewhere, .. } => format!("request elsewhere={elsewhere}"),
        Event::Tool(definition) => format!("tool {}", tool(definition)),
        Event::Turn { group, turn: item } => format!("turn {group} {}", turn(item)),
        Event::RequestEnd => "request-end".into(),
        Event::Begin { id, again } => format!("begin{} again={again}", option("id", *id)),
        Event::Open(facts) => format!("open {}", call(facts)),
        Event::Append { slot, part, text } => {
            format!("append {}.{} part={part} {}", slot.0, slot.1, raw(*text))
        }
        Event::Leaf { slot, .. } => format!("leaf {}.{}", slot.0, slot.1),
        Event::Restate { slot, args: value } => {
            format!("restate {}.{} {}", slot.0, slot.1, args(*value))
        }
        Event::Close { slot, status } => format!("close {}.{} {status:?}", slot.0, slot.1),
        Event::Item {
            call: facts,
            status,
            listed,
        } => {
            let listed = if *listed { " listed" } else { "" };
            format!("item {status:?}{listed} {}", call(facts))
        }
        Event::ServerResult {
            result: item,
            closes,
        } => {
            format!("server-result closes={closes} {}", result(item))
        }
        Event::Stop(Stop {
            client,
            provider,
            choice,
        }) => {
            let choice = choice.map_or(String::new(), |c| format!(" choice={c}"));
            format!(
                "stop client={} provider={}{choice}",
                fate(*client),
                fate(*provider)
            )
        }
        Event::End => "end".into(),
        Event::Error { reason } => format!("error {}", reason.label()),
        Event::Closed => "closed".into(),
        Event::Started(started) => format!(
            "started{}{}{}{}",
            option("call", started.call_id),
            option("tool", started.tool),
            option("key", started.idempotency_key),
            option("sha256", started.arguments_sha256)
        ),
        Event::HostResult(item) => format!("host-result {}", result(item)),
        Event::Opaque { value, kind } => format!("opaque {kind} {}", raw(*value)),
    }
}

fn lines(translated: &Translated<'_>) -> Vec<String> {
    let mut lines: Vec<String> = translated.events.iter().map(describe).collect();
    lines.extend(
        translated
            .response_id
            .map(|id| format!("# response {}", raw(id))),
    );
    lines.extend(
        translated
            .conversation
            .map(|id| format!("# conversation {}", raw(id))),
    );
    lines.extend(translated.undecodable.map(|(layer, error)| {
        format!(
            "# undecodable {:?} at {} of {:?}",
            error.kind, error.at, layer.step
        )
    }));
    lines
}

/// Decodes one binary record and translates it, as the engine does.
fn run(attributes: &[(String, String)], data: &str) -> Vec<String> {
    let bump = Bump::new();
    let fixed = [
        ("ce_id", "1"),
        ("ce_source", "/t"),
        ("ce_specversion", "1.0"),
    ];
    let given = attributes.iter().map(|(k, v)| (k.as_str(), v.as_str()));
    let headers: Vec<(&str, Option<&[u8]>)> = fixed
        .into_iter()
        .chain(given)
        .map(|(name, value)| (name, Some(value.as_bytes())))
        .collect();
    let input = Input {
        topic: "t",
        partition: 0,
        offset: 0,
        timestamp: None,
        key: None,
        headers: &headers,
        value: (!data.is_empty()).then_some(data.as_bytes()),
    };
    let limits = Limits::default();
    let options = DecodeOptions {
        limits: &limits,
        lines: false,
    };
    match decode(&bump, &input, options) {
        Decoded::Event(envelope) => {
            let provider = envelope
                .provider
                .or_else(|| detect_provider(&bump, &envelope, JsonLimits::default()))
                .unwrap_or(Provider::Mcp);
            lines(&translate(
                &bump,
                &envelope,
                provider,
                JsonLimits::default(),
            ))
        }
        other => vec![format!("{other:?}")],
    }
}

fn golden_files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => golden_files(&path, found),
            false => found.push(path),
        }
    }
}

#[test]
fn golden() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engine/golden");
    let mut files = Vec::new();
    golden_files(&root, &mut files);
    files.sort();
    assert!(!files.is_empty());
    let update = std::env::var_os("UPDATE").is_some();
    let mut wrong = Vec::new();
    for path in &files {
        let text = std::fs::read_to_string(path).unwrap();
        let (head, rest) = text.split_once("--- ").unwrap();
        let attributes: Vec<(String, String)> = head
            .lines()
            .filter(|line| !line.starts_with('#') && !line.is_empty())
            .map(|line| line.split_once(": ").unwrap())
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .collect();
        let (data, expected) = rest.split_once("--- events\n").unwrap();
        let (mode, data) = data.split_once('\n').unwrap();
        let found: Vec<String> = match mode {
            "raw" => run(&attributes, data),
            "none" => run(&attributes, ""),
            _ => data
                .split_terminator('\n')
                .flat_map(|line| run(&attributes, line))
                .collect(),
        };
        let found = found
            .iter()
            .map(|line| format!("{line}\n"))
            .collect::<String>();
        if update {
            let kept = &text[..text.len() - expected.len()];
            std::fs::write(path, format!("{kept}{found}")).unwrap();
        } else if found != expected {
            wrong.push(format!(
                "{}\nfound:\n{found}expected:\n{expected}",
                path.display()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn corpus() -> Option<PathBuf> {
    let shared = match std::env::var_os("SLUICEGATE_SHARED") {
        Some(path) => PathBuf::from(path),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared"),
    };
    let corpus = shared.join("corpus/recorded");
    if corpus.is_dir() {
        return Some(corpus);
    }
    println!("SKIPPED: no recorded corpus at {}", corpus.display());
    assert!(std::env::var("CI").is_err(), "CI must have the corpus");
    None
}

/// Every recorded line is read; what stays opaque is known.
#[test]
fn recorded_traffic_is_understood() {
    let Some(corpus) = corpus() else { return };
    let limits = Limits::default();
    let options = DecodeOptions {
        limits: &limits,
        lines: true,
    };
    let mut opaque: BTreeMap<(String, &'static str, String), u32> = BTreeMap::new();
    let mut undecodable = Vec::new();
    let mut events: BTreeMap<String, u32> = BTreeMap::new();
    let mut records = 0;
    for provider in ["anthropic.messages", "openai.responses"] {
        let mut files = Vec::new();
        golden_files(&corpus.join(provider), &mut files);
        files.sort();
        for path in files {
            let file = path.file_name().unwrap().to_string_lossy().into_owned();
            for (n, line) in std::fs::read_to_string(&path).unwrap().lines().enumerate() {
                records += 1;
                let bump = Bump::new();
                let input = Input {
                    topic: "t",
                    partition: 0,
                    offset: n as i64,
                    timestamp: None,
                    key: None,
                    headers: &[],
                    value: Some(line.as_bytes()),
                };
                let envelope = match decode(&bump, &input, options) {
                    Decoded::Event(envelope) => envelope,
                    other => panic!("{file}:{n}: {other:?}"),
                };
                let provider = envelope.provider.unwrap();
                let found = translate(&bump, &envelope, provider, JsonLimits::default());
                if found.undecodable.is_some() {
                    undecodable.push((file.clone(), n));
                }
                for event in &found.events {
                    let word = describe(event);
                    let word = word.split(' ').next().unwrap().to_owned();
                    *events.entry(word).or_default() += 1;
                    let (value, kind) = match event {
                        Event::Opaque { value, kind } => (*value, *kind),
                        Event::Turn {
                            turn: Turn::Opaque { value, kind },
                            ..
                        } => (*value, *kind),
                        _ => continue,
                    };
                    let label = ["type", "object"]
                        .into_iter()
                        .find_map(|key| value.get(key));
                    let label = label.and_then(|label| label.str()).unwrap_or_default();
                    let key = (provider.name().to_owned(), kind, label.into_owned());
                    *opaque.entry(key).or_default() += 1;
                }
            }
        }
    }
    println!("{records} records, events {events:?}");
    println!("opaque {opaque:#?}");
    println!("undecodable {undecodable:?}");
    let wrapper = "vercel-ai__openai_responses_parallel-tool-call-wrapper.1.stream.jsonl";
    let known = [(wrapper.to_owned(), 0), (wrapper.to_owned(), 5)];
    assert_eq!(undecodable, known, "malformed in the recording itself");
    let strange: Vec<_> = opaque
        .keys()
        .filter(|(_, kind, label)| !(*kind == "event" && label.starts_with("chat.completion")))
        .collect();
    assert!(strange.is_empty(), "{strange:?}");
}
