//! Dashboards as data, and their JSON for Grafana.

use serde_json::{Value, json};

use super::expr::{Expr, panel};
use sluicegate::runtime::telemetry::{METRICS, table};

/// How a panel draws what it is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Draw {
    /// One number.
    Stat,
    /// Lines over time.
    Lines,
    /// Areas on each other over time.
    Stack,
    /// A bar for each series.
    Bars,
    /// A row for each series, with these labels as columns.
    Table,
    /// How many fell into each bucket, over time.
    Heat,
}

pub struct Panel {
    pub title: &'static str,
    pub says: &'static str,
    pub draw: Draw,
    pub unit: &'static str,
    /// Columns of 24, and rows.
    pub size: (u32, u32),
    pub targets: Vec<(Expr, &'static str)>,
    /// From which value on it is orange, and red.
    pub limits: Option<(f64, f64)>,
}

impl Panel {
    pub fn new(draw: Draw, title: &'static str, unit: &'static str, says: &'static str) -> Panel {
        let size = if draw == Draw::Stat { (4, 4) } else { (8, 7) };
        Panel { title, says, draw, unit, size, targets: Vec::new(), limits: None }
    }
    /// A query, and how its series are called: every `{{label}}` is one that the answer has.
    pub fn shows(mut self, expr: Expr, legend: &'static str) -> Panel {
        for label in labels(legend) {
            assert!(expr.labels.contains(label), "{}: {} has no label {label}", self.title, expr.text);
        }
        self.targets.push((expr, legend));
        self
    }
    pub fn sized(self, columns: u32, rows: u32) -> Panel {
        Panel { size: (columns, rows), ..self }
    }
    pub fn limits(self, orange: f64, red: f64) -> Panel {
        Panel { limits: Some((orange, red)), ..self }
    }
    /// One answer is enough: its value now, or over the time shown.
    pub fn instant(&self) -> bool {
        matches!(self.draw, Draw::Stat | Draw::Bars | Draw::Table)
    }
}

/// The labels that a legend names.
pub fn labels(legend: &str) -> impl Iterator<Item = &str> {
    legend.split("{{").skip(1).filter_map(|rest| rest.split("}}").next())
}

pub struct Dashboard {
    pub file: &'static str,
    pub uid: &'static str,
    pub title: &'static str,
    pub says: &'static str,
    pub rows: Vec<(&'static str, Vec<Panel>)>,
}

impl Dashboard {
    pub fn panels(&self) -> impl Iterator<Item = &Panel> {
        self.rows.iter().flat_map(|(_, panels)| panels)
    }

    /// Where each panel stands: column, row, and its own row of the grid for headings.
    pub fn places(&self) -> Vec<(Option<&'static str>, Option<&Panel>, u32, u32)> {
        let (mut y, mut places) = (0, Vec::new());
        for (heading, panels) in &self.rows {
            places.push((Some(*heading), None, 0, y));
            y += 1;
            let (mut x, mut tall) = (0, 0);
            for panel in panels {
                if x + panel.size.0 > 24 {
                    (x, y, tall) = (0, y + tall, 0);
                }
                places.push((None, Some(panel), x, y));
                x += panel.size.0;
                tall = tall.max(panel.size.1);
            }
            y += tall;
        }
        places
    }

    pub fn json(&self) -> Value {
        let panels: Vec<Value> = self.places().iter().zip(1..).map(|(place, id)| grid(place, id)).collect();
        json!({
            "uid": self.uid,
            "title": self.title,
            "description": self.says,
            "tags": ["sluicegate"],
            "schemaVersion": 39,
            "version": 1,
            "editable": false,
            "graphTooltip": 1,
            "refresh": "30s",
            "time": {"from": "now-3h", "to": "now"},
            "timezone": "browser",
            "templating": {"list": self.variables()},
            "annotations": {"list": [policy_changes()]},
            "links": [{
                "type": "dashboards", "tags": ["sluicegate"], "title": "Sluicegate", "asDropdown": false,
                "includeVars": true, "keepTime": true, "targetBlank": false, "icon": "dashboard", "url": "",
            }],
            "panels": panels,
        })
    }

