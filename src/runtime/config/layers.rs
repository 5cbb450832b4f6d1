//! Files and environment as one tree of leaves, and what of it the structs take.
//!
//! Each leaf is laid alone over the defaults and deserialised, so that one that does not fit hides no other.
//! Invariant: a problem never shows the value of a key that is not known.

use super::{Config, problem};
use crate::engine::Problem;
use config::{Environment, FileFormat, ValueKind};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashMap};
use yaml_rust2::scanner::{Scanner, Token, TokenType};

/// Files, each with its name, and environment as one tree; what is later wins, key by key. All files that are not YAML
/// are told.
pub(super) fn merged(files: &[(String, String)], env: HashMap<String, String>) -> Result<Tree, Vec<Problem>> {
    let unread = |name: &str, e: &config::ConfigError| {
        // A file that is something else may be a secret: what stands in it is not shown.
        let why = match e.to_string() {
            text if text.starts_with("invalid type") => "no keys stand at its top".to_owned(),
            text => text,
        };
        problem("--config", format!("{name}: not YAML: {why}"))
    };
    let mut all = Tree::Table(BTreeMap::new());
    let mut problems = Vec::new();
    for (name, text) in files {
        if let Some(why) = refused(text) {
            problems.push(problem("--config", format!("{name}: {why}")));
            continue;
        }
        match config::Source::collect(&config::File::from_str(text, FileFormat::Yaml)) {
            Ok(table) => match Tree::of(table) {
                Ok(layer) => all.lay(layer),
                Err(twice) => problems.extend(twice),
            },
            Err(e) => problems.push(unread(name, &e)),
        }
    }
    problems.extend(one_key_twice(&env));
    let env = Environment::with_prefix("SLUICEGATE").prefix_separator("__").separator("__").source(Some(env));
    let built = config::Config::builder().add_source(env).build();
    match built.and_then(|env| config::Source::collect(&env)) {
        Ok(table) => match Tree::of(table) {
            Ok(layer) => all.lay(layer),
            Err(twice) => problems.extend(twice),
        },
        Err(e) => problems.push(problem("environment", e.to_string())),
    }
    if problems.is_empty() { Ok(all) } else { Err(problems) }
}

/// Variables that differ by case alone mean the same key, and nobody could say which of them counts.
fn one_key_twice(env: &HashMap<String, String>) -> Vec<Problem> {
    let mut keys: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for name in env.keys().filter(|name| name.to_uppercase().starts_with("SLUICEGATE__")) {
        keys.entry(name.to_uppercase()).or_default().push(name);
    }
    let twice = |names: &mut Vec<&str>| {
        names.sort_unstable();
        problem("environment", format!("{}: the same key; set one of them", names.join(", ")))
    };
    keys.into_values().filter(|names| names.len() > 1).map(|mut names| twice(&mut names)).collect()
}

/// What a reader of YAML would cut short or blow up: text behind a zero byte, and names for values, of which a few
/// lines can make gigabytes.
fn refused(text: &str) -> Option<String> {
    if let Some(line) = text.lines().position(|line| line.contains('\0')) {
        return Some(format!("line {} holds a zero byte; nothing behind it would be read", line + 1));
    }
    let alias = Scanner::new(text.chars()).find(|Token(_, token)| matches!(token, TokenType::Alias(_)))?;
    Some(format!("line {} uses an alias (`*name`); write the value out", alias.0.line()))
}

/// A merged value and where it came from.
#[derive(Debug)]
pub(super) enum Tree {
    Leaf(Value, bool),
    Table(BTreeMap<String, Tree>),
}

impl Tree {
    fn from(value: config::Value) -> Tree {
        let from_env = value.origin().is_some_and(|o| o.contains("environment"));
        match value.kind {
            ValueKind::Table(table) => Tree::Table(table.into_iter().map(|(k, v)| (k, Tree::from(v))).collect()),
            kind => Tree::Leaf(plain(kind), from_env),
        }
    }

    /// The names of its sections.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let table = if let Tree::Table(table) = self { Some(table) } else { None };
        table.into_iter().flat_map(|table| table.keys()).map(String::as_str)
    }

    pub(super) fn has(&self, path: &[&str]) -> bool {
        match (path, self) {
            ([], _) => true,
            ([key, rest @ ..], Tree::Table(table)) => table.get(*key).is_some_and(|tree| tree.has(rest)),
            (_, Tree::Leaf(..)) => false,
        }
    }

    /// What one file or the environment says.
    fn of(table: impl IntoIterator<Item = (String, config::Value)>) -> Result<Tree, Vec<Problem>> {
        let mut tree = Tree::Table(table.into_iter().map(|(key, value)| (key, Tree::from(value))).collect());
        let mut problems = Vec::new();
        tree.renamed(&mut problems);
        if problems.is_empty() { Ok(tree) } else { Err(problems) }
    }

    /// Lays a later tree over this one.
    fn lay(&mut self, later: Tree) {
        match (self, later) {
            (Tree::Table(own), Tree::Table(later)) => {
                for (key, value) in later {
                    match own.get_mut(&key) {
                        Some(known) => known.lay(value),
                        None => drop(own.insert(key, value)),
                    }
                }
            }
            // A section with nothing in it, all of it commented out, says nothing.
            (Tree::Table(_), Tree::Leaf(Value::Null, _)) => {}
            (own, later) => *own = later,
        }
    }

    fn child(&mut self, key: &str) -> Option<&mut Tree> {
        match self {
            Tree::Table(table) => table.get_mut(key),
            Tree::Leaf(..) => None,
        }
    }

    /// Names that an environment variable cannot spell: policy codes are upper case, properties have dots.
    fn renamed(&mut self, problems: &mut Vec<Problem>) {
        let mut respell = |path: &str, at: Option<&mut Tree>, spell: fn(&str) -> String| {
            let Some(Tree::Table(table)) = at else { return };
            for (key, value) in std::mem::take(table) {
                let name = spell(&key);
                if table.contains_key(&name) {
                    problems.push(problem(&format!("{path}.{name}"), "stands twice, in two spellings: keep one"));
                }
                table.insert(name, value);
            }
        };
        respell("policy.policies", self.child("policy").and_then(|t| t.child("policies")), str::to_uppercase);
        if let Some(Tree::Table(overrides)) = self.child("policy").and_then(|t| t.child("overrides")) {
            for (name, own) in overrides {
                respell(&format!("policy.overrides.{name}.policies"), own.child("policies"), str::to_uppercase);
            }
        }
        respell("kafka.properties", self.child("kafka").and_then(|t| t.child("properties")), |k| k.replace('_', "."));
    }
}

