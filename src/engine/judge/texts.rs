//! What a result's texts are: out of what the wire wraps them in, and how long after edits.

use crate::engine::event::{Part, ResultItem, ResultShape};
use crate::engine::json::{Kind, Value};
use crate::engine::layer::Edit;

/// What stands in a wrapping of the wire's: the one member of Gemini's answer, the texts of a host's list of
/// blocks that are nothing but text.
pub(super) fn blocks<'r>(shape: ResultShape, value: Value<'r>) -> Option<Vec<Value<'r>>> {
    match shape {
        ResultShape::GeminiResponse => {
            let mut members = value.members();
            let (name, inner) = members.next()?;
            let wraps = ["output", "result", "error"].iter().any(|known| name.is(known));
            (wraps && members.next().is_none()).then(|| vec![inner])
        }
        ResultShape::Host if value.kind() == Kind::Array => value.items().map(text_block).collect(),
        _ => None,
    }
}

fn text_block<'r>(block: Value<'r>) -> Option<Value<'r>> {
    let known = |name: &Value<'_>| name.is("type") || name.is("text");
    let kind = block.get("type")?;
    let is_text = ["text", "input_text", "output_text"].iter().any(|text| kind.is(text));
    let text = block.get("text").filter(|text| text.kind() == Kind::String)?;
    (is_text && block.members().all(|(name, _)| known(&name))).then_some(text)
}

/// The text of a result after its edits, bytes; rather too many than too few.
pub(super) fn text_after(result: &ResultItem<'_>, text_bytes: u64, edits: &[Edit<'_>]) -> u64 {
    // An edit of the record's own layer may take whole parts with it: what was text there is what counts.
    let (mut outer, inner): (Vec<&Edit<'_>>, Vec<&Edit<'_>>) =
        edits.iter().partition(|edit| std::ptr::eq(edit.span.layer, result.item.layer()) && !edit.span.is_empty());
    outer.sort_unstable_by_key(|edit| edit.span.start);
    let mut whole = vec![false; outer.len()];
    let mut taken = 0;
    for part in &result.parts {
        let (Part::Text(value) | Part::Json(value)) = part else { continue };
        let span = value.span();
        let at = outer.partition_point(|edit| edit.span.start <= span.start).checked_sub(1);
        if let Some(at) = at.filter(|at| outer.get(*at).is_some_and(|edit| span.end <= edit.span.end)) {
            let bytes =
                if matches!(part, Part::Text(_)) { value.text().map_or(0, |text| text.len()) } else { span.len() };
            taken += bytes as u64;
            whole.get_mut(at).into_iter().for_each(|whole| *whole = true);
        }
    }
    let shorter = |edit: &Edit<'_>| (edit.span.len() as u64).saturating_sub(edit.with.len() as u64);
    taken += inner.iter().map(|edit| shorter(edit)).sum::<u64>();
    let mut added = 0;
    for (edit, whole) in outer.iter().zip(whole) {
        match whole {
            true => added += edit.with.len() as u64,
            false => taken += shorter(edit),
        }
    }
    (text_bytes + added).saturating_sub(taken)
}
