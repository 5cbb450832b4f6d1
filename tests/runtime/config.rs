//! Configuration: defaults, file, environment, and every problem at once.

use sluicegate::engine::Engine;
use sluicegate::engine::policy::{Mode, Origin, Profile, Who};
use sluicegate::runtime::config::{self, Config, DENIED_PROPERTIES, Need, Size, Time};
use std::collections::HashMap;
use std::time::Duration;

fn load(text: &str, env: &[(&str, &str)], need: Need) -> Result<Config, Vec<String>> {
    let env: HashMap<String, String> = env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    config::from_text(text, env, need)
        .map_err(|problems| problems.into_iter().map(|p| format!("{}: {}", p.path, p.problem)).collect())
}

/// The problems of a file, each with this beginning.
fn check(text: &str, expected: &[&str]) {
    let problems = load(text, &[], Need::Engine).expect_err("the file has problems");
    assert_eq!(problems.len(), expected.len(), "{problems:#?}");
    for (problem, expected) in problems.iter().zip(expected) {
        assert!(problem.starts_with(expected), "{problem}\nshould begin with\n{expected}");
    }
}

#[test]
fn nothing_gives_the_defaults() {
    assert_eq!(load("", &[], Need::Engine), Ok(Config::default()));
    assert_eq!(load("kafka:\nlog:\n", &[], Need::Engine), Ok(Config::default()));
}

#[test]
fn a_file_sets_what_it_names() {
    let config = load(
        "kafka:\n  bootstrap_servers: b:9092\n  inputs: [agent.events]\n  properties:\n    fetch.min.bytes: 10\n\
         worker: {count: 2, commit_interval: 100}\nstate: {max_bytes: 2GiB}\npolicy: {profile: strict}\n\
         engine: {limits: {history: 10}, redacted: {provider_calls: true}}\nfleets: {support: {}, ops: {}}\n",
        &[],
        Need::Kafka,
    )
    .expect("no problems");
    assert_eq!(config.kafka.bootstrap_servers, "b:9092");
    assert_eq!(config.kafka.properties["fetch.min.bytes"], "10");
    assert_eq!((config.worker.count, config.worker.commit_interval), (2, Time(Duration::from_millis(100))));
    assert_eq!(config.state.max_bytes, Some(Size(2 << 30)));
    assert_eq!(config.policy.profile, Profile::Strict);
    assert_eq!(config.engine.limits.history, 10);
    assert_eq!(config.engine.limits.record_bytes, 8 << 20);
    assert!(config.engine.redacted.provider_calls);
    assert_eq!(config.fleets.len(), 2);
}

#[test]
fn variables_that_differ_by_case_alone_are_refused() {
    let env = [("SLUICEGATE__KAFKA__INSTANCE", "a"), ("SLUICEGATE__kafka__instance", "b"), ("sluicegate_x", "c")];
    let problems = load("", &env, Need::Engine).unwrap_err();
    assert_eq!(
        problems,
        ["environment: SLUICEGATE__KAFKA__INSTANCE, SLUICEGATE__kafka__instance: the same key; set one of them"]
    );
    assert_eq!(load("", &env[1..], Need::Engine).unwrap().kafka.instance.as_deref(), Some("b"));
}

#[test]
fn the_environment_wins_and_takes_its_types_from_the_target() {
    let config = load(
        "worker: {count: 2}\nkafka: {group: \"7\"}\n",
        &[
            ("SLUICEGATE__WORKER__COUNT", "3"),
            ("SLUICEGATE__KAFKA__GROUP", "42"),
            ("SLUICEGATE__KAFKA__INPUTS", "a,b"),
            ("SLUICEGATE__KAFKA__STATIC_MEMBERSHIP", "false"),
            ("SLUICEGATE__KAFKA__PROPERTIES__FETCH_MIN_BYTES", "10"),
            ("SLUICEGATE__WORKER__COMMIT_MIN", "20ms"),
            ("SLUICEGATE__ENGINE__REDACTED__PROVIDER_CALLS", "true"),
            ("SLUICEGATE__POLICY__POLICIES__SG08__MODE", "monitor"),
            ("HOME", "/root"),
        ],
        Need::Engine,
    )
    .expect("no problems");
    assert_eq!(config.worker.count, 3);
    assert_eq!(config.kafka.group, "42");
    assert_eq!(config.kafka.inputs, ["a", "b"]);
    assert_eq!(config.kafka.properties["fetch.min.bytes"], "10");
    assert_eq!(config.worker.commit_min, Time(Duration::from_millis(20)));
    assert!(config.engine.redacted.provider_calls);
    assert_eq!(config.policy.policies["SG08"].mode, Some(Mode::Monitor));
}

