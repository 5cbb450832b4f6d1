//! What the tests share: places, and generated files.

use std::path::{Path, PathBuf};

pub fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

pub fn read(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// A generated file; `UPDATE=1` writes it.
pub fn fresh(path: &str, expected: &str) {
    let file = root(path);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&file, expected).expect("the file is written");
    }
    let found = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(found, expected, "{path} is stale: run `UPDATE=1 cargo test --release --test deploy fresh`");
}
