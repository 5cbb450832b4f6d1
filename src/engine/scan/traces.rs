//! Stack traces and what else an engine prints when it fails: Python, Java and Kotlin, JavaScript, Go, Rust, C#,
//! Ruby, PHP, Dart, C and C++ (sanitizers, gdb), SQL engines.
//!
//! A trace is told by its frames, whose spelling no prose has; a message that only speaks of an error is none. What
//! a reader needs of it is its head, the type and the first line: the last line of a Python trace, the line before
//! the frames elsewhere.
//!
//! Invariants: one walk over the lines, each looked at a bounded number of times; traces are in order and apart, a
//! head lies within its trace, and there is something in it beside the head.
//!
//! Left out: frames of one line (`a.py:1 > b.py:2`), traces of languages that are not named above.

mod frames;

use aho_corasick::AhoCorasick;
use memchr::{memchr, memmem};
use std::sync::LazyLock;

use frames::{Hash, at_frame, hash_frame, is_numbered, is_ruby_frame, is_web_frame};

/// Whose trace it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Language {
    Python,
    Java,
    JavaScript,
    Go,
    Rust,
    CSharp,
    Ruby,
    Php,
    Dart,
    C,
    Sql,
}

impl Language {
    /// The label in evidence.
    pub fn name(self) -> &'static str {
        match self {
            Language::Python => "python",
            Language::Java => "java",
            Language::JavaScript => "javascript",
            Language::Go => "go",
            Language::Rust => "rust",
            Language::CSharp => "csharp",
            Language::Ruby => "ruby",
            Language::Php => "php",
            Language::Dart => "dart",
            Language::C => "c",
            Language::Sql => "sql",
        }
    }
}

/// One trace. Offsets are bytes of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trace {
    pub language: Language,
    pub start: usize,
    pub end: usize,
    /// Type and first line; empty where nothing of the kind stands by it.
    pub head: (usize, usize),
}

/// The traces of a text, in order.
pub fn find(text: &[u8]) -> Vec<Trace> {
    if ANY.as_ref().is_some_and(|any| !any.is_match(text)) {
        return Vec::new();
    }
    let mut walk = Walk { text, before: None, panic: None, last: 0 };
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(line) = line_at(text, at) {
        match walk.trace(line) {
            Some((trace, next)) => {
                found.push(trace);
                walk.last = trace.end;
                (walk.before, walk.panic) = (None, None);
                at = next.max(line.next);
            }
            None => {
                walk.pass(line);
                at = line.next;
            }
        }
    }
    found
}

/// A line: its text without the end, and where the next one begins.
#[derive(Debug, Clone, Copy)]
struct Line<'t> {
    text: &'t [u8],
    start: usize,
    next: usize,
}

impl<'t> Line<'t> {
    fn end(&self) -> usize {
        self.start + self.text.len()
    }
    fn indent(&self) -> usize {
        self.text.iter().take_while(|b| matches!(b, b' ' | b'\t')).count()
    }
    fn trimmed(&self) -> &'t [u8] {
        self.text.trim_ascii()
    }
    fn is_blank(&self) -> bool {
        self.trimmed().is_empty()
    }
    /// Without white space around it.
    fn inner(&self) -> (usize, usize) {
        let start = self.start + self.indent();
        (start, (self.start + self.text.trim_ascii_end().len()).max(start))
    }
}

fn line_at(text: &[u8], at: usize) -> Option<Line<'_>> {
    let rest = text.get(at..).filter(|rest| !rest.is_empty())?;
    let length = memchr(b'\n', rest).unwrap_or(rest.len());
    let line = rest.get(..length)?;
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    Some(Line { text: line, start: at, next: (at + length + 1).min(text.len()).max(at + 1) })
}

fn contains(text: &[u8], what: &[u8]) -> bool {
    position(text, what).is_some()
}

fn position(text: &[u8], what: &[u8]) -> Option<usize> {
    memmem::find(text, what)
}

/// What every trace holds one of. Most texts hold none, and are looked at once.
const SIGNS: [&[u8]; 16] = [
    b"Traceback (most",
    b"  at ",
    b"\tat ",
    b"goroutine ",
    b"tack backtrace:",
    b"Stack trace:",
    b"#0 ",
    b"LINE ",
    b"[SQL: ",
    b" panicked at ",
    b":in `",
    b":in '",
    b"@http",
    b"your SQL syntax",
    b"SQLSTATE[",
    b"ORA-06512:",
];

/// `None` only if the table above could not be compiled: then every text is looked at.
static ANY: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| AhoCorasick::new(SIGNS).ok());

