//! What the runtime tests share: the binary, and files.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The binary under test, with no configuration from this process's environment.
pub fn sluicegate(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluicegate"));
    command.args(args).stdin(Stdio::null()).env_remove("NO_COLOR");
    for (name, _) in std::env::vars() {
        if name.starts_with("SLUICEGATE__") {
            command.env_remove(name);
        }
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

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

pub fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The demo's traffic with short results.
pub fn sample() -> String {
    let path = root("src/runtime/cli/demo/events.jsonl");
    std::fs::read_to_string(path).expect("the sample").replace("@LOG@", "short")
}
