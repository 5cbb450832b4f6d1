//! Configuration: defaults, YAML files, then the environment; built, validated, and only then used.
//!
//! Purpose: an operator who made five mistakes reads five lines, each `path: value: what holds`, and
//! repairs them in one go. Place in the journey: before it; nothing here runs once a worker polls.
//!
//! How all problems are found at once: the merged tree is taken apart into its leaves, and each leaf is laid
//! alone over the defaults and deserialised. What fails is that leaf's problem, with serde's own words for
//! types and unknown keys; what passes is kept, and the ranges are checked on the sum of what passed. The
//! structs are the only schema. Environment values have no types of their own: text is tried first, then
//! number, boolean or list, and whichever the target takes is meant.
//!
//! Invariants: an unknown key is an error; a problem never shows the value of a key that is not known or
//! that may hold a secret; secrets are read from files only.
//!
//! Left out: `serde_path_to_error`, which stops at the first problem, and a hand-kept schema, which drifts.

mod check;
mod layers;
mod made;
mod properties;
mod sections;
mod units;

pub use properties::{DENIED_PROPERTIES, denied};
pub use sections::{
    BreakGlass, Canary, Config, EngineSection, Http, Kafka, Log, LogFormat, Mechanism, OnLoss, OnOffsetReset, Pins,
    Reload, Sasl, SecurityProtocol, Start, State, Topics, Worker,
};
pub use units::{Size, Time};

use crate::engine::Problem;
use layers::{Tree, fitting, flatten, merged, put, unfit};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// What a file may have at most: as much as a ConfigMap.
const MOST_BYTES: u64 = 1 << 20;
/// How many characters of a problem are shown, of its beginning and of its end.
const SHOWN: usize = 500;

/// What a command needs of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// The engine alone: `check`, `demo`.
    Engine,
    /// Brokers and topics too: `topics`.
    Kafka,
    /// All that `run` needs.
    Run,
}

/// What a configuration is for, by the sections that the files and the environment have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The service: it names brokers, or anything else that only `run` reads.
    Service,
    /// Policies alone, as `check` and `test` take them.
    Policies,
}

/// What `files` and `env` are for. Sections that are not known are a service's: whoever mistyped one meant it.
///
/// # Errors
/// A file cannot be read.
pub fn purpose(files: &[PathBuf], env: HashMap<String, String>) -> Result<Purpose, Vec<Problem>> {
    let tree = merged(&texts(files)?, env)?;
    let (mut policies, mut more) = (false, false);
    for section in tree.names() {
        match section {
            "policy" | "fleets" | "break_glass" => policies = true,
            "engine" | "log" => {}
            _ => more = true,
        }
    }
    let keyed = tree.has(&["engine", "fingerprint_key_file"]);
    Ok(if policies && !more && !keyed { Purpose::Policies } else { Purpose::Service })
}

/// Reads defaults, then each of `files`, then `SLUICEGATE__…` of `env`; what is later wins, key by key.
///
/// # Errors
/// Every problem of the files and the environment, in order of path.
pub fn load(files: &[PathBuf], env: HashMap<String, String>, need: Need) -> Result<Config, Vec<Problem>> {
    from_tree(&merged(&texts(files)?, env)?, need)
}

/// Each file's name and text. All that cannot be read are told.
fn texts(files: &[PathBuf]) -> Result<Vec<(String, String)>, Vec<Problem>> {
    let (mut texts, mut problems) = (Vec::new(), Vec::new());
    for path in files {
        let name = path.display().to_string();
        match read(path).and_then(|bytes| String::from_utf8(bytes).map_err(std::io::Error::other)) {
            Ok(text) => texts.push((name, text)),
            Err(e) => {
                problems.push(problem("--config", format!("{name}: {}; give the path of a YAML file", reason(&e))));
            }
        }
    }
    if problems.is_empty() { Ok(texts) } else { Err(problems) }
}

/// A file's bytes. What may have no end, or wait for a writer, or takes minutes to parse, is refused.
///
/// # Errors
/// It cannot be read, is no file, or is larger than [`MOST_BYTES`].
pub fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let about = std::fs::metadata(path)?;
    if !about.is_file() {
        return Err(std::io::Error::other("not a regular file"));
    }
    if about.len() > MOST_BYTES {
        return Err(std::io::Error::other(format!("{} bytes; at most {MOST_BYTES} are read", about.len())));
    }
    std::fs::read(path)
}

/// As [`load`], with one file's text.
///
/// # Errors
/// Every problem, in order of path.
pub fn from_text(text: &str, env: HashMap<String, String>, need: Need) -> Result<Config, Vec<Problem>> {
    from_tree(&merged(&[("configuration".into(), text.into())], env)?, need)
}

