//! A text as a reader or a model takes it, with the way back to its bytes.
//!
//! Who writes for a model and against a filter spells words so that only the model reads them: full-width or
//! mathematical letters, Cyrillic ones that look Latin, letters that are spaced out or parted by what is not shown
//! (inline markup, colours of a terminal, the end of a line behind a hyphen), characters spelled as HTML entities,
//! percent signs or `\u` escapes, Latin text in tag characters. A [`View`] undoes all of that at once, in lower case
//! and without accents, so that a detector's phrases are written one way. Phrases go through [`fold`] themselves, so
//! that both sides always agree.
//!
//! Invariants: time and memory are linear in the bytes; [`View::source_range`] gives ranges of the text's bytes
//! that lie on character boundaries and hold all of what a range of the view was made of; the view of lower-case
//! ASCII words with one space between them is that text.
//!
//! Left out: leetspeak, ciphers, reversed text, and escapes inside escapes (a reader undoes one level too). White
//! space is one space in the view; where lines began is kept beside it.

mod joints;

use std::ops::Range;
use unicode_normalization::char::{decompose_compatible, is_combining_mark};

/// What the view was made of.
#[derive(Debug, Clone, Copy)]
struct Segment {
    view: u32,
    source: u32,
    /// Bytes of the source that all of the segment stands for; 0: it stands for itself, byte by byte.
    whole: u32,
}

/// Why characters are not seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unseen {
    /// Latin text in tag characters.
    Tags,
    /// Bytes in a run of variation selectors.
    Selectors,
    /// Bits in a run of characters without width.
    ZeroWidth,
    /// An override of the writing direction: what is shown is not what stands there.
    Override,
}

/// A run of characters that no reader sees, in bytes of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hidden {
    pub kind: Unseen,
    pub range: Range<usize>,
}

/// A text as it is read.
#[derive(Debug, Default)]
pub struct View {
    pub text: String,
    /// Where lines begin in `text`, in order, and whether an empty line stands before.
    pub lines: Vec<(u32, bool)>,
    pub hidden: Vec<Hidden>,
    segments: Vec<Segment>,
    source_len: usize,
}

/// Tag characters in a run that may be a flag.
const FLAG: usize = 7;
/// Variation selectors that follow one another where text needs one.
const SELECTORS: usize = 3;
/// Characters without width that follow one another where text needs two.
const ZERO_WIDTHS: usize = 8;
/// References inside one another that are undone.
const MOST_ENTITIES: usize = 3;
/// Letters that stand alone one after the other before they are taken for a word.
const SPACED: usize = 5;

/// The view of a text. Bytes that are not UTF-8 are read as replacement characters.
pub fn view(text: &[u8]) -> View {
    let mut builder = Builder { view: View { source_len: text.len(), ..View::default() }, ..Builder::default() };
    builder.view.text.reserve(text.len());
    builder.view.lines.push((0, true));
    match std::str::from_utf8(text) {
        Ok(text) => builder.read(text, 0),
        Err(_) => builder.chunks(text),
    }
    builder.end_run(text.len());
    let mut view = builder.view;
    let spaces = spaced_out(&view.text, &view.seams(), &view.lines);
    if !spaces.is_empty() {
        view = view.without(&spaces);
    }
    view
}

/// The view of a text is the text in lower case: ASCII without marks that mean something, in one line.
pub fn is_read_as_it_stands(text: &[u8]) -> bool {
    plain(text) == text.len() && !may_be_spaced_out(text)
}

/// A phrase as it would stand in a view.
pub fn fold(phrase: &str) -> String {
    view(phrase.as_bytes()).text
}

