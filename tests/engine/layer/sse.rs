//! Server-sent events: framing by table and against a plain reading of the standard, and edits of data.

use super::{edit, edited};
use bumpalo::Bump;
use proptest::prelude::*;
use sluicegate::engine::layer::{Layer, NotExact, Step, map_range, splice};
use sluicegate::engine::provider::sse::events;

type Found = Vec<(Option<String>, String)>;

fn read(stream: &[u8]) -> Vec<(Option<Vec<u8>>, Vec<u8>)> {
    let bump = Bump::new();
    let layer = Layer::record(&bump, bump.alloc_slice_copy(stream));
    let mut found = Vec::new();
    for event in events(&bump, layer) {
        assert_eq!(event.index as usize, found.len());
        assert_eq!(event.data.step, Step::Sse { event: event.index });
        found.push((event.event_name.map(<[u8]>::to_vec), event.data.bytes.to_vec()));
    }
    found
}

fn check(stream: &str, expected: &[(Option<&str>, &str)]) {
    let found: Found = read(stream.as_bytes())
        .into_iter()
        .map(|(name, data)| {
            let text = |bytes| String::from_utf8(bytes).unwrap();
            (name.map(text), text(data))
        })
        .collect();
    let found: Vec<_> = found.iter().map(|(name, data)| (name.as_deref(), data.as_str())).collect();
    assert_eq!(found, expected, "{stream:?}");
}

#[test]
fn streams() {
    check("", &[]);
    check("\n\r\n\r\r", &[]);
    check("data: a\n\n", &[(None, "a")]);
    check("data: a\r\n\r\ndata: b\r\rdata: c\n\n", &[(None, "a"), (None, "b"), (None, "c")]);
    check("data: a\ndata: b\r\ndata\rdata:c\n\n", &[(None, "a\nb\n\nc")]);
    check("data:a\n\ndata: a\n\ndata:  a\n\ndata:\ta\n\n", &[(None, "a"), (None, "a"), (None, " a"), (None, "\ta")]);
    check("event: x\ndata: a\n\ndata: b\n\n", &[(Some("x"), "a"), (None, "b")]);
    check("event: x\nevent: y\ndata: a\nevent:\n\n", &[(None, "a")]);
    check("event: x\nevent: y\ndata: a\n\n", &[(Some("y"), "a")]);
    check(": comment\n:\ndata: a\n: b\n\n", &[(None, "a")]);
    check("event: ping\n\ndata: [DONE]", &[(None, "[DONE]")]);
    check("data: a\nid: 1\nretry: 5\nDATA: b\n data: c\ndata2: d\n\n", &[(None, "a")]);
    check("data\n\ndata\ndata\n\ndata:", &[(None, ""), (None, "\n"), (None, "")]);
    check("\u{feff}data: a\n\n\u{feff}data: b\n\n", &[(None, "a")]);
    check("\u{feff}\u{feff}data: a\n\n", &[]);
    check("data: a: b\n\n", &[(None, "a: b")]);
}

#[test]
fn edits_of_data() {
    let not_exact = None;
    for (stream, (start, end, with), expected) in [
        ("data: abc\n\n", (1, 2, "x"), Some("data: axc\n\n")),
        ("data: abc\n\n", (1, 2, "x\ny"), Some("data: ax\ndata: yc\n\n")),
        ("data:abc\r\n\r\n", (1, 2, "\n"), Some("data:a\r\ndata: c\r\n\r\n")),
        ("data:abc\r\r", (3, 3, "\n\n"), Some("data:abc\rdata: \rdata: \r\r")),
        ("data: abc", (3, 3, "\nd"), Some("data: abc\ndata: d")),
        ("event: x\r\ndata: abc", (3, 3, "\nd"), Some("event: x\r\ndata: abc\r\ndata: d")),
        ("data: a\ndata: b\n\n", (0, 3, "x"), Some("data: x\n\n")),
        ("data: a\ndata: b\n\n", (1, 2, ""), Some("data: ab\n\n")),
        ("data: a\ndata: b\n\n", (1, 1, "x"), Some("data: ax\ndata: b\n\n")),
        ("data: a\ndata: b\n\n", (2, 2, "x"), Some("data: a\ndata: xb\n\n")),
        ("data: a\n: c\ndata: b\n\n", (2, 3, "x"), Some("data: a\n: c\ndata: x\n\n")),
        ("data: a\n: c\ndata: b\n\n", (1, 2, ""), not_exact),
        ("data: a\nid: 7\ndata: b\n\n", (0, 3, "x"), not_exact),
        ("data: a\n\n", (0, 1, "x\r\ny"), not_exact),
        ("data:ab\n\n", (0, 1, " "), Some("data:  b\n\n")),
        ("data:a b\n\n", (0, 1, ""), Some("data:  b\n\n")),
        ("data:a b\n\n", (0, 1, "x"), Some("data:x b\n\n")),
        ("data:a\n\n", (0, 1, ""), Some("data:\n\n")),
        ("data\n\n", (0, 0, "x"), Some("data: x\n\n")),
        ("data\n\n", (0, 0, "\nx"), Some("data: \ndata: x\n\n")),
        ("data\ndata: x\n\n", (0, 1, ""), Some("data: x\n\n")),
        ("data\ndata: x\n\n", (0, 2, ""), Some("data\n\n")),
        ("data: abc\n\n", (0, 4, ""), not_exact),
    ] {
        let bump = Bump::new();
        let record = Layer::record(&bump, stream.as_bytes());
        let event = events(&bump, record).next().unwrap();
        let found = splice(record, &[edit(event.data, start, end, with)]);
        let found = found.map(|bytes| String::from_utf8(bytes).unwrap());
        assert_eq!(found.as_deref(), expected.ok_or(&NotExact), "{stream:?} {start}..{end} {with:?}");
    }
}

