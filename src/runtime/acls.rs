//! Who may do what in the cluster: the permissions of each role, and no more.
//!
//! One table, from which `topics plan` prints its last part and `deploy/acls.md` is made. What the service lacks of its
//! own it says at its start, with exit code 4 and the name of the permission.

use super::settings::{Settings, state_topic};
use std::fmt::Write as _;

/// Whose permissions these are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    Service,
    Canary,
    Gate,
    Host,
    Reviewer,
    Producer,
    Admin,
}

impl Role {
    pub const ALL: [Role; 7] =
        [Role::Service, Role::Canary, Role::Gate, Role::Host, Role::Reviewer, Role::Producer, Role::Admin];

    pub fn name(self) -> &'static str {
        match self {
            Role::Service => "service",
            Role::Canary => "canary",
            Role::Gate => "gate",
            Role::Host => "host",
            Role::Reviewer => "reviewer",
            Role::Producer => "producer",
            Role::Admin => "admin",
        }
    }

    /// Who is given it.
    fn principal(self) -> &'static str {
        if self == Role::Canary { Role::Service.name() } else { self.name() }
    }

    fn about(self) -> &'static str {
        match self {
            Role::Service => "`sluicegate run`, `validate` and `topics verify`",
            Role::Canary => "what `canary.enabled` adds to `sluicegate run`, for the same principal",
            Role::Gate => "whoever waits for a verdict before it acts, and dashboards that read verdicts",
            Role::Host => "whoever runs calls by their records, and reads safe copies",
            Role::Reviewer => "an operator with `sluicegate pins`",
            Role::Producer => "agents and hosts that publish what they do, on their own topics only",
            Role::Admin => "`sluicegate topics plan` and `topics apply`; not needed while the service runs",
        }
    }
}

/// What is spoken of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resource {
    Topics(Vec<String>),
    Group(String),
    /// Every transactional id that begins so.
    TransactionalIds(String),
}

/// One permission of a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    pub role: Role,
    /// As Kafka names them.
    pub operations: &'static [&'static str],
    pub on: Resource,
}

const READ: &[&str] = &["Read", "Describe"];
const WRITE: &[&str] = &["Write", "Describe"];
const OUTPUT: &[&str] = &["Write", "Describe", "DescribeConfigs"];
const VERIFY: &[&str] = &["Describe", "DescribeConfigs"];
const MAKE: &[&str] = &["Create", "Alter", "Describe"];

/// Every permission, in order of role.
pub fn grants(settings: &Settings) -> Vec<Grant> {
    let states = || settings.inputs.iter().map(|i| state_topic(i));
    let outputs = || settings.outputs().map(str::to_owned).into_iter();
    let inputs = || settings.inputs.iter().cloned();
    let one = |topic: &String| Resource::Topics(vec![topic.clone()]);
    let grant = |role, operations, on| Grant { role, operations, on };
    let made = outputs().chain(states()).chain([settings.pins.clone(), settings.pins_audit.clone()]);
    vec![
        grant(Role::Service, READ, Resource::Topics(inputs().chain(states()).collect())),
        grant(Role::Service, OUTPUT, Resource::Topics(outputs().chain(states()).collect())),
        grant(Role::Service, READ, Resource::Group(settings.group.clone())),
        grant(Role::Service, WRITE, Resource::TransactionalIds(format!("{}-", settings.group))),
        grant(Role::Service, READ, one(&settings.pins)),
        grant(Role::Service, VERIFY, Resource::Topics(vec![settings.pins.clone(), settings.pins_audit.clone()])),
        grant(Role::Canary, WRITE, Resource::Topics(inputs().collect())),
        grant(Role::Canary, READ, one(&settings.verdicts)),
        grant(Role::Gate, READ, one(&settings.verdicts)),
        grant(Role::Host, READ, one(&settings.redacted)),
        grant(Role::Reviewer, READ, Resource::Topics(vec![settings.pins.clone(), settings.sightings.clone()])),
        grant(Role::Reviewer, WRITE, Resource::Topics(vec![settings.pins.clone(), settings.pins_audit.clone()])),
        grant(Role::Producer, WRITE, Resource::Topics(inputs().collect())),
        grant(Role::Admin, MAKE, Resource::Topics(made.collect())),
        grant(Role::Admin, &["Describe"], Resource::Topics(inputs().collect())),
    ]
}

