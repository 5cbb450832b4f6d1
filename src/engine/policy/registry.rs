//! The registry: every policy of this build, and how settings become compiled policies.
//!
//! Adding a policy is one file and two lines: its `mod` in `mod.rs` and its line in [`registry!`]. Catalogue,
//! page, default options, settings, digest and dispatch derive from those. Invariant: the digest covers everything
//! that can change a verdict, defaults included, so a new default is a new digest.

use super::report::{MAX_RULES, Speaker};
use super::{
    Meta, Mode, OnePolicy, Policy, PolicySettings, Profile, Report, Rule, Subject, View,
    sg01_output_bounds::OutputBounds, sg02_failure_signals::FailureSignals, sg03_verbatim_turns::VerbatimTurns,
    sg04_argument_checks::ArgumentChecks, sg05_render_safety::RenderSafety, sg06_pinned_tools::PinnedTools,
    sg07_call_idempotency::CallIdempotency, sg08_final_arguments::FinalArguments, sg09_pure_results::PureResults,
    sg10_call_pairing::CallPairing, sg11_secret_leaks::SecretLeaks, sg12_injected_instructions::InjectedInstructions,
    sg13_media_results::MediaResults, sg14_server_results::ServerResults, sg15_verdict_bypass::VerdictBypass,
};
use crate::engine::Problem;
use crate::engine::decision::Decision;
use crate::engine::digest;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

macro_rules! registry {
    ($($field:ident: $policy:ty = $file:literal,)+) => {
        static CATALOGUE: &[&Meta] = &[$(&<$policy as Policy>::META,)+];

        struct Compiled {
            $($field: Option<(Speaker, $policy)>,)+
        }

        impl Compiled {
            fn new(settings: &PolicySettings, build: &mut Build) -> Option<Compiled> {
                $(let $field = build.compile::<$policy>(settings, &<$policy as Policy>::META);)+
                build.problems.is_empty().then_some(Compiled { $($field,)+ })
            }

            fn check<'r>(&self, subject: &Subject<'_, 'r>, view: &View<'_>, report: &mut Report<'r>) {
                for last in [false, true] {
                    $(if let Some((speaker, policy)) = &self.$field
                        && <$policy as Policy>::LAST == last
                    {
                        report.speak(*speaker);
                        policy.check(subject, view, report);
                        report.sign();
                    })+
                }
                report.findings.sort_by_key(|finding| finding.policy.number);
            }
        }

        fn default_options(code: &str) -> Option<Value> {
            $(if code == <$policy as Policy>::META.code {
                return serde_json::to_value(<$policy as Policy>::Options::default()).ok();
            })+
            None
        }

        fn read_options<'de, D: Deserializer<'de>>(code: &str, from: D) -> Result<(), D::Error> {
            $(if code == <$policy as Policy>::META.code {
                return <$policy as Policy>::Options::deserialize(from).map(drop);
            })+
            Ok(())
        }

        fn page(code: &str) -> Option<&'static str> {
            $(if code == <$policy as Policy>::META.code {
                return Some(include_str!($file));
            })+
            None
        }
    };
}

registry! {
    sg01: OutputBounds = "sg01_output_bounds.rs",
    sg02: FailureSignals = "sg02_failure_signals.rs",
    sg03: VerbatimTurns = "sg03_verbatim_turns.rs",
    sg04: ArgumentChecks = "sg04_argument_checks.rs",
    sg05: RenderSafety = "sg05_render_safety.rs",
    sg06: PinnedTools = "sg06_pinned_tools.rs",
    sg07: CallIdempotency = "sg07_call_idempotency.rs",
    sg08: FinalArguments = "sg08_final_arguments.rs",
    sg09: PureResults = "sg09_pure_results.rs",
    sg10: CallPairing = "sg10_call_pairing.rs",
    sg11: SecretLeaks = "sg11_secret_leaks.rs",
    sg12: InjectedInstructions = "sg12_injected_instructions.rs",
    sg13: MediaResults = "sg13_media_results.rs",
    sg14: ServerResults = "sg14_server_results.rs",
    sg15: VerdictBypass = "sg15_verdict_bypass.rs",
}

/// All policies of this build, compiled.
pub struct Policies {
    digest: String,
    /// First bytes of a digest of `digest`, as remembered results keep it.
    key: [u8; 8],
    profile: Profile,
    /// By code: mode, rules, options.
    effective: Map<String, Value>,
    compiled: Compiled,
}

impl std::fmt::Debug for Policies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Policies").field("digest", &self.digest).finish_non_exhaustive()
    }
}

