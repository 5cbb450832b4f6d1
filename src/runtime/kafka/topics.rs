//! What the cluster must look like before the first record is read, and how to make it so.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::types::RDKafkaRespErr;

use super::source::client_error;
use super::{Quiet, is_denied, is_transport};
use crate::engine::pins::record::SIGHTING_BYTES;
use crate::runtime::environment::EnvironmentError;
use crate::runtime::settings::{Settings, state_topic};

const ASK: Duration = Duration::from_secs(5);
/// Room for a record's own framing within `max.message.bytes`.
const FRAMING: usize = 1024;

/// Partition counts of the topics that exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cluster {
    pub id: String,
    pub brokers: usize,
    pub topics: BTreeMap<String, i32>,
}

/// What `topics apply` would do to one topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicPlan {
    pub name: String,
    pub action: Action,
    /// Settings a new topic gets.
    pub configs: Vec<(&'static str, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Nothing,
    Create {
        partitions: i32,
    },
    /// More partitions for an output. A state topic may not grow on its own: its input decides.
    Grow {
        from: i32,
        to: i32,
    },
    /// How it should be is not known before the inputs are there.
    Waits,
    /// Inputs belong to the fleets: they are not created.
    MissingInput,
}

/// Asks for the cluster until it answers, at most `startup_timeout`.
pub fn inspect(settings: &Settings) -> Result<Cluster, EnvironmentError> {
    let consumer: BaseConsumer<Errors> =
        super::client(settings).create_with_context(Errors::default()).map_err(|e| client_error(&e))?;
    let until = Instant::now() + settings.startup_timeout;
    loop {
        // Without polling the reason of a failed connection is never reported.
        let _ = consumer.poll(Duration::ZERO);
        let left = until.saturating_duration_since(Instant::now());
        match consumer.fetch_metadata(None, ASK.min(left.max(Duration::from_millis(100)))) {
            Ok(metadata) => {
                let topics = metadata
                    .topics()
                    .iter()
                    .filter(|t| t.error().is_none_or(|e| e != RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART));
                return Ok(Cluster {
                    id: consumer.client().fetch_cluster_id(ASK).unwrap_or_default(),
                    brokers: metadata.brokers().len(),
                    topics: topics
                        .map(|t| (t.name().to_owned(), i32::try_from(t.partitions().len()).unwrap_or(i32::MAX)))
                        .collect(),
                });
            }
            Err(error) => {
                let _ = consumer.poll(Duration::from_millis(100));
                let seen = consumer.context().last();
                tracing::warn!(event = "kafka.waiting", bootstrap = settings.bootstrap, error = %error, reason = seen.as_deref().unwrap_or(""));
                if Instant::now() >= until {
                    return Err(unreachable(settings, &error, seen, consumer.context().denied()));
                }
                std::thread::sleep(Duration::from_millis(200).min(left));
            }
        }
    }
}

/// Refuses what cannot work, and says what cannot work yet: the inputs whose outputs have too few partitions.
pub fn check(settings: &Settings) -> Result<Cluster, EnvironmentError> {
    let cluster = inspect(settings)?;
    require(settings, &cluster)?;
    if !settings.durable {
        return Ok(cluster);
    }
    let limits = message_limits(settings)?;
    let needs = settings.inputs.iter().map(|i| (state_topic(i), settings.sizes.entry, "a state entry")).chain([
        (settings.verdicts.clone(), settings.sizes.verdict, "a verdict (engine.limits.verdict_bytes)"),
        (settings.sightings.clone(), SIGHTING_BYTES, "a definition of a tool"),
    ]);
    for (topic, bytes, what) in needs {
        let Some(&limit) = limits.get(&topic) else {
            continue;
        };
        if limit < bytes + FRAMING {
            let lower = if topic == settings.verdicts { ", or lower engine.limits.verdict_bytes" } else { "" };
            return Err(EnvironmentError::new(
                "topic_limit",
                format!("topic {topic} allows {limit} bytes a record, which cannot hold {what} of {bytes} bytes"),
                format!("set max.message.bytes of {topic} to at least {}{lower}", bytes + FRAMING),
            ));
        }
    }
    Ok(cluster)
}

/// All topics that are not there, at once.
fn require(settings: &Settings, cluster: &Cluster) -> Result<(), EnvironmentError> {
    let absent = |name: &String| !cluster.topics.contains_key(name);
    let inputs = settings.inputs.iter().filter(|n| absent(n)).map(|n| format!("input topic {n} does not exist"));
    let states = settings.inputs.iter().filter(|_| settings.durable).map(|i| state_topic(i));
    let pins = settings.durable.then(|| settings.pins.clone());
    let ours = settings.outputs().map(str::to_owned).into_iter().chain(states).chain(pins).filter(absent);
    let mut missing: Vec<String> = inputs.collect();
    let repair = match missing.is_empty() {
        true => "run `sluicegate topics apply`, or grant Describe",
        false => {
            "create what is an input as its producers need it, or grant Describe; then run `sluicegate topics apply`"
        }
    };
    missing.extend(ours.map(|n| format!("topic {n} does not exist")));
    if missing.is_empty() {
        return Ok(());
    }
    let what = format!("{}, or this principal may not see it", missing.join(", "));
    Err(EnvironmentError::new("topic_missing", what, repair))
}

