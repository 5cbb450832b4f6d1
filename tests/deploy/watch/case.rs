//! Series made up for the unit tests of alerts; their labels are those of the table.

use std::collections::BTreeMap;

use sluicegate::runtime::telemetry::{Kind, Metric, PREFIX};

/// Series, and what an alert does about them at a time.
pub struct Case {
    pub says: &'static str,
    pub at: &'static str,
    /// The labels of the alert that fires; none: it is silent.
    pub fires: Option<BTreeMap<String, String>>,
    pub series: Vec<(String, String)>,
}

type Labels<'a> = &'a [(&'a str, &'a str)];

const JOB: (&str, &str) = ("job", "sluicegate");

impl Case {
    /// It fires with these labels, and that of the job.
    pub fn fires(says: &'static str, at: &'static str, labels: Labels<'_>, series: Vec<(String, String)>) -> Case {
        let labels = labels.iter().chain([&JOB]).map(|(n, v)| ((*n).to_owned(), (*v).to_owned()));
        Case { says, at, fires: Some(labels.collect()), series }
    }
    /// It fires, and no series is left to take labels from.
    pub fn bare(says: &'static str, at: &'static str, series: Vec<(String, String)>) -> Case {
        Case { says, at, fires: Some(BTreeMap::new()), series }
    }
    pub fn silent(says: &'static str, at: &'static str, series: Vec<(String, String)>) -> Case {
        Case { says, at, fires: None, series }
    }
}

/// A series of a metric of the table with all its labels, in promtool's notation of values.
pub fn sample(metric: &Metric, part: &str, labels: Labels<'_>, values: &str) -> (String, String) {
    assert_eq!(metric.kind == Kind::Histogram, !part.is_empty(), "{}", metric.name);
    let mut given: BTreeMap<&str, &str> = BTreeMap::from([("instance", "a:9464"), JOB]);
    given.extend(labels.iter().copied());
    for label in metric.labels {
        let value = given.get(label.name).unwrap_or_else(|| panic!("{}: no {}", metric.name, label.name));
        assert!(label.values.is_empty() || label.values.contains(value), "{}: {value}", metric.name);
    }
    for name in given.keys() {
        let own = ["instance", "job", "le"].contains(name) || metric.labels.iter().any(|l| l.name == *name);
        assert!(own, "{} has no label {name}", metric.name);
    }
    let given: Vec<(&str, &str)> = given.into_iter().collect();
    raw(&format!("{PREFIX}{}{part}", metric.name), &given, values)
}

/// A series that Prometheus makes itself.
pub fn raw(name: &str, labels: Labels<'_>, values: &str) -> (String, String) {
    let labels: Vec<String> = labels.iter().map(|(n, v)| format!("{n}=\"{v}\"")).collect();
    (format!("{name}{{{}}}", labels.join(", ")), values.to_owned())
}
