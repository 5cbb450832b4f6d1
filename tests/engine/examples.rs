//! The examples in the policies' heads, run for every provider that they name.
//!
//! A fenced block `example` is a transcript, told without a provider's shapes, and what must be found in it:
//!
//! ````text
//! ```example oversize_result, missing_provenance: openai.chat, mcp
//! option max_bytes=1024
//! call lookup {"q":"a"}
//! result "<<3000*x>>"
//! ```
//! ````
//!
//! Behind `example` stand the rules of this policy that must be found in it, or `holds`: then none of its rules
//! may be found with an effect. Behind the colon the providers; without it, every provider that can write the
//! transcript. A line is a step:
//!
//! | step | |
//! |---|---|
//! | `profile P`, `option N=JSON`, `rule N=EFFECT` | settings of this policy |
//! | `tool NAME SCHEMA` | a tool that the agent offers; without one, `lookup` takes any object |
//! | `about NAME TEXT` | a tool's description |
//! | `call NAME ARGUMENTS` | the model asks for a tool; calls in a row are made in parallel |
//! | `cut NAME ARGUMENTS` | the same, and the token limit ends it |
//! | `open NAME ARGUMENTS` | the same, and the stream has not ended |
//! | `start`, `start other` | the host starts the first call that waits (with other arguments) |
//! | `host TEXT`, `host-error TEXT` | raw output of the first call that waits (it failed) |
//! | `result TEXT`, `error TEXT` | the output that the next request carries (flagged as failed) |
//! | `file TYPE BASE64` | the same, and the output is a file |
//! | `say TEXT` | what the user says behind the outputs |
//! | `again` | the same request is sent again |
//! | `ran TEXT` | output of a tool that the provider ran |
//! | `list` | the server lists the tools again |
//! | `render FORMAT TEXT` | shown to a person |
//! | `event TYPE JSON` | a record as it stands |
//!
//! TEXT is JSON; `<<N*x>>` is `x` N times.

mod shapes;

use crate::support::{Partition, body, settings, verdicts};
use serde_json::{Value, json};
use shapes::{Call, Ending, File, Output, Record, Round, Tool};
use sluicegate::engine::decision::Decision;
use sluicegate::engine::policy::{OnePolicy, Policies, PolicySettings, Profile};
use sluicegate::engine::provider::Provider;
use sluicegate::engine::{Emission, Engine, To};
use std::collections::{BTreeMap, BTreeSet};

/// One fenced example.
#[derive(Debug, Clone)]
pub struct Example {
    pub code: &'static str,
    /// `SG01/3`: the policy and its number there.
    pub name: String,
    /// Empty: it holds.
    pub rules: Vec<String>,
    providers: Option<Vec<Provider>>,
    steps: Vec<(String, String)>,
}

impl Example {
    pub fn holds(&self) -> bool {
        self.rules.is_empty()
    }
}

/// The examples of every policy, in order.
pub fn all() -> Vec<Example> {
    Policies::catalogue().iter().flat_map(|meta| of(meta.code)).collect()
}

