//! Judging a request about to be sent: its definitions are facts, its results are subjects, then itself.

use super::Run;
use super::pairing::InOrder;
use super::publish::Draft;
use super::result::{Judged, text_of};
use crate::engine::digest::{Role, short};
use crate::engine::event::{Name, Provider, ResultItem, Standing, ToolDef, ToolFamily, Tools, Turn};
use crate::engine::json::Value;
use crate::engine::layer::Edit;
use crate::engine::pins::canonical::Fingerprint;
use crate::engine::policy::{
    Evidence, Finding, Mode, Place, RequestResult, RequestSubject, Subject, TurnKind, TurnView,
};
use crate::engine::state::{Session, Tool};
use crate::engine::verdict::{Checkpoint, Decision, engine_finding};
use crate::engine::wire::Envelope;
use crate::engine::{Input, Publish};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// A request being read.
pub(super) struct Request<'r> {
    body: Value<'r>,
    /// Part of the history is not in it.
    elsewhere: bool,
    pub tools: Vec<ToolDef<'r>>,
    /// Servers' lists that it repeats.
    pub lists: Vec<Tools<'r>>,
    results: Vec<ResultItem<'r>>,
    order: InOrder<'r>,
    /// Echoed results of tools that the provider ran.
    ran: Vec<ResultItem<'r>>,
    /// The names of echoed calls by id.
    called: HashMap<Cow<'r, [u8]>, Name<'r>>,
    opaque: Vec<(Value<'r>, &'static str)>,
    /// Everything, in document order.
    turns: Vec<TurnView<'r>>,
}

impl<'r> Request<'r> {
    pub fn new(body: Value<'r>, elsewhere: bool) -> Self {
        Self {
            body,
            elsewhere,
            tools: Vec::new(),
            lists: Vec::new(),
            results: Vec::new(),
            order: InOrder::default(),
            ran: Vec::new(),
            called: HashMap::new(),
            opaque: Vec::new(),
            turns: Vec::new(),
        }
    }

    pub fn turn(&mut self, at: &Standing<'r>, turn: &Turn<'r>) {
        let kind = match turn {
            Turn::Call(call) => TurnKind::Call(*call),
            Turn::Result(_) => TurnKind::Result(self.results.len()),
            Turn::Ran(result) => TurnKind::Ran { item: result.item, call_id: result.call_id },
            Turn::ServerResult { item, call_id } => TurnKind::Ran { item: *item, call_id: *call_id },
            Turn::Model(value) => TurnKind::Model(*value),
            Turn::User(value) => TurnKind::User(*value),
            Turn::System(value) => TurnKind::System(*value),
            Turn::Opaque { value, kind } => TurnKind::Opaque { value: *value, kind },
        };
        self.turns.push(TurnView::new(*at, kind));
        match turn {
            Turn::Call(call) => {
                if let Some(id) = call.id.and_then(|id| id.text()) {
                    self.called.insert(id, call.name);
                }
            }
            Turn::Result(result) => {
                let mut result = result.clone();
                // A result rarely names its tool; the call that the same history echoes does.
                if matches!(result.tool, Name::None)
                    && let Some(name) = self.called.get(&text_of(result.call_id))
                {
                    result.tool = *name;
                }
                self.order.add(self.results.len(), at.group, &result);
                self.results.push(result);
            }
            Turn::Ran(result) => self.ran.push(result.clone()),
            Turn::Opaque { value, kind } => self.opaque.push((*value, kind)),
            Turn::ServerResult { item, .. } => self.opaque.push((*item, "server_result")),
            Turn::Model(_) | Turn::User(_) | Turn::System(_) => {}
        }
    }
}