#[test]
fn all_problems_at_once_with_path_value_and_limit() {
    check(
        "bogus: {a: 1, b: secret}\n\
         kafka:\n  grup: x\n  inputs: [a, a]\n  properties: {acks: 1}\n\
         worker:\n  count: zero\n  commit_min: 3parsecs\n  drain_timeout: 90s\n\
         http: {listen: here}\n\
         engine: {limits: {history: 0}}\n",
        &[
            "bogus: unknown key: expected one of kafka, engine",
            "engine.limits.history: 0: must be 1 to",
            "http.listen: \"here\": must be address:port",
            "kafka.grup: unknown key: expected one of bootstrap_servers",
            "kafka.inputs: \"a\": named twice",
            "kafka.properties.acks: not allowed: transactions need all",
            "worker.commit_min: \"3parsecs\": must be a time such as",
            "worker.count: \"zero\": invalid type: string \"zero\", expected u32",
            "worker.drain_timeout: 90s: must not exceed kafka.session_timeout (30s)",
        ],
    );
}

#[test]
fn problems_of_policies_stand_beside_the_others() {
    let problems = load(
        "policy: {policies: {SG99: {}, SG01: {options: {max_bytes: 1}}}}\nlog: {level: loud}\n",
        &[],
        Need::Engine,
    )
    .expect_err("problems");
    for path in ["policy.policies.SG99", "policy.policies.SG01.options.max_bytes", "log.level"] {
        assert!(problems.iter().any(|p| p.starts_with(path)), "{path}: {problems:#?}");
    }
}

#[test]
fn an_unknown_key_never_shows_its_value() {
    let problems = load("kafka: {password: hunter2}\n", &[], Need::Engine).expect_err("unknown");
    assert!(!problems.concat().contains("hunter2"), "{problems:?}");
}

#[test]
fn run_needs_brokers_inputs_and_a_key() {
    let problems = load("", &[], Need::Run).expect_err("missing");
    let paths: Vec<&str> = problems.iter().filter_map(|p| p.split(':').next()).collect();
    assert_eq!(paths, ["engine.fingerprint_key_file", "kafka.bootstrap_servers", "kafka.inputs"]);
}

#[test]
fn sasl_needs_all_of_its_parts_from_files() {
    check(
        "kafka: {security_protocol: sasl_ssl}\n",
        &["kafka.sasl.mechanism: missing", "kafka.sasl.password_file: missing", "kafka.sasl.username: missing"],
    );
    check(
        "kafka: {ca_file: /nowhere/ca.pem}\n",
        &["kafka.ca_file: unused", "kafka.ca_file: /nowhere/ca.pem: no such file"],
    );
}

#[test]
fn every_denied_property_is_refused_with_its_reason() {
    for (name, why) in DENIED_PROPERTIES {
        assert_eq!(config::denied(name.trim_end_matches('*')), Some(*why), "{name}");
    }
    assert_eq!(config::denied("fetch.min.bytes"), None);
}

#[test]
fn times_and_sizes_read_back_as_written() {
    for text in ["0ms", "50ms", "1s", "90s", "15m", "24h"] {
        let time: Time = serde_json::from_value(text.into()).expect(text);
        assert_eq!(serde_json::to_value(time).expect(text), text);
    }
    for text in ["1B", "512KiB", "3MiB", "2GiB"] {
        let size: Size = serde_json::from_value(text.into()).expect(text);
        assert_eq!(serde_json::to_value(size).expect(text), text);
    }
    for bad in ["", "1 parsec", "-1s", "1.5s", "ms"] {
        assert!(serde_json::from_value::<Time>(bad.into()).is_err(), "{bad:?}");
    }
}

