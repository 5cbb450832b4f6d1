//! The alerts: when they fire, and a case each in which they fire and in which they do not.

mod policy;

use sluicegate::runtime::telemetry::table as m;

use super::case::{Case, raw, sample};
use super::expr::{Expr, rule, up};
use super::slo;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Somebody gets up.
    Page,
    /// Somebody looks on the next working day.
    Ticket,
    Info,
}

impl Severity {
    pub fn name(self) -> &'static str {
        match self {
            Severity::Page => "page",
            Severity::Ticket => "ticket",
            Severity::Info => "info",
        }
    }
}

pub struct Alert {
    /// Without `Sluicegate`.
    pub name: &'static str,
    pub hold: &'static str,
    pub severity: Severity,
    pub summary: &'static str,
    pub expr: Expr,
    pub fires: Case,
    pub silent: Case,
}

pub fn full(name: &str) -> String {
    format!("Sluicegate{name}")
}

const SECOND: &[(&str, &str)] = &[("instance", "b:9464")];
const TOPIC: (&str, &str) = ("topic", "agent.events");
const FLEET: (&str, &str) = ("fleet", "support");
const ANTHROPIC: (&str, &str) = ("provider", "anthropic.messages");

/// In the order of the groups of the rules file.
pub fn groups() -> Vec<(&'static str, Vec<Alert>)> {
    vec![
        ("sluicegate-objective", objective()),
        ("sluicegate-instances", instances()),
        ("sluicegate-pipeline", pipeline()),
        ("sluicegate-enforcement", policy::enforcement()),
        ("sluicegate-configuration", policy::configuration()),
    ]
}

/// Results, of which so many a minute come, and so many in time.
fn results(all: &str, in_time: &str) -> Vec<(String, String)> {
    let latency = &m::end_to_end_latency;
    vec![
        sample(latency, "_count", &[("lane", "result")], all),
        sample(latency, "_bucket", &[("lane", "result"), ("le", "1")], in_time),
    ]
}

fn objective() -> Vec<Alert> {
    let late = |name, hold, severity, summary, expr, fires, silent| Alert {
        name,
        hold,
        severity,
        summary,
        expr,
        fires,
        silent,
    };
    vec![
        late(
            "FreshnessBurnFast",
            "2m",
            Severity::Page,
            "Tool results wait too long for their verdicts: 2 % of the month's budget goes in an hour.",
            slo::burns(14.4, "1h", "5m"),
            Case::fires("of one result a second, 5 % are late", "90m", &[], results("0+60x120", "0+57x120")),
            Case::silent("all are late, but one comes in 20 seconds", "90m", results("0+3x120", "0+0x120")),
        ),
        late(
            "FreshnessBurnSlow",
            "15m",
            Severity::Page,
            "Tool results wait too long for their verdicts: 5 % of the month's budget goes in six hours.",
            slo::burns(6.0, "6h", "30m"),
            Case::fires("0.8 % are late for hours", "8h", &[], results("0+1000x500", "0+992x500")),
            Case::silent(
                "1 % was late for hours, and is not any more",
                "10h",
                results("0+1000x620", "0+990x420 416800+1000x199"),
            ),
        ),
        late(
            "FreshnessBurnTicket",
            "1h",
            Severity::Ticket,
            "Tool results wait too long for their verdicts: the objective of the month will be missed.",
            slo::burns(1.0, "3d", "6h"),
            Case::fires("0.2 % are late all day", "8h", &[], results("0+1000x500", "0+998x500")),
            Case::silent("a bad hour, and seven good ones", "8h", results("0+1000x500", "0+900x60 55000+1000x439")),
        ),
        late(
            "VerdictsLate",
            "5m",
            Severity::Page,
            "{{ $labels.topic }}: records have waited for over a minute. What is not judged is in no latency.",
            rule(&m::consumer_lag_seconds).now().max(&["job", "topic"]).above(60.0),
            Case::fires(
                "a partition is 90 s behind",
                "20m",
                &[TOPIC],
                vec![sample(&m::consumer_lag_seconds, "", &[TOPIC], "90x30")],
            ),
            Case::silent(
                "a partition is 30 s behind",
                "20m",
                vec![sample(&m::consumer_lag_seconds, "", &[TOPIC], "30x30")],
            ),
        ),
    ]
}

