//! Settings by scope: which settings hold for a fleet, an agent, a tool, a server.
//!
//! An override says by globs whom it is for, and what is otherwise there. All that match a subject are laid over the
//! base, the least specific first. Which is more specific: the one whose `tool` says more, then `server`, then
//! `agent`, then `fleet`; a glob says more the more of its characters are literal, and a name without `*` says more
//! than a glob with as many. Of two alike, the later name wins. Profile and mode are replaced; rules and options by
//! name, each option as a whole.
//!
//! Every set of overrides that matches some subject is compiled when it is first met, and kept by the worker (at most
//! [`KEPT`]). Invariants: a set that is met compiles, since each override was compiled alone and each two were held
//! against the bounds together; should three contradict each other, the least specific is left out. The digest of a
//! verdict is that of the settings that judged its subject; the engine's covers all.
//!
//! A fleet's name is a claim. Overrides for fleets or agents need `fleets`, which says where claims are believed, or
//! whoever writes to a topic could choose the settings that judge it.

use super::globs::{glob, no_glob};
use super::registry::Policies;
use super::{OnePolicy, PolicySettings, Profile};
use crate::engine::Problem;
use crate::engine::digest;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Overrides of one configuration: a set of them is a bit set.
pub const MAX_OVERRIDES: usize = 64;
/// The fleet of whoever claims none.
const DEFAULT: &str = "default";
/// Bytes of a glob, or of a beginning.
const MAX_GLOB: usize = 256;
/// Compiled sets that a worker keeps.
const KEPT: usize = 64;

/// Settings that hold for some subjects only. All that match a subject are laid over the base, setting by setting, the
/// most specific last, so that it wins: the one whose `tool` says more; of two alike in that, whose `server` does, then
/// `agent`, then `fleet`. A name or glob says more the more characters it has beside `*`, and a name more than a glob
/// of as many; a match without one says least. Of two alike in all, the later name wins. `policies --effective` shows
/// what holds, and [from watching to enforcing](rollout.md#which-override-wins) has an example.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Override {
    /// Whom it is for: everything named must match.
    pub r#match: Scope,
    /// Another base policy. `off` for a tool or a server keeps the verdicts, without findings.
    pub profile: Option<Profile>,
    /// By code, laid over those of `policy.policies`: mode, and each rule and option that is named.
    pub policies: BTreeMap<String, OnePolicy>,
}

/// Globs: `*` stands for any text, everything else for itself.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Scope {
    /// The fleet, as it is believed.
    pub fleet: Option<String>,
    /// The agent.
    pub agent: Option<String>,
    /// The tool that is called, or whose output it is.
    pub tool: Option<String>,
    /// The MCP server.
    pub server: Option<String>,
}

/// Where records may claim a fleet. Both must hold; an empty list holds always.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FleetTrust {
    /// Input topics, as globs.
    pub topics: Vec<String>,
    /// Beginnings of the event's `source`. One that ends with a letter or digit ends a part of it: `/fleets/a` takes in
    /// `/fleets/a/1`, and not `/fleets/ab`.
    pub sources: Vec<String>,
}

impl FleetTrust {
    /// Whether records of this input topic may claim it, as far as the topic goes.
    pub fn of_topic(&self, topic: &str) -> bool {
        self.topics.is_empty() || self.topics.iter().any(|pattern| glob(pattern.as_bytes(), topic.as_bytes()))
    }

    pub fn permits(&self, topic: &str, source: &str) -> bool {
        let begins = |prefix: &String| {
            let Some(rest) = source.strip_prefix(prefix.as_str()) else { return false };
            !prefix.ends_with(char::is_alphanumeric) || rest.is_empty() || rest.starts_with(['/', ':', '?', '#'])
        };
        self.of_topic(topic) && (self.sources.is_empty() || self.sources.iter().any(begins))
    }
}

/// Whom settings are asked for. A subject without a tool or a server matches no override that names one.
#[derive(Debug, Clone, Copy)]
pub struct Who<'a> {
    pub fleet: &'a [u8],
    pub agent: &'a [u8],
    pub tool: Option<&'a [u8]>,
    pub server: Option<&'a [u8]>,
}

