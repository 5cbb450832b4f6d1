//! Alerts on what is enforced, what hosts do about it, and by which configuration.

use sluicegate::runtime::telemetry::{Metric, table as m};

use super::super::case::{Case, sample};
use super::super::expr::{Expr, rule};
use super::{ANTHROPIC, Alert, FLEET, SECOND, Severity};

/// A share of a fleet's verdicts.
fn share(of: Expr, window: &str) -> Expr {
    of.per(rule(&m::verdicts).rate(window).sum(&["job", "fleet"]))
}

pub fn enforcement() -> Vec<Alert> {
    let by = &["job", "fleet"];
    let verdicts = |decision, action, values| {
        sample(&m::verdicts, "", &[FLEET, ANTHROPIC, ("decision", decision), ("action", action)], values)
    };
    let allowed = |values| verdicts("allow", "allow", values);
    let blocked = || rule(&m::verdicts).is("decision", "block");
    let bypass = |kind, values| vec![sample(&m::bypasses, "", &[FLEET, ("kind", kind)], values)];
    let changes = |values| vec![sample(&m::tool_description_changes, "", &[FLEET], values)];
    let oversize = |values| sample(&m::oversize_results, "", &[FLEET, ANTHROPIC, ("action", "redact")], values);
    let by_engine = |values| sample(&m::blocks, "", &[FLEET, ("policy", "SG00")], values);
    let ended = |outcome, values| sample(&m::assemblies, "", &[ANTHROPIC, ("outcome", outcome)], values);
    let undecodable = |values| vec![sample(&m::undecodable, "", &[ANTHROPIC], values)];
    let against = ("kind", "started_despite_block");
    let lost = "transport_closed|expired|orphan|undecodable|gap";
    let streams = |window| rule(&m::assemblies).rate(window).sum(&["job", "provider"]);
    vec![
        Alert {
            name: "Bypassed",
            hold: "0m",
            severity: Severity::Page,
            summary: "A host of {{ $labels.fleet }} acted against a verdict: {{ $labels.kind }}.",
            expr: rule(&m::bypasses).not("kind", "started_before_verdict").counted("15m", &["job", "fleet", "kind"]),
            fires: Case::fires("the first one ever", "30m", &[FLEET, against], bypass(against.1, "_x20 1x20")),
            silent: Case::silent("one, long ago", "60m", bypass(against.1, "_x20 1x60")),
        },
        Alert {
            name: "HostDoesNotWait",
            hold: "15m",
            severity: Severity::Ticket,
            summary: "Hosts of {{ $labels.fleet }} start calls before their verdicts.",
            expr: rule(&m::bypasses).is("kind", "started_before_verdict").increase("30m").sum(by).above(10.0),
            fires: Case::fires("one a minute", "60m", &[FLEET], bypass("started_before_verdict", "0+1x70")),
            silent: Case::silent("two", "60m", bypass("started_before_verdict", "0x30 2x40")),
        },
        Alert {
            name: "BlocksSurge",
            hold: "15m",
            severity: Severity::Ticket,
            summary: "{{ $labels.fleet }} is blocked three times as often as yesterday.",
            expr: share(blocked().rate("30m").sum(by), "30m")
                .above(0.05)
                .and(blocked().rate("30m").sum(by).above_times(3.0, blocked().rate_ago("30m", "1d").sum(by))),
            fires: Case::fires(
                "twenty times as many",
                "25h",
                &[FLEET],
                vec![allowed("0+100x1600"), verdicts("block", "block", "0+1x1440 1460+20x159")],
            ),
            silent: Case::silent(
                "always as many",
                "25h",
                vec![allowed("0+100x1600"), verdicts("block", "block", "0+20x1600")],
            ),
        },
        Alert {
            name: "BlockedUnjudged",
            hold: "10m",
            severity: Severity::Page,
            summary: "Over 1 % of the verdicts of {{ $labels.fleet }} block what could not be judged.",
            expr: share(rule(&m::blocks).is("policy", "SG00").rate("10m").sum(by), "10m").above(0.01),
            fires: Case::fires("two in a hundred", "30m", &[FLEET], vec![by_engine("0+2x40"), allowed("0+100x40")]),
            silent: Case::silent("one in a thousand", "30m", vec![by_engine("0+1x40"), allowed("0+1000x40")]),
        },
        Alert {
            name: "NotEnforced",
            hold: "1h",
            severity: Severity::Info,
            summary: "{{ $labels.fleet }}: what policies would block is let through, because they are in monitor mode.",
            expr: blocked().not("action", "block").rate("30m").sum(by).above(0.0),
            fires: Case::fires("monitor mode", "2h", &[FLEET], vec![verdicts("block", "allow", "0+1x150")]),
            silent: Case::silent("enforced", "2h", vec![verdicts("block", "block", "0+1x150")]),
        },
        Alert {
            name: "OversizeSurge",
            hold: "30m",
            severity: Severity::Ticket,
            summary: "Over 2 % of the verdicts of {{ $labels.fleet }} are about results over the byte cap.",
            expr: share(rule(&m::oversize_results).rate("30m").sum(by), "30m").above(0.02),
            fires: Case::fires("five in a hundred", "90m", &[FLEET], vec![oversize("0+5x100"), allowed("0+100x100")]),
            silent: Case::silent("one in a hundred", "90m", vec![oversize("0+1x100"), allowed("0+100x100")]),
        },
        Alert {
            name: "ToolDescriptionsChanged",
            hold: "0m",
            severity: Severity::Ticket,
            summary: "A server that {{ $labels.fleet }} uses describes its tools otherwise than what was approved.",
            expr: rule(&m::tool_description_changes).counted("1h", by),
            fires: Case::fires("the first change", "2h", &[FLEET], changes("_x100 1x60")),
            silent: Case::silent("a change in the morning", "8h", changes("_x60 1x600")),
        },
        Alert {
            name: "StreamsLost",
            hold: "30m",
            severity: Severity::Ticket,
            summary: "Over 2 % of the argument streams of {{ $labels.provider }} arrive in part.",
            expr: rule(&m::assemblies)
                .of("outcome", lost)
                .rate("30m")
                .sum(&["job", "provider"])
                .per(streams("30m"))
                .above(0.02),
            fires: Case::fires(
                "five in a hundred",
                "90m",
                &[ANTHROPIC],
                vec![ended("gap", "0+5x100"), ended("final", "0+95x100")],
            ),
            silent: Case::silent(
                "the model stops early",
                "90m",
                vec![ended("max_tokens", "0+5x100"), ended("final", "0+95x100")],
            ),
        },
        Alert {
            name: "DataNotJson",
            hold: "0m",
            severity: Severity::Ticket,
            summary: "Events of {{ $labels.provider }} hold data that is not JSON; the calls that were open are cut.",
            expr: rule(&m::undecodable).counted("15m", &["job", "provider"]),
            fires: Case::fires("the first one", "30m", &[ANTHROPIC], undecodable("_x20 1x20")),
            silent: Case::silent("one, an hour ago", "90m", undecodable("_x20 1x80")),
        },
    ]
}

