//! `validate`: configuration and policies, offline.

use super::{Exit, Failure, Global, engine};
use crate::engine::policy::Policies;
use crate::runtime::config::Need;
use std::io::Write as _;

#[derive(clap::Args)]
pub struct Args {}

pub fn run(global: &Global, _args: &Args) -> Result<Exit, Failure> {
    let config = global.load(Need::Run)?;
    let settings = global.settings(&config, "validate")?;
    let (profile, overrides) = (settings.policy.profile.name(), settings.policy.overrides.len());
    let engine = engine(settings)?;
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "ok: group {}, {}, profile {profile}, {} policies, {}, digest {}",
        config.kafka.group,
        super::check::count(config.kafka.inputs.len() as u64, "input topic"),
        Policies::catalogue().len(),
        super::check::count(overrides as u64, "override"),
        engine.policy_digest(),
    )?;
    out.flush()?;
    Ok(Exit::Fine)
}
