//! Bugs of other people's agents, gateways and servers, as public reports describe them: each a conversation of
//! this shape, and what is said of it here.
//!
//! A file of `field_bugs/` is named by the number of its note, the project, its report, and what goes wrong. It
//! holds the provider, sections of records (`--- request`, `--- response`, `--- chunk`, `--- closed`,
//! `--- result`, `--- started`, `--- client` and `--- server` of MCP; one record a line), and behind `--- verdicts`
//! what must be said, in order:
//!
//! ```text
//! <checkpoint> <action> <call id> <tool> <rules that do more than allow> <arguments that may be run>
//! ```
//!
//! A request that is allowed is not listed. `<<n>>` in a record is n letters. `UPDATE=1` rewrites what is said.
//! Where a later rule will judge what is only assembled today, the file's first lines say which. The files of
//! `oddities/` have the same form, and no report behind them.

use crate::support::{Partition, body, header, trusting, verdicts};
use serde_json::Value;
use sluicegate::engine::policy::Profile;
use sluicegate::engine::{Emission, Outcome, To};
use std::fmt::Write;
use std::path::{Path, PathBuf};

struct Bug {
    path: PathBuf,
    /// Everything before the verdicts, as it stands.
    told: String,
    provider: String,
    /// Kind of event, data.
    records: Vec<(String, String)>,
    expected: String,
}

impl Bug {
    fn read(path: PathBuf) -> Bug {
        let text = std::fs::read_to_string(&path).unwrap();
        let (told, expected) = text.split_once("--- verdicts\n").unwrap_or_else(|| panic!("{}", path.display()));
        let (mut provider, mut kind, mut records) = (String::new(), String::new(), Vec::new());
        for line in told.lines().filter(|line| !line.starts_with('#')) {
            if let Some(name) = line.strip_prefix("--- ") {
                name.clone_into(&mut kind);
                if name == "closed" {
                    records.push((kind.clone(), String::new()));
                }
            } else if let Some(name) = line.strip_prefix("provider: ") {
                name.clone_into(&mut provider);
            } else if !line.is_empty() {
                records.push((kind.clone(), grown(line)));
            }
        }
        Bug { provider, records, told: told.to_owned(), expected: expected.to_owned(), path }
    }

    /// What the engine says, a line a verdict.
    fn said(&self) -> String {
        let engine = trusting(Profile::Standard);
        let mut partition = Partition::new(&engine);
        let mut said = String::new();
        for (n, (kind, data)) in self.records.iter().enumerate() {
            let (name, direction) = match kind.as_str() {
                "client" | "server" => ("mcp.message", Some(kind.as_str())),
                "result" | "started" => (if kind == "result" { "tool.result" } else { "tool.started" }, None),
                "request" => ("model.request", None),
                "response" => ("model.response", None),
                "chunk" => ("model.chunk", None),
                "closed" => ("model.closed", None),
                other => panic!("{}: a section {other}", self.path.display()),
            };
            let (kind, id) = (format!("io.sluicegate.{name}.v1"), n.to_string());
            let mut headers: Vec<(&str, Option<&[u8]>)> = vec![
                ("ce_specversion", Some(b"1.0")),
                ("ce_id", Some(id.as_bytes())),
                ("ce_source", Some(b"/field")),
                ("ce_type", Some(kind.as_bytes())),
                ("ce_provider", Some(self.provider.as_bytes())),
            ];
            if let Some(direction) = direction {
                headers.push(("ce_direction", Some(direction.as_bytes())));
                headers.push(("ce_mcpserver", Some(b"files")));
            }
            let value = (!data.is_empty()).then_some(data.as_bytes());
            let emissions = partition.feed_record(Some(b"c-1"), &headers, value);
            for verdict in verdicts(&emissions) {
                say(&verdict, &emissions, &mut said);
            }
        }
        for outcome in &partition.outcomes {
            assert!(!matches!(outcome, Outcome::Rejected(_)), "{}: {outcome:?}", self.path.display());
        }
        said
    }
}

/// `<<n>>` as n letters.
fn grown(line: &str) -> String {
    let mut parts = line.split("<<");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (n, rest) = part.split_once(">>").unwrap();
        out.extend(std::iter::repeat_n('x', n.parse().unwrap()));
        out.push_str(rest);
    }
    out
}

fn say(verdict: &Value, emissions: &[Emission], out: &mut String) {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let findings = verdict["findings"].as_array().into_iter().flatten();
    let mut rules: Vec<String> = findings
        .filter(|finding| finding["effect"] != "allow")
        .map(|finding| {
            let label = finding["evidence"]["label"].as_str().or(finding["evidence"]["keyword"].as_str());
            let label = label.map(|label| format!("({label})")).unwrap_or_default();
            format!("{}.{}{label}", text(&finding["policy"]), text(&finding["rule"]))
        })
        .collect();
    rules.dedup();
    let (checkpoint, action) = (text(&verdict["checkpoint"]), text(&verdict["action"]));
    if checkpoint == "model_request" && action == "allow" {
        return;
    }
    let subject = &verdict["subject"];
    write!(out, "{checkpoint} {action} {} {}", text(&subject["call_id"]), text(&subject["tool"])).unwrap();
    rules.iter().for_each(|rule| write!(out, " {rule}").unwrap());
    let of_verdict =
        |e: &&Emission| e.to == To::Redacted && header(e, "ce_sgverdictid") == verdict["verdict_id"].as_str();
    if checkpoint == "tool_call"
        && let Some(record) = emissions.iter().find(of_verdict)
    {
        let record = body(record);
        let names = ["arguments", "arguments_text", "input"];
        let args = names.iter().find_map(|name| record.get(*name)).expect("arguments");
        write!(out, " {args}").unwrap();
    }
    out.push('\n');
}

/// Judges the files of a folder: those of one provider, or all.
pub fn judge(folder: &str, provider: Option<&str>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engine").join(folder);
    let update = std::env::var_os("UPDATE").is_some();
    let (mut judged, mut wrong) = (0, Vec::new());
    let mut paths: Vec<PathBuf> = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for bug in paths.into_iter().map(Bug::read).filter(|bug| provider.is_none_or(|name| bug.provider == name)) {
        judged += 1;
        let said = bug.said();
        if update {
            std::fs::write(&bug.path, format!("{}--- verdicts\n{said}", bug.told)).unwrap();
        } else if said != bug.expected {
            wrong.push(format!("{}\nsaid:\n{said}expected:\n{}", bug.path.display(), bug.expected));
        }
    }
    println!("{judged} of {folder}, {provider:?}");
    assert!(judged > 0 && wrong.is_empty(), "{} of {judged}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn anthropic_messages() {
    judge("field_bugs", Some("anthropic.messages"));
}

#[test]
fn openai_responses() {
    judge("field_bugs", Some("openai.responses"));
}

#[test]
fn openai_chat() {
    judge("field_bugs", Some("openai.chat"));
}

#[test]
fn gemini_generate_content() {
    judge("field_bugs", Some("gemini.generate_content"));
}

#[test]
fn mcp() {
    judge("field_bugs", Some("mcp"));
}