/// What was passed and may be a head.
struct Walk<'t> {
    text: &'t [u8],
    /// The line right before, if it is not blank.
    before: Option<Line<'t>>,
    /// A line that announces frames which need not follow at once, and how many lines were passed since.
    panic: Option<(Line<'t>, u32)>,
    /// The end of the latest trace.
    last: usize,
}

/// Lines that may stand between an announcement and its frames.
const BETWEEN: u32 = 6;
/// Lines that are read ahead for what makes a trace of those before.
const AHEAD: usize = 64;

impl<'t> Walk<'t> {
    fn pass(&mut self, line: Line<'t>) {
        self.before = (!line.is_blank()).then_some(line);
        let trimmed = line.trimmed();
        let announces = trimmed.starts_with(b"panic:")
            || trimmed.starts_with(b"fatal error:")
            || contains(line.text, b"panic serving")
            || contains(line.text, b"Sanitizer:")
            || contains(line.text, b": runtime error:");
        self.panic = match (announces, self.panic) {
            (true, _) => Some((line, 0)),
            (false, Some((line, passed))) if passed < BETWEEN => Some((line, passed + 1)),
            _ => None,
        };
    }

    /// The trace that begins at this line or has its head before it, and where the text goes on.
    fn trace(&self, line: Line<'t>) -> Option<(Trace, usize)> {
        let trimmed = line.trimmed();
        match trimmed.first()? {
            b'a' if trimmed.starts_with(b"at ") => self.at_frames(line),
            b'g' if trimmed.starts_with(b"goroutine ") => self.go(line),
            b's' | b'S' if trimmed.eq_ignore_ascii_case(b"stack backtrace:") => self.numbered(line),
            b'S' if trimmed == b"Stack trace:" => self.php(line),
            b'#' => self.hash_frames(line),
            b'L' if trimmed.starts_with(b"LINE ") => self.postgres(line),
            b'[' if trimmed.starts_with(b"[SQL: ") => self.sqlalchemy(line),
            _ => None,
        }
        .or_else(|| self.python(line))
        .or_else(|| rust(self.text, line))
        .or_else(|| self.ruby(line))
        .or_else(|| self.web(line))
        .or_else(|| self.sql(line))
    }

    /// A trace with the line before it as its head.
    fn headed(&self, language: Language, line: Line<'t>, end: usize) -> Trace {
        let (start, head) = match self.before {
            Some(before) => (before.inner().0, before.inner()),
            None => (line.start, (line.start, line.start)),
        };
        Trace { language, start: start.max(self.last), end, head }
    }

    fn python(&self, line: Line<'t>) -> Option<(Trace, usize)> {
        const BEGINS: &[u8] = b"Traceback (most recent call last):";
        if !line.text.trim_ascii_end().ends_with(BEGINS) {
            return None;
        }
        let indent = line.indent();
        let start = line.start + position(line.text, BEGINS)?;
        let mut trace =
            Trace { language: Language::Python, start, end: line.end(), head: (start, start + BEGINS.len()) };
        let mut at = line.next;
        let mut frames = false;
        while let Some(next) = line_at(self.text, at).filter(|next| !next.is_blank()) {
            (trace.end, at) = (next.end(), next.next);
            if next.indent() <= indent && !next.trimmed().starts_with(b"File \"") {
                trace.head = next.inner();
                break;
            }
            frames = true;
        }
        frames.then_some((trace, at))
    }

    fn at_frames(&self, line: Line<'t>) -> Option<(Trace, usize)> {
        let first = at_frame(line.trimmed()).filter(|_| line.indent() > 1 || line.text.starts_with(b"\t"))?;
        let announced = self.before.is_some_and(|before| {
            let text = before.text;
            contains(text, b"rror") || contains(text, b"xception") || contains(text, b"Throwable")
        });
        let mut language = first.language;
        let (mut end, mut at, mut count) = (line.end(), line.next, 1);
        while let Some(next) = line_at(self.text, at) {
            let text = next.trimmed();
            let more = [&b"Caused by:"[..], b"Suppressed:", b"--- End of", b"[CIRCULAR"];
            let left =
                text.starts_with(b"... ") && text.ends_with(b" more") || text.ends_with(b" common frames omitted");
            if let Some(frame) = at_frame(text) {
                count += 1;
                language = if frame.sure { frame.language } else { language };
            } else if !left && !more.iter().any(|more| text.starts_with(more)) {
                break;
            }
            (end, at) = (next.end(), next.next);
        }
        let sure = first.sure || count > 1 || (announced && first.likely);
        sure.then(|| (self.headed(language, line, end), at))
    }