/// `max.message.bytes` of the topics that we write; those that may not be described are left out.
pub fn message_limits(settings: &Settings) -> Result<BTreeMap<String, usize>, EnvironmentError> {
    let admin = admin(settings)?;
    let names: Vec<String> = settings
        .outputs()
        .map(str::to_owned)
        .into_iter()
        .chain(settings.inputs.iter().map(|i| state_topic(i)))
        .collect();
    let asked: Vec<_> = names.iter().map(|n| ResourceSpecifier::Topic(n)).collect();
    let options = AdminOptions::new().request_timeout(Some(ASK * 2));
    let until = Instant::now() + settings.startup_timeout;
    let answers = loop {
        match wait(async { admin.describe_configs(&asked, &options).await })? {
            Ok(answers) => break answers,
            // Brokers that come back answer this later than they answer for the cluster.
            Err(error @ KafkaError::AdminOp(code)) if is_transport(code) && Instant::now() < until => {
                tracing::warn!(event = "kafka.waiting", bootstrap = settings.bootstrap, error = %error, reason = "");
                std::thread::sleep(Duration::from_millis(200));
            }
            Err(error) => return Err(admin_error("describe the configuration of the topics", &error)),
        }
    };
    let mut limits = BTreeMap::new();
    for (name, answer) in names.iter().zip(answers) {
        match answer {
            Ok(resource) => {
                let value = resource.get("max.message.bytes").and_then(|e| e.value.as_deref()?.parse().ok());
                limits.extend(value.map(|bytes| (name.clone(), bytes)));
            }
            Err(code) => {
                tracing::warn!(event = "kafka.no_describe_configs", topic = name.as_str(), error = %code)
            }
        }
    }
    Ok(limits)
}

/// What is missing, in the order in which it would be made.
pub fn plan(settings: &Settings, cluster: &Cluster) -> Vec<TopicPlan> {
    let widest = settings.inputs.iter().filter_map(|i| cluster.topics.get(i)).copied().max().unwrap_or(0);
    let mut plans = Vec::new();
    for input in &settings.inputs {
        let Some(&partitions) = cluster.topics.get(input) else {
            plans.push(TopicPlan { name: input.clone(), action: Action::MissingInput, configs: Vec::new() });
            continue;
        };
        let configs = vec![
            ("cleanup.policy", "compact".to_owned()),
            ("min.cleanable.dirty.ratio", "0.1".to_owned()),
            ("segment.ms", "3600000".to_owned()),
            ("max.compaction.lag.ms", "21600000".to_owned()),
            ("delete.retention.ms", "86400000".to_owned()),
        ];
        plans.push(planned(cluster, state_topic(input), partitions, configs));
    }
    let day = 86_400_000_u64;
    let outputs = [(&settings.verdicts, 30), (&settings.redacted, 7), (&settings.deadletters, 14)];
    for (name, days) in outputs {
        let mut configs = vec![("cleanup.policy", "delete".to_owned()), ("retention.ms", (days * day).to_string())];
        if name != &settings.verdicts {
            configs.push(("max.message.bytes", (settings.sizes.output + FRAMING).to_string()));
        }
        plans.push(planned(cluster, name.clone(), widest, configs));
    }
    let compacted = || vec![("cleanup.policy", "compact".to_owned()), ("min.cleanable.dirty.ratio", "0.1".to_owned())];
    plans.push(planned(cluster, settings.sightings.clone(), widest, compacted()));
    // One partition, so that decisions have one order, and an offset tells which of them hold.
    plans.push(planned(cluster, settings.pins.clone(), widest.min(1), compacted()));
    let audit = vec![("cleanup.policy", "delete".to_owned()), ("retention.ms", "-1".to_owned())];
    plans.push(planned(cluster, settings.pins_audit.clone(), widest.min(1), audit));
    plans
}