fn from_tree(tree: &Tree, need: Need) -> Result<Config, Vec<Problem>> {
    let mut leaves = Vec::new();
    flatten(tree, &mut Vec::new(), &mut leaves);
    let mut problems: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let defaults = serde_json::to_value(Config::default()).map_err(|e| vec![problem("defaults", e.to_string())])?;
    let mut sum = defaults.clone();
    for (path, leaf, from_env) in leaves {
        if leaf.is_array() && !from_env && is_table(&defaults, &path) {
            problems.insert(path.join("."), vec!["a list: must be a table of keys and values".to_owned()]);
            continue;
        }
        if let Some(found) = control(&path, &leaf) {
            problems.insert(path.join("."), vec![found]);
            continue;
        }
        match fitting(&defaults, &path, &leaf, from_env) {
            Ok(value) => put(&mut sum, &path, value),
            Err(error) => {
                let (path, text) = unfit(&path, &leaf, &error);
                problems.insert(path, vec![text]);
            }
        }
    }
    let config: Config = serde_json::from_value(sum).map_err(|e| vec![problem("configuration", e.to_string())])?;
    // An override without what could not be read of it looks emptier than it is.
    let unread: Vec<String> = problems.keys().cloned().collect();
    let follows = |p: &Problem| {
        p.path.starts_with("policy.overrides.")
            && unread.iter().any(|path| path.strip_prefix(&p.path).is_some_and(|rest| rest.starts_with('.')))
    };
    // What could not be read has its default now, of which nothing is said.
    for p in config.check(need).into_iter().filter(|p| !unread.contains(&p.path) && !follows(p)) {
        problems.entry(p.path).or_default().push(p.problem);
    }
    if problems.is_empty() {
        return Ok(config);
    }
    let each = |(path, all): (String, Vec<String>)| {
        all.into_iter().map(move |said| Problem { path: path.clone(), problem: short(&said) }).collect::<Vec<_>>()
    };
    Err(problems.into_iter().flat_map(each).collect())
}

/// A control character in what names things: clients would cut the text at a zero, logs would break at a new line.
/// People may write several lines of why they broke the glass; what policies take is theirs to judge.
fn control(path: &[String], leaf: &serde_json::Value) -> Option<String> {
    let free = path.first().is_some_and(|section| matches!(section.as_str(), "policy" | "break_glass"));
    let texts = leaf.as_str().into_iter().chain(leaf.as_array().into_iter().flatten().filter_map(|v| v.as_str()));
    let found = texts.flat_map(str::chars).find(|c| c.is_control())?;
    (!free).then(|| format!("holds the control character U+{:04X}; take it out", u32::from(found)))
}

/// Whether the structs have a table there. serde would take a list for it, and its values by their places.
fn is_table(defaults: &serde_json::Value, path: &[String]) -> bool {
    let default = path.iter().try_fold(defaults, |at, name| at.get(name));
    let names: Vec<&str> = path.iter().map(String::as_str).collect();
    let named = matches!(
        names.as_slice(),
        ["policy", "policies", _]
            | ["policy", "overrides", _]
            | ["policy", "overrides", _, "match"]
            | ["policy", "overrides", _, "policies", _]
            | ["fleets", _]
    );
    named || default.is_some_and(serde_json::Value::is_object)
}

/// `path: problem`, one a line.
pub fn listed(problems: &[Problem]) -> String {
    let mut out = String::new();
    for p in problems {
        let _ = writeln!(out, "  {}: {}", p.path, p.problem);
    }
    out
}

/// A problem of the engine's settings, where the file has them.
pub fn placed(p: Problem) -> Problem {
    let section = match p.path.split('.').next() {
        Some("policies" | "profile" | "bundle" | "overrides") => "policy.",
        Some("limits" | "redacted") => "engine.",
        _ => "",
    };
    Problem { path: format!("{section}{}", p.path), problem: p.problem }
}

/// Without the middle of a long value; what is wrong with it stands behind it.
fn short(text: &str) -> String {
    let head = text.char_indices().nth(SHOWN).map(|(at, _)| at);
    let tail = text.char_indices().nth_back(SHOWN).map(|(at, _)| at);
    match (head, tail) {
        (Some(head), Some(tail)) if head < tail => {
            format!("{}…({} bytes)…{}", &text[..head], tail - head, &text[tail..])
        }
        _ => text.to_owned(),
    }
}

fn problem(path: &str, problem: impl Into<String>) -> Problem {
    Problem { path: path.into(), problem: problem.into() }
}

/// The operating system's words without the error number.
fn reason(e: &std::io::Error) -> String {
    match e.kind() {
        std::io::ErrorKind::NotFound => "no such file".into(),
        std::io::ErrorKind::PermissionDenied => "permission denied".into(),
        _ => e.to_string(),
    }
}

fn plain_name(text: &str, most: usize) -> bool {
    !text.is_empty()
        && text.len() <= most
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}
