//! PromQL built from the table of metrics: what is named exists, and has the labels that are asked of it.
//!
//! A mistake (a label that a metric does not have, a counter that is read without `rate`, a sum by a label that an
//! earlier sum took away) panics where the expression is made, so no dashboard with it can be written.

use std::collections::BTreeSet;

use sluicegate::runtime::telemetry::{Kind, METRICS, Metric, PREFIX};

/// What Prometheus adds to every series that it scrapes.
const TARGET: [&str; 2] = ["instance", "job"];
/// The window of a rate on a dashboard.
pub const RATE: &str = "$__rate_interval";
/// The time that a dashboard shows.
pub const RANGE: &str = "$__range";

/// Series of one metric.
#[derive(Clone)]
pub struct Series {
    metric: &'static Metric,
    part: &'static str,
    matchers: Vec<String>,
}

/// Series of one metric, as a rule reads them: from all instances.
pub fn rule(metric: &'static Metric) -> Series {
    let part = if metric.kind == Kind::Histogram { "_bucket" } else { "" };
    Series { metric, part, matchers: Vec::new() }
}

/// Series of one metric, as a dashboard reads them: what its variables chose.
pub fn panel(metric: &'static Metric) -> Series {
    let mut series = rule(metric);
    series.matchers = TARGET.iter().rev().map(|l| format!("{l}=~\"${l}\"")).collect();
    series
}

impl Series {
    fn matching(mut self, label: &str, operator: &str, value: &str) -> Self {
        if label != "le" {
            let Some(label) = self.metric.labels.iter().find(|l| l.name == label) else {
                panic!("{} has no label {label}", self.metric.name)
            };
            let of_list = |v: &str| label.values.is_empty() || v.starts_with('$') || label.values.contains(&v);
            assert!(value.split('|').all(of_list), "{}: {} is never {value}", self.metric.name, label.name);
        } else {
            assert_eq!(self.part, "_bucket", "{}", self.metric.name);
            let known = self.metric.buckets.iter().any(|b| b.to_string() == value);
            assert!(known, "{} has no bucket {value}", self.metric.name);
        }
        self.matchers.push(format!("{label}{operator}\"{value}\""));
        self
    }
    pub fn is(self, label: &str, value: &str) -> Self {
        self.matching(label, "=", value)
    }
    pub fn not(self, label: &str, value: &str) -> Self {
        self.matching(label, "!=", value)
    }
    /// One of `a|b|c`, or of a dashboard's variable.
    pub fn of(self, label: &str, values: &str) -> Self {
        self.matching(label, "=~", values)
    }
    /// What the variable `fleet` chose, where the metric has it.
    pub fn of_fleet(self) -> Self {
        if self.metric.labels.iter().any(|l| l.name == "fleet") { self.of("fleet", "$fleet") } else { self }
    }
    /// How many were observed.
    pub fn counts(self) -> Self {
        self.part("_count")
    }
    /// The sum of what was observed.
    pub fn sums(self) -> Self {
        self.part("_sum")
    }
    fn part(mut self, part: &'static str) -> Self {
        assert_eq!(self.metric.kind, Kind::Histogram, "{}", self.metric.name);
        self.part = part;
        self
    }

