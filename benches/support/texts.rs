//! Texts as tools return them, drawn from small vocabularies by a fixed generator: source code, an API's JSON, logs
//! and prose. Words that detectors look closer at (`key`, `token`, `must`, addresses) stand in them about as often
//! as in the real thing.

pub const KINDS: [&str; 4] = ["code", "json", "logs", "prose"];

/// A text of at least that many bytes, cut behind a line; with `secret`, one of its lines holds a made-up password.
pub fn text(kind: &str, bytes: usize, secret: bool) -> String {
    let mut draw = Draw(0x5eed ^ bytes as u64);
    let mut out = String::with_capacity(bytes + 200);
    let (open, between, close) =
        if kind == "json" { ("{\"items\":[", ",", "],\"next_page_token\":null}") } else { ("", "", "") };
    out.push_str(open);
    let mut left = secret;
    while out.len() < bytes {
        let line = match kind {
            "code" => code(&mut draw),
            "json" => row(&mut draw),
            "logs" => log(&mut draw),
            _ => sentences(&mut draw),
        };
        out.push_str(&line);
        out.push_str(between);
        if left && out.len() > bytes / 2 {
            left = false;
            let value = "n0t-r3al-at-all-9";
            match kind {
                "json" => out.push_str(&format!("{{\"id\":7,\"db_password\":\"{value}\"}},")),
                _ => out.push_str(&format!("DB_PASSWORD={value}\n")),
            }
        }
    }
    if !between.is_empty() {
        out.truncate(out.len() - between.len());
    }
    out.push_str(close);
    out
}

