//! `policies`: the catalogue, or a policy's page; with a configuration, what holds and where each setting comes from.

use super::style::{Cell, Style, Tone, decision_tone, table};
use super::{Exit, Failure, Global, engine};
use crate::engine::Engine;
use crate::engine::policy::{Effective, Meta, Origin, Policies, Who};
use crate::engine::verdict::{Decision, SG00};
use crate::runtime::config::Need;
use crate::runtime::telemetry::severity;
use std::io::Write as _;

#[derive(clap::Args)]
pub struct Args {
    /// A policy's code, such as SG04
    code: Option<String>,
    /// What holds under the configuration, and where each setting comes from
    #[arg(long)]
    effective: bool,
    /// For records of this fleet
    #[arg(long, requires = "effective", default_value = "default")]
    fleet: String,
    /// For records of this agent
    #[arg(long, requires = "effective", default_value = "default")]
    agent: String,
    /// For calls of this tool, and its output
    #[arg(long, requires = "effective")]
    tool: Option<String>,
    /// For tools of this MCP server
    #[arg(long, requires = "effective")]
    server: Option<String>,
}

pub fn run(global: &Global, args: &Args) -> Result<Exit, Failure> {
    let style = Style::new(global, &std::io::stdout());
    let asked = args.code.as_deref().map(known).transpose()?;
    let configured = args.effective || !global.config.is_empty() || global.profile.is_some();
    let engine = if configured { Some(configured_engine(global, args)?) } else { None };
    let who = Who {
        fleet: args.fleet.as_bytes(),
        agent: args.agent.as_bytes(),
        tool: args.tool.as_deref().map(str::as_bytes),
        server: args.server.as_deref().map(str::as_bytes),
    };
    let holds = engine.as_ref().map(|engine| engine.effective(&who));
    let text = match (asked, &holds) {
        (None, Some(holds)) if args.effective => {
            let policies = Policies::catalogue().iter().map(|meta| settings(style, holds, meta));
            head(style, global, holds) + &policies.collect::<String>()
        }
        (Some(meta), Some(holds)) if args.effective => head(style, global, holds) + &settings(style, holds, meta),
        (None, holds) => catalogue(style, holds.as_ref()),
        (Some(meta), None) => page(style, meta),
        (Some(meta), Some(holds)) => page(style, meta) + &settings(style, holds, meta),
    };
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(Exit::Fine)
}

/// The policies, and the engine's own findings, which no setting touches.
fn all() -> impl Iterator<Item = &'static Meta> {
    std::iter::once(&SG00).chain(Policies::catalogue().iter().copied())
}

fn known(code: &str) -> Result<&'static Meta, Failure> {
    let wanted = code.to_ascii_uppercase();
    all().find(|m| m.code == wanted || m.name == code).ok_or_else(|| {
        let known: Vec<&str> = all().map(|m| m.code).collect();
        Failure::usage(format!("no policy {code:?}; this build has {}", known.join(", ")))
    })
}

/// The engine under the configuration. A fleet that it does not know is a slip of the pen: no record can be of it.
fn configured_engine(global: &Global, args: &Args) -> Result<Engine, Failure> {
    let config = global.load(Need::Engine)?;
    let engine = engine(global.settings(&config, "policies")?)?;
    if args.fleet != "default" && !config.fleets.is_empty() && !config.fleets.contains_key(&args.fleet) {
        let known: Vec<&str> = config.fleets.keys().map(String::as_str).collect();
        return Err(Failure::usage(format!("no fleet {:?}; fleets has {}", args.fleet, known.join(", "))));
    }
    Ok(engine)
}

/// What stands over the settings of each policy.
fn head(style: Style, global: &Global, holds: &Effective<'_>) -> String {
    let (profile, origin) = holds.profile;
    let from = match origin {
        Origin::Override(name) => format!("policy.overrides.{name}.profile"),
        _ if global.profile.is_some() => "--profile".to_owned(),
        _ => "policy.profile".to_owned(),
    };
    let overrides = if holds.overrides.is_empty() { "none".to_owned() } else { holds.overrides.join(", ") };
    let line = |name: &str, text: &str| format!("{:<10}{text}\n", style.paint(Tone::Head, name));
    let profile = format!("{} (from {from})", profile.name());
    line("profile", &profile) + &line("overrides", &overrides) + &line("digest", holds.policies.digest())
}

