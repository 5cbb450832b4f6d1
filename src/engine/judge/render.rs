//! Judging what is about to be shown to a person: a verdict, and always a copy that is safe to show.

use super::pairing::model_call;
use super::publish::Draft;
use super::{Run, call};
use crate::engine::Input;
use crate::engine::digest::Role;
use crate::engine::event::Rendered;
use crate::engine::layer::Edit;
use crate::engine::policy::{Evidence, RenderSubject, Subject};
use crate::engine::redact::shown_instead;
use crate::engine::state::Session;
use crate::engine::verdict::{Checkpoint, Decision, SubjectOut};
use crate::engine::wire::Envelope;

impl<'a, 'r> Run<'a, 'r> {
    pub(super) fn rendered(
        &mut self,
        session: &mut Session<'_>,
        envelope: &Envelope<'r>,
        input: &Input<'_>,
        rendered: &Rendered<'r>,
    ) {
        if self.off() {
            return;
        }
        let id = self.call_id(rendered.call_id, envelope);
        let found = if id.is_empty() { None } else { model_call(session, &id) };
        let call = found.and_then(|n| session.conversation().calls.get(&n));
        let subject = RenderSubject { format: rendered.format, content: rendered.content, call };
        let (report, said) = self.check(session, call.map(|call| call.exchange), &Subject::Render(&subject));

        let mut draft = Draft::new(self.next_id(Checkpoint::Render), Checkpoint::Render);
        draft.policies = report.policies;
        draft.monitored = self.monitored(&draft);
        draft.complete = !report.incomplete;
        draft.findings = report.findings;
        let tool = call.map(|call| call.name.as_slice()).or(envelope.tool.map(str::as_bytes));
        draft.subject = SubjectOut {
            call_id: (!id.is_empty()).then(|| self.clean(&id)),
            tool: tool.filter(|tool| !tool.is_empty()).map(|tool| self.clean(tool)),
            server: call.and_then(|call| call.server.as_ref()).map(|server| self.clean(server)),
            executor: call.map(call::executor_name),
        };
        let text = rendered.content.text().unwrap_or_default();
        draft.content_hmac = Some(self.keyed().digest(Role::Content, &[&text]));
        draft.content_bytes = text.len() as u64;

        let edits = self.shown(rendered, &mut draft, report.edits);
        let copy = if self.withholds(&draft) { None } else { self.copy(&mut draft, envelope, input, &edits) };
        let said_it = self.emit(draft).is_some();
        self.publish(said_it, copy, &edits);
        session.head().said |= said;
    }

    /// The edits that the draft's action needs. What cannot be edited is blocked, and what is blocked is not shown.
    fn shown(&self, rendered: &Rendered<'r>, draft: &mut Draft<'r, '_>, asked: Vec<Edit<'r>>) -> Vec<Edit<'r>> {
        let editable = || !asked.is_empty() && self.editable(&asked, rendered.content.layer());
        if draft.fold().1 == Decision::Redact && !editable() {
            draft.block("not_redactable", Evidence::None);
        }
        match draft.fold().1 {
            Decision::Allow => Vec::new(),
            Decision::Redact => asked,
            Decision::Block => {
                let blocks = draft.findings.iter().find(|finding| finding.effect == Decision::Block);
                let code = blocks.map_or("SG00", |finding| finding.policy.code);
                vec![shown_instead(rendered.content, &format!("content withheld by policy {code}"))]
            }
        }
    }
}
