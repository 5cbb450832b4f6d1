//! What these tests share: files of the checkout, generated ones that must be fresh, YAML, and the binary.

#[allow(dead_code, reason = "shared with the tests of the runtime, which use all of it")]
#[path = "../runtime/fixture.rs"]
mod fixture;

#[allow(dead_code, reason = "shared with the tests of the runtime, which use all of it")]
#[path = "../runtime/shell.rs"]
pub mod shell;

pub use fixture::{root, run, sluicegate};
use serde_json::Value;
use std::path::Path;

/// A file of the checkout, or one by its whole path.
pub fn read(path: impl AsRef<Path>) -> String {
    let path = root("").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// `UPDATE=1 cargo test` rewrites the file.
pub fn fresh(path: &str, expected: &str) {
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(root(path), expected).unwrap_or_else(|e| panic!("{path}: {e}"));
    }
    let found = std::fs::read_to_string(root(path)).unwrap_or_default();
    assert!(found == expected, "{path} is stale: run `UPDATE=1 cargo test --release --test deploy fresh`");
}

/// A YAML document whose root is a table.
pub fn yaml(text: &str) -> Value {
    let file = config::File::from_str(text, config::FileFormat::Yaml);
    let all = config::Config::builder().add_source(file).build().unwrap_or_else(|e| panic!("{e}\n{text}"));
    all.try_deserialize().unwrap_or_else(|e| panic!("{e}\n{text}"))
}
