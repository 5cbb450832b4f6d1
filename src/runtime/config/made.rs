//! What the rest of the process is made from: the engine's settings, the worker's, and secrets out of their files.

use super::sections::{BreakGlass, Mechanism, OnLoss, OnOffsetReset, SecurityProtocol, Start};
use super::{Config, problem, reason};
use crate::engine::policy::{FleetTrust, Profile};
use crate::engine::{Problem, Settings};
use crate::runtime::{canary, settings};
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

impl BreakGlass {
    /// When it ends, if `until` is a time.
    pub fn ends(&self) -> Option<SystemTime> {
        let until: jiff::Timestamp = self.until.as_ref()?.parse().ok()?;
        let since = u64::try_from(until.as_millisecond()).ok()?;
        UNIX_EPOCH.checked_add(Duration::from_millis(since))
    }
    /// How long it holds from now on; none: it does not.
    pub fn left(&self) -> Option<Duration> {
        self.ends()?.duration_since(SystemTime::now()).ok().filter(|left| !left.is_zero())
    }
}

impl Config {
    /// The key of all keyed digests; 32 zero bytes without a file.
    ///
    /// # Errors
    /// The file cannot be read, or holds neither 32 bytes nor 64 hexadecimal digits.
    pub fn fingerprint_key(&self) -> Result<[u8; 32], Problem> {
        let Some(file) = &self.engine.fingerprint_key_file else {
            return Ok([0; 32]);
        };
        let path = "engine.fingerprint_key_file";
        let bytes = std::fs::read(file).map_err(|e| problem(path, format!("{}: {}", file.display(), reason(&e))))?;
        if let Ok(key) = <[u8; 32]>::try_from(bytes.as_slice()) {
            return Ok(key);
        }
        let text = bytes.trim_ascii();
        let digits: Option<Vec<u8>> =
            text.iter().map(|b| (*b as char).to_digit(16).and_then(|d| u8::try_from(d).ok())).collect();
        let key: Option<[u8; 32]> = digits
            .filter(|d| d.len() == 64)
            .and_then(|d| d.chunks_exact(2).map(|c| c[0] << 4 | c[1]).collect::<Vec<u8>>().try_into().ok());
        key.ok_or_else(|| {
            problem(
                path,
                format!("{}: {} bytes: must hold 32 bytes or 64 hexadecimal digits", file.display(), bytes.len()),
            )
        })
    }

    /// The SASL password, if a file is named.
    ///
    /// # Errors
    /// The file cannot be read as text.
    pub fn password(&self) -> Result<Option<String>, Problem> {
        let Some(file) = &self.kafka.sasl.password_file else {
            return Ok(None);
        };
        let text = std::fs::read_to_string(file)
            .map_err(|e| problem("kafka.sasl.password_file", format!("{}: {}", file.display(), reason(&e))))?;
        Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
    }

    /// The engine's settings. `cluster` is the first eight characters of the cluster id.
    ///
    /// # Errors
    /// The fingerprint key cannot be read.
    pub fn engine_settings(&self, cluster: &str, profile: Option<Profile>) -> Result<Settings, Problem> {
        Ok(self.engine_settings_with(self.fingerprint_key()?, cluster, profile))
    }

    /// As [`Config::engine_settings`], with this key.
    pub fn engine_settings_with(&self, key: [u8; 32], cluster: &str, profile: Option<Profile>) -> Settings {
        let mut policy = self.policy.clone();
        if let Some(profile) = profile {
            policy.profile = profile;
        }
        policy.break_glass = self.break_glass.left().is_some();
        if policy.bundle.is_empty() {
            policy.bundle = "default".into();
        }
        Settings {
            limits: self.engine.limits.clone(),
            policy,
            redacted: self.engine.redacted,
            dead_letter_payload: self.engine.dead_letter_payload,
            fingerprint_key: key,
            cluster: cluster.into(),
            group: self.kafka.group.clone(),
            trust_event_time: false,
            lines: false,
            fleets: self.believed(),
            fleet_labels: self.fleets.keys().cloned().collect(),
        }
    }