impl Policies {
    /// # Errors
    /// Every setting that cannot hold: unknown codes, rules, options, out-of-bounds values.
    pub fn new(settings: &PolicySettings) -> Result<Policies, Vec<Problem>> {
        let (compiled, build) = Self::build(settings, false);
        let digest = build.digest(settings.profile);
        match compiled.filter(|_| build.problems.is_empty()) {
            Some(compiled) => {
                let mut key = [0; 8];
                key.copy_from_slice(&digest::sha256(digest.as_bytes())[..8]);
                Ok(Policies { digest, key, profile: settings.profile, effective: build.effective, compiled })
            }
            None => Err(build.problems),
        }
    }

    /// Every setting that cannot hold, without compiling any.
    pub fn problems(settings: &PolicySettings) -> Vec<Problem> {
        Self::build(settings, true).1.problems
    }

    fn build(settings: &PolicySettings, dry: bool) -> (Option<Compiled>, Build) {
        let mut build = Build { dry, ..Build::default() };
        for code in settings.policies.keys() {
            if !CATALOGUE.iter().any(|meta| meta.code == code) {
                build.problem(format!("policies.{code}"), format!("no such policy; known are {}", codes()));
            }
        }
        let compiled = Compiled::new(settings, &mut build);
        build.problems.sort_by(|a, b| a.path.cmp(&b.path));
        (compiled, build)
    }

    /// The profile that these settings started from.
    pub fn profile(&self) -> Profile {
        self.profile
    }

    /// The digest in short, as remembered results keep it.
    pub fn key(&self) -> [u8; 8] {
        self.key
    }

    /// A policy's mode, the effect of each of its rules, and its options, as they hold.
    pub fn effective(&self, code: &str) -> Option<&Value> {
        self.effective.get(code)
    }

    /// `sha256:` and the digest of the effective settings.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Every policy's description, in order of code.
    pub fn catalogue() -> &'static [&'static Meta] {
        CATALOGUE
    }

    /// The default options of a policy as JSON, for `policies CODE` and the configuration reference.
    pub fn default_options(code: &str) -> Option<Value> {
        default_options(code)
    }

    /// Reads a policy's options and forgets them: a deserialiser that only asks learns their names and types.
    ///
    /// # Errors
    /// As the deserialiser has them.
    pub fn read_options<'de, D: Deserializer<'de>>(code: &str, from: D) -> Result<(), D::Error> {
        read_options(code, from)
    }

    /// A policy's page: the documentation at the head of its file, as Markdown.
    pub fn page(code: &str) -> Option<String> {
        let head = page(code)?.lines().map_while(|line| line.strip_prefix("//!"));
        Some(head.map(|line| format!("{}\n", line.strip_prefix(' ').unwrap_or(line))).collect())
    }

    /// Lets every enabled policy look at the subject.
    pub fn check<'r>(&self, subject: &Subject<'_, 'r>, view: &View<'_>, report: &mut Report<'r>) {
        self.compiled.check(subject, view, report);
    }
}

fn codes() -> String {
    CATALOGUE.iter().map(|meta| meta.code).collect::<Vec<_>>().join(", ")
}

/// What a profile makes of a policy that has no settings of its own.
fn base(meta: &'static Meta, profile: Profile) -> Speaker {
    let mode = match profile {
        Profile::Standard | Profile::Strict => Mode::Enforce,
        Profile::Monitor => Mode::Monitor,
        Profile::Off => Mode::Off,
    };
    let mut effects = [Decision::Allow; MAX_RULES];
    for (effect, rule) in effects.iter_mut().zip(meta.rules) {
        *effect = if profile == Profile::Strict { rule.strict } else { rule.effect };
    }
    Speaker { meta, mode, effects }
}

/// Settings on their way to policies.
#[derive(Default)]
struct Build {
    /// Nothing is compiled.
    dry: bool,
    problems: Vec<Problem>,
    /// By code: what the digest covers.
    effective: Map<String, Value>,
}

impl Build {
    fn problem(&mut self, path: String, problem: String) {
        self.problems.push(Problem { path, problem });
    }

    fn compile<P: Policy>(&mut self, settings: &PolicySettings, meta: &'static Meta) -> Option<(Speaker, P)> {
        let own = settings.policies.get(meta.code).cloned().unwrap_or_default();
        let mut speaker = base(meta, settings.profile);
        speaker.mode = own.mode.unwrap_or(speaker.mode);
        if settings.break_glass && speaker.mode == Mode::Enforce {
            speaker.mode = Mode::Monitor;
        }
        self.set_rules(meta, P::REDACTS, &own, &mut speaker);
        let (options, holds) = self.options::<P>(meta, &own);
        let rules: Map<String, Value> = meta
            .rules
            .iter()
            .zip(speaker.effects)
            .map(|(rule, effect)| (rule.name.to_owned(), json!(effect.name())))
            .collect();
        self.effective
            .insert(meta.code.to_owned(), json!({"mode": speaker.mode, "rules": rules, "options": json!(options)}));
        (holds && !self.dry && speaker.mode != Mode::Off).then(|| (speaker, P::new(options, settings.profile)))
    }

