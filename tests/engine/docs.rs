//! `docs/providers.md` and `docs/policies/` are made of the heads of the files that do what they describe, so that
//! what is documented is what is done; the table in the README too.
//!
//! `UPDATE=1 cargo test` writes the pages.

use crate::examples::{self, Example};
use sluicegate::engine::policy::{Meta, Policies};
use sluicegate::engine::provider::Provider;
use sluicegate::engine::verdict::SG00;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/providers.md");
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/engine/provider/");

/// The files whose heads are the page, and the providers that each reads.
const FILES: [(&str, &[Provider]); 8] = [
    ("openai/responses.rs", &[Provider::OpenAiResponses]),
    ("openai/chat.rs", &[Provider::OpenAiChat]),
    ("anthropic.rs", &[Provider::AnthropicMessages]),
    ("xai.rs", &[Provider::XaiResponses, Provider::XaiChat]),
    ("gemini.rs", &[Provider::GeminiGenerateContent]),
    ("gemini/live.rs", &[Provider::GeminiLive]),
    ("mcp.rs", &[Provider::Mcp]),
    ("host.rs", &[]),
];

fn head(file: &str) -> Vec<String> {
    let text = std::fs::read_to_string(format!("{SOURCES}{file}")).unwrap_or_else(|e| panic!("{file}: {e}"));
    let lines = text.lines().map_while(|line| line.strip_prefix("//!"));
    lines.map(|line| line.strip_prefix(' ').unwrap_or(line).to_owned()).collect()
}

fn page() -> String {
    let mut page = String::from(
        "# Providers\n\nMade from the heads of `src/engine/provider`; do not edit. The attribute `provider` of an event has one of \
         the names below; where it is missing, the shape of the data tells (last section).\n",
    );
    for (file, providers) in FILES {
        let head = head(file);
        let names: Vec<String> = providers.iter().map(|p| format!("`{}`", p.name())).collect();
        let title = head[0].trim_end_matches('.');
        let _ = match names.is_empty() {
            true => writeln!(page, "\n## {title}"),
            false => writeln!(page, "\n## {}: {title}", names.join(", ")),
        };
        for line in &head[1..] {
            let _ = match line.strip_prefix("# ") {
                Some(section) => writeln!(page, "### {section}"),
                None => writeln!(page, "{line}"),
            };
        }
    }
    let detect = head("detect.rs");
    let _ = writeln!(page, "\n## Told by shape\n\n{}", detect.join("\n").replace("\n# ", "\n### "));
    page
}

#[test]
fn every_provider_is_documented_and_the_page_is_fresh() {
    let documented: Vec<Provider> = FILES.iter().flat_map(|(_, providers)| providers.iter().copied()).collect();
    assert!(Provider::ALL.iter().all(|provider| documented.contains(provider)));
    for (file, providers) in FILES.iter().filter(|(_, providers)| !providers.is_empty()) {
        let head = head(file).join("\n");
        for section in ["# Wire shapes read", "# How a call is addressed", "# What ends a call", "# Oddities"] {
            assert!(head.contains(section), "{file} ({providers:?}) has no section {section:?}");
        }
    }
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(PAGE, page()).unwrap_or_else(|e| panic!("{PAGE}: {e}"));
    }
    let found = std::fs::read_to_string(PAGE).unwrap_or_default();
    assert!(found == page(), "docs/providers.md is stale: run the test with `UPDATE=1`");
}

const POLICIES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/policies");
const README: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");

fn fresh(path: &str, page: &str) {
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, page).unwrap_or_else(|e| panic!("{path}: {e}"));
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert!(found == page, "{path} is stale: run the test with `UPDATE=1`");
}

/// What was done with an example, by provider.
type Done = BTreeMap<&'static str, BTreeSet<String>>;