/// A fixed sequence (a linear congruence; its upper bits).
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }

    fn one(&mut self, of: &[&'static str]) -> &'static str {
        of[self.below(of.len())]
    }
}

const NAMES: [&str; 24] = [
    "record",
    "value",
    "index",
    "key",
    "entry",
    "result",
    "request",
    "limit",
    "offset",
    "buffer",
    "token",
    "session",
    "client",
    "state",
    "name",
    "error",
    "config",
    "path",
    "length",
    "column",
    "row",
    "self.inner",
    "parser",
    "event",
];
const WORDS: [&str; 64] = [
    "the", "of", "a", "and", "to", "in", "it", "is", "that", "was", "for", "on", "with", "as", "by", "at", "from",
    "they", "which", "but", "not", "all", "one", "have", "this", "their", "could", "there", "when", "system", "before",
    "first", "number", "people", "water", "new", "time", "work", "small", "found", "between", "after", "answer",
    "river", "letters", "paper", "old", "house", "report", "table", "where", "would", "year", "city", "market",
    "measure", "note", "public", "ships", "village", "second", "winter", "light", "group",
];
/// What a detector may look closer at, in one sentence of a dozen.
const RARE: [&str; 8] =
    ["please", "you must", "the previous", "your message", "send it to", "instructions", "ignore", "password"];

fn code(draw: &mut Draw) -> String {
    let (a, b, c) = (draw.one(&NAMES), draw.one(&NAMES), draw.one(&NAMES));
    match draw.below(12) {
        0 => format!("/// Reads the {a} behind a {b}; `None` where no {c} stands.\n"),
        1 => format!(
            "pub fn {}_{}(&mut self, {}: &[u8], at: usize) -> Option<Range<usize>> {{\n",
            draw.one(&["read", "find", "take"]),
            "next",
            "input"
        ),
        2 => "    }\n\n".to_owned(),
        3 => format!("    let mut {} = {b}.get({}..).unwrap_or_default();\n", "rest", draw.below(64)),
        4 => format!("    if {a}.len() > {} && !{b}.is_empty() {{\n", draw.below(4096)),
        5 => format!("        return Err(Error::new(\"no {a} for this {b}\", &{c}));\n"),
        6 => format!("        {a}.push(({b}, {c} as u32 + {}));\n", draw.below(9)),
        7 => format!("    // The {a} comes first: a {b} without its {c} is never shown.\n"),
        8 => format!("    for ({}, {}) in {b}.iter().enumerate().skip({}) {{\n", "ix", "item", draw.below(5)),
        9 => format!(
            "        {a} => {b}.{}(|part| part * 2 < {} || part & 1 == 0),\n",
            draw.one(&["any", "all", "map"]),
            draw.below(99)
        ),
        10 => format!(
            "    assert_eq!({a}.{}(), \"{}-{}\");\n",
            draw.one(&["label", "text", "name"]),
            draw.one(&WORDS),
            draw.below(1000)
        ),
        _ => format!(
            "use crate::{}::{{{}, {}}};\n",
            draw.one(&["engine", "state", "wire"]),
            draw.one(&["Key", "Token", "Limits"]),
            draw.one(&["Span", "Event"])
        ),
    }
}

fn row(draw: &mut Draw) -> String {
    let (id, n) = (draw.below(900_000) + 100_000, draw.below(10_000));
    format!(
        "{{\"id\":{id},\"key\":\"ORD-{n}\",\"status\":\"{}\",\"title\":\"{} {} {} {}\",\"url\":\"https://api.example.com/v1/orders/{id}?expand=lines\",\"owner\":{{\"name\":\"{}\",\"active\":true}},\"amount\":{}.{:02},\"created_at\":\"2026-0{}-1{}T08:{:02}:00Z\",\"tags\":[\"{}\",\"{}\"],\"note\":\"{}\\n\"}}",
        draw.one(&["open", "paid", "shipped", "closed"]),
        draw.one(&WORDS),
        draw.one(&WORDS),
        draw.one(&WORDS),
        draw.one(&WORDS),
        draw.one(&["Ada", "Grace", "José", "Wei", "Zoë"]),
        draw.below(500),
        draw.below(100),
        draw.below(9) + 1,
        draw.below(9),
        draw.below(60),
        draw.one(&WORDS),
        draw.one(&WORDS),
        sentence(draw),
    )
}

fn log(draw: &mut Draw) -> String {
    let at = format!(
        "2026-01-{:02}T{:02}:{:02}:{:02}.{:03}Z",
        draw.below(28) + 1,
        draw.below(24),
        draw.below(60),
        draw.below(60),
        draw.below(1000)
    );
    let (level, part) =
        (draw.one(&["INFO ", "INFO ", "DEBUG", "WARN "]), draw.one(&["http", "db.pool", "scheduler", "auth"]));
    let said = match draw.below(6) {
        0 => format!(
            "GET /v1/orders/{} 200 in {} ms user_agent=\"Mozilla/5.0 (X11; Linux x86_64)\"",
            draw.below(99_999),
            draw.below(900)
        ),
        1 => format!("connection {} returned to pool size={} idle={}", draw.below(64), draw.below(20), draw.below(20)),
        2 => format!(
            "job {} finished status=ok rows={} trace_id={:016x}{:016x}",
            draw.one(&NAMES),
            draw.below(9999),
            draw.below(1 << 30),
            draw.below(1 << 30)
        ),
        3 => format!("token refreshed for session {:08x} expires_in=3600", draw.below(1 << 30)),
        4 => format!(
            "slow query ({} ms): select {}, {} from orders where id = $1",
            draw.below(4000),
            draw.one(&NAMES),
            draw.one(&NAMES)
        ),
        _ => format!("retry {} of 5 at https://api.example.com/{}: timeout", draw.below(5), draw.one(&NAMES)),
    };
    format!("{at} {level} [{part}] {said}\n")
}

fn sentence(draw: &mut Draw) -> String {
    let mut words: Vec<&str> = (0..draw.below(14) + 6).map(|_| draw.one(&WORDS)).collect();
    words.insert(0, draw.one(&["In", "They", "When", "The", "After"]));
    if draw.below(12) == 0 {
        words.push(draw.one(&RARE));
    }
    words.join(" ") + draw.one(&[".", ".", ".", ", it was said.", "?"])
}

fn sentences(draw: &mut Draw) -> String {
    let mut out: Vec<String> = (0..draw.below(4) + 2).map(|_| sentence(draw)).collect();
    match draw.below(8) {
        0 => out.push(format!(
            "See [the {}](https://www.example.org/{}.html) — it’s “good”.",
            draw.one(&WORDS),
            draw.one(&WORDS)
        )),
        1 => out.insert(0, format!("## {}\n\n", draw.one(&WORDS))),
        _ => {}
    }
    out.join(" ") + "\n\n"
}
