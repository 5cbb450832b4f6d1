//! The page of permissions is made from the table that `topics plan` prints, and its commands are enough for each role.

use crate::files::{fresh, read, root, sluicegate};
use crate::process::{Running, create, is_ok, sum};
use crate::support::broker::Broker;
use crate::support::free_port;
use sluicegate::runtime::acls::{self, Resource, Role};
use sluicegate::runtime::kafka::topics::{self, Cluster};
use sluicegate::runtime::settings::{Settings, state_topic};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

#[test]
fn the_page_is_fresh() {
    fresh("deploy/acls.md", &acls::page());
}

/// What a gate believes, only the service may write; what a reviewer decides, only reviewers.
#[test]
fn no_role_writes_what_another_vouches_for() {
    let settings = Settings::new("", "g", &["a", "b"]);
    let mut outputs: Vec<String> = settings.outputs().map(str::to_owned).to_vec();
    outputs.extend(settings.inputs.iter().map(|input| state_topic(input)));
    for grant in acls::grants(&settings) {
        let Resource::Topics(names) = &grant.on else {
            assert_eq!(grant.role, Role::Service);
            continue;
        };
        let writes = grant.operations.contains(&"Write");
        for name in names.iter().filter(|_| writes) {
            let owner = match name {
                name if outputs.contains(name) => Role::Service,
                name if settings.inputs.contains(name) => Role::Producer,
                _ => Role::Reviewer,
            };
            // The canary's records hold nothing but its own text.
            let canary = owner == Role::Producer && grant.role == Role::Canary;
            assert!(grant.role == owner || canary, "{name}");
        }
    }
}

/// Every topic that there is stands in the list, and each role has a line.
#[test]
fn the_list_is_whole() {
    let settings = Settings::new("", "g", &["a"]);
    let text = acls::listed(&settings);
    let all = settings.outputs().map(str::to_owned).into_iter();
    let all = all.chain([state_topic("a"), settings.pins.clone(), settings.pins_audit.clone()]);
    for topic in all {
        assert!(text.contains(&topic), "{topic}\n{text}");
    }
    for role in Role::ALL {
        assert!(text.lines().any(|line| line.starts_with(role.name())), "{}", role.name());
    }
}

/// `topics verify` runs as the service: it must see every topic that it looks at.
#[test]
fn the_service_sees_every_topic_that_it_verifies() {
    let settings = Settings::new("", "g", &["a", "b"]);
    let cluster = Cluster { topics: [("a".to_owned(), 1), ("b".to_owned(), 2)].into(), ..Cluster::default() };
    let grants = acls::grants(&settings);
    let may = |operation: &str, topic: &String| {
        grants
            .iter()
            .filter(|g| g.role == Role::Service && g.operations.contains(&operation))
            .any(|g| matches!(&g.on, Resource::Topics(names) if names.contains(topic)))
    };
    let planned: Vec<String> = topics::plan(&settings, &cluster).into_iter().map(|plan| plan.name).collect();
    assert!(planned.len() > 7, "{planned:?}");
    for topic in planned.iter().chain(&settings.inputs) {
        assert!(may("Describe", topic), "{topic}");
        // Inputs belong to others, and their settings are not looked at.
        assert!(may("DescribeConfigs", topic) || settings.inputs.contains(topic), "{topic}");
    }
}

/// Kafka's tools beside the libraries of the broker, fetched once.
fn tools(version: &str) -> Result<String, String> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root("target"), PathBuf::from);
    let (libraries, tools) =
        (target.join(format!("kafka-libs-{version}")), target.join(format!("kafka-tools-{version}")));
    let jar = tools.join(format!("kafka-tools-{version}.jar"));
    if !jar.is_file() {
        let output = Command::new("mvn")
            .args(["-q", "-B", "-ntp", "dependency:copy"])
            .arg(format!("-Dartifact=org.apache.kafka:kafka-tools:{version}"))
            .arg(format!("-DoutputDirectory={}", tools.display()))
            .output()
            .map_err(|e| format!("mvn: {e}"))?;
        if !output.status.success() || !jar.is_file() {
            return Err(format!("Kafka's tools could not be fetched: {}", String::from_utf8_lossy(&output.stdout)));
        }
    }
    Ok(format!("{}/*:{}", libraries.display(), jar.display()))
}

/// The commands of the page, each a line, with the broker's address in its place.
fn commands(bootstrap: &str) -> String {
    let page = read("deploy/acls.md");
    let blocks: Vec<&str> = page.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    let text = blocks.concat().replace("\\\n", " ").replace("--command-config \"$ADMIN\"", "");
    text.replace("\"$BOOTSTRAP\"", bootstrap).replace("kafka-acls.sh ", "")
}

struct World {
    directory: tempfile::TempDir,
    classes: String,
    broker: Broker,
    port: u16,
}

impl World {
    fn acls(&self, lines: &str) {
        let file = self.directory.path().join("commands");
        std::fs::write(&file, lines).unwrap();
        let java =
            Command::new("java").args(["-cp", &self.classes]).arg(root("tests/deploy/Acls.java")).arg(file).output();
        let output = java.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }

