//! JSON Schemas of tools: compiled once, bounded in every direction.
//!
//! A schema comes from a tool server or from a request, so it is hostile until shown otherwise. Before the
//! library sees it, [`survey`] bounds what validating can cost; the library gets a retriever that refuses
//! everything (no file, no network), and the linear-time regex engine. Only a pattern which that engine cannot
//! express (look-around, which zod writes) goes to the backtracking one, with a small step limit and for short
//! instances only; a longer one is held against the schema without such patterns ([`linear`]), so that its
//! length switches off nothing else.
//!
//! Dialect by `$schema`, 2020-12 if there is none; Gemini's own is translated into that ([`gemini`]). `format` asserts only if asked.
//!
//! Left out: listing violations of schemas that are recursive through alternatives. Deciding is memoised and
//! cheap; explaining visits every alternative at every level, which is exponential in the depth.

mod gemini;
mod linear;
mod survey;

use crate::engine::json::{JsonLimits, Kind, Value as Json, parse};
use crate::engine::layer::Layer;
use bumpalo::Bump;
use jsonschema::{PatternOptions, Retrieve, Uri, ValidationError, Validator};
use serde_json::{Map, Number, Value};
use sha2::{Digest, Sha256};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use survey::survey;

/// Schemas above this many bytes are not compiled.
pub const MAX_SCHEMA_BYTES: usize = 256 << 10;
/// Schemas that are kept compiled.
const KEPT: usize = 512;
/// Longer instances are not held against a schema that needs the backtracking engine: each of its steps can
/// cost the length of a string.
const MAX_BACKTRACKED_BYTES: usize = 8 << 10;
/// Instances with more values than this get their first violation listed, not all.
const MAX_LISTED_VALUES: usize = 20_000;

/// What a schema is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    JsonSchema,
    Gemini,
}

/// Compiled JSON Schemas by digest of their text, bounded. Interior mutability: one worker owns it.
#[derive(Default)]
pub struct SchemaCache {
    kept: RefCell<Kept>,
}

#[derive(Default)]
struct Kept {
    by_digest: HashMap<[u8; 32], (u64, Arc<Compiled>)>,
    clock: u64,
}

impl SchemaCache {
    /// The schema compiled, from the cache or now.
    pub fn get(&self, schema: &[u8], formats: bool) -> Arc<Compiled> {
        self.get_in(Dialect::JsonSchema, schema, formats)
    }

    /// The same for a schema in that dialect.
    pub fn get_in(&self, dialect: Dialect, schema: &[u8], formats: bool) -> Arc<Compiled> {
        let how = [u8::from(formats), u8::from(dialect == Dialect::Gemini)];
        let digest: [u8; 32] = Sha256::new().chain_update(how).chain_update(schema).finalize().into();
        let kept = &mut *self.kept.borrow_mut();
        kept.clock += 1;
        if let Some((used, compiled)) = kept.by_digest.get_mut(&digest) {
            *used = kept.clock;
            return Arc::clone(compiled);
        }
        if kept.by_digest.len() >= KEPT
            && let Some(oldest) = kept.by_digest.iter().min_by_key(|(_, (used, _))| *used).map(|(digest, _)| *digest)
        {
            kept.by_digest.remove(&oldest);
        }
        let compiled = Arc::new(Compiled::new(dialect, schema, formats));
        kept.by_digest.insert(digest, (kept.clock, Arc::clone(&compiled)));
        compiled
    }

    /// Schemas that are kept now.
    pub fn len(&self) -> usize {
        self.kept.borrow().by_digest.len()
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl std::fmt::Debug for SchemaCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SchemaCache").field("kept", &self.len()).finish()
    }
}

/// A schema that was compiled, or the reason why not.
pub struct Compiled {
    outcome: Result<Ready, &'static str>,
}

struct Ready {
    validator: Validator,
    /// Violations can be listed at a bounded cost.
    listable: bool,
    /// A pattern needs the backtracking engine: the schema without such patterns, if it can be had.
    relaxed: Option<Option<Validator>>,
}

/// Where an instance violates its schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// RFC 6901, from the instance's root.
    pub pointer: String,
    /// Of a closed list.
    pub keyword: &'static str,
    /// Members of the value at `pointer` that may not be there.
    pub unexpected: Vec<String>,
    /// The member of the value at `pointer` that must be there and is not.
    pub missing: Option<String>,
}

impl Compiled {
    /// Compiled or refused; schemas of requests go through the cache instead.
    pub fn new(dialect: Dialect, schema: &[u8], formats: bool) -> Compiled {
        Compiled { outcome: compile(dialect, schema, formats) }
    }

