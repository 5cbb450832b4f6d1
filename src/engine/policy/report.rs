//! What policies say of one subject, under the settings of the policy that is speaking.
//!
//! Place in the journey: the registry sets the speaker, the policy reports, `verdict` folds findings and
//! `redact` makes the edits. A policy never decides about its own mode: [`Report::find`] answers what its
//! finding comes to, and edits are kept only where that is [`Decision::Redact`].

use super::{Evidence, Finding, Meta, Mode, Place, Policies, Rule, Subject, View};
use crate::engine::decision::Decision;
use crate::engine::event::ResultItem;
use crate::engine::json::{Kind, Value};
use crate::engine::layer::{Edit, Layer, Span};
use crate::engine::scan::secrets::{self, Secret};
use crate::engine::scan::text::{Reader, Text};
use bumpalo::Bump;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Collects what policies say of one subject.
#[derive(Debug)]
pub struct Report<'r> {
    pub findings: Vec<Finding<'r>>,
    /// What a redaction needs. An edit that touches an opaque field is refused later and blocks.
    pub edits: Vec<Edit<'r>>,
    /// What a bound leaves out: edits too, kept apart because a tighter bound may stand in their place.
    pub cuts: Vec<Edit<'r>>,
    /// Requests only: results (by index) whose own cuts are void, because cuts with a smaller bound stand in
    /// [`Report::cuts`].
    pub recut: Vec<u32>,
    /// Codes that say `not_observed` now, one bit a policy number.
    pub not_observed: u32,
    /// A check that this subject calls for could not be made, so the verdict is not complete.
    pub incomplete: bool,
    /// The settings that it was judged by.
    pub policies: Option<Arc<Policies>>,
    bump: &'r Bump,
    texts: Option<&'r [Text<'r>]>,
    secrets: Option<&'r [(usize, Secret)]>,
    speaker: Option<Speaker>,
}

/// The rule by which a policy says that it could not look, and the kind of that rule's labels.
const NOT_OBSERVED: &str = "not_observed";

/// Most rules a policy can have.
pub(super) const MAX_RULES: usize = 32;

/// The policy that looks at the subject now, and its settings.
#[derive(Debug, Clone, Copy)]
pub(super) struct Speaker {
    pub meta: &'static Meta,
    pub mode: Mode,
    /// By rule, in the order of [`Meta::rules`].
    pub effects: [Decision; MAX_RULES],
}

impl Speaker {
    fn effect(&self, rule: &Rule) -> Decision {
        let place = self.meta.rules.iter().position(|known| known.name == rule.name);
        place.and_then(|ix| self.effects.get(ix).copied()).unwrap_or(rule.effect)
    }
}

/// How much longer edits make what a result says, bytes; what others make shorter is not counted against it.
pub fn growth(result: &ResultItem<'_>, edits: &[Edit<'_>]) -> u64 {
    let content = result.content.unwrap_or(result.item).span();
    let is_said = |edit: &&Edit<'_>| {
        let inside = content.start <= edit.span.start && edit.span.end <= content.end;
        !std::ptr::eq(edit.span.layer, content.layer) || inside
    };
    edits.iter().filter(is_said).map(|edit| edit.with.len().saturating_sub(edit.span.len()) as u64).sum()
}

impl<'r> Report<'r> {
    /// An empty report for one subject. Layers that policies make live in `bump`, the arena of the record.
    pub fn new(bump: &'r Bump) -> Self {
        Self {
            findings: Vec::new(),
            edits: Vec::new(),
            cuts: Vec::new(),
            recut: Vec::new(),
            not_observed: 0,
            incomplete: false,
            policies: None,
            bump,
            texts: None,
            secrets: None,
            speaker: None,
        }
    }