impl View {
    /// The bytes of the text that a range of the view was made of.
    pub fn source_range(&self, start: usize, end: usize) -> Range<usize> {
        let first = self.segment(start);
        let from = match first {
            Some(s) if s.whole == 0 => s.source as usize + (start - s.view as usize),
            Some(s) => s.source as usize,
            None => self.source_len,
        };
        if end <= start {
            return from..from;
        }
        let to = match self.segment(end - 1) {
            Some(s) if s.whole == 0 => s.source as usize + (end - s.view as usize),
            Some(s) => (s.source + s.whole) as usize,
            None => self.source_len,
        };
        from..to.max(from)
    }

    /// Where in the view unseen characters begin and end, in order. Words may end there, to whoever takes them out.
    pub fn seams(&self) -> Vec<usize> {
        self.hidden.iter().flat_map(|run| [self.position(run.range.start), self.position(run.range.end)]).collect()
    }

    /// Where in the view stands what was made of the text from this byte on.
    pub fn position(&self, source: usize) -> usize {
        let behind = self.segments.partition_point(|segment| segment.source as usize <= source);
        let end = self.segments.get(behind).map_or(self.text.len(), |next| next.view as usize);
        match behind.checked_sub(1).and_then(|ix| self.segments.get(ix)) {
            Some(s) if s.whole == 0 => end.min(s.view as usize + (source - s.source as usize)),
            Some(s) if s.source as usize == source => s.view as usize,
            Some(_) => end,
            None => 0,
        }
    }

    fn segment(&self, at: usize) -> Option<&Segment> {
        let behind = self.segments.partition_point(|segment| segment.view as usize <= at);
        self.segments.get(behind.checked_sub(1)?).filter(|_| at < self.text.len())
    }

    /// The view without these parts of it, which are in order.
    fn without(self, parts: &[Range<usize>]) -> View {
        let len = self.text.len();
        let mut new = View {
            text: String::with_capacity(len),
            hidden: self.hidden,
            source_len: self.source_len,
            ..View::default()
        };
        let mut lines = self.lines.iter().peekable();
        let (mut ix, mut at) = (0, 0);
        for part in parts.iter().cloned().chain(std::iter::once(len..len)) {
            while let Some(segment) = self.segments.get(ix) {
                let end = self.segments.get(ix + 1).map_or(len, |next| next.view as usize);
                let (from, upto) = (at.max(segment.view as usize), end.min(part.start));
                if from < upto {
                    let skipped = if segment.whole == 0 { from as u32 - segment.view } else { 0 };
                    let view = new.text.len();
                    new.segments.push(Segment { view: view as u32, source: segment.source + skipped, ..*segment });
                    while let Some((line, apart)) = lines.next_if(|(line, _)| (*line as usize) < upto) {
                        new.lines.push(((view + (*line as usize).saturating_sub(from)) as u32, *apart));
                    }
                    new.text.push_str(self.text.get(from..upto).unwrap_or_default());
                }
                if end > part.start {
                    break;
                }
                ix += 1;
            }
            at = part.end;
        }
        new
    }
}

#[derive(Default)]
struct Builder {
    view: View,
    /// Line ends since the last character that is seen.
    breaks: u32,
    /// Where the present run of unseen characters began, of what kind it is, and how many they are.
    run: Option<(usize, Unseen, usize)>,
    /// The character before the run is a black flag.
    flagged: bool,
}

impl Builder {
    fn chunks(&mut self, text: &[u8]) {
        let mut at = 0;
        for chunk in text.utf8_chunks() {
            self.read(chunk.valid(), at);
            at += chunk.valid().len();
            if !chunk.invalid().is_empty() {
                self.push('\u{fffd}', at, chunk.invalid().len());
                at += chunk.invalid().len();
            }
        }
    }

