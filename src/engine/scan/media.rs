//! Media: what kind of file bytes are by how they begin, what a type's name says that they are, and how large the
//! picture in them is.
//!
//! Place in the journey: whoever judges files that stand in a record asks for the bytes' beginning ([`beginning`]),
//! for what it shows ([`found`]), and whether that is what was declared ([`agrees`]).
//!
//! Invariants: no more than [`PREFIX`] symbols of base64 are decoded, whatever the file's size; what cannot be told
//! apart is [`FileType::Other`] or `None`, never a guess at something harmless.
//!
//! Left out: a file's inside. A picture's pixels, a PDF's scripts and what else stands behind the beginning of a
//! file that is two at once are not looked into.

mod names;
mod pixels;

pub use names::{declared, named};
pub use pixels::pixels;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};

/// Symbols of base64 that are decoded at most, of a file's beginning.
pub const PREFIX: usize = 256 << 10;

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileType {
    Png,
    Jpeg,
    Gif,
    Webp,
    Bmp,
    Tiff,
    Heif,
    Icon,
    Svg,
    Pdf,
    Html,
    Xml,
    /// Text that is nothing of the above: its reader reads it as it stands.
    Text,
    Wav,
    Mp3,
    Aac,
    Flac,
    Ogg,
    Pcm,
    Mp4,
    Webm,
    /// Archives, and the documents that are one (`docx`, `epub`, `jar`).
    Zip,
    Gzip,
    /// Something that a machine runs.
    Program,
    /// Nothing that is known here.
    Other,
}

impl FileType {
    pub const ALL: [FileType; 25] = [
        Self::Png,
        Self::Jpeg,
        Self::Gif,
        Self::Webp,
        Self::Bmp,
        Self::Tiff,
        Self::Heif,
        Self::Icon,
        Self::Svg,
        Self::Pdf,
        Self::Html,
        Self::Xml,
        Self::Text,
        Self::Wav,
        Self::Mp3,
        Self::Aac,
        Self::Flac,
        Self::Ogg,
        Self::Pcm,
        Self::Mp4,
        Self::Webm,
        Self::Zip,
        Self::Gzip,
        Self::Program,
        Self::Other,
    ];
    /// Its name in options and verdicts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Png => "png",
            Self::Jpeg => "jpeg",
            Self::Gif => "gif",
            Self::Webp => "webp",
            Self::Bmp => "bmp",
            Self::Tiff => "tiff",
            Self::Heif => "heif",
            Self::Icon => "icon",
            Self::Svg => "svg",
            Self::Pdf => "pdf",
            Self::Html => "html",
            Self::Xml => "xml",
            Self::Text => "text",
            Self::Wav => "wav",
            Self::Mp3 => "mp3",
            Self::Aac => "aac",
            Self::Flac => "flac",
            Self::Ogg => "ogg",
            Self::Pcm => "pcm",
            Self::Mp4 => "mp4",
            Self::Webm => "webm",
            Self::Zip => "zip",
            Self::Gzip => "gzip",
            Self::Program => "program",
            Self::Other => "other",
        }
    }
    pub fn from_name(name: &str) -> Option<FileType> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }
    pub fn is_sound(self) -> bool {
        matches!(self, Self::Wav | Self::Mp3 | Self::Aac | Self::Flac | Self::Ogg | Self::Pcm)
    }
    /// Written in characters.
    pub fn is_textual(self) -> bool {
        matches!(self, Self::Svg | Self::Html | Self::Xml | Self::Text)
    }
}

/// Whether bytes that begin so can be what was declared. Where a type has no beginning of its own, they can.
pub fn agrees(declared: FileType, found: Option<FileType>) -> bool {
    use FileType::{Aac, Heif, Html, Mp3, Mp4, Other, Pcm, Svg, Text, Xml};
    match (declared, found) {
        (_, Some(found)) if declared == found => true,
        // What the type is, nobody knows here.
        (Other, _) => true,
        // A piece of HTML or XML may begin as any text does; a drawing has to be one.
        (Text | Html | Xml, Some(Svg | Html | Xml | Text)) => true,
        // Text of another encoding.
        (Text | Html | Xml, None) => true,
        // Raw samples and streams begin anyhow.
        (Mp3 | Aac | Pcm | Mp4, None) => true,
        // One container for several types, and streams that begin almost alike.
        (Aac | Heif, Some(Mp4)) | (Mp3, Some(Aac)) | (Aac, Some(Mp3)) => true,
        _ => false,
    }
}