    fn set_rules(&mut self, meta: &Meta, redacts: &[Rule], own: &OnePolicy, speaker: &mut Speaker) {
        for (name, effect) in &own.rules {
            let found = meta.rules.iter().enumerate().find(|(_, rule)| rule.name == name);
            match found {
                // A verdict that says `redact` and changes nothing would let through what it found.
                Some((_, rule)) if *effect == Decision::Redact && !can_redact(rule, redacts) => {
                    let code = meta.code;
                    let problem = format!("redact: {code} {name} changes nothing in what it finds; allow or block");
                    self.problem(format!("policies.{code}.rules.{name}"), problem);
                }
                Some((ix, _)) => speaker.effects[ix] = *effect,
                None => {
                    let known = meta.rules.iter().map(|rule| rule.name).collect::<Vec<_>>().join(", ");
                    self.problem(
                        format!("policies.{}.rules.{name}", meta.code),
                        format!("no such rule; {} has {known}", meta.code),
                    );
                }
            }
        }
    }

    /// Each option is read by itself on top of the defaults, so that one bad value does not hide another. And whether
    /// what was read holds.
    fn options<P: Policy>(&mut self, meta: &Meta, own: &OnePolicy) -> (P::Options, bool) {
        let path = |name: &str| format!("policies.{}.options.{name}", meta.code);
        let Ok(Value::Object(mut all)) = serde_json::to_value(P::Options::default()) else {
            return (P::Options::default(), true);
        };
        for (name, value) in &own.options {
            if !all.contains_key(name) {
                let known = all.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
                self.problem(path(name), format!("no such option; {} has {known}", meta.code));
                continue;
            }
            let Some(default) = all.insert(name.clone(), value.clone()) else { continue };
            if let Err(error) = serde_json::from_value::<P::Options>(Value::Object(all.clone())) {
                self.problem(path(name), explained::<P::Options>(&all, name, &error.to_string()));
                all.insert(name.clone(), default);
            }
        }
        let options: P::Options = serde_json::from_value(Value::Object(all)).unwrap_or_default();
        let problems = P::problems(&options);
        let holds = problems.is_empty();
        for found in problems {
            self.problem(path(&found.path), found.problem);
        }
        (options, holds)
    }

    /// Object members of `serde_json` are ordered by name, so the text is canonical.
    fn digest(&self, profile: Profile) -> String {
        let text = json!({"profile": profile, "policies": self.effective}).to_string();
        format!("sha256:{}", digest::hex(&digest::sha256(text.as_bytes())))
    }
}

/// What serde says of an option's value. Of what is no word where one of a few is wanted it does not say which are.
fn explained<O: for<'de> Deserialize<'de>>(all: &Map<String, Value>, name: &str, error: &str) -> String {
    const MOST: usize = 64;
    if !error.contains("expected string or map") {
        return error.to_owned();
    }
    let mut scalars = Vec::new();
    let mut open = all.get(name).map(|value| (String::new(), value)).into_iter().collect::<Vec<_>>();
    while let Some((pointer, value)) = open.pop() {
        match value {
            Value::Array(items) => open.extend(items.iter().enumerate().map(|(n, v)| (format!("{pointer}/{n}"), v))),
            Value::Object(members) => open.extend(members.iter().map(|(name, v)| {
                let name = name.replace('~', "~0").replace('/', "~1");
                (format!("{pointer}/{name}"), v)
            })),
            Value::Bool(_) | Value::Number(_) if scalars.len() < MOST => scalars.push((pointer, value)),
            _ => {}
        }
    }
    let words = |pointer: &str| {
        let mut all = all.clone();
        *all.get_mut(name)?.pointer_mut(pointer)? = Value::String(String::new());
        let told = serde_json::from_value::<O>(Value::Object(all)).err()?.to_string();
        told.split_once("unknown variant ``, expected ").map(|(_, words)| words.replace('`', ""))
    };
    let found = scalars.into_iter().find_map(|(pointer, value)| Some((value, words(&pointer)?)));
    found.map_or_else(|| error.to_owned(), |(value, words)| format!("{value}: must be {words}"))
}

fn can_redact(rule: &Rule, redacts: &[Rule]) -> bool {
    [rule.effect, rule.strict].contains(&Decision::Redact) || redacts.iter().any(|known| known.name == rule.name)
}
