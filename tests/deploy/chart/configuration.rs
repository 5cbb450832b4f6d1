//! The rendered configuration, judged by the binary that reads it.

use super::render::{CHART, all, items, of_kind, own_containers, pod, refusal, text, with, workload};
use super::values::described;
use super::{tools, yaml};
use crate::files::{fresh, read, root};
use serde_json::{Map, Value, json};
use sluicegate::engine::Limits;
use sluicegate::engine::policy::{Meta, Policies};
use sluicegate::runtime::config::{Config, DENIED_PROPERTIES};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// Keys that the chart sets from values of its own, or that stand in a file of their own.
const OWNED: [&str; 7] = [
    "policy",
    "http",
    "kafka.instance",
    "kafka.security_protocol",
    "kafka.sasl",
    "kafka.ca_file",
    "engine.fingerprint_key_file",
];

/// Writes what the pod would find below `/etc/sluicegate` into a folder, and runs the container's command there.
fn run(objects: &[Value], container: &Value, folder: &Path, instead_of_run: &[&str]) -> (bool, String) {
    let moved = |text: &str| text.replace("/etc/sluicegate", &folder.display().to_string());
    let (_, spec) = pod(workload(objects)).expect("a pod");
    for mount in items(container, "/volumeMounts") {
        let at = moved(text(mount, "/mountPath"));
        std::fs::create_dir_all(&at).expect("a folder");
        let volume = items(spec, "/volumes").find(|v| v["name"] == mount["name"]).expect("a volume");
        for key in items(volume, "/secret/items").chain(items(volume, "/configMap/items")) {
            let secret = if text(key, "/path") == "fingerprint.key" { "0f".repeat(32) } else { "not a secret".into() };
            std::fs::write(Path::new(&at).join(text(key, "/path")), secret).expect("written");
        }
        let map =
            of_kind(objects, "ConfigMap").into_iter().find(|m| m["metadata"]["name"] == volume["configMap"]["name"]);
        for (file, content) in map.and_then(|m| m["data"].as_object()).into_iter().flatten() {
            std::fs::write(Path::new(&at).join(file), moved(content.as_str().expect("text"))).expect("written");
        }
    }
    let mut arguments: Vec<String> = items(container, "/args").filter_map(Value::as_str).map(moved).collect();
    arguments.splice(..1, instead_of_run.iter().map(|s| (*s).to_owned()));
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluicegate"));
    command.args(arguments).env("SLUICEGATE__KAFKA__INSTANCE", "gate-sluicegate-0");
    let output = command.output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.success(), said)
}

/// With the arguments of the container, where `validate` stands for `run`.
#[test]
fn the_binary_takes_every_configuration() {
    let Some(all) = all() else { return };
    let mut taken = 0;
    for case in all.iter().filter(|c| c.values["existingConfigMap"].is_null()) {
        let folder = tempfile::tempdir().expect("a folder");
        let (_, spec) = pod(workload(&case.objects)).expect("a pod");
        let container = own_containers(spec).next().expect("a container");
        let (fine, said) = run(&case.objects, container, folder.path(), &["validate"]);
        let group = case.values.pointer("/config/kafka/group").and_then(Value::as_str).unwrap_or("sluicegate");
        assert!(fine && said.starts_with(&format!("ok: group {group}, ")), "{}: {said}", case.file);
        let profile = case.values.pointer("/policy/profile").and_then(Value::as_str).unwrap_or("standard");
        let wanted = if case.values["extraArgs"].is_null() { profile } else { "monitor" };
        assert!(said.contains(&format!("profile {wanted}")), "{}: {said}", case.file);
        taken += 1;
    }
    println!("figures: {taken} rendered configurations taken by `sluicegate validate`");
    assert!(taken >= 10);
}