    fn read(&mut self, text: &str, base: usize) {
        let bytes = text.as_bytes();
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            let plain = plain(bytes.get(at..).unwrap_or_default());
            if plain > 0 {
                self.plain(text.get(at..at + plain).unwrap_or_default(), base + at);
                at += plain;
                continue;
            }
            let rest = text.get(at..).unwrap_or_default();
            let joined = match byte {
                b'<' | b'\x1b' => joints::within(&self.view.text, rest),
                b'\n' | b'\r' if self.run.is_none() => self.hyphen(rest),
                _ => 0,
            };
            if joined > 0 {
                self.end_run(base + at);
                at += joined;
                continue;
            }
            let (c, len) = match byte {
                b'&' => entity(rest),
                b'%' => percent(bytes.get(at..).unwrap_or_default()),
                // One character, so that a sentence that begins with a colour holds all of it.
                b'\x1b' => Some(('\u{1b}', joints::colour(rest).max(1))),
                b'\\' => escape(bytes.get(at..).unwrap_or_default()),
                b'*' | b'`' => {
                    // Emphasis inside a word is not seen.
                    let marks = bytes.iter().skip(at).take_while(|b| matches!(b, b'*' | b'`')).count();
                    let inside = self.view.text.ends_with(char::is_alphanumeric)
                        && text.get(at + marks..).is_some_and(|rest| rest.starts_with(char::is_alphanumeric));
                    if !inside {
                        for mark in 0..marks {
                            self.push(char::from(bytes[at + mark]), base + at + mark, 1);
                        }
                    }
                    at += marks;
                    continue;
                }
                _ => None,
            }
            .unwrap_or_else(|| {
                let c = rest.chars().next().unwrap_or('\u{fffd}');
                (c, c.len_utf8())
            });
            self.push(c, base + at, len);
            at += len.max(1);
        }
    }

    /// Bytes of the end of a line behind a word that is parted there; its hyphen is taken back.
    fn hyphen(&mut self, rest: &str) -> usize {
        let spaces = joints::parted(&self.view.text, rest);
        if spaces > 0 {
            self.view.text.pop();
            let is_empty = |s: &Segment| s.view as usize >= self.view.text.len();
            if self.view.segments.last().is_some_and(is_empty) {
                self.view.segments.pop();
            }
        }
        spaces
    }

    /// ASCII letters, digits and marks that mean nothing here, as they stand.
    fn plain(&mut self, text: &str, source: usize) {
        self.end_run(source);
        self.begin_line();
        self.flagged = false;
        self.stands(source);
        let start = self.view.text.len();
        self.view.text.push_str(text);
        if let Some(new) = self.view.text.get_mut(start..) {
            new.make_ascii_lowercase();
        }
    }

    /// What follows in the view stands in the source as it is, from here.
    fn stands(&mut self, source: usize) {
        let view = self.view.text.len();
        let joins = |s: &Segment| s.whole == 0 && s.source as usize + (view - s.view as usize) == source;
        if !self.view.segments.last().is_some_and(joins) {
            self.view.segments.push(Segment { view: view as u32, source: source as u32, whole: 0 });
        }
    }

    fn begin_line(&mut self) {
        if self.breaks > 0 {
            self.view.lines.push((self.view.text.len() as u32, self.breaks > 1));
            self.breaks = 0;
        }
    }

    fn push(&mut self, c: char, source: usize, len: usize) {
        if c.is_ascii_graphic() && len == 1 {
            return self.plain(c.encode_utf8(&mut [0; 1]), source);
        }
        if !c.is_ascii()
            && let Some(kind) = unseen(c)
        {
            return self.hide(c, kind, source, len);
        }
        if c.is_whitespace() {
            self.end_run(source);
            self.breaks += u32::from(matches!(c, '\n' | '\u{b}' | '\u{c}' | '\u{2028}'));
            self.breaks += 2 * u32::from(c == '\u{2029}');
            if self.view.text.is_empty() || self.view.text.ends_with(' ') {
                return;
            }
            if len == 1 {
                self.stands(source);
                return self.view.text.push(' ');
            }
            return self.becomes(' ', source, len);
        }
        if c.is_control() && c != '\u{1b}' || is_combining_mark(c) {
            return;
        }
        self.end_run(source);
        self.begin_line();
        self.flagged = c == '\u{1f3f4}';
        self.becomes(c, source, len);
    }

    /// A character of the source as its folded form.
    fn becomes(&mut self, c: char, source: usize, len: usize) {
        let before = self.view.text.len();
        let text = &mut self.view.text;
        decompose_compatible(c, |part| {
            if !is_combining_mark(part) && unseen(part).is_none() {
                part.to_lowercase().filter(|c| !is_combining_mark(*c)).for_each(|c| text.push(latin(c)));
            }
        });
        if self.view.text.len() > before {
            let segment = Segment { view: before as u32, source: source as u32, whole: len as u32 };
            self.view.segments.push(segment);
        }
    }

    fn hide(&mut self, c: char, kind: Option<Unseen>, source: usize, len: usize) {
        if self.run.is_some_and(|(_, known, _)| Some(known) != kind) {
            self.end_run(source);
        }
        if let Some(kind) = kind {
            let (_, _, count) = self.run.get_or_insert((source, kind, 0));
            *count += 1;
        }
        if let Some(tag) = tag(c) {
            self.begin_line();
            self.becomes(tag, source, len);
        }
    }

    /// A run of unseen characters is over: it is said if it is longer than text needs.
    fn end_run(&mut self, source: usize) {
        let Some((start, kind, count)) = self.run.take() else { return };
        let hidden = match kind {
            Unseen::Tags => count > FLAG || !self.flagged,
            Unseen::Selectors => count >= SELECTORS,
            Unseen::ZeroWidth => count >= ZERO_WIDTHS,
            Unseen::Override => true,
        };
        if hidden {
            self.view.hidden.push(Hidden { kind, range: start..source });
        }
    }
}

