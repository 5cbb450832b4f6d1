//! `topics`: what the service needs of the cluster, shown, made, or verified.

use super::style::{Cell, Style, Tone, table};
use super::{Exit, Failure, Global};
use crate::runtime::acls;
use crate::runtime::config::Need;
use crate::runtime::kafka::topics::{self, Action, TopicPlan};
use std::io::Write as _;

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Show what apply would do, and which permissions each role needs
    Plan,
    /// Create missing topics and widen outputs that have too few partitions
    Apply {
        /// Replication factor of new topics; the broker's default without it
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
        replication: Option<u16>,
    },
    /// End with exit code 4 unless every topic is there, wide enough, and takes records of the sizes written to it
    Verify,
}

pub fn run(global: &Global, args: &Args) -> Result<Exit, Failure> {
    let config = global.load(Need::Kafka)?;
    crate::runtime::logs::init_logs(&config.log, Style::new(global, &std::io::stderr()).on());
    let settings = config.settings().map_err(|p| Failure::problems(&[p]))?;
    let cluster = topics::inspect(&settings)?;
    let plans = topics::plan(&settings, &cluster);
    let style = Style::new(global, &std::io::stdout());
    let mut out = std::io::stdout().lock();
    write!(out, "{}", planned(style, &plans))?;
    let missing: Vec<&str> =
        plans.iter().filter(|p| p.action == Action::MissingInput).map(|p| p.name.as_str()).collect();
    match args.command {
        Command::Plan => write!(out, "\n{}", acls::listed(&settings))?,
        Command::Apply { replication } => {
            topics::apply(&settings, &plans, replication.map_or(-1, i32::from))?;
            let n = plans.iter().filter(|p| matches!(p.action, Action::Create { .. } | Action::Grow { .. })).count();
            writeln!(out, "\n{} changed", super::check::count(n as u64, "topic"))?;
        }
        Command::Verify if missing.is_empty() => {
            let open = plans.iter().filter(|p| p.action != Action::Nothing).map(|p| p.name.as_str());
            let open: Vec<&str> = open.collect();
            if !open.is_empty() {
                out.flush()?;
                let text = format!("not in order: {}\n  run `sluicegate topics apply`", open.join(", "));
                return Err(Failure::Said(Exit::Environment, text));
            }
            topics::check(&settings)?;
            writeln!(out, "\nevery topic is as the service needs it")?;
        }
        // A missing input is said below, as it is for the others.
        Command::Verify => {}
    }
    out.flush()?;
    if missing.is_empty() {
        return Ok(Exit::Fine);
    }
    let text = format!(
        "input topic {} does not exist\n  create it with the partitions that your producers need, then run `sluicegate topics apply` again",
        missing.join(", ")
    );
    Err(Failure::Said(Exit::Environment, text))
}

fn planned(style: Style, plans: &[TopicPlan]) -> String {
    let rows: Vec<Vec<Cell>> = plans
        .iter()
        .map(|p| {
            let (tone, action) = match p.action {
                Action::Nothing => (Tone::Dim, "in order".into()),
                Action::Create { partitions } => (Tone::Warn, {
                    format!("create with {partitions} partition{}", if partitions == 1 { "" } else { "s" })
                }),
                Action::Grow { from, to } => (Tone::Warn, format!("widen from {from} to {to} partitions")),
                Action::Waits => (Tone::Dim, "not looked at: it follows the inputs".into()),
                Action::MissingInput => (Tone::Bad, "missing; belongs to the producers".into()),
            };
            let create = matches!(p.action, Action::Create { .. });
            let configs: Vec<String> = p.configs.iter().filter(|_| create).map(|(k, v)| format!("{k}={v}")).collect();
            vec![p.name.as_str().into(), Cell(tone, action), configs.join(" ").into()]
        })
        .collect();
    table(style, &["topic", "action", "settings"], &rows)
}
