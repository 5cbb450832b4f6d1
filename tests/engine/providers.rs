//! Translation, by golden files.
//!
//! A golden file holds attributes, data (one record a line, or one `raw` block) and the expected events in
//! the compact form of [`describe`]. `UPDATE=1` rewrites the expectations.

#[path = "support/describe.rs"]
mod describe;

use bumpalo::Bump;
use describe::lines;
use sluicegate::engine::json::JsonLimits;
use sluicegate::engine::provider::{Provider, detect_provider, translate};
use sluicegate::engine::wire::{DecodeOptions, Decoded, decode};
use sluicegate::engine::{Input, Limits};
use std::path::{Path, PathBuf};

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