/// What the file is, by what was declared and what was found.
pub fn settled(declared: Option<FileType>, found: Option<FileType>) -> FileType {
    match declared {
        Some(declared) if agrees(declared, found) => match found {
            // Declared as text, and in no encoding that anybody here reads.
            None if declared.is_textual() => FileType::Other,
            _ => declared,
        },
        _ => found.unwrap_or(FileType::Other),
    }
}

/// What the bytes are, by how they begin; `None` where that says nothing.
pub fn found(bytes: &[u8]) -> Option<FileType> {
    let at = |offset: usize, magic: &[u8]| bytes.get(offset..).is_some_and(|rest| rest.starts_with(magic));
    let magic: [(usize, &[u8], FileType); 31] = [
        (0, b"\x89PNG\r\n\x1a\n", FileType::Png),
        (0, b"\xff\xd8\xff", FileType::Jpeg),
        (0, b"GIF87a", FileType::Gif),
        (0, b"GIF89a", FileType::Gif),
        (0, b"II*\0", FileType::Tiff),
        (0, b"MM\0*", FileType::Tiff),
        (0, b"\0\0\x01\0", FileType::Icon),
        (0, b"%PDF-", FileType::Pdf),
        (0, b"PK\x03\x04", FileType::Zip),
        (0, b"PK\x05\x06", FileType::Zip),
        (0, b"\x1f\x8b", FileType::Gzip),
        (0, b"fLaC", FileType::Flac),
        (0, b"OggS", FileType::Ogg),
        (0, b"ID3", FileType::Mp3),
        (0, b"\xff\xfb", FileType::Mp3),
        (0, b"\xff\xfa", FileType::Mp3),
        (0, b"\xff\xf3", FileType::Mp3),
        (0, b"\xff\xf2", FileType::Mp3),
        (0, b"\xff\xe3", FileType::Mp3),
        (0, b"\xff\xf1", FileType::Aac),
        (0, b"\xff\xf9", FileType::Aac),
        (0, b"\x1a\x45\xdf\xa3", FileType::Webm),
        (0, b"\x7fELF", FileType::Program),
        (0, b"\0asm", FileType::Program),
        (0, b"\xca\xfe\xba\xbe", FileType::Program),
        (0, b"\xcf\xfa\xed\xfe", FileType::Program),
        (0, b"\xce\xfa\xed\xfe", FileType::Program),
        (4, b"ftypheic", FileType::Heif),
        (4, b"ftypmif1", FileType::Heif),
        (4, b"ftypavif", FileType::Heif),
        (4, b"ftyp", FileType::Mp4),
    ];
    if let Some((_, _, known)) = magic.iter().find(|(offset, magic, _)| at(*offset, magic)) {
        return Some(*known);
    }
    if at(0, b"RIFF") {
        return match () {
            () if at(8, b"WEBP") => Some(FileType::Webp),
            () if at(8, b"WAVE") => Some(FileType::Wav),
            () => None,
        };
    }
    // Two letters begin many a text too: what follows has to be no text.
    let short = match () {
        () if at(0, b"BM") => Some(FileType::Bmp),
        () if at(0, b"MZ") => Some(FileType::Program),
        () => None,
    };
    match text(bytes) {
        None => short.or_else(|| late_pdf(bytes)),
        Some(text) => Some(textual(text)),
    }
}

/// Readers take a PDF whose head stands within its first kilobyte.
fn late_pdf(bytes: &[u8]) -> Option<FileType> {
    let head = bytes.get(..1024).unwrap_or(bytes);
    memchr::memmem::find(head, b"%PDF-").map(|_| FileType::Pdf)
}