impl<'a, 'r> Run<'a, 'r> {
    pub(super) fn request(
        &mut self,
        session: &mut Session<'_>,
        envelope: &Envelope<'r>,
        input: &Input<'_>,
        exchange: u32,
        request: &Request<'r>,
    ) {
        let digest = self.facts(session, exchange, request);
        if self.off() {
            return;
        }
        self.earlier = session.conversation().head.next;
        let mut judged: Vec<Judged<'r>> = Vec::with_capacity(request.results.len());
        for (at, result) in request.results.iter().enumerate() {
            let answers = request.order.call(session, at, result);
            judged.push(self.request_result(session, exchange, result, answers));
        }
        // Nothing in them can be changed: what blocks there leaves no way to send the request.
        let ran = request.ran.iter().filter_map(|result| self.echoed_result(session, exchange, result));
        judged.extend(ran);
        let results: Vec<RequestResult<'r>> = request
            .results
            .iter()
            .zip(&judged)
            .map(|(item, j)| RequestResult {
                item: item.clone(),
                action: j.action,
                content: j.content,
                copy: j.copy,
                text_bytes: j.text_bytes,
                withheld: j.withheld,
                growth: j.growth,
            })
            .collect();
        let (lists, mut withheld) = self.repeated_lists(session, exchange, &request.lists);
        let own = self.own_prints(session, request, digest);
        let mut turns = request.turns.clone();
        self.sealed(&mut turns);
        let subject = RequestSubject {
            body: request.body,
            results: &results,
            turns: &turns,
            tools: &request.tools,
            elsewhere: request.elsewhere,
            own: &own,
        };
        let (report, bits) = self.check(session, Some(exchange), &Subject::Request(&subject));
        self.saw_own(session, &own, digest);
        withheld.extend(blocked(&report.findings, &own));
        self.withhold(session, exchange, request, &withheld);

        let mut draft = Draft::new(self.next_id(Checkpoint::ModelRequest), Checkpoint::ModelRequest);
        draft.policies = report.policies;
        draft.findings = report.findings;
        draft.content_hmac = Some(self.keyed().digest(Role::Content, &[request.body.raw()]));
        draft.content_bytes = request.body.span().len() as u64;
        for (value, kind) in &request.opaque {
            draft.not_inspected.push((Place::Value { value: *value, range: None }, kind, "unknown item"));
            draft.complete = false;
        }
        let own = [report.edits, report.cuts].concat();
        if draft.fold().1 == Decision::Redact && !self.editable(&own, request.body.layer()) {
            draft.block("not_redactable", Evidence::None);
        }
        draft.findings.extend(Self::of_results(&judged));
        draft.findings.extend(lists);
        let edits = all_edits(&judged, &report.recut, own);

        let publish = match self.engine.settings.redacted.publish {
            Publish::All => true,
            Publish::Changed => draft.fold().1 == Decision::Redact,
        };
        let copy = if publish && draft.fold().1 < Decision::Block {
            self.copy(&mut draft, envelope, input, &edits)
        } else {
            None
        };
        let said = self.emit(draft).is_some();
        self.publish(said, copy, &edits);
        session.head().said |= bits;
    }

    /// What a request tells of the conversation: its tools, and that it was seen. Gives the digest of its tools.
    fn facts(&mut self, session: &mut Session<'_>, exchange: u32, request: &Request<'r>) -> [u8; 16] {
        let digest = self.toolset(&request.tools, &HashSet::new());
        // What follows a session's setup neither repeats its tools nor takes them back.
        let provider = session.conversation().exchanges.get(&exchange).map(|known| known.provider);
        let follows = provider.is_some_and(Provider::is_session) && request.elsewhere && request.tools.is_empty();
        if !follows {
            session.set_toolset(exchange, digest, &mut || request.tools.iter().map(remembered).collect());
            if let Some(known) = session.exchange_mut(exchange) {
                known.request_seen = true;
                known.elsewhere = request.elsewhere;
            }
        }
        let head = session.head();
        head.request_seen = true;
        if !request.elsewhere {
            head.partial = false;
        }
        digest
    }

    fn toolset(&self, tools: &[ToolDef<'r>], withheld: &HashSet<u32>) -> [u8; 16] {
        let mut stream = self.keyed().stream(Role::Tools);
        for tool in tools {
            stream.part(tool.item.raw());
            stream.part(&[u8::from(tool.late) | u8::from(withheld.contains(&start(tool))) << 1]);
        }
        short(stream.finish())
    }

    /// Definitions that were blocked where the request carries them stand for nothing that its response may call.
    fn withhold(&self, session: &mut Session<'_>, exchange: u32, request: &Request<'r>, withheld: &HashSet<u32>) {
        if withheld.is_empty() {
            return;
        }
        let known = |tool: &ToolDef<'r>| match withheld.contains(&start(tool)) {
            true => without_schema(tool),
            false => remembered(tool),
        };
        let digest = self.toolset(&request.tools, withheld);
        session.set_toolset(exchange, digest, &mut || request.tools.iter().map(known).collect());
    }

