//! `docs/providers.md` is made of the heads of the provider files, so that what is documented is what is read.
//!
//! `UPDATE=1 cargo test` writes the page.

use sluicegate::engine::provider::Provider;
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