    fn go(&self, line: Line<'t>) -> Option<(Trace, usize)> {
        let is_begin = |text: &[u8]| text.starts_with(b"goroutine ") && text.ends_with(b"]:");
        if !is_begin(line.trimmed()) {
            return None;
        }
        let (mut end, mut at) = (line.end(), line.next);
        let mut frames = false;
        let mut passed = 0;
        while let Some(next) = line_at(self.text, at).filter(|_| frames || passed < AHEAD) {
            passed += 1;
            let text = next.trimmed();
            let indented = next.text.first().is_some_and(|b| matches!(b, b'\t' | b' '));
            let place = indented && contains(text, b".go:");
            let called = text.ends_with(b")") || text.starts_with(b"created by ");
            let behind = line_at(self.text, next.next);
            let function = called && behind.is_some_and(|line| contains(line.text, b".go:"));
            if !(text.is_empty() || is_begin(text) || place || function || text.starts_with(b"exit status ")) {
                break;
            }
            frames |= place;
            at = next.next;
            end = if text.is_empty() { end } else { next.end() };
        }
        let head = self.panic.map_or(line.inner(), |(panic, _)| panic.inner());
        let trace = Trace { language: Language::Go, start: head.0.max(self.last), end, head };
        frames.then_some((trace, at))
    }

    /// `stack backtrace:` and its numbered frames, as Rust prints them below whatever it says.
    fn numbered(&self, line: Line<'t>) -> Option<(Trace, usize)> {
        let (end, at) = numbered_frames(self.text, line);
        (end > line.end()).then(|| (self.headed(Language::Rust, line, end), at))
    }

    fn php(&self, line: Line<'t>) -> Option<(Trace, usize)> {
        let first = line_at(self.text, line.next)?;
        let frame = hash_frame(first.trimmed())?;
        (frame == Hash::Php).then(|| {
            let (end, at) = hashes(self.text, first, frame);
            (self.headed(Language::Php, line, end), at)
        })
    }

    fn hash_frames(&self, line: Line<'t>) -> Option<(Trace, usize)> {
        let frame = hash_frame(line.trimmed()).filter(|_| line.trimmed().starts_with(b"#0"))?;
        let (end, at) = hashes(self.text, line, frame);
        let language = match frame {
            Hash::Php => Language::Php,
            Hash::Dart => Language::Dart,
            Hash::C => Language::C,
        };
        let mut trace = self.headed(language, line, end);
        if let (Hash::C, Some((panic, _))) = (frame, self.panic) {
            (trace.start, trace.head) = (panic.inner().0.max(self.last), panic.inner());
        }
        Some((trace, at))
    }

    fn ruby(&self, line: Line<'t>) -> Option<(Trace, usize)> {
        if !is_ruby_frame(line.text) {
            return None;
        }
        let (mut end, mut at, mut count) = (line.end(), line.next, 1);
        while let Some(next) = line_at(self.text, at).filter(|next| is_ruby_frame(next.text)) {
            (end, at) = (next.end(), next.next);
            count += 1;
        }
        let said = position(line.text, b"': ").map(|at| (line.start + at + 3, line.inner().1));
        let trace = match said.filter(|(start, end)| start < end) {
            Some(head) => Trace { language: Language::Ruby, start: line.inner().0, end, head },
            None => self.headed(Language::Ruby, line, end),
        };
        (count > 1).then_some((trace, at))
    }

    /// Frames as Firefox and Safari print them.
    fn web(&self, line: Line<'t>) -> Option<(Trace, usize)> {
        if !is_web_frame(line.trimmed()) {
            return None;
        }
        let (mut end, mut at, mut count) = (line.end(), line.next, 1);
        while let Some(next) = line_at(self.text, at).filter(|next| is_web_frame(next.trimmed())) {
            (end, at) = (next.end(), next.next);
            count += 1;
        }
        (count > 1).then(|| (self.headed(Language::JavaScript, line, end), at))
    }

    fn postgres(&self, line: Line<'t>) -> Option<(Trace, usize)> {
        let quotes = |text: &[u8]| {
            let number = text.strip_prefix(b"LINE ").unwrap_or_default();
            let digits = number.iter().take_while(|b| b.is_ascii_digit()).count();
            digits > 0 && number.get(digits) == Some(&b':')
        };
        self.before?;
        if !quotes(line.trimmed()) {
            return None;
        }
        let (mut end, mut at) = (line.end(), line.next);
        let said = [&b"DETAIL:"[..], b"HINT:", b"CONTEXT:", b"QUERY:", b"STATEMENT:"];
        while let Some(next) = line_at(self.text, at) {
            let text = next.trimmed();
            if text != b"^" && !quotes(text) && !said.iter().any(|said| text.starts_with(said)) {
                break;
            }
            (end, at) = (next.end(), next.next);
        }
        Some((self.headed(Language::Sql, line, end), at))
    }

