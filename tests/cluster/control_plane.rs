//! A control plane on loopback, and what is asked of it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use openssl::rsa::Rsa;
use openssl::ssl::{SslConnector, SslMethod};
use serde_json::{Value, json};

use crate::process::Running;
use crate::support::free_port;

const TOKEN: &str = "of-this-run-only";
const CONTROLLERS: &str = "deployment-controller,disruption-controller,garbage-collector-controller,job-controller,\
    namespace-controller,replicaset-controller,root-ca-certificate-publisher-controller,serviceaccount-controller,\
    statefulset-controller";
/// The server checks as for a creation, field by field, and keeps nothing.
pub const DRY: &str = "?dryRun=All&fieldValidation=Strict";
pub const JSON: &str = "application/json";
pub const YAML: &str = "application/yaml";

/// Etcd, the API server and the controllers; ended with this, the last one first, and no others.
pub struct Cluster {
    pub kubeconfig: PathBuf,
    programs: PathBuf,
    folder: PathBuf,
    port: u16,
    /// The namespaced kinds that are served: version and kind, and what they are called in a path.
    kinds: RefCell<BTreeMap<(String, String), String>>,
    running: Vec<Running>,
}

pub struct Answer {
    pub status: u16,
    pub body: Value,
    pub warnings: Vec<String>,
}

