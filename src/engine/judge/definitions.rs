//! Judging what servers list of their tools, and say of themselves.
//!
//! A list that a client asked its server for is published without what is blocked in it: a tool, the instructions,
//! the cursor of a list that does not end. A list that a provider asked for was read by the model already, so its
//! verdict stands alone; where a request repeats one that is blocked, the request is blocked, since nobody drops
//! a tool from it. Digests are remembered behind the verdict, and a definition that nobody decided on is sighted
//! once a conversation.

use super::Run;
use super::publish::Draft;
use super::request::{Request, remembered, start, without_schema};
use super::result::text_of;
use crate::engine::digest::{Role, sha256, short};
use crate::engine::event::{Name, Rpc, ToolDef, ToolFamily, Tools};
use crate::engine::json::{Kind, Value};
use crate::engine::layer::{Edit, Layer, Span};
use crate::engine::pins::canonical::{Fingerprint, brief, canonical};
use crate::engine::pins::record::{DEFINITION_BYTES, Key, SIGHTING_BYTES, Sighting};
use crate::engine::pins::{Stands, own_agent};
use crate::engine::policy::{DefinitionsSubject, Evidence, Finding, Mode, Place, Subject};
use crate::engine::redact::{without_items, without_member};
use crate::engine::state::{Listed, ResultFact, Session, Tool};
use crate::engine::verdict::{Checkpoint, Decision, SubjectOut, engine_finding};
use crate::engine::{Emission, Observation, To};
use std::collections::{BTreeSet, HashSet};

/// What a client declares to be able to, where each message says so.
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// What servers say, to be judged.
pub(super) struct Declared<'r> {
    pub tools: Tools<'r>,
    pub instructions: Option<Value<'r>>,
    /// The cursor of the next page.
    pub next: Option<Value<'r>>,
    /// It begins a list.
    pub first: bool,
    pub hosted: bool,
}

/// A definition that was judged, with its digests.
struct Seen<'r> {
    name: Option<Vec<u8>>,
    value: Value<'r>,
    print: Fingerprint,
}

/// What is left out of the copy.
#[derive(Default)]
struct LeftOut {
    whole: bool,
    tools: BTreeSet<usize>,
    instructions: bool,
    next: bool,
}

impl<'a, 'r> Run<'a, 'r> {
    /// What the client of a server says that it is able to: what it is shown depends on it.
    pub(super) fn capabilities(&self, session: &mut Session<'_>, server: &str, rpc: &Rpc<'r>) {
        let Some(params) = rpc.item.get("params") else { return };
        let own = params.get("capabilities").or_else(|| params.get("_meta").and_then(|meta| meta.get(CAPABILITIES)));
        if let Some(own) = own {
            session.saw_capabilities(server.as_bytes(), sha256(&canonical(own)));
        }
    }

