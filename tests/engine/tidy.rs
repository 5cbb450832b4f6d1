//! The architecture, read from the imports: who may use whom, and what the pure zone may not name.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Modules of the engine, lowest first: a module uses only those before it on its line's right side.
const ARROWS: [(&str, &[&str]); 14] = [
    ("layer", &[]),
    ("json", &["layer"]),
    ("event", &["json"]),
    ("decision", &[]),
    ("envelope", &["event", "json", "layer"]),
    ("provider", &["envelope", "event", "json", "layer"]),
    ("wire", &["envelope", "event", "json", "layer", "provider"]),
    ("state", &["decision", "event", "json"]),
    ("scan", &["json", "layer"]),
    ("digest", &["event", "scan", "state"]),
    ("pins", &["digest", "json", "layer"]),
    ("policy", &["decision", "digest", "event", "json", "layer", "pins", "scan", "state"]),
    ("verdict", &["decision", "digest", "json", "layer", "policy", "provider"]),
    ("redact", &["decision", "digest", "envelope", "event", "json", "layer"]),
];

fn sources(folder: &str) -> Vec<PathBuf> {
    fn walk(folder: &Path, into: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, into);
            } else if path.extension().is_some_and(|e| e == "rs") {
                into.push(path);
            }
        }
    }
    let mut all = Vec::new();
    walk(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut all);
    all.sort();
    all
}

/// A file's code without its own tests and without comments.
fn code(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    let text = text.split("#[cfg(test)]").next().unwrap_or_default().to_owned();
    text.lines().filter(|line| !line.trim_start().starts_with("//")).map(|line| format!("{line}\n")).collect()
}

/// The module path of a file below `src`.
fn module(path: &Path) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let relative = path.strip_prefix(root).unwrap().with_extension("");
    let mut parts: Vec<String> = relative.iter().map(|p| p.to_string_lossy().into_owned()).collect();
    if parts.last().is_some_and(|last| last == "mod") {
        parts.pop();
    }
    parts
}

