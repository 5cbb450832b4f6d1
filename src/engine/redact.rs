//! Redact: edits become bytes.
//!
//! A redacted record is the input with byte ranges replaced, nothing re-serialised. Edits of several policies that
//! meet are merged (`layer/merge.rs` has the rule). An edit that touches an opaque field, that a layer cannot
//! carry exactly, or that cannot be merged safely turns the action into `block`. A blocked result is
//! replaced by the provider's own error form, so that an agent's loop can go on.

use super::decision::Decision;
use super::digest::{is_shown, push_json_string};
use super::envelope::{Envelope, Mode};
use super::event::{ResultItem, ResultShape};
use super::json::{Documents, JsonLimits, Kind, Segment, Value, parse};
use super::layer::{Edit, Layer, NotExact, Span, Step, can_merge, merge, merge_span};
use super::{Emission, Input, To};
use bumpalo::Bump;
use std::collections::BTreeSet;

/// Fields that a provider signs or that only it can read (`provider-formats` §10): never edited.
const OPAQUE: &[&str] = &[
    "encrypted_content",
    "encrypted_index",
    "encrypted_stdout",
    "fingerprint",
    "redacted_thinking",
    "requestState",
    "signature",
    "thoughtSignature",
    "thought_signature",
];

/// Whether an edit would touch an opaque field, at any layer around it.
pub fn touches_opaque<'r>(edit: &Edit<'r>, documents: &Documents<'r>) -> bool {
    let opaque = |segment: &Segment<'_>| match segment {
        Segment::Name(name) => OPAQUE.iter().any(|o| o.as_bytes() == &**name),
        Segment::Index(_) => false,
    };
    let mut span = Some(edit.span);
    while let Some(here) = span {
        if documents.path(&here).is_some_and(|path| path.iter().any(opaque)) {
            return true;
        }
        span = here.layer.source;
    }
    false
}

/// The root's bytes with the edits of all policies, those that meet merged.
///
/// # Errors
/// [`NotExact`] if they cannot be made exactly; the action then becomes `block`.
pub fn made<'r>(root: &'r Layer<'r>, edits: &[Edit<'r>]) -> Result<Vec<u8>, NotExact> {
    merge(root, edits, &is_json)
}

/// The bytes of a span, for edits within it.
///
/// # Errors
/// As for [`made`], and if an edit reaches out of the span.
pub fn made_in<'r>(span: Span<'r>, edits: &[Edit<'r>]) -> Result<Vec<u8>, NotExact> {
    merge_span(span, edits, &is_json)
}

/// Whether [`made`] can make them, as far as this layer's own bytes.
pub fn can_be_made<'r>(layer: &'r Layer<'r>, edits: &[Edit<'r>]) -> bool {
    can_merge(layer, edits, &is_json)
}

/// An array or object. In the text of a JSON string half of a surrogate pair may stand.
fn is_json(text: &[u8]) -> bool {
    let ends = (text.trim_ascii().first(), text.trim_ascii().last());
    if !matches!(ends, (Some(b'{'), Some(b'}')) | (Some(b'['), Some(b']'))) {
        return false;
    }
    let bump = Bump::new();
    let layer = Layer::assembled(&bump, bump.alloc_slice_copy(text), Step::Hidden);
    parse(&bump, layer, JsonLimits { depth: u32::MAX, nodes: u32::MAX }).is_ok()
}