    /// What an answer lists.
    pub(super) fn listed(server: Option<Value<'r>>, (result, first): (Value<'r>, bool)) -> Option<Declared<'r>> {
        let list = result.get("tools").filter(|tools| tools.kind() == Kind::Array)?;
        let mut tools = Vec::new();
        for item in list.items() {
            let name = item.get("name").filter(|name| name.kind() == Kind::String);
            let tool = ToolDef {
                name: name.map_or(Name::None, Name::Wire),
                namespace: None,
                server,
                family: ToolFamily::Function,
                schema: item.get("inputSchema"),
                item,
                late: true,
            };
            tools.push(tool);
        }
        let next = result.get("nextCursor").filter(|cursor| !cursor.is_null());
        let tools = Tools { server, tools, list: Some(list) };
        Some(Declared { tools, instructions: None, next, first, hosted: false })
    }

    /// What a server listed are facts of it: definitions, and which of them were withheld.
    pub(super) fn know(
        &self,
        session: &mut Session<'_>,
        exchange: u32,
        said: &Declared<'r>,
        withheld: &BTreeSet<usize>,
    ) {
        let mut stream = self.keyed().stream(Role::Tools);
        said.tools.tools.iter().for_each(|tool| stream.part(tool.item.raw()));
        withheld.iter().for_each(|at| stream.part(&at.to_be_bytes()));
        let named = said.tools.tools.iter().enumerate().filter(|(_, tool)| !matches!(tool.name, Name::None));
        let (gone, kept): (Vec<_>, Vec<_>) = named.partition(|(at, _)| withheld.contains(at));
        let mut facts: Vec<Tool> = kept.into_iter().map(|(_, tool)| remembered(tool)).collect();
        let names: HashSet<Vec<u8>> = facts.iter().map(|tool| tool.name.clone()).collect();
        let gone = gone.into_iter().map(|(_, tool)| without_schema(tool));
        facts.extend(gone.filter(|tool| !names.contains(&tool.name)));
        let digest = short(stream.finish());
        match said.hosted {
            true => session.add_tools(exchange, digest, facts),
            false => session.list_tools(exchange, digest, (said.first, said.next.is_none()), facts),
        }
    }

    /// The verdict on what a server said, what its copy needs, and which tools are withheld.
    pub(super) fn definitions(
        &mut self,
        session: &mut Session<'_>,
        exchange: Option<u32>,
        said: &Declared<'r>,
    ) -> (Draft<'r, 'static>, Vec<Edit<'r>>, BTreeSet<usize>) {
        let Declared { tools: Tools { server, tools, list }, instructions, next, first, hosted } = said;
        let named = text_of(*server).into_owned();
        if list.is_some() && (*first || !*hosted) {
            let mark = next.map(|next| brief(next.raw()));
            session.saw_page(&named, *first, mark);
        }
        let prints: Vec<Fingerprint> = tools.iter().map(|tool| Fingerprint::of(tool.item)).collect();
        let values: Vec<Value<'r>> = tools.iter().map(|tool| tool.item).chain(*instructions).collect();
        let instructions_print = instructions.map(Fingerprint::of);
        let subject = DefinitionsSubject {
            server: *server,
            tools,
            prints: &prints,
            list: *list,
            next: *next,
            hosted: *hosted,
            instructions: *instructions,
            instructions_print,
            values: &values,
        };
        let (report, bits) = self.check(session, exchange, &Subject::Definitions(&subject));
        session.head().said |= bits;
        let id = if *hosted { String::new() } else { self.next_id(Checkpoint::ToolDefinitions) };
        let mut draft = Draft::new(id, Checkpoint::ToolDefinitions);
        draft.policies = report.policies;
        draft.monitored = self.monitored(&draft);
        draft.findings = report.findings;
        draft.complete = !report.incomplete;
        draft.subject = SubjectOut {
            server: self.clean_value(*server),
            executor: Some(if *hosted { "provider" } else { "client" }),
            ..SubjectOut::default()
        };
        draft.content_hmac = Some(self.digest_of(&prints, instructions_print.as_ref()));
        draft.content_bytes = values.iter().map(|value| value.span().len() as u64).sum();
        let (edits, withheld) = self.left_out(said, &mut draft, report.edits);
        let mut seen: Vec<Seen<'r>> = Vec::with_capacity(values.len());
        for (tool, print) in tools.iter().zip(prints) {
            let Name::Wire(name) = tool.name else { continue };
            seen.push(Seen { name: Some(text_of(Some(name)).into_owned()), value: tool.item, print });
        }
        seen.extend(instructions.zip(instructions_print).map(|(value, print)| Seen { name: None, value, print }));
        self.changes(&draft.findings);
        self.saw(session, &named, seen);
        (draft, edits, withheld)
    }

    /// The same definitions in another order are the same.
    fn digest_of(&self, prints: &[Fingerprint], instructions: Option<&Fingerprint>) -> [u8; 32] {
        let mut digests: Vec<[u8; 32]> = prints.iter().map(|print| print.digest).collect();
        digests.sort_unstable();
        let mut stream = self.keyed().stream(Role::Content);
        digests.iter().for_each(|digest| stream.part(digest));
        stream.part(instructions.map_or(b"", |print| &print.digest));
        stream.finish()
    }

    /// The edits that the draft's action needs, and the tools that are withheld.
    fn left_out(
        &self,
        said: &Declared<'r>,
        draft: &mut Draft<'r, '_>,
        asked: Vec<Edit<'r>>,
    ) -> (Vec<Edit<'r>>, BTreeSet<usize>) {
        if draft.fold().1 == Decision::Allow {
            return (Vec::new(), BTreeSet::new());
        }
        let layer = said.tools.list.or(said.instructions).map(|value| value.layer());
        let editable = !said.hosted && layer.is_some_and(|layer| self.editable(&asked, layer));
        if (said.hosted && draft.fold().1 == Decision::Redact) || (!said.hosted && !editable) {
            draft.block("not_redactable", Evidence::None);
        }
        let Some(layer) = layer else { return (Vec::new(), BTreeSet::new()) };
        let mut out = LeftOut::default();
        let blocks = |f: &&Finding<'_>| f.mode == Mode::Enforce && f.effect == Decision::Block;
        for finding in draft.findings.iter().filter(blocks) {
            out.take(said, layer, finding);
        }
        if out.whole {
            out.tools = (0..said.tools.tools.len()).collect();
        }
        if said.hosted {
            return (Vec::new(), out.tools);
        }
        let mut edits = Vec::new();
        if let Some(list) = said.tools.list {
            edits.extend(without_items(list, &out.tools));
        }
        edits.extend(said.instructions.filter(|_| out.instructions || out.whole).and_then(without_member));
        edits.extend(said.next.filter(|_| out.next).and_then(without_member));
        // What else was asked for stands, but for what is in what goes.
        let gone: Vec<Span<'r>> = edits.iter().map(|edit| edit.span).collect();
        if editable {
            let stays = |edit: &Edit<'r>| match within(edit.span, layer) {
                Some(span) => !gone.iter().any(|gone| gone.start <= span.start && span.end <= gone.end),
                None => false,
            };
            edits.extend(asked.into_iter().filter(stays));
        }
        (edits, out.tools)
    }

    fn changes(&mut self, findings: &[Finding<'r>]) {
        let changed = |f: &&Finding<'_>| {
            let removed = matches!(f.evidence, Evidence::Label { label: "removed", .. });
            matches!(f.rule.name, "changed_tool" | "changed_instructions") && !removed
        };
        let count = findings.iter().filter(changed).count() as u64;
        if count > 0 {
            let fleet = self.fleet_label();
            self.out.observations.push(Observation::DefinitionsChanged { fleet, count });
        }
    }

    /// Remembers what was listed, and says what nobody decided on.
    fn saw(&mut self, session: &mut Session<'_>, server: &[u8], seen: Vec<Seen<'r>>) {
        let known = session.conversation().server_seen(server);
        let (round, capabilities) = known.map_or((0, None), |known| (known.round, known.capabilities));
        let listed = |seen: &Seen<'_>| Listed {
            server: server.to_vec(),
            name: seen.name.clone(),
            digest: seen.print.digest,
            parts: seen.print.parts,
            round,
        };
        let new = session.saw_listed(seen.iter().map(listed).collect());
        for (seen, _) in seen.into_iter().zip(new).filter(|(_, new)| *new) {
            let name = seen.name.as_deref();
            let stands = self.engine.pins.stands(server, capabilities.as_ref(), name, &seen.print.digest);
            if let Stands::Undecided { other } = stands {
                self.sight(server, capabilities, &seen, other.is_some());
            }
        }
    }

    fn sight(&mut self, server: &[u8], capabilities: Option<[u8; 32]>, seen: &Seen<'r>, changed: bool) {
        let definition = canonical(seen.value);
        let (name, digest) = (seen.name.clone(), seen.print.digest);
        let key = Key { server: server.to_vec(), capabilities, name, digest };
        let mut sighting = Sighting {
            changed,
            definition_bytes: definition.len() as u64,
            definition: (definition.len() <= DEFINITION_BYTES).then_some(definition),
            topic: self.origin.topic.to_owned(),
            partition: self.origin.partition.into(),
            offset: self.origin.offset,
            time: self.at.time,
            key,
        };
        let mut emission = self.sighted(&sighting);
        if emission.size() > SIGHTING_BYTES {
            sighting.definition = None;
            emission = self.sighted(&sighting);
        }
        // A name that long is nobody's. Verdicts go first: what finds no room is sighted by another conversation.
        if emission.size() <= SIGHTING_BYTES && self.has_room_for(emission.size() as u64) {
            self.push(emission);
        }
    }

    fn sighted(&self, sighting: &Sighting) -> Emission {
        let place = format!("{}/{}/{}", self.origin.topic, self.origin.partition, self.origin.offset);
        Emission {
            to: To::Sightings,
            key: Some(sighting.key.encode()),
            headers: self.headers(&place, "io.sluicegate.pin.sighting.v1"),
            value: Some(sighting.encode()),
            timestamp: None,
        }
    }

    /// A list that the provider asked for, in a response.
    pub(super) fn hosted_list(&mut self, session: &mut Session<'_>, exchange: u32, tools: &Tools<'r>) {
        self.judge_hosted(session, exchange, tools, true);
    }

    /// Lists that a request repeats: a verdict where what was said of them is another now. Gives the finding that
    /// the request has for them, and where the tools stand that are withheld.
    pub(super) fn repeated_lists(
        &mut self,
        session: &mut Session<'_>,
        exchange: u32,
        lists: &[Tools<'r>],
    ) -> (Option<Finding<'r>>, HashSet<u32>) {
        let mut withheld = HashSet::new();
        let (mut blocked, mut enforced) = (0, false);
        for list in lists {
            let (decision, action, tools) = self.judge_hosted(session, exchange, list, false);
            withheld.extend(tools.iter().filter_map(|at| list.tools.get(*at)).map(start));
            blocked += u64::from(decision == Decision::Block);
            enforced |= action == Decision::Block;
        }
        if blocked == 0 {
            return (None, withheld);
        }
        let evidence = Evidence::Count { found: blocked, limit: 0 };
        let mut finding = engine_finding("definitions_withheld", Place::Whole, evidence);
        if !enforced {
            finding.mode = Mode::Monitor;
        }
        (Some(finding), withheld)
    }

    fn judge_hosted(
        &mut self,
        session: &mut Session<'_>,
        exchange: u32,
        tools: &Tools<'r>,
        first: bool,
    ) -> (Decision, Decision, BTreeSet<usize>) {
        if self.off() {
            return (Decision::Allow, Decision::Allow, BTreeSet::new());
        }
        let said = Declared { tools: tools.clone(), instructions: None, next: None, first, hosted: true };
        let (draft, _, withheld) = self.definitions(session, Some(exchange), &said);
        if first && !withheld.is_empty() {
            self.know(session, exchange, &said, &withheld);
        }
        let (decision, action) = draft.fold();
        let call_id = short(self.keyed().digest(Role::CallId, &[b"mcp_list_tools", &text_of(tools.server)]));
        let content = short(draft.content_hmac.unwrap_or_default());
        let policy = self.key_of(&draft);
        let known = session.result(&call_id, &content);
        if known.is_some_and(|fact| fact.policy == policy && fact.action == action) {
            return (decision, action, withheld);
        }
        session.note_result(ResultFact {
            call_id,
            content,
            policy,
            clean: action == Decision::Allow,
            action,
            first_seen: session.conversation().head.clock,
            copy: None,
            withheld: Decision::Allow,
            from_host: false,
            failed: None,
            call: None,
        });
        let id = self.next_id(Checkpoint::ToolDefinitions);
        self.emit(Draft { id, ..draft });
        (decision, action, withheld)
    }

    /// The digests of a request's own tools, where they are not those that were looked at before, and of what its
    /// history defines: tools that a server listed are looked at each time.
    pub(super) fn own_prints(
        &self,
        session: &Session<'_>,
        request: &Request<'r>,
        digest: [u8; 16],
    ) -> Vec<(ToolDef<'r>, Fingerprint)> {
        let conversation = session.conversation();
        let agent = own_agent(self.origin.fleet, self.origin.agent);
        let looked = conversation.own_tools(&agent).is_some_and(|own| own.latest == digest);
        let served = conversation.listed().next().is_some();
        if looked && !served {
            return Vec::new();
        }
        // A server's list that is repeated is a subject itself.
        let mut seen: HashSet<u32> = request.lists.iter().flat_map(|list| &list.tools).map(start).collect();
        let late = request.tools.iter().filter(|tool| tool.late && served);
        let all = request.tools.iter().filter(|tool| !tool.late).chain(late);
        let fresh = all.filter(|tool| seen.insert(start(tool)));
        fresh.map(|tool| (*tool, Fingerprint::of(tool.item))).collect()
    }

    pub(super) fn saw_own(&self, session: &mut Session<'_>, own: &[(ToolDef<'r>, Fingerprint)], digest: [u8; 16]) {
        if own.is_empty() {
            return;
        }
        let own = own.iter().filter(|(tool, _)| !tool.late);
        let name = |tool: &ToolDef<'_>| match tool.name {
            Name::Wire(value) => Some(brief(&text_of(Some(value)))),
            Name::Implied(_) | Name::None => None,
        };
        let pairs = own.filter_map(|(tool, print)| Some((name(tool)?, brief(&print.digest))));
        let pairs: Vec<_> = pairs.collect();
        session.saw_own(own_agent(self.origin.fleet, self.origin.agent), digest, &pairs);
    }
}