/// ASCII that stands for itself in the view: letters in lower case, a space where none stands before.
fn is_plain(byte: u8) -> bool {
    let is_mark = (byte == b'&') | (byte == b'%') | (byte == b'\\') | (byte == b'*') | (byte == b'`') | (byte == b'<');
    matches!(byte, b' '..=b'~') & !is_mark
}

/// Bytes at the start that stand for themselves, beginning with no space. Blocks are looked at without a branch, as
/// the compiler can do at once.
fn plain(bytes: &[u8]) -> usize {
    const BLOCK: usize = 32;
    let stops = |before: u8, byte: u8| !is_plain(byte) | ((before == b' ') & (byte == b' '));
    if bytes.first().is_none_or(|first| stops(b' ', *first)) {
        return 0;
    }
    let mut at = 1;
    while let Some(block) = bytes.get(at - 1..).and_then(|rest| rest.first_chunk::<{ BLOCK + 1 }>())
        && !block.iter().zip(&block[1..]).fold(false, |any, (before, byte)| any | stops(*before, *byte))
    {
        at += BLOCK;
    }
    let rest = bytes.get(at - 1..).unwrap_or_default();
    at + rest.windows(2).position(|two| stops(two[0], two[1])).unwrap_or(rest.len() - 1)
}

/// Characters that are not shown; `None` inside for those that text needs now and then.
fn unseen(c: char) -> Option<Option<Unseen>> {
    let kind = match c {
        '\u{e0000}'..='\u{e007f}' => Some(Unseen::Tags),
        '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}' => Some(Unseen::Selectors),
        '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2064}' | '\u{feff}' => Some(Unseen::ZeroWidth),
        '\u{202d}' | '\u{202e}' => Some(Unseen::Override),
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' => None,
        '\u{180b}'..='\u{180f}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202c}' => None,
        '\u{2065}'..='\u{206f}' | '\u{3164}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' => None,
        _ => return None,
    };
    Some(kind)
}

/// The ASCII character that a tag character stands for.
fn tag(c: char) -> Option<char> {
    let code = u32::from(c).checked_sub(0xe_0000)?;
    char::from_u32(code).filter(|c| matches!(c, ' '..='~'))
}