fn of(code: &'static str) -> Vec<Example> {
    let page = Policies::page(code).unwrap_or_default();
    let mut found: Vec<Example> = Vec::new();
    let mut open = false;
    for line in page.lines() {
        match line.trim().strip_prefix("```") {
            Some(info) if !open && info.starts_with("example") => {
                let (rules, providers) =
                    info["example".len()..].split_once(':').unwrap_or((&info["example".len()..], ""));
                let rules: Vec<String> = rules.split(',').map(|rule| rule.trim().to_owned()).collect();
                let providers: Vec<Provider> =
                    providers.split(',').map(str::trim).filter(|p| !p.is_empty()).map(provider).collect();
                assert!(rules.iter().all(|rule| !rule.is_empty()), "{code}: an example says what is found, or `holds`");
                found.push(Example {
                    code,
                    name: format!("{code}/{}", found.len() + 1),
                    rules: if rules == ["holds"] { Vec::new() } else { rules },
                    providers: (!providers.is_empty()).then_some(providers),
                    steps: Vec::new(),
                });
                open = true;
            }
            Some(_) => open = false,
            None if open => {
                let (step, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
                let Some(example) = found.last_mut() else { continue };
                if !step.is_empty() {
                    example.steps.push((step.to_owned(), expand(rest)));
                }
            }
            None => {}
        }
    }
    found
}

fn provider(name: &str) -> Provider {
    Provider::ALL.into_iter().find(|p| p.name() == name).unwrap_or_else(|| panic!("no provider {name:?}"))
}

/// `<<3*ab>>` is `ababab`.
fn expand(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("<<") {
        let (inside, after) = behind.split_once(">>").unwrap_or_else(|| panic!("<< without >>: {text}"));
        let (count, what) = inside.split_once('*').unwrap_or_else(|| panic!("<<N*x>>: {text}"));
        out.push_str(before);
        out.push_str(&what.repeat(count.parse().unwrap_or_else(|e| panic!("{e}: {text}"))));
        rest = after;
    }
    out.push_str(rest);
    out
}

fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {}", text.chars().take(200).collect::<String>()))
}

/// A transcript being told in one provider's shapes.
struct Teller {
    provider: Provider,
    tools: Vec<Tool>,
    rounds: Vec<Round>,
    /// A model's turn that is being gathered.
    asked: Vec<Call>,
    ending: Ending,
    /// Outputs wait for their request.
    pending: bool,
    introduced: bool,
    records: Vec<Record>,
    calls: usize,
}

impl Teller {
    fn new(provider: Provider) -> Self {
        Self {
            provider,
            tools: Vec::new(),
            rounds: Vec::new(),
            asked: Vec::new(),
            ending: Ending::Good,
            pending: false,
            introduced: false,
            records: Vec::new(),
            calls: 0,
        }
    }

    /// Tools are offered before anything else happens.
    fn introduce(&mut self) -> Option<()> {
        if self.introduced {
            return Some(());
        }
        self.introduced = true;
        if self.tools.is_empty() {
            self.tools.push(tool("lookup", json!({"type": "object"})));
        }
        self.request()
    }

    fn request(&mut self) -> Option<()> {
        self.records.extend(shapes::request(self.provider, &self.tools, &self.rounds)?);
        Some(())
    }

    /// Ends what is being gathered.
    fn settle(&mut self) -> Option<()> {
        self.introduce()?;
        if !self.asked.is_empty() {
            let calls = std::mem::take(&mut self.asked);
            self.records.extend(shapes::response(self.provider, &calls, self.ending)?);
            self.rounds.push(Round { calls, said: Vec::new() });
        }
        if std::mem::take(&mut self.pending) {
            self.request()?;
        }
        Some(())
    }

    fn ask(&mut self, rest: &str, ending: Ending) -> Option<()> {
        if self.pending || self.ending != ending {
            self.settle()?;
        }
        self.introduce()?;
        self.ending = ending;
        let (name, arguments) = rest.split_once(' ').unwrap_or((rest, "{}"));
        self.calls += 1;
        let id = format!("call_{}", self.calls);
        self.asked.push(Call { id, name: name.to_owned(), arguments: arguments.to_owned(), output: None });
        Some(())
    }

    /// The first call without an output.
    fn waiting(&mut self) -> &mut Call {
        let calls = self.rounds.iter_mut().flat_map(|round| &mut round.calls);
        calls.into_iter().find(|call| call.output.is_none()).unwrap_or_else(|| panic!("no call waits for an output"))
    }

    /// An output may come without a call that the transcript shows.
    fn called(&mut self) -> Option<()> {
        if self.asked.is_empty() && self.rounds.iter().flat_map(|r| &r.calls).all(|c| c.output.is_some()) {
            self.ask("lookup {}", Ending::Good)?;
        }
        if !self.asked.is_empty() {
            let pending = std::mem::take(&mut self.pending);
            self.settle()?;
            self.pending = pending;
        }
        self.introduce()
    }