    /// The binary as a role's principal.
    fn r#as(&self, role: Role, args: &[&str]) -> Command {
        let path = |name: &str| self.directory.path().join(name).to_str().unwrap().to_owned();
        std::fs::write(path("password"), "secret").unwrap();
        std::fs::write(path("key"), [7; 32]).unwrap();
        let config = format!(
            "{{kafka: {{bootstrap_servers: '{}', inputs: [agent.events], instance: one, startup_timeout: 20s,\n\
             security_protocol: sasl_plaintext,\n\
             sasl: {{mechanism: PLAIN, username: sluicegate-{}, password_file: '{}'}}}},\n\
             engine: {{fingerprint_key_file: '{}'}}, http: {{listen: '127.0.0.1:{}'}}}}",
            self.broker.sasl,
            role.name(),
            path("password"),
            path("key"),
            self.port,
        );
        let file = path(&format!("{}.yaml", role.name()));
        std::fs::write(&file, config).unwrap();
        sluicegate(&[args, &["--config", Path::new(&file).to_str().unwrap()]].concat())
    }

    fn run(&self, role: Role, args: &[&str]) -> Output {
        self.r#as(role, args).output().unwrap()
    }

    fn succeed(&self, role: Role, args: &[&str]) -> String {
        let output = self.run(role, args);
        assert!(output.status.success(), "{} {args:?}: {}", role.name(), String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

#[test]
fn the_commands_give_each_role_what_it_needs() {
    let ready = Broker::start().and_then(|broker| Ok((tools("4.3.1")?, broker)));
    let (classes, broker) = match ready {
        Ok(ready) => ready,
        Err(why) => return println!("SKIPPED: {why}"),
    };
    let world = World { directory: tempfile::tempdir().unwrap(), classes, broker, port: free_port() };
    let sample = ["demo", "--bootstrap", &world.broker.sasl];
    create(&world.broker.bootstrap, "agent.events", 2);
    assert_eq!(world.run(Role::Producer, &sample).status.code(), Some(4), "nothing is permitted yet");

    world.acls(&commands(&world.broker.bootstrap));
    world.succeed(Role::Admin, &["topics", "apply", "--replication", "1"]);
    // As `helm test` does.
    world.succeed(Role::Service, &["topics", "verify"]);
    let mut command = world.r#as(Role::Service, &["run"]);
    command.envs([("SLUICEGATE__CANARY__ENABLED", "true"), ("SLUICEGATE__CANARY__INTERVAL", "1s")]);
    let mut service = Running::start(command);
    service.get(world.port, "/readyz", is_ok);
    let blocked = "sluicegate_canary_verdicts_total{result=\"blocked\"";
    service.get(world.port, "/metrics", |metrics| sum(metrics, blocked) > 0.0);
    world.succeed(Role::Producer, &sample);
    let sighted = "sluicegate_records_produced_total{topic=\"sluicegate.pin-sightings\"";
    service.get(world.port, "/metrics", |metrics| sum(metrics, sighted) > 0.0);
    let listed = world.succeed(Role::Reviewer, &["pins", "list"]);
    assert!(listed.contains("read_file"), "{listed}");
    world.succeed(
        Role::Reviewer,
        &["pins", "approve", "--all", "--server", "files", "--reason", "read", "--by", "test"],
    );
    // What a role may not: send records, decide, take over the service.
    for role in [Role::Gate, Role::Host, Role::Reviewer] {
        assert_eq!(world.run(role, &sample).status.code(), Some(4), "{}", role.name());
    }
    for role in [Role::Gate, Role::Producer] {
        assert_eq!(world.run(role, &["pins", "list"]).status.code(), Some(4), "{}", role.name());
    }
    let one = |what: &str, operation: &str, topic: &str| {
        format!(
            "--bootstrap-server {} {what} --allow-principal User:sluicegate-service --operation {operation} --topic {topic}",
            world.broker.bootstrap
        )
    };
    // What may no longer be written while it runs is waited for, and said.
    let stalled = "sluicegate_stalled_partitions{";
    let told = |metrics: &str| metrics.contains(stalled).then(|| sum(metrics, stalled));
    service.get(world.port, "/metrics", |metrics| told(metrics) == Some(0.0));
    world.acls(&one("--remove --force", "Write", "sluicegate.verdicts"));
    service.get(world.port, "/metrics", |metrics| told(metrics) > Some(0.0));
    world.acls(&one("--add", "Write", "sluicegate.verdicts"));
    service.get(world.port, "/metrics", |metrics| told(metrics) == Some(0.0));
    assert_eq!(service.stop().code(), Some(0), "{}", service.log());

    let state = state_topic("agent.events");
    // What may not be written ends the service once there is something to write; it is not tried for ever.
    world.acls(&one("--remove --force", "Write", "sluicegate.verdicts"));
    let mut service = Running::start(world.r#as(Role::Service, &["run"]));
    service.get(world.port, "/readyz", is_ok);
    world.succeed(Role::Producer, &sample);
    assert_eq!(service.end().code(), Some(4), "{}", service.log());
    assert!(service.log().contains("kafka_denied"), "{}", service.log());
    world.acls(&one("--add", "Write", "sluicegate.verdicts"));

    // A changelog that may not be read is not taken for one that is lost.
    world.acls(&one("--remove --force", "Read", &state));
    let mut service = Running::start(world.r#as(Role::Service, &["run"]));
    assert_eq!(service.end().code(), Some(4), "{}", service.log());
    assert!(service.log().contains("kafka_denied") && service.log().contains(&state), "{}", service.log());
}