/// The paths that a `use` tree names.
fn expand(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some(open) = tree.find('{') else {
        return vec![tree.split(" as ").next().unwrap_or_default().trim().to_owned()];
    };
    let (prefix, inner) = (&tree[..open], &tree[open + 1..tree.rfind('}').unwrap_or(tree.len())]);
    let (mut depth, mut start, mut pieces) = (0, 0, Vec::new());
    for (at, byte) in inner.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            b',' if depth == 0 => {
                pieces.push(&inner[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    pieces.push(&inner[start..]);
    let pieces = pieces.into_iter().filter(|piece| !piece.trim().is_empty());
    pieces.flat_map(expand).map(|path| format!("{prefix}{path}")).collect()
}

/// The absolute module paths that a file's `use` items name, within this crate.
fn imports(path: &Path) -> Vec<Vec<String>> {
    let own = module(path);
    let mut found = Vec::new();
    for item in code(path).split(';') {
        let Some(at) = item.rfind("use ") else { continue };
        let before = item[..at].trim_end();
        let starts = before.is_empty() || before.ends_with(['\n', '}', ']', ')']) || before.ends_with("pub");
        if !starts {
            continue;
        }
        for name in expand(&item[at + 4..]) {
            let mut parts: Vec<&str> = name.split("::").map(str::trim).collect();
            let mut base = own.clone();
            match parts.first().copied() {
                Some("crate") => {
                    base.clear();
                    parts.remove(0);
                }
                Some("super" | "self") => {
                    while matches!(parts.first().copied(), Some("super" | "self")) {
                        if parts.remove(0) == "super" {
                            base.pop();
                        }
                    }
                }
                _ => continue,
            }
            base.extend(parts.into_iter().map(str::to_owned));
            found.push(base);
        }
    }
    found
}

#[test]
fn no_arrow_points_back() {
    let allowed: BTreeMap<&str, BTreeSet<&str>> =
        ARROWS.iter().map(|(name, uses)| (*name, uses.iter().copied().collect())).collect();
    let mut wrong = Vec::new();
    let mut seen = 0;
    for path in sources("src/engine") {
        let own = module(&path);
        let Some(from) = own.get(1) else { continue };
        // `judge` is the one that puts them all together.
        if from == "judge" {
            continue;
        }
        let uses = allowed.get(from.as_str()).unwrap_or_else(|| panic!("{from} is not in the table of arrows"));
        for import in imports(&path) {
            let [zone, to, ..] = import.as_slice() else { continue };
            seen += 1;
            // Types of the engine's own surface (`Input`, `Millis`) stand at its root.
            let surface = to.starts_with(char::is_uppercase);
            if zone != "engine" || (!surface && to != from && !uses.contains(to.as_str())) {
                wrong.push(format!("{} uses {}", own.join("::"), import.join("::")));
            }
        }
    }
    assert!(seen > 100, "the imports were not found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for (at, (name, uses)) in ARROWS.iter().enumerate() {
        for used in *uses {
            assert!(ARROWS[..at].iter().any(|(lower, _)| lower == used), "{name} uses {used}, which is not below it");
        }
    }
}

#[test]
fn policies_and_providers_keep_apart() {
    let mut wrong = Vec::new();
    for path in sources("src/engine/policy") {
        let own = module(&path);
        let is_policy = |name: &String| name.starts_with("sg") && name[2..].starts_with(|c: char| c.is_ascii_digit());
        let Some(policy) = own.get(2).filter(|name| is_policy(name)) else { continue };
        for import in imports(&path) {
            if import.get(2).is_some_and(|other| is_policy(other) && other != policy) {
                wrong.push(format!("{policy} uses {}", import.join("::")));
            }
        }
    }
    let providers = ["anthropic", "openai", "xai", "gemini", "mcp"];
    for path in sources("src/engine/provider") {
        let own = module(&path);
        let Some(provider) = own.get(2).filter(|name| providers.contains(&name.as_str())) else { continue };
        for import in imports(&path) {
            let other = import.get(2).filter(|other| providers.contains(&other.as_str()) && *other != provider);
            if let Some(other) = other
                && (provider.as_str(), other.as_str()) != ("xai", "openai")
            {
                wrong.push(format!("{provider} uses {other}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_pure_zone_names_no_effect() {
    let banned = [
        "std::fs",
        "std::net",
        "std::env",
        "std::thread",
        "std::process",
        "SystemTime",
        "Instant",
        "tracing::",
        "rdkafka",
        "tokio",
        "println!",
        "eprintln!",
        "crate::runtime",
        "Mutex",
        "RwLock",
    ];
    let mut wrong = Vec::new();
    for path in sources("src/engine") {
        for (line, text) in code(&path).lines().enumerate() {
            for name in banned.iter().filter(|name| text.contains(**name)) {
                wrong.push(format!("{}:{}: {name}", module(&path).join("::"), line + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// This machine's load is no property of the engine: what must not be slow is given so much work that a slow way
/// does not end, and what it costs is measured in `benches/`.
#[test]
fn no_engine_test_reads_a_clock() {
    let clock = ["Ins", "tant::now"].concat();
    for path in sources("tests/engine") {
        assert!(!code(&path).contains(&clock), "{}", path.display());
    }
}

#[test]
fn only_the_adapters_name_the_client() {
    let adapters = ["kafka", "restore", "embedded"];
    for path in sources("src/runtime") {
        let own = module(&path);
        if code(&path).contains("rdkafka::") {
            assert!(
                own.get(1).is_some_and(|name| adapters.contains(&name.as_str())),
                "{} names rdkafka",
                own.join("::")
            );
        }
    }
}

#[test]
fn files_stay_readable() {
    for path in sources("src") {
        let text = std::fs::read_to_string(&path).unwrap();
        let lines = text.split("#[cfg(test)]").next().unwrap_or_default().lines().count();
        let name = module(&path).join("::");
        assert!(lines <= 600, "{name} has {lines} lines: split it where the data flow has a seam");
        assert!(text.starts_with("//!"), "{name} has no module documentation");
    }
}
