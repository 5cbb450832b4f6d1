//! Settings that hold for some fleets, agents, tools and servers only: which win, what a verdict says of them, and
//! whose claims are believed.

use crate::support::{Partition, header, settings, verdicts};
use serde_json::{Value, json};
use sluicegate::engine::policy::{FleetTrust, Origin, Policies, PolicySettings, Profile, Who};
use sluicegate::engine::state::PartitionState;
use sluicegate::engine::{Emission, Engine, Settings};

const RESULT: &str = "io.sluicegate.tool.result.v1";

fn policy(value: Value) -> PolicySettings {
    serde_json::from_value(value).unwrap_or_else(|e| panic!("{e}"))
}

fn scoped(overrides: Value, fleets: Value) -> Settings {
    let base = json!({"policies": {"SG01": {"options": {"max_bytes": 1024}}}, "overrides": overrides});
    let fleets = serde_json::from_value(fleets).unwrap_or_else(|e| panic!("{e}"));
    Settings { policy: policy(base), fleets, ..settings(Profile::Standard) }
}

fn engine(settings: Settings) -> Engine {
    Engine::new(settings).unwrap_or_else(|problems| panic!("{problems:?}"))
}

fn who<'a>(fleet: &'a str, agent: &'a str, tool: Option<&'a str>, server: Option<&'a str>) -> Who<'a> {
    let bytes = |name: Option<&'a str>| name.map(str::as_bytes);
    Who { fleet: fleet.as_bytes(), agent: agent.as_bytes(), tool: bytes(tool), server: bytes(server) }
}

/// An override that sets SG01's `max_bytes`.
fn cap(bytes: u64, matches: Value) -> Value {
    json!({"match": matches, "policies": {"SG01": {"options": {"max_bytes": bytes}}}})
}

fn max_bytes(engine: &Engine, who: &Who<'_>) -> u64 {
    let holds = engine.effective(who);
    holds.policies.effective("SG01").and_then(|all| all["options"]["max_bytes"].as_u64()).expect("an option")
}

#[test]
fn the_override_that_says_more_wins() {
    let engine = engine(scoped(
        json!({
            "fleet": cap(2000, json!({"fleet": "support"})),
            "fleets": cap(2100, json!({"fleet": "*"})),
            "agent": cap(2200, json!({"fleet": "support", "agent": "triage-*"})),
            "server": cap(2300, json!({"server": "files"})),
            "tools": cap(2400, json!({"tool": "*_mail"})),
            "tool": cap(2500, json!({"tool": "send_mail"})),
            "both": cap(2600, json!({"tool": "send_mail", "fleet": "ops"})),
            // As specific as `tool`, and later by name.
            "tool-later": cap(2700, json!({"tool": "read_file"})),
            "tool-earlier": cap(2800, json!({"tool": "read_file"})),
        }),
        json!({"support": {}, "ops": {}}),
    ));
    for (expected, fleet, agent, tool, server) in [
        (2100, "default", "default", None, None),
        (2000, "support", "default", None, None),
        (2200, "support", "triage-7", None, None),
        (2000, "support", "other", None, None),
        (2300, "support", "triage-7", None, Some("files")),
        (2400, "support", "triage-7", Some("read_mail"), Some("files")),
        (2500, "support", "triage-7", Some("send_mail"), Some("files")),
        (2600, "ops", "default", Some("send_mail"), None),
        (2700, "ops", "default", Some("read_file"), None),
        (2300, "ops", "default", Some("stat"), Some("files")),
    ] {
        let of = who(fleet, agent, tool, server);
        assert_eq!(max_bytes(&engine, &of), expected, "{fleet} {agent} {tool:?} {server:?}");
    }
}

