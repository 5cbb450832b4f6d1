//! Content types: which of them this build reads.

/// A content type without its parameters.
pub(in crate::engine) fn media_type(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}

/// `application/json`, `…+json`, `text/json`, or none, which means JSON.
pub(in crate::engine) fn json_type(content_type: Option<&str>) -> bool {
    let Some(content_type) = content_type else {
        return true;
    };
    let media = media_type(content_type);
    let subtype = media.split('/').nth(1).unwrap_or_default().as_bytes();
    subtype.eq_ignore_ascii_case(b"json")
        || subtype.len() > 5 && subtype[subtype.len() - 5..].eq_ignore_ascii_case(b"+json")
}

/// Whether the content type names text that this build reads: JSON or text, in UTF-8.
pub(in crate::engine) fn readable(content_type: Option<&str>) -> bool {
    let Some(content_type) = content_type else {
        return true;
    };
    let charset = content_type.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches('"'))
    });
    let utf8 = charset
        .is_none_or(|charset| ["utf-8", "utf8", "us-ascii"].iter().any(|known| charset.eq_ignore_ascii_case(known)));
    utf8 && (json_type(Some(content_type)) || starts_with(media_type(content_type), "text/"))
}

/// Whether the content type says that the data are server-sent events.
pub fn event_stream(content_type: Option<&str>) -> bool {
    content_type.is_some_and(|t| media_type(t).eq_ignore_ascii_case("text/event-stream"))
}

/// Without case, at a character boundary.
pub(in crate::engine) fn starts_with(text: &str, prefix: &str) -> bool {
    text.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}
