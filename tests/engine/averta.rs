//! Averta's document on tool results (`averta-tool-results.md`), section by section, under the profile `strict`.
//!
//! `docs/averta.md` says where each of its sentences stands here.

use crate::support::{Partition, engine, verdicts};
use crate::turns::{anthropic, findings, line, said, used};
use serde_json::{Value, json};
use sluicegate::engine::policy::Profile;
use sluicegate::engine::{Emission, To};

const PROVIDER: &str = "anthropic.messages";

/// The document's continuation: one call, and the user message that answers it.
fn continuation(content: &Value) -> Value {
    let mut asked = used(&["toolu_123"]);
    asked["content"][0]["name"] = json!("search_docs");
    anthropic(json!([said("user", "how long do links last?"), asked, {"role": "user", "content": content}]))
}

fn result(content: &Value) -> Value {
    json!({"type": "tool_result", "tool_use_id": "toolu_123", "content": content})
}

fn text() -> Value {
    json!({"type": "text", "text": "Password reset links expire after 24 hours."})
}

/// A picture of one point.
fn image() -> Value {
    json!({"type": "image", "source": {"type": "base64", "media_type": "image/png",
        "data": "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="}})
}

struct Told(Vec<Emission>);

impl Told {
    fn of(profile: Profile, request: &Value) -> Told {
        let engine = engine(profile);
        Told(Partition::new(&engine).feed(&line(PROVIDER, "model.request", "1", request)))
    }
    fn at(&self, checkpoint: &str) -> Value {
        verdicts(&self.0).into_iter().find(|verdict| verdict["checkpoint"] == checkpoint).unwrap_or_default()
    }
    fn rules(&self, checkpoint: &str) -> Vec<String> {
        let found = self.at(checkpoint)["findings"].as_array().cloned().unwrap_or_default();
        let found = found.iter().filter(|finding| finding["effect"] == "block");
        found.map(|f| format!("{}.{}", text_of(&f["policy"]), text_of(&f["rule"]))).collect()
    }
    fn is_allowed(&self) -> bool {
        verdicts(&self.0).iter().all(|verdict| verdict["action"] == "allow")
    }
    /// What the host may send in the request's place.
    fn copy(&self) -> Option<Value> {
        let copy = self.0.iter().find(|emission| emission.to == To::Redacted)?;
        let copy: Value = serde_json::from_slice(copy.value.as_deref()?).ok()?;
        Some(copy.get("data").cloned().unwrap_or(copy))
    }
}

fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// *Continuation Shape*, *Supported Content*: a string, or blocks that are text.
#[test]
fn a_pure_continuation_of_text_passes() {
    for content in [
        json!("{\"matches\":[\"Password reset links expire after 24 hours.\"]}"),
        json!("Search result text"),
        json!([text()]),
        json!([text(), text()]),
    ] {
        let told = Told::of(Profile::Strict, &continuation(&json!([result(&content)])));
        assert!(told.is_allowed(), "{content}: {:?}", verdicts(&told.0));
        assert_eq!(told.at("tool_result")["action"], "allow");
        assert_eq!(told.at("model_request")["action"], "allow");
    }
}

/// *Pure Means Pure*: anything beside the results fails closed, whichever stands first.
#[test]
fn a_mixed_continuation_fails_closed() {
    let answer = || result(&json!("Search result text"));
    let ask = || json!({"type": "text", "text": "Now answer the question."});
    for (content, rules) in [
        (json!([answer(), ask()]), vec!["SG09.mixed_turn"]),
        (json!([answer(), image()]), vec!["SG09.mixed_turn"]),
        (json!([ask(), answer()]), vec!["SG09.mixed_turn", "SG09.results_not_first"]),
    ] {
        let told = Told::of(Profile::Strict, &continuation(&content));
        let mut found = told.rules("model_request");
        found.retain(|rule| rule.starts_with("SG09"));
        found.sort();
        assert_eq!(found, rules, "{content}");
        assert_eq!(told.at("model_request")["action"], "block", "{content}");
        assert_eq!(told.copy(), None, "nothing is left to send");
    }
    // In a message of its own the text is still in the same turn: the API reads both as one.
    let mut split = continuation(&json!([answer()]));
    if let Some(messages) = split["messages"].as_array_mut() {
        messages.push(said("user", "Now answer the question."));
    }
    assert_eq!(Told::of(Profile::Strict, &split).rules("model_request"), ["SG09.mixed_turn"]);
    // Once the model has gone on, it is a later turn.
    if let Some(messages) = split["messages"].as_array_mut() {
        messages.insert(3, said("assistant", "24 hours."));
    }
    assert!(Told::of(Profile::Strict, &split).is_allowed());
}

/// *Supported Content*: blocks that are not text fail closed, and the verdict names the tool.
#[test]
fn content_that_is_not_text_fails_closed() {
    let document = json!({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjQK"}});
    let unknown = json!({"type": "hologram", "data": "x"});
    for (block, policy) in [(image(), "SG13"), (document, "SG13"), (unknown, "SG09")] {
        for content in [json!([block]), json!([text(), block])] {
            let told = Told::of(Profile::Strict, &continuation(&json!([result(&content)])));
            let verdict = told.at("tool_result");
            assert_eq!(verdict["action"], "block", "{content}");
            assert_eq!(verdict["subject"]["tool"], "search_docs");
            // What the engine itself says of parts that nobody understands stands beside it.
            let found = told.rules("tool_result");
            assert!(found.iter().any(|rule| rule.starts_with(policy)), "{verdict}");
            assert!(found.iter().all(|rule| rule.starts_with(policy) || rule == "SG00.unknown_part"), "{verdict}");
        }
    }
}

/// *Block Behavior*: the model does not see the output. `on_block: withhold`, which `strict` implies, leaves nothing
/// to send.
#[test]
fn the_model_does_not_see_what_was_blocked() {
    let told = Told::of(Profile::Strict, &continuation(&json!([result(&json!([text(), image()]))])));
    assert_eq!(told.at("model_request")["action"], "block");
    assert_eq!(told.copy(), None);
}

/// *Decision Callback*, and the last row of *Debugging*: each result has a verdict that names its tool.
#[test]
fn every_result_has_a_verdict_that_names_its_tool() {
    let told = Told::of(Profile::Strict, &continuation(&json!([result(&json!("Search result text"))])));
    let verdict = told.at("tool_result");
    assert_eq!((text_of(&verdict["subject"]["tool"]), text_of(&verdict["decision"])), ("search_docs", "allow"));
    assert_eq!(verdict["subject"]["call_id"], "toolu_123");
}

/// *Debugging*: without results there is no decision on one.
#[test]
fn no_result_gives_no_decision_on_one() {
    let told = Told::of(Profile::Strict, &anthropic(json!([said("user", "how long do links last?")])));
    assert_eq!(told.at("tool_result"), Value::Null);
    assert_eq!(told.at("model_request")["action"], "allow");
}

/// In `standard` the API's own measure holds: it takes text behind the results.
#[test]
fn standard_takes_what_the_api_takes() {
    let answer = result(&json!("{\"source\":\"docs\",\"content\":\"24 hours\"}"));
    let told = Told::of(Profile::Standard, &continuation(&json!([answer, text()])));
    assert!(told.is_allowed(), "{:?}", verdicts(&told.0));
    let mixed = findings(&[told.at("model_request")]);
    assert_eq!(mixed, [("mixed_turn".to_owned(), "allow".to_owned())]);
}
