//! What the policies do with recorded traffic: a table by policy and rule, for `standard` and for `strict`.
//!
//! What a provider accepted is not blocked for its shape: in `standard`, no request that was answered without an
//! error is blocked by the policies that judge shapes.

use crate::support::{Partition, engine, files, lines, shared, verdicts};
use serde_json::Value;
use sluicegate::engine::Engine;
use sluicegate::engine::policy::Profile;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Policies that judge how a request is built, which its provider judges too.
const SHAPES: [&str; 5] = ["SG03", "SG06", "SG09", "SG10", "SG13"];

/// Policies that judge the results in a request by what their provider judges too: their files.
const FILES: &str = "SG13";

/// By policy, rule and effect: verdicts, and files.
type Table = BTreeMap<(String, String, String), (usize, BTreeSet<String>)>;

/// The exchanges of a file that a provider answered with an error.
fn refused(lines: &[Vec<u8>]) -> BTreeSet<String> {
    let events = lines.iter().filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    let failed = events.filter(|event| {
        let status = event["httpstatus"].as_str().and_then(|s| s.parse().ok()).or(event["httpstatus"].as_u64());
        status.is_some_and(|status| status >= 400)
    });
    failed.filter_map(|event| Some(event["responseid"].as_str()?.to_owned())).collect()
}

/// The exchanges of a file of which there is an answer.
fn answered(lines: &[Vec<u8>]) -> BTreeSet<String> {
    let events = lines.iter().filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    let kinds = ["io.sluicegate.model.response.v1", "io.sluicegate.model.chunk.v1"];
    let answers = events.filter(|event| kinds.iter().any(|kind| event["type"] == *kind));
    answers.filter_map(|event| Some(event["responseid"].as_str()?.to_owned())).collect()
}

fn run(path: &Path, engine: &Engine, table: &mut Table, shapes: &mut Vec<String>) -> usize {
    let mut partition = Partition::new(engine);
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let lines = lines(path);
    let (refused, answered) = (refused(&lines), answered(&lines));
    let mut requests = 0;
    for line in &lines {
        for verdict in verdicts(&partition.feed(line)) {
            let is_request = verdict["checkpoint"] == "model_request";
            requests += usize::from(is_request);
            for finding in verdict["findings"].as_array().into_iter().flatten().filter(|f| f["effect"] != "allow") {
                let text = |name: &str| finding[name].as_str().unwrap_or("-").to_owned();
                let entry = table.entry((text("policy"), text("rule"), text("effect"))).or_default();
                entry.0 += 1;
                entry.1.insert(name.clone());
                let id = verdict["response_id"].as_str().unwrap_or_default();
                let accepted = !refused.contains(id);
                let judged = match text("policy").as_str() {
                    // A file is judged with the result that it stands in.
                    FILES => !is_request && answered.contains(id),
                    policy => is_request && SHAPES.contains(&policy),
                };
                if judged && accepted && text("effect") == "block" {
                    shapes.push(format!("{name}: {} {}", text("policy"), text("rule")));
                }
            }
        }
    }
    requests
}

#[test]
fn what_providers_accepted_is_not_blocked_for_its_shape() {
    let Some(corpus) = shared("corpus") else { return };
    for profile in [Profile::Standard, Profile::Strict] {
        let engine = engine(profile);
        let (mut table, mut shapes, mut requests) = (Table::new(), Vec::new(), 0);
        for provider in files(&corpus.join("recorded")) {
            for path in files(&provider) {
                requests += run(&path, &engine, &mut table, &mut shapes);
            }
        }
        println!(
            "\n{profile:?}: {requests} requests\n\n| policy | rule | effect | findings | files |\n|---|---|---|---|---|"
        );
        for ((policy, rule, effect), (count, files)) in &table {
            println!("| {policy} | {rule} | {effect} | {count} | {} |", files.len());
        }
        assert!(requests > 500, "{requests} requests");
        assert!(profile == Profile::Strict || shapes.is_empty(), "{}", shapes.join("\n"));
    }
}