    /// `None`: this provider cannot write it down.
    fn tell(&mut self, step: &str, rest: &str) -> Option<()> {
        match step {
            "tool" => {
                let (name, schema) = rest.split_once(' ').unwrap_or_else(|| panic!("tool NAME SCHEMA: {rest}"));
                self.tools.retain(|tool| tool.name != name);
                self.tools.push(tool(name, value(schema)));
                Some(())
            }
            "about" => {
                let (name, text) = rest.split_once(' ').unwrap_or_else(|| panic!("about NAME TEXT: {rest}"));
                if !self.tools.iter().any(|tool| tool.name == name) {
                    self.tools.push(tool(name, json!({"type": "object"})));
                }
                let described = self.tools.iter_mut().find(|tool| tool.name == name);
                described.into_iter().for_each(|tool| tool.description = text_of(text));
                Some(())
            }
            "call" => self.ask(rest, Ending::Good),
            "cut" => self.ask(rest, Ending::MaxTokens),
            "open" => self.ask(rest, Ending::None),
            "start" => {
                self.settle()?;
                let id = self.waiting().id.clone();
                let mut data = json!({"call_id": id});
                if rest == "other" {
                    data["arguments_sha256"] = json!("00".repeat(32));
                }
                self.host("tool.started", data);
                Some(())
            }
            "host" | "host-error" => {
                self.called()?;
                let (id, tool) = (self.waiting().id.clone(), self.waiting().name.clone());
                let outcome = if step == "host" { "ok" } else { "error" };
                let data = json!({"call_id": id, "tool": tool, "outcome": outcome, "content": value(rest)});
                self.host("tool.result", data);
                Some(())
            }
            "result" | "error" => {
                self.called()?;
                let flagged = step == "error";
                self.waiting().output = Some(Output { value: value(rest), flagged, file: None });
                self.pending = true;
                Some(())
            }
            "file" => {
                self.called()?;
                let (kind, data) = rest.split_once(' ').unwrap_or_else(|| panic!("file TYPE BASE64: {rest}"));
                let file = Some(File { kind: kind.to_owned(), data: data.to_owned() });
                self.waiting().output = Some(Output { value: json!("see the file"), flagged: false, file });
                self.pending = true;
                Some(())
            }
            "say" => {
                let round = self.rounds.last_mut().unwrap_or_else(|| panic!("say stands behind outputs"));
                round.said.push(text_of(rest));
                self.pending = true;
                Some(())
            }
            "again" => {
                self.settle()?;
                self.request()
            }
            "ran" => {
                self.settle()?;
                self.records.extend(shapes::served(self.provider, &value(rest))?);
                Some(())
            }
            "list" => {
                self.settle()?;
                self.records.extend(
                    (self.provider == Provider::Mcp).then(|| shapes::request(self.provider, &self.tools, &[]))??,
                );
                Some(())
            }
            "render" => {
                self.introduce()?;
                let (format, text) = rest.split_once(' ').unwrap_or_else(|| panic!("render FORMAT TEXT: {rest}"));
                self.host("render", json!({"format": format, "content": value(text)}));
                Some(())
            }
            "event" => {
                if !self.records.is_empty() || !self.asked.is_empty() {
                    self.settle()?;
                }
                self.introduced = true;
                let (kind, data) = rest.split_once(' ').unwrap_or_else(|| panic!("event TYPE JSON: {rest}"));
                let kinds = [
                    "model.request",
                    "model.response",
                    "model.chunk",
                    "model.closed",
                    "tool.started",
                    "tool.result",
                    "render",
                    "mcp.message",
                ];
                let kind = kinds.into_iter().find(|known| *known == kind).unwrap_or_else(|| panic!("no type {kind}"));
                let attributes = match kind {
                    "mcp.message" => {
                        let data = value(data);
                        let asks = |method: &Value| method != "notifications/tools/list_changed";
                        let side = if data.get("method").is_some_and(asks) { "client" } else { "server" };
                        vec![("direction", side.to_owned()), ("mcpserver", "files".to_owned())]
                    }
                    _ => Vec::new(),
                };
                self.records.push(Record { kind, attributes, data: value(data) });
                Some(())
            }
            other => panic!("no step {other:?}"),
        }
    }

