//! What the names of types say: media types, formats, endings of file names.

use super::FileType;

/// The type that a media type (`image/png; q=1`) or a format (`wav`) names. `None`: it says nothing.
pub fn declared(name: &[u8]) -> Option<FileType> {
    let name = name.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii().to_ascii_lowercase();
    let name = std::str::from_utf8(&name).unwrap_or("?");
    let (family, rest) = name.split_once('/').unwrap_or(("", name));
    Some(match (family, rest) {
        (_, "" | "*" | "octet-stream" | "unknown" | "x-unknown") => return None,
        (_, "png" | "x-png" | "apng") => FileType::Png,
        (_, "jpeg" | "jpg" | "pjpeg") => FileType::Jpeg,
        (_, "gif") => FileType::Gif,
        (_, "webp") => FileType::Webp,
        (_, "bmp" | "x-bmp" | "x-ms-bmp") => FileType::Bmp,
        (_, "tiff" | "tif") => FileType::Tiff,
        (_, "heic" | "heif" | "avif" | "heic-sequence" | "heif-sequence") => FileType::Heif,
        (_, "x-icon" | "vnd.microsoft.icon" | "ico") => FileType::Icon,
        (_, "svg+xml" | "svg") => FileType::Svg,
        (_, "pdf" | "x-pdf") => FileType::Pdf,
        (_, "html" | "xhtml+xml" | "htm" | "xhtml") => FileType::Html,
        (_, "wav" | "x-wav" | "wave" | "vnd.wave") => FileType::Wav,
        (_, "mp3" | "mpeg3" | "x-mp3") | ("audio", "mpeg") => FileType::Mp3,
        (_, "aac" | "x-aac" | "aacp") => FileType::Aac,
        (_, "flac" | "x-flac") => FileType::Flac,
        (_, "ogg" | "opus" | "oga" | "ogv") => FileType::Ogg,
        (_, "pcm" | "l16" | "pcm16" | "x-raw") => FileType::Pcm,
        (_, "mp4" | "quicktime" | "x-m4a" | "m4a" | "3gpp" | "mov" | "x-m4v") => FileType::Mp4,
        (_, "webm" | "x-matroska" | "mkv") => FileType::Webm,
        (_, "gzip" | "x-gzip" | "gz" | "tgz") => FileType::Gzip,
        (_, "zip" | "x-zip-compressed" | "epub+zip" | "java-archive" | "docx" | "xlsx" | "pptx" | "epub" | "jar") => {
            FileType::Zip
        }
        (_, "x-msdownload" | "x-msdos-program" | "x-executable" | "x-elf" | "wasm" | "exe" | "dll" | "so") => {
            FileType::Program
        }
        (_, rest) if rest.starts_with("vnd.openxmlformats-") || rest.starts_with("vnd.oasis.opendocument") => {
            FileType::Zip
        }
        (_, "json" | "x-ndjson" | "jsonl" | "yaml" | "x-yaml" | "yml" | "toml" | "javascript" | "sql") => {
            FileType::Text
        }
        (_, "txt" | "csv" | "tsv" | "md" | "log" | "py" | "rs" | "js" | "ts") => FileType::Text,
        (_, rest) if rest.ends_with("+json") => FileType::Text,
        (_, rest) if rest == "xml" || rest.ends_with("+xml") => FileType::Xml,
        ("text", _) => FileType::Text,
        _ => FileType::Other,
    })
}

/// The type that a file's name ends with. `None`: the ending says nothing.
pub fn named(name: &[u8]) -> Option<FileType> {
    let mut pieces = name.rsplitn(2, |byte| *byte == b'.');
    let (ending, stem) = (pieces.next()?, pieces.next()?);
    let plain = !stem.is_empty() && ending.iter().all(u8::is_ascii_alphanumeric);
    declared(ending).filter(|found| plain && *found != FileType::Other)
}