/// The bytes as text, if they are the beginning of one: UTF-8 without control characters beside white space.
fn text(bytes: &[u8]) -> Option<&str> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        // The prefix may end within a character.
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(bytes.get(..error.valid_up_to())?).unwrap_or_default()
        }
        Err(_) => return None,
    };
    let control = |c: char| c.is_control() && !c.is_whitespace() && c != '\u{1b}';
    (!text.is_empty() && !text.chars().any(control)).then_some(text)
}

/// Which kind of text. As browsers do, HTML is told by the first tag; a drawing by its root, wherever that begins.
fn textual(text: &str) -> FileType {
    const TAGS: [&str; 17] = [
        "!doctype html",
        "html",
        "head",
        "script",
        "iframe",
        "h1",
        "div",
        "font",
        "table",
        "a",
        "style",
        "title",
        "b",
        "body",
        "br",
        "p",
        "meta",
    ];
    let text = text.trim_start_matches('\u{feff}').trim_start();
    if !text.starts_with('<') {
        return FileType::Text;
    }
    let rest = behind_comments(text);
    let tag = |name: &str| {
        let inside = rest.get(1..=name.len()).is_some_and(|tag| tag.eq_ignore_ascii_case(name));
        let behind = rest.as_bytes().get(name.len() + 1);
        inside && behind.is_none_or(|byte| byte.is_ascii_whitespace() || matches!(byte, b'>' | b'/'))
    };
    match () {
        () if has_tag(text, b"<svg") => FileType::Svg,
        () if TAGS.iter().any(|name| tag(name)) => FileType::Html,
        () if rest.starts_with("<?xml") || rest.starts_with("<!DOCTYPE") => FileType::Xml,
        () => FileType::Text,
    }
}

/// The text behind leading comments.
fn behind_comments(text: &str) -> &str {
    let mut rest = text;
    while let Some(inside) = rest.strip_prefix("<!--") {
        let Some((_, behind)) = inside.split_once("-->") else { return "" };
        rest = behind.trim_start();
    }
    rest
}

fn has_tag(text: &str, tag: &[u8]) -> bool {
    text.as_bytes().windows(tag.len()).any(|window| window.eq_ignore_ascii_case(tag))
}

/// The beginning of what base64 stands for, up to the first character that is none of it: no reader sees another
/// beginning, whatever it makes of the rest. White space is passed over, both alphabets are read.
pub fn beginning(text: &[u8]) -> Vec<u8> {
    let symbols = text.iter().filter(|byte| !byte.is_ascii_whitespace());
    let symbols = symbols.map(|byte| match byte {
        b'-' => b'+',
        b'_' => b'/',
        other => *other,
    });
    let is_symbol = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    let mut prefix: Vec<u8> = symbols.take_while(is_symbol).take(PREFIX).collect();
    // One symbol alone stands for nothing; recordings are cut anywhere.
    if prefix.len() % 4 == 1 {
        prefix.pop();
    }
    let config = GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone);
    GeneralPurpose::new(&STANDARD, config).decode(&prefix).unwrap_or_default()
}

/// Whether a text is base64 throughout, in either alphabet, with white space and with or without padding.
pub fn is_base64(text: &[u8]) -> bool {
    let mut symbols = text.iter().filter(|byte| !byte.is_ascii_whitespace());
    let is_symbol = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_');
    symbols.find(|byte| !is_symbol(byte)).is_none_or(|first| *first == b'=' && symbols.all(|byte| *byte == b'='))
}

/// How many bytes base64 stands for as a whole.
pub fn length(text: &[u8]) -> u64 {
    let symbols = text.iter().filter(|byte| !byte.is_ascii_whitespace()).count();
    let padding = text.trim_ascii_end().iter().rev().take(2).take_while(|byte| **byte == b'=').count();
    (symbols - padding) as u64 * 3 / 4
}

#[cfg(test)]
mod tests;