    /// A definition that arrived inside a response.
    pub(super) fn late_tool(&mut self, session: &mut Session<'_>, exchange: u32, tool: &ToolDef<'r>) {
        let digest = short(self.keyed().digest(Role::Tools, &[tool.item.raw()]));
        session.add_tools(exchange, digest, vec![remembered(tool)]);
    }

    /// What its results did to a request, said once with a count. It counts as enforced where one of them was
    /// in fact changed.
    fn of_results(judged: &[Judged<'r>]) -> Option<Finding<'r>> {
        let asked = judged.iter().filter(|j| j.decision >= Decision::Redact).count() as u64;
        if asked == 0 {
            return None;
        }
        let rule = if judged.iter().any(|j| j.stuck) { "results_withheld" } else { "results_changed" };
        let mut finding = engine_finding(rule, Place::Whole, Evidence::Count { found: asked, limit: 0 });
        if judged.iter().all(|j| j.action == Decision::Allow) {
            finding.mode = Mode::Monitor;
        }
        Some(finding)
    }
}

/// The edits of the results and of the request itself. Where the request cuts a result anew, with a tighter
/// bound, its cuts stand in place of the result's own.
fn all_edits<'r>(judged: &[Judged<'r>], recut: &[u32], own: Vec<Edit<'r>>) -> Vec<Edit<'r>> {
    let recut: HashSet<u32> = recut.iter().copied().collect();
    let kept = |(ix, j): (usize, &Judged<'r>)| match recut.contains(&(ix as u32)) {
        true => j.edits.get(..j.edits.len() - j.cuts).unwrap_or_default().to_vec(),
        false => j.edits.clone(),
    };
    let mut edits: Vec<Edit<'r>> = judged.iter().enumerate().flat_map(kept).collect();
    edits.extend(own);
    edits
}

/// Where a definition of a request stands, which tells it from the others.
pub(super) fn start(tool: &ToolDef<'_>) -> u32 {
    tool.item.span().start
}

/// The definitions at which a finding points that blocks.
fn blocked<'f>(findings: &'f [Finding<'_>], own: &'f [(ToolDef<'_>, Fingerprint)]) -> impl Iterator<Item = u32> + 'f {
    let places: HashSet<u32> = own.iter().map(|(tool, _)| start(tool)).collect();
    let blocks = |f: &&Finding<'_>| f.mode == Mode::Enforce && f.effect == Decision::Block;
    let pointed = findings.iter().filter(blocks).filter_map(|f| match f.place {
        Place::Value { value, .. } => Some(value.span().start),
        _ => None,
    });
    pointed.filter(move |start| places.contains(start))
}

/// A tool that was withheld: its name is known, and what it asks for is not.
pub(super) fn without_schema(tool: &ToolDef<'_>) -> Tool {
    Tool { family: ToolFamily::Withheld, ..remembered(&ToolDef { schema: None, ..*tool }) }
}

/// A definition as the state keeps it.
pub(super) fn remembered(tool: &ToolDef<'_>) -> Tool {
    let text = |value: Option<Value<'_>>| value.and_then(|v| v.text()).map(|t| t.into_owned());
    Tool {
        toolset: 0,
        name: match tool.name {
            Name::Wire(value) => text(Some(value)).unwrap_or_default(),
            Name::Implied(name) => name.as_bytes().to_vec(),
            Name::None => Vec::new(),
        },
        namespace: text(tool.namespace),
        server: text(tool.server),
        family: tool.family,
        schema: tool.schema.filter(|s| !s.is_null()).map(|s| s.raw().to_vec()),
        schema_omitted: false,
        late: tool.late,
    }
}