#[test]
fn rules_and_options_are_laid_over_by_name_and_each_says_where_it_comes_from() {
    let engine = engine(scoped(
        json!({
            "quiet": {"match": {"fleet": "support"}, "profile": "monitor",
                "policies": {"SG01": {"mode": "enforce", "rules": {"oversize_result": "block"}}}},
            "mail": {"match": {"tool": "send_mail"}, "policies": {"SG01": {"options": {"max_total_bytes": 70000}}}},
        }),
        json!({"support": {}}),
    ));
    let holds = engine.effective(&who("support", "default", Some("send_mail"), None));
    assert_eq!(holds.overrides, ["quiet", "mail"]);
    assert_eq!(holds.profile, (Profile::Monitor, Origin::Override("quiet")));
    assert_eq!(holds.mode("SG01"), Origin::Override("quiet"));
    assert_eq!(holds.mode("SG04"), Origin::Profile);
    assert_eq!(holds.rule("SG01", "oversize_result"), Origin::Override("quiet"));
    assert_eq!(holds.rule("SG01", "hard_limit"), Origin::Profile);
    assert_eq!(holds.option("SG01", "max_bytes"), Origin::Base);
    assert_eq!(holds.option("SG01", "max_total_bytes"), Origin::Override("mail"));
    assert_eq!(holds.option("SG01", "block_bytes"), Origin::Default);
    let all = holds.policies.effective("SG01").expect("its settings");
    assert_eq!(all["rules"]["oversize_result"], "block");
    assert_eq!((&all["options"]["max_bytes"], &all["options"]["max_total_bytes"]), (&json!(1024), &json!(70000)));
    assert_eq!(holds.policies.effective("SG04").expect("its settings")["mode"], "monitor");
    // By hand, as one set of settings: the digest is the same.
    let by_hand = policy(json!({"profile": "monitor", "policies": {"SG01": {
        "mode": "enforce", "rules": {"oversize_result": "block"},
        "options": {"max_bytes": 1024, "max_total_bytes": 70000}}}}));
    assert_eq!(Policies::new(&by_hand).expect("holds").digest(), holds.policies.digest());
}

/// A host's result event, binary mode.
fn result(partition: &mut Partition<'_>, claims: &[(&str, &str)], tool: &str, id: &str) -> Vec<Emission> {
    let data = json!({"call_id": id, "tool": tool, "outcome": "ok", "content": "word ".repeat(400)}).to_string();
    let mut headers: Vec<(&str, Option<&[u8]>)> = vec![
        ("content-type", Some(b"application/json")),
        ("ce_specversion", Some(b"1.0")),
        ("ce_id", Some(b"e-1")),
        ("ce_source", Some(b"/fleets/support/7")),
        ("ce_type", Some(RESULT.as_bytes())),
    ];
    headers.extend(claims.iter().map(|(name, value)| (*name, Some(value.as_bytes()))));
    partition.feed_record(Some(b"c-1"), &headers, Some(data.as_bytes()))
}

fn rules(verdict: &Value) -> Vec<&str> {
    verdict["findings"].as_array().into_iter().flatten().filter_map(|f| f["rule"].as_str()).collect()
}

/// The one verdict among emissions.
fn verdict(emissions: &[Emission]) -> Value {
    let all = verdicts(emissions);
    assert_eq!(all.len(), 1, "{all:#?}");
    all[0].clone()
}

#[test]
fn a_verdict_carries_the_digest_of_the_settings_that_judged_it() {
    let settings = scoped(json!({"mail": cap(9000, json!({"tool": "*_mail"}))}), json!({}));
    let engine = engine(settings.clone());
    let mut partition = Partition::new(&engine);
    let plain = verdict(&result(&mut partition, &[], "read_file", "a"));
    let mail = verdict(&result(&mut partition, &[], "send_mail", "b"));
    assert!(rules(&plain).contains(&"oversize_result") && !rules(&mail).contains(&"oversize_result"), "{plain} {mail}");
    let base = PolicySettings { overrides: Default::default(), ..settings.policy };
    let base = Policies::new(&base).expect("holds");
    assert_eq!(plain["policy"]["digest"], base.digest());
    let own = engine.effective(&who("default", "default", Some("send_mail"), None));
    assert_eq!(mail["policy"]["digest"], own.policies.digest());
    assert_ne!(mail["policy"]["digest"], plain["policy"]["digest"]);
    // What stands for all of them is neither.
    assert!(![base.digest(), own.policies.digest()].contains(&engine.policy_digest()));
}