fn instances() -> Vec<Alert> {
    let build: &[(&str, &str)] = &[("version", "0.1.0"), ("revision", "r"), ("librdkafka", "2")];
    let build = |values| sample(&m::build_info, "", build, values);
    let target = [("instance", "a:9464"), ("job", "sluicegate")];
    let health = |values| vec![sample(&m::health, "", &[("check", "group")], values)];
    let own = rule(&m::build_info).over("last_over_time", "1h");
    let paused = |values| vec![sample(&m::partitions_paused, "", &[("reason", "restore")], values)];
    let gauge = |metric, values| vec![sample(metric, "", &[], values)];
    let assigns = |values| vec![sample(&m::rebalances, "", &[("event", "assign")], values)];
    let revokes = |values| vec![sample(&m::rebalances, "", &[("event", "revoke")], values)];
    let a = ("instance", "a:9464");
    vec![
        Alert {
            name: "InstanceDown",
            hold: "5m",
            severity: Severity::Page,
            summary: "{{ $labels.instance }} cannot be scraped.",
            expr: up().equals(0.0).where_on(&["job", "instance"], own),
            fires: Case::fires(
                "a target that served our metrics",
                "20m",
                &[a],
                vec![raw("up", &target, "1x10 0x20"), build("1x10 _x20")],
            ),
            silent: Case::silent(
                "somebody else's target",
                "20m",
                vec![raw("up", &[("instance", "x:1"), ("job", "x")], "0x30"), build("1x30")],
            ),
        },
        Alert {
            name: "NoInstance",
            hold: "5m",
            severity: Severity::Page,
            summary: "No instance of Sluicegate is seen: nothing is judged.",
            expr: rule(&m::build_info).now().absent(),
            fires: Case::bare("all went", "30m", vec![build("1x10 _x30")]),
            silent: Case::silent("one is left", "30m", vec![build("1x40")]),
        },
        Alert {
            name: "NotReady",
            hold: "10m",
            severity: Severity::Ticket,
            summary: "{{ $labels.instance }} fails its check {{ $labels.check }}.",
            expr: rule(&m::health).now().min(&["job", "instance", "check"]).equals(0.0),
            fires: Case::fires("it is in no group", "20m", &[a, ("check", "group")], health("0x30")),
            silent: Case::silent("it comes and goes", "20m", health("1 0 0 0 1 0 0 0 1 0 0 0 1 0 0 0 1 0 0 0 1 0 0")),
        },
        Alert {
            name: "BrokersUnreachable",
            hold: "2m",
            severity: Severity::Page,
            summary: "{{ $labels.instance }} is connected to no broker.",
            expr: rule(&m::connected_brokers).now().min(&["job", "instance"]).below(1.0),
            fires: Case::fires("no broker is left", "20m", &[a], gauge(&m::connected_brokers, "3x10 0x10")),
            silent: Case::silent("one of three is left", "20m", gauge(&m::connected_brokers, "3x10 1x10")),
        },
        Alert {
            name: "PollStuck",
            hold: "2m",
            severity: Severity::Page,
            summary: "A worker of {{ $labels.instance }} does not go on.",
            expr: rule(&m::poll_age).now().max(&["job", "instance"]).above(60.0),
            fires: Case::fires("its loop stands", "20m", &[a], gauge(&m::poll_age, "0x10 60+60x10")),
            silent: Case::silent("its loop is slow", "20m", gauge(&m::poll_age, "20x30")),
        },
        Alert {
            name: "RestartLoop",
            hold: "0m",
            severity: Severity::Ticket,
            summary: "{{ $labels.instance }} was started again and again in half an hour.",
            expr: rule(&m::rebalances).resets("30m").max(&["job", "instance"]).above(2.0),
            fires: Case::fires("it joins, and is gone", "30m", &[a], assigns("1x4 0 1x4 0 1x4 0 1x4 0 1x4 0 1x4 0")),
            silent: Case::silent("one restart", "30m", assigns("5x10 1x30")),
        },
        Alert {
            name: "RebalanceStorm",
            hold: "0m",
            severity: Severity::Ticket,
            summary: "{{ $labels.instance }} loses its partitions again and again.",
            expr: rule(&m::rebalances).is("event", "revoke").increase("30m").sum(&["job", "instance"]).above(6.0),
            fires: Case::fires(
                "every three minutes",
                "40m",
                &[a],
                revokes("0 0 0 1 1 1 2 2 2 3 3 3 4 4 4 5 5 5 6 6 6 7 7 7 8 8 8 9 9 9 10 10 10 11 11 11 12 12 12 13 13"),
            ),
            silent: Case::silent("a rollout of three", "40m", revokes("0x10 1x5 2x5 3x30")),
        },
        Alert {
            name: "RestoreSlow",
            hold: "10m",
            severity: Severity::Page,
            summary: "{{ $labels.instance }} has been restoring state for ten minutes: those partitions are not judged.",
            expr: rule(&m::partitions_paused).is("reason", "restore").now().max(&["job", "instance"]).above(0.0),
            fires: Case::fires("it does not end", "20m", &[a], paused("2x30")),
            silent: Case::silent("it ends", "20m", paused("2x8 0x30")),
        },
    ]
}