impl Scope {
    fn globs(&self) -> [(&'static str, Option<&str>); 4] {
        [
            ("tool", self.tool.as_deref()),
            ("server", self.server.as_deref()),
            ("agent", self.agent.as_deref()),
            ("fleet", self.fleet.as_deref()),
        ]
    }

    fn matches(&self, who: &Who<'_>) -> bool {
        let names = [who.tool, who.server, Some(who.agent), Some(who.fleet)];
        self.globs().iter().zip(names).all(|((_, pattern), name)| match (pattern, name) {
            (None, _) => true,
            (Some(pattern), Some(name)) => glob(pattern.as_bytes(), name),
            (Some(_), None) => false,
        })
    }

    /// How much it says: by tool, server, agent, fleet.
    fn specificity(&self) -> [usize; 4] {
        self.globs().map(|(_, pattern)| {
            pattern.map_or(0, |pattern| {
                let wild = pattern.bytes().filter(|byte| *byte == b'*').count();
                1 + 2 * (pattern.len() - wild) + usize::from(wild == 0)
            })
        })
    }

    /// Whether no subject matches both.
    fn excludes(&self, other: &Scope) -> bool {
        let exact = |pattern: Option<&str>| pattern.is_some_and(|pattern| !pattern.contains('*'));
        self.globs().iter().zip(other.globs()).any(|((_, a), (_, b))| match (a, b) {
            (Some(a), Some(b)) if exact(Some(a)) => !glob(b.as_bytes(), a.as_bytes()),
            (Some(a), Some(b)) if exact(Some(b)) => !glob(a.as_bytes(), b.as_bytes()),
            _ => false,
        })
    }
}

/// Where a setting comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin<'s> {
    /// The policy's own default.
    Default,
    /// The profile that holds.
    Profile,
    /// `policy` of the configuration.
    Base,
    /// The override of that name.
    Override(&'s str),
}

/// What holds for somebody, and why.
#[derive(Debug)]
pub struct Effective<'s> {
    pub profile: (Profile, Origin<'s>),
    /// Names of the overrides that match, the least specific first.
    pub overrides: Vec<&'s str>,
    pub policies: Arc<Policies>,
    layers: Vec<(Origin<'s>, &'s BTreeMap<String, OnePolicy>)>,
}

impl<'s> Effective<'s> {
    fn last(&self, code: &str, sets: impl Fn(&OnePolicy) -> bool) -> Option<Origin<'s>> {
        let mut layers = self.layers.iter().rev();
        layers.find(|(_, policies)| policies.get(code).is_some_and(&sets)).map(|(origin, _)| *origin)
    }
    pub fn mode(&self, code: &str) -> Origin<'s> {
        self.last(code, |own| own.mode.is_some()).unwrap_or(Origin::Profile)
    }
    pub fn rule(&self, code: &str, name: &str) -> Origin<'s> {
        self.last(code, |own| own.rules.contains_key(name)).unwrap_or(Origin::Profile)
    }
    pub fn option(&self, code: &str, name: &str) -> Origin<'s> {
        self.last(code, |own| own.options.contains_key(name)).unwrap_or(Origin::Default)
    }
}

/// Compiled sets, kept from record to record, by the digest of all settings they are of: a worker may judge by two
/// while settings change. One worker owns it.
#[derive(Default)]
pub struct Variants {
    kept: RefCell<BTreeMap<([u8; 8], u64), Arc<Policies>>>,
}

impl std::fmt::Debug for Variants {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Variants").field("kept", &self.kept.borrow().len()).finish()
    }
}

/// The settings of everybody.
#[derive(Debug)]
pub struct Scopes {
    settings: PolicySettings,
    base: Arc<Policies>,
    /// Names of the overrides, the least specific first.
    order: Vec<String>,
    digest: String,
    /// First bytes of a digest of `digest`.
    key: [u8; 8],
}