impl LeftOut {
    /// What a finding that blocks takes with it.
    fn take<'r>(&mut self, said: &Declared<'r>, layer: &'r Layer<'r>, finding: &Finding<'r>) {
        let span = match finding.place {
            Place::Whole => None,
            Place::Value { value, .. } => Some(value.span()),
            Place::Missing { object, .. } => Some(object.span()),
            Place::Span(span) => Some(span),
        };
        let Some(span) = span.and_then(|span| within(span, layer)) else {
            self.whole = true;
            return;
        };
        let holds = |value: Value<'r>| value.span().start <= span.start && span.end <= value.span().end;
        let behind = said.tools.tools.partition_point(|tool| tool.item.span().start <= span.start);
        let tool = behind.checked_sub(1).filter(|at| said.tools.tools.get(*at).is_some_and(|tool| holds(tool.item)));
        match tool {
            Some(tool) => {
                self.tools.insert(tool);
            }
            None if said.instructions.is_some_and(holds) => self.instructions = true,
            None if said.next.is_some_and(holds) => self.next = true,
            None => self.whole = true,
        }
    }
}

/// The place in `layer` of a span in a layer below it.
fn within<'r>(span: Span<'r>, layer: &'r Layer<'r>) -> Option<Span<'r>> {
    let mut span = span;
    while !std::ptr::eq(span.layer, layer) {
        span = span.layer.source?;
    }
    Some(span)
}