#[test]
fn overrides_and_fleets_are_read_and_their_problems_name_place_and_limit() {
    let config = load(
        "kafka: {inputs: [agent.events]}\nfleets: {support: {topics: ['agent.*'], sources: [/fleets/support]}}\n\
         policy:\n  overrides:\n    mail:\n      match: {fleet: support, tool: '*_mail'}\n      profile: strict\n\
         \x20     policies: {SG01: {options: {max_bytes: 2000}}}\n",
        &[("SLUICEGATE__POLICY__OVERRIDES__MAIL__POLICIES__SG08__MODE", "monitor")],
        Need::Engine,
    )
    .expect("no problems");
    assert_eq!(config.fleets["support"].sources, ["/fleets/support"]);
    let mail = &config.policy.overrides["mail"];
    assert_eq!((mail.r#match.tool.as_deref(), mail.profile), (Some("*_mail"), Some(Profile::Strict)));
    assert_eq!(mail.policies["SG01"].options["max_bytes"], 2000);
    assert_eq!(mail.policies["SG08"].mode, Some(Mode::Monitor));
    check(
        "kafka: {inputs: [agent.events]}\nfleets: {support: {topics: [other], topic: x}, '': {}}\n\
         policy:\n  overrides:\n\
         \x20   a: {match: {fleet: ops, tools: x}, profile: off}\n\
         \x20   b: {match: {tool: t}, policies: {SG01: {options: {max_bytes: 1}}}}\n\
         \x20   c: {profile: off}\n\
         \x20   d: {match: {tool: t}, profile: loud}\n",
        &[
            "fleets: \"\": must be at most 128",
            "fleets.support.topic: unknown key: expected topics or sources",
            "fleets.support.topics: [\"other\"]: none of kafka.inputs (agent.events) is among them",
            "policy.overrides.a.match.fleet: \"ops\": no such fleet",
            "policy.overrides.a.match.tools: unknown key: expected one of fleet, agent, tool, server",
            "policy.overrides.b.policies.SG01.options.max_bytes: 1 is not between 1024 and",
            "policy.overrides.c.match: matches everything",
            "policy.overrides.d.profile: \"loud\": unknown variant loud",
        ],
    );
}

/// Of one key with several problems all are told, and none of a default that stands in for what could not be read.
#[test]
fn all_that_is_wrong_with_one_key_is_told() {
    check(
        "kafka: {inputs: ['a b', x/y, c]}",
        &["kafka.inputs: \"a b\": a topic is at most", "kafka.inputs: \"x/y\": a topic is at most"],
    );
    check(
        "kafka: {bootstrap_servers: 'a:0, b:x'}",
        &["kafka.bootstrap_servers: \"a:0\": must be host:port", "kafka.bootstrap_servers: \"b:x\": must be host:port"],
    );
    check("kafka: {inputs: [7, {}]}", &["kafka.inputs: [7,{}]: invalid type"]);
}

/// Names go to clients, logs and labels.
#[test]
fn control_characters_are_refused_where_things_are_named() {
    for (key, character) in [
        ("kafka: {group: \"a\\0b\"}", "0000"),
        ("kafka: {instance: \"a\\nb\"}", "000A"),
        ("kafka: {bootstrap_servers: \"a\\0:1\"}", "0000"),
        ("kafka: {inputs: [a, \"b\\e[1m\"]}", "001B"),
        ("kafka: {sasl: {username: \"a\\0\"}}", "0000"),
        ("kafka: {properties: {client.rack: \"a\\x07\"}}", "0007"),
        ("engine: {fingerprint_key_file: \"a\\0\"}", "0000"),
        ("http: {listen: \"0.0.0.0:1\\0\"}", "0000"),
    ] {
        let problems = load(key, &[], Need::Engine).expect_err(key);
        assert_eq!(problems.len(), 1, "{problems:?}");
        let said = format!("holds the control character U+{character}; take it out");
        assert!(problems[0].ends_with(&said) && !problems[0].contains(char::is_control), "{}", problems[0]);
    }
    let why = "break_glass: {until: 2026-01-01T00:00:00Z, by: ada, reason: \"two\\nlines\"}";
    assert!(load(why, &[], Need::Engine).is_ok());
}

#[test]
fn a_key_with_nothing_behind_it_is_told() {
    check(
        "worker:\n  count:\nkafka:\n  groop:\n",
        &["kafka.groop: unknown key", "worker.count: null: nothing stands there; give a value, or leave the key out"],
    );
}

/// What is no word where one of a few is wanted is told which; what could not be read of an override is not taken for
/// something that it lacks.
#[test]
fn a_value_of_the_wrong_kind_is_told_what_it_may_be() {
    check(
        "policy: {policies: {SG04: {mode: false}}}",
        &["policy.policies.SG04.mode: false: must be one of enforce, monitor, off"],
    );
    check(
        "policy: {policies: {SG06: {options: {allowed_changes: [title, false]}}}}",
        &["policy.policies.SG06.options.allowed_changes: false: must be one of unclassified, description"],
    );
    check(
        "policy: {policies: {SG04: {options: {tools: [{tool: a, parameters: {'p/q': 7}}]}}}}",
        &["policy.policies.SG04.options.tools: 7: must be one of path, url, sql, shell, template"],
    );
    check("policy: {policies: {SG04: {options: {tools: 7}}}}", &["policy.policies.SG04.options.tools: invalid type"]);
    check("policy: {profile: 3}", &["policy.profile: 3: must be one of strict, standard, monitor, off"]);
    check(
        "policy: {policies: {SG01: {rules: {hard_limit: true}}}}",
        &["policy.policies.SG01.rules.hard_limit: true: must be one of allow, redact, block"],
    );
    check(
        "policy: {overrides: {o: {match: {tool: f}, profile: loud}}}",
        &["policy.overrides.o.profile: \"loud\": unknown variant"],
    );
    check(
        "policy: {overrides: {o: {match: {tool: f}, policies: {SG04: {mode: 1}}}}}",
        &["policy.overrides.o.policies.SG04.mode: 1: must be one of"],
    );
    check("policy: {policies: {SG04: {}}}", &["policy.policies.SG04: sets nothing"]);
    check("policy: {bundle: 'a b <script>'}", &["policy.bundle: \"a b <script>\": must be"]);
}

/// What the page on overrides says of its example is so.
#[test]
fn which_override_wins_is_as_the_page_says() {
    let page = std::fs::read_to_string(crate::fixture::root("docs/rollout.md")).expect("the page");
    let (_, section) = page.split_once("## Which override wins").expect("its section");
    let (_, example) = section.split_once("```yaml\n").expect("its example");
    let (example, rest) = example.split_once("```").expect("its end");
    let config = load(example, &[], Need::Engine).expect("no problems");
    let engine = Engine::new(config.engine_settings("local", None).expect("a key")).expect("it holds");
    let mut rows = 0;
    for row in rest.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.split('|').map(|cell| cell.trim().trim_matches('`')).collect();
        let [_, tool, fleet, profile, by, _] = cells[..] else { panic!("{row}") };
        let who = Who { fleet: fleet.as_bytes(), agent: b"default", tool: Some(tool.as_bytes()), server: None };
        let (holds, origin) = engine.effective(&who).profile;
        let origin = if let Origin::Override(name) = origin { name } else { "policy" };
        assert_eq!((holds.name(), origin), (profile, by), "{row}");
        rows += 1;
    }
    assert_eq!(rows, 6);
}

/// A name in two spellings, a list for a table, an address that is none: said, each where it stands.
#[test]
fn what_would_be_read_in_another_way_is_refused() {
    check(
        "policy: {policies: {SG12: {mode: enforce}, sg12: {mode: \"off\"}}}",
        &["policy.policies.SG12: stands twice"],
    );
    check(
        "kafka: {properties: {fetch.min.bytes: 1, fetch_min_bytes: 2}}",
        &["kafka.properties.fetch.min.bytes: stands twice"],
    );
    check("policy: [off]", &["policy: a list"]);
    check("policy: {policies: {SG12: [off]}}", &["policy.policies.SG12: a list"]);
    check("break_glass: [\"2030-01-31T18:00:00Z\", ada, why]", &["break_glass: a list"]);
    check("fleets: {a: [x]}", &["fleets.a: a list"]);
    for bad in ["http://b:9092", "b:99999", "b:9092,,c:9092", "b:", ":9092"] {
        check(&format!("kafka: {{bootstrap_servers: '{bad}'}}"), &["kafka.bootstrap_servers: "][..]);
    }
    for good in ["b:9092", "b", "b:9092, c:9093", "[2001:db8::1]:9092", "[2001:db8::1]"] {
        let text = format!("kafka: {{bootstrap_servers: '{good}'}}");
        assert!(load(&text, &[], Need::Engine).is_ok(), "{good}");
    }
    check("kafka: {instance: ''}", &["kafka.instance: empty"]);
    check("kafka: {properties: {isolation.levl: x}}", &["kafka.properties.isolation.levl: "]);
    check("kafka: {properties: {fetch.max.bytes: x}}", &["kafka.properties.fetch.max.bytes: "]);
    check(
        "kafka: {inputs: [agent.events], topics: {pins: agent.events.sluicegate.state}}",
        &["kafka.topics.pins: \"agent.events.sluicegate.state\": is the changelog"],
    );
}

/// A section with everything commented out says nothing; a later file wins by name, however the name is spelled.
#[test]
fn later_files_take_away_only_what_they_name() {
    let directory = tempfile::tempdir().unwrap();
    let load = |texts: &[&str]| {
        let files: Vec<_> = texts
            .iter()
            .enumerate()
            .map(|(n, text)| {
                let path = directory.path().join(format!("{n}.yaml"));
                std::fs::write(&path, text).unwrap();
                path
            })
            .collect();
        config::load(&files, HashMap::new(), Need::Engine).unwrap()
    };
    let first = "policy: {profile: strict, policies: {SG12: {mode: enforce}}}\n";
    for nothing in ["policy:\n# policies: {}\n", "policy: null\n", "", "policy:\n  policies:\n"] {
        let config = load(&[first, nothing]);
        assert_eq!(config.policy.profile, Profile::Strict, "{nothing}");
        assert_eq!(config.policy.policies["SG12"].mode, Some(Mode::Enforce), "{nothing}");
    }
    let second = "policy: {policies: {sg12: {mode: \"off\"}}}\n";
    assert_eq!(load(&[first, second]).policy.policies["SG12"].mode, Some(Mode::Off));
    assert_eq!(load(&[second, first]).policy.policies["SG12"].mode, Some(Mode::Enforce));
}

#[test]
fn what_a_reader_would_cut_short_or_blow_up_is_refused() {
    let mut bomb = String::from("a: &a [x, x, x, x, x, x, x, x, x]\n");
    for (name, of) in [("b", "a"), ("c", "b"), ("d", "c"), ("e", "d"), ("f", "e"), ("g", "f"), ("h", "g"), ("i", "h")] {
        bomb += &format!("{name}: &{name} [{}]\n", [format!("*{of}").as_str(); 9].join(", "));
    }
    check(&bomb, &["--config: configuration: line 2 uses an alias (`*name`)"]);
    check("policy: &p {profile: strict}\nfleets: *p\n", &["--config: configuration: line 2 uses an alias"]);
    check(
        "log: {level: warn}\n\0\npolicy: {profile: strict}\n",
        &["--config: configuration: line 2 holds a zero byte"],
    );
    // Not an alias.
    assert!(load("policy: {bundle: \"*x\"} # *y\n", &[], Need::Engine).is_err_and(|p| !p[0].contains("alias")));
    // What was given by mistake may be a secret.
    for secret in
        ["hunter2", "- hunter2", "-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----", "[hunter2]"]
    {
        let said = load(secret, &[], Need::Engine).expect_err(secret);
        assert!(said.len() == 1 && said[0].ends_with("no keys stand at its top"), "{said:?}");
    }
    for secret in
        ["pass: hunter2", "{\"kafka\": {\"password\": \"hunter2\"}}", "hunter2: [", "a: 'hunter2", "hunter2: \"\\q\""]
    {
        let said = load(secret, &[], Need::Engine).expect_err(secret).join("\n");
        assert!(!said.replace("hunter2: unknown", "").contains("hunter2"), "{said}");
    }
    let long = format!("kafka: {{group: {}}}", "a".repeat(1 << 18));
    let said = load(&long, &[], Need::Engine).expect_err("too long").join("\n");
    assert!(said.len() < 2_000 && said.contains("aaa…(") && said.ends_with("must have 1 to 128 bytes"), "{said}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("large.yaml");
    std::fs::write(&file, format!("#{}\n", "a".repeat(1 << 20))).unwrap();
    let problems = config::load(&[file], HashMap::new(), Need::Engine).unwrap_err();
    assert!(problems[0].problem.contains("1048578 bytes; at most 1048576 are read"), "{problems:?}");
    let problems = config::load(&[folder.path().to_owned()], HashMap::new(), Need::Engine).unwrap_err();
    assert!(problems[0].problem.contains("not a regular file"), "{problems:?}");
}
