//! `policies`: the catalogue, or a policy's page.

use super::style::{Cell, Style, Tone, decision_tone, table};
use super::{Exit, Failure, Global};
use crate::engine::policy::{Meta, Policies};
use crate::engine::verdict::{Decision, SG00};
use crate::runtime::telemetry::severity;
use std::io::Write as _;

#[derive(clap::Args)]
pub struct Args {
    /// A policy's code, such as SG04
    code: Option<String>,
}

pub fn run(global: &Global, args: &Args) -> Result<Exit, Failure> {
    let style = Style::new(global, &std::io::stdout());
    let text = match &args.code {
        None => catalogue(style),
        Some(code) => {
            let wanted = code.to_ascii_uppercase();
            let meta = all().find(|m| m.code == wanted || m.name == code);
            let meta = meta.ok_or_else(|| {
                let known: Vec<&str> = all().map(|m| m.code).collect();
                Failure::usage(format!("no policy {code:?}; this build has {}", known.join(", ")))
            })?;
            page(style, meta)
        }
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

fn catalogue(style: Style) -> String {
    let rows: Vec<Vec<Cell>> = all()
        .map(|m| {
            vec![
                Cell(Tone::Head, m.code.into()),
                m.name.into(),
                m.checklist.into(),
                m.rules.len().to_string().into(),
                m.summary.into(),
            ]
        })
        .collect();
    table(style, &["code", "policy", "checklist", "rules", "summary"], &rows)
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
