//! YAML as JSON values. What Helm writes quotes whatever YAML 1.1 and 1.2 read differently.

use serde_json::{Map, Number, Value};
use yaml_rust2::{Yaml, YamlLoader};

/// The documents of a stream, without empty ones.
pub fn documents(text: &str) -> Vec<Value> {
    let documents = YamlLoader::load_from_str(text).unwrap_or_else(|e| panic!("not YAML: {e}\n{text}"));
    documents.iter().map(plain).filter(|v| !v.is_null()).collect()
}

/// The one document of a file, null where there is none.
pub fn document(text: &str) -> Value {
    let mut all = documents(text);
    assert!(all.len() < 2, "{} documents", all.len());
    all.pop().unwrap_or_default()
}

fn plain(yaml: &Yaml) -> Value {
    match yaml {
        Yaml::Real(text) => {
            text.parse().ok().and_then(Number::from_f64).map_or_else(|| text.clone().into(), Value::Number)
        }
        Yaml::Integer(n) => (*n).into(),
        Yaml::String(text) => text.clone().into(),
        Yaml::Boolean(b) => (*b).into(),
        Yaml::Array(items) => items.iter().map(plain).collect(),
        Yaml::Hash(entries) => {
            let name = |key: &Yaml| match plain(key) {
                Value::String(text) => text,
                other => other.to_string(),
            };
            entries.iter().map(|(k, v)| (name(k), plain(v))).collect::<Map<_, _>>().into()
        }
        Yaml::Alias(_) | Yaml::Null | Yaml::BadValue => Value::Null,
    }
}