/// The edits that replace a result by its provider's error form. `None`: the shape has none, so whatever
/// holds the result is blocked. `note` is our own text.
pub fn error_form<'r>(result: &ResultItem<'r>, note: &str) -> Option<Vec<Edit<'r>>> {
    // Only an object can be told to be an error.
    if result.item.kind() != Kind::Object {
        return None;
    }
    let text = json_string(&format!("[TOOL ERROR] {note}"));
    let mut edits = Vec::with_capacity(2);
    match result.shape {
        ResultShape::AnthropicToolResult => {
            set(&mut edits, result.item, result.content, "content", text);
            set(&mut edits, result.item, result.failure_value, "is_error", b"true".to_vec());
        }
        ResultShape::ResponsesOutput | ResultShape::PlainOutput => {
            set(&mut edits, result.item, result.content, "output", text);
        }
        ResultShape::ShellOutput => {
            let mut shell = b"[{\"stdout\":\"\",\"stderr\":".to_vec();
            shell.extend_from_slice(&text);
            shell.extend_from_slice(b",\"outcome\":{\"type\":\"exit\",\"exit_code\":1}}]");
            set(&mut edits, result.item, result.content, "output", shell);
        }
        ResultShape::ChatTool => set(&mut edits, result.item, result.content, "content", text),
        ResultShape::GeminiResponse => {
            let mut object = b"{\"error\":".to_vec();
            object.extend_from_slice(&text);
            object.push(b'}');
            set(&mut edits, result.item, result.content, "response", object);
            // Media stand beside it, and are withheld with it.
            let media = result.item.get("parts").filter(|parts| parts.kind() == Kind::Array);
            edits.extend(media.map(|parts| Edit::new(parts.span(), b"[]".to_vec())));
        }
        // The whole result: what stands beside the content (`structuredContent`, `_meta`) goes with it.
        ResultShape::McpResult => {
            let mut whole = b"{\"content\":[{\"type\":\"text\",\"text\":".to_vec();
            whole.extend_from_slice(&text);
            whole.extend_from_slice(b"}],\"isError\":true}");
            edits.push(Edit::new(result.item.span(), whole));
        }
        ResultShape::McpAnswer => {
            let mut error = b"\"error\":{\"code\":-32603,\"message\":".to_vec();
            error.extend_from_slice(&text);
            error.push(b'}');
            let mut members = result.item.members();
            let (name, value) = members.find(|(name, _)| name.is("result") || name.is("error"))?;
            edits.push(Edit::new(Span { end: value.span().end, ..name.span() }, error));
        }
        // The whole event's data: what stands beside the output came with it. What names the call stays, if it is a
        // name and no text.
        ResultShape::Host => {
            let mut whole = b"{".to_vec();
            // An id may have characters of its provider's own (`call_1|fc_1`), and no words.
            let is_id = |id: &[u8]| id.len() <= 256 && id.iter().all(u8::is_ascii_graphic);
            let id = result.item.get("call_id").filter(|id| id.text().is_some_and(|id| is_id(&id)));
            let tool = result.item.get("tool").filter(|tool| tool.text().is_some_and(|tool| is_shown(&tool)));
            for (name, value) in [("call_id", id), ("tool", tool)] {
                if let Some(value) = value {
                    push_json_string(&mut whole, name.as_bytes());
                    whole.push(b':');
                    whole.extend_from_slice(value.raw());
                    whole.push(b',');
                }
            }
            whole.extend_from_slice(b"\"content\":");
            whole.extend_from_slice(&text);
            whole.extend_from_slice(b",\"outcome\":\"error\"}");
            edits.push(Edit::new(result.item.span(), whole));
        }
        ResultShape::TypedOutput | ResultShape::Server => return None,
    }
    Some(edits)
}

/// The edit that puts our own text in the place of something that people would have seen. It means the same in every
/// format.
pub fn shown_instead<'r>(content: Value<'r>, note: &str) -> Edit<'r> {
    Edit::new(content.span(), json_string(&format!("[{note}]")))
}

/// Replaces a member's value, or adds the member before the object's closing brace.
fn set<'r>(edits: &mut Vec<Edit<'r>>, object: Value<'r>, value: Option<Value<'r>>, name: &str, with: Vec<u8>) {
    if let Some(value) = value {
        if value.raw() != with {
            edits.push(Edit::new(value.span(), with));
        }
        return;
    }
    let span = object.span();
    let mut member = Vec::with_capacity(with.len() + name.len() + 4);
    if object.members().next().is_some() {
        member.push(b',');
    }
    push_json_string(&mut member, name.as_bytes());
    member.push(b':');
    member.extend_from_slice(&with);
    let at = span.end.saturating_sub(1);
    // Two additions to one object stand at the same place: they are one insertion.
    if let Some(last) =
        edits.iter_mut().find(|e| e.span.start == at && e.span.end == at && std::ptr::eq(e.span.layer, span.layer))
    {
        if !member.starts_with(b",") {
            last.with.push(b',');
        }
        last.with.extend_from_slice(&member);
        return;
    }
    edits.push(Edit::new(Span { layer: span.layer, start: at, end: at }, member));
}

/// The edits that take elements out of an array, with the commas that they leave behind.
pub fn without_items<'r>(array: Value<'r>, gone: &BTreeSet<usize>) -> Vec<Edit<'r>> {
    let mut edits: Vec<Edit<'r>> = Vec::new();
    let mut items = array.items().enumerate().peekable();
    // The end of the last element that stays, or of those that went behind it.
    let mut end = None;
    let mut stays = false;
    while let Some((at, item)) = items.next() {
        let span = item.span();
        if gone.contains(&at) {
            let next = items.peek().map(|(_, next)| next.span().start);
            let (from, to) = match (stays, end) {
                (true, Some(end)) => (end, span.end),
                _ => (span.start, next.unwrap_or(span.end)),
            };
            edits.push(Edit::new(Span { start: from, end: to, ..span }, Vec::new()));
        } else {
            stays = true;
        }
        end = Some(span.end);
    }
    edits
}

