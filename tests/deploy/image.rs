//! The image without a container engine: the binary in a root that holds what `deploy/image-root.sh` lays out and
//! nothing else, read only, as the user of the image.
//!
//! Needs Linux and the rights to make a mount namespace; says `SKIPPED` otherwise. The service itself needs Apache
//! Kafka, as in `tests/kafka`; the demo brings its own broker.

use crate::files::{read, root};
use crate::process::{Running, create, is_ok, sum};
use crate::support::broker::Broker;
use crate::support::free_port;
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A root as the image has it, with a configuration mounted into it.
struct Image(tempfile::TempDir);

impl Image {
    fn make() -> Result<Image, String> {
        if !cfg!(target_os = "linux") {
            return Err("not Linux".into());
        }
        let tried = Command::new("unshare").args(["--mount", "true"]).stderr(Stdio::null()).status();
        if !tried.is_ok_and(|status| status.success()) {
            return Err("no right to make a mount namespace".into());
        }
        let directory = tempfile::Builder::new().prefix("sluicegate-image-").tempdir().unwrap();
        // The user of the image must be able to enter it.
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let output = Command::new("sh")
            .arg(root("deploy/image-root.sh"))
            .args([Path::new(env!("CARGO_BIN_EXE_sluicegate")), directory.path()])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(Image(directory))
    }

    /// `None` after saying why.
    fn new() -> Option<Image> {
        match Image::make() {
            Ok(image) => Some(image),
            Err(why) => {
                println!("SKIPPED: {why}");
                None
            }
        }
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn put(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).unwrap();
    }

    /// The command in the root, which is bound to itself and made read only; no program stands between, so that
    /// signals reach it.
    fn command(&self, args: &[&str]) -> Command {
        let script = "mount --bind \"$0\" \"$0\" && mount -o remount,bind,ro \"$0\" && \
                      exec chroot --userspec=65532:65532 --groups= \"$0\" /usr/local/bin/sluicegate \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script]).arg(self.path()).args(args);
        command
            .stdin(Stdio::null())
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("HOSTNAME", "image-0");
        command
    }

    fn run(&self, args: &[&str]) -> String {
        let output = self.command(args).output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{args:?}: {out}{err}");
        out.into_owned()
    }

    fn start(&self, args: &[&str]) -> Running {
        Running::start(self.command(args))
    }

    /// Every file, as a path within the root.
    fn files(&self) -> BTreeSet<String> {
        fn walk(folder: &Path, into: &mut Vec<PathBuf>) {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() { walk(&path, into) } else { into.push(path) }
            }
        }
        let mut all = Vec::new();
        walk(self.path(), &mut all);
        all.iter().map(|p| p.strip_prefix(self.path()).unwrap().to_str().unwrap().to_owned()).collect()
    }
}

#[test]
fn the_image_holds_what_it_must_and_nothing_else() {
    let Some(image) = Image::new() else { return };
    let libraries = ["libc.so.6", "libm.so.6", "libgcc_s.so.1", "ld-linux"];
    let ours = ["usr/local/bin/sluicegate", "etc/ssl/certs/ca-certificates.crt"];
    let said = ["etc/passwd", "etc/group", "etc/nsswitch.conf", "etc/os-release"];
    for file in image.files() {
        let name = file.rsplit('/').next().unwrap();
        let known = ours.contains(&&*file)
            || said.contains(&&*file)
            || file.starts_with("var/lib/dpkg/status.d/")
            || libraries.iter().any(|library| name.starts_with(library));
        assert!(known, "{file}");
        let mode = std::fs::metadata(image.path().join(&file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o6022, 0, "{file} has mode {mode:o}");
    }
    assert!(ours.iter().chain(&said).all(|file| image.path().join(file).is_file()));
    assert!(std::fs::read_to_string(image.path().join("etc/passwd")).unwrap().contains(":65532:65532:"));
    assert_eq!(image.run(&["--version"]).trim(), format!("sluicegate {}", env!("CARGO_PKG_VERSION")));
    // The user cannot change what it runs.
    assert!(read("deploy/Dockerfile").contains("USER 65532:65532"));
}

/// The demo's broker is within the process: everything but Kafka is as in a container.
#[test]
fn the_demo_runs_in_the_image() {
    let Some(image) = Image::new() else { return };
    let port = free_port();
    let mut demo = image.start(&["demo", "--listen", &format!("127.0.0.1:{port}")]);
    demo.get(port, "/livez", is_ok);
    let judged = |metrics: &str| sum(metrics, "sluicegate_verdicts_total{") > 20.0;
    demo.get(port, "/metrics", judged);
    let ended = demo.stop();
    assert_eq!(ended.code(), Some(0), "{}", demo.log());
}

#[test]
fn the_service_runs_in_the_image() {
    let Some(image) = Image::new() else { return };
    let broker = match Broker::start() {
        Ok(broker) => broker,
        Err(why) => return println!("SKIPPED: {why}"),
    };
    let port = free_port();
    let config = read("deploy/compose/sluicegate.yaml")
        .replace("kafka:9092", &broker.bootstrap)
        .replace("0.0.0.0:9464", &format!("127.0.0.1:{port}"));
    image.put("etc/sluicegate/sluicegate.yaml", &config);
    image.put("etc/sluicegate/fingerprint.key", &read("deploy/compose/fingerprint.key"));
    let before = image.files();
    create(&broker.bootstrap, "agent.events", 4);
    let file = ["--config", "/etc/sluicegate/sluicegate.yaml"];
    image.run(&[&["validate"], &file[..]].concat());
    image.run(&[&["topics", "apply"], &file[..], &["--replication", "1"]].concat());
    // The command of the Dockerfile.
    let mut service = image.start(&[&["run"], &file[..]].concat());
    service.get(port, "/livez", is_ok);
    service.get(port, "/readyz", is_ok);
    image.run(&[&["demo"], &file[..], &["--bootstrap", &broker.bootstrap]].concat());
    let judged = |metrics: &str| sum(metrics, "sluicegate_verdicts_total{") > 20.0;
    let metrics = service.get(port, "/metrics", judged);
    assert!(metrics.contains("policy_bundle=\"compose\""), "{metrics}");
    let ended = service.stop();
    assert_eq!(ended.code(), Some(0), "{}", service.log());
    assert_eq!(image.files(), before, "nothing is written");
}