fn done(table: &BTreeMap<(String, &'static str), BTreeSet<String>>, example: &Example) -> Done {
    let own = table.iter().filter(|((name, _), _)| *name == example.name);
    own.map(|((_, provider), actions)| (*provider, actions.clone())).collect()
}

/// `block`, or by provider where it differs.
fn actions(done: &Done) -> String {
    let said = |actions: &BTreeSet<String>| actions.iter().cloned().collect::<Vec<_>>().join(" and ");
    let all: BTreeSet<String> = done.values().map(said).collect();
    match all.len() {
        1 => all.into_iter().collect(),
        _ => done
            .iter()
            .map(|(provider, actions)| format!("{} ({provider})", said(actions)))
            .collect::<Vec<_>>()
            .join(", "),
    }
}

/// The head of a policy's file as a page: its examples are numbered and say what was done with them.
fn policy_page(
    meta: &Meta,
    examples: &[Example],
    table: &BTreeMap<(String, &'static str), BTreeSet<String>>,
) -> String {
    let mut page = String::new();
    let mut own = examples.iter().filter(|example| example.code == meta.code);
    let head = Policies::page(meta.code).unwrap_or_else(|| format!("{}: {}.\n", meta.code, meta.summary));
    for (n, line) in head.lines().enumerate() {
        let shown = match line.trim().strip_prefix("```example") {
            _ if n == 0 => format!("# {} `{}`\n\n{line}\n\nChecklist: {}.", meta.code, meta.name, meta.checklist),
            None => line.strip_prefix("# ").map_or_else(|| line.to_owned(), |section| format!("## {section}")),
            Some(_) => {
                let Some(example) = own.next() else { continue };
                let done = done(table, example);
                let providers: Vec<&str> = done.keys().copied().collect();
                let whose = if providers.len() == Provider::ALL.len() {
                    "every provider".to_owned()
                } else {
                    providers.join(", ")
                };
                match example.holds() {
                    true => format!("\n**{}** holds, for {whose}:\n\n```text", example.name),
                    false => format!(
                        "\n**{}** gives `{}`, action {}, for {whose}:\n\n```text",
                        example.name,
                        example.rules.join("`, `"),
                        actions(&done)
                    ),
                }
            }
        };
        page.push_str(&shown);
        page.push('\n');
    }
    let _ = writeln!(page, "\n## Rules\n\n| rule | severity | standard | strict | message |\n|---|---|---|---|---|");
    for rule in meta.rules {
        let severity = format!("{:?}", rule.severity).to_lowercase();
        let _ = writeln!(
            page,
            "| `{}` | {severity} | {} | {} | {} |",
            rule.name,
            rule.effect.name(),
            rule.strict.name(),
            rule.message
        );
    }
    page.push_str("\n`monitor` decides as `standard` does, and its action is `allow`; `off` asks no rule.\n");
    let options = Policies::default_options(meta.code);
    if let Some(options) = options.as_ref().and_then(|o| o.as_object()).filter(|o| !o.is_empty()) {
        let _ = writeln!(page, "\n## Defaults\n\nUnder `policy.policies.{}.options`:\n\n```yaml", meta.code);
        for (name, default) in options {
            let _ = writeln!(page, "{name}: {default}");
        }
        page.push_str("```\n");
    }
    page
}

/// Why a policy has nothing to say of a provider: its head's section *Does not apply*.
fn reasons(meta: &Meta) -> BTreeMap<String, String> {
    let head = Policies::page(meta.code).unwrap_or_default();
    let section =
        head.lines().skip_while(|line| *line != "# Does not apply").skip(1).take_while(|line| !line.starts_with("# "));
    let mut found = BTreeMap::new();
    for line in section.filter_map(|line| line.strip_prefix("- ")) {
        let (providers, reason) =
            line.split_once(": ").unwrap_or_else(|| panic!("{}: `- `provider`: reason`, not {line}", meta.code));
        for provider in providers.split(',') {
            found.insert(provider.trim().trim_matches('`').to_owned(), reason.to_owned());
        }
    }
    found
}

/// The table of policies and providers.
fn index(examples: &[Example], table: &BTreeMap<(String, &'static str), BTreeSet<String>>) -> String {
    let mut page = String::from(
        "# Policies\n\nMade from the heads of `src/engine/policy`; do not edit. A cell names the examples that run for that provider: first \
         those that violate, then those that hold. Where there is none, a note says why.\n\n",
    );
    page.push_str(&catalogue("", &table_link));
    page.push_str("\n| |");
    Provider::ALL.iter().for_each(|p| page.push_str(&format!(" {} |", p.name())));
    page.push_str("\n|---|---|---|---|---|---|---|---|---|\n");
    let mut notes = Vec::new();
    for meta in Policies::catalogue() {
        let why = reasons(meta);
        let mut row = format!("| [{}]({}.md) |", meta.code, meta.code);
        for provider in Provider::ALL {
            let of = |holds: bool| {
                let own = examples.iter().filter(|e| e.code == meta.code && e.holds() == holds);
                let ran = own.filter(|e| table.contains_key(&(e.name.clone(), provider.name())));
                ranges(ran.filter_map(|e| e.name.split('/').nth(1)?.parse().ok()))
            };
            let (violating, holding) = (of(false), of(true));
            let cell = match (violating.is_empty() || holding.is_empty(), why.get(provider.name())) {
                (false, None) => format!("{violating} · {holding}"),
                (true, Some(reason)) => {
                    let known = notes.iter().position(|note| note == reason);
                    let n = known.unwrap_or_else(|| {
                        notes.push(reason.clone());
                        notes.len() - 1
                    });
                    format!("note {}", n + 1)
                }
                (true, None) => panic!(
                    "{} has no violating or no holding example for {}, and does not say why under `# Does not apply`",
                    meta.code,
                    provider.name()
                ),
                (false, Some(_)) => {
                    panic!("{} says that it does not apply to {}, and has examples for it", meta.code, provider.name())
                }
            };
            row.push_str(&format!(" {cell} |"));
        }
        let _ = writeln!(page, "{row}");
    }
    let _ = write!(
        page,
        "\n## How an example reads\n\nIt is a transcript without any provider's shapes; the test writes it down in those of each. `SG01/3` is the third \
         example of that page. TEXT is JSON, and `<<3*ab>>` is `ababab`.\n\n{}",
        steps()
    );
    if !notes.is_empty() {
        page.push_str("\nNotes:\n\n");
        notes.iter().enumerate().for_each(|(n, note)| page.push_str(&format!("{}. {note}\n", n + 1)));
    }
    page
}

/// `1-4 7`
fn ranges(numbers: impl Iterator<Item = u32>) -> String {
    let mut found: Vec<(u32, u32)> = Vec::new();
    for n in numbers {
        match found.last_mut() {
            Some((_, last)) if *last + 1 == n => *last = n,
            _ => found.push((n, n)),
        }
    }
    let shown = |(a, b): (u32, u32)| if a == b { a.to_string() } else { format!("{a}-{b}") };
    found.into_iter().map(shown).collect::<Vec<_>>().join(" ")
}

/// The steps of an example, from the head of the file that runs them.
fn steps() -> String {
    let head = include_str!("examples.rs").lines().map_while(|line| line.strip_prefix("//!"));
    let rows = head.map(str::trim).filter(|line| line.starts_with('|'));
    rows.map(|row| format!("{row}\n")).collect()
}

fn table_link(meta: &Meta) -> String {
    format!("{}.md", meta.code)
}

fn catalogue(before: &str, link: &dyn Fn(&Meta) -> String) -> String {
    let mut rows = format!("{before}| policy | | what holds | checklist |\n|---|---|---|---|\n");
    for meta in Policies::catalogue() {
        let _ = writeln!(
            rows,
            "| [{}]({}) | `{}` | {} | {} |",
            meta.code,
            link(meta),
            meta.name,
            meta.summary,
            meta.checklist
        );
    }
    rows
}

#[test]
fn the_pages_of_the_policies_are_fresh() {
    let examples = examples::all();
    let table = examples::table();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::create_dir_all(POLICIES).unwrap_or_else(|e| panic!("{POLICIES}: {e}"));
    }
    for meta in std::iter::once(&SG00).chain(Policies::catalogue().iter().copied()) {
        fresh(&format!("{POLICIES}/{}.md", meta.code), &policy_page(meta, &examples, &table));
    }
    fresh(&format!("{POLICIES}/README.md"), &index(&examples, &table));
    let readme = std::fs::read_to_string(README).unwrap_or_default();
    let (begin, end) = ("<!-- policies -->\n", "<!-- /policies -->");
    let (before, rest) = readme.split_once(begin).unwrap_or_else(|| panic!("README.md has no {begin}"));
    let (_, after) = rest.split_once(end).unwrap_or_else(|| panic!("README.md has no {end}"));
    let rows = catalogue("", &|meta| format!("docs/policies/{}.md", meta.code));
    fresh(README, &format!("{before}{begin}{rows}{end}{after}"));
}

/// Every row of `docs/checklist.md` names examples that run.
#[test]
fn every_line_of_the_checklist_is_shown_by_an_example() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/checklist.md");
    let page = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let (examples, table) = (examples::all(), examples::table());
    let runs =
        |example: &Example, provider: &str| table.keys().any(|(name, p)| *name == example.name && *p == provider);
    let (mut rows, mut missing) = (0, Vec::new());
    for row in page.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |")) {
        let [.., judged, providers] = row.split(" | ").collect::<Vec<_>>()[..] else { continue };
        if !judged.starts_with("SG") {
            continue;
        }
        rows += 1;
        let all: Vec<&str> = Provider::ALL.iter().map(|p| p.name()).collect();
        let providers = if providers == "every" { all } else { providers.split(", ").collect() };
        let mut code = "";
        for word in judged.split([' ', ',']).filter(|word| !word.is_empty()) {
            if word.starts_with("SG") {
                code = word;
                continue;
            }
            let rule = word.trim_matches('`');
            let shows = |example: &&Example| match word {
                "holds" => example.holds(),
                _ => example.rules.iter().any(|known| known == rule),
            };
            for provider in &providers {
                let mut own = examples.iter().filter(|example| example.code == code).filter(shows);
                if !own.any(|example| runs(example, provider)) {
                    missing.push(format!("{code} {rule} for {provider}"));
                }
            }
        }
    }
    assert!(rows > 30, "{rows} rows read");
    assert!(missing.is_empty(), "no example runs: {}", missing.join("; "));
}