#[test]
fn several_edits_of_one_event() {
    let bump = Bump::new();
    let record = Layer::record(&bump, b": hi\ndata:abc\ndata: def\n\ndata: z\n\n");
    let found: Vec<_> = events(&bump, record).collect();
    let (first, second) = (found[0].data, found[1].data);
    let edits = [
        edit(second, 0, 1, "Z"),
        edit(first, 5, 6, "E"),
        edit(first, 0, 0, " "),
        edit(first, 0, 1, "A\n"),
        edit(first, 5, 5, "\n"),
    ];
    let out = splice(record, &edits).unwrap();
    let expected = ": hi\ndata:  A\ndata: bc\ndata: d\ndata: Ef\n\ndata: Z\n\n";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
    assert_eq!(map_range(first.span(), record), Some(10..23));
    assert_eq!(map_range(second.span(), record), Some(31..32));
}

/// The standard, read plainly: collect the lines, then the fields.
fn plainly(stream: &[u8]) -> Vec<(Option<Vec<u8>>, Vec<u8>)> {
    let stream = stream.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(stream);
    let text: Vec<u8> = stream.to_vec();
    let mut lines = vec![Vec::new()];
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b'\r' => {
                lines.push(Vec::new());
                at += usize::from(text.get(at + 1) == Some(&b'\n'));
            }
            b'\n' => lines.push(Vec::new()),
            byte => lines.last_mut().unwrap().push(byte),
        }
        at += 1;
    }
    lines.push(Vec::new());
    let (mut found, mut name, mut data) = (Vec::new(), Vec::new(), Vec::new());
    for line in lines {
        if line.is_empty() {
            let (name, data): (Vec<u8>, Vec<u8>) = (std::mem::take(&mut name), std::mem::take(&mut data));
            if let Some((_, data)) = data.split_last() {
                found.push((Some(name).filter(|name| !name.is_empty()), data.to_vec()));
            }
            continue;
        }
        let colon = line.iter().position(|&byte| byte == b':').unwrap_or(line.len());
        let value = line.get(colon + 1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match &line[..colon] {
            b"data" => {
                data.extend_from_slice(value);
                data.push(b'\n');
            }
            b"event" => name = value.to_vec(),
            _ => {}
        }
    }
    found
}

fn arb_stream() -> impl Strategy<Value = Vec<u8>> {
    let token = prop::sample::select(vec![
        "data", "data:", "data: ", "event", "event: ", ":", " ", "x", "\n", "\n", "\r", "\r\n", "\u{feff}", "é",
        "id: 1",
    ]);
    prop::collection::vec(token, 0..30).prop_map(|tokens| tokens.concat().into_bytes())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn framing_follows_the_standard(stream in arb_stream()) {
        prop_assert_eq!(read(&stream), plainly(&stream));
    }

    /// An exact edit changes the event's data as asked and no other event.
    #[test]
    fn edits_change_one_event(
        stream in arb_stream(),
        pick: prop::sample::Index,
        a: prop::sample::Index,
        b: prop::sample::Index,
        with in "[ a\n:é]{0,4}",
    ) {
        let mut expected = plainly(&stream);
        if expected.is_empty() {
            return Ok(());
        }
        let bump = Bump::new();
        let record = Layer::record(&bump, &stream);
        let pick = pick.index(expected.len());
        let data = events(&bump, record).nth(pick).unwrap().data;
        let (a, b) = (a.index(data.bytes.len() + 1), b.index(data.bytes.len() + 1));
        let (start, end) = (a.min(b), a.max(b));
        match splice(record, &[edit(data, start, end, &with)]) {
            Ok(out) => {
                expected[pick].1 = edited(data.bytes, &[(start, end, with.into_bytes())]);
                prop_assert_eq!(plainly(&out), expected);
            }
            // Only a removed line end with something between the data lines is refused.
            Err(NotExact) => prop_assert!(data.bytes[start..end].contains(&b'\n')),
        }
    }
}
