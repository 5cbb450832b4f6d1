//! The files under `deploy/schemas` are what the binary prints, and say what it reads and writes.
//!
//! That everything the engine says in its own suite is as they say is held there (`tests/engine/schemas.rs`).

use crate::files::{fresh, read, root, run, yaml};
use serde_json::{Map, Value, json};
use sluicegate::engine::policy::Policies;
use sluicegate::runtime::config::{self, Config, Need};
use sluicegate::runtime::schema::{DOCUMENTS, asyncapi};
use std::collections::{BTreeSet, HashMap};

fn schema(name: &str) -> Value {
    DOCUMENTS.iter().find(|d| d.name == name).unwrap_or_else(|| panic!("no schema {name}")).value()
}

fn wrong(schema: &jsonschema::Validator, value: &Value) -> Vec<String> {
    schema.iter_errors(value).map(|e| format!("{}: {e}", e.instance_path())).collect()
}

fn compiled(name: &str) -> jsonschema::Validator {
    jsonschema::validator_for(&schema(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

#[test]
fn the_schemas_are_fresh() {
    for document in &DOCUMENTS {
        fresh(&format!("deploy/schemas/{}", document.file()), &document.text());
    }
    let own: BTreeSet<String> = DOCUMENTS.iter().map(|d| d.file()).collect();
    for entry in std::fs::read_dir(root("deploy/schemas")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(name == "released" || own.contains(&name), "deploy/schemas/{name} is made by nothing");
    }
}

#[test]
fn the_asyncapi_document_is_fresh() {
    fresh("deploy/asyncapi.yaml", &asyncapi::document());
}

#[test]
fn the_commands_print_the_files() {
    let mut all: Vec<(&str, String)> =
        DOCUMENTS.iter().map(|d| (d.name, format!("deploy/schemas/{}", d.file()))).collect();
    all.push(("asyncapi", "deploy/asyncapi.yaml".to_owned()));
    for (name, file) in all {
        let output = run(&["schema", name], b"");
        assert!(output.status.success(), "{name}");
        assert_eq!(String::from_utf8(output.stdout).unwrap(), read(&file), "{name}");
    }
    assert_eq!(run(&["schema", "nothing"], b"").status.code(), Some(2));
}

/// Each is a schema of its draft.
#[test]
fn the_schemas_are_schemas() {
    for document in &DOCUMENTS {
        let value = document.value();
        assert!(jsonschema::draft202012::meta::is_valid(&value), "{}", document.name);
        assert_eq!(value["$schema"], "https://json-schema.org/draft/2020-12/schema");
    }
}

/// Configurations that the documents and the deployment show.
fn configurations() -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut pages = vec!["README.md".to_owned()];
    for entry in std::fs::read_dir(root("docs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        pages.extend(name.ends_with(".md").then(|| format!("docs/{name}")));
    }
    pages.sort();
    for page in pages {
        for (n, block) in read(&page).split("```yaml\n").skip(1).enumerate() {
            found.push((format!("{page}, block {}", n + 1), block.split("```").next().unwrap().to_owned()));
        }
    }
    for file in ["tests/runtime/minimal.yaml", "deploy/compose/sluicegate.yaml"] {
        found.push((file.to_owned(), read(file)));
    }
    found.push(("every default".into(), {
        let mut all = serde_json::to_value(Config::default()).unwrap();
        without_nulls(&mut all);
        all.to_string()
    }));
    for meta in Policies::catalogue() {
        let mut options = Policies::default_options(meta.code).unwrap();
        without_nulls(&mut options);
        let one = json!({"policy": {"policies": {meta.code: {"mode": "monitor", "options": options}}}});
        found.push((format!("{} defaults", meta.code), one.to_string()));
    }
    found
}

fn without_nulls(value: &mut Value) {
    if let Value::Object(members) = value {
        members.retain(|_, value| !value.is_null());
        members.values_mut().for_each(without_nulls);
    }
}

/// Whether the service takes it, as far as the file goes: key files are elsewhere.
fn is_taken(text: &str) -> Result<(), String> {
    let mut problems = config::from_text(text, HashMap::new(), Need::Engine).err().unwrap_or_default();
    problems
        .retain(|p| !["engine.fingerprint_key_file", "kafka.ca_file", "kafka.sasl.password_file"].contains(&&*p.path));
    if problems.is_empty() { Ok(()) } else { Err(config::listed(&problems)) }
}

#[test]
fn shown_configurations_are_valid() {
    let validator = compiled("config");
    let all = configurations();
    assert!(all.len() > 20, "only {} configurations were found", all.len());
    for (name, text) in all {
        assert_eq!(is_taken(&text), Ok(()), "{name}");
        assert_eq!(wrong(&validator, &yaml(&text)), Vec::<String>::new(), "{name}\n{text}");
    }
}

/// The tables that a value has, by pointer.
fn tables(value: &Value, at: &str, found: &mut Vec<String>) {
    if let Value::Object(members) = value {
        found.push(at.to_owned());
        for (name, value) in members {
            tables(value, &format!("{at}/{name}"), found);
        }
    }
}

/// A key that nobody knows is refused wherever the service refuses it, and nowhere else.
#[test]
fn unknown_keys_are_refused_where_the_service_refuses_them() {
    let validator = compiled("config");
    let (mut refused, mut taken) = (0, 0);
    for (name, text) in configurations() {
        let good = yaml(&text);
        let mut places = Vec::new();
        tables(&good, "", &mut places);
        for place in places {
            let mut bad = good.clone();
            let table = bad.pointer_mut(&place).and_then(Value::as_object_mut).unwrap();
            table.insert("made_up".into(), json!({}));
            // A name of the operator's own may stand there; that nothing is set for it is another matter.
            let service = is_taken(&bad.to_string())
                .or_else(|said| if said.lines().all(|l| l.contains("sets nothing")) { Ok(()) } else { Err(said) });
            let valid = validator.is_valid(&bad);
            assert_eq!(service.is_ok(), valid, "{name}: made_up at {place:?}: {service:?}");
            *if valid { &mut taken } else { &mut refused } += 1;
        }
    }
    assert!(refused > 100 && taken > 0, "{refused} refused, {taken} taken");
}

/// Values of a wrong type, an unknown policy, rule or mode, and what an operator may not set.
#[test]
fn wrong_values_are_refused_by_both() {
    let validator = compiled("config");
    for text in [
        "kafka: {group: [a]}",
        "kafka: {inputs: agent.events}",
        "kafka: {start: yesterday}",
        "kafka: {startup_timeout: soon}",
        "kafka: {properties: {enable.auto.commit: true}}",
        "kafka: {properties: {max.in.flight.requests.per.connection: 5}}",
        "state: {max_bytes: 5 apples}",
        "worker: {count: -1}",
        "worker: {count: many}",
        "log: {format: xml}",
        "engine: {limits: {record_bytes: 1.5}}",
        "policy: {profile: lax}",
        "policy: {policies: {SG99: {}}}",
        "policy: {policies: {SG01: {mode: observe}}}",
        "policy: {policies: {SG01: {rules: {no_such_rule: block}}}}",
        "policy: {policies: {SG01: {rules: {hard_limit: refuse}}}}",
        "policy: {policies: {SG01: {options: {max_bytes: many}}}}",
        "policy: {policies: {SG04: {options: {tools: [{schema: {}}]}}}}",
        "policy: {policies: {SG06: {options: {allowed_changes: [mood]}}}}",
        "policy: {overrides: {a: {match: {tool: 5}, profile: off}}}",
        "fleets: {a: {topics: x}}",
    ] {
        assert!(is_taken(text).is_err(), "the service takes {text}");
        assert!(!validator.is_valid(&yaml(text)), "the schema takes {text}");
    }
    for text in ["kafka:", "kafka: {topics: }", "kafka: {properties: {fetch.min.bytes: 5}}", "fleets: {a: {}}", "{}"] {
        assert_eq!(is_taken(text), Ok(()), "{text}");
        assert_eq!(wrong(&validator, &yaml(text)), Vec::<String>::new(), "{text}");
    }
}

/// The sample's events, each a line.
fn sample() -> String {
    read("src/runtime/cli/demo/events.jsonl").replace("@LOG@", &"a line of a log\\n".repeat(6000))
}

#[test]
fn sample_events_and_everything_said_of_them_are_valid() {
    let (event, verdict, call, letter, sighting) = (
        compiled("event"),
        compiled("verdict"),
        compiled("tool-call"),
        compiled("deadletter"),
        compiled("pin-sighting"),
    );
    for line in sample().lines() {
        let value: Value = serde_json::from_str(line).unwrap();
        assert_eq!(wrong(&event, &value), Vec::<String>::new(), "{line}");
    }
    let output = run(&["check", "--format", "json", "-"], format!("{}not an event\n", sample()).as_bytes());
    let mut counts = [0; 5];
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let one: Value = serde_json::from_str(line).unwrap();
        let said = || serde_json::from_str::<Value>(one["value"].as_str().unwrap()).unwrap();
        let kind = one["headers"]["ce_type"].as_str();
        let (which, validator, value) = match one["to"].as_str() {
            Some("verdicts") => (0, &verdict, one["value"].clone()),
            Some("redacted") if kind == Some("io.sluicegate.tool.call.v1") => (1, &call, said()),
            Some("redacted") => (2, &event, said()),
            Some("deadletters") => {
                let texts = one["headers"].as_object().unwrap().iter().map(|(name, v)| (name.clone(), v.clone()));
                (3, &letter, texts.collect::<Map<_, _>>().into())
            }
            Some("sightings") => (4, &sighting, said()),
            other => panic!("{other:?}"),
        };
        counts[which] += 1;
        assert_eq!(wrong(validator, &value), Vec::<String>::new(), "{line}");
    }
    assert!(counts[..4].iter().all(|n| *n > 0), "{counts:?}");
}

/// Every attribute that the page of events names is in the schema, and the other way round.
#[test]
fn the_attributes_are_those_of_the_page() {
    let schema = schema("event");
    let mut own: BTreeSet<String> = schema["properties"].as_object().unwrap().keys().cloned().collect();
    own.retain(|name| !name.starts_with("data"));
    let page = read("docs/events.md");
    let table = page.split("| attribute |").nth(1).unwrap().split("\n\n").next().unwrap();
    let mut named = BTreeSet::new();
    for row in table.lines().skip(2) {
        let cell = row.split('|').nth(1).unwrap();
        named.extend(cell.split('`').skip(1).step_by(2).map(str::to_owned));
    }
    assert_eq!(own, named);
}

/// Rules of policies, and records that the schemas of pins speak of.
#[test]
fn pins_are_as_their_schemas_say() {
    use sluicegate::engine::pins::record::{DecisionRecord, Key, Sighting, Standing};
    let key = |name: Option<&[u8]>, client| Key {
        server: b"docs".to_vec(),
        capabilities: client,
        name: name.map(<[u8]>::to_vec),
        digest: [7; 32],
    };
    let (pin, sighting) = (compiled("pin"), compiled("pin-sighting"));
    for (key, definition) in [
        (key(Some(b"f"), None), Some(&br#"{"name":"f"}"#[..])),
        (key(None, Some([9; 32])), Some(&br#""how to use it""#[..])),
        (key(Some(b"g"), None), None),
    ] {
        for standing in [Standing::Approved, Standing::Rejected] {
            let record = DecisionRecord::new(key.clone(), standing, definition.map(<[u8]>::to_vec)).encode();
            assert_eq!(wrong(&pin, &serde_json::from_slice(&record).unwrap()), Vec::<String>::new());
        }
        let seen = Sighting {
            key,
            changed: true,
            definition: definition.map(<[u8]>::to_vec),
            definition_bytes: 3,
            topic: "agent.events".into(),
            partition: 0,
            offset: 5,
            time: 0,
        };
        let value = serde_json::from_slice(&seen.encode()).unwrap();
        assert_eq!(wrong(&sighting, &value), Vec::<String>::new());
    }
    assert!(!pin.is_valid(&json!({"v": 2})));
}

/// References of the AsyncAPI document lead somewhere, within it or to the files beside it.
#[test]
fn references_of_the_asyncapi_document_resolve() {
    fn references<'v>(value: &'v Value, found: &mut Vec<&'v str>) {
        match value {
            Value::Object(members) => {
                found.extend(members.get("$ref").and_then(Value::as_str));
                members.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }
    let document = yaml(&asyncapi::document());
    let mut all = Vec::new();
    references(&document, &mut all);
    assert!(all.len() > 40, "{all:?}");
    for reference in all {
        match reference.strip_prefix('#') {
            Some(pointer) => assert!(document.pointer(pointer).is_some(), "{reference}"),
            None => assert!(root("deploy").join(reference).is_file(), "{reference}"),
        }
    }
    let topics: BTreeSet<&str> =
        document["channels"].as_object().unwrap().values().map(|c| c["address"].as_str().unwrap()).collect();
    assert_eq!(topics.len(), 8);
}