/// Without an override, and where none matches, every byte is as it was.
#[test]
fn who_is_not_meant_notices_nothing() {
    let plain = engine(scoped(json!({}), json!({})));
    let other = engine(scoped(
        json!({"x": {"match": {"tool": "never", "server": "*"}, "profile": "off"}, "y": cap(1100, json!({"fleet": "ops"}))}),
        json!({"ops": {"sources": ["/fleets/ops"]}}),
    ));
    let base = Policies::new(&policy(json!({"policies": {"SG01": {"options": {"max_bytes": 1024}}}}))).expect("holds");
    assert_eq!(plain.policy_digest(), base.digest());
    let (mut a, mut b) = (Partition::new(&plain), Partition::new(&other));
    for id in ["a", "b", "a"] {
        assert_eq!(result(&mut a, &[], "read_file", id), result(&mut b, &[], "read_file", id));
    }
    let entries = |state: &PartitionState| {
        let mut all = Vec::new();
        state.entries(&mut |key, value| all.push((key.to_vec(), value.map(<[u8]>::to_vec))));
        all
    };
    assert_eq!(entries(&a.state), entries(&b.state));
}

#[test]
fn a_profile_of_a_tool_changes_what_is_published_of_it() {
    let mut settings = scoped(
        json!({
            "strict": {"match": {"tool": "risky"}, "profile": "strict"},
            "none": {"match": {"tool": "known"}, "profile": "off"},
            "watch": {"match": {"tool": "watched"}, "profile": "monitor"},
        }),
        json!({}),
    );
    settings.policy.policies.entry("SG01".to_owned()).or_default().rules =
        [("oversize_result".to_owned(), sluicegate::engine::decision::Decision::Block)].into();
    let engine = engine(settings);
    for (tool, action, copies) in [
        ("plain", "block", 1),
        // Withheld, as that profile does.
        ("risky", "block", 0),
        ("known", "allow", 1),
        ("watched", "allow", 1),
    ] {
        let emissions = result(&mut Partition::new(&engine), &[], tool, "a");
        let verdict = verdict(&emissions);
        assert_eq!(verdict["action"], action, "{tool} {verdict}");
        let kept = emissions.iter().filter(|e| header(e, "ce_sgaction").is_some()).count();
        assert_eq!(kept, copies, "{tool}");
    }
    let verdict = verdict(&result(&mut Partition::new(&engine), &[], "known", "a"));
    assert_eq!(rules(&verdict), Vec::<&str>::new());
}

#[test]
fn a_claim_that_is_not_permitted_is_judged_as_default_and_said() {
    let fleets = json!({"support": {"topics": ["che*"], "sources": ["/fleets/support"]}, "ops": {"topics": ["ops.*"]}});
    let engine = engine(scoped(
        json!({"lax": cap(9000, json!({"fleet": "support"})), "ops": cap(9000, json!({"fleet": "ops"}))}),
        fleets,
    ));
    for (claims, fleet, agent, said, capped) in [
        (&[][..], "default", "default", false, true),
        (&[("ce_agent", "a-1")], "default", "a-1", false, true),
        (&[("ce_fleet", "support"), ("ce_agent", "a-1")], "support", "a-1", false, false),
        (&[("ce_fleet", "ops"), ("ce_agent", "a-1")], "default", "default", true, true),
        (&[("ce_fleet", "unheard")], "default", "default", true, true),
    ] {
        let mut partition = Partition::new(&engine);
        let verdict = verdict(&result(&mut partition, claims, "t", "a"));
        assert_eq!((&verdict["fleet"], &verdict["agent"]), (&json!(fleet), &json!(agent)), "{claims:?}");
        assert_eq!(rules(&verdict).contains(&"fleet_not_permitted"), said, "{claims:?} {verdict}");
        assert_eq!(rules(&verdict).contains(&"oversize_result"), capped, "{claims:?} {verdict}");
        // It says nothing of the output.
        assert_eq!(verdict["decision"], "redact", "{claims:?}");
    }
}