/// A letter that looks like a Latin one, as that. Full-width and mathematical letters are none: they decompose.
fn latin(c: char) -> char {
    match c {
        'а' | 'α' | 'ɑ' | 'ᴀ' => 'a',
        'β' | 'в' | 'ʙ' => 'b',
        'с' | 'ϲ' | 'ᴄ' => 'c',
        'ԁ' | 'đ' | 'ᴅ' => 'd',
        'е' | 'ε' | 'є' | 'ҽ' | 'ᴇ' => 'e',
        'ɡ' | 'ց' | 'ɢ' => 'g',
        'һ' | 'հ' | 'н' | 'ʜ' => 'h',
        'і' | 'ι' | 'ı' | 'ӏ' | 'ɩ' | 'ɪ' => 'i',
        'ј' | 'ᴊ' => 'j',
        'κ' | 'к' | 'ᴋ' => 'k',
        'ł' | 'ʟ' => 'l',
        'м' | 'ᴍ' => 'm',
        'η' | 'ո' | 'ɴ' => 'n',
        'о' | 'ο' | 'օ' | 'ø' | 'σ' | 'ᴏ' => 'o',
        'ꜰ' => 'f',
        'ʀ' => 'r',
        'р' | 'ρ' | 'ᴘ' => 'p',
        'ԛ' => 'q',
        'ѕ' | 'ꜱ' => 's',
        'т' | 'τ' | 'ᴛ' => 't',
        'υ' | 'ս' | 'ʋ' | 'ᴜ' => 'u',
        'ν' | 'ѵ' | 'ᴠ' => 'v',
        'ԝ' | 'ѡ' | 'ᴡ' => 'w',
        'х' | 'χ' => 'x',
        'у' | 'γ' | 'ү' | 'ʏ' => 'y',
        'ᴢ' => 'z',
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{2018}' | '\u{2019}' | '\u{201b}' => '\'',
        '\u{201c}' | '\u{201d}' | '\u{201f}' => '"',
        // White letters on black rounds and squares.
        '\u{1f150}'..='\u{1f169}' => letter(u32::from(c) - 0x1f150),
        '\u{1f170}'..='\u{1f189}' => letter(u32::from(c) - 0x1f170),
        c => c,
    }
}

/// The letter at this place of the alphabet.
fn letter(ix: u32) -> char {
    char::from_u32(u32::from('a') + ix).unwrap_or('a')
}

/// An HTML character reference at the start, and its length. One inside another (`&amp;#105;`) is undone too.
fn entity(text: &str) -> Option<(char, usize)> {
    let (mut c, mut len) = reference(text.get(1..)?)?;
    len += 1;
    for _ in 0..MOST_ENTITIES {
        let Some((inner, more)) = text.get(len..).filter(|_| c == '&').and_then(reference) else { break };
        (c, len) = (inner, len + more);
    }
    Some((c, len))
}

/// What stands behind an ampersand, and its length.
fn reference(text: &str) -> Option<(char, usize)> {
    const NAMED: [(&str, char); 14] = [
        ("amp", '&'),
        ("lt", '<'),
        ("gt", '>'),
        ("quot", '"'),
        ("apos", '\''),
        ("nbsp", ' '),
        ("shy", '\u{ad}'),
        ("zwj", '\u{200d}'),
        ("zwnj", '\u{200c}'),
        ("excl", '!'),
        ("colon", ':'),
        ("comma", ','),
        ("period", '.'),
        ("newline", '\n'),
    ];
    let end = text.bytes().take(11).position(|b| b == b';')?;
    let name = text.get(..end)?;
    let code = |digits: &str, radix| u32::from_str_radix(digits, radix).ok().and_then(char::from_u32);
    let c = match name.strip_prefix('#') {
        Some(digits) => match digits.strip_prefix(['x', 'X']) {
            Some(hex) => code(hex, 16)?,
            None => code(digits, 10)?,
        },
        None => NAMED.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?.1,
    };
    Some((c, end + 1))
}