    pub fn bump(&self) -> &'r Bump {
        self.bump
    }

    /// The subject's texts, decoded when the first policy asks for them.
    pub fn texts(&mut self, subject: &Subject<'_, 'r>) -> &'r [Text<'r>] {
        self.texts.get_or_insert_with(|| {
            let mut reader = Reader::new(self.bump);
            subject.read(&mut reader);
            reader.finish()
        })
    }

    /// The secrets in the subject's texts, each with the index of its text, in order: found when the first policy
    /// asks for them. What is decoded from a secret itself (a token's own parts) is not looked into again.
    pub fn secrets(&mut self, subject: &Subject<'_, 'r>) -> &'r [(usize, Secret)] {
        if let Some(found) = self.secrets {
            return found;
        }
        let texts = self.texts(subject);
        let mut found: Vec<(usize, Secret)> = Vec::new();
        let mut held: HashMap<*const Layer<'r>, Vec<Range<usize>>> = HashMap::new();
        for (ix, text) in texts.iter().enumerate() {
            let around = std::iter::successors(text.layer.source, |span| span.layer.source);
            let mut around = around.filter_map(|span| Some((held.get(&std::ptr::from_ref(span.layer))?, span)));
            let within = |(ranges, span): (&Vec<Range<usize>>, Span<'_>)| {
                let at = ranges.partition_point(|range| range.end < span.end as usize);
                ranges.get(at).is_some_and(|range| range.start <= span.start as usize)
            };
            if !held.is_empty() && around.any(within) {
                continue;
            }
            let named = text.value.and_then(names_value).or(text.member);
            let member = named.and_then(|member| member.text());
            let own = secrets::find(text.bytes(), member.as_deref());
            if !own.is_empty() {
                held.insert(std::ptr::from_ref(text.layer), own.iter().map(|s| s.start..s.end).collect());
                found.extend(own.into_iter().map(|secret| (ix, secret)));
            }
        }
        let found: &'r [(usize, Secret)] = self.bump.alloc_slice_copy(&found);
        self.secrets = Some(found);
        found
    }

    pub(super) fn speak(&mut self, speaker: Speaker) {
        self.speaker = Some(speaker);
    }

    /// What was asked for since somebody else spoke is the speaker's.
    pub(super) fn sign(&mut self) {
        let by = self.speaker.map(|speaker| speaker.meta.code);
        for edits in [&mut self.edits, &mut self.cuts] {
            edits.iter_mut().rev().take_while(|edit| edit.by.is_none()).for_each(|edit| edit.by = by);
        }
    }

    /// Reports a violation of a rule of the policy that is speaking, with the effect that the profile and the
    /// rule's own setting give it. Answers what the finding comes to after the policy's mode: edits are
    /// wanted if and only if that is [`Decision::Redact`].
    pub fn find(&mut self, rule: &'static Rule, place: Place<'r>, evidence: Evidence) -> Decision {
        self.find_at_most(rule, Decision::Block, place, evidence)
    }

    /// Like [`Report::find`], where the rule can do less than usual (nothing can be redacted in a response).
    pub fn find_at_most(
        &mut self,
        rule: &'static Rule,
        most: Decision,
        place: Place<'r>,
        evidence: Evidence,
    ) -> Decision {
        let Some(speaker) = self.speaker else { return Decision::Allow };
        self.say(speaker, rule, speaker.effect(rule).min(most), place, evidence)
    }

    /// Like [`Report::find`], where an option of the policy raises the rule for this subject.
    pub fn find_at_least(
        &mut self,
        rule: &'static Rule,
        least: Decision,
        place: Place<'r>,
        evidence: Evidence,
    ) -> Decision {
        let Some(speaker) = self.speaker else { return Decision::Allow };
        self.say(speaker, rule, speaker.effect(rule).max(least), place, evidence)
    }

    fn say(
        &mut self,
        speaker: Speaker,
        rule: &'static Rule,
        effect: Decision,
        place: Place<'r>,
        evidence: Evidence,
    ) -> Decision {
        self.findings.push(Finding { policy: speaker.meta, rule, effect, mode: speaker.mode, place, evidence });
        match speaker.mode {
            Mode::Enforce => effect,
            Mode::Monitor | Mode::Off => Decision::Allow,
        }
    }

    /// What a finding of this rule would come to.
    pub fn comes_to(&self, rule: &Rule) -> Decision {
        match self.speaker {
            Some(speaker) if speaker.mode == Mode::Enforce => speaker.effect(rule),
            _ => Decision::Allow,
        }
    }

    /// A violation in a range of a text (bytes of its layer).
    pub fn find_in(
        &mut self,
        rule: &'static Rule,
        most: Decision,
        text: &Text<'r>,
        range: (usize, usize),
        evidence: Evidence,
    ) -> Decision {
        let (start, end) = (range.0 as u32, range.1 as u32);
        let place = match text.value {
            Some(value) => Place::Value { value, range: Some((start, end)) },
            None => Place::Span(text.span(range.0, range.1)),
        };
        self.find_at_most(rule, most, place, evidence)
    }

    /// A replacement that a finding asks for.
    pub fn edit(&mut self, edit: Edit<'r>) {
        self.edits.push(edit);
    }

    /// The policy cannot see what it needs: said once a conversation, and on every verdict where an operator
    /// made it more than a remark. `label` is of a closed list.
    pub fn not_observed(&mut self, policy: &'static Meta, view: &View<'_>, label: &'static str) {
        let said = view.conversation.head.said & (1 << policy.number) != 0;
        let remark = |speaker: &Speaker| {
            let rule = policy.rules.iter().find(|rule| rule.name == NOT_OBSERVED);
            rule.is_none_or(|rule| speaker.effect(rule) == Decision::Allow)
        };
        self.not_observed |= 1 << policy.number;
        if !(said && self.speaker.as_ref().is_none_or(remark)) {
            self.say_not_observed(policy, label);
        }
    }

    /// A check of this very subject could not be made: said on each such verdict, which is then incomplete.
    pub fn skipped(&mut self, policy: &'static Meta, label: &'static str) {
        self.not_observed |= 1 << policy.number;
        self.incomplete = true;
        self.say_not_observed(policy, label);
    }

    fn say_not_observed(&mut self, policy: &'static Meta, label: &'static str) {
        let told = |found: &Finding<'_>| found.policy.code == policy.code && found.rule.name == NOT_OBSERVED;
        let Some(rule) = policy.rules.iter().find(|rule| rule.name == NOT_OBSERVED) else { return };
        if !self.findings.iter().any(told) {
            self.find(rule, Place::Whole, Evidence::Label { kind: NOT_OBSERVED, label });
        }
    }
}

/// Members that name what stands beside them in `value`, looked for among so many.
const NAMES: [&str; 7] = ["name", "Name", "key", "Key", "variable", "env", "field"];
const BESIDE: usize = 16;

/// The name of a pair's value: `{"name": "DB_PASSWORD", "value": …}`.
fn names_value(value: Value<'_>) -> Option<Value<'_>> {
    let key = value.key()?;
    if !key.is("value") && !key.is("Value") {
        return None;
    }
    let mut beside = value.parent()?.members().take(BESIDE);
    beside
        .find(|(name, value)| value.kind() == Kind::String && NAMES.iter().any(|n| name.is(n)))
        .map(|(_, value)| value)
}