fn pipeline() -> Vec<Alert> {
    let a = ("instance", "a:9464");
    let lag = |partition, more: &[(&str, &str)], values| {
        sample(&m::consumer_lag_records, "", &[&[TOPIC, ("partition", partition)], more].concat(), values)
    };
    let by = &["job", "topic"];
    let waiting = || rule(&m::consumer_lag_records).now();
    let owned = |more: &[(&str, &str)], values| sample(&m::assigned_partitions, "", &[&[TOPIC], more].concat(), values);
    let exist = |values| sample(&m::topic_partitions, "", &[TOPIC], values);
    let stalled = |values| vec![sample(&m::stalled_partitions, "", &[TOPIC], values)];
    let paused = |reason, values| vec![sample(&m::partitions_paused, "", &[("reason", reason)], values)];
    let open = |values| vec![sample(&m::transaction_open, "", &[], values)];
    let ended = |outcome, values| sample(&m::transactions, "", &[("outcome", outcome)], values);
    let rebuilds = |values| vec![sample(&m::producer_rebuilds, "", &[("reason", "timeout")], values)];
    let letters = |values| sample(&m::dlq_records, "", &[("stage", "decode"), ("reason", "invalid_json")], values);
    let consumed = |values| sample(&m::records_consumed, "", &[TOPIC], values);
    let evicted = |reason, values| vec![sample(&m::state_evictions, "", &[("reason", reason)], values)];
    vec![
        Alert {
            name: "PartitionsUnowned",
            hold: "5m",
            severity: Severity::Page,
            summary: "{{ $labels.topic }}: partitions have no owner; nothing in them is judged.",
            expr: rule(&m::assigned_partitions).now().sum(by).below_of(rule(&m::topic_partitions).now().max(by)),
            fires: Case::fires(
                "the second instance went, and nobody took its partitions",
                "30m",
                &[TOPIC],
                vec![owned(&[], "2x40"), owned(SECOND, "2x10 _x30"), exist("4x40")],
            ),
            silent: Case::silent(
                "the first took them, and later two that are new",
                "40m",
                vec![owned(&[], "2x10 4x8 6x40"), owned(SECOND, "2x10 _x50"), exist("4x16 6x40")],
            ),
        },
        Alert {
            name: "Stalled",
            hold: "2m",
            severity: Severity::Page,
            summary: "{{ $labels.instance }} does not go on in partitions of {{ $labels.topic }}, where records wait.",
            expr: rule(&m::stalled_partitions).now().max(&["job", "instance", "topic"]).above(0.0),
            fires: Case::fires("one of many stands", "20m", &[a, TOPIC], stalled("0x5 1x30")),
            silent: Case::silent("all stood for a minute", "7m", stalled("0x5 4x1 0x30")),
        },
        Alert {
            name: "LagGrowing",
            hold: "15m",
            severity: Severity::Ticket,
            summary: "{{ $labels.topic }}: ever more records wait.",
            expr: waiting()
                .sum(by)
                .above(5000.0)
                .and(rule(&m::consumer_lag_records).over("deriv", "15m").sum(by).above(0.0)),
            fires: Case::fires("a thousand more each minute", "45m", &[TOPIC], vec![lag("0", &[], "0+1000x60")]),
            silent: Case::silent("many wait, and they become fewer", "45m", vec![lag("0", &[], "90000-1000x60")]),
        },
        Alert {
            name: "OutputsTooNarrow",
            hold: "5m",
            severity: Severity::Page,
            summary: "{{ $labels.instance }} does not read partitions that its output topics do not have.",
            expr: rule(&m::partitions_paused)
                .is("reason", "output_partitions")
                .now()
                .max(&["job", "instance"])
                .above(0.0),
            fires: Case::fires("the input was widened", "20m", &[a], paused("output_partitions", "2x30")),
            silent: Case::silent("state is restored", "20m", paused("restore", "2x30")),
        },
        Alert {
            name: "TransactionOpenTooLong",
            hold: "1m",
            severity: Severity::Page,
            summary: "An open transaction of {{ $labels.instance }} holds back every reader of the output topics.",
            expr: rule(&m::transaction_open).now().max(&["job", "instance"]).above(10.0),
            fires: Case::fires("it does not end", "20m", &[a], open("0x10 20+60x10")),
            silent: Case::silent("it takes two seconds", "20m", open("2x30")),
        },
        Alert {
            name: "TransactionAborts",
            hold: "10m",
            severity: Severity::Ticket,
            summary: "Over 5 % of transactions do not commit.",
            expr: {
                let all = || rule(&m::transactions);
                all()
                    .not("outcome", "committed")
                    .rate("10m")
                    .sum(&["job"])
                    .per(all().rate("10m").sum(&["job"]))
                    .above(0.05)
            },
            fires: Case::fires(
                "one in eleven",
                "30m",
                &[],
                vec![ended("committed", "0+10x40"), ended("aborted", "0+1x40")],
            ),
            silent: Case::silent(
                "one in a hundred and one",
                "30m",
                vec![ended("committed", "0+100x40"), ended("aborted", "0+1x40")],
            ),
        },
        Alert {
            name: "ProducerRebuilds",
            hold: "0m",
            severity: Severity::Ticket,
            summary: "Producers are rebuilt again and again: {{ $labels.reason }}.",
            expr: rule(&m::producer_rebuilds).increase("15m").sum(&["job", "reason"]).above(5.0),
            fires: Case::fires("one a minute", "30m", &[("reason", "timeout")], rebuilds("0+1x40")),
            silent: Case::silent("two in a quarter of an hour", "30m", rebuilds("0x20 1x5 2x15")),
        },
        Alert {
            name: "DeadLetters",
            hold: "15m",
            severity: Severity::Ticket,
            summary: "Over 0.1 % of records go to the dead-letter topic.",
            expr: rule(&m::dlq_records)
                .rate("15m")
                .sum(&["job"])
                .per(rule(&m::records_consumed).rate("15m").sum(&["job"]))
                .above(0.001),
            fires: Case::fires("one in a hundred", "45m", &[], vec![letters("0+1x60"), consumed("0+100x60")]),
            silent: Case::silent("one in ten thousand", "45m", vec![letters("0+1x60"), consumed("0+10000x60")]),
        },
        Alert {
            name: "StateFull",
            hold: "0m",
            severity: Severity::Ticket,
            summary: "Conversations are dropped because a partition's state is full; what comes next in them is judged without their beginning.",
            expr: rule(&m::state_evictions).is("reason", "size").counted("15m", &["job"]),
            fires: Case::fires("the first one", "30m", &[], evicted("size", "_x20 1x20")),
            silent: Case::silent("idle ones are dropped", "30m", evicted("ttl", "0+10x40")),
        },
    ]
}
