//! `docs/configuration.md`: every key, its default and what it does, read from the structs that are the schema.

use crate::fixture::root;
use serde_json::Value;
use sluicegate::runtime::config::Config;
use std::collections::BTreeMap;
use std::fmt::Write as _;

const SOURCES: [&str; 4] =
    ["src/runtime/config/sections.rs", "src/engine/mod.rs", "src/engine/policy/mod.rs", "src/engine/policy/scope.rs"];

/// A field: its type as it is written, and its documentation.
struct Field {
    name: String,
    kind: String,
    doc: String,
}

#[derive(Default)]
struct Source {
    structs: BTreeMap<String, Vec<Field>>,
    /// What each is for, from its documentation.
    about: BTreeMap<String, String>,
    enums: BTreeMap<String, Vec<String>>,
}

/// Reads the structs and enums of the source files: their fields stand on a line each, documented above.
fn source() -> Source {
    let mut source = Source::default();
    for path in SOURCES {
        let text = std::fs::read_to_string(root(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
        let (mut doc, mut rename, mut open): (Vec<String>, Option<String>, Option<(bool, String)>) = Default::default();
        let mut skipped = false;
        for line in text.lines() {
            let inner = line.trim();
            if let Some(words) = inner.strip_prefix("///") {
                doc.push(words.trim().to_owned());
                continue;
            }
            if inner.starts_with("#[") {
                skipped |= inner == "#[serde(skip)]";
                rename = inner
                    .strip_prefix("#[serde(rename = \"")
                    .and_then(|r| r.split('"').next())
                    .map(str::to_owned)
                    .or(rename);
                continue;
            }
            let head = |word: &str| {
                let name = line.strip_prefix(word)?.split([' ', '<', '(']).next()?;
                Some(name.to_owned())
            };
            let said = doc.join(" ");
            match (&open, head("pub struct "), head("pub enum ")) {
                (None, Some(name), _) if line.ends_with('{') || line.ends_with("{}") => {
                    source.structs.entry(name.clone()).or_default();
                    source.about.insert(name.clone(), said);
                    open = line.ends_with('{').then_some((true, name));
                }
                (None, _, Some(name)) if line.ends_with('{') => {
                    source.enums.entry(name.clone()).or_default();
                    open = Some((false, name));
                }
                // No file can say it.
                (Some((true, _)), ..) if skipped => {}
                (Some((true, name)), ..) if inner.starts_with("pub ") => {
                    let field = inner.trim_start_matches("pub ").trim_start_matches("r#").trim_end_matches(',');
                    let (field, kind) = field.split_once(": ").unwrap_or((field, ""));
                    let field = Field { name: field.to_owned(), kind: kind.to_owned(), doc: said };
                    source.structs.entry(name.clone()).or_default().push(field);
                }
                (Some((false, name)), ..) if inner.ends_with(',') => {
                    let variant = rename.take().unwrap_or_else(|| snake(inner.trim_end_matches(',')));
                    source.enums.entry(name.clone()).or_default().push(variant);
                }
                _ => {}
            }
            if line == "}" {
                open = None;
            }
            doc.clear();
            rename = None;
            skipped = false;
        }
    }
    source
}

fn snake(name: &str) -> String {
    let mut out = String::new();
    for (n, c) in name.chars().enumerate() {
        if c.is_uppercase() && n > 0 {
            out.push('_');
        }
        out.extend(c.to_lowercase());
    }
    out
}

/// The type inside `Option<…>`, `Vec<…>`, `BTreeMap<String, …>`.
fn inner(kind: &str) -> &str {
    let kind = kind.trim().strip_prefix("std::collections::").unwrap_or(kind.trim());
    ["Option<", "Vec<", "BTreeMap<String, "]
        .iter()
        .find_map(|wrap| kind.strip_prefix(wrap)?.strip_suffix('>'))
        .map_or(kind, inner)
}

fn write(source: &Source, of: &str, path: &str, defaults: Option<&Value>, page: &mut String) {
    let fields = source.structs.get(of).map(Vec::as_slice).unwrap_or_default();
    let nested = |field: &Field| source.structs.get(inner(&field.kind)).is_some_and(|own| !own.is_empty());
    let mut rows = String::new();
    for field in fields.iter().filter(|field| !nested(field)) {
        assert!(!field.doc.is_empty(), "{of}::{} is a key without a word of what it does", field.name);
        let kind = inner(&field.kind);
        let default = defaults.and_then(|d| d.get(&field.name)).filter(|d| !d.is_null());
        let default = default.map_or("–".to_owned(), |d| format!("`{d}`"));
        let values = source.enums.get(kind).map(|all| format!(" One of `{}`.", all.join("`, `"))).unwrap_or_default();
        let _ = writeln!(rows, "| `{}{}` | {default} | {}{values} |", path, field.name, field.doc.replace('|', "\\|"));
    }
    if !rows.is_empty() {
        let about = source.about.get(of).filter(|about| !about.is_empty());
        let title = if path.is_empty() { "Top level".to_owned() } else { format!("`{}`", path.trim_end_matches('.')) };
        let _ = writeln!(page, "\n## {title}\n");
        about.into_iter().for_each(|about| page.push_str(&format!("{about}\n\n")));
        let _ = write!(page, "| key | default | |\n|---|---|---|\n{rows}");
    }
    for field in fields.iter().filter(|field| nested(field)) {
        let kind = inner(&field.kind);
        let many = if field.kind.contains("BTreeMap<") {
            "<name>."
        } else if field.kind.contains("Vec<") {
            "[]."
        } else {
            ""
        };
        let path =
            if many == "[]." { format!("{path}{}[].", field.name) } else { format!("{path}{}.{many}", field.name) };
        let own = defaults.and_then(|d| d.get(&field.name)).filter(|_| many.is_empty());
        write(source, kind, &path, own, page);
    }
}

#[test]
fn the_configuration_reference_is_fresh() {
    let source = source();
    let defaults = serde_json::to_value(Config::default()).unwrap_or_else(|e| panic!("{e}"));
    let mut page = String::from(
        "# Configuration\n\nMade from the structs that read it; do not edit. The file is YAML. `--config` may be given several times: the later file wins, key by key. Each key can also be set from the environment: \
         `SLUICEGATE__`, then its path in upper case with two underscores between the parts, as in `SLUICEGATE__KAFKA__GROUP=gate-2`. An \
         unknown key is an error that names its path; all problems of a file are listed at once (`sluicegate validate`). `–`: no default. The \
         options of each policy, with their bounds, stand on its [page](policies/README.md).\n",
    );
    write(&source, "Config", "", Some(&defaults), &mut page);
    let sections = defaults.as_object().map(|o| o.keys().cloned().collect::<Vec<_>>()).unwrap_or_default();
    assert!(sections.iter().all(|s| page.contains(&format!("`{s}"))), "{sections:?}");
    crate::docs::fresh("docs/configuration.md", &page);
}
