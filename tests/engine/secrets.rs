//! Secrets in the whole engine: what recorded traffic has of them, and planted ones, which appear nowhere.

use crate::support::{Partition, body, engine, files, lines, settings, shared, verdicts};
use aho_corasick::AhoCorasick;
use base64::Engine as _;
use serde_json::{Map, Value, json};
use sluicegate::engine::decision::Decision;
use sluicegate::engine::policy::{OnePolicy, Profile};
use sluicegate::engine::{Emission, Engine, To, digest};
use std::hash::{DefaultHasher, Hash, Hasher};

const ALNUM: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// `length` symbols, the same for the same seed.
fn drawn(seed: u64, length: usize, alphabet: &[u8]) -> String {
    let mut state = seed | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(alphabet[(state >> 33) as usize % alphabet.len()])
    };
    (0..length).map(|_| next()).collect()
}

/// A made-up token, the same for the same text.
fn token_for(text: &str) -> String {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    let seed = hasher.finish();
    match seed % 5 {
        0 => format!("{}{}", "AKIA", drawn(seed, 16, b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")),
        1 => format!("{}-{}7a", "glpat", drawn(seed, 18, ALNUM)),
        2 => format!("{}_{}_{}7a", "sk", "live", drawn(seed, 22, ALNUM)),
        3 => format!("hf_{}7a", drawn(seed, 32, ALNUM)),
        _ => format!("{}{}7a", "AIza", drawn(seed, 33, ALNUM)),
    }
}

/// Recorded traffic was cleaned by those who recorded it, so every hit would be a false alarm.
#[test]
fn recorded_traffic_holds_no_secret() {
    let Some(corpus) = shared("corpus") else { return };
    let engine = engine(Profile::Standard);
    let mut found = Vec::new();
    for provider in files(&corpus.join("recorded")) {
        for path in files(&provider) {
            let mut partition = Partition::new(&engine);
            let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            for line in lines(&path) {
                for verdict in verdicts(&partition.feed(&line)) {
                    for finding in findings(&verdict) {
                        found.push(format!("{file}: {} {finding}", verdict["checkpoint"]));
                    }
                }
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// What SG11 found.
fn findings(verdict: &Value) -> Vec<Value> {
    let all = verdict["findings"].as_array().into_iter().flatten();
    all.filter(|finding| finding["policy"] == "SG11").cloned().collect()
}

/// Plants tokens into an event, and keeps what it planted.
#[derive(Default)]
struct Planter {
    planted: Vec<String>,
}

/// Members that name something: the same name becomes the same token, so that calls and results still meet.
const NAMES: [&str; 13] = [
    "name",
    "id",
    "call_id",
    "tool_call_id",
    "tool_use_id",
    "item_id",
    "server_label",
    "server_name",
    "namespace",
    "filename",
    "file_id",
    "title",
    "previous_response_id",
];

impl Planter {
    fn token(&mut self, text: &str) -> String {
        let token = token_for(text);
        self.planted.push(token.clone());
        token
    }

    fn value(&mut self, value: &mut Value, member: &str) {
        match value {
            Value::String(text) if NAMES.contains(&member) => *text = self.token(text),
            Value::String(text) if text.contains(' ') => *text = format!("{text} ({})", self.token(text)),
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item, member)),
            Value::Object(members) => {
                members.iter_mut().for_each(|(name, value)| self.value(value, name));
                let free =
                    matches!(member, "input" | "arguments" | "args" | "response" | "properties" | "structuredContent");
                if free {
                    let name = self.token(&format!("{member}{}", members.len()));
                    members.insert(name, json!({"type": "string"}));
                }
            }
            _ => {}
        }
    }

    /// Attributes too.
    fn event(&mut self, line: &[u8]) -> Option<Vec<u8>> {
        let mut event: Map<String, Value> = serde_json::from_slice(line).ok()?;
        for name in ["id", "source", "conversation", "fleet", "agent", "responseid", "callid", "tool", "mcpserver"] {
            let known = event.get(name).and_then(Value::as_str).map(str::to_owned);
            // These two are told in every event; the others only where they are.
            if let Some(text) = known.or(matches!(name, "fleet" | "agent").then(|| "default".to_owned())) {
                let token = self.token(&format!("{name} {text}"));
                event.insert(name.to_owned(), json!(token));
            }
        }
        event.insert("traceparent".into(), json!("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"));
        let state = format!("vendor={}", self.token("tracestate"));
        event.insert("tracestate".into(), json!(state));
        if let Some(data) = event.get_mut("data") {
            self.value(data, "data");
        }
        serde_json::to_vec(&event).ok()
    }
}

/// What an emission says in its own words: of a verdict all, of others what their headers add.
fn own_words(emission: &Emission) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in &emission.headers {
        if emission.to != To::DeadLetters || name.starts_with("sluicegate_dlq_") {
            out.extend_from_slice(name.as_bytes());
            out.push(b' ');
            out.extend_from_slice(value);
            out.push(b'\n');
        }
    }
    if emission.to == To::Verdicts {
        out.extend_from_slice(emission.value.as_deref().unwrap_or_default());
    }
    out
}

/// Of a record of a call, what the model wrote.
fn arguments(emission: &Emission) -> Option<String> {
    let is_call = emission.headers.iter().any(|(name, value)| name == "ce_type" && value.ends_with(b"tool.call.v1"));
    let record = is_call.then(|| body(emission))?;
    ["arguments", "arguments_text", "input"].iter().find_map(|name| Some(record.get(name)?.to_string()))
}

#[test]
fn planted_secrets_appear_nowhere() {
    let Some(corpus) = shared("corpus") else { return };
    let engine = engine(Profile::Standard);
    let (mut planted, mut replacements, mut redacted, mut again) = (0, 0, 0, 0);
    for provider in files(&corpus.join("recorded")) {
        for path in files(&provider) {
            let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let mut planter = Planter::default();
            let mut partition = Partition::new(&engine);
            let (mut said, mut copies, mut calls) = (Vec::new(), Vec::new(), Vec::new());
            for line in lines(&path) {
                let Some(line) = planter.event(&line) else { continue };
                let emissions = partition.feed(&line);
                let replaced =
                    verdicts(&emissions).iter().flat_map(findings).filter(|f| f["effect"] == "redact").count();
                replacements += replaced;
                // Without the request before it, a server's list would be read as a tool's output.
                let list = verdicts(&emissions).iter().any(|verdict| verdict["checkpoint"] == "tool_definitions");
                for emission in emissions {
                    said.extend(own_words(&emission));
                    calls.extend(arguments(&emission).map(String::into_bytes).unwrap_or_default());
                    let changed = emission.headers.iter().any(|(name, _)| name == "sluicegate_dlq_reason");
                    if emission.to == To::Redacted && !changed && !list && arguments(&emission).is_none() {
                        copies.extend(emission.value);
                    }
                }
                said.extend(format!("{:?}", partition.observations()).into_bytes());
            }
            planter.planted.sort_unstable();
            planter.planted.dedup();
            planted += planter.planted.len();
            // A part of a token would be as bad.
            let parts: Vec<&str> = planter.planted.iter().map(|token| &token[token.len() - 14..]).collect();
            let search = AhoCorasick::new(&parts).unwrap();
            for (what, text) in [("verdicts, labels and headers", &said), ("records of calls", &calls)] {
                if let Some(hit) = search.find(text) {
                    let around = &text[hit.start().saturating_sub(300)..(hit.end() + 60).min(text.len())];
                    panic!("{file}: {what} show a planted token: {}", String::from_utf8_lossy(around));
                }
            }
            for copy in &copies {
                redacted += 1;
                let mut partition = Partition::new(&engine);
                for verdict in verdicts(&partition.feed(copy)) {
                    again += 1;
                    let left: Vec<Value> =
                        findings(&verdict).into_iter().filter(|finding| finding["effect"] == "redact").collect();
                    assert!(left.is_empty(), "{file}: a second pass finds more: {left:#?}");
                }
            }
        }
    }
    println!("{planted} tokens, {replacements} findings that replace, {redacted} copies, {again} verdicts on them");
    assert!(planted > 10_000 && replacements > 500 && redacted > 200, "{planted}, {replacements}, {redacted}");
}

fn event(kind: &str, provider: &str, data: Value) -> Vec<u8> {
    json!({"specversion": "1.0", "id": "e", "source": "/s", "type": format!("io.sluicegate.{kind}.v1"),
        "provider": provider, "conversation": "c", "data": data})
    .to_string()
    .into_bytes()
}

fn with(profile: Profile, one: OnePolicy) -> Engine {
    let mut settings = settings(profile);
    settings.policy.policies.insert("SG11".into(), one);
    Engine::new(settings).unwrap()
}

fn options(options: Value) -> OnePolicy {
    OnePolicy { options: options.as_object().cloned().unwrap(), ..OnePolicy::default() }
}

/// The verdict on a raw output, and the content of its copy.
fn host(engine: &Engine, content: Value) -> (Value, Value) {
    let data = json!({"call_id": "t1", "outcome": "ok", "content": {"source": "s", "content": content}});
    let emissions = Partition::new(engine).feed(&event("tool.result", "anthropic.messages", data));
    let copy = emissions.iter().find(|e| e.to == To::Redacted).map(body).unwrap_or_default();
    (verdicts(&emissions).remove(0), copy["data"]["content"]["content"].clone())
}

/// What names a value stands beside it, in either order; also in JSON inside a string.
#[test]
fn pairs_of_members_are_read_as_one() {
    let engine = engine(Profile::Standard);
    for (name, value) in [("name", "value"), ("Name", "Value"), ("key", "value")] {
        for inside in [false, true] {
            let pair = |text: &str| {
                let env = json!({"env": [{name: "DB_PASSWORD", value: text}, {value: text, name: "DB_PASSWORD"},
                    {name: "MODE", value: "n0t-r3al"}]});
                if inside { json!(env.to_string()) } else { env }
            };
            let (verdict, copy) = host(&engine, pair("n0t-r3al"));
            assert_eq!(findings(&verdict)[0]["rule"], "password");
            assert_eq!(copy, pair("[secret:password:1]"));
        }
    }
    let holds = json!([{"name": "password", "type": "n0t-r3al"}, {"name": "password", "value": "${DB_PASSWORD1}"},
        {"name": {"value": "n0t-r3al"}}, {"value": "n0t-r3al"}, {"name": 1, "value": "n0t-r3al"}]);
    assert_eq!(findings(&host(&engine, holds).0), [] as [Value; 0]);
}

#[test]
fn values_keep_their_numbers() {
    let [first, other] = [5, 9].map(|seed| format!("{}-{}7a", "glpat", drawn(seed, 18, ALNUM)));
    let content = json!([format!("a {first} b {other}"), {"x": format!("{first}"), "password": "n0t-r3al"}]);
    let (verdict, copy) = host(&engine(Profile::Standard), content);
    let number = |n: u32| format!("[secret:gitlab-token:{n}]");
    let wanted =
        json!([format!("a {} b {}", number(1), number(2)), {"x": number(1), "password": "[secret:password:1]"}]);
    assert_eq!(copy, wanted);
    assert_eq!((&verdict["decision"], &verdict["action"]), (&json!("redact"), &json!("redact")));
    let said: Vec<(Value, Value, Value)> = findings(&verdict)
        .iter()
        .map(|f| (f["rule"].clone(), f["evidence"]["label"].clone(), f["evidence"]["count"].clone()))
        .collect();
    let row = |rule: &str, label: &str, count: u32| (json!(rule), json!(label), json!(count));
    let wanted =
        [row("credential", "gitlab-token", 2), row("password", "password", 1), row("credential", "gitlab-token", 1)];
    assert_eq!(said, wanted);
    assert_eq!(findings(&verdict)[0]["range"], json!([2, 2 + first.len()]));
}

#[test]
fn names_of_members_and_what_is_encoded() {
    let engine = engine(Profile::Standard);
    let token = format!("{}-{}7a", "glpat", drawn(5, 18, ALNUM));
    let placeholder = "[secret:gitlab-token:1]";
    let (_, copy) = host(&engine, json!({"rows": {token.clone(): 1}}));
    assert_eq!(copy, json!({"rows": {placeholder: 1}}));
    let (_, copy) = host(&engine, json!(json!({"inner": [token.clone()]}).to_string()));
    assert_eq!(copy, json!(json!({"inner": [placeholder]}).to_string()));
    let encoded = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    let (verdict, copy) = host(&engine, json!(format!("see {} there", encoded(&format!("the token: {token}.")))));
    assert_eq!(copy, json!(format!("see {} there", encoded(&format!("the token: {placeholder}.")))));
    assert_eq!(findings(&verdict)[0]["at"].as_array().unwrap().last().unwrap()["in"], "base64");
    // A token's own parts are not looked into: it goes as a whole.
    let part = |text: Value| base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(text.to_string());
    let jwt =
        format!("{}.{}.{}", part(json!({"alg": "HS256"})), part(json!({"password": "n0t-r3al"})), drawn(7, 43, ALNUM));
    let (_, copy) = host(&engine, json!(format!("({jwt})")));
    assert_eq!(copy, json!("([secret:jwt:1])"));
}

#[test]
fn a_call_carries_the_placeholder() {
    let engine = engine(Profile::Standard);
    let mut partition = Partition::new(&engine);
    let input = json!({"url": "postgres://app:n0t-r3al@db/x", "limit": 3});
    let response = json!({"id": "msg_1", "type": "message", "role": "assistant", "stop_reason": "tool_use",
        "content": [{"type": "tool_use", "id": "t1", "name": "query", "input": input}]});
    let emissions = partition.feed(&event("model.response", "anthropic.messages", response));
    let verdict = verdicts(&emissions).remove(0);
    assert_eq!((&verdict["checkpoint"], &verdict["action"]), (&json!("tool_call"), &json!("redact")));
    let record = emissions.iter().find(|e| e.to == To::Redacted).map(body).unwrap();
    let arguments = json!({"limit": 3, "url": "postgres://app:[secret:connection-password:1]@db/x"});
    assert_eq!(record["arguments"], arguments);
    assert_eq!(record["arguments_sha256"], json!(digest::hex(&digest::sha256(arguments.to_string().as_bytes()))));
    // The host that runs it with the original is told.
    let original = digest::hex(&digest::sha256(input.to_string().as_bytes()));
    let started = json!({"call_id": "t1", "arguments_sha256": original});
    let verdict = verdicts(&partition.feed(&event("tool.started", "anthropic.messages", started))).remove(0);
    assert_eq!(verdict["findings"][0]["rule"], "started_with_other_arguments");
}

#[test]
fn what_the_provider_read_cannot_be_taken_back() {
    let result = json!({"type": "web_search_tool_result", "tool_use_id": "s1",
        "content": [{"type": "web_search_result", "url": "https://a.example", "title": "api_key=abcdef0123456789abcdef", "encrypted_content": "x"}]});
    let response = json!({"id": "msg_1", "type": "message", "role": "assistant", "stop_reason": "end_turn", "content": [
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "a"}}, result]});
    let raised = OnePolicy { rules: [("already_read".to_owned(), Decision::Block)].into(), ..OnePolicy::default() };
    let engines = [
        (engine(Profile::Standard), "allow"),
        (engine(Profile::Strict), "block"),
        (with(Profile::Standard, raised), "block"),
    ];
    for (engine, wanted) in engines {
        let emissions = Partition::new(&engine).feed(&event("model.response", "anthropic.messages", response.clone()));
        let verdicts = verdicts(&emissions);
        let verdict = verdicts.iter().find(|v| v["checkpoint"] == "server_result").unwrap();
        assert_eq!(
            findings(verdict).iter().map(|f| (&f["rule"], &f["effect"])).collect::<Vec<_>>(),
            [(&json!("already_read"), &json!(wanted))]
        );
    }
}

#[test]
fn options_choose_what_is_replaced() {
    let text = "DB_PASSWORD=n0t-r3al-at-all api_key=abcdef0123456789abcdef mail jane@mail.example.org";
    let copy = |one: OnePolicy| host(&with(Profile::Standard, one), json!(text)).1.as_str().map(str::to_owned);
    let all = "DB_PASSWORD=[secret:password:1] api_key=[secret:api-key:1] mail jane@mail.example.org";
    assert_eq!(copy(OnePolicy::default()).as_deref(), Some(all));
    assert_eq!(
        copy(options(json!({"ignore": ["api-key"]}))),
        Some(all.replace("[secret:api-key:1]", "abcdef0123456789abcdef"))
    );
    assert_eq!(
        copy(options(json!({"entropy": 4.5}))),
        Some(all.replace("[secret:api-key:1]", "abcdef0123456789abcdef"))
    );
    assert_eq!(
        copy(options(json!({"personal_data": true}))),
        Some(all.replace("jane@mail.example.org", "[personal:email:1]"))
    );
    let mut settings = settings(Profile::Standard);
    settings.policy.policies.insert("SG11".into(), options(json!({"ignore": ["jwt", "nonsense"], "entropy": 9})));
    let problems = Engine::new(settings).err().unwrap();
    let paths: Vec<&str> = problems.iter().map(|problem| problem.path.as_str()).collect();
    assert!(
        paths.iter().any(|p| p.ends_with("SG11.options.entropy"))
            && paths.iter().any(|p| p.ends_with("SG11.options.ignore.1")),
        "{paths:?}"
    );
    assert_eq!(paths.len(), 2);
}