#[test]
fn the_agents_of_the_default_fleet_are_believed_where_it_is_named() {
    let overrides = json!({"trusted": cap(9000, json!({"fleet": "default", "agent": "a-1"}))});
    for (sources, believed) in [(json!([]), true), (json!(["/fleets/support/"]), true), (json!(["/elsewhere"]), false)]
    {
        let engine = engine(scoped(overrides.clone(), json!({"default": {"sources": sources}})));
        let verdict = verdict(&result(&mut Partition::new(&engine), &[("ce_agent", "a-1")], "t", "a"));
        assert_eq!(!rules(&verdict).contains(&"oversize_result"), believed, "{verdict}");
        assert_eq!(rules(&verdict).contains(&"fleet_not_permitted"), !believed, "{verdict}");
    }
}

#[test]
fn a_source_ends_where_a_part_of_it_ends() {
    for (prefix, source, expected) in [
        ("/fleets/a", "/fleets/a", true),
        ("/fleets/a", "/fleets/a/1", true),
        ("/fleets/a", "/fleets/ab", false),
        ("/fleets/a", "/fleets/a-b", false),
        ("/fleets/a-", "/fleets/a-b", true),
        ("/fleets/", "/fleets/a", true),
        ("urn:acme", "urn:acme:7", true),
        ("/fleets/a", "", false),
    ] {
        let trust = FleetTrust { sources: vec![prefix.to_owned()], ..FleetTrust::default() };
        assert_eq!(trust.permits("t", source), expected, "{prefix} {source}");
    }
}

/// What was judged under settings of a tool is known to be so after a restore, and under other settings is judged anew.
#[test]
fn a_restore_knows_which_settings_judged_a_result() {
    let request = json!({"model": "m", "max_tokens": 9, "messages": [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "send_mail", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "sent"}]}]})
    .to_string();
    let headers: Vec<(&str, Option<&[u8]>)> = vec![
        ("content-type", Some(b"application/json")),
        ("ce_specversion", Some(b"1.0")),
        ("ce_id", Some(b"e-1")),
        ("ce_source", Some(b"/a")),
        ("ce_type", Some(b"io.sluicegate.model.request.v1")),
        ("ce_provider", Some(b"anthropic.messages")),
    ];
    let results = |partition: &mut Partition<'_>| {
        let emissions = partition.feed_record(Some(b"c-1"), &headers, Some(request.as_bytes()));
        verdicts(&emissions).iter().filter(|v| v["checkpoint"] == "tool_result").count()
    };
    let restored = |partition: &Partition<'_>| {
        let mut state = PartitionState::new();
        partition.state.entries(&mut |key, value| state.restore(key, value).expect("its own entries"));
        state.restored().expect("whole");
        state.begin();
        state
    };
    let mail = |bytes| engine(scoped(json!({"mail": cap(bytes, json!({"tool": "send_mail"}))}), json!({})));
    let (first, second) = (mail(9000), mail(9001));
    let mut before = Partition::new(&first);
    assert_eq!(results(&mut before), 1);
    let mut same = Partition::new(&first);
    same.state = restored(&before);
    assert_eq!(results(&mut same), 0);
    let mut other = Partition::new(&second);
    other.state = restored(&before);
    assert_eq!(results(&mut other), 1);
}

/// The problems of overrides and fleets, each as `path: problem`.
fn check(overrides: Value, fleets: Value, expected: &[&str]) {
    let problems = Engine::new(scoped(overrides, fleets)).err().unwrap_or_default();
    let all: Vec<String> = problems.iter().map(|p| format!("{}: {}", p.path, p.problem)).collect();
    assert_eq!(all.len(), expected.len(), "{all:#?}");
    for expected in expected {
        assert!(all.iter().any(|p| p.starts_with(expected)), "{expected}\n{all:#?}");
    }
}