fn plain(kind: ValueKind) -> Value {
    match kind {
        ValueKind::Nil => Value::Null,
        ValueKind::Boolean(b) => b.into(),
        ValueKind::I64(n) => n.into(),
        ValueKind::U64(n) => n.into(),
        ValueKind::I128(n) => i64::try_from(n).map_or_else(|_| n.to_string().into(), Value::from),
        ValueKind::U128(n) => u64::try_from(n).map_or_else(|_| n.to_string().into(), Value::from),
        ValueKind::Float(f) => f.into(),
        ValueKind::String(s) => s.into(),
        ValueKind::Table(t) => t.into_iter().map(|(k, v)| (k, plain(v.kind))).collect::<Map<_, _>>().into(),
        ValueKind::Array(a) => a.into_iter().map(|v| plain(v.kind)).collect::<Vec<_>>().into(),
    }
}

pub(super) fn flatten(tree: &Tree, path: &mut Vec<String>, leaves: &mut Vec<(Vec<String>, Value, bool)>) {
    match tree {
        Tree::Leaf(value, from_env) => leaves.push((path.clone(), value.clone(), *from_env)),
        // An empty table may stand where a map is meant (`fleets: {support: {}}`).
        Tree::Table(table) if table.is_empty() && !path.is_empty() => {
            leaves.push((path.clone(), Value::Object(Map::new()), false));
        }
        Tree::Table(table) => {
            for (key, value) in table {
                path.push(key.clone());
                flatten(value, path, leaves);
                path.pop();
            }
        }
    }
}

/// The first spelling of a leaf that the structs take.
pub(super) fn fitting(defaults: &Value, path: &[String], leaf: &Value, from_env: bool) -> Result<Value, String> {
    let mut spellings = vec![leaf.clone()];
    let property = path.len() == 3 && path[0] == "kafka" && path[1] == "properties";
    match leaf {
        // A section with nothing in it (`kafka:`) reads as null: its defaults hold.
        Value::Null if path.len() < 3 => spellings.insert(0, Value::Object(Map::new())),
        Value::Number(n) if property => spellings.push(n.to_string().into()),
        Value::Bool(b) if property => spellings.push(b.to_string().into()),
        Value::String(text) if from_env => {
            if let Ok(value) = serde_json::from_str(text) {
                spellings.push(value);
            }
            let list: Vec<Value> = text.split(',').map(str::trim).filter(|t| !t.is_empty()).map(Value::from).collect();
            spellings.push(list.into());
        }
        _ => {}
    }
    let mut first = None;
    for spelling in spellings {
        let mut tree = defaults.clone();
        put(&mut tree, path, spelling.clone());
        match serde_json::from_value::<Config>(tree) {
            Ok(_) => return Ok(spelling),
            Err(e) => first = first.or(Some(e.to_string())),
        }
    }
    let error = first.unwrap_or_default();
    if leaf.is_null() && !error.starts_with("unknown field") {
        return Err("nothing stands there; give a value, or leave the key out".to_owned());
    }
    // What is no word at all where one of a few is wanted: serde names them only to a word that is none.
    if error.contains("expected string or map") {
        let mut tree = defaults.clone();
        put(&mut tree, path, Value::from(""));
        let told = serde_json::from_value::<Config>(tree).err().map(|e| e.to_string());
        if let Some((_, words)) = told.as_deref().and_then(|told| told.split_once(", expected ")) {
            return Err(format!("must be {words}"));
        }
    }
    Err(error)
}

/// Sets a leaf, making tables on the way. A value that is no table gives way to one.
pub(super) fn put(tree: &mut Value, path: &[String], value: Value) {
    let mut at = tree;
    for key in path {
        if !at.is_object() {
            *at = Value::Object(Map::new());
        }
        let Value::Object(table) = at else { return };
        at = table.entry(key.clone()).or_insert(Value::Null);
    }
    // An empty table adds nothing to a table that is there.
    if !(value == Value::Object(Map::new()) && at.is_object()) {
        *at = value;
    }
}

/// Path and text of a leaf that does not fit.
pub(super) fn unfit(path: &[String], leaf: &Value, error: &str) -> (String, String) {
    if let Some(rest) = error.strip_prefix("unknown field `")
        && let Some((field, expected)) = rest.split_once('`')
        && let Some(at) = path.iter().position(|p| p == field)
    {
        let expected = expected.trim_start_matches(", ").replace('`', "");
        return (path[..=at].join("."), format!("unknown key: {expected}"));
    }
    let shown = match leaf {
        Value::Object(_) => "a table".into(),
        other => other.to_string(),
    };
    let error = error.replace('`', "");
    (path.join("."), format!("{shown}: {error}"))
}
