//! The documentation of configuration structs, read from their own source.
//!
//! Fields stand on a line each, documented above; [`Source`] reads no more of Rust than that. The reference page and
//! the schema of the configuration say the same words, because both are made from these.

use std::collections::BTreeMap;

/// The files that hold what a configuration file may name.
const FILES: [&str; 5] = [
    include_str!("../config/sections.rs"),
    include_str!("../../engine/mod.rs"),
    include_str!("../../engine/policy/mod.rs"),
    include_str!("../../engine/policy/scope.rs"),
    include_str!("../../engine/policy/sg04_argument_checks/operator.rs"),
];

/// A field: its type as it is written, and its documentation.
#[derive(Clone)]
pub struct Field {
    pub name: String,
    pub kind: String,
    pub doc: String,
}

#[derive(Clone, Default)]
pub struct Source {
    pub structs: BTreeMap<String, Vec<Field>>,
    /// What each is for, from its documentation.
    pub about: BTreeMap<String, String>,
    pub enums: BTreeMap<String, Vec<String>>,
}

impl Source {
    pub fn read() -> Source {
        let mut source = Source::default();
        FILES.iter().for_each(|text| source.add(text));
        source
    }

    /// What a field is for; empty where nothing is said.
    pub fn of(&self, of: &str, field: &str) -> &str {
        let fields = self.structs.get(of).map(Vec::as_slice).unwrap_or_default();
        let found = fields.iter().find(|f| f.name == field);
        let own = found.map_or("", |f| f.doc.as_str());
        match own.is_empty() {
            // A section says what it is for at its struct.
            true => found.and_then(|f| self.about.get(inner(&f.kind))).map_or("", String::as_str),
            false => own,
        }
    }

    fn add(&mut self, text: &str) {
        let (mut doc, mut rename): (Vec<String>, Option<String>) = Default::default();
        // Whether what is open is a struct, and its name.
        let mut open: Option<(bool, String)> = None;
        let mut skipped = false;
        for line in text.lines() {
            let within = line.trim();
            if let Some(words) = within.strip_prefix("///") {
                doc.push(words.trim().to_owned());
                continue;
            }
            if within.starts_with("#[") {
                skipped |= within == "#[serde(skip)]";
                rename = within
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
                    self.structs.entry(name.clone()).or_default();
                    self.about.insert(name.clone(), said);
                    open = line.ends_with('{').then_some((true, name));
                }
                (None, _, Some(name)) if line.ends_with('{') => {
                    self.enums.entry(name.clone()).or_default();
                    open = Some((false, name));
                }
                // No file can say it.
                (Some((true, _)), ..) if skipped => {}
                (Some((true, name)), ..) if within.starts_with("pub ") => {
                    let field = within.trim_start_matches("pub ").trim_start_matches("r#").trim_end_matches(',');
                    let (field, kind) = field.split_once(": ").unwrap_or((field, ""));
                    let field = Field { name: field.to_owned(), kind: kind.to_owned(), doc: said };
                    self.structs.entry(name.clone()).or_default().push(field);
                }
                (Some((false, name)), ..) if within.ends_with(',') => {
                    let variant = rename.take().unwrap_or_else(|| snake(within.trim_end_matches(',')));
                    self.enums.entry(name.clone()).or_default().push(variant);
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
pub fn inner(kind: &str) -> &str {
    let kind = kind.trim().strip_prefix("std::collections::").unwrap_or(kind.trim());
    ["Option<", "Vec<", "BTreeMap<String, "]
        .iter()
        .find_map(|wrap| kind.strip_prefix(wrap)?.strip_suffix('>'))
        .map_or(kind, inner)
}