pub fn configuration() -> Vec<Alert> {
    let skew = |metric: &'static Metric, label| rule(metric).now().count(&["job", label]).count(&["job"]).above(1.0);
    let policy = |digest, more: &[(&str, &str)]| {
        sample(&m::config_info, "", &[&[("policy_bundle", "b"), ("policy_sha256", digest)], more].concat(), "1x120")
    };
    let version = |number, more: &[(&str, &str)]| {
        let labels = [("version", number), ("revision", "r"), ("librdkafka", "2")];
        sample(&m::build_info, "", &[&labels, more].concat(), "1x120")
    };
    let certificate = |values| vec![sample(&m::certificate_expiry, "", &[("role", "kafka_client")], values)];
    let overflow = |values| vec![sample(&m::label_overflow, "", &[("label", "fleet")], values)];
    let canary = |result, values| sample(&m::canary_verdicts, "", &[("result", result)], values);
    let rounds = |results| rule(&m::canary_verdicts).of("result", results).increase("15m").sum(&["job"]).above(0.0);
    let glass = |values| vec![sample(&m::break_glass_active, "", &[], values)];
    let holds = |values| vec![sample(&m::config_last_reload_successful, "", &[], values)];
    vec![
        Alert {
            name: "CanaryPassed",
            hold: "0m",
            severity: Severity::Page,
            summary: "A hostile result that an instance sent to itself was let through: SG12 is off.",
            expr: rounds("passed"),
            fires: Case::fires("once", "30m", &[], vec![canary("passed", "0x20 1x20"), canary("blocked", "0+1x40")]),
            silent: Case::silent("monitor mode", "30m", vec![canary("observed", "0+1x40"), canary("passed", "0x40")]),
        },
        Alert {
            name: "CanaryMissing",
            hold: "5m",
            severity: Severity::Page,
            summary: "No verdict has come on the canary's records for a quarter of an hour: the path is broken, whatever else looks healthy.",
            expr: rounds("missing").unless(rounds("blocked|observed|passed")),
            fires: Case::fires("none comes", "40m", &[], vec![canary("missing", "0+1x50"), canary("blocked", "7x50")]),
            silent: Case::silent(
                "some come late",
                "40m",
                vec![canary("missing", "0+1x50"), canary("blocked", "0+1x50")],
            ),
        },
        Alert {
            name: "BreakGlass",
            hold: "0m",
            severity: Severity::Page,
            summary: "Enforcement is turned into monitoring everywhere, by somebody who broke the glass.",
            expr: rule(&m::break_glass_active).now().max(&["job"]).above(0.0),
            fires: Case::fires("it is broken", "20m", &[], glass("0x10 1x20")),
            silent: Case::silent("it is over", "20m", glass("1x10 0x20")),
        },
        Alert {
            name: "ReloadRejected",
            hold: "0m",
            severity: Severity::Ticket,
            summary: "{{ $labels.instance }} rejected a new configuration, and keeps the last good one.",
            expr: rule(&m::config_last_reload_successful).now().min(&["job", "instance"]).equals(0.0),
            fires: Case::fires("as long as it stays", "10h", &[("instance", "a:9464")], holds("1x20 0x600")),
            silent: Case::silent("it was mended", "30m", holds("1x5 0x5 1x30")),
        },
        Alert {
            name: "PolicySkew",
            hold: "15m",
            severity: Severity::Ticket,
            summary: "Instances judge by different policies.",
            expr: skew(&m::config_info, "policy_sha256"),
            fires: Case::fires("two digests", "30m", &[], vec![policy("aa", &[]), policy("bb", SECOND)]),
            silent: Case::silent("one digest", "30m", vec![policy("aa", &[]), policy("aa", SECOND)]),
        },
        Alert {
            name: "VersionSkew",
            hold: "1h",
            severity: Severity::Ticket,
            summary: "Instances of different versions run side by side.",
            expr: skew(&m::build_info, "version"),
            fires: Case::fires("two versions", "90m", &[], vec![version("0.1.0", &[]), version("0.2.0", SECOND)]),
            silent: Case::silent("one version", "90m", vec![version("0.1.0", &[]), version("0.1.0", SECOND)]),
        },
        Alert {
            name: "CertificateExpires",
            hold: "10m",
            severity: Severity::Ticket,
            summary: "{{ $labels.instance }} was started with a certificate ({{ $labels.role }}) that ends within two weeks.",
            expr: rule(&m::certificate_expiry).now().min(&["job", "instance", "role"]).left().below(14.0 * 86_400.0),
            fires: Case::fires(
                "in thirteen days",
                "30m",
                &[("instance", "a:9464"), ("role", "kafka_client")],
                certificate("1123200x40"),
            ),
            silent: Case::silent("in fifteen days", "30m", certificate("1296000x40")),
        },
        Alert {
            name: "LabelOverflow",
            hold: "0m",
            severity: Severity::Info,
            summary: "Values of the label {{ $labels.label }} are counted as _other.",
            expr: rule(&m::label_overflow).counted("1h", &["job", "label"]),
            fires: Case::fires("the first one", "30m", &[("label", "fleet")], overflow("_x20 1x20")),
            silent: Case::silent("some, hours ago", "3h", overflow("_x20 5x180")),
        },
    ]
}