/// A mistake in the policy's own file is found by the command that the test pod runs, and named.
#[test]
fn the_test_pod_finds_what_is_wrong() {
    let Some(helm) = tools::helm() else { return };
    let wrong = "policy: {policies: {SG01: {options: {max_depth: 0}}}}\n";
    let objects = with(helm, &root(CHART), wrong).expect("it renders");
    let tests = of_kind(&objects, "Pod");
    let container = own_containers(&tests[0]["spec"]).next().expect("a container");
    assert_eq!(container["name"], "validate");
    let folder = tempfile::tempdir().expect("a folder");
    let (fine, said) = run(&objects, container, folder.path(), &["validate"]);
    assert!(!fine && said.contains("SG01.options.max_depth"), "{said}");
    let said: Vec<&str> = items(tests[0], "/spec/containers/0/args").filter_map(Value::as_str).take(2).collect();
    assert_eq!(said, ["topics", "verify"]);
    // The commands of test and Job exist, with these options.
    let job = with(helm, &root(CHART), "topicsJob: {enabled: true, replication: 3}\n").expect("it renders");
    for object in [tests[0], of_kind(&job, "Job")[0]] {
        let (_, spec) = pod(object).expect("a pod");
        for container in own_containers(spec) {
            let arguments = items(container, "/args").filter_map(Value::as_str);
            let mut command = Command::new(env!("CARGO_BIN_EXE_sluicegate"));
            let output = command.args(arguments).arg("--help").output().expect("it starts");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
    }
}

/// What makes topics is another user than the service: its password or certificate is in the Job, and only there.
#[test]
fn the_job_has_credentials_of_its_own() {
    let Some(all) = all() else { return };
    let secrets = |object: &Value| -> Vec<String> {
        let (_, spec) = pod(object).expect("a pod");
        let names = items(spec, "/volumes").filter_map(|v| v["secret"]["secretName"].as_str());
        names.map(str::to_owned).collect()
    };
    for (number, of_service, of_job, user) in
        [("02", "gate-login", "gate-admin-login", Some("gate-admin")), ("03", "", "gate-admin-certificate", None)]
    {
        let case = all.iter().find(|c| c.file.starts_with(number)).expect("the case");
        let job = of_kind(&case.objects, "Job")[0];
        let of_service = match of_service {
            "" => text(&case.values, "/tls/client/existingSecret"),
            name => name,
        };
        let both = [secrets(workload(&case.objects)), secrets(job)];
        let has = both.each_ref().map(|names| [of_service, of_job].map(|name| names.iter().any(|n| n == name)));
        assert_eq!(has, [[true, false], [false, true]], "{number}: {both:?}");
        let (_, spec) = pod(job).expect("a pod");
        let container = own_containers(spec).next().expect("a container");
        let mut named = items(container, "/env").filter(|e| e["name"] == "SLUICEGATE__KAFKA__SASL__USERNAME");
        assert_eq!(named.next().and_then(|e| e["value"].as_str()), user, "{number}");
        // Its password is looked for where the configuration says.
        let paths = items(spec, "/volumes").flat_map(|v| items(v, "/secret/items")).map(|i| text(i, "/path"));
        assert!(paths.collect::<Vec<_>>().contains(&if user.is_some() { "password" } else { "tls.crt" }), "{number}");
    }
    // Without any the Job is the service.
    let plain = all.iter().find(|c| c.file.starts_with("12")).expect("the case");
    assert!(!of_kind(&plain.objects, "Job")[0].to_string().contains("SASL__USERNAME"));
}

/// What follows from other values, in the file.
#[test]
fn credentials_listener_and_memory_reach_the_file() {
    let Some(all) = all() else { return };
    let of = |number: &str| {
        let case = all.iter().find(|c| c.file.starts_with(number)).expect("the case");
        let maps = of_kind(&case.objects, "ConfigMap");
        yaml::document(maps.iter().find_map(|m| m["data"]["sluicegate.yaml"].as_str()).expect("a file"))
    };
    let plain = of("01");
    assert_eq!(plain["kafka"]["security_protocol"], "plaintext");
    assert!(plain["kafka"]["sasl"].is_null() && plain["kafka"]["ca_file"].is_null());
    assert_eq!(plain["state"]["max_bytes"], (1_u64 << 30) * 40 / 100);
    assert_eq!(plain["http"]["listen"], "0.0.0.0:9464");
    let scram = of("02");
    assert_eq!(scram["kafka"]["security_protocol"], "sasl_ssl");
    assert_eq!(scram["kafka"]["sasl"]["mechanism"], "SCRAM-SHA-512");
    let mutual = of("03");
    assert_eq!(mutual["kafka"]["security_protocol"], "ssl");
    assert!(mutual["kafka"]["properties"]["ssl.key.location"].is_string());
    assert_eq!(mutual["state"]["max_bytes"], (2_u64 << 30) * 25 / 100);
    // What is set is kept: no float, no other notation.
    assert_eq!(of("04")["engine"]["limits"]["record_bytes"], 16_777_216);
    assert_eq!(of("04")["state"]["max_bytes"], 256 << 20);
    assert_eq!(of("11")["http"]["listen"], "[::]:9999");
}

fn leaves<'a>(value: &'a Value, path: &str, into: &mut Vec<(String, &'a Value)>) {
    match value.as_object() {
        Some(map) if !map.is_empty() => {
            for (key, value) in map {
                leaves(value, &if path.is_empty() { key.clone() } else { format!("{path}.{key}") }, into);
            }
        }
        _ => into.push((path.to_owned(), value)),
    }
}

/// Defaults that stand in `values.yaml` or in a template are those of the binary.
#[test]
fn defaults_are_those_of_the_binary() {
    let values = yaml::document(&read(root(CHART).join("values.yaml")));
    let defaults = serde_json::to_value(Config::default()).expect("JSON");
    let mut own = Vec::new();
    leaves(&values["config"], "", &mut own);
    assert!(own.len() > 8);
    for (path, value) in own {
        let default = defaults.pointer(&format!("/{}", path.replace('.', "/")));
        let (json, on) = (Value::String("json".into()), Value::Bool(true));
        let expected = match path.as_str() {
            // People read logs at a terminal, pods' logs are read by machines.
            "log.format" => Some(&json),
            // Whoever runs a chart wants to be woken when nothing is blocked any more.
            "canary.enabled" => Some(&on),
            _ => default,
        };
        assert_eq!(expected, Some(value), "config.{path}");
    }
    assert_eq!(values["policy"]["profile"], defaults["policy"]["profile"]);
    assert_eq!(
        format!("{}:{}", text(&values, "/http/address"), values["http"]["port"]),
        text(&defaults, "/http/listen")
    );
    let said = read(root(CHART).join("templates/validate.yaml"));
    for topic in ["verdicts", "redacted", "deadletters", "pin_sightings", "pins", "pins_audit"] {
        let default = text(&defaults, &format!("/kafka/topics/{topic}"));
        assert!(said.contains(&format!("{topic:?} {default:?}")), "{topic}: {default}");
    }
    let conversation = format!("\"conversation_bytes\" {} .Values.config", Limits::default().conversation_bytes);
    assert!(said.contains(&conversation), "{conversation}");
}

/// The properties of librdkafka that are refused, with the reasons of the one list.
#[test]
fn the_refused_properties_are_fresh() {
    let mut file = String::from(
        "# Made from src/runtime/config/properties.rs by `UPDATE=1 cargo test --release --test deploy fresh`; do not edit.\n\
         properties:\n",
    );
    for (name, why) in DENIED_PROPERTIES {
        let _ = writeln!(file, "  - name: {}\n    why: {}", json!(name), json!(why));
    }
    fresh(&format!("{CHART}/files/denied-properties.yaml"), &file);
}

/// A section of the configuration as a schema: closed, so that a mistyped key is refused before anything starts.
fn schema(defaults: &Value, path: &str, page: &str) -> Value {
    let Some(map) = defaults.as_object() else { return scalar(defaults, path, page) };
    // A map whose names the operator gives.
    if map.is_empty() {
        return json!({ "type": "object" });
    }
    let mut properties = Map::new();
    for (key, value) in map {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        if !OWNED.contains(&path.as_str()) {
            properties.insert(key.clone(), schema(value, &path, page));
        }
    }
    json!({ "type": "object", "additionalProperties": false, "properties": properties })
}

fn scalar(default: &Value, path: &str, page: &str) -> Value {
    let row = page.lines().find(|l| l.starts_with(&format!("| `{path}` |"))).unwrap_or_default();
    if let Some((_, choices)) = row.split_once("One of ") {
        let choices: Vec<&str> = choices.split('`').skip(1).step_by(2).collect();
        return json!({ "type": "string", "enum": choices, "description": row.split('|').nth(3).unwrap_or_default().trim() });
    }
    let mut of = kind_of(default);
    if let Some(said) = row.split('|').nth(3) {
        of["description"] = said.trim().into();
    }
    of
}

fn kind_of(default: &Value) -> Value {
    let time = |text: &str| text.ends_with('s') && text.starts_with(|c: char| c.is_ascii_digit());
    match default {
        Value::Bool(_) => json!({ "type": "boolean" }),
        Value::Number(_) => json!({ "type": "integer", "minimum": 0 }),
        Value::String(text) if time(text) => {
            json!({ "type": ["string", "integer"], "pattern": "^[0-9]+ ?(ms|s|m|h)?$" })
        }
        Value::String(_) => json!({ "type": "string" }),
        Value::Array(_) => json!({ "type": "array", "items": { "type": "string" } }),
        _ => json!({}),
    }
}

/// Puts what `values.yaml` says of its values into the schema, where editors show it.
fn describe(schema: &mut Value) {
    for (path, _, said) in described() {
        let mut at = String::new();
        for part in path.split('.') {
            at = match schema.pointer(&at).expect("a place")["$ref"].as_str() {
                Some(reference) => reference.trim_start_matches('#').to_owned(),
                None => at,
            } + &format!("/properties/{part}");
        }
        let place = schema.pointer_mut(&at).unwrap_or_else(|| panic!("{path} is not in the schema"));
        // Beside a reference, draft 7 reads nothing.
        if place["$ref"].is_null() {
            place["description"] = said.into();
        }
    }
}

/// The policies by code, each with its rules and options: closed, because the pods would refuse a mistyped one long
/// after Helm said that all is well.
fn policies() -> Value {
    let effects = json!({ "enum": ["allow", "redact", "block"] });
    let of = |meta: &&Meta| {
        let rules: Map<String, Value> = meta.rules.iter().map(|r| (r.name.to_owned(), effects.clone())).collect();
        let defaults = Policies::default_options(meta.code).unwrap_or_default();
        let options = defaults.as_object().into_iter().flatten().map(|(name, default)| {
            let kind = match default {
                Value::Array(_) => json!({ "type": "array" }),
                Value::Number(n) if n.is_f64() => json!({ "type": "number" }),
                Value::Object(_) => json!({ "type": "object" }),
                other => kind_of(other),
            };
            (name.clone(), kind)
        });
        let policy = closed(&json!({
            "mode": { "enum": ["enforce", "monitor", "off"] },
            "rules": closed(&Value::Object(rules)),
            "options": closed(&options.collect()),
        }));
        (meta.code.to_owned(), policy)
    };
    closed(&Policies::catalogue().iter().map(of).collect())
}

fn closed(properties: &Value) -> Value {
    json!({ "type": "object", "additionalProperties": false, "properties": properties })
}

/// `policy`: what is by code, and what is by a name of the operator's own.
fn policy(defaults: &Value, page: &str) -> Value {
    let mut policy = schema(defaults, "policy", page);
    let glob = json!({ "type": "string", "minLength": 1 });
    let subject = closed(&json!({ "fleet": glob, "agent": glob, "tool": glob, "server": glob }));
    let profile = policy["properties"]["profile"].clone();
    let policies = json!({ "$ref": "#/definitions/policies" });
    let one = closed(&json!({ "match": subject, "profile": profile, "policies": policies }));
    policy["properties"]["policies"] = policies;
    policy["properties"]["overrides"] = json!({ "type": "object", "additionalProperties": one });
    policy
}

/// What the templates cannot do without must be there: an entry of `values.yaml` whose lines are all commented out is a
/// null, by which Helm takes the default away. Maps and lists that are the operator's own may go.
fn require(schema: &mut Value, defaults: &Value) {
    let section = |schema: &Value| schema["additionalProperties"] == false && schema["properties"].is_object();
    let Some(values) = defaults.as_object().filter(|_| section(schema)) else { return };
    let needed = |of: &Value| {
        let bounded = ["enum", "anyOf", "minLength"].iter().any(|key| !of[*key].is_null());
        bounded || section(of) || !of["$ref"].is_null() || ["boolean", "integer"].iter().any(|kind| of["type"] == *kind)
    };
    let names = values.keys().filter(|key| needed(&schema["properties"][key.as_str()]));
    let names: Vec<Value> = names.cloned().map(Value::from).collect();
    match names.is_empty() {
        true => drop(schema.as_object_mut().and_then(|own| own.remove("required"))),
        false => schema["required"] = names.into(),
    }
    for (key, default) in values {
        require(&mut schema["properties"][key], default);
    }
}

/// The schema knows the sections `config` and `policy` as the binary does, and every value.
#[test]
fn the_schema_of_the_values_is_fresh() {
    let path = format!("{CHART}/values.schema.json");
    let mut schema_file: Value = serde_json::from_str(&read(root(&path))).expect("JSON");
    let mut defaults = serde_json::to_value(Config::default()).expect("JSON");
    let of_policy = defaults["policy"].take();
    let page = read(root("docs/configuration.md"));
    let mut config = schema(&defaults, "", &page);
    config["properties"]["kafka"]["properties"]["properties"] =
        json!({ "type": "object", "additionalProperties": { "type": ["string", "number", "boolean"] } });
    schema_file["definitions"] =
        json!({ "config": config, "policies": policies(), "policy": policy(&of_policy, &page) });
    require(&mut schema_file, &yaml::document(&read(root(CHART).join("values.yaml"))));
    describe(&mut schema_file);
    let mut expected = serde_json::to_string_pretty(&schema_file).expect("JSON");
    expected.push('\n');
    fresh(&path, &expected);
}

/// What the chart owns is refused under `config`, and the values that stand for it are named in `values.yaml`.
#[test]
fn keys_of_the_chart_cannot_be_set_twice() {
    let Some(helm) = tools::helm() else { return };
    let about = read(root(CHART).join("values.yaml"));
    for owned in OWNED {
        assert!(about.contains(&format!("`{owned}`")), "{owned}");
        let mut parts: Vec<&str> = owned.split('.').collect();
        let last = parts.pop().expect("a key");
        let value = parts.iter().rev().fold(json!({ last: {} }), |inner, part| json!({ *part: inner }));
        let refused = refusal(helm, &json!({ "config": value }).to_string());
        assert!(refused.contains(&format!("'{last}' not allowed")), "{owned}: {refused}");
    }
}
