//! What is remembered of a result's safe copy: the digest that the copy has wherever a host puts it.

use crate::support::{Partition, settings};
use serde_json::{Value, json};
use sluicegate::engine::decision::Decision;
use sluicegate::engine::digest::Keyed;
use sluicegate::engine::policy::{OnePolicy, Profile};
use sluicegate::engine::state::ResultFact;
use sluicegate::engine::{Engine, Settings, To};

/// Small bounds, so that texts of a test are cut or blocked.
fn small() -> Settings {
    let mut settings = settings(Profile::Standard);
    let options = json!({"max_bytes": 1024, "block_bytes": 4096}).as_object().cloned().unwrap();
    settings.policy.policies.insert("SG01".into(), OnePolicy { options, ..OnePolicy::default() });
    settings
}

fn line(kind: &str, provider: &str, data: Value) -> Vec<u8> {
    let event = json!({"specversion": "1.0", "id": "e", "source": "/s", "type": format!("io.sluicegate.{kind}.v1"),
        "provider": provider, "conversation": "c", "data": data});
    event.to_string().into_bytes()
}

fn host(content: Value) -> Vec<u8> {
    line("tool.result", "anthropic.messages", json!({"call_id": "t1", "outcome": "ok", "content": content}))
}

/// A host's content in a request of every provider, as hosts put it there: text as text, the rest as JSON text or as
/// Gemini's object.
fn requests(content: &str) -> Vec<Vec<u8>> {
    let raw = content;
    let content: &Value = &serde_json::from_str(raw).unwrap();
    let text = content.as_str().map_or_else(|| raw.to_owned(), str::to_owned);
    let failed = text.starts_with("[TOOL ERROR]");
    let object = match content {
        Value::Object(_) => json!("OBJECT"),
        _ if failed => json!({"error": text}),
        _ => json!({"result": content}),
    };
    let outcome = json!({"type": "exit", "exit_code": i32::from(failed)});
    let items = |item: Value| json!({"model": "m", "input": [item]});
    let block = json!({"type": "tool_result", "tool_use_id": "t1", "content": text, "is_error": failed});
    let blocks = json!({"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": text}]});
    vec![
        line("model.request", "anthropic.messages", json!({"messages": [{"role": "user", "content": [block]}]})),
        line("model.request", "anthropic.messages", json!({"messages": [{"role": "user", "content": [blocks]}]})),
        line(
            "model.request",
            "openai.responses",
            items(json!({"type": "function_call_output", "call_id": "t1", "output": text})),
        ),
        line(
            "model.request",
            "openai.responses",
            items(json!({"type": "shell_call_output", "call_id": "t1",
                "output": [{"stdout": "", "stderr": text, "outcome": outcome}]})),
        ),
        line(
            "model.request",
            "openai.chat",
            json!({"messages": [{"role": "tool", "tool_call_id": "t1", "content": text}]}),
        ),
        line(
            "model.request",
            "gemini.generate_content",
            json!({"contents": [{"role": "user", "parts": [
                {"functionResponse": {"id": "t1", "name": "f", "response": object}}]}]}),
        )
        .iter()
        .map(|b| char::from(*b))
        .collect::<String>()
        .replace("\"OBJECT\"", raw)
        .into_bytes(),
    ]
}

fn facts(engine: &Engine, partition: &Partition<'_>) -> Vec<ResultFact> {
    let key = Keyed::new(engine.settings().fingerprint_key).conversation(b"c");
    partition.state.get(key).unwrap().results.values().cloned().collect()
}

#[test]
fn a_copy_compares_equal_wherever_it_is_put_and_so_does_the_original() {
    let wide = "line of output\n".repeat(200);
    let huge = "x".repeat(5000);
    let cases = [
        (json!("short"), Decision::Allow, Decision::Redact),
        (json!({"rows": [1, 2]}), Decision::Allow, Decision::Redact),
        (json!(wide), Decision::Redact, Decision::Redact),
        (json!(huge), Decision::Block, Decision::Block),
    ];
    for (content, withheld, action) in cases {
        for (at, original) in requests(&content.to_string()).into_iter().enumerate() {
            let engine = Engine::new(small()).unwrap();
            let mut partition = Partition::new(&engine);
            let out = partition.feed(&host(content.clone()));
            let copy = out.into_iter().find(|e| e.to == To::Redacted).and_then(|e| e.value).unwrap();
            let copy = String::from_utf8(copy).unwrap();
            // As its bytes stand: a host that writes the members in another order has written another text.
            let (_, copy) = copy.split_once("\"content\":").unwrap();
            let (copy, _) = copy.rsplit_once(",\"outcome\"").unwrap();
            let own = facts(&engine, &partition).remove(0);
            assert_eq!((own.action, own.withheld), (action, withheld));
            let copied = requests(copy).swap_remove(at);
            partition.feed(&copied);
            let second = facts(&engine, &partition).remove(1);
            assert_eq!(Some(second.content), own.copy, "{at}: {copy}");
            assert_eq!(second.withheld, Decision::Allow);
            // The original is known there too: it gives no second verdict.
            partition.feed(&original);
            let all = facts(&engine, &partition);
            assert!(all.iter().all(|fact| fact.content == own.content || fact.content == second.content), "{at}");
        }
    }
}

#[test]
fn a_list_of_text_blocks_is_its_texts_and_other_objects_are_themselves() {
    let engine = Engine::new(small()).unwrap();
    let digest = |lines: &[Vec<u8>]| {
        let mut partition = Partition::new(&engine);
        lines.iter().for_each(|line| drop(partition.feed(line)));
        facts(&engine, &partition).remove(0).content
    };
    let blocks = json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]);
    let gemini = |response: Value| {
        let part = json!({"functionResponse": {"id": "t1", "name": "f", "response": response}});
        digest(&[line(
            "model.request",
            "gemini.generate_content",
            json!({"contents": [{"role": "user", "parts": [part]}]}),
        )])
    };
    let two = json!({"type": "tool_result", "tool_use_id": "t1", "content": blocks});
    let two = line("model.request", "anthropic.messages", json!({"messages": [{"role": "user", "content": [two]}]}));
    assert_eq!(digest(&[host(blocks)]), digest(&[two]));
    let more = json!([{"type": "text", "text": "a", "b": 1}]);
    assert_ne!(digest(&[host(more)]), digest(&[host(json!([{"type": "text", "text": "a"}]))]));
    assert_eq!(gemini(json!({"result": "a"})), digest(&[host(json!("a"))]));
    assert_eq!(gemini(json!({"output": {"n": 1}})), digest(&[host(json!({"n": 1}))]));
    assert_ne!(gemini(json!({"result": "a", "error": "b"})), gemini(json!({"result": "a"})));
    assert_ne!(gemini(json!({"other": "a"})), gemini(json!({"result": "a"})));
}
