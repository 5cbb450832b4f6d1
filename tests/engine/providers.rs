//! Translation, by golden files.
//!
//! A golden file holds attributes, data (one record a line, or one `raw` block) and the expected events in
//! the compact form of [`describe`]. `UPDATE=1` rewrites the expectations.

use crate::describe::lines;
use bumpalo::Bump;
use sluicegate::engine::json::JsonLimits;
use sluicegate::engine::provider::{Provider, detect_provider, translate};
use sluicegate::engine::wire::{DecodeOptions, Decoded, decode};
use sluicegate::engine::{Input, Limits};
use std::path::{Path, PathBuf};

/// Decodes one binary record and translates it, as the engine does.
fn run(attributes: &[(String, String)], data: &str) -> Vec<String> {
    let bump = Bump::new();
    let fixed = [("ce_id", "1"), ("ce_source", "/t"), ("ce_specversion", "1.0")];
    let given = attributes.iter().map(|(k, v)| (k.as_str(), v.as_str()));
    let headers: Vec<(&str, Option<&[u8]>)> =
        fixed.into_iter().chain(given).map(|(name, value)| (name, Some(value.as_bytes()))).collect();
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
    let options = DecodeOptions { limits: &limits, lines: false };
    match decode(&bump, &input, options) {
        Decoded::Event(envelope) => {
            let provider = envelope
                .provider
                .or_else(|| detect_provider(&bump, &envelope, JsonLimits::default()))
                .unwrap_or(Provider::Mcp);
            lines(&translate(&bump, &envelope, provider, &[], JsonLimits::default()))
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

struct Golden {
    path: PathBuf,
    text: String,
    attributes: Vec<(String, String)>,
    mode: String,
    data: String,
    expected: String,
}

impl Golden {
    fn all() -> Vec<Golden> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engine/golden");
        let mut files = Vec::new();
        golden_files(&root, &mut files);
        files.sort();
        assert!(!files.is_empty());
        files.into_iter().map(Golden::read).collect()
    }
    fn read(path: PathBuf) -> Golden {
        let text = std::fs::read_to_string(&path).unwrap();
        let (head, rest) = text.split_once("--- ").unwrap();
        let attributes = head
            .lines()
            .filter(|line| !line.starts_with('#') && !line.is_empty())
            .map(|line| line.split_once(": ").unwrap())
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let (data, expected) = rest.split_once("--- events\n").unwrap();
        let (mode, data) = data.split_once('\n').unwrap();
        Golden { attributes, mode: mode.to_owned(), data: data.to_owned(), expected: expected.to_owned(), path, text }
    }
    /// The data of each record.
    fn records(&self) -> Vec<&str> {
        match self.mode.as_str() {
            "lines" => self.data.split_terminator('\n').collect(),
            _ => vec![&self.data],
        }
    }
    fn run(&self, data: &str) -> Vec<String> {
        run(&self.attributes, data)
    }
    /// A chunk of a provider that is named, so that its records can be put together.
    fn is_chunk(&self) -> bool {
        let has = |name: &str, part: &str| {
            let mut attributes = self.attributes.iter();
            attributes.any(|(key, value)| key == name && value.contains(part))
        };
        has("ce_type", "chunk") && has("ce_provider", "")
    }
}

#[test]
fn golden() {
    let update = std::env::var_os("UPDATE").is_some();
    let mut wrong = Vec::new();
    for golden in Golden::all() {
        let lines = golden.records().into_iter().flat_map(|data| golden.run(data));
        let found: String = lines.map(|line| format!("{line}\n")).collect();
        let (path, expected) = (golden.path.display(), &golden.expected);
        if update {
            let kept = &golden.text[..golden.text.len() - expected.len()];
            std::fs::write(&golden.path, format!("{kept}{found}")).unwrap();
        } else if found != *expected {
            wrong.push(format!("{path}\nfound:\n{found}expected:\n{expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// One record an event, an array of them, or server-sent events in any framing: the same is seen.
#[test]
fn framing_changes_nothing() {
    let mut compared = 0;
    let events =
        |lines: Vec<String>| -> Vec<String> { lines.into_iter().filter(|line| !line.starts_with('#')).collect() };
    for golden in Golden::all().iter().filter(|g| g.is_chunk() && g.mode == "lines") {
        let json = |data: &&str| serde_json::from_str::<serde_json::Value>(data).is_ok();
        // Behind what is not clear nothing is read.
        let clear = |data: &&str| !golden.run(data).iter().any(|line| line.starts_with("# unclear"));
        let records: Vec<&str> = golden.records().into_iter().filter(json).filter(clear).collect();
        let single: Vec<String> = records.iter().flat_map(|data| golden.run(data)).collect();
        let single = events(single);
        let nested = records.is_empty() || records.iter().any(|data| data.starts_with('['));
        if !nested {
            let array = format!("[{}]", records.join(" ,"));
            assert_eq!(events(golden.run(&array)), single, "{}", golden.path.display());
        }
        for (before, after) in [("data: ", "\n\n"), (":c\r\nevent: message\r\ndata:", "\r\n\r\n"), ("data: ", "\r\r")] {
            if nested {
                continue;
            }
            let stream: String = records.iter().map(|data| format!("{before}{data}{after}")).collect();
            assert_eq!(events(golden.run(&stream)), single, "{}", golden.path.display());
            compared += 1;
        }
    }
    assert!(compared > 20);
}

/// Whatever is cut off or put in the place of a value: no panic, and a text that
/// breaks off is said to be unreadable.
#[test]
fn broken_data_is_a_value() {
    for golden in Golden::all() {
        for data in golden.records() {
            let cuts = (1..data.len()).filter(|at| data.is_char_boundary(*at));
            for at in cuts {
                let lines = golden.run(&data[..at]);
                let object = data.starts_with('{') && golden.mode == "lines";
                let told = |line: &String| line.starts_with("# undecodable") || line == "error failed";
                // Without a provider attribute nothing tells whose broken text it is.
                let unread = golden.path.ends_with("detected.txt");
                assert!(!object || unread || lines.iter().any(told), "{}", &data[..at]);
            }
            for (at, byte) in data.bytes().enumerate().filter(|(_, b)| b",:[{".contains(b)) {
                for value in ["null", "7", "\"\\ud800\"", "[[]]", "{\"type\":[]}"] {
                    let end = data[at + 1..].find([',', '}', ']']).map_or(data.len(), |n| at + 1 + n);
                    let key = if byte == b'{' { "\"type\":" } else { "" };
                    golden.run(&format!("{}{key}{value}{}", &data[..=at], &data[end..]));
                }
            }
        }
    }
}
