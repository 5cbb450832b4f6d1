//! SG13: files that tools return are of a kind that the model may see, and what they say that they are.
//!
//! # What it checks
//! Pictures, audio and other files in tool outputs: in requests, in raw outputs (`tool.result`), in MCP answers, and
//! of tools that the provider ran. A type is told by the file's first bytes; what is declared (a media type, a data
//! URL, a file's name) has to agree. In raw output a file is what stands in a provider's or MCP's shape of one, or as
//! `data` or `blob` beside a media type (one that says nothing, or text: where its first bytes are a file's); other
//! data of a tool's own are not taken for files.
//! - `media_not_allowed`: `png`, `jpeg`, `webp`, `gif` and `pdf` are reported; every other type is blocked. A tool's
//!   own list decides first: what is on it passes, everything else is blocked. `strict` blocks every file that no
//!   list names, screenshots too: where agents use a computer, list `png` for the tool `computer`. Text documents
//!   (UTF-8) are text: they pass without a finding, unless the tool has a list.
//! - `media_too_large`: more bytes than `max_bytes`, or a picture of more than `max_pixels`, by its own head.
//! - `type_mismatch`: the bytes are of another type than declared, or of none that begins so; what is no base64, or
//!   nothing at all, is no picture either.
//! - `user_media_with_tools`: a person's or the application's own pictures and documents in a request that offers
//!   tools. Said once a request, with their number.
//! - `not_observed`: the file is behind an address or an id. What it declares is all that is judged: of the types above
//!   it is reported, as is a file that declares nothing.
//!
//! What is text inside a file (a text document, a drawing in `svg`, `html`) is shown to the policies that read tool
//! output, such as SG11 and SG12, as any text is. Pixels, sound and a PDF's inside are not looked at: they stand under
//! `not_inspected`. Types are those of the list under *Options*.
//!
//! # Why it matters
//! A screenshot is text that no filter for text reads: what is written in it instructs the model as well. A file that
//! says `image/png` and is a page or an archive is meant for another reader than the one that was told of it.
//!
//! # Violates
//! - `image/png` whose bytes begin with `%PDF-`: `type_mismatch`, and the output becomes the provider's error form.
//! - A ZIP archive, a drawing with scripts, a sound file: `media_not_allowed`, unless the tool's list has the type.
//! - A picture whose head says 30 000 × 30 000: `media_too_large`, however few bytes it has.
//!
//! ```example media_not_allowed
//! file image/svg+xml PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciPjwvc3ZnPg==
//! ```
//! ```example media_not_allowed
//! file application/zip UEsDBAoAAAAAAAAAIQAAAAAAAAAAAAAAAAA=
//! ```
//! ```example media_not_allowed
//! profile strict
//! file image/png iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ
//! ```
//! ```example media_not_allowed
//! option tools={"lookup":{"allowed_types":["pdf"]}}
//! file image/png iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ
//! ```
//! ```example type_mismatch
//! file image/png JVBERi0xLjQKJcOkCjIgMCBvYmoKPDw+Pgo=
//! ```
//! ```example type_mismatch
//! file image/jpeg aGVsbG8sIHRoaXMgaXMgbm8gcGljdHVyZQ==
//! ```
//! ```example media_too_large
//! file image/png iVBORw0KGgoAAAANSUhEUgAAdTAAAHUwCAYAAAAfFcSJ
//! ```
//! ```example media_too_large
//! option max_bytes=1024
//! file application/pdf JVBERi0x<<400*LjQK>>
//! ```
//! ```example user_media_with_tools: anthropic.messages
//! event model.request {"tools":[{"name":"lookup","input_schema":{"type":"object"}}],"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgoAAAANSUhEUg=="}}]}]}
//! ```
//! ```example user_media_with_tools: openai.responses, xai.responses
//! event model.request {"tools":[{"type":"function","name":"lookup","parameters":{"type":"object"}}],"input":[{"role":"user","content":[{"type":"input_image","image_url":"https://example.com/a.png"}]}]}
//! ```
//! ```example user_media_with_tools: openai.chat, xai.chat
//! event model.request {"tools":[{"type":"function","function":{"name":"lookup","parameters":{"type":"object"}}}],"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}]}]}
//! ```
//! ```example user_media_with_tools: gemini.generate_content
//! event model.request {"tools":[{"functionDeclarations":[{"name":"lookup"}]}],"contents":[{"role":"user","parts":[{"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgoAAAANSUhEUg=="}}]}]}
//! ```
//! ```example user_media_with_tools: gemini.live
//! event model.request {"setup":{"model":"models/m","tools":[{"functionDeclarations":[{"name":"lookup"}]}]}}
//! event model.request {"realtimeInput":{"video":{"mimeType":"image/jpeg","data":"/9j/4AAQSkZJRgABAQAAAQAB"}}}
//! ```
//! ```example not_observed: anthropic.messages
//! event model.request {"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"image","source":{"type":"url","url":"https://example.com/a.png"}}]}]}]}
//! ```
//!
//! # Holds
//! - A picture that is what it says, of a tool without a list: reported, not blocked.
//! - `image/jpg`, `image/x-png` and other names of one type agree.
//! - A drawing of a tool whose list has `svg`.
//!
//! ```example holds
//! file image/png iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ
//! ```
//! ```example holds
//! file application/pdf JVBERi0xLjQKJcOkCjIgMCBvYmoKPDw+Pgo=
//! ```
//! ```example holds
//! profile strict
//! option tools={"lookup":{"allowed_types":["svg"]}}
//! file image/svg+xml PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciPjwvc3ZnPg==
//! ```
//! ```example holds
//! profile strict
//! file text/plain dGhlIGRvb3IgaXMgb3BlbiwgYW5kIHN0YXlzIHNv
//! ```
//!
//! # Options
//! Types: `png`, `jpeg`, `gif`, `webp`, `bmp`, `tiff`, `heif`, `icon`, `svg`, `pdf`, `html`, `xml`, `text`, `wav`,
//! `mp3`, `aac`, `flac`, `ogg`, `pcm`, `mp4`, `webm`, `zip` (also `docx` and its kin), `gzip`, `program`, `other`.
//! - `allowed_types` (none): pass without a finding, of every tool that has no list of its own.
//! - `max_bytes` (10 485 760; 1 024 to 67 108 864): of one file, decoded. SG01's `block_media_bytes` bounds all files of
//!   an output as they stand on the wire.
//! - `max_pixels` (100 000 000; 1 to 10 000 000 000), for `png`, `jpeg`, `gif`, `webp` and `bmp`.
//! - `tools`: by tool name (no patterns), its own `allowed_types` and `max_bytes`.
//!
//! # Source
//! Rule 8 of `untrusted-tool-outputs.md`; the shapes are those of `provider-formats` §2.6, §3, §4.6, §6 and §7.

