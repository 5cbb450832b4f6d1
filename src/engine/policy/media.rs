//! Media as they stand in records: what a part, a block or an object of a tool's own making carries, and what it says
//! of it.
//!
//! Place in the journey: results and the user's turns are read by SG13; what is text in them is shown to every policy
//! that reads texts. The wire shapes are those of `provider-formats` §2.6, §3, §4.6, §6 and §7: `image_url` and
//! `file_data` (data URLs), `source`, `inlineData` and `fileData`, `data` or `blob` beside `mimeType`, `input_audio`.

use crate::engine::json::{Kind, Value};
use crate::engine::layer::{Layer, Span, Step};
use crate::engine::scan::media::{self, FileType};
use bumpalo::Bump;

/// Members of an object that holds a file and says which.
const MOST_MEMBERS: usize = 64;

/// One file.
#[derive(Debug, Clone, Copy)]
pub struct Medium<'r> {
    /// What its type's name or its own says that it is.
    pub declared: Option<FileType>,
    pub content: Content<'r>,
}

/// Where its bytes are.
#[derive(Debug, Clone, Copy)]
pub enum Content<'r> {
    /// In the record: base64, from this byte of the string on.
    Base64 { text: Value<'r>, from: usize },
    /// In the record, in an address and not as base64.
    Spelled,
    /// Behind an address or a file's id.
    Elsewhere,
}

impl<'r> Medium<'r> {
    /// The file that this value is, or carries. `None`: none.
    pub fn of(value: Value<'r>) -> Option<Medium<'r>> {
        match value.kind() {
            Kind::String => {
                let holder = value.parent().filter(|holder| holder.kind() == Kind::Object);
                let declared = match holder {
                    // Many files may stand in one object: none of them searches all of it.
                    Some(holder) if holder.members().nth(MOST_MEMBERS).is_some() => Some(FileType::Other),
                    holder => holder.and_then(declared),
                };
                Some(Self { declared, content: Content::Base64 { text: value, from: 0 } })
            }
            Kind::Object => of_object(value, true),
            _ => None,
        }
    }

    /// How its bytes begin, as far as they are in the record and base64.
    pub fn beginning(&self) -> Vec<u8> {
        let Content::Base64 { text, from } = self.content else { return Vec::new() };
        text.text().and_then(|text| text.get(from..).map(media::beginning)).unwrap_or_default()
    }

    /// Whether its bytes, if they stand in the record, can be had.
    pub fn is_base64(&self) -> bool {
        let Content::Base64 { text, from } = self.content else { return true };
        text.text().is_some_and(|text| text.get(from..).is_some_and(media::is_base64))
    }

    /// How many bytes stand in the record.
    pub fn bytes(&self) -> u64 {
        let Content::Base64 { text, from } = self.content else { return 0 };
        text.text().and_then(|text| text.get(from..).map(media::length)).unwrap_or(0)
    }

    /// Whether a string of a part that is a file says something of it, rather than being it, or where it is: those who
    /// fetch an address read it whole, and models never do.
    pub fn is_said(value: Value<'_>) -> bool {
        const HELD: [&str; 9] =
            ["blob", "data", "file_data", "file_id", "fileUri", "file_uri", "file_url", "image_url", "url"];
        !value.key().is_some_and(|key| HELD.iter().any(|name| key.is(name)))
    }

    /// The file as text, if the whole of it is one that its reader reads as it stands.
    pub fn text(&self, bump: &'r Bump) -> Option<&'r Layer<'r>> {
        let Content::Base64 { text, from } = self.content else { return None };
        if !media::settled(self.declared, media::found(&self.beginning())).is_textual() {
            return None;
        }
        let layer = text.text_layer(bump, Step::Json)?.ok()?;
        let span = Span { layer, start: from as u32, end: layer.bytes.len() as u32 };
        let layer = Layer::base64(bump, span, Step::Base64).ok()?;
        std::str::from_utf8(layer.bytes).is_ok().then_some(layer)
    }
}

/// Every file that stands in a value whose shape may be anybody's: what says that it is one, in a provider's shape or
/// by the type of its data. Nothing inside such an object is looked at. In document order.
pub fn all_in<'r>(value: Value<'r>) -> impl Iterator<Item = (Value<'r>, Medium<'r>)> {
    let mut end = 0;
    value.walk().filter_map(move |(value, _)| {
        let inside = value.span().start < end;
        let medium = if inside || value.kind() != Kind::Object { None } else { of_object(value, false) }?;
        end = value.span().end;
        Some((value, medium))
    })
}

/// The last member of these names, as most parsers take it.
fn member<'r>(object: Value<'r>, names: &[&str]) -> Option<Value<'r>> {
    object.members().filter(|(name, _)| names.iter().any(|known| name.is(known))).last().map(|(_, value)| value)
}

fn string<'r>(object: Value<'r>, names: &[&str]) -> Option<Value<'r>> {
    member(object, names).filter(|value| value.kind() == Kind::String)
}

