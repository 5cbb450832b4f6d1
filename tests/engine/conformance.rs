//! Conformance over recorded traffic: every call that the recordings state is assembled with equal
//! arguments, and none that is not final is allowed.

use crate::support::{Partition, body, engine, files, header, lines, shared, trusting, verdicts};
use serde_json::Value;
use sluicegate::engine::policy::Profile;
use sluicegate::engine::{Emission, Outcome, To};
use std::collections::BTreeMap;
use std::path::Path;

/// The providers of the recordings, and how many final calls are stated of each (0: they state none; what they
/// must give is written by hand beside the provider's own tests).
const PROVIDERS: [(&str, usize); 8] = [
    ("anthropic.messages", 195),
    ("openai.responses", 153),
    ("openai.chat", 245),
    ("xai.responses", 33),
    ("xai.chat", 18),
    ("gemini.generate_content", 154),
    ("gemini.live", 0),
    ("mcp", 0),
];

/// What one file gave.
struct Judged {
    emissions: Vec<Emission>,
    outcomes: Vec<Outcome>,
    opaque: BTreeMap<&'static str, u64>,
}

fn judge(path: &Path, engine: &sluicegate::engine::Engine) -> Judged {
    let mut partition = Partition::new(engine);
    let mut emissions = Vec::new();
    for line in lines(path) {
        emissions.extend(partition.feed(&line));
    }
    Judged { emissions, outcomes: partition.outcomes, opaque: partition.opaque }
}

/// Arguments in the form in which they are compared: JSON as a value, free text as a string.
fn stated(call: &Value) -> Value {
    let free = matches!(call["type"].as_str(), Some("custom_tool_call" | "code_interpreter_call"));
    match &call["arguments"] {
        Value::String(text) if !free => {
            if text.trim().is_empty() {
                return serde_json::json!({});
            }
            serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone()))
        }
        other => other.clone(),
    }
}

fn assembled(record: &Value) -> Value {
    ["arguments", "input", "arguments_text"].iter().find_map(|k| record.get(*k)).cloned().unwrap_or(Value::Null)
}

fn same_id(call: &Value, shown: &Value) -> bool {
    let id = |name: &str| call[name].as_str().filter(|id| !id.is_empty());
    match id("call_id").or(id("item_id")) {
        // Scrubbed ids repeat within a file, so they say nothing.
        Some(id) if !id.contains("_REDACTED") => shown.as_str() == Some(id),
        _ => true,
    }
}

#[derive(Default)]
struct Table {
    files: usize,
    events: usize,
    stated: usize,
    equal: usize,
    not_final: usize,
    cut: BTreeMap<String, usize>,
    opaque: BTreeMap<&'static str, u64>,
    beyond: usize,
    differences: Vec<String>,
}

#[test]
fn every_stated_call_is_assembled() {
    let Some(corpus) = shared("corpus") else { return };
    let off = engine(Profile::Off);
    let standard = engine(Profile::Standard);
    let mut differences = Vec::new();
    for (provider, bound) in PROVIDERS {
        let mut table = Table::default();
        for path in files(&corpus.join("recorded").join(provider)) {
            let judged = judge(&path, &off);
            table.files += 1;
            table.events += judged.outcomes.len();
            for (kind, count) in &judged.opaque {
                *table.opaque.entry(kind).or_default() += count;
            }
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            for (line, outcome) in judged.outcomes.iter().enumerate() {
                if let Outcome::Rejected(reject) = outcome {
                    table.differences.push(format!("{name}:{line}: rejected as {}", reject.label()));
                }
            }
            for verdict in verdicts(&judge(&path, &standard).emissions) {
                for finding in verdict["findings"].as_array().into_iter().flatten() {
                    if finding["rule"] == "cut_call" {
                        *table.cut.entry(finding["evidence"]["label"].to_string()).or_default() += 1;
                    }
                }
            }
            let expected = corpus.join("expected").join(provider).join(name.replace(".jsonl", ".json"));
            if let Ok(expected) = std::fs::read(&expected) {
                compare(&name, &serde_json::from_slice(&expected).expect("expectations are JSON"), &judged, &mut table);
            }
        }
        println!(
            "{provider}: {} files, {} events, {} final calls stated, {} equal, {} not final, {} beyond those stated, cut by reason {:?}, opaque {:?}",
            table.files,
            table.events,
            table.stated,
            table.equal,
            table.not_final,
            table.beyond,
            table.cut,
            table.opaque
        );
        assert!(table.stated >= bound, "{provider}: {} calls stated, {bound} expected", table.stated);
        differences.extend(table.differences);
    }
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
}