    fn variables(&self) -> Vec<Value> {
        let build = format!("sluicegate_{}", table::build_info.name);
        let mut list = vec![
            json!({"type": "datasource", "name": "datasource", "label": "Data source", "query": "prometheus"}),
            query("job", "Job", &format!("label_values({build}, job)")),
            query("instance", "Instance", &format!("label_values({build}{{job=~\"$job\"}}, instance)")),
        ];
        if self.panels().any(|p| p.targets.iter().any(|(e, _)| e.text.contains("$fleet"))) {
            let verdicts = format!("sluicegate_{}", table::verdicts.name);
            list.push(query("fleet", "Fleet", &format!("label_values({verdicts}{{job=~\"$job\"}}, fleet)")));
        }
        list
    }
}

fn query(name: &str, label: &str, query: &str) -> Value {
    json!({
        "type": "query", "name": name, "label": label, "datasource": source(),
        "query": {"query": query, "refId": name}, "definition": query,
        "refresh": 2, "sort": 1, "includeAll": true, "multi": true, "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
    })
}

fn source() -> Value {
    json!({"type": "prometheus", "uid": "${datasource}"})
}

/// The expression of the annotation: a policy that was not there a minute ago.
pub fn policy_change() -> Expr {
    let now = panel(&table::config_info).now().count(&["policy_sha256"]);
    let before = panel(&table::config_info).over_ago("last_over_time", "1m", " offset 1m").count(&["policy_sha256"]);
    now.unless(before)
}

fn policy_changes() -> Value {
    json!({
        "name": "New policy", "datasource": source(), "enable": true, "iconColor": "purple",
        "expr": policy_change().text, "titleFormat": "policy {{policy_sha256}}", "step": "30s",
    })
}

fn grid(place: &(Option<&'static str>, Option<&Panel>, u32, u32), id: u32) -> Value {
    let (heading, panel, x, y) = place;
    let Some(panel) = panel else {
        return json!({
            "id": id, "type": "row", "title": heading, "collapsed": false, "panels": [],
            "gridPos": {"x": x, "y": y, "w": 24, "h": 1},
        });
    };
    let targets: Vec<Value> = panel.targets.iter().zip('A'..).map(|((e, l), r)| target(panel, e, l, r)).collect();
    let mut value = json!({
        "id": id,
        "type": kind(panel.draw),
        "title": panel.title,
        "description": panel.says,
        "datasource": source(),
        "gridPos": {"x": x, "y": y, "w": panel.size.0, "h": panel.size.1},
        "targets": targets,
        "fieldConfig": {"defaults": defaults(panel), "overrides": overrides(panel)},
        "options": options(panel),
    });
    if panel.draw == Draw::Table {
        value["transformations"] = json!([
            {"id": "labelsToFields", "options": {"mode": "columns"}},
            {"id": "merge", "options": {}},
            {"id": "organize", "options": {"excludeByName": {"Time": true}, "renameByName": {"Value": "count"}}},
        ]);
    }
    value
}

fn kind(draw: Draw) -> &'static str {
    match draw {
        Draw::Stat => "stat",
        Draw::Lines | Draw::Stack => "timeseries",
        Draw::Bars => "bargauge",
        Draw::Table => "table",
        Draw::Heat => "heatmap",
    }
}

fn target(panel: &Panel, expr: &Expr, legend: &str, id: char) -> Value {
    let format = match panel.draw {
        Draw::Table => "table",
        Draw::Heat => "heatmap",
        _ => "time_series",
    };
    json!({
        "refId": id.to_string(), "datasource": source(), "expr": expr.text, "legendFormat": legend,
        "instant": panel.instant(), "range": !panel.instant(), "format": format, "editorMode": "code",
    })
}

/// The colours of series that mean something by their names, if all of a panel's do.
pub fn meanings(names: &[&str]) -> Option<Vec<&'static str>> {
    let meaning = |name: &&str| match *name {
        "allow" | "committed" | "judged" | "applied" => Some("green"),
        "redact" | "aborted" | "high" => Some("orange"),
        "block" | "fenced" | "rejected" | "critical" => Some("red"),
        "passed" | "low" => Some("blue"),
        "abandoned" | "medium" => Some("purple"),
        _ => None,
    };
    names.iter().map(meaning).collect()
}

fn overrides(panel: &Panel) -> Vec<Value> {
    let mut named: Vec<(&str, &str)> = Vec::new();
    for (expr, legend) in &panel.targets {
        let whole = legend.strip_prefix("{{").and_then(|l| l.strip_suffix("}}"));
        let Some(label) = whole else { continue };
        let own = METRICS.iter().filter(|m| expr.metrics.contains(m.name)).flat_map(|m| m.labels);
        let values: Vec<&str> = own.filter(|l| l.name == label).flat_map(|l| l.values).copied().collect();
        named.extend(meanings(&values).into_iter().flat_map(|colours| values.iter().copied().zip(colours)));
    }
    let colour = |(name, colour): (&str, &str)| {
        json!({
            "matcher": {"id": "byName", "options": name},
            "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": colour}}],
        })
    };
    named.into_iter().map(colour).collect()
}

fn defaults(panel: &Panel) -> Value {
    let mut steps = vec![json!({"color": "green", "value": null})];
    if let Some((orange, red)) = panel.limits {
        // A share that must stay high is red below.
        if orange > red {
            steps = vec![
                json!({"color": "red", "value": null}),
                json!({"color": "orange", "value": red}),
                json!({"color": "green", "value": orange}),
            ];
        } else {
            steps.extend([json!({"color": "orange", "value": orange}), json!({"color": "red", "value": red})]);
        }
    }
    let mut value = json!({
        "unit": panel.unit, "min": 0, "thresholds": {"mode": "absolute", "steps": steps},
        "color": {"mode": if panel.draw == Draw::Stat { "thresholds" } else { "palette-classic" }},
    });
    if panel.instant() && panel.unit == "short" {
        value["decimals"] = json!(0);
    }
    if matches!(panel.draw, Draw::Lines | Draw::Stack) {
        let stacked = panel.draw == Draw::Stack;
        value["custom"] = json!({
            "lineWidth": 1, "fillOpacity": if stacked { 40 } else { 5 }, "showPoints": "never",
            "stacking": {"mode": if stacked { "normal" } else { "none" }, "group": "A"},
        });
    }
    value
}

fn options(panel: &Panel) -> Value {
    match panel.draw {
        Draw::Stat => json!({
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": false},
            "graphMode": "none", "colorMode": "value", "textMode": "auto",
        }),
        Draw::Bars => json!({
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": false},
            "orientation": "horizontal", "displayMode": "basic", "valueMode": "text", "showUnfilled": true,
        }),
        Draw::Table => json!({"showHeader": true, "cellHeight": "sm"}),
        Draw::Heat => json!({
            "calculate": false, "cellGap": 1, "color": {"mode": "scheme", "scheme": "Oranges", "steps": 32},
            "yAxis": {"unit": panel.unit}, "legend": {"show": true}, "tooltip": {"mode": "single"},
        }),
        Draw::Lines | Draw::Stack => json!({
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": true},
            "tooltip": {"mode": "multi", "sort": "desc"},
        }),
    }
}
