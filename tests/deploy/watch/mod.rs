//! Dashboards, alerts and runbooks.

mod alerts;
mod case;
mod dashboards;
mod expr;
mod fresh;
mod grafana;
mod healthy;
mod live;
mod load;
mod prometheus;
mod rules;
mod runbooks;
mod slo;
mod svg;

/// Where runbooks stand, from the root of the repository.
pub const RUNBOOKS: &str = "deploy/runbooks/";