    fn host(&mut self, kind: &'static str, data: Value) {
        self.records.push(Record::new(kind, data));
    }
}

fn tool(name: &str, schema: Value) -> Tool {
    Tool { name: name.to_owned(), description: "looks something up".to_owned(), schema }
}

fn text_of(text: &str) -> String {
    value(text).as_str().map_or_else(|| text.to_owned(), str::to_owned)
}

/// The settings that an example's first lines give.
fn configured(example: &Example) -> PolicySettings {
    let mut one = OnePolicy::default();
    let mut profile = Profile::Standard;
    for (step, rest) in &example.steps {
        let pair = || rest.split_once('=').unwrap_or_else(|| panic!("NAME=VALUE: {rest}"));
        match step.as_str() {
            "profile" => profile = serde_json::from_value(json!(rest)).unwrap_or_else(|e| panic!("{e}")),
            "option" => {
                one.options.insert(pair().0.to_owned(), value(pair().1));
            }
            "rule" => {
                let effect: Decision = serde_json::from_value(json!(pair().1)).unwrap_or_else(|e| panic!("{e}"));
                one.rules.insert(pair().0.to_owned(), effect);
            }
            _ => {}
        }
    }
    let mut settings = PolicySettings { profile, ..PolicySettings::default() };
    // What other examples list of tools has been approved.
    let trusts = [("trust_first".to_owned(), json!(true))].into_iter().collect();
    settings.policies.insert("SG06".to_owned(), OnePolicy { options: trusts, ..OnePolicy::default() });
    settings.policies.insert(example.code.to_owned(), one);
    settings
}

/// The example's records in a provider's shapes, as lines; `None` if it has none for a step.
fn lines(example: &Example, provider: Provider) -> Option<Vec<String>> {
    let mut teller = Teller::new(provider);
    let settings = ["profile", "option", "rule"];
    for (step, rest) in example.steps.iter().filter(|(step, _)| !settings.contains(&step.as_str())) {
        teller.tell(step, rest)?;
    }
    teller.settle()?;
    let line = |(n, record): (usize, Record)| {
        let mut event = json!({"specversion": "1.0", "id": format!("e{n}"), "source": "/fleet/example",
            "type": format!("io.sluicegate.{}.v1", record.kind), "provider": provider.name(), "conversation": "c-1",
            "data": record.data});
        for (name, value) in record.attributes {
            event[name] = json!(value);
        }
        event.to_string()
    };
    Some(teller.records.into_iter().enumerate().map(line).collect())
}

/// What running gave.
struct Ran {
    /// Of the example's policy: rule and effect.
    findings: Vec<(String, String)>,
    actions: BTreeSet<String>,
    /// The data of each record as it may be used: its copy where there is one.
    safe: Vec<Value>,
    /// Whether it is a request that may not be sent at all.
    withheld: Vec<bool>,
    lines: Vec<String>,
}