    /// Where a claimed fleet is believed: also the canary's, where fleets are told apart at all.
    fn believed(&self) -> BTreeMap<String, FleetTrust> {
        let mut fleets = self.fleets.clone();
        if self.canary.enabled && !fleets.is_empty() {
            let sources = vec![canary::source(&self.kafka.group)];
            fleets.insert(canary::FLEET.to_owned(), FleetTrust { topics: Vec::new(), sources });
        }
        fleets
    }

    /// What the worker and its Kafka adapter need, for a file that was checked for [`Need::Kafka`].
    ///
    /// # Errors
    /// The password file cannot be read.
    pub fn settings(&self) -> Result<settings::Settings, Problem> {
        let (k, w, l) = (&self.kafka, &self.worker, &self.engine.limits);
        let mut properties = k.properties.clone();
        let mut set = |name: &str, value: Option<&str>| {
            if let Some(value) = value {
                properties.insert(name.into(), value.into());
            }
        };
        if k.security_protocol != SecurityProtocol::Plaintext {
            set("security.protocol", Some(k.security_protocol.name()));
        }
        set("sasl.mechanism", k.sasl.mechanism.map(Mechanism::name));
        set("sasl.username", k.sasl.username.as_deref());
        set("sasl.password", self.password()?.as_deref());
        set("ssl.ca.location", k.ca_file.as_ref().and_then(|f| f.to_str()));
        let size = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let inputs: Vec<&str> = k.inputs.iter().map(String::as_str).collect();
        let base = settings::Settings::new(k.bootstrap_servers.clone(), k.group.clone(), &inputs);
        // What waits for a wider topic counts in refreshes, so it must know the one that holds.
        let refresh = properties.get("topic.metadata.refresh.interval.ms").and_then(|v| v.parse().ok());
        Ok(settings::Settings {
            instance: k.instance.clone().unwrap_or_else(host_name),
            workers: w.count,
            static_membership: k.static_membership,
            verdicts: k.topics.verdicts.clone(),
            redacted: k.topics.redacted.clone(),
            deadletters: k.topics.deadletters.clone(),
            sightings: k.topics.pin_sightings.clone(),
            pins: k.topics.pins.clone(),
            pins_audit: k.topics.pins_audit.clone(),
            pins_stale: self.pins.stale_after.0,
            start: match k.start {
                Start::Earliest => settings::Start::Earliest,
                Start::Latest => settings::Start::Latest,
            },
            on_offset_reset: match self.state.on_offset_reset {
                OnOffsetReset::Refuse => settings::OnReset::Refuse,
                OnOffsetReset::ReplayFresh => settings::OnReset::ReplayFresh,
            },
            on_loss: match self.state.on_loss {
                OnLoss::Refuse => settings::OnLoss::Refuse,
                OnLoss::StartEmpty => settings::OnLoss::StartEmpty,
            },
            commit_min: w.commit_min.0,
            commit_interval: w.commit_interval.0,
            transaction_timeout: w.transaction_timeout.0,
            session_timeout: k.session_timeout.0,
            startup_timeout: k.startup_timeout.0,
            drain_timeout: w.drain_timeout.0,
            sizes: settings::Sizes {
                record: size(l.record_bytes),
                output: size(l.output_bytes),
                verdict: size(l.verdict_bytes),
                ..base.sizes
            },
            metadata_refresh: refresh.map_or(base.metadata_refresh, Duration::from_millis),
            properties,
            ..base
        })
    }
}
/// The host's name: a pod's name under Kubernetes.
fn host_name() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .ok()
        .or_else(|| std::env::var("HOSTNAME").ok())
        .unwrap_or_default();
    let name: String =
        text.trim().chars().map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' }).collect();
    if name.is_empty() { "0".into() } else { name }
}