use super::globs;
use super::media::{self, Content, Medium};
use super::results::tool_name;
use super::{
    Evidence, Meta, NOT_OBSERVED, OptionsProblem, Place, Policy, Profile, Report, RequestSubject, ResultSubject, Rule,
    Severity, Subject, TurnKind, View,
};
use crate::engine::decision::Decision;
use crate::engine::event::{Part, ResultShape};
use crate::engine::json::Value;
use crate::engine::scan::media::{FileType, agrees, found, pixels, settled};
use crate::engine::state::Tool;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const fn rule(name: &'static str, effect: Decision, severity: Severity, message: &'static str) -> Rule {
    Rule { name, effect, strict: effect, severity, message }
}

const MEDIA_NOT_ALLOWED: Rule = rule(
    "media_not_allowed",
    Decision::Block,
    Severity::Medium,
    "the output holds a file whose inside nobody looks at, or of a type that may not be shown to the model",
);
const MEDIA_TOO_LARGE: Rule = rule(
    "media_too_large",
    Decision::Block,
    Severity::Medium,
    "a file in the output has more bytes or pixels than any may have",
);
const TYPE_MISMATCH: Rule =
    rule("type_mismatch", Decision::Block, Severity::High, "a file in the output is not of the type that it declares");
const USER_MEDIA_WITH_TOOLS: Rule = rule(
    "user_media_with_tools",
    Decision::Allow,
    Severity::Low,
    "pictures or documents of the user's stand before a model that has tools, and nobody looks into them",
);
const MAX_BYTES: u64 = 64 << 20;
const MAX_PIXELS: u64 = 10_000_000_000;

/// Bytes by which something can be told.
const LEAST: u64 = 4;

/// The policy.
pub struct MediaResults {
    options: Options,
    /// Every file that no list names is blocked.
    strict: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    pub allowed_types: Vec<String>,
    pub max_bytes: u64,
    pub max_pixels: u64,
    pub tools: BTreeMap<String, ToolMedia>,
}

