//! A panic is told by its place; its message may hold input, and is not shown.

use crate::fixture::{root, text};
use std::process::{Command, Output};

/// Panics with text that came from outside, nine times at one place and once at another.
#[test]
#[ignore = "the body of a child process"]
fn child() {
    sluicegate::runtime::panics::install();
    if std::env::var_os("SLUICEGATE_TEST_JSON").is_some() {
        sluicegate::runtime::panics::as_json();
    }
    let outside = "h\u{fc}nter2-secret".to_owned();
    let work = move || {
        for _ in 0..9 {
            let _ = std::panic::catch_unwind(|| outside[..2].len());
        }
        let _ = std::panic::catch_unwind(|| panic!("{outside}"));
    };
    std::thread::Builder::new().name("worker-7".into()).spawn(work).expect("a thread").join().expect("it ends");
}

fn panicked(json: bool) -> Output {
    let mut command = Command::new(std::env::current_exe().expect("this binary"));
    command.args(["panics::child", "--exact", "--ignored", "--nocapture"]);
    if json {
        command.env("SLUICEGATE_TEST_JSON", "1");
    }
    command.output().expect("it runs")
}

#[test]
fn a_panic_is_told_by_its_place_alone() {
    let output = panicked(false);
    assert!(output.status.success());
    let said = text(&output.stderr);
    assert!(!said.contains("nter2") && !text(&output.stdout).contains("nter2"), "{said}");
    let lines: Vec<&str> = said.lines().filter(|l| l.contains("event=\"panic\"")).collect();
    let counts: Vec<&str> = lines.iter().filter_map(|l| l.rsplit_once("count=")).map(|(_, n)| n).collect();
    assert_eq!(counts, ["1", "2", "4", "8", "1"], "{said}");
    for line in lines {
        assert!(line.contains("thread=\"worker-7\"") && line.contains("tests/runtime/panics.rs:"), "{line}");
    }
}

#[test]
fn a_panic_is_one_object_where_logs_are() {
    let said = text(&panicked(true).stderr);
    let first = said.lines().find(|l| l.starts_with('{')).expect("a line");
    let value: serde_json::Value = serde_json::from_str(first).expect("JSON");
    assert_eq!((&value["event"], &value["thread"], &value["count"]), (&"panic".into(), &"worker-7".into(), &1.into()));
}

/// Whatever runs before it would panic with the standard hook.
#[test]
fn main_installs_the_hook_first() {
    let main = std::fs::read_to_string(root("src/main.rs")).expect("main.rs");
    let body = main.split_once("fn main() -> ExitCode {").expect("main").1;
    assert!(body.trim_start().starts_with("sluicegate::runtime::panics::install();"), "{body}");
}