    fn sqlalchemy(&self, line: Line<'t>) -> Option<(Trace, usize)> {
        self.before?;
        let (mut end, mut at) = (line.end(), line.next);
        // The statement may be long; a bracket at the end of a line ends it.
        let mut open = !line.trimmed().ends_with(b"]");
        let mut ahead = at;
        for _ in 0..AHEAD {
            let Some(next) = line_at(self.text, ahead).filter(|next| open && !next.is_blank()) else { break };
            ahead = next.next;
            if next.trimmed().ends_with(b"]") {
                (open, end, at) = (false, next.end(), next.next);
            }
        }
        while let Some(next) = line_at(self.text, at) {
            let text = next.trimmed();
            if !text.starts_with(b"[parameters: ") && !text.starts_with(b"(Background on this error at: ") {
                break;
            }
            (end, at) = (next.end(), next.next);
        }
        Some((self.headed(Language::Sql, line, end), at))
    }

    /// Errors that quote a statement in their own line, and Oracle's places.
    fn sql(&self, line: Line<'t>) -> Option<(Trace, usize)> {
        let (start, end) = line.inner();
        let quoted = match () {
            () if contains(line.text, b"error in your SQL syntax") => position(line.text, b" near '"),
            () if contains(line.text, b"SQLSTATE[") => position(line.text, b" (SQL: "),
            () => None,
        };
        if let Some(at) = quoted {
            let trace = Trace { language: Language::Sql, start, end, head: (start, line.start + at) };
            return (trace.head.1 > start).then_some((trace, line.next));
        }
        if !line.trimmed().starts_with(b"ORA-06512:") {
            return None;
        }
        let (mut end, mut at) = (line.end(), line.next);
        while let Some(next) = line_at(self.text, at).filter(|next| next.trimmed().starts_with(b"ORA-06512:")) {
            (end, at) = (next.end(), next.next);
        }
        Some((self.headed(Language::Sql, line, end), at))
    }
}

/// `thread 'main' panicked at src/main.rs:2:5:`, the message, and what a backtrace adds.
fn rust<'t>(text: &'t [u8], line: Line<'t>) -> Option<(Trace, usize)> {
    let begin = position(line.text, b"thread '")?;
    contains(line.text, b" panicked at ").then_some(())?;
    let start = line.start + begin;
    let (mut head, mut end, mut at) = ((start, line.inner().1), line.end(), line.next);
    if line.text.trim_ascii_end().ends_with(b":")
        && let Some(said) = line_at(text, at).filter(|said| !said.is_blank())
    {
        (head.1, end, at) = (said.inner().1, said.end(), said.next);
    }
    let before = end;
    while let Some(next) = line_at(text, at) {
        let said = next.trimmed();
        if said.eq_ignore_ascii_case(b"stack backtrace:") {
            (end, at) = numbered_frames(text, next);
        } else if said.starts_with(b"note: run with `RUST_BACKTRACE") || said.starts_with(b"note: Some details are") {
            (end, at) = (next.end(), next.next);
        } else {
            break;
        }
    }
    (end > before).then_some((Trace { language: Language::Rust, start, end, head }, at))
}

/// The end of numbered frames below this line, and where the text goes on.
fn numbered_frames(text: &[u8], line: Line<'_>) -> (usize, usize) {
    let (mut end, mut at) = (line.end(), line.next);
    while let Some(next) = line_at(text, at) {
        let frame = next.trimmed();
        let place = frame.starts_with(b"at ") && next.indent() > 0 && end > line.end();
        if !is_numbered(frame) && !place {
            break;
        }
        (end, at) = (next.end(), next.next);
    }
    (end, at)
}

/// The end of frames that begin with `#`, of one kind.
fn hashes(text: &[u8], first: Line<'_>, kind: Hash) -> (usize, usize) {
    let (mut end, mut at) = (first.end(), first.next);
    while let Some(next) = line_at(text, at) {
        let frame = next.trimmed();
        let between = match kind {
            Hash::Php => frame == b"{main}" || frame.starts_with(b"thrown in "),
            Hash::Dart => frame == b"<asynchronous suspension>",
            Hash::C => {
                let said = [&b"0x"[..], b"freed by ", b"previously allocated by ", b"SUMMARY: ", b"=="];
                said.iter().any(|said| frame.starts_with(said)) || contains(frame, b"thread T")
            }
        };
        let is_frame = frame.starts_with(b"#") && frame.get(1).is_some_and(u8::is_ascii_digit);
        let blank = frame.is_empty() && kind == Hash::C;
        if !(between || is_frame || blank) {
            break;
        }
        at = next.next;
        end = if blank { end } else { next.end() };
    }
    (end, at)
}

#[cfg(test)]
mod tests;