/// What differs for one tool.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolMedia {
    pub allowed_types: Option<Vec<String>>,
    pub max_bytes: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Self { allowed_types: Vec::new(), max_bytes: 10 << 20, max_pixels: 100_000_000, tools: BTreeMap::new() }
    }
}

impl Policy for MediaResults {
    const META: Meta = Meta {
        code: "SG13",
        number: 13,
        name: "media_results",
        checklist: "rule 8",
        summary: "files that tools return are of an allowed kind, and what they say that they are",
        rules: &[MEDIA_NOT_ALLOWED, MEDIA_TOO_LARGE, TYPE_MISMATCH, USER_MEDIA_WITH_TOOLS, NOT_OBSERVED],
    };
    type Options = Options;

    fn problems(options: &Options) -> Vec<OptionsProblem> {
        let mut found = Vec::new();
        let mut within = |path: String, value: u64, least: u64, most: u64| {
            if !(least..=most).contains(&value) {
                found.push(OptionsProblem { path, problem: format!("{value} is not between {least} and {most}") });
            }
        };
        within("max_bytes".to_owned(), options.max_bytes, 1 << 10, MAX_BYTES);
        within("max_pixels".to_owned(), options.max_pixels, 1, MAX_PIXELS);
        for (name, own) in &options.tools {
            within(format!("tools.{name}.max_bytes"), own.max_bytes.unwrap_or(MAX_BYTES), 1 << 10, MAX_BYTES);
        }
        let mut known = |path: &str, types: &[String]| {
            for (ix, name) in types.iter().enumerate().filter(|(_, name)| FileType::from_name(name).is_none()) {
                let names = FileType::ALL.map(FileType::name).join(", ");
                found.push(OptionsProblem {
                    path: format!("{path}.{ix}"),
                    problem: format!("{name:?} is no type; known are {names}"),
                });
            }
        };
        known("allowed_types", &options.allowed_types);
        for (name, own) in &options.tools {
            known(&format!("tools.{name}.allowed_types"), own.allowed_types.as_deref().unwrap_or_default());
        }
        let blank = options.tools.iter().filter(|(_, own)| own.allowed_types.is_none() && own.max_bytes.is_none());
        found.extend(blank.map(|(name, _)| OptionsProblem {
            path: format!("tools.{name}"),
            problem: "sets nothing: give it allowed_types or max_bytes".to_owned(),
        }));
        found.extend(options.tools.keys().filter_map(|name| globs::no_name(&format!("tools.{name}"), name)));
        found
    }

    fn new(options: Options, profile: Profile) -> Self {
        Self { options, strict: profile == Profile::Strict }
    }

    fn check<'r>(&self, subject: &Subject<'_, 'r>, view: &View<'_>, report: &mut Report<'r>) {
        match subject {
            Subject::Result(result) => self.check_result(result, view, report),
            Subject::Request(request) => check_request(request, view, report),
            _ => {}
        }
    }
}

/// Whose file it is.
#[derive(Clone, Copy)]
struct Own<'o> {
    tool: Option<&'o ToolMedia>,
    /// A provider's own tool made it.
    made: bool,
}