fn planned(cluster: &Cluster, name: String, partitions: i32, configs: Vec<(&'static str, String)>) -> TopicPlan {
    let action = match cluster.topics.get(&name) {
        _ if partitions == 0 => Action::Waits,
        None => Action::Create { partitions },
        Some(&from) if from < partitions => Action::Grow { from, to: partitions },
        Some(_) => Action::Nothing,
    };
    TopicPlan { name, action, configs }
}

/// Carries out a plan; `replication` -1 takes the broker's default.
pub fn apply(settings: &Settings, plans: &[TopicPlan], replication: i32) -> Result<(), EnvironmentError> {
    let admin = admin(settings)?;
    let options = AdminOptions::new().request_timeout(Some(ASK * 2)).operation_timeout(Some(ASK * 2));
    for plan in plans {
        let results = match plan.action {
            Action::Nothing | Action::Waits | Action::MissingInput => continue,
            Action::Create { partitions } => {
                let mut topic = NewTopic::new(&plan.name, partitions, TopicReplication::Fixed(replication));
                for (key, value) in &plan.configs {
                    topic = topic.set(key, value);
                }
                wait(async { admin.create_topics([&topic], &options).await })?
            }
            Action::Grow { to, .. } => {
                let wider = NewPartitions::new(&plan.name, usize::try_from(to).unwrap_or(0));
                wait(async { admin.create_partitions([&wider], &options).await })?
            }
        };
        let results = results.map_err(|e| admin_error(&format!("change topic {}", plan.name), &e))?;
        for result in results {
            match result {
                Ok(_) | Err((_, Code::TopicAlreadyExists)) => {
                    tracing::info!(event = "topics.applied", topic = plan.name.as_str());
                }
                Err((name, code)) => {
                    return Err(EnvironmentError::new(
                        "topic_refused",
                        format!("the broker refused to create or widen topic {name}: {code}"),
                        "check the ACLs of this principal (Create, Alter on the topic) and the replication factor",
                    ));
                }
            }
        }
    }
    settled(settings, plans)
}

/// A created topic takes a moment until every broker knows it; a run started right behind must find it.
fn settled(settings: &Settings, plans: &[TopicPlan]) -> Result<(), EnvironmentError> {
    let until = Instant::now() + settings.startup_timeout;
    loop {
        let cluster = inspect(settings)?;
        let missing = plans.iter().find(|plan| match plan.action {
            Action::Nothing | Action::Waits | Action::MissingInput => false,
            Action::Create { partitions: wanted } | Action::Grow { to: wanted, .. } => {
                cluster.topics.get(&plan.name).is_none_or(|&found| found < wanted)
            }
        });
        match missing {
            None => return Ok(()),
            Some(plan) if Instant::now() >= until => {
                return Err(EnvironmentError::new(
                    "topic_refused",
                    format!("topic {} was created, but the brokers do not show it", plan.name),
                    "check the brokers' controller log, then run `sluicegate topics apply` again",
                ));
            }
            Some(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

fn admin(settings: &Settings) -> Result<AdminClient<Quiet>, EnvironmentError> {
    super::client(settings).create_with_context(Quiet).map_err(|e| client_error(&e))
}

/// The admin calls have only an async form; they end by their own request timeout.
fn wait<T>(call: impl Future<Output = T>) -> Result<T, EnvironmentError> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().map_err(|e| {
        EnvironmentError::new("runtime", format!("no thread runtime could be made: {e}"), "check the process limits")
    })?;
    Ok(runtime.block_on(call))
}

fn admin_error(what: &str, error: &KafkaError) -> EnvironmentError {
    EnvironmentError::new(
        "kafka_admin",
        format!("could not {what}: {error}"),
        "check that the broker is up and that this principal may Describe and DescribeConfigs the topics",
    )
}

fn unreachable(settings: &Settings, error: &KafkaError, seen: Option<String>, denied: bool) -> EnvironmentError {
    let why = seen.unwrap_or_else(|| error.to_string());
    if denied {
        let mechanism = settings.properties.get("sasl.mechanism").or(settings.properties.get("sasl.mechanisms"));
        return EnvironmentError::new(
            "kafka_denied",
            format!(
                "{} refused the login (mechanism {}): {why}",
                settings.bootstrap,
                mechanism.map_or("none", String::as_str)
            ),
            "check kafka.security_protocol, kafka.sasl.mechanism, kafka.sasl.username and kafka.sasl.password_file; for a \
             certificate kafka.ca_file",
        );
    }
    EnvironmentError::new(
        "kafka_unreachable",
        format!(
            "no broker of {} answered within {} s: {why}",
            settings.bootstrap,
            settings.startup_timeout.as_secs_f32()
        ),
        "check kafka.bootstrap_servers, the network, kafka.security_protocol, and for TLS kafka.ca_file",
    )
}

/// Remembers the last reason a connection failed for.
#[derive(Clone, Default)]
struct Errors(Arc<std::sync::Mutex<Option<(Code, String)>>>);

impl Errors {
    fn last(&self) -> Option<String> {
        self.0.lock().ok()?.as_ref().map(|(_, why)| why.clone())
    }
    fn denied(&self) -> bool {
        self.0.lock().is_ok_and(|seen| seen.as_ref().is_some_and(|(code, _)| is_denied(*code)))
    }
}

impl rdkafka::ClientContext for Errors {
    fn log(&self, level: rdkafka::config::RDKafkaLogLevel, facility: &str, text: &str) {
        super::log(level, facility, text);
    }
    fn error(&self, error: KafkaError, reason: &str) {
        if let (Ok(mut seen), Some(code)) = (self.0.lock(), error.rdkafka_error_code())
            && (code != Code::AllBrokersDown || seen.is_none())
        {
            *seen = Some((code, reason.to_owned()));
        }
    }
    fn stats_raw(&self, _statistics: &[u8]) {}
}

impl rdkafka::consumer::ConsumerContext for Errors {}
