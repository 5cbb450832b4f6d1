//! What these tests share: files of the checkout, generated ones that must be fresh, YAML, and the binary.

use serde_json::Value;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

pub fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

pub fn read(path: &str) -> String {
    std::fs::read_to_string(root(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// `UPDATE=1 cargo test` rewrites the file.
pub fn fresh(path: &str, expected: &str) {
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(root(path), expected).unwrap_or_else(|e| panic!("{path}: {e}"));
    }
    let found = std::fs::read_to_string(root(path)).unwrap_or_default();
    assert_eq!(found, expected, "{path} is stale: run `UPDATE=1 cargo test --release --test deploy fresh`");
}

/// A YAML document whose root is a table.
pub fn yaml(text: &str) -> Value {
    let file = config::File::from_str(text, config::FileFormat::Yaml);
    let all = config::Config::builder().add_source(file).build().unwrap_or_else(|e| panic!("{e}\n{text}"));
    all.try_deserialize().unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// The binary under test, with no configuration from this process's environment.
pub fn sluicegate(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluicegate"));
    command.args(args).stdin(Stdio::null());
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("SLUICEGATE__")) {
        command.env_remove(name);
    }
    command
}

/// Runs the binary with this standard input.
pub fn run(args: &[&str], stdin: &[u8]) -> Output {
    let mut child = sluicegate(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut pipe = child.stdin.take().expect("standard input");
    let input = stdin.to_vec();
    let writer = std::thread::spawn(move || {
        // The command may end before it read everything.
        let _ = pipe.write_all(&input);
    });
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("the writer");
    output
}