#[test]
fn a_problem_of_an_override_names_it() {
    let none = json!({});
    check(
        json!({"a": {"policies": {"SG01": {"rules": {"bogus": "allow"}}}},
            "b": {"match": {"tool": ""}, "policies": {"SG77": {}}},
            "c": cap(1, json!({"tool": "t"}))}),
        none.clone(),
        &[
            "overrides.a.match: matches everything",
            "overrides.a.policies.SG01.rules.bogus: no such rule",
            "overrides.b.match.tool: 0 bytes: must have 1 to 256",
            "overrides.b.policies.SG77: no such policy",
            "overrides.c.policies.SG01.options.max_bytes: 1 is not between 1024 and",
        ],
    );
    check(
        json!({"a": cap(1100, json!({"fleet": "ops"}))}),
        none.clone(),
        &["overrides.a.match.fleet: fleets is empty"],
    );
    check(json!({"a": cap(1100, json!({"agent": "x"}))}), none.clone(), &["overrides.a.match.agent: without fleet"]);
    let fleets = json!({"ops": {}, "support": {"sources": [""]}});
    check(
        json!({"a": cap(1100, json!({"fleet": "opps"})), "b": cap(1100, json!({"fleet": "*", "agent": "x"})),
            "c": cap(1100, json!({"fleet": "default"}))}),
        fleets,
        &[
            "fleets.support.sources: 0 bytes: must have 1 to 256",
            "overrides.a.match.fleet: \"opps\": no such fleet; fleets has ops, support",
            "overrides.b.match.fleet: \"*\": takes in the fleet default",
        ],
    );
    let many: serde_json::Map<String, Value> =
        (0..65).map(|n| (format!("o{n}"), cap(1100, json!({"tool": format!("t{n}")})))).collect();
    check(many.into(), none, &["overrides: 65 overrides: at most 64"]);
}

/// Each holds alone; together they do not.
#[test]
fn two_overrides_that_contradict_each_other_are_a_problem_where_both_can_match() {
    let low = json!({"policies": {"SG01": {"options": {"block_bytes": 2000}}}});
    let with = |over: &Value, matches: Value| {
        let mut over = over.clone();
        over["match"] = matches;
        over
    };
    let high = cap(3000, json!({"tool": "send_*"}));
    check(
        json!({"low": with(&low, json!({"tool": "*_mail"})), "high": high}),
        json!({}),
        &["overrides.low.policies.SG01.options."],
    );
    check(json!({"low": with(&low, json!({"tool": "read_mail"})), "high": high}), json!({}), &[]);
}

