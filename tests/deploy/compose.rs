//! `deploy/compose.yaml` and `deploy/Dockerfile`, read: no container engine is needed, and none is started.

use crate::files::{read, root, run, sluicegate, yaml};
use serde_json::Value;
use std::collections::BTreeMap;

fn compose() -> Value {
    yaml(&read("deploy/compose.yaml"))
}

/// A service with what its anchor adds: the reader does not merge.
fn service(name: &str) -> Value {
    let all = compose();
    let mut one = all["services"][name].clone();
    assert!(one.is_object(), "no service {name}");
    let merged = read("deploy/compose.yaml").contains(&format!("  {name}:\n    <<: *sluicegate\n"));
    if merged && let (Some(own), Some(base)) = (one.as_object_mut(), all["x-sluicegate"].as_object()) {
        own.remove("<<");
        for (key, value) in base {
            own.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
    one
}

fn services() -> BTreeMap<String, Value> {
    compose()["services"].as_object().unwrap().keys().map(|name| (name.clone(), service(name))).collect()
}

fn texts(value: &Value) -> Vec<&str> {
    value.as_array().map(|all| all.iter().filter_map(Value::as_str).collect()).unwrap_or_default()
}

/// `host:container:ro` of a service.
fn mounts(service: &Value) -> Vec<(String, String)> {
    texts(&service["volumes"])
        .into_iter()
        .map(|volume| {
            let mut parts = volume.split(':');
            let pair = (parts.next().unwrap().to_owned(), parts.next().unwrap().to_owned());
            assert_eq!(parts.next(), Some("ro"), "{volume} is read only");
            pair
        })
        .collect()
}

#[test]
fn images_are_pinned() {
    let exact = |image: &str| {
        let version = image.rsplit_once(':').map_or("", |(_, tag)| tag).trim_start_matches('v');
        let number = version.split('-').next().unwrap_or_default();
        number.split('.').count() == 3 && number.split('.').all(|n| n.parse::<u32>().is_ok())
    };
    for (name, service) in services() {
        let image = service["image"].as_str().unwrap();
        assert!(image == "sluicegate:local" || exact(image), "{name}: {image}");
    }
    let dockerfile = read("deploy/Dockerfile");
    let base = dockerfile.lines().find_map(|l| l.strip_prefix("ARG RUST_IMAGE=")).unwrap();
    assert!(exact(base), "{base}");
    let froms: Vec<&str> = dockerfile.lines().filter_map(|l| l.strip_prefix("FROM ")).collect();
    assert_eq!(froms, ["${RUST_IMAGE} AS build", "scratch"]);
}

/// Files that are mounted are there; those of the chart, once there is a chart.
#[test]
fn mounted_files_exist() {
    let chart = root("helm/sluicegate").is_dir();
    let mut seen = 0;
    for (name, service) in services() {
        for (host, _) in mounts(&service) {
            if chart || !host.starts_with("../helm/") {
                assert!(root("deploy").join(&host).exists(), "{name}: {host}");
                seen += 1;
            }
        }
    }
    assert!(seen >= 9, "{seen}");
    assert!(root("deploy").join(compose()["services"]["sluicegate"]["build"]["context"].as_str().unwrap()).exists());
}

#[test]
fn services_wait_for_services_that_exist() {
    let all = services();
    for (name, service) in &all {
        let waits: Vec<String> = match &service["depends_on"] {
            Value::Object(on) => on.keys().cloned().collect(),
            on => texts(on).into_iter().map(str::to_owned).collect(),
        };
        waits.iter().for_each(|on| assert!(all.contains_key(on), "{name} waits for {on}"));
    }
}

/// Topics, ports, listeners and paths are said in several files: they are the same.
#[test]
fn the_files_agree() {
    let config = yaml(&read("deploy/compose/sluicegate.yaml"));
    let kafka = service("kafka");
    let bootstrap = config["kafka"]["bootstrap_servers"].as_str().unwrap();
    let advertised = kafka["environment"]["KAFKA_ADVERTISED_LISTENERS"].as_str().unwrap();
    assert!(advertised.split(',').any(|l| l == format!("PLAINTEXT://{bootstrap}")), "{advertised}");
    assert_eq!(bootstrap.split(':').next(), kafka["hostname"].as_str());
    let outside = texts(&kafka["ports"])[0].rsplit(':').next().unwrap();
    assert!(advertised.ends_with(&format!("HOST://localhost:{outside}")), "{advertised}");

    for name in ["topics", "traffic", "sluicegate"] {
        let service = service(name);
        let command = texts(&service["command"]);
        let file = command[command.iter().position(|w| *w == "--config").unwrap() + 1];
        let mounted = mounts(&service);
        assert!(mounted.iter().any(|(host, at)| at == file && host == "./compose/sluicegate.yaml"), "{name}: {file}");
        let key = config["engine"]["fingerprint_key_file"].as_str().unwrap();
        assert!(mounted.iter().any(|(_, at)| at == key), "{name}: {key}");
        assert_eq!(service["read_only"], true, "{name}");
        assert_eq!(texts(&service["cap_drop"]), ["ALL"], "{name}");
    }
    let traffic = service("traffic");
    assert!(texts(&traffic["command"]).contains(&bootstrap));
    let input = config["kafka"]["inputs"][0].as_str().unwrap();
    for words in [service("input")["command"].clone(), kafka["healthcheck"]["test"].clone()] {
        assert!(texts(&words).contains(&bootstrap), "{words}");
    }
    assert!(texts(&service("input")["command"]).contains(&input));

    let port = config["http"]["listen"].as_str().unwrap().rsplit(':').next().unwrap();
    assert_eq!(texts(&service("sluicegate")["ports"]), [format!("127.0.0.1:{port}:{port}")]);
    let prometheus = yaml(&read("deploy/compose/prometheus.yaml"));
    let target = prometheus["scrape_configs"][0]["static_configs"][0]["targets"][0].as_str().unwrap();
    assert_eq!(target, format!("sluicegate:{port}"));
    let rules = prometheus["rule_files"][0].as_str().unwrap();
    assert!(mounts(&service("prometheus")).iter().any(|(_, at)| at == rules), "{rules}");
    assert!(read("deploy/Dockerfile").contains(&format!("EXPOSE {port}\n")));

    let grafana = service("grafana");
    let mounted = mounts(&grafana);
    let dashboards = yaml(&read("deploy/compose/grafana/dashboards.yaml"));
    let path = dashboards["providers"][0]["options"]["path"].as_str().unwrap();
    assert!(mounted.iter().any(|(_, at)| at == path), "{path}");
    let source = yaml(&read("deploy/compose/grafana/datasource.yaml"));
    let url = source["datasources"][0]["url"].as_str().unwrap();
    let published = texts(&service("prometheus")["ports"])[0].rsplit(':').next().unwrap().to_owned();
    assert_eq!(url, format!("http://prometheus:{published}"));
    // Nothing is served to the network.
    for (name, service) in services() {
        texts(&service["ports"]).iter().for_each(|port| assert!(port.starts_with("127.0.0.1:"), "{name}: {port}"));
    }
}

#[test]
fn the_configuration_is_valid() {
    let file = root("deploy/compose/sluicegate.yaml");
    let output = sluicegate(&["validate", "--config", file.to_str().unwrap()])
        .env("SLUICEGATE__ENGINE__FINGERPRINT_KEY_FILE", root("deploy/compose/fingerprint.key"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// What the services are told to run is a command with options that exist.
#[test]
fn the_commands_exist() {
    let dockerfile = read("deploy/Dockerfile");
    let default = dockerfile.lines().find_map(|l| l.strip_prefix("CMD ")).unwrap();
    let default: Vec<String> = serde_json::from_str(default).unwrap();
    let mut commands = vec![default];
    for name in ["topics", "traffic", "sluicegate"] {
        commands.push(texts(&service(name)["command"]).into_iter().map(str::to_owned).collect());
    }
    for command in commands {
        let mut words: Vec<&str> = command.iter().map(String::as_str).collect();
        words.push("--help");
        let output = run(&words, b"");
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// A stop waits at least as long as a worker may take to finish and to commit.
#[test]
fn the_grace_period_covers_a_drain() {
    let config = sluicegate::runtime::config::Config::default();
    let needed = config.worker.drain_timeout.0 + config.worker.transaction_timeout.0;
    let grace = service("sluicegate")["stop_grace_period"].as_str().unwrap().trim_end_matches('s').parse().unwrap();
    assert!(std::time::Duration::from_secs(grace) >= needed);
}

/// The image runs as nobody, starts the binary itself, and its build has every file that cargo asks for.
#[test]
fn the_dockerfile_builds_from_what_it_copies() {
    let dockerfile = read("deploy/Dockerfile");
    let last = dockerfile.rsplit("\nFROM ").next().unwrap();
    assert!(last.contains("\nUSER 65532:65532\n") && last.contains("\nENTRYPOINT [\"/usr/local/bin/sluicegate\"]\n"));
    let version = format!("\nARG VERSION={}\n", env!("CARGO_PKG_VERSION"));
    assert!(last.contains(&version), "the label says another version");
    assert!(read("Cargo.toml").contains("rust-version = \"1.88\""), "the build image is at least as new");

    let directory = tempfile::tempdir().unwrap();
    let ignored = read(".dockerignore");
    for line in dockerfile.lines().filter_map(|l| l.strip_prefix("COPY ")).filter(|l| !l.starts_with("--from")) {
        let words: Vec<&str> = line.split_whitespace().collect();
        for source in &words[..words.len() - 1] {
            assert!(ignored.lines().any(|l| l.strip_prefix('!') == Some(source)), ".dockerignore leaves {source} out");
            let target = directory.path().join(source);
            std::fs::create_dir_all(target.parent().unwrap()).unwrap();
            let copied = std::process::Command::new("cp").arg("-r").arg(root(source)).arg(&target).status().unwrap();
            assert!(copied.success(), "{source}");
        }
    }
    let output = std::process::Command::new(env!("CARGO"))
        .args(["metadata", "--offline", "--locked", "--no-deps", "--format-version=1"])
        .current_dir(directory.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    for target in metadata["packages"][0]["targets"].as_array().unwrap() {
        let path = target["src_path"].as_str().unwrap();
        assert!(std::path::Path::new(path).is_file(), "{path}");
    }
}
