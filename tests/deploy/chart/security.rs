//! The restricted pod security standard, for every pod of every case.

use super::render::{all, containers, items, kind, name, own_containers, pod, text};
use serde_json::{Value, json};

/// Kinds of volumes that the restricted standard permits.
const VOLUMES: [&str; 8] =
    ["configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"];

/// Where a pod breaks the restricted standard (Kubernetes, Pod Security Standards), one line each.
fn violations(spec: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut hold = |holds: bool, what: String| {
        if !holds {
            wrong.push(what);
        }
    };
    for host in ["hostNetwork", "hostPID", "hostIPC"] {
        hold(spec[host] != true, format!("{host} is shared"));
    }
    for volume in items(spec, "/volumes") {
        let kinds = volume.as_object().into_iter().flatten().map(|(k, _)| k.as_str()).filter(|k| *k != "name");
        for of in kinds {
            hold(VOLUMES.contains(&of), format!("volume {}: {of}", text(volume, "/name")));
        }
    }
    let of_pod = &spec["securityContext"];
    hold(items(of_pod, "/sysctls").next().is_none(), "sysctls".into());
    for container in containers(spec).chain(items(spec, "/ephemeralContainers")) {
        let own = &container["securityContext"];
        let who = text(container, "/name");
        // What the container says goes before what the pod says.
        let effective = |field: &str| if own[field].is_null() { &of_pod[field] } else { &own[field] };
        hold(own["privileged"] != true, format!("{who}: privileged"));
        hold(own["allowPrivilegeEscalation"] == false, format!("{who}: allowPrivilegeEscalation is not false"));
        hold(effective("runAsNonRoot") == true, format!("{who}: runAsNonRoot is not true"));
        hold(effective("runAsUser") != 0, format!("{who}: runs as root"));
        let seccomp = &effective("seccompProfile")["type"];
        hold(seccomp == "RuntimeDefault" || seccomp == "Localhost", format!("{who}: no seccomp profile"));
        let drops = items(own, "/capabilities/drop").any(|c| c == "ALL");
        hold(drops, format!("{who}: keeps capabilities"));
        let adds = items(own, "/capabilities/add").all(|c| c == "NET_BIND_SERVICE");
        hold(adds, format!("{who}: adds capabilities"));
        hold(items(container, "/ports").all(|p| p["hostPort"].is_null()), format!("{who}: a port of the host"));
        hold(own["procMount"].is_null() || own["procMount"] == "Default", format!("{who}: procMount"));
        let selinux = text(own, "/seLinuxOptions/type");
        hold(
            ["", "container_t", "container_init_t", "container_kvm_t"].contains(&selinux),
            format!("{who}: {selinux}"),
        );
        let armor = text(own, "/appArmorProfile/type");
        hold(["", "RuntimeDefault", "Localhost"].contains(&armor), format!("{who}: AppArmor {armor}"));
        let host = ["startupProbe", "livenessProbe", "readinessProbe"]
            .map(|p| text(container, &format!("/{p}/httpGet/host")).len());
        hold(host == [0; 3], format!("{who}: a probe asks another host"));
    }
    wrong
}

#[test]
fn every_pod_holds_the_restricted_standard() {
    let Some(all) = all() else { return };
    let mut pods = 0;
    for case in all {
        for object in &case.objects {
            let Some((_, spec)) = pod(object) else { continue };
            pods += 1;
            assert_eq!(violations(spec), Vec::<String>::new(), "{} {}", case.file, name(object));
            // And more than it asks for.
            assert_eq!(spec["enableServiceLinks"], false, "{}", case.file);
            let token = case.values.pointer("/serviceAccount/automountToken") == Some(&true.into());
            assert_eq!(spec["automountServiceAccountToken"], token, "{}", case.file);
            for container in own_containers(spec) {
                assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true, "{}", case.file);
            }
        }
    }
    println!("figures: {pods} pods hold the restricted pod security standard");
    assert!(pods > 20, "{pods}");
}

/// Each breach alone is found.
#[test]
fn the_walker_finds_each_breach() {
    let good = json!({
        "volumes": [{ "name": "a", "secret": { "secretName": "s" } }],
        "securityContext": { "runAsNonRoot": true, "runAsUser": 65532, "seccompProfile": { "type": "RuntimeDefault" } },
        "containers": [{
            "name": "c", "ports": [{ "containerPort": 1 }], "livenessProbe": { "httpGet": { "port": 1 } },
            "securityContext": { "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } },
        }],
    });
    assert_eq!(violations(&good), Vec::<String>::new());
    let context = "/containers/0/securityContext";
    for (at, field, value) in [
        ("", "hostNetwork", json!(true)),
        ("", "hostPID", json!(true)),
        ("", "hostIPC", json!(true)),
        ("/volumes/0", "hostPath", json!({ "path": "/" })),
        ("/securityContext", "sysctls", json!([{ "name": "a", "value": "1" }])),
        ("/securityContext", "runAsNonRoot", json!(false)),
        ("/securityContext", "runAsUser", json!(0)),
        ("/securityContext", "seccompProfile", Value::Null),
        ("/securityContext", "seccompProfile", json!({ "type": "Unconfined" })),
        (context, "runAsNonRoot", json!(false)),
        (context, "runAsUser", json!(0)),
        (context, "privileged", json!(true)),
        (context, "allowPrivilegeEscalation", Value::Null),
        (context, "capabilities", json!({ "drop": ["NET_RAW"] })),
        (context, "capabilities", json!({ "drop": ["ALL"], "add": ["SYS_ADMIN"] })),
        (context, "procMount", json!("Unmasked")),
        (context, "seLinuxOptions", json!({ "type": "spc_t" })),
        (context, "appArmorProfile", json!({ "type": "Unconfined" })),
        ("/containers/0/ports/0", "hostPort", json!(1)),
        ("/containers/0/livenessProbe/httpGet", "host", json!("example.com")),
    ] {
        let mut bad = good.clone();
        bad.pointer_mut(at).expect("a place")[field] = value;
        assert_eq!(violations(&bad).len(), 1, "{at}/{field}: {:?}", violations(&bad));
    }
    for list in ["initContainers", "ephemeralContainers"] {
        let mut bad = good.clone();
        bad[list] = json!([{ "name": "i" }]);
        assert_ne!(violations(&bad), Vec::<String>::new(), "{list}");
    }
}

/// The chart holds no secret, and none reaches a process by its environment.
#[test]
fn secrets_are_files_that_the_chart_does_not_make() {
    let Some(all) = all() else { return };
    let mut mounted = 0;
    for case in all {
        for object in &case.objects {
            assert_ne!(kind(object), "Secret", "{}", case.file);
            let Some((_, spec)) = pod(object) else { continue };
            for container in own_containers(spec) {
                let said = container["env"].to_string() + &container["envFrom"].to_string();
                assert!(!said.contains("secret"), "{}: {said}", case.file);
            }
            for volume in items(spec, "/volumes").filter(|v| !v["secret"].is_null()) {
                mounted += 1;
                assert_eq!(volume["secret"]["defaultMode"], 0o440, "{}", case.file);
                let at = text(volume, "/name");
                for container in own_containers(spec) {
                    let mount = items(container, "/volumeMounts").find(|m| m["name"] == at);
                    let mount = mount.unwrap_or_else(|| panic!("{}: {at} is not mounted", case.file));
                    assert_eq!(mount["readOnly"], true, "{}: {at}", case.file);
                }
            }
        }
    }
    assert!(mounted > 30, "{mounted}");
}