/// `tools: [{tool: "f*"}]` was taken and never matched; so were hosts like `.example.org` and sources of `*`.
#[test]
fn what_would_never_match_is_refused() {
    use sluicegate::engine::policy::{FleetTrust, OnePolicy, Override, PolicySettings, Scope, Scopes};
    let paths = |settings: &PolicySettings, sources: &[&str]| {
        let trust = FleetTrust { sources: sources.iter().map(|s| (*s).to_owned()).collect(), ..FleetTrust::default() };
        match Scopes::new(settings, &[("a".to_owned(), trust)].into()) {
            Ok(_) => Vec::new(),
            Err(problems) => problems.into_iter().map(|problem| problem.path).collect::<Vec<String>>(),
        }
    };
    let cases = [
        ("SG04", serde_json::json!({"tools": [{"tool": "f*", "parameters": {"p": "path"}}]}), "tools.0.tool"),
        ("SG04", serde_json::json!({"tools": [{"tool": "f"}]}), "tools.0"),
        ("SG04", serde_json::json!({"tools": [{"tool": "f", "schema": {}, "enforce": true}]}), "tools.0.enforce"),
        ("SG04", serde_json::json!({"tools": [{"tool": "f", "parameters": {"$.a": "path"}}]}), "tools.0.parameters"),
        ("SG04", serde_json::json!({"tools": [{"tool": "f", "parameters": {"#/a": "path"}}]}), "tools.0.parameters"),
        ("SG04", serde_json::json!({"tools": [{"tool": "f", "parameters": {"/a~b": "path"}}]}), "tools.0.parameters"),
        ("SG04", serde_json::json!({"tools": [{"tool": "f", "parameters": {"a*": "path"}}]}), "tools.0.parameters"),
        ("SG04", serde_json::json!({"tools": [{"tool": "f", "parameters": {"/a*/b": "path"}}]}), "tools.0.parameters"),
        ("SG04", serde_json::json!({"tools": [{"tool": "f", "server": "^s$", "schema": {}}]}), "tools.0.server"),
        ("SG13", serde_json::json!({"tools": {"f": {}}}), "tools.f"),
        ("SG01", serde_json::json!({"tools": {"f": {}}}), "tools.f"),
        ("SG01", serde_json::json!({"allowed_includes": ["*.results"]}), "allowed_includes.0"),
        ("SG02", serde_json::json!({"output_is_diagnostic": ["test_?"]}), "output_is_diagnostic.0"),
        ("SG07", serde_json::json!({"side_effecting": ["/send_.*/"]}), "side_effecting.0"),
        ("SG07", serde_json::json!({"side_effecting": ["send_mail "]}), "side_effecting.0"),
        ("SG13", serde_json::json!({"tools": {"f*": {"max_bytes": 2048}}}), "tools.f*"),
        ("SG01", serde_json::json!({"tools": {"f?": {"max_bytes": 2048}}}), "tools.f?"),
        ("SG14", serde_json::json!({"denied_hosts": [".example.org"]}), "denied_hosts"),
        ("SG05", serde_json::json!({"allowed_hosts": [".example.org"]}), "allowed_hosts.0"),
    ];
    for (code, options, path) in cases {
        let one = OnePolicy { options: options.as_object().cloned().unwrap(), ..OnePolicy::default() };
        let settings = PolicySettings { policies: [(code.to_owned(), one)].into(), ..PolicySettings::default() };
        let found = paths(&settings, &[]);
        assert_eq!(found, [format!("policies.{code}.options.{path}")]);
    }
    let over = |tool: &str, policies| {
        let r#match = Scope { tool: Some(tool.to_owned()), ..Scope::default() };
        let over = Override { r#match, policies, ..Override::default() };
        PolicySettings { overrides: [("o".to_owned(), over)].into(), ..PolicySettings::default() }
    };
    let monitor = OnePolicy { mode: Some(sluicegate::engine::policy::Mode::Monitor), ..OnePolicy::default() };
    let some = || [("SG04".to_owned(), monitor.clone())].into();
    let blank = [("SG04".to_owned(), OnePolicy::default())].into();
    assert_eq!(paths(&over("f", blank), &[]), ["overrides.o.policies.SG04"]);
    for never in ["/f.*/", "^f", "f|g", " f"] {
        assert_eq!(paths(&over(never, some()), &[]), ["overrides.o.match.tool"], "{never}");
    }
    assert_eq!(paths(&over("f?", some()), &[]), ["overrides.o.match.tool"]);
    assert_eq!(paths(&over("f", [].into()), &[]), ["overrides.o"]);
    assert_eq!(paths(&over("f*", some()), &[]), [""; 0]);
    assert_eq!(paths(&PolicySettings::default(), &["*"]), ["fleets.a.sources"]);
    for bundle in ["a b", "<script>", "\u{1b}[31m", &"a".repeat(129)] {
        let settings = PolicySettings { bundle: bundle.to_owned(), ..PolicySettings::default() };
        assert_eq!(paths(&settings, &[]), ["bundle"], "{bundle:?}");
    }
    let named = PolicySettings { bundle: "team-a/2026.11@3".to_owned(), ..PolicySettings::default() };
    assert_eq!(paths(&named, &[]), [""; 0]);
}