fn run(example: &Example, engine: &Engine, lines: &[String]) -> Ran {
    let mut partition = Partition::new(engine);
    let mut ran = Ran {
        findings: Vec::new(),
        actions: BTreeSet::new(),
        safe: Vec::new(),
        withheld: Vec::new(),
        lines: Vec::new(),
    };
    for line in lines {
        let emissions = partition.feed(line.as_bytes());
        for verdict in verdicts(&emissions) {
            let found = verdict["findings"].as_array().into_iter().flatten().filter(|f| f["policy"] == example.code);
            let said = |f: &Value, name: &str| f[name].as_str().unwrap_or_default().to_owned();
            let found: Vec<(String, String)> = found.map(|f| (said(f, "rule"), said(f, "effect"))).collect();
            if found.iter().any(|(rule, _)| example.rules.contains(rule)) {
                ran.actions.insert(said(&verdict, "action"));
            }
            ran.findings.extend(found);
        }
        let event: Value = value(line);
        let copy = |e: &&Emission| e.to == To::Redacted && body(e)["type"] == event["type"];
        let copy = emissions.iter().find(copy).map(body);
        let mut event = event;
        if let Some(copy) = copy {
            event["data"] = copy["data"].clone();
        }
        let blocked = |verdict: &Value| verdict["checkpoint"] == "model_request" && verdict["action"] == "block";
        let withheld = emissions.iter().all(|e| e.to != To::Redacted) && verdicts(&emissions).iter().any(blocked);
        ran.safe.push(event["data"].clone());
        ran.withheld.push(withheld);
        ran.lines.push(event.to_string());
    }
    ran
}

/// For every example and provider for which it runs: what was done where one of its rules was found.
pub fn table() -> BTreeMap<(String, &'static str), BTreeSet<String>> {
    let mut table = BTreeMap::new();
    for example in all() {
        let engine = engine_of(&example);
        let providers = example.providers.clone().unwrap_or_else(|| Provider::ALL.to_vec());
        for provider in providers {
            if let Some(lines) = lines(&example, provider) {
                let actions = run(&example, &engine, &lines).actions;
                table.insert((example.name.clone(), provider.name()), actions);
            }
        }
    }
    table
}

fn engine_of(example: &Example) -> Engine {
    let settings = sluicegate::engine::Settings { policy: configured(example), ..settings(Profile::Standard) };
    Engine::new(settings).unwrap_or_else(|problems| panic!("{}: {problems:?}", example.name))
}

#[test]
fn every_example_of_every_policy_runs_for_every_provider_named() {
    let (mut ran_for, mut problems) = (0, Vec::new());
    for example in all() {
        let engine = engine_of(&example);
        let providers = example.providers.clone().unwrap_or_else(|| Provider::ALL.to_vec());
        let mut told = 0;
        for provider in providers {
            let Some(lines) = lines(&example, provider) else {
                if example.providers.is_some() {
                    problems.push(format!("{}: {} cannot write this down", example.name, provider.name()));
                }
                continue;
            };
            told += 1;
            let ran = run(&example, &engine, &lines);
            let at = format!("{} for {}", example.name, provider.name());
            let found = |rule: &String| ran.findings.iter().any(|(name, _)| name == rule);
            let missing: Vec<&String> = example.rules.iter().filter(|rule| !found(rule)).collect();
            if !missing.is_empty() {
                problems.push(format!("{at}: {missing:?} not found, but {:?}", ran.findings));
            }
            let speaks: Vec<_> = ran.findings.iter().filter(|(_, effect)| effect != "allow").collect();
            if example.holds() && !speaks.is_empty() {
                problems.push(format!("{at}: holds, and yet {speaks:?}"));
            }
            // What was made safe is safe: the second pass changes nothing.
            let again = run(&example, &engine, &ran.lines);
            let both = ran.safe.iter().zip(&again.safe).zip(&ran.withheld);
            if both.into_iter().any(|((first, second), withheld)| !withheld && first != second) {
                problems.push(format!("{at}: a second pass changes the copy"));
            }
        }
        if told == 0 {
            problems.push(format!("{}: no provider can write this down", example.name));
        }
        ran_for += told;
    }
    println!("{ran_for} examples run");
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn every_example_names_rules_that_exist() {
    for example in all() {
        let meta = Policies::catalogue().iter().find(|meta| meta.code == example.code);
        let rules = meta.map(|meta| meta.rules).unwrap_or_default();
        for rule in &example.rules {
            assert!(rules.iter().any(|known| known.name == rule), "{}: no rule {rule}", example.name);
        }
    }
}