/// `%20` at the start: printable ASCII and line ends only, since the rest is a byte of a character.
fn percent(text: &[u8]) -> Option<(char, usize)> {
    let c = char::from(u8::try_from(hex(text.get(1..3)?)?).ok()?);
    (matches!(c, ' '..='~') || c == '\n').then_some((c, 3))
}

/// An escape of a string literal at the start.
fn escape(text: &[u8]) -> Option<(char, usize)> {
    match text.get(1)? {
        b'n' | b'r' => Some(('\n', 2)),
        b't' => Some(('\t', 2)),
        b'"' => Some(('"', 2)),
        b'\'' => Some(('\'', 2)),
        b'x' => Some((char::from_u32(hex(text.get(2..4)?)?)?, 4)),
        b'u' => {
            let unit = hex(text.get(2..6)?)?;
            if let Some(c) = char::from_u32(unit) {
                return Some((c, 6));
            }
            let low = text.get(6..8).filter(|next| *next == b"\\u").and_then(|_| hex(text.get(8..12)?))?;
            let (high, low) = (unit.checked_sub(0xd800)?, low.checked_sub(0xdc00)?);
            let c = (high < 0x400 && low < 0x400).then(|| char::from_u32(0x1_0000 + (high << 10) + low));
            Some((c??, 12))
        }
        _ => None,
    }
}

fn hex(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |value, digit| Some(value * 16 + char::from(*digit).to_digit(16)?))
}

/// The marks between letters that stand alone: `i g n o r e`, `i.g.n.o.r.e`. One kind of mark per word, and no word goes
/// on behind an empty line: a copy may part the text there.
fn spaced_out(text: &str, seams: &[usize], lines: &[(u32, bool)]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let bytes = text.as_bytes();
    let letter = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_alphabetic);
    let mark = |at: usize| bytes.get(at).copied().filter(|b| matches!(b, b' ' | b'.' | b'-' | b'_' | b'/' | b'|'));
    if !may_be_spaced_out(bytes) {
        return found;
    }
    let mut at = 0;
    while at < bytes.len() {
        let is_alone = at == 0 || !bytes[at - 1].is_ascii_alphanumeric() || seams.binary_search(&at).is_ok();
        let begins = letter(at) && is_alone;
        let Some(between) = mark(at + 1).filter(|_| begins) else {
            at += 1;
            continue;
        };
        let alone = |at: usize| letter(at) && !bytes.get(at + 1).is_some_and(u8::is_ascii_alphanumeric);
        let apart = |at: usize| lines.binary_search(&(at as u32, true)).is_ok();
        let mut last = at;
        while mark(last + 1) == Some(between) && alone(last + 2) && !apart(last + 2) {
            last += 2;
        }
        if (last - at) / 2 + 1 >= SPACED {
            found.extend((at + 1..last).step_by(2).map(|mark| mark..mark + 1));
        }
        at = last + 1;
    }
    found
}

/// One mark at four places, two apart, with letters between. Looks at all of them without a branch: most texts have
/// none, and that is seen quickly.
fn may_be_spaced_out(bytes: &[u8]) -> bool {
    let from = |at: usize| bytes.get(at..).unwrap_or_default();
    let marks = bytes.iter().zip(from(2)).zip(from(4)).zip(from(6));
    let letters = from(1).iter().zip(from(3)).zip(from(5));
    let is_mark = |b: u8| (b == b' ') | (b == b'.') | (b == b'-') | (b == b'_') | (b == b'/') | (b == b'|');
    marks.zip(letters).fold(false, |any, ((((a, b), c), d), ((x, y), z))| {
        let letters = x.is_ascii_alphabetic() & y.is_ascii_alphabetic() & z.is_ascii_alphabetic();
        any | ((a == b) & (b == c) & (c == d) & letters & is_mark(*a))
    })
}

#[cfg(test)]
mod tests;
