//! Long outputs of every shape through the whole engine: the copy is valid for its reader, a second pass changes
//! nothing, and no text stands in it that stood nowhere before.

use crate::support::{Partition, body, engine, settings, verdicts};
use proptest::prelude::*;
use serde_json::{Value, json};
use sluicegate::engine::policy::{Mode, OnePolicy, Profile};
use sluicegate::engine::{Emission, Engine, To};

/// One line of a file that `check` reads.
fn line(kind: &str, provider: &str, data: &Value) -> Value {
    json!({"specversion": "1.0", "id": "e", "source": "s", "type": format!("io.sluicegate.{kind}.v1"),
        "conversation": "c", "provider": provider, "data": data})
}

fn mcp(direction: &str, data: &Value) -> Value {
    let mut line = line("mcp.message", "mcp", data);
    line["direction"] = direction.into();
    line["mcpserver"] = "docs".into();
    line
}

const SHAPES: [&str; 10] =
    ["anthropic", "responses", "chat", "many", "shell", "gemini", "mcp", "mcp structured", "mcp resources", "host"];

/// A record of this shape whose result has these texts; and what must be seen before it.
fn record(shape: &str, texts: &[String]) -> (Option<Value>, Value) {
    let blocks = |kind: &str| -> Vec<Value> { texts.iter().map(|text| json!({"type": kind, "text": text})).collect() };
    let asked = |method: &str| {
        let params = json!({"name": "t", "arguments": {}, "uri": "docs:1"});
        Some(mcp("client", &json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})))
    };
    let answer = |result: Value| mcp("server", &json!({"jsonrpc": "2.0", "id": 1, "result": result}));
    match shape {
        "anthropic" => {
            let result = json!({"type": "tool_result", "tool_use_id": "toolu_1", "content": blocks("text")});
            let call = json!({"type": "tool_use", "id": "toolu_1", "name": "t", "input": {}});
            let messages = json!([{"role": "user", "content": "go"}, {"role": "assistant", "content": [call]},
                {"role": "user", "content": [result]}]);
            (
                None,
                line(
                    "model.request",
                    "anthropic.messages",
                    &json!({"model": "m", "max_tokens": 9, "messages": messages}),
                ),
            )
        }
        "responses" | "shell" => {
            let shell: Vec<Value> = texts
                .iter()
                .map(|text| json!({"stdout": text, "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}))
                .collect();
            let item = match shape {
                "shell" => json!({"type": "shell_call_output", "call_id": "k", "output": shell}),
                _ => json!({"type": "function_call_output", "call_id": "k", "output": blocks("input_text")}),
            };
            (None, line("model.request", "openai.responses", &json!({"model": "m", "input": [item]})))
        }
        // Lists and texts in turn, which are bounded together too.
        "many" => {
            let output = |(n, texts): (usize, &[String])| {
                let list: Vec<Value> = texts.iter().map(|text| json!({"type": "input_text", "text": text})).collect();
                let output = if n % 2 == 0 { list.into() } else { Value::from(texts.concat()) };
                json!({"type": "function_call_output", "call_id": format!("k{n}"), "output": output})
            };
            let input: Vec<Value> = texts.chunks(4).enumerate().map(output).collect();
            (None, line("model.request", "openai.responses", &json!({"model": "m", "input": input})))
        }
        "chat" => {
            let call = json!({"id": "k", "type": "function", "function": {"name": "t", "arguments": "{}"}});
            let messages = json!([{"role": "assistant", "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "k", "content": blocks("text")}]);
            (None, line("model.request", "openai.chat", &json!({"model": "m", "messages": messages})))
        }
        "gemini" => {
            let answer = json!({"functionResponse": {"name": "t", "response": {"result": texts}}});
            let contents = json!([{"role": "user", "parts": [answer]}]);
            (None, line("model.request", "gemini.generate_content", &json!({"contents": contents})))
        }
        "mcp" => {
            let link = |(n, text): (usize, &String)| {
                json!({"type": "resource_link", "uri": format!("https://example.test/{n}"),
                "name": format!("page {n}"), "description": text, "mimeType": "text/html",
                "icons": [{"src": format!("https://example.test/{n}.png")}], "annotations": {"priority": 0.5}})
            };
            let content: Vec<Value> = texts.iter().enumerate().map(link).chain(blocks("text")).collect();
            (
                asked("tools/call"),
                answer(json!({"content": content, "structuredContent": {"n": [1, 2]}, "_meta": {"a": 1}})),
            )
        }
        "mcp structured" => {
            let rows: Vec<Value> =
                texts.iter().map(|text| json!({"text": text, "url": "https://example.test/", "n": 1})).collect();
            (asked("tools/call"), answer(json!({"content": blocks("text"), "structuredContent": {"rows": rows}})))
        }
        "mcp resources" => {
            let contents: Vec<Value> = texts.iter().map(|text| json!({"uri": "docs:1", "text": text})).collect();
            (asked("resources/read"), answer(json!({"contents": contents})))
        }
        _ => (None, line("tool.result", "", &json!({"call_id": "k", "content": {"source": "t", "content": texts}}))),
    }
}

/// What the copy's data are, if there is one, and the verdicts' rules.
fn pass(engine: &Engine, before: Option<&Value>, record: &Value) -> (Option<Value>, Vec<String>) {
    let mut partition = Partition::new(engine);
    if let Some(before) = before {
        partition.feed(before.to_string().as_bytes());
    }
    let mut record = record.clone();
    if record["provider"] == "" {
        record.as_object_mut().unwrap().remove("provider");
    }
    let emissions = partition.feed(record.to_string().as_bytes());
    let copies: Vec<&Emission> = emissions.iter().filter(|e| e.to == To::Redacted).collect();
    assert!(copies.len() <= 1);
    let rules = |verdict: &Value| -> Vec<String> {
        verdict["findings"].as_array().unwrap().iter().map(|f| f["rule"].as_str().unwrap().to_owned()).collect()
    };
    (copies.first().map(|copy| body(copy)["data"].clone()), verdicts(&emissions).iter().flat_map(rules).collect())
}

/// Whether a cut value has the form of the original: the same members with values of the same types, lists no
/// longer; `_truncated` may stand for a tail where the form is the tool's own, a text block for the last blocks.
fn same_form(cut: &Value, whole: &Value, free: bool) -> Result<(), String> {
    match (cut, whole) {
        (Value::Object(cut), Value::Object(whole)) => {
            let shorter = free && cut.contains_key("_truncated");
            if !shorter && whole.keys().any(|key| !cut.contains_key(key)) {
                return Err("a member is missing".to_owned());
            }
            for (key, value) in cut.iter().filter(|(key, _)| !(free && *key == "_truncated")) {
                let whole = whole.get(key).ok_or_else(|| format!("{key} is new"))?;
                if ["uri", "url", "type", "name", "mimeType", "icons", "annotations"].contains(&key.as_str())
                    && value != whole
                {
                    return Err(format!("{key} is {value}"));
                }
                same_form(value, whole, free)?;
            }
            Ok(())
        }
        (Value::Array(cut), Value::Array(whole)) => {
            for (n, value) in cut.iter().enumerate() {
                let stands_for_others = n + 1 == cut.len()
                    && (free && value.get("_truncated").is_some()
                        || value["text"].as_str().is_some_and(|text| text.contains(" parts omitted; ")));
                if !stands_for_others {
                    same_form(value, whole.get(n).ok_or("longer than before")?, free)?;
                }
            }
            let shorter = cut.len() < whole.len();
            let said = cut.last().is_some_and(|last| last.to_string().contains("omitted"));
            if shorter && !said { Err("a list is cut and does not say so".to_owned()) } else { Ok(()) }
        }
        (Value::String(cut), Value::String(whole)) => stood_there(cut, whole),
        (cut, whole) if cut == whole => Ok(()),
        (cut, whole) => Err(format!("{cut} of {whole}")),
    }
}

/// Every run of text between markers stood in the original.
fn stood_there(cut: &str, whole: &str) -> Result<(), String> {
    if cut != whole && !cut.contains("[sluicegate: ") && !cut.contains("[…]") {
        return Err(format!("no marker: {cut:?}"));
    }
    let mut rest = cut;
    loop {
        let next = ["[sluicegate: ", "[…]"].iter().filter_map(|open| Some((rest.find(open)?, *open))).min();
        let (run, behind) = rest.split_at(next.map_or(rest.len(), |(at, _)| at));
        if !whole.contains(run) {
            return Err(format!("{run:?} stood nowhere"));
        }
        let Some(close) = behind.find(']') else { return Ok(()) };
        rest = &behind[close + 1..];
    }
}

fn check_shape(engine: &Engine, shape: &str, texts: &[String]) -> Result<(), String> {
    let (before, record) = record(shape, texts);
    let (copy, rules) = pass(engine, before.as_ref(), &record);
    let blocked = rules.iter().any(|rule| rule == "uncuttable_result" || rule == "too_many_parts");
    let cut = rules.iter().any(|rule| rule.starts_with("oversize"));
    let Some(copy) = copy else {
        let request = record["type"] == "io.sluicegate.model.request.v1";
        return if request && !cut { Ok(()) } else { Err(format!("no copy: {rules:?}")) };
    };
    if blocked {
        return if copy.to_string().contains("TOOL ERROR") { Ok(()) } else { Err("uncut".to_owned()) };
    }
    same_form(&copy, &record["data"], matches!(shape, "gemini" | "host"))?;
    if !cut && copy != record["data"] {
        return Err("changed for nothing".to_owned());
    }
    let mut again = record.clone();
    again["data"] = copy.clone();
    match pass(engine, before.as_ref(), &again) {
        (Some(twice), _) if twice != copy => Err("cut again".to_owned()),
        // Where every one of many is at its least, the total goes on to be said.
        (_, rules) if rules.iter().any(|rule| rule == "oversize_result") => Err(format!("again {rules:?}")),
        _ => Ok(()),
    }
}

fn tight(max_bytes: u64) -> Engine {
    let mut settings = settings(Profile::Standard);
    let Value::Object(options) = json!({"max_bytes": max_bytes, "max_total_bytes": max_bytes}) else { unreachable!() };
    settings.policy.policies.insert("SG01".to_owned(), OnePolicy { options, ..OnePolicy::default() });
    // The requests here are outputs alone.
    let off = OnePolicy { mode: Some(Mode::Off), ..OnePolicy::default() };
    settings.policy.policies.insert("SG10".to_owned(), off);
    Engine::new(settings).unwrap_or_else(|problems| panic!("{problems:?}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn cut_results_are_valid_of_one_piece_and_cut_once(
        shape in prop::sample::select(SHAPES.to_vec()),
        (text, times) in ("[a-z\"\\\\\n é😀]{1,12}", 1..300_usize),
        count in 0..120_usize,
        max_bytes in 1024..6000_u64,
    ) {
        let texts: Vec<String> = (0..count).map(|n| format!("{n} {}", text.repeat(1 + n * times / 60))).collect();
        let checked = check_shape(&tight(max_bytes), shape, &texts);
        prop_assert!(checked.is_ok(), "{shape}: {}", checked.unwrap_err());
    }
}

#[test]
fn many_links_are_left_out_whole() {
    let texts: Vec<String> = (0..1000).map(|n| format!("page number {n} of a long list")).collect();
    let engine = engine(Profile::Standard);
    let (before, record) = record("mcp", &texts);
    let (copy, rules) = pass(&engine, before.as_ref(), &record);
    assert!(rules.contains(&"oversize_result".to_owned()), "{rules:?}");
    let copy = copy.unwrap();
    let content = copy["result"]["content"].as_array().unwrap();
    let (last, kept) = content.split_last().unwrap();
    assert_eq!(kept, &record["data"]["result"]["content"].as_array().unwrap()[..kept.len()]);
    let said = format!(
        "[sluicegate: {} {:03} of 2 000 parts omitted; ",
        (2000 - kept.len()) / 1000,
        (2000 - kept.len()) % 1000
    );
    assert!(last["type"] == "text" && last["text"].as_str().unwrap().starts_with(&said), "{last} {said}");
    assert!(kept.len() > 300 && copy["result"]["structuredContent"] == json!({"n": [1, 2]}));
}

/// Thousands of short texts, each cut to a few bytes, could be made to read as the sender likes.
#[test]
fn short_texts_are_not_put_together_anew() {
    let texts = vec!["approved by nobody at all; refused by root".to_owned(); 5000];
    let engine = tight(65_536);
    for shape in SHAPES {
        assert_eq!(check_shape(&engine, shape, &texts), Ok(()), "{shape}");
        let (before, record) = record(shape, &texts);
        let (copy, _) = pass(&engine, before.as_ref(), &record);
        assert!(copy.is_some_and(|copy| copy != record["data"]), "{shape} is not cut");
    }
}

/// Many results, each above its share of the total by little.
#[test]
fn the_total_leaves_a_marker_in_every_text() {
    let text = "approved by nobody at all; refused by root";
    let outputs = |text: &str, count: usize| -> Vec<Value> {
        (0..count)
            .map(|n| json!({"type": "function_call_output", "call_id": format!("k{n}"), "output": text}))
            .collect()
    };
    let engine = tight(1024);
    for count in [40, 90, 600] {
        let request =
            |input: Vec<Value>| line("model.request", "openai.responses", &json!({"model": "m", "input": input}));
        let (copy, _) = pass(&engine, None, &request(outputs(text, count)));
        let copy = copy.expect("the total is above its bound");
        for output in copy["input"].as_array().unwrap() {
            assert_eq!(stood_there(output["output"].as_str().unwrap(), text), Ok(()));
        }
        let (again, _) = pass(&engine, None, &request(copy["input"].as_array().unwrap().clone()));
        assert!(again.is_none_or(|again| again == copy), "cut again");
    }
}

/// `monitor` changes nothing: what its topic would not carry is said and kept back, and the host goes on.
#[test]
fn a_copy_that_does_not_fit_blocks_nothing_that_is_monitored() {
    let image = format!("iVBORw0KGgoA{}", "A".repeat(1_200_000));
    let image = json!({"content": [{"type": "image", "data": image, "mimeType": "image/png"}]});
    let answer = mcp("server", &json!({"jsonrpc": "2.0", "id": 1, "result": image}));
    let result = line("tool.result", "openai.responses", &json!({"call_id": "k", "content": "A".repeat(1_200_000)}));
    for (profile, record, action) in [
        (Profile::Monitor, &answer, "allow"),
        (Profile::Monitor, &result, "allow"),
        (Profile::Standard, &answer, "block"),
    ] {
        let engine = engine(profile);
        let emissions = Partition::new(&engine).feed(record.to_string().as_bytes());
        let [verdict] = &verdicts(&emissions)[..] else { panic!("one verdict") };
        assert_eq!((&verdict["decision"], &verdict["action"]), (&json!("block"), &json!(action)), "{verdict:#}");
        assert!(verdict.to_string().contains("output_too_large"));
        assert!(!emissions.iter().any(|e| e.to == To::Redacted) && emissions.iter().any(|e| e.to == To::DeadLetters));
    }
}

/// JSON as Python's `json.dumps` spells it: blanks behind separators, escapes for all letters but ASCII's.
fn spelt(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let members: Vec<String> =
                members.iter().map(|(name, value)| format!("{}: {}", spelt(&json!(name)), spelt(value))).collect();
            format!("{{{}}}", members.join(", "))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(spelt).collect::<Vec<_>>().join(", ")),
        Value::String(text) => {
            let mut out = String::new();
            for unit in serde_json::to_string(text).unwrap().encode_utf16() {
                match char::from_u32(u32::from(unit)).filter(char::is_ascii) {
                    Some(letter) => out.push(letter),
                    None => out.push_str(&format!("\\u{unit:04x}")),
                }
            }
            out
        }
        other => other.to_string(),
    }
}

/// The output of a host's event is cut; whoever puts the copy into a request, however spelt, is not cut again.
#[test]
fn a_copy_that_is_spelt_anew_is_not_cut_again() {
    let engine = engine(Profile::Standard);
    let rows: Vec<Value> = (0..9000).map(|n| json!({"n": n, "t": "zw\u{f6}lf"})).collect();
    let cases = [
        json!("y".repeat(70_041)),
        json!("a line, and \"more\"\n".repeat(5000)),
        json!("gr\u{fc}\u{df}e \u{1f511} \u{65e5}\u{672c} ".repeat(5000)),
        json!({"source": "api:rows", "content": rows}),
    ];
    for content in cases {
        let event = line(
            "tool.result",
            "openai.chat",
            &json!({"call_id": "k", "tool": "t", "outcome": "ok", "content": content}),
        );
        let emissions = Partition::new(&engine).feed(event.to_string().as_bytes());
        let copy =
            emissions.iter().find(|emission| emission.to == To::Redacted).map(body).unwrap()["data"]["content"].clone();
        assert!(copy.to_string().len() <= 65_536 && copy["source"].is_string(), "{}", copy.to_string().len());
        let text = spelt(&copy);
        let call = json!({"id": "k", "type": "function", "function": {"name": "t", "arguments": "{}"}});
        let chat = json!({"model": "m", "messages": [{"role": "user", "content": "go"},
            {"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "k", "content": text}]});
        let gemini = json!({"contents": [{"role": "user", "parts": [{"text": "go"}]},
            {"role": "model", "parts": [{"functionCall": {"name": "t", "args": {}}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "t", "response": copy}}]}]});
        for (provider, data) in [("openai.chat", chat), ("gemini.generate_content", gemini)] {
            let event = spelt(&line("model.request", provider, &data));
            let found = verdicts(&Partition::new(&engine).feed(event.as_bytes()));
            let cut = found.iter().flat_map(|verdict| verdict["findings"].as_array().unwrap());
            let cut: Vec<&Value> = cut.filter(|finding| finding["rule"] == "oversize_result").collect();
            assert!(cut.is_empty(), "{provider} {cut:?}");
        }
    }
    // Nobody gets more through by our marker.
    let marked = "{\"source\":\"x\",\"content\":\"[sluicegate: 1 of 2 bytes omitted] ";
    for text in [
        format!("{marked}\"{}}}", " ".repeat(90_000)),
        format!("{marked}{}\"}}", "\\u0041".repeat(12_000)),
        format!("{marked}{}\"}}", "y".repeat(66_000)),
        format!("[sluicegate: 1 of 2 bytes omitted] {}", " ".repeat(70_000)),
    ] {
        let messages = json!([{"role": "tool", "tool_call_id": "k", "content": text}]);
        let event = line("model.request", "openai.chat", &json!({"model": "m", "messages": messages}));
        let found = verdicts(&Partition::new(&engine).feed(event.to_string().as_bytes()));
        let cut = found.iter().flat_map(|verdict| verdict["findings"].as_array().unwrap());
        assert!(cut.into_iter().any(|finding| finding["rule"] == "oversize_result"), "{}", &text[..80]);
    }
}