    fn text(&self) -> String {
        let matchers =
            if self.matchers.is_empty() { String::new() } else { format!("{{{}}}", self.matchers.join(", ")) };
        format!("{PREFIX}{}{}{matchers}", self.metric.name, self.part)
    }
    fn expr(&self, text: String) -> Expr {
        let own = self.metric.labels.iter().map(|l| l.name).chain(TARGET);
        let bucket = (self.part == "_bucket").then_some("le");
        Expr { text, labels: own.chain(bucket).collect(), metrics: BTreeSet::from([self.metric.name]), simple: true }
    }
    /// Its value now.
    pub fn now(self) -> Expr {
        assert_eq!(self.metric.kind, Kind::Gauge, "{} only ever grows", self.metric.name);
        self.expr(self.text())
    }
    /// A counter as it stands: only to tell whether it is there.
    fn raw(&self, offset: &str) -> Expr {
        self.expr(format!("{}{offset}", self.text()))
    }
    pub fn rate(self, window: &str) -> Expr {
        self.growth("rate", window)
    }
    pub fn increase(self, window: &str) -> Expr {
        self.growth("increase", window)
    }
    /// The same rate, so long ago.
    pub fn rate_ago(self, window: &str, ago: &str) -> Expr {
        assert_eq!(self.metric.kind, Kind::Counter, "{}", self.metric.name);
        self.expr(format!("rate({}[{window}] offset {ago})", self.text()))
    }
    /// How often it began at zero again: its process was started anew.
    pub fn resets(self, window: &str) -> Expr {
        self.growth("resets", window)
    }
    fn growth(self, function: &str, window: &str) -> Expr {
        assert_ne!(self.metric.kind, Kind::Gauge, "{} is a gauge", self.metric.name);
        self.expr(format!("{function}({}[{window}])", self.text()))
    }
    /// A function over the values of a gauge in a window.
    pub fn over(self, function: &str, window: &str) -> Expr {
        self.over_ago(function, window, "")
    }
    /// The same, so long ago: `offset` is ` offset 1m`.
    pub fn over_ago(self, function: &str, window: &str, offset: &str) -> Expr {
        assert_eq!(self.metric.kind, Kind::Gauge, "{} only ever grows", self.metric.name);
        self.expr(format!("{function}({}[{window}]{offset})", self.text()))
    }
    /// How many were counted in the window, the one that made the series included: `increase` does not see it.
    pub fn counted(self, window: &str, by: &[&'static str]) -> Expr {
        assert_eq!(self.metric.kind, Kind::Counter, "{}", self.metric.name);
        let born = self.raw("").unless(self.raw(&format!(" offset {window}")));
        self.clone().increase(window).sum(by).above(0.0).or(born.sum(by).above(0.0))
    }
}

/// An expression, the labels of its result, and the metrics it reads.
#[derive(Clone)]
pub struct Expr {
    pub text: String,
    pub labels: BTreeSet<&'static str>,
    pub metrics: BTreeSet<&'static str>,
    /// Needs no parentheses.
    simple: bool,
}

/// A series that a recording rule makes.
pub fn recorded(name: &str, labels: &[&'static str]) -> Expr {
    Expr { text: name.to_owned(), labels: labels.iter().copied().collect(), metrics: BTreeSet::new(), simple: true }
}

/// Whether Prometheus reaches its targets.
pub fn up() -> Expr {
    recorded("up", &TARGET)
}

impl Expr {
    fn inner(&self) -> String {
        if self.simple { self.text.clone() } else { format!("({})", self.text) }
    }
    fn has(&self, labels: &[&'static str]) {
        for label in labels {
            assert!(self.labels.contains(label), "{} has no label {label}", self.text);
        }
    }
    fn aggregate(self, function: &str, by: &[&'static str]) -> Expr {
        self.has(by);
        let grouping = if by.is_empty() { String::new() } else { format!(" by ({})", by.join(", ")) };
        let space = if by.is_empty() { "" } else { " " };
        let text = format!("{function}{grouping}{space}({})", self.text);
        Expr { text, labels: by.iter().copied().collect(), simple: true, ..self }
    }
    pub fn sum(self, by: &[&'static str]) -> Expr {
        self.aggregate("sum", by)
    }
    pub fn max(self, by: &[&'static str]) -> Expr {
        self.aggregate("max", by)
    }
    pub fn min(self, by: &[&'static str]) -> Expr {
        self.aggregate("min", by)
    }
    pub fn count(self, by: &[&'static str]) -> Expr {
        self.aggregate("count", by)
    }
    pub fn top(self, n: u32) -> Expr {
        Expr { text: format!("topk({n}, {})", self.text), simple: true, ..self }
    }
    /// Of the rates of a histogram's buckets.
    pub fn quantile(self, q: f64, by: &[&'static str]) -> Expr {
        let sum = self.sum(&[&["le"], by].concat());
        Expr {
            text: format!("histogram_quantile({q}, {})", sum.text),
            labels: by.iter().copied().collect(),
            simple: true,
            ..sum
        }
    }
    fn join(self, operator: &str, other: Expr, labels: BTreeSet<&'static str>) -> Expr {
        Expr {
            text: format!("{} {operator} {}", self.inner(), other.inner()),
            labels,
            metrics: &self.metrics | &other.metrics,
            simple: false,
        }
    }
    /// Divided by what has the same labels, or by one number for all.
    pub fn per(self, other: Expr) -> Expr {
        let labels = self.labels.clone();
        if self.labels == other.labels {
            return self.join("/", other, labels);
        }
        assert!(other.labels.is_empty(), "{} by {}", self.text, other.text);
        let ignored = labels.iter().copied().collect::<Vec<_>>().join(", ");
        self.join(&format!("/ ignoring ({ignored}) group_left"), other, labels)
    }
    fn same(&self, other: &Expr) {
        assert_eq!(self.labels, other.labels, "{}\n{}", self.text, other.text);
    }
    pub fn and(self, other: Expr) -> Expr {
        self.same(&other);
        let labels = self.labels.clone();
        self.join("and", other, labels)
    }
    /// Only where `other` has something with these labels.
    pub fn where_on(self, labels: &[&'static str], other: Expr) -> Expr {
        self.has(labels);
        other.has(labels);
        let kept = self.labels.clone();
        self.join(&format!("and on ({})", labels.join(", ")), other, kept)
    }
    pub fn or(self, other: Expr) -> Expr {
        self.same(&other);
        let labels = self.labels.clone();
        self.join("or", other, labels)
    }
    pub fn unless(self, other: Expr) -> Expr {
        self.same(&other);
        let labels = self.labels.clone();
        self.join("unless", other, labels)
    }
    fn with(self, text: String) -> Expr {
        Expr { text, simple: false, ..self }
    }
    pub fn above(self, n: f64) -> Expr {
        let text = format!("{} > {n}", self.inner());
        self.with(text)
    }
    pub fn below(self, n: f64) -> Expr {
        let text = format!("{} < {n}", self.inner());
        self.with(text)
    }
    pub fn equals(self, n: f64) -> Expr {
        let text = format!("{} == {n}", self.inner());
        self.with(text)
    }
    /// Below what has the same labels.
    pub fn below_of(self, other: Expr) -> Expr {
        self.same(&other);
        let labels = self.labels.clone();
        self.join("<", other, labels)
    }
    /// Above so many times what has the same labels.
    pub fn above_times(self, n: f64, other: Expr) -> Expr {
        self.same(&other);
        let labels = self.labels.clone();
        self.join(&format!("> {n} *"), other, labels)
    }
    pub fn minus_from_one(self) -> Expr {
        let text = format!("1 - {}", self.inner());
        self.with(text)
    }
    pub fn by(self, n: f64) -> Expr {
        let text = format!("{} / {n}", self.inner());
        self.with(text)
    }
    /// Seconds since a time that a gauge tells.
    pub fn ago(self) -> Expr {
        let text = format!("time() - {}", self.inner());
        self.with(text)
    }
    /// Seconds until a time that a gauge tells.
    pub fn left(self) -> Expr {
        let text = format!("{} - time()", self.inner());
        self.with(text)
    }
    /// Nothing counted is zero.
    pub fn or_zero(self) -> Expr {
        assert!(self.labels.is_empty(), "{}", self.text);
        let text = format!("{} or vector(0)", self.inner());
        self.with(text)
    }
    pub fn absent(self) -> Expr {
        Expr { text: format!("absent({})", self.text), labels: BTreeSet::new(), simple: true, ..self }
    }
}

/// The metric behind a name in an expression or a runbook: `sluicegate_x_total`, `sluicegate_y_seconds_bucket`.
pub fn known(name: &str) -> Option<&'static Metric> {
    let name = name.strip_prefix(PREFIX)?;
    METRICS.iter().copied().find(|m| {
        let parts: &[&str] = if m.kind == Kind::Histogram { &["", "_bucket", "_count", "_sum"] } else { &[""] };
        parts.iter().any(|part| name.strip_suffix(part) == Some(m.name))
    })
}