impl Grant {
    fn on(&self) -> String {
        match &self.on {
            Resource::Topics(names) if names.len() == 1 => format!("topic {}", names.concat()),
            Resource::Topics(names) => format!("topics {}", names.join(", ")),
            Resource::Group(name) => format!("group {name}"),
            Resource::TransactionalIds(prefix) => format!("transactional ids that begin with {prefix}"),
        }
    }

    /// The command that gives it, with Kafka's own tool.
    fn command(&self) -> String {
        let mut out = format!(
            "kafka-acls.sh --bootstrap-server \"$BOOTSTRAP\" --command-config \"$ADMIN\" \\\n  --add --allow-principal User:sluicegate-{}",
            self.role.principal()
        );
        for operation in self.operations {
            let _ = write!(out, " --operation {operation}");
        }
        out.push_str(" \\\n ");
        match &self.on {
            Resource::Topics(names) => names.iter().for_each(|name| {
                let _ = write!(out, " --topic {name}");
            }),
            Resource::Group(name) => {
                let _ = write!(out, " --group {name}");
            }
            Resource::TransactionalIds(prefix) => {
                let _ = write!(out, " --transactional-id {prefix} --resource-pattern-type prefixed");
            }
        }
        out
    }
}

/// One line for each, as `topics plan` prints them.
pub fn listed(settings: &Settings) -> String {
    let mut out = String::from("permissions\n");
    for grant in grants(settings) {
        let _ = writeln!(out, "{:<9} {} on {}", grant.role.name(), grant.operations.join(", "), grant.on());
    }
    out
}

/// `deploy/acls.md`.
pub fn page() -> String {
    let settings = Settings::new("", "sluicegate", &["agent.events"]);
    let all = grants(&settings);
    let mut out = String::from(
        "# Permissions\n\nMade from the table that `sluicegate topics plan` prints; do not edit. The names are those of a \
         configuration with one input, `agent.events`, and defaults elsewhere; for yours, run `topics plan`. Each role is a \
         principal of its own: what one lacks, a stolen credential lacks too. Above all, agents must not be able to write \
         verdicts, redacted records, state or pins, and nobody but the service writes what a gate believes.\n\n\
         Whoever reads dead letters reads what could not be judged, secrets included: no role has it by default.\n\n\
         | role | who | may | on |\n|---|---|---|---|\n",
    );
    for grant in &all {
        let (role, may) = (grant.role, grant.operations.join(", "));
        let _ = writeln!(out, "| {} | {} | {may} | {} |", role.name(), role.about(), grant.on());
    }
    out.push_str(
        "\nThe permission on transactional ids is the one that is forgotten most: without it the producer cannot begin a \
         transaction. `Read` and `Write` imply `Describe` in Kafka's own authorizer; it is named for others. Without \
         `DescribeConfigs` the service runs, and cannot hold its limits against those of the topics. `topics verify`, which \
         `helm test` runs as the service, looks at every topic: hence `Describe` on the audit of pins. A client built on \
         librdkafka asks for its group's coordinator even if it only assigns partitions, as a gate does: it is told \
         `GroupAuthorizationFailed`, which it can ignore.\n\n\
         ## With Kafka's tool\n\n`BOOTSTRAP` is a broker, `ADMIN` a properties file of somebody who may alter ACLs. \
         Principals are named `sluicegate-<role>`: use yours.\n",
    );
    for role in Role::ALL {
        let commands: Vec<String> = all.iter().filter(|g| g.role == role).map(Grant::command).collect();
        let _ = write!(out, "\n### {}\n\n```sh\n{}\n```\n", role.name(), commands.join("\n"));
    }
    out
}