    /// Why the schema cannot be used: a label of a closed set.
    pub fn flaw(&self) -> Option<&'static str> {
        self.outcome.as_ref().err().copied()
    }

    /// The same in words, for whoever wrote the schema: where in it, and what is wrong there. It may quote the schema.
    pub fn problem(schema: &Value, formats: bool) -> Option<String> {
        let flaw = Compiled::new(Dialect::JsonSchema, schema.to_string().as_bytes(), formats).flaw()?;
        let said = match flaw {
            "too_large" => format!("longer than {MAX_SCHEMA_BYTES} bytes"),
            "malformed" => "nests deeper, holds more values or larger numbers than can be read".to_owned(),
            "cyclic" => "a $ref leads back to where it stands, so no value would ever be decided".to_owned(),
            "too_deep" => "subschemas nest too deeply, references followed".to_owned(),
            "too_complex" => "too many subschemas would look at one value".to_owned(),
            "unsupported" => "$dynamicRef, $recursiveRef and an $id below the root are not read".to_owned(),
            _ => {
                let options = jsonschema::options().with_retriever(Refuse).should_validate_formats(formats);
                let error = options.build(schema).err();
                return Some(error.map_or_else(|| named(flaw), |error| in_words(flaw, &error)));
            }
        };
        Some(format!("{} ({said})", named(flaw)))
    }

    /// Why the schema cannot be used, or not in full, for an instance of this many bytes.
    pub fn flaw_for(&self, bytes: usize) -> Option<&'static str> {
        match &self.outcome {
            Ok(ready) => (ready.relaxed.is_some() && bytes > MAX_BACKTRACKED_BYTES).then_some("pattern"),
            Err(flaw) => Some(flaw),
        }
    }

    /// Whether the instance is valid; a schema that cannot be used holds for everything.
    pub fn accepts(&self, instance: &Value) -> bool {
        self.outcome.as_ref().map_or(true, |ready| ready.validator.is_valid(instance))
    }

    /// The first `most` violations by an instance of this many bytes, of what [`Compiled::flaw_for`] leaves; at
    /// least one if the instance is not valid.
    pub fn violations(&self, instance: &Value, bytes: usize, most: usize) -> Vec<Violation> {
        let Ok(ready) = &self.outcome else { return Vec::new() };
        let validator = match &ready.relaxed {
            Some(relaxed) if bytes > MAX_BACKTRACKED_BYTES => relaxed.as_ref(),
            _ => Some(&ready.validator),
        };
        let Some(validator) = validator else { return Vec::new() };
        if validator.is_valid(instance) {
            return Vec::new();
        }
        let mut found = Vec::new();
        if ready.listable && count(instance, MAX_LISTED_VALUES) < MAX_LISTED_VALUES {
            found.extend(validator.iter_errors(instance).take(most).map(|error| violation(&error)));
        } else if ready.listable
            && let Err(error) = validator.validate(instance)
        {
            found.push(violation(&error));
        }
        if found.is_empty() {
            found.push(Violation { pointer: String::new(), keyword: "$ref", unexpected: Vec::new(), missing: None });
        }
        found
    }
}

fn named(flaw: &str) -> String {
    format!("it cannot be used: {flaw}")
}

/// What the library says of a schema, and where.
fn in_words(flaw: &str, error: &ValidationError<'_>) -> String {
    const MOST: usize = 200;
    use jsonschema::error::ValidationErrorKind as K;
    let pointer = error.instance_path().as_str();
    let at = if pointer.is_empty() { String::new() } else { format!(" at {pointer}") };
    let reason = match error.kind() {
        K::Format { format } if format == "regex" => format!("{} is no regular expression", error.instance()),
        K::AnyOf { .. } if pointer.ends_with("/type") || pointer == "/type" => {
            format!("{} is none of array, boolean, integer, null, number, object, string", error.instance())
        }
        _ => error.to_string(),
    };
    let end = reason.char_indices().nth(MOST).map_or(reason.len(), |(end, _)| end);
    let reason = reason.get(..end).unwrap_or_default();
    format!("{}{at} ({reason})", named(flaw))
}

/// Values in an instance, counted up to `most`.
fn count(instance: &Value, most: usize) -> usize {
    let mut open = vec![instance];
    let mut seen = 0;
    while let Some(value) = open.pop() {
        seen += 1;
        if seen >= most {
            break;
        }
        match value {
            Value::Array(items) => open.extend(items),
            Value::Object(members) => open.extend(members.values()),
            _ => {}
        }
    }
    seen
}