impl MediaResults {
    fn check_result<'r>(&self, subject: &ResultSubject<'_, 'r>, view: &View<'_>, report: &mut Report<'r>) {
        let made = subject.result.shape == ResultShape::Server;
        let own = Own { tool: self.of_tool(subject), made };
        for part in &subject.result.parts {
            match *part {
                Part::Media { value, .. } => {
                    let unknown = Medium { declared: None, content: Content::Elsewhere };
                    self.check_medium(value, Medium::of(value).unwrap_or(unknown), own, view, report);
                }
                // Raw output holds files in whatever shape its host will send them in.
                Part::Json(value) if subject.result.shape == ResultShape::Host => {
                    for (value, medium) in media::all_in(value) {
                        self.check_medium(value, medium, own, view, report);
                    }
                }
                Part::Json(_) | Part::Text(_) | Part::Opaque { .. } => {}
            }
        }
    }

    /// The settings of this output's tool.
    fn of_tool(&self, subject: &ResultSubject<'_, '_>) -> Option<&ToolMedia> {
        if self.options.tools.is_empty() {
            return None;
        }
        let name = tool_name(subject.result, subject.call)?;
        self.options.tools.get(std::str::from_utf8(&name).ok()?)
    }

    fn check_medium<'r>(
        &self,
        value: Value<'r>,
        medium: Medium<'r>,
        own: Own<'_>,
        view: &View<'_>,
        report: &mut Report<'r>,
    ) {
        let place = Place::Value { value, range: None };
        let label = |kind: FileType| Evidence::Label { kind: "media", label: kind.name() };
        let bytes = match medium.content {
            Content::Elsewhere => {
                report.not_observed(&MediaResults::META, view, "elsewhere");
                return self.check_type(place, medium.declared, own.tool, report);
            }
            Content::Base64 { .. } => medium.bytes(),
            Content::Spelled => LEAST,
        };
        let beginning = medium.beginning();
        let found = found(&beginning);
        // Whoever is to read it refuses what is no base64, and what is too little for its type. What a provider made
        // itself it does not read again.
        let given = medium.declared.filter(|_| !own.made && matches!(medium.content, Content::Base64 { .. }));
        let spoilt = given.filter(|declared| match bytes < LEAST {
            true => !agrees(*declared, found),
            false => !declared.is_textual() && !medium.is_base64(),
        });
        // Nothing else can be told by so little, and nothing stands in it.
        if bytes < LEAST {
            if let Some(declared) = spoilt {
                report.find(&TYPE_MISMATCH, place, label(declared));
            }
            return self.check_type(place, medium.declared, own.tool, report);
        }
        let kind = settled(medium.declared, found);
        let max_bytes = own.tool.and_then(|own| own.max_bytes).unwrap_or(self.options.max_bytes);
        if bytes > max_bytes {
            report.find(&MEDIA_TOO_LARGE, place, Evidence::Bytes { found: bytes, limit: max_bytes });
        }
        let limit = self.options.max_pixels;
        if let Some(found) = pixels(kind, &beginning).filter(|found| *found > limit) {
            report.find(&MEDIA_TOO_LARGE, place, Evidence::Count { found, limit });
        }
        if spoilt.is_some() || medium.declared.is_some_and(|declared| !agrees(declared, found)) {
            report.find(&TYPE_MISMATCH, place, label(kind));
        }
        // Only text of which every byte can be read is text.
        let read = kind != FileType::Text || medium.text(report.bump()).is_some();
        self.check_type(place, Some(if read { kind } else { FileType::Other }), own.tool, report);
    }

    /// `None`: what it is, it does not say.
    fn check_type<'r>(
        &self,
        place: Place<'r>,
        kind: Option<FileType>,
        own: Option<&ToolMedia>,
        report: &mut Report<'r>,
    ) {
        let own = own.and_then(|own| own.allowed_types.as_deref());
        let listed = own.unwrap_or(&self.options.allowed_types);
        if kind.is_some_and(|kind| listed.iter().any(|name| name == kind.name())) {
            return;
        }
        let most = match kind {
            _ if own.is_some() => Decision::Block,
            Some(FileType::Text) => return,
            _ if self.strict => Decision::Block,
            None => Decision::Allow,
            Some(kind) if is_common(kind) => Decision::Allow,
            Some(_) => Decision::Block,
        };
        let label = kind.map_or("unknown", FileType::name);
        report.find_at_most(&MEDIA_NOT_ALLOWED, most, place, Evidence::Label { kind: "media", label });
    }
}

/// What providers take, and agents return.
fn is_common(kind: FileType) -> bool {
    matches!(kind, FileType::Png | FileType::Jpeg | FileType::Webp | FileType::Gif | FileType::Pdf)
}

fn check_request<'r>(subject: &RequestSubject<'_, 'r>, view: &View<'_>, report: &mut Report<'r>) {
    let users = subject.turns.iter().filter_map(|turn| match turn.kind {
        TurnKind::User(value) => Some(value),
        _ => None,
    });
    // Sound comes in pieces of a moment each, and is no picture.
    let is_sound = |medium: &Medium<'_>| medium.declared.is_some_and(FileType::is_sound);
    let mut files = users.flat_map(media::all_in).filter(|(_, medium)| !is_sound(medium));
    let Some((first, _)) = files.next() else { return };
    let found = 1 + files.count() as u64;
    if !subject.tools.is_empty() || has_tools(view) {
        let place = Place::Value { value: first, range: None };
        report.find(&USER_MEDIA_WITH_TOOLS, place, Evidence::Count { found, limit: 0 });
    }
}

/// A session says its tools once, when it is set up.
fn has_tools(view: &View<'_>) -> bool {
    let Some(exchange) = view.exchange else { return false };
    let of_it = |tool: &Tool| exchange.toolset == Some(tool.toolset) || exchange.late == Some(tool.toolset);
    view.conversation.tools.values().any(of_it)
}