/// Where a setting comes from, as the path of its key.
fn path(origin: Origin<'_>, holds: &Effective<'_>, key: &str) -> Cell {
    match origin {
        Origin::Default => Cell(Tone::Dim, "default".into()),
        Origin::Profile => Cell(Tone::Dim, format!("profile {}", holds.profile.0.name())),
        Origin::Base => format!("policy.policies.{key}").into(),
        Origin::Override(name) => format!("policy.overrides.{name}.policies.{key}").into(),
    }
}

/// A policy's settings as they hold.
fn settings(style: Style, holds: &Effective<'_>, meta: &Meta) -> String {
    let Some(all) = holds.policies.effective(meta.code) else {
        return format!("\n{}: what the engine itself finds; no setting touches it\n", meta.code);
    };
    let row = |name: String, value: Cell, from: Cell| vec![name.into(), value, from];
    let mode = all["mode"].as_str().unwrap_or_default();
    let mut rows =
        vec![row("mode".into(), mode.into(), path(holds.mode(meta.code), holds, &format!("{}.mode", meta.code)))];
    for rule in meta.rules {
        let effect = all["rules"][rule.name].as_str().unwrap_or_default();
        let from = path(holds.rule(meta.code, rule.name), holds, &format!("{}.rules.{}", meta.code, rule.name));
        rows.push(row(format!("rules.{}", rule.name), Cell(decision_tone(effect), effect.into()), from));
    }
    for (name, value) in all["options"].as_object().into_iter().flatten() {
        let from = path(holds.option(meta.code, name), holds, &format!("{}.options.{name}", meta.code));
        rows.push(row(format!("options.{name}"), value.to_string().into(), from));
    }
    let title = style.paint(Tone::Head, &format!("{} {}", meta.code, meta.name));
    format!("\n{title}\n{}", table(style, &["setting", "value", "from"], &rows))
}

fn catalogue(style: Style, holds: Option<&Effective<'_>>) -> String {
    let mode = |code| holds.and_then(|holds| holds.policies.effective(code)?["mode"].as_str().map(str::to_owned));
    let mut heads = vec!["code", "policy", "checklist", "rules", "mode", "summary"];
    let mut rows: Vec<Vec<Cell>> = all()
        .map(|m| {
            vec![
                Cell(Tone::Head, m.code.into()),
                m.name.into(),
                m.checklist.into(),
                m.rules.len().to_string().into(),
                mode(m.code).unwrap_or_else(|| "-".to_owned()).into(),
                m.summary.into(),
            ]
        })
        .collect();
    if holds.is_some() {
        return table(style, &heads, &rows) + "where each setting comes from: --effective\n";
    }
    heads.remove(4);
    rows.iter_mut().for_each(|row| drop(row.remove(4)));
    table(style, &heads, &rows)
}

/// What it checks to its source, from the head of its file; then its rules, and its options.
fn page(style: Style, meta: &Meta) -> String {
    let mut out = String::new();
    for line in Policies::page(meta.code).unwrap_or_default().lines() {
        let line = match line.strip_prefix("# ") {
            Some(head) => style.paint(Tone::Head, head),
            None if out.is_empty() => {
                style.paint(Tone::Head, &format!("{} ({})", line.trim_end_matches('.'), meta.name))
            }
            None => line.to_owned(),
        };
        out.push_str(&line);
        out.push('\n');
    }
    if out.is_empty() {
        let head = format!("{}: {} ({})", meta.code, meta.checklist, meta.name);
        out.push_str(&format!("{}\n\nIt stands for {}.\n", style.paint(Tone::Head, &head), meta.summary));
    }
    let rows: Vec<Vec<Cell>> = meta
        .rules
        .iter()
        .map(|r| {
            let effect = |effect: Decision| Cell(decision_tone(effect.name()), effect.name().into());
            vec![
                r.name.into(),
                severity(r.severity).into(),
                effect(r.effect),
                effect(r.strict),
                effect(r.effect),
                r.message.into(),
            ]
        })
        .collect();
    out.push_str(&format!("\n{}\n", style.paint(Tone::Head, "Rules")));
    out.push_str(&table(style, &["rule", "severity", "standard", "strict", "monitor", "message"], &rows));
    out.push_str("under monitor the decision is said and the action is allow; under off no rule is asked\n");
    if let Some(serde_json::Value::Object(options)) = Policies::default_options(meta.code)
        && !options.is_empty()
    {
        let rows: Vec<Vec<Cell>> =
            options.iter().map(|(name, default)| vec![name.as_str().into(), default.to_string().into()]).collect();
        let path = format!("policy.policies.{}.options", meta.code);
        out.push_str(&format!("\n{}\n", style.paint(Tone::Head, &path)));
        out.push_str(&table(style, &["option", "default"], &rows));
    }
    out
}
