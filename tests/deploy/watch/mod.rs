//! Dashboards, alerts and runbooks.

mod alerts;
mod case;
mod dashboards;
mod expr;
mod fresh;
mod grafana;
mod rules;
mod slo;

/// Where runbooks stand, from the root of the repository.
pub const RUNBOOKS: &str = "deploy/runbooks/";