/// What an object says of the file in it.
fn declared(object: Value<'_>) -> Option<FileType> {
    let kind = string(
        object,
        &["mimeType", "mime_type", "media_type", "content_type", "contentType", "format", "output_format"],
    )
    .and_then(|kind| kind.text());
    let name = || string(object, &["filename", "displayName", "uri"]).and_then(|name| name.text());
    kind.and_then(|kind| media::declared(&kind)).or_else(|| name().and_then(|name| media::named(&name)))
}

/// `known`: it is a file whatever its type says, because it stands where files stand.
fn of_object(object: Value<'_>, known: bool) -> Option<Medium<'_>> {
    let kind = string(object, &["type"]).and_then(|kind| kind.text()).unwrap_or_default();
    let is_one = |names: &[&[u8]]| names.contains(&&*kind);
    let is = |names: &[&[u8]]| known || is_one(names);
    let within = |names: &[&str]| member(object, names).filter(|value| value.kind() == Kind::Object);
    if let Some(data) = within(&["inlineData", "inline_data"]) {
        return carried(data);
    }
    if let Some(data) = within(&["fileData", "file_data"]) {
        return Some(Medium { declared: declared(data), content: Content::Elsewhere });
    }
    if is(&[b"image", b"document"])
        && let Some(source) = within(&["source"])
    {
        return match string(source, &["type"]).and_then(|kind| kind.text()).as_deref() {
            Some(b"text" | b"content") => None,
            _ => carried(source),
        };
    }
    if is(&[b"image_url", b"input_image", b"computer_screenshot"])
        && let Some(url) = member(object, &["image_url"]).filter(|url| !url.is_null())
    {
        let url = if url.kind() == Kind::Object { string(url, &["url"]) } else { Some(url) };
        return url.map(|url| addressed(url, None));
    }
    if is(&[b"input_audio"])
        && let Some(audio) = within(&["input_audio"])
    {
        return carried(audio);
    }
    if is(&[b"input_file", b"file"]) {
        let file = within(&["file"]).unwrap_or(object);
        if let Some(data) = string(file, &["file_data"]) {
            return Some(addressed(data, declared(file)));
        }
        let refers = known || is_one(&[b"input_file"]) || string(file, &["file_id"]).is_some();
        if let Some(medium) = elsewhere(file).filter(|_| refers) {
            return Some(medium);
        }
    }
    if known {
        return carried(object);
    }
    // A tool's own objects have members of any name: what is a file has to say so, and which.
    // Text needs no base64, and is read where it stands.
    let words = [FileType::Other, FileType::Text, FileType::Xml, FileType::Html];
    let typed = string(object, &["mimeType", "mime_type", "media_type", "content_type", "contentType"]).is_some();
    let says = || declared(object).is_some_and(|declared| !words.contains(&declared));
    // Of no type that says what it is (`application/octet-stream`), it shows.
    let shows = |medium: &Medium<'_>| media::found(&medium.beginning()).is_some_and(|found| !words.contains(&found));
    let here = carried(object).filter(|medium| typed && !matches!(medium.content, Content::Elsewhere));
    here.filter(|medium| says() || shows(medium))
}

/// `data` or `blob` in base64, or where the file is.
fn carried(object: Value<'_>) -> Option<Medium<'_>> {
    match string(object, &["data", "blob"]) {
        Some(text) => Some(Medium { declared: declared(object), content: Content::Base64 { text, from: 0 } }),
        None => elsewhere(object),
    }
}

fn elsewhere(object: Value<'_>) -> Option<Medium<'_>> {
    let address = string(object, &["url", "file_id", "file_url", "fileUri", "file_uri"])?;
    Some(addressed(address, declared(object)))
}

/// `data:image/png;base64,…`, another address, or base64 by itself where a file's data stand.
fn addressed(address: Value<'_>, declared: Option<FileType>) -> Medium<'_> {
    let text = address.text().unwrap_or_default();
    let is_data = address.key().is_some_and(|name| name.is("file_data"));
    let Some(rest) = prefixed(&text, b"data:") else {
        let content = if is_data { Content::Base64 { text: address, from: 0 } } else { Content::Elsewhere };
        return Medium { declared, content };
    };
    let head = rest.iter().take(256).position(|byte| *byte == b',');
    let Some(head) = head else { return Medium { declared, content: Content::Spelled } };
    let (head, from) = (rest.get(..head).unwrap_or_default(), text.len() - rest.len() + head + 1);
    let is_base64 = head.rsplit(|byte| *byte == b';').next().is_some_and(|last| last.eq_ignore_ascii_case(b"base64"));
    let content = if is_base64 { Content::Base64 { text: address, from } } else { Content::Spelled };
    Medium { declared: media::declared(head).or(declared), content }
}

fn prefixed<'t>(text: &'t [u8], prefix: &[u8]) -> Option<&'t [u8]> {
    let (head, rest) = text.split_at_checked(prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then_some(rest)
}