impl Cluster {
    pub fn start(programs: &Path, folder: &Path) -> Cluster {
        let mut it = Cluster {
            kubeconfig: folder.join("kubeconfig"),
            programs: programs.to_owned(),
            folder: folder.to_owned(),
            port: free_port(),
            kinds: RefCell::default(),
            running: Vec::new(),
        };
        let path = |name: &str| folder.join(name).display().to_string();
        let key = path("accounts.key");
        std::fs::write(&key, Rsa::generate(2048).unwrap().private_key_to_pem().unwrap()).unwrap();
        std::fs::write(path("tokens.csv"), format!("{TOKEN},operator,operator,system:masters\n")).unwrap();
        let [etcd, own] = [(); 2].map(|()| format!("http://127.0.0.1:{}", free_port()));
        it.run(
            "etcd",
            &[
                format!("--data-dir={}", path("data")),
                format!("--listen-client-urls={etcd}"),
                format!("--advertise-client-urls={etcd}"),
                format!("--listen-peer-urls={own}"),
                format!("--initial-advertise-peer-urls={own}"),
                format!("--initial-cluster=default={own}"),
                "--unsafe-no-fsync".into(),
                "--log-level=error".into(),
            ],
        );
        it.run(
            "kube-apiserver",
            &[
                format!("--etcd-servers={etcd}"),
                format!("--secure-port={}", it.port),
                format!("--cert-dir={}", path("certificates")),
                format!("--token-auth-file={}", path("tokens.csv")),
                format!("--service-account-key-file={key}"),
                format!("--service-account-signing-key-file={key}"),
                "--service-account-issuer=https://cluster.test".into(),
                "--service-cluster-ip-range=10.96.0.0/20".into(),
                "--bind-address=127.0.0.1".into(),
                "--advertise-address=127.0.0.1".into(),
                "--endpoint-reconciler-type=none".into(),
                "--authorization-mode=RBAC".into(),
            ],
        );
        let ready = |path| it.asked("GET", path, None, None).is_ok_and(|a| a.status == 200);
        let up = it.until(240, || (ready("/readyz") && ready("/api/v1/namespaces/default")).then_some(()));
        up.unwrap_or_else(|| panic!("the API server is not ready:\n{}", it.logs()));
        let server =
            json!({"server": format!("https://127.0.0.1:{}", it.port), "certificate-authority": it.authority()});
        let configuration = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "it",
            "clusters": [{"name": "it", "cluster": server}],
            "users": [{"name": "it", "user": {"token": TOKEN}}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        });
        std::fs::write(&it.kubeconfig, configuration.to_string()).unwrap();
        it.run(
            "kube-controller-manager",
            &[
                format!("--kubeconfig={}", it.kubeconfig.display()),
                format!("--controllers={CONTROLLERS}"),
                format!("--service-account-private-key-file={key}"),
                format!("--root-ca-file={}", it.authority().display()),
                "--leader-elect=false".into(),
                "--secure-port=0".into(),
            ],
        );
        it
    }

    fn run(&mut self, name: &str, arguments: &[String]) {
        let mut command = Command::new(self.programs.join(name));
        command.args(arguments).current_dir(&self.folder);
        self.running.push(Running::start(command));
    }

    fn authority(&self) -> PathBuf {
        self.folder.join("certificates/apiserver.crt")
    }

    /// The last lines of each of its programs.
    fn logs(&self) -> String {
        let last = |log: String| log.lines().rev().take(20).collect::<Vec<_>>().join("\n");
        self.running.iter().map(|r| last(r.log())).collect::<Vec<_>>().join("\n---\n")
    }

    /// Waits until there is something, with a limit.
    pub fn until<T>(&self, seconds: u64, mut holds: impl FnMut() -> Option<T>) -> Option<T> {
        let end = Instant::now() + Duration::from_secs(seconds);
        loop {
            let found = holds();
            if found.is_some() || Instant::now() > end {
                return found;
            }
            std::thread::sleep(Duration::from_millis(300));
        }
    }

    /// A body has its kind.
    pub fn ask(&self, method: &str, path: &str, body: Option<(&str, &str)>) -> Answer {
        self.ask_as(None, method, path, body)
    }

    pub fn ask_as(&self, user: Option<&str>, method: &str, path: &str, body: Option<(&str, &str)>) -> Answer {
        loop {
            match self.asked(method, path, body, user) {
                // A kind that was just defined: not yet.
                Ok(Answer { status: 429, .. }) => std::thread::sleep(Duration::from_millis(500)),
                Ok(answer) => return answer,
                Err(why) => panic!("{method} {path}: {why}\n{}", self.logs()),
            }
        }
    }

    /// HTTP/1.0, where an answer ends with its connection and is in one piece.
    fn asked(
        &self,
        method: &str,
        path: &str,
        body: Option<(&str, &str)>,
        user: Option<&str>,
    ) -> Result<Answer, Box<dyn std::error::Error>> {
        let mut connector = SslConnector::builder(SslMethod::tls_client())?;
        connector.set_ca_file(self.authority())?;
        let stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        let mut stream = connector.build().connect("127.0.0.1", stream)?;
        let (kind, body) = body.unwrap_or((JSON, ""));
        let user = user.map_or(String::new(), |user| format!("Impersonate-User: {user}\r\n"));
        write!(
            stream,
            "{method} {path} HTTP/1.0\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\nAccept: {JSON}\r\n\
             Content-Type: {kind}\r\nContent-Length: {}\r\n{user}\r\n{body}",
            body.len()
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").ok_or("no answer")?;
        let status = head.split(' ').nth(1).ok_or("no status")?.parse()?;
        let warnings = head.lines().filter_map(|l| l.strip_prefix("Warning: ")).map(str::to_owned).collect();
        let body = serde_json::from_str(body).unwrap_or_else(|_| body.into());
        Ok(Answer { status, body, warnings })
    }

    pub fn get(&self, path: &str) -> Value {
        let answer = self.ask("GET", path, None);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        answer.body
    }

    pub fn create(&self, path: &str, object: &Value) {
        let answer = self.ask("POST", path, Some((JSON, &object.to_string())));
        assert_eq!(answer.status, 201, "{path}: {}", answer.body);
    }

    /// Looks which namespaced kinds are served, preferred versions only; their names.
    pub fn discover(&self) -> Vec<String> {
        let groups = self.get("/apis");
        let preferred = items(&groups, "groups").iter().map(|g| text(&g["preferredVersion"], "groupVersion"));
        let mut kinds = BTreeMap::new();
        for api in std::iter::once("v1").chain(preferred) {
            let answer = self.ask("GET", &base(api), None);
            // A group may be named before it is served.
            for resource in items(&answer.body, "resources").iter().filter(|_| answer.status == 200) {
                let listed = resource["verbs"].as_array().is_some_and(|v| v.contains(&"list".into()));
                if resource["namespaced"] == true && !text(resource, "name").contains('/') && listed {
                    kinds
                        .insert((api.to_owned(), text(resource, "kind").to_owned()), text(resource, "name").to_owned());
                }
            }
        }
        let names = kinds.keys().map(|(_, kind)| kind.clone()).collect();
        *self.kinds.borrow_mut() = kinds;
        names
    }

    /// All that stands in a namespace, by `Kind/name`; events aside.
    pub fn objects(&self, namespace: &str) -> BTreeMap<String, Value> {
        let mut found = BTreeMap::new();
        for ((api, kind), resource) in self.kinds.borrow().iter().filter(|((_, kind), _)| kind != "Event") {
            let all = self.get(&format!("{}/namespaces/{namespace}/{resource}", base(api)));
            for item in items(&all, "items") {
                let mut item = item.clone();
                item["apiVersion"] = api.as_str().into();
                item["kind"] = kind.as_str().into();
                found.insert(format!("{kind}/{}", text(&item["metadata"], "name")), item);
            }
        }
        found
    }

    /// `Kind/name` of a rendered object, the path of its like, and its own.
    pub fn place(&self, document: &str, namespace: &str) -> (String, String, String) {
        let field = |name: &str| {
            let line =
                document.lines().find_map(|l| l.strip_prefix(name)).unwrap_or_else(|| panic!("{name}{document}"));
            line.trim().trim_matches(['"', '\'']).to_owned()
        };
        let (api, kind) = (field("apiVersion:"), field("kind:"));
        let metadata = document.split_once("\nmetadata:\n").expect("metadata").1;
        let name = metadata.lines().take_while(|l| l.starts_with("  ")).find_map(|l| l.strip_prefix("  name:"));
        let name = name.expect("a name").trim().trim_matches(['"', '\'']).to_owned();
        let resource = self.kinds.borrow()[&(api.clone(), kind.clone())].clone();
        let all = format!("{}/namespaces/{namespace}/{resource}", base(&api));
        (format!("{kind}/{name}"), all.clone(), format!("{all}/{name}"))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        while let Some(mut last) = self.running.pop() {
            if !std::thread::panicking() {
                last.stop();
            }
        }
    }
}

fn base(api: &str) -> String {
    if api.contains('/') { format!("/apis/{api}") } else { format!("/api/{api}") }
}

pub fn text<'a>(of: &'a Value, name: &str) -> &'a str {
    of[name].as_str().unwrap_or_default()
}

pub fn items<'a>(of: &'a Value, name: &str) -> &'a [Value] {
    of[name].as_array().map_or(&[], Vec::as_slice)
}

/// The objects of a manifest, as text.
pub fn documents(manifest: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    for line in manifest.split_inclusive('\n') {
        match (line.trim_end(), parts.last_mut()) {
            ("---", _) => parts.push(String::new()),
            (_, Some(part)) => part.push_str(line),
            (_, None) => {}
        }
    }
    parts.retain(|part| part.lines().any(|l| l.starts_with("kind:")));
    parts
}
