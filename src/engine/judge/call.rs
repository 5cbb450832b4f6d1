//! Judging a call that ended: its verdict, and the record that a host may act on.

use super::Run;
use super::publish::Draft;
use crate::engine::digest::{Role, hex, push_json_string, sha256};
use crate::engine::event::{Executor, Form, Provider};
use crate::engine::json::{self, JsonLimits};
use crate::engine::layer::{Layer, Step};
use crate::engine::policy::{CallSubject, Evidence, Finding, Mode, Place, Subject, intent};
use crate::engine::redact;
use crate::engine::state::{Call, CallStatus, Session};
use crate::engine::verdict::{Checkpoint, Decision, Names, SubjectOut, engine_finding};
use crate::engine::{Emission, Observation, To};

pub(super) fn executor_name(call: &Call) -> &'static str {
    match call.executor {
        Executor::Client => "client",
        Executor::Provider => "provider",
    }
}

/// Whether it is a call of an MCP client's, not a model's.
pub(super) fn is_rpc(session: &Session<'_>, call: &Call) -> bool {
    let exchange = session.conversation().exchanges.get(&call.exchange);
    match exchange {
        Some(exchange) => exchange.provider == Provider::Mcp,
        None => call.server.is_some() && call.executor == Executor::Client,
    }
}

impl<'a, 'r> Run<'a, 'r> {
    /// A call's key for idempotent execution: over conversation and call id; response and position are added
    /// where the id is empty or repeated.
    pub(super) fn idempotency(&self, id: &[u8], repeated: bool, slot: (u32, u32)) -> String {
        let conversation = self.origin.conversation.unwrap_or_default();
        let digest = if id.is_empty() || repeated {
            let position = [slot.0.to_be_bytes(), slot.1.to_be_bytes()].concat();
            let response = self.origin.response_id.unwrap_or_default();
            self.keyed().digest(Role::Idempotency, &[conversation, id, response, &position])
        } else {
            self.keyed().digest(Role::Idempotency, &[conversation, id])
        };
        hex(&digest[..16])
    }

    /// `expired`: the verdict's id, for a call that no record ended.
    pub(super) fn call(&mut self, session: &mut Session<'_>, n: u32, expired: Option<String>) {
        let Some(call) = session.conversation().calls.get(&n) else { return };
        let cut = match call.status {
            CallStatus::Final => None,
            CallStatus::Cut(reason) => Some(reason),
            CallStatus::Open | CallStatus::Closed(_) => return,
        };
        self.out.observations.push(Observation::Assembly {
            provider: self.origin.provider,
            outcome: cut.map_or("final", |reason| reason.label()),
            fragments: call.fragments,
        });
        let text: &'r [u8] = self.bump.alloc_slice_copy(&call.text);
        let json = !matches!(call.form, Form::FreeText);
        let empty = json && text.iter().all(u8::is_ascii_whitespace);
        let text = if empty && cut.is_none() { b"{}" } else { text };
        let digest = sha256(text);
        if cut.is_some() && self.off() {
            session.settle(n, digest, None, Decision::Block);
            return;
        }
        let layer = Layer::assembled(self.bump, text, Step::Arguments);
        let limits = &self.engine.settings.limits;
        let limits = JsonLimits { depth: limits.json_depth, nodes: limits.json_nodes };
        let args = (json && cut.is_none()).then(|| json::parse(self.bump, layer, limits));
        let same_id = session.calls_by_id(&call.id).find(|(other, _)| *other < n).map(|(_, call)| call);
        let repeated = same_id.is_some();
        let slot = (call.slot.0, call.slot.1);
        let exchange = call.exchange;
        let id = if call.id.is_empty() { call.item_id.clone() } else { call.id.clone() };
        let key = match is_rpc(session, call) {
            true => self.rpc_idempotency(session, call, &digest),
            false => self.idempotency(&call.id, repeated, slot),
        };

        let intent = match &args {
            Some(Ok(arguments)) => intent::digest(self.keyed(), call, *arguments),
            _ => None,
        };
        let subject = CallSubject { call, cut, layer, empty, same_id, intent, args };
        let (report, said) = self.check(session, Some(exchange), &Subject::Call(&subject));
        let echo = self.echo_of(session, call, subject.args.and_then(Result::ok));
        let verdict_id = expired.unwrap_or_else(|| self.next_id(Checkpoint::ToolCall));
        let mut draft = Draft::new(verdict_id, Checkpoint::ToolCall);
        draft.policies = report.policies;
        draft.findings = report.findings;
        draft.complete = cut.is_none() && !report.incomplete;
        draft.subject = SubjectOut {
            call_id: (!id.is_empty()).then(|| self.clean(&id)),
            tool: (!call.name.is_empty()).then(|| self.clean(&call.name)),
            server: call.server.as_ref().map(|s| self.clean(s)),
            executor: Some(executor_name(call)),
        };
        draft.content_hmac = Some(self.keyed().digest(Role::Content, &[text]));
        draft.content_bytes = text.len() as u64;
        draft.idempotency_key = Some(key.clone());
        if !draft.findings.is_empty() {
            draft.names = Some(self.names_of(session, exchange, call, limits));
        }
        // Said with the first verdict of the record only.
        if std::mem::take(&mut self.ambiguous) {
            draft.block("ambiguous_exchange", Evidence::None);
        }

        let mut record = None;
        let mut published = digest;
        let made = if draft.fold().1 == Decision::Redact { report.edits.as_slice() } else { &[] };
        let wanted = call.executor == Executor::Client || self.engine.settings.redacted.provider_calls;
        if cut.is_none() && wanted && draft.fold().1 < Decision::Block {
            let changed = match (draft.fold().1, report.edits.is_empty()) {
                (Decision::Redact, false) => redact::made(layer, &report.edits).map(Some),
                _ => Ok(None),
            };
            if let Ok(Some(changed)) = &changed {
                let refused = self.refused(session, exchange, &subject, changed, &draft.findings);
                draft.findings.extend(refused);
            }
            match changed {
                // What the edits came to is no call that may run.
                Ok(_) if draft.fold().1 == Decision::Block => {}
                Ok(changed) => {
                    let text = changed.as_deref().unwrap_or(text);
                    published = sha256(text);
                    let valid = changed.is_some() || matches!(subject.args, Some(Ok(_)));
                    let value = self.call_record(call, &id, text, json && valid, &published, &key);
                    let id = format!("{}/call", draft.id);
                    let mut headers = self.headers(&id, "io.sluicegate.tool.call.v1");
                    headers.push(("ce_sgaction".to_owned(), draft.fold().1.name().as_bytes().to_vec()));
                    headers.push(("ce_sgverdictid".to_owned(), draft.id.as_bytes().to_vec()));
                    record = Some(Emission {
                        to: To::Redacted,
                        key: self.key(),
                        headers,
                        value: Some(value),
                        timestamp: None,
                    });
                }
                Err(_) => draft.block("not_redactable", Evidence::None),
            }
        }
        let record = record.and_then(|emission| self.fits(&mut draft, emission));
        let action = self.emit(draft);
        self.publish(action.is_some(), record, made);
        if let (Some(echo), Some(call)) = (echo, session.call_mut(n)) {
            call.said = Some(echo);
        }
        session.settle(n, published, intent, action.unwrap_or(Decision::Block));
        session.head().said |= said;
    }

