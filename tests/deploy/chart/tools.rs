//! The tools, installed once below `target/tools` by the package manager that has them. Without it a test says
//! SKIPPED with the reason, which counts as failed in CI.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

pub const HELM: &str = "v3.22.0";
/// The schemas of several versions of Kubernetes, with unknown fields refused.
const SCHEMAS: &str = "1.37.0";
const UNPACK: &str = "import sys, zipfile\nz = zipfile.ZipFile(sys.argv[1])\n\
    for n in z.namelist():\n    if n.endswith('-local-strict/_definitions.json'): z.extract(n, sys.argv[2])\n";

fn folder() -> PathBuf {
    let tools = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the target folder").join("tools");
    std::fs::create_dir_all(&tools).expect("a folder for tools");
    tools
}

/// Makes `name` in a folder of its own and moves it where it belongs, so that it is there whole or not at all.
fn installed(name: &str, made: &str, make: impl FnOnce(&Path) -> Result<(), String>) -> Result<PathBuf, String> {
    let there = folder().join(name);
    if there.exists() {
        return Ok(there);
    }
    let work = folder().join(format!("{name}.{}", std::process::id()));
    std::fs::create_dir_all(&work).map_err(|e| e.to_string())?;
    let result = make(&work).and_then(|()| {
        // Another process may have been faster.
        let moved = std::fs::rename(work.join(made), &there).map_err(|e| e.to_string());
        if there.exists() { Ok(there) } else { moved.map(|()| PathBuf::new()) }
    });
    let _ = std::fs::remove_dir_all(&work);
    result
}

fn run(command: &mut Command, what: &str) -> Result<(), String> {
    let output = command.output().map_err(|e| format!("{what} cannot be started: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{what} failed: {}", said.lines().last().unwrap_or_default()))
}

fn told(result: &Result<PathBuf, String>) -> Option<&Path> {
    match result {
        Ok(path) => Some(path),
        Err(reason) => {
            println!("SKIPPED: {reason}");
            None
        }
    }
}

/// Helm, built by Go from its module: minutes the first time.
pub fn helm() -> Option<&'static Path> {
    static TOOL: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    told(TOOL.get_or_init(|| {
        installed(&format!("helm-{HELM}"), "helm", |work| {
            let module = format!("helm.sh/helm/v3/cmd/helm@{HELM}");
            run(Command::new("go").args(["install", &module]).env("GOBIN", work), "`go install` of Helm (it needs Go)")
        })
    }))
}

/// A folder that has `v1.N.0-local-strict/_definitions.json` for each version of Kubernetes.
pub fn schemas() -> Option<&'static Path> {
    static TOOL: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    told(TOOL.get_or_init(|| {
        let inside = "kubernetes_validate/kubernetes-json-schema";
        installed(&format!("kubernetes-schemas-{SCHEMAS}"), inside, |work| {
            let package = format!("kubernetes-validate=={SCHEMAS}");
            let mut pip = Command::new("python3");
            pip.args(["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", &package, "--dest"]);
            run(pip.arg(work), "`pip download` of the schemas of Kubernetes (it needs Python with pip)")?;
            let entries = std::fs::read_dir(work).map_err(|e| e.to_string())?;
            let wheel = entries.flatten().map(|e| e.path()).find(|p| p.extension().is_some_and(|e| e == "whl"));
            let wheel = wheel.ok_or("`pip download` left no wheel")?;
            run(Command::new("python3").args(["-c", UNPACK]).arg(wheel).arg(work), "unpacking the schemas")
        })
    }))
}