impl Scopes {
    /// # Errors
    /// Every setting that cannot hold.
    pub fn new(settings: &PolicySettings, fleets: &BTreeMap<String, FleetTrust>) -> Result<Scopes, Vec<Problem>> {
        let base = Policies::new(settings);
        let mut problems = Vec::new();
        let count = settings.overrides.len();
        if count > MAX_OVERRIDES {
            let problem = format!("{count} overrides: at most {MAX_OVERRIDES}");
            problems.push(Problem { path: "overrides".to_owned(), problem });
        }
        if !settings.bundle.is_empty() && !digest::is_shown(settings.bundle.as_bytes()) {
            let problem =
                format!("{:?}: must be at most 128 of A-Z a-z 0-9 _ . : / @ -, and no secret", settings.bundle);
            problems.push(Problem { path: "bundle".to_owned(), problem });
        }
        let mut order: Vec<(&String, &Override)> = settings.overrides.iter().take(MAX_OVERRIDES).collect();
        order.sort_by_key(|(name, over)| (over.r#match.specificity(), *name));
        for (name, over) in &order {
            check_match(name, &over.r#match, fleets, &mut problems);
            let blank = over.policies.iter().filter(|(code, own)| sets_nothing(code, own));
            problems.extend(blank.map(|(code, _)| Problem {
                path: format!("overrides.{name}.policies.{code}"),
                problem: "sets nothing: give it mode, rules or options".to_owned(),
            }));
            if over.profile.is_none() && over.policies.is_empty() {
                let problem = "sets nothing: give it profile or policies".to_owned();
                problems.push(Problem { path: format!("overrides.{name}"), problem });
            }
        }
        check_fleets(fleets, &mut problems);
        let known: Vec<Problem> = base.as_ref().err().cloned().unwrap_or_default();
        let mut digests = Vec::new();
        for (name, over) in &order {
            match Policies::new(&merged(settings, &[over])) {
                Ok(policies) => digests.push(json!([name, over.r#match, policies.digest()])),
                Err(found) => {
                    let own = found.into_iter().filter(|problem| !known.contains(problem));
                    problems.extend(own.map(|p| Problem { path: format!("overrides.{name}.{}", p.path), ..p }));
                }
            }
        }
        if problems.is_empty() && known.is_empty() {
            check_pairs(settings, &order, &mut problems);
        }
        problems.extend(known);
        let Ok(base) = base else { return Err(problems) };
        if !problems.is_empty() {
            return Err(problems);
        }
        let digest = if digests.is_empty() {
            base.digest().to_owned()
        } else {
            let text = json!({"base": base.digest(), "overrides": digests}).to_string();
            format!("sha256:{}", digest::hex(&digest::sha256(text.as_bytes())))
        };
        let order = order.into_iter().map(|(name, _)| name.clone()).collect();
        let mut key = [0; 8];
        key.copy_from_slice(&digest::sha256(digest.as_bytes())[..8]);
        Ok(Scopes { settings: settings.clone(), base: Arc::new(base), order, digest, key })
    }

    /// The digest of all settings.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// One policy holds for all.
    pub fn is_one(&self) -> bool {
        self.order.is_empty()
    }

    /// What holds for whomever no override is for.
    pub fn base(&self) -> &Policies {
        &self.base
    }

    /// The settings that hold for somebody; none: those of the base.
    pub fn of(&self, who: &Who<'_>, variants: &Variants) -> Option<Arc<Policies>> {
        let set = if self.is_one() { 0 } else { self.matching(who) };
        if set == 0 {
            return None;
        }
        let key = (self.key, set);
        if let Some(known) = variants.kept.borrow().get(&key) {
            return Some(Arc::clone(known));
        }
        let made = self.compiled(set);
        let mut kept = variants.kept.borrow_mut();
        if kept.len() >= KEPT {
            kept.clear();
        }
        kept.insert(key, Arc::clone(&made));
        Some(made)
    }

    /// What holds for somebody, and where each setting comes from.
    pub fn effective(&self, who: &Who<'_>) -> Effective<'_> {
        let set = self.matching(who);
        let mut layers = vec![(Origin::Base, &self.settings.policies)];
        let mut profile = (self.settings.profile, Origin::Base);
        let mut overrides = Vec::new();
        for (name, over) in self.members(set) {
            overrides.push(name);
            layers.push((Origin::Override(name), &over.policies));
            if let Some(own) = over.profile {
                profile = (own, Origin::Override(name));
            }
        }
        Effective { profile, overrides, policies: self.compiled(set), layers }
    }

    fn members(&self, set: u64) -> impl Iterator<Item = (&str, &Override)> {
        let chosen = self.order.iter().enumerate().filter(move |(at, _)| set & (1 << at) != 0);
        chosen.filter_map(|(_, name)| Some((name.as_str(), self.settings.overrides.get(name)?)))
    }

    fn matching(&self, who: &Who<'_>) -> u64 {
        let found = self.members(u64::MAX).enumerate().filter(|(_, (_, over))| over.r#match.matches(who));
        found.fold(0, |set, (at, _)| set | 1 << at)
    }

    fn compiled(&self, set: u64) -> Arc<Policies> {
        let mut set = set;
        while set != 0 {
            let over: Vec<&Override> = self.members(set).map(|(_, over)| over).collect();
            match Policies::new(&merged(&self.settings, &over)) {
                Ok(policies) => return Arc::new(policies),
                // Without the least specific of them.
                Err(_) => set &= set - 1,
            }
        }
        Arc::clone(&self.base)
    }
}

/// Whether an entry of a policy that there is has nothing in it.
pub fn sets_nothing(code: &str, own: &OnePolicy) -> bool {
    *own == OnePolicy::default() && Policies::catalogue().iter().any(|meta| meta.code == code)
}

fn check_fleets(fleets: &BTreeMap<String, FleetTrust>, problems: &mut Vec<Problem>) {
    for (name, trust) in fleets {
        for (key, all) in [("topics", &trust.topics), ("sources", &trust.sources)] {
            for text in all.iter().filter(|text| text.is_empty() || text.len() > MAX_GLOB) {
                let problem = format!("{} bytes: must have 1 to {MAX_GLOB}", text.len());
                problems.push(Problem { path: format!("fleets.{name}.{key}"), problem });
            }
        }
        for problem in trust.topics.iter().filter_map(|text| no_glob(text)) {
            problems.push(Problem { path: format!("fleets.{name}.topics"), problem });
        }
        for text in trust.sources.iter().filter(|text| text.contains('*')) {
            let problem = format!("{text:?}: is a beginning, and no glob; leave sources out to believe every one");
            problems.push(Problem { path: format!("fleets.{name}.sources"), problem });
        }
    }
}

fn check_match(name: &str, scope: &Scope, fleets: &BTreeMap<String, FleetTrust>, problems: &mut Vec<Problem>) {
    let path = |key: &str| format!("overrides.{name}.match{key}");
    if scope.globs().iter().all(|(_, pattern)| pattern.is_none()) {
        let problem = "matches everything: name fleet, agent, tool or server, or set it in policies".to_owned();
        problems.push(Problem { path: path(""), problem });
    }
    for (key, pattern) in scope.globs() {
        let Some(pattern) = pattern.filter(|pattern| pattern.is_empty() || pattern.len() > MAX_GLOB) else { continue };
        let problem = format!("{} bytes: must have 1 to {MAX_GLOB}", pattern.len());
        problems.push(Problem { path: path(&format!(".{key}")), problem });
    }
    for (key, pattern) in scope.globs() {
        let problem = pattern.and_then(no_glob);
        problems.extend(problem.map(|problem| Problem { path: path(&format!(".{key}")), problem }));
    }
    let of = |fleet: &str, name: &str| glob(fleet.as_bytes(), name.as_bytes());
    let unbelieved = match (&scope.fleet, &scope.agent) {
        (Some(_), _) if fleets.is_empty() => {
            Some((".fleet", "fleets is empty, so no record is believed to be of a fleet: name it there".to_owned()))
        }
        (Some(fleet), _) if !of(fleet, DEFAULT) && !fleets.keys().any(|name| of(fleet, name)) => {
            let known = fleets.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            Some((".fleet", format!("{fleet:?}: no such fleet; fleets has {known}")))
        }
        (None, Some(_)) => {
            Some((".agent", "without fleet: an agent is believed only as one of a fleet; name both".to_owned()))
        }
        (Some(fleet), Some(_)) if of(fleet, DEFAULT) && !fleets.contains_key(DEFAULT) => Some((
            ".fleet",
            format!("{fleet:?}: takes in the fleet default, whose agents are believed only where fleets.default says"),
        )),
        _ => None,
    };
    problems.extend(unbelieved.map(|(key, problem)| Problem { path: path(key), problem }));
}

/// Two overrides that set options of one policy, and that some subject can match together.
fn check_pairs(settings: &PolicySettings, order: &[(&String, &Override)], problems: &mut Vec<Problem>) {
    let options = |over: &Override, code: &String| over.policies.get(code).is_some_and(|own| !own.options.is_empty());
    for (at, (first, less)) in order.iter().enumerate() {
        for (second, more) in order.iter().skip(at + 1) {
            let shared = less.policies.keys().any(|code| options(less, code) && options(more, code));
            if !shared || less.r#match.excludes(&more.r#match) {
                continue;
            }
            for found in Policies::problems(&merged(settings, &[less, more])) {
                let problem = format!("{} (together with overrides.{first})", found.problem);
                problems.push(Problem { path: format!("overrides.{second}.{}", found.path), problem });
            }
        }
    }
}

/// The settings with overrides laid over them, in this order.
fn merged(settings: &PolicySettings, over: &[&Override]) -> PolicySettings {
    let mut all = PolicySettings { overrides: BTreeMap::new(), ..settings.clone() };
    for over in over {
        all.profile = over.profile.unwrap_or(all.profile);
        for (code, own) in &over.policies {
            let into = all.policies.entry(code.clone()).or_default();
            into.mode = own.mode.or(into.mode);
            into.rules.extend(own.rules.iter().map(|(name, effect)| (name.clone(), *effect)));
            into.options.extend(own.options.iter().map(|(name, value)| (name.clone(), value.clone())));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::glob;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, name, expected) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("a*", "a", true),
            ("*", "", true),
            ("*_mail", "send_mail", true),
            ("*_mail", "send_mails", false),
            ("s*_*l", "send_mail", true),
            ("s*x*l", "send_mail", false),
            ("**a**", "bab", true),
            ("", "a", false),
        ] {
            assert_eq!(glob(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
    }
}
