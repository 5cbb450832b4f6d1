//! Every oddity that a provider file's head names is shown by something that runs.
//!
//! `oddities.txt` says by what, a line an oddity:
//!
//! ```text
//! <file> | <the first words of the bullet> (<which, where it names several>) | <where>, <where>
//! ```
//!
//! Where: a golden file, a conversation in `field_bugs/` or `oddities/` (both judged alike), or a test of this crate.

use crate::field_bugs;
use std::path::{Path, PathBuf};

const FILES: [&str; 8] = [
    "anthropic.rs",
    "gemini.rs",
    "gemini/live.rs",
    "host.rs",
    "mcp.rs",
    "openai/chat.rs",
    "openai/responses.rs",
    "xai.rs",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The bullets of a file's section *Oddities*, each on one line; prose without bullets is one.
fn bullets(file: &str) -> Vec<String> {
    let text = read(&root().join("src/engine/provider").join(file));
    let head: Vec<&str> = text.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim).collect();
    let section = head.iter().skip_while(|line| **line != "# Oddities").skip(1).take_while(|l| !l.starts_with("# "));
    let mut found: Vec<String> = Vec::new();
    for line in section.filter(|line| !line.is_empty()) {
        match (line.strip_prefix("- "), found.last_mut()) {
            (None, Some(last)) => *last = format!("{last} {line}"),
            (bullet, _) => found.push(bullet.unwrap_or(line).to_owned()),
        }
    }
    found
}

/// Whether there is such a file, or such a test (`module::name`, `module::module::name`).
fn exists(place: &str) -> bool {
    let tests = root().join("tests/engine");
    if place.ends_with(".txt") {
        let judged = ["golden/", "field_bugs/", "oddities/"].iter().any(|folder| place.starts_with(folder));
        return judged && tests.join(place).is_file();
    }
    let Some((module, name)) = place.rsplit_once("::") else { return false };
    let Ok(text) = std::fs::read_to_string(tests.join(format!("{}.rs", module.replace("::", "/")))) else {
        return false;
    };
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    lines.windows(2).any(|pair| pair[0] == "#[test]" && pair[1].starts_with(&format!("fn {name}(")))
}

#[test]
fn every_oddity_is_shown() {
    let table = read(&root().join("tests/engine/oddities.txt"));
    let mut wrong = Vec::new();
    let mut named: Vec<(&str, String)> = Vec::new();
    for line in table.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let parts: Vec<&str> = line.split(" | ").collect();
        let [file, words, places] = parts[..] else { panic!("three parts: {line}") };
        let words = words.strip_suffix(')').and_then(|w| w.rsplit_once(" (")).map_or(words, |(words, _)| words);
        let meant: Vec<String> = match FILES.contains(&file) {
            true => bullets(file).into_iter().filter(|bullet| bullet.starts_with(words)).collect(),
            false => Vec::new(),
        };
        match &meant[..] {
            [bullet] => named.push((file, bullet.clone())),
            _ => wrong.push(format!("{} bullets of {file} begin with: {words}", meant.len())),
        }
        let missing = places.split(", ").filter(|place| !exists(place));
        wrong.extend(missing.map(|place| format!("{place} is not there: {line}")));
    }
    for file in FILES {
        let all = bullets(file);
        assert!(!all.is_empty(), "{file} has no oddities");
        let bare = all.into_iter().filter(|bullet| !named.contains(&(file, bullet.clone())));
        wrong.extend(bare.map(|bullet| format!("{file}: nothing shows: {bullet}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// No head with oddities is left out of the table.
#[test]
fn every_provider_file_is_read() {
    fn heads(folder: &Path, found: &mut Vec<PathBuf>) {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            match path.is_dir() {
                true => heads(&path, found),
                false if read(&path).contains("//! # Oddities") => found.push(path),
                false => {}
            }
        }
    }
    let (folder, mut found) = (root().join("src/engine/provider"), Vec::new());
    heads(&folder, &mut found);
    found.sort();
    let mut expected: Vec<PathBuf> = FILES.iter().map(|file| folder.join(file)).collect();
    expected.sort();
    assert_eq!(found, expected);
}

#[test]
fn conversations() {
    field_bugs::judge("oddities", None);
}
