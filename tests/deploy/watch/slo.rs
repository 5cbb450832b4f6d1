//! The objectives: how they are measured, and the rules that record them.

use sluicegate::runtime::telemetry::{Metric, table as m};

use super::expr::{Expr, Series, recorded, rule};

/// Of tool results, the share whose verdict is committed within [`WITHIN`] seconds.
pub const OBJECTIVE: f64 = 0.999;
/// What may be late.
pub const BUDGET: f64 = 0.001;
const WITHIN: &str = "1";
/// Windows of the recorded ratios.
pub const WINDOWS: [&str; 6] = ["5m", "30m", "1h", "6h", "1d", "3d"];
/// Below this rate (a second) one late result is noise.
pub const TRAFFIC: f64 = 0.1;

type From = fn(&'static Metric) -> Series;

/// The share of results in time.
pub fn in_time(from: From, window: &str) -> Expr {
    ratio(from, window, &[])
}

fn ratio(from: From, window: &str, by: &[&'static str]) -> Expr {
    let lane = || from(&m::end_to_end_latency).is("lane", "result");
    lane().is("le", WITHIN).rate(window).sum(by).per(lane().counts().rate(window).sum(by))
}

/// The share of results that were late.
pub fn late(from: From, window: &str) -> Expr {
    in_time(from, window).minus_from_one()
}

/// Results a second.
fn traffic(window: &str) -> Expr {
    rule(&m::end_to_end_latency).is("lane", "result").counts().rate(window).sum(&["job"])
}

/// Name and expression of each recording rule.
pub fn records() -> Vec<(String, Expr)> {
    WINDOWS.iter().map(|w| (name(w), ratio(rule, w, &["job"]).minus_from_one())).collect()
}

fn name(window: &str) -> String {
    format!("sluicegate:freshness_late:ratio_rate{window}")
}

/// The budget burns `factor` times too fast, in a long window and still in a short one.
pub fn burns(factor: f64, long: &'static str, short: &'static str) -> Expr {
    assert!(WINDOWS.contains(&long) && WINDOWS.contains(&short));
    let fast = |w: &str| recorded(&name(w), &["job"]).above(round(factor * BUDGET));
    fast(long).and(fast(short)).and(traffic(long).above(TRAFFIC))
}

/// `14.4 * 0.001` is not `0.0144` in binary.
fn round(n: f64) -> f64 {
    (n * 1e6).round() / 1e6
}
