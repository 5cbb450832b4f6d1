//! What is made from the code is as the code would make it now, and covers what it must.

use std::collections::BTreeSet;

use sluicegate::runtime::telemetry::METRICS;

use crate::files::fresh;

use super::grafana::policy_change;
use super::{alerts, dashboards, rules};

#[test]
fn dashboards_are_fresh() {
    for dashboard in dashboards::all() {
        let mut json = serde_json::to_string_pretty(&dashboard.json()).unwrap();
        json.push('\n');
        fresh(&format!("helm/sluicegate/dashboards/{}.json", dashboard.file), &json);
    }
}

#[test]
fn rules_are_fresh() {
    fresh("helm/sluicegate/files/alerts.yaml", &rules::alerts());
    fresh("helm/sluicegate/files/alerts_test.yaml", &rules::tests());
    fresh("docs/alerts.md", &rules::page());
}

#[test]
fn every_metric_is_on_a_dashboard() {
    let dashboards = dashboards::all();
    let shown: BTreeSet<&str> = dashboards
        .iter()
        .flat_map(|d| d.panels())
        .flat_map(|p| &p.targets)
        .flat_map(|(e, _)| &e.metrics)
        .copied()
        .collect();
    let missing: Vec<&str> = METRICS.iter().map(|m| m.name).filter(|name| !shown.contains(name)).collect();
    let panels: usize = dashboards.iter().map(|d| d.panels().count()).sum();
    println!("figures: {} of {} metrics in {panels} panels", shown.len(), METRICS.len());
    assert!(missing.is_empty(), "on no dashboard: {missing:?}");
    assert!(policy_change().metrics.contains("config_info"));
}

/// Every series of a panel is one that the variables chose, and panels stand beside each other.
#[test]
fn panels_obey_the_variables_and_do_not_overlap() {
    for dashboard in dashboards::all() {
        for (expr, _) in dashboard.panels().flat_map(|p| &p.targets) {
            let (series, chosen) = ("sluicegate_", "{job=~\"$job\", instance=~\"$instance\"");
            assert_eq!(expr.text.matches(series).count(), expr.text.matches(chosen).count(), "{}", expr.text);
        }
        let mut taken = BTreeSet::new();
        for (_, panel, x, y) in dashboard.places() {
            let (columns, rows) = panel.map_or((24, 1), |p| p.size);
            for cell in (x..x + columns).flat_map(|x| (y..y + rows).map(move |y| (x, y))) {
                assert!(cell.0 < 24 && taken.insert(cell), "{}: {cell:?}", dashboard.title);
            }
        }
    }
}

#[test]
fn panels_and_alerts_have_names_of_their_own() {
    let mut files = BTreeSet::new();
    for dashboard in dashboards::all() {
        assert!(files.insert(dashboard.uid));
        let titles: Vec<&str> = dashboard.panels().map(|p| p.title).collect();
        assert_eq!(titles.iter().collect::<BTreeSet<_>>().len(), titles.len(), "{}", dashboard.title);
        for panel in dashboard.panels() {
            let ends = panel.says.ends_with('.');
            assert!(ends && !panel.targets.is_empty() && panel.size.0 <= 24, "{}", panel.title);
        }
    }
    let groups = alerts::groups();
    let all: Vec<_> = groups.iter().flat_map(|(_, alerts)| alerts).collect();
    assert_eq!(all.iter().map(|a| a.name).collect::<BTreeSet<_>>().len(), all.len());
    println!("figures: {} alerts", all.len());
}
