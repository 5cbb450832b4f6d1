//! `policies`: the catalogue, or a policy's page.

use super::style::{Cell, Style, Tone, decision_tone, table};
use super::{Exit, Failure, Global};
use crate::engine::policy::{Meta, Policies};
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
            let meta = Policies::catalogue().iter().find(|m| m.code == wanted || m.name == code);
            let meta = meta.ok_or_else(|| {
                let known: Vec<&str> = Policies::catalogue().iter().map(|m| m.code).collect();
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

fn catalogue(style: Style) -> String {
    let rows: Vec<Vec<Cell>> = Policies::catalogue()
        .iter()
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

fn page(style: Style, meta: &Meta) -> String {
    let rows: Vec<Vec<Cell>> = meta
        .rules
        .iter()
        .map(|r| {
            vec![
                r.name.into(),
                Cell(decision_tone(r.effect.name()), r.effect.name().into()),
                Cell(decision_tone(r.strict.name()), r.strict.name().into()),
                severity(r.severity).into(),
                r.message.into(),
            ]
        })
        .collect();
    let mut out = format!("{} {}\n", style.paint(Tone::Head, meta.code), meta.name);
    out.push_str(&format!("{}\nchecklist: {}\n\n", meta.summary, meta.checklist));
    out.push_str(&table(style, &["rule", "standard", "strict", "severity", "message"], &rows));
    if let Some(options) = Policies::default_options(meta.code)
        && let Ok(text) = serde_json::to_string_pretty(&options)
    {
        out.push_str(&format!("\noptions (policy.policies.{}.options), with their defaults:\n{text}\n", meta.code));
    }
    out
}
