//! Decisions on tools as records of their topic, and as lines of a file.

use crate::pins::{key, plain, tool};
use serde_json::{Value, json};
use sluicegate::engine::digest::sha256;
use sluicegate::engine::pins::record::{DecisionRecord, Key, Line, RecordError, Standing, shown};
use sluicegate::engine::pins::{Pin, PinTable};

#[test]
fn records_go_through_and_bad_ones_approve_nothing() {
    let search = tool("search", "Searches.");
    let mut record = DecisionRecord::new(key("docs", &search), Standing::Approved, Some(plain(&search)));
    (record.by, record.reason, record.at) = ("ann".into(), "read \"it\"".into(), "2026-01-01T00:00:00Z".into());
    let (encoded, value) = (record.key.encode(), record.encode());
    assert_eq!(Key::decode(&encoded).as_ref(), Ok(&record.key));
    assert_eq!(DecisionRecord::decode(&record.key, &value).as_ref(), Ok(&record));
    let shape: Value = serde_json::from_slice(&value).unwrap();
    assert_eq!(shape["definition"], search);
    assert_eq!(shape["digest"], shown(&record.key.digest));
    let instructions = Key { name: None, capabilities: Some([7; 32]), ..record.key.clone() };
    assert_eq!(Key::decode(&instructions.encode()).as_ref(), Ok(&instructions));
    for bad in ["", "{}", "[1,2,3,4,5]", r#"["a","*","tool","b"]"#, r#"["a","*","file","b","sha256:00"]"#] {
        assert_eq!(Key::decode(bad.as_bytes()), Err(RecordError::Key), "{bad}");
    }
    let with = |member: &str, new: Value| {
        let mut changed = shape.clone();
        changed[member] = new;
        changed.to_string().into_bytes()
    };
    for (bad, error) in [
        (with("v", json!(2)), RecordError::Version),
        (with("v", Value::Null), RecordError::Value),
        (with("decision", json!("maybe")), RecordError::Value),
        (with("server", json!("other")), RecordError::Mismatch),
        (with("digest", json!(shown(&[0; 32]))), RecordError::Mismatch),
        (b"[".to_vec(), RecordError::Value),
    ] {
        let mut table = PinTable::default();
        table.apply(0, &encoded, Some(&value)).unwrap();
        assert_eq!(table.len(), 1);
        assert_eq!(table.apply(1, &encoded, Some(&bad)), Err(error));
        assert_eq!((table.len(), table.offset()), (0, Some(1)), "it takes the approval away");
    }
    // A definition of another digest than the approved one is not what was approved.
    let mut table = PinTable::default();
    table.apply(0, &encoded, Some(&with("definition", tool("search", "Other.")))).unwrap();
    let pins: Vec<_> = table.all().collect();
    assert!(pins[0].2.definition.is_none() && pins[0].2.standing == Standing::Approved);
    table.apply(1, &encoded, None).unwrap();
    assert!(table.is_empty());
}

/// The lines of a file give the table that the topic gives.
#[test]
fn decisions_go_through_a_file() {
    let client = Some([7; 32]);
    let nasty = tool("se\u{202e}arch", "a\u{7f}\u{1b}\u{1f600}\"\\");
    let lone = br#"{"description":"\ud800","name":"lone"}"#;
    let lone = DecisionRecord::new(
        Key { server: b"docs".into(), capabilities: None, name: Some(b"lone".into()), digest: sha256(lone) },
        Standing::Approved,
        Some(lone.to_vec()),
    );
    let instructions = Key { name: None, capabilities: client, ..key("docs", &nasty) };
    let record = |key: Key, standing| (key.clone(), Some(DecisionRecord::new(key, standing, Some(plain(&nasty)))));
    let topic = [
        (3, record(key("docs", &nasty), Standing::Approved)),
        (4, record(instructions, Standing::Rejected)),
        (9, (lone.key.clone(), Some(lone))),
        (10, (key("docs", &nasty), None)),
        (12, record(key("other", &nasty), Standing::Rejected)),
        (20, (key("gone", &nasty), None)),
    ];
    let (mut whole, mut read, mut counted) = (PinTable::default(), PinTable::default(), PinTable::default());
    for (offset, (key, decision)) in topic {
        whole.apply(offset, &key.encode(), decision.as_ref().map(DecisionRecord::encode).as_deref()).unwrap();
        let line = Line { offset: Some(offset), key, decision };
        let text = line.encode();
        assert!(text.bytes().all(|b| (b' '..0x7f).contains(&b)), "{text}");
        assert_eq!(Line::decode(text.as_bytes()).unwrap().key, line.key);
        read.apply_line(text.as_bytes()).unwrap();
        counted.apply_line(Line { offset: None, ..line }.encode().as_bytes()).unwrap();
    }
    let told = |table: &PinTable| {
        let one = |(server, name, pin): (&[u8], Option<&[u8]>, &Pin)| {
            let (server, name) = (server.to_vec(), name.map(<[u8]>::to_vec));
            (server, name, pin.standing, pin.digest, pin.capabilities, pin.definition.clone(), pin.offset)
        };
        table.all().map(one).collect::<Vec<_>>()
    };
    assert_eq!((told(&read), read.offset()), (told(&whole), Some(20)));
    assert_eq!((counted.len(), counted.offset()), (3, Some(5)), "without offsets, lines are counted");
    // What stands where it does not belong, or is none, changes nothing.
    let line = |change: &dyn Fn(&mut Value)| {
        let text = Line { offset: Some(21), key: key("docs", &nasty), decision: None }.encode();
        let mut line: Value = serde_json::from_str(&text).unwrap();
        change(&mut line);
        line.to_string()
    };
    for (bad, error) in [
        (line(&|l| l["offset"] = json!(20)), RecordError::Order),
        (line(&|l| l["offset"] = json!(-1)), RecordError::Value),
        (line(&|l| l["offset"] = json!("21")), RecordError::Value),
        (line(&|l| l["v"] = json!(2)), RecordError::Version),
        (line(&|l| l["decision"] = json!("maybe")), RecordError::Value),
        (line(&|l| l["kind"] = json!("file")), RecordError::Key),
        (line(&|l| l["digest"] = json!("sha256:00")), RecordError::Key),
        ("[]".to_owned(), RecordError::Key),
        ("{".to_owned(), RecordError::Value),
    ] {
        assert_eq!(read.apply_line(bad.as_bytes()), Err(error), "{bad}");
    }
    assert_eq!((told(&read), read.offset()), (told(&whole), Some(20)));
}