fn violation(error: &ValidationError<'_>) -> Violation {
    use jsonschema::error::ValidationErrorKind as K;
    let unexpected = match error.kind() {
        K::AdditionalProperties { unexpected } | K::UnevaluatedProperties { unexpected } => unexpected.clone(),
        _ => Vec::new(),
    };
    let missing = match error.kind() {
        K::Required { property } => property.as_str().map(str::to_owned),
        _ => None,
    };
    Violation {
        pointer: error.instance_path().as_str().to_owned(),
        keyword: keyword(error.kind().keyword()),
        unexpected,
        missing,
    }
}

/// The library's keywords as a closed list of our own.
fn keyword(found: &str) -> &'static str {
    const KNOWN: &[&str] = &[
        "additionalItems",
        "additionalProperties",
        "anyOf",
        "const",
        "contains",
        "contentEncoding",
        "contentMediaType",
        "enum",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "falseSchema",
        "format",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minItems",
        "minLength",
        "minProperties",
        "minimum",
        "multipleOf",
        "not",
        "oneOf",
        "pattern",
        "propertyNames",
        "required",
        "type",
        "unevaluatedItems",
        "unevaluatedProperties",
        "uniqueItems",
        "$ref",
    ];
    KNOWN.iter().find(|known| **known == found).copied().unwrap_or("other")
}

struct Refuse;

impl Retrieve for Refuse {
    fn retrieve(&self, _: &Uri<String>) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        Err("schemas are not fetched".into())
    }
}

fn compile(dialect: Dialect, schema: &[u8], formats: bool) -> Result<Ready, &'static str> {
    if schema.len() > MAX_SCHEMA_BYTES {
        return Err("too_large");
    }
    let bump = Bump::new();
    let limits = JsonLimits { depth: 64, nodes: 1 << 16 };
    let schema = parse(&bump, Layer::record(&bump, schema), limits).map_err(|_| "malformed")?;
    let schema = to_serde(schema).ok_or("malformed")?;
    let schema = if dialect == Dialect::Gemini { gemini::translated(schema) } else { schema };
    let listable = survey(&schema)?;
    let options = || jsonschema::options().with_retriever(Refuse).should_validate_formats(formats);
    let linear = || PatternOptions::regex().size_limit(256 << 10).dfa_size_limit(1 << 20);
    let backtracking = PatternOptions::fancy_regex().backtrack_limit(256).size_limit(256 << 10).dfa_size_limit(1 << 20);
    if let Ok(validator) = options().with_pattern_options(linear()).build(&schema) {
        return Ok(Ready { validator, listable, relaxed: None });
    }
    let validator = options().with_pattern_options(backtracking).build(&schema).map_err(|error| flaw(&error))?;
    let is_linear = |pattern: &str| {
        let one = serde_json::json!({ "pattern": pattern });
        options().with_pattern_options(linear()).build(&one).is_ok()
    };
    let relaxed = options().with_pattern_options(linear()).build(&linear::relaxed(&schema, &is_linear)).ok();
    Ok(Ready { validator, listable, relaxed: Some(relaxed) })
}

fn flaw(error: &ValidationError<'_>) -> &'static str {
    use jsonschema::error::ValidationErrorKind as K;
    match error.kind() {
        K::Referencing(_) => "reference",
        K::Format { .. } | K::Pattern { .. } => "pattern",
        _ => "invalid",
    }
}

/// A value as the schema library reads it; the last of two equal members counts. `None` if a number is not
/// finite or a string holds half a surrogate pair. Recursive: the parser bounds the depth.
pub(super) fn to_serde(value: Json<'_>) -> Option<Value> {
    Some(match value.kind() {
        Kind::Null => Value::Null,
        Kind::Bool => Value::Bool(value.bool()?),
        Kind::Number => Value::Number(number(value)?),
        Kind::String => Value::String(value.str()?.into_owned()),
        Kind::Array => Value::Array(value.items().map(to_serde).collect::<Option<_>>()?),
        Kind::Object => {
            let mut members = Map::new();
            for (key, member) in value.members() {
                members.insert(key.str()?.into_owned(), to_serde(member)?);
            }
            Value::Object(members)
        }
    })
}

fn number(value: Json<'_>) -> Option<Number> {
    if let Some(whole) = value.u64() {
        return Some(Number::from(whole));
    }
    if let Some(whole) = value.i64() {
        return Some(Number::from(whole));
    }
    Number::from_f64(std::str::from_utf8(value.raw()).ok()?.parse().ok()?)
}