    /// What blocks the arguments as edits left them, and did not block them before: a placeholder that does not fit the
    /// tool's schema, or means something where it stands. Every check looks again, so that none need be named here.
    fn refused(
        &self,
        session: &Session<'_>,
        exchange: u32,
        subject: &CallSubject<'_, 'r>,
        edited: &[u8],
        before: &[Finding<'r>],
    ) -> Option<Finding<'r>> {
        let layer = Layer::assembled(self.bump, self.bump.alloc_slice_copy(edited), Step::Arguments);
        let limits = &self.engine.settings.limits;
        let limits = JsonLimits { depth: limits.json_depth, nodes: limits.json_nodes };
        let args = subject.args.as_ref().map(|_| json::parse(self.bump, layer, limits));
        let edited = CallSubject { layer, args, ..*subject };
        let (report, _) = self.check(session, Some(exchange), &Subject::Call(&edited));
        let said = |f: &Finding<'_>| {
            before.iter().any(|b| (b.policy.code, b.rule.name, b.effect) == (f.policy.code, f.rule.name, f.effect))
        };
        let mut new = report.findings.into_iter().filter(|f| f.effect == Decision::Block && !said(f)).peekable();
        let first = new.peek().map(|f| f.rule.name)?;
        let mode = new.map(|f| f.mode).min().unwrap_or(Mode::Enforce);
        let evidence = Evidence::Label { kind: "rule", label: first };
        Some(Finding { mode, ..engine_finding("redaction_unfit", Place::Whole, evidence) })
    }

    /// The names that pointers into a call's arguments may show: its schema's properties.
    fn names_of(&self, session: &Session<'_>, exchange: u32, call: &Call, limits: JsonLimits) -> Names<'a> {
        let mut names = Names::new(self.keyed());
        // Definitions that came late were written by others than the operator's agent.
        for schema in self.view(session, Some(exchange)).request_schemas(call) {
            let layer = Layer::record(self.bump, self.bump.alloc_slice_copy(schema));
            if let Ok(schema) = json::parse(self.bump, layer, limits) {
                names.add_schema(schema);
            }
        }
        names
    }

    /// `io.sluicegate.tool.call.v1`. JSON arguments are spliced verbatim.
    fn call_record(&self, call: &Call, id: &[u8], text: &[u8], json: bool, sha: &[u8; 32], key: &str) -> Vec<u8> {
        let mut out = Vec::with_capacity(text.len() + 512);
        out.push(b'{');
        let mut member = |name: &str, value: Option<&[u8]>| {
            if out.len() > 1 {
                out.push(b',');
            }
            push_json_string(&mut out, name.as_bytes());
            out.push(b':');
            match value {
                Some(text) => push_json_string(&mut out, text),
                None => out.extend_from_slice(b"null"),
            }
        };
        member("call_id", Some(id).filter(|id| !id.is_empty()));
        member("tool", Some(call.name.as_slice()).filter(|name| !name.is_empty()));
        if let Some(namespace) = &call.namespace {
            member("namespace", Some(namespace));
        }
        if let Some(server) = &call.server {
            member("server", Some(server));
        }
        member("executor", Some(executor_name(call).as_bytes()));
        member("response_id", self.origin.response_id);
        member("arguments_sha256", Some(hex(sha).as_bytes()));
        member("idempotency_key", Some(key.as_bytes()));
        match call.form {
            Form::FreeText => member("input", Some(text)),
            _ if !json => member("arguments_text", Some(text)),
            _ => {
                out.extend_from_slice(b",\"arguments\":");
                out.extend_from_slice(text.trim_ascii());
            }
        }
        out.push(b'}');
        out
    }
}
