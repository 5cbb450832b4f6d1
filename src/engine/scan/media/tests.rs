//! Files by their first bytes, types by their names, pictures by their heads.

use super::*;

fn head_of_png(width: u32, height: u32) -> Vec<u8> {
    [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", &width.to_be_bytes()[..], &height.to_be_bytes()[..], b"\x08\x06\0\0\0"].concat()
}

#[test]
fn files_are_told_by_how_they_begin() {
    let cases: [(&[u8], Option<FileType>); 27] = [
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", Some(FileType::Png)),
        (b"\xff\xd8\xff\xe0\0\x10JFIF", Some(FileType::Jpeg)),
        (b"RIFF\0\0\0\0WEBPVP8 ", Some(FileType::Webp)),
        (b"RIFF\0\0\0\0WAVEfmt ", Some(FileType::Wav)),
        (b"RIFF\0\0\0\0AVI LIST", None),
        (b"BM\x36\0\0\0\0\0\0\0", Some(FileType::Bmp)),
        (b"BMW is a car", Some(FileType::Text)),
        (b"MZ\x90\0\x03\0\0\0", Some(FileType::Program)),
        (b"MZ is short for a name", Some(FileType::Text)),
        (b"%PDF-1.7\n%\xe2\xe3", Some(FileType::Pdf)),
        (b"\0\0\0junk%PDF-1.7", Some(FileType::Pdf)),
        (b"PK\x03\x04", Some(FileType::Zip)),
        (b"\0\0\0\x20ftypavif", Some(FileType::Heif)),
        (b"\0\0\0\x20ftypisom", Some(FileType::Mp4)),
        (b"\x7fELF\x02\x01", Some(FileType::Program)),
        (b"<svg onload=x>", Some(FileType::Svg)),
        (b"<?xml version='1.0'?><!-- a --><SVG>", Some(FileType::Svg)),
        (b"\xef\xbb\xbf  <!doctype HTML><title>x", Some(FileType::Html)),
        (b"<!-- a --> <script>x</script>", Some(FileType::Html)),
        (b"<?xml version='1.0'?><rows/>", Some(FileType::Xml)),
        (b"<3 this", Some(FileType::Text)),
        (b"<<\xf0\x9f", Some(FileType::Text)),
        ("grüße".as_bytes(), Some(FileType::Text)),
        (b"gr\xfc\xdfe", None),
        (b"a\0b", None),
        (b"\xff\xfea\0b\0", None),
        (b"", None),
    ];
    for (bytes, wanted) in cases {
        assert_eq!(found(bytes), wanted, "{}", String::from_utf8_lossy(bytes));
    }
}

#[test]
fn one_type_has_many_names() {
    let cases: [(&str, Option<FileType>); 18] = [
        ("image/png", Some(FileType::Png)),
        ("IMAGE/JPG", Some(FileType::Jpeg)),
        (" image/jpeg ; q=1", Some(FileType::Jpeg)),
        ("image/svg+xml;charset=utf-8", Some(FileType::Svg)),
        ("text/plain", Some(FileType::Text)),
        ("text/html", Some(FileType::Html)),
        ("application/json", Some(FileType::Text)),
        ("application/problem+json", Some(FileType::Text)),
        ("application/atom+xml", Some(FileType::Xml)),
        ("audio/mpeg", Some(FileType::Mp3)),
        ("video/mpeg", Some(FileType::Other)),
        ("audio/pcm;rate=24000", Some(FileType::Pcm)),
        ("wav", Some(FileType::Wav)),
        ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", Some(FileType::Zip)),
        ("application/x-unheard-of", Some(FileType::Other)),
        ("application/octet-stream", None),
        ("", None),
        ("image/*", None),
    ];
    for (name, wanted) in cases {
        assert_eq!(declared(name.as_bytes()), wanted, "{name}");
    }
    let names = [
        ("a.PDF", Some(FileType::Pdf)),
        ("a.tar.gz", Some(FileType::Gzip)),
        ("notes.md", Some(FileType::Text)),
        ("file:///x/a.png", Some(FileType::Png)),
        ("https://example.com/a?b=c.d/e", None),
        (".png", None),
        ("png", None),
        ("a.unheard", None),
    ];
    for (name, wanted) in names {
        assert_eq!(named(name.as_bytes()), wanted, "{name}");
    }
}

#[test]
fn what_is_declared_has_to_be_found() {
    use FileType::{Html, Jpeg, Mp3, Other, Pcm, Pdf, Png, Svg, Text, Xml, Zip};
    for (declared, found) in [
        (Png, Some(Png)),
        (Text, Some(Html)),
        (Text, None),
        (Xml, Some(Svg)),
        (Mp3, None),
        (Pcm, None),
        (Other, Some(Zip)),
    ] {
        assert!(agrees(declared, found), "{declared:?} {found:?}");
    }
    for (declared, found) in [
        (Png, Some(Jpeg)),
        (Png, None),
        (Svg, Some(Html)),
        (Svg, Some(Text)),
        (Text, Some(Png)),
        (Png, Some(Text)),
        (Zip, Some(Pdf)),
    ] {
        assert!(!agrees(declared, found), "{declared:?} {found:?}");
    }
    assert_eq!(settled(Some(Png), Some(Pdf)), Pdf);
    assert_eq!(settled(Some(Text), Some(Html)), Text);
    assert_eq!(settled(Some(Text), None), Other);
    assert_eq!(settled(None, Some(Svg)), Svg);
    assert_eq!(settled(None, None), Other);
}

#[test]
fn pictures_say_how_large_they_are() {
    assert_eq!(pixels(FileType::Png, &head_of_png(30_000, 2)), Some(60_000));
    assert_eq!(pixels(FileType::Png, &head_of_png(u32::MAX, u32::MAX)), Some(u64::from(u32::MAX).pow(2)));
    assert_eq!(pixels(FileType::Png, &head_of_png(1, 1)[..20]), None);
    assert_eq!(pixels(FileType::Gif, b"GIF89a\x02\0\x03\0"), Some(6));
    let jpeg = b"\xff\xd8\xff\xe1\0\x04ab\xff\xff\xc4\0\x03x\xff\xc2\0\x0b\x08\0\x05\0\x07\x03";
    assert_eq!(pixels(FileType::Jpeg, jpeg), Some(35));
    assert_eq!(pixels(FileType::Jpeg, b"\xff\xd8\xff\xe1\xff\xffab"), None);
    assert_eq!(pixels(FileType::Jpeg, b"\xff\xd8\xff\xda\0\x02"), None);
    let bmp = [&b"BM"[..], &[0; 16], &7u32.to_le_bytes(), &(-5i32).to_le_bytes()].concat();
    assert_eq!(pixels(FileType::Bmp, &bmp), Some(35));
    let webp = |chunk: &[u8], rest: &[u8]| [b"RIFF\0\0\0\0WEBP", chunk, b"\0\0\0\0", rest].concat();
    assert_eq!(pixels(FileType::Webp, &webp(b"VP8X", b"\0\0\0\0\x06\0\0\x04\0\0")), Some(35));
    assert_eq!(pixels(FileType::Webp, &webp(b"VP8L", &[0x2f, 0x06, 0x00, 0x01, 0x00])), Some(35));
    assert_eq!(pixels(FileType::Webp, &webp(b"VP8 ", b"\0\0\0\x9d\x01\x2a\x07\0\x05\0")), Some(35));
    assert_eq!(pixels(FileType::Pdf, b"%PDF-"), None);
}

#[test]
fn base64_is_read_as_lax_readers_do() {
    let read = |text: &str| (beginning(text.as_bytes()), length(text.as_bytes()));
    assert_eq!(read("aGVsbG8="), (b"hello".to_vec(), 5));
    assert_eq!(read("aGVsbG8"), (b"hello".to_vec(), 5));
    assert_eq!(read("aGVs\r\nbG8=\n"), (b"hello".to_vec(), 5));
    assert_eq!(read("_-8"), (vec![0xff, 0xef], 2));
    assert_eq!(read("aGVsbG8...[cut]"), (b"hello".to_vec(), 11));
    assert_eq!(read("aGV=sbG8="), (b"he".to_vec(), 6));
    assert_eq!(read("%aGVsbG8=").0, b"");
    assert_eq!(read(""), (Vec::new(), 0));
    assert_eq!(read("i"), (Vec::new(), 0));
    let (bytes, whole) = read(&"QUFB".repeat(PREFIX));
    assert_eq!((bytes.len(), whole), (PREFIX / 4 * 3, PREFIX as u64 * 3));
}

#[test]
fn names_are_unique_and_read_back() {
    for kind in FileType::ALL {
        assert_eq!(FileType::from_name(kind.name()), Some(kind));
    }
}