fn compare(name: &str, expected: &Value, judged: &Judged, table: &mut Table) {
    let verdicts = verdicts(&judged.emissions);
    let records: Vec<(String, Value)> = judged
        .emissions
        .iter()
        .filter(|e| e.to == To::Redacted && header(e, "ce_type") == Some("io.sluicegate.tool.call.v1"))
        .map(|e| (header(e, "ce_sgverdictid").unwrap_or_default().to_owned(), body(e)))
        .collect();
    for exchange in expected.as_array().into_iter().flatten() {
        // Gemini's calls stand in order, and the id is the one that the client gave them later.
        let ordered = exchange["provider"] == "gemini.generate_content";
        let response = exchange["exchange"].to_string();
        let of_response = |v: &Value| v["response_id"].as_str() == Some(&response);
        let mut left: Vec<&(String, Value)> = records.iter().filter(|(_, r)| of_response(r)).collect();
        // Calls that the client wrote into the history itself; no model made them.
        let made_up = |call: &&Value| call["call_id"].as_str().is_some_and(|id| id.starts_with("auto_load_"));
        for call in exchange["calls"].as_array().into_iter().flatten().filter(|call| !made_up(call)) {
            let place = format!("{name} exchange {response} {} {}", call["type"], call["call_id"]);
            let fits = |record: &Value| {
                (ordered || same_id(call, &record["call_id"]))
                    && (call["name"].is_null() || call["name"] == record["tool"])
                    && stated(call) == assembled(record)
            };
            let found = match ordered {
                true => left.first().filter(|(_, record)| fits(record)).map(|_| 0),
                false => left.iter().position(|(_, record)| fits(record)),
            };
            if call["final"] == true {
                table.stated += 1;
                let Some(found) = found else {
                    let shown: Vec<String> = left.iter().map(|(_, r)| r.to_string()).collect();
                    table.differences.push(format!("{place}: no equal record among {shown:?}"));
                    continue;
                };
                let (verdict_id, record) = left.remove(found);
                let own: Vec<&Value> =
                    verdicts.iter().filter(|v| v["verdict_id"].as_str() == Some(verdict_id)).collect();
                let one = matches!(own[..], [v] if v["action"] == "allow" && v["checkpoint"] == "tool_call");
                let twice = verdicts
                    .iter()
                    .filter(|v| {
                        of_response(v)
                            && v["subject"]["call_id"] == record["call_id"]
                            && same_id(call, &record["call_id"])
                    })
                    .count();
                let scrubbed =
                    ordered || call["call_id"].as_str().is_none_or(|id| id.is_empty() || id.contains("_REDACTED"));
                if !one || (twice != 1 && !scrubbed) {
                    table.differences.push(format!("{place}: {} verdicts, {twice} for its id", own.len()));
                    continue;
                }
                table.equal += 1;
            } else {
                table.not_final += 1;
                let allowed = found.is_some()
                    || verdicts.iter().any(|v| {
                        !ordered && of_response(v) && same_id(call, &v["subject"]["call_id"]) && v["action"] == "allow"
                    });
                if allowed {
                    table.differences.push(format!("{place}: allowed though not final"));
                }
            }
        }
        table.beyond += left.len();
    }
}

/// Every call and request of the recordings that `standard` blocks, by provider, file, subject and rules:
/// compared with a list in which each is argued. A new block, or one that is gone, is looked at by a person.
#[test]
fn every_block_of_recorded_traffic_is_argued() {
    let Some(corpus) = shared("corpus") else { return };
    let standard = trusting(Profile::Standard);
    let mut blocks: BTreeMap<String, usize> = BTreeMap::new();
    let mut actions: BTreeMap<String, usize> = BTreeMap::new();
    for (provider, _) in PROVIDERS {
        for path in files(&corpus.join("recorded").join(provider)) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            for verdict in verdicts(&judge(&path, &standard).emissions) {
                let text = |v: &Value| v.as_str().unwrap_or("-").to_owned();
                let row = format!("{provider} {} {}", text(&verdict["checkpoint"]), text(&verdict["action"]));
                *actions.entry(row).or_default() += 1;
                if verdict["action"] != "block" {
                    continue;
                }
                let mut rules: Vec<String> = verdict["findings"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter(|f| f["effect"] == "block")
                    .map(|f| {
                        let label = f["evidence"]["label"].as_str().or(f["evidence"]["keyword"].as_str());
                        format!("{}{}", text(&f["rule"]), label.map_or(String::new(), |l| format!("({l})")))
                    })
                    .collect();
                rules.dedup();
                let row = format!("{provider}/{name} {} {}", text(&verdict["checkpoint"]), rules.join("+"));
                *blocks.entry(row).or_default() += 1;
            }
        }
    }
    for (row, n) in &actions {
        println!("{row}: {n}");
    }
    let argued = include_str!("recorded_blocks.txt");
    let argued: BTreeMap<String, usize> = argued
        .lines()
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty())
        .map(|line| {
            let (row, why) = line.split_once(" -- ").unwrap_or_else(|| panic!("no argument in {line:?}"));
            assert!(why.len() > 20, "argue {row:?}");
            let (n, row) = row.split_once(' ').unwrap_or_else(|| panic!("no count in {line:?}"));
            (row.to_owned(), n.parse().unwrap_or_else(|_| panic!("no count in {line:?}")))
        })
        .collect();
    let show =
        |rows: &BTreeMap<String, usize>| rows.iter().map(|(r, n)| format!("{n} {r}")).collect::<Vec<_>>().join("\n");
    assert!(blocks == argued, "blocked now:\n{}\n\nargued:\n{}", show(&blocks), show(&argued));
}