/// The edit that takes a value's member out of its object. `None`: it is none.
pub fn without_member<'r>(value: Value<'r>) -> Option<Edit<'r>> {
    let (name, object) = (value.key()?, value.parent()?);
    let mut before = None;
    let mut members = object.members();
    while let Some((key, other)) = members.next() {
        if key.span().start == name.span().start {
            let next = members.next().map(|(key, _)| key.span().start);
            let (start, end) = match (before, next) {
                (Some(before), _) => (before, value.span().end),
                (None, Some(next)) => (name.span().start, next),
                (None, None) => (name.span().start, value.span().end),
            };
            return Some(Edit::new(Span { start, end, ..value.span() }, Vec::new()));
        }
        before = Some(other.span().end);
    }
    None
}

fn json_string(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 2);
    push_json_string(&mut out, text.as_bytes());
    out
}

/// What a published copy says of itself.
#[derive(Debug, Clone, Copy)]
pub struct Stamp<'a> {
    /// The new event id.
    pub id: &'a str,
    pub action: Decision,
    pub verdict_id: &'a str,
    /// `source` where the input had none (bare mode).
    pub source: &'a str,
    /// `type` where the input had none.
    pub kind: &'a str,
}

/// The input with its edits, as a record of the redacted topic: same mode, same headers but for the
/// attributes that name the copy.
///
/// # Errors
/// [`NotExact`] if an edit cannot be lowered; the action then becomes `block`.
pub fn republish<'r>(
    envelope: &Envelope<'r>,
    input: &Input<'_>,
    edits: &[Edit<'r>],
    stamp: Stamp<'_>,
) -> Result<Emission, NotExact> {
    let mut headers = Vec::with_capacity(input.headers.len() + 3);
    for (name, value) in input.headers {
        // Names are compared without case, as they are read: two ids would be two identities.
        let stamped = ["ce_id", "ce_sgaction", "ce_sgverdictid"].iter().any(|own| name.eq_ignore_ascii_case(own));
        if let (false, Some(value)) = (stamped, value) {
            headers.push(((*name).to_owned(), value.to_vec()));
        }
    }
    let mut header = |name: &str, value: &str| headers.push((name.to_owned(), value.as_bytes().to_vec()));
    let mut all = edits.to_vec();
    match envelope.mode {
        Mode::Binary => {
            header("ce_id", stamp.id);
            header("ce_sgaction", stamp.action.name());
            header("ce_sgverdictid", stamp.verdict_id);
        }
        Mode::Structured => {
            let root = envelope.structured.ok_or(NotExact)?;
            stamp_structured(&mut all, root, stamp)?;
        }
        Mode::Bare => {
            header("ce_specversion", "1.0");
            header("ce_id", stamp.id);
            header("ce_source", stamp.source);
            header("ce_type", stamp.kind);
            header("ce_sgaction", stamp.action.name());
            header("ce_sgverdictid", stamp.verdict_id);
        }
    }
    let value = if all.is_empty() { envelope.record.bytes.to_vec() } else { made(envelope.record, &all)? };
    Ok(Emission { to: To::Redacted, key: input.key.map(<[u8]>::to_vec), headers, value: Some(value), timestamp: None })
}

fn stamp_structured<'r>(edits: &mut Vec<Edit<'r>>, root: Value<'r>, stamp: Stamp<'_>) -> Result<(), NotExact> {
    if root.kind() != Kind::Object {
        return Err(NotExact);
    }
    let mut added = Vec::new();
    for (name, value) in [("sgaction", stamp.action.name()), ("sgverdictid", stamp.verdict_id)] {
        let mut old = root.members().filter(|(key, _)| key.is(name)).peekable();
        if old.peek().is_none() {
            push_json_string(&mut added, name.as_bytes());
            added.push(b':');
            push_json_string(&mut added, value.as_bytes());
            added.push(b',');
        }
        edits.extend(old.map(|(_, old)| Edit::new(old.span(), json_string(value))));
    }
    let id = root.get("id").ok_or(NotExact)?;
    edits.push(Edit::new(id.span(), json_string(stamp.id)));
    if !added.is_empty() {
        let at = root.span().start + 1;
        edits.push(Edit::new(Span { layer: root.layer(), start: at, end: at }, added));
    }
    Ok(())
}
