//! `validate`: configuration and policies, offline.

use super::{Exit, Failure, Global, engine};
use crate::engine::policy::Policies;
use crate::runtime::config::{Need, Purpose};
use std::io::Write as _;

#[derive(clap::Args)]
pub struct Args {}

/// What a file without any section of the service's is taken for.
const ALONE: &str = "policies alone, since it has no section kafka";

pub fn run(global: &Global, _args: &Args) -> Result<Exit, Failure> {
    let purpose = global.purpose()?;
    let need = if purpose == Purpose::Policies { Need::Engine } else { Need::Run };
    let config = global.load(need).map_err(|failure| match (failure, purpose) {
        (Failure::Said(exit, said), Purpose::Policies) => {
            Failure::Said(exit, format!("{said}\nthe file was read as {ALONE}"))
        }
        (failure, _) => failure,
    })?;
    let settings = global.settings(&config, "validate")?;
    let (profile, overrides) = (settings.policy.profile.name(), settings.policy.overrides.len());
    let engine = engine(settings)?;
    let inputs = super::check::count(config.kafka.inputs.len() as u64, "input topic");
    let what = match purpose {
        Purpose::Service => format!("group {}, {inputs}", config.kafka.group),
        Purpose::Policies => "policies alone (run needs a section kafka too)".to_owned(),
    };
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "ok: {what}, profile {profile}, {} policies, {}, digest {}",
        Policies::catalogue().len(),
        super::check::count(overrides as u64, "override"),
        engine.policy_digest(),
    )?;
    out.flush()?;
    Ok(Exit::Fine)
}
