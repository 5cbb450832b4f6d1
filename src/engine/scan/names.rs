//! Names as a reader takes them: what looks alike is alike.
//!
//! Compatibility forms are composed, case and separators are gone, invisible characters too, and letters that
//! look like Latin ones are those. The table holds what renders the same in common typefaces (Cyrillic, Greek,
//! Armenian, full Latin look-alikes), after Unicode's confusables; a name in another script stays itself.

use unicode_normalization::UnicodeNormalization;

/// Letters that look like the Latin letter before them.
const ALIKE: [(char, &str); 26] = [
    ('a', "аαａɑ"),
    ('b', "ЬьƄ"),
    ('c', "сϲⅽ"),
    ('d', "ԁⅾɗ"),
    ('e', "еҽε℮"),
    ('f', "ƒ"),
    ('g', "ɡց"),
    ('h', "һհ"),
    ('i', "іιıɩ1l|!"),
    ('j', "јϳ"),
    ('k', "κкⲕ"),
    ('l', ""),
    ('m', "мⅿ"),
    ('n', "ոп"),
    ('o', "оοօ0σ"),
    ('p', "рρ"),
    ('q', "ԛգ"),
    ('r', "гᴦ"),
    ('s', "ѕꜱ"),
    ('t', "тτ"),
    ('u', "υսᴜ"),
    ('v', "νѵⅴ"),
    ('w', "ԝѡ"),
    ('x', "хχⅹ×"),
    ('y', "уγү"),
    ('z', "ᴢ"),
];

/// What a name looks like. Names that look alike have the same.
pub fn skeleton(name: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(name);
    let mut out = String::with_capacity(text.len());
    let letters = text.nfkd().flat_map(char::to_lowercase).flat_map(|c| c.to_string().nfkd().collect::<Vec<_>>());
    for c in letters {
        let seen = c.is_alphanumeric() || matches!(c, '|' | '!');
        if seen && !super::invisible::is_combining(c) {
            let alike = ALIKE.iter().find(|(_, alike)| alike.contains(c));
            out.push(alike.map_or(c, |(latin, _)| *latin));
        }
    }
    // A name of nothing else is itself.
    if out.is_empty() { name.to_vec() } else { out.into_bytes() }
}

/// Whether a name can hardly be an ordinary word of a sentence: it has parts.
pub fn is_distinctive(name: &[u8]) -> bool {
    let inner = name.get(1..name.len().saturating_sub(1)).unwrap_or_default();
    let humped = name.windows(2).any(|pair| matches!(pair, [a, b] if a.is_ascii_lowercase() && b.is_ascii_uppercase()));
    name.len() >= 5 && (inner.iter().any(|b| b"_-./:".contains(b)) || humped)
}

/// The words of a text that can be names of tools.
pub fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let split = text.split(|b| !(b.is_ascii_alphanumeric() || b"_-./:".contains(b) || !b.is_ascii()));
    split.map(|word| {
        let end = word.iter().rposition(|b| !b"-./:".contains(b)).map_or(0, |at| at + 1);
        let start = word.iter().position(|b| !b"-./:".contains(b)).unwrap_or(0);
        word.get(start..end.max(start)).unwrap_or_default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_alike_is_alike() {
        for (a, b) in [
            ("send_mail", "sendMail"),
            ("send_mail", "send-mail"),
            ("send_mail", "ѕend_mаil"),
            ("send_mail", "send\u{200b}_mail"),
            ("send_mail", "ｓｅｎｄ＿ｍａｉｌ"),
            ("list_files", "1ist_files"),
            ("read", "réad"),
        ] {
            assert_eq!(skeleton(a.as_bytes()), skeleton(b.as_bytes()), "{a} {b}");
        }
        assert_ne!(skeleton(b"read_file"), skeleton(b"read_files"));
        assert_ne!(skeleton("删除".as_bytes()), skeleton("搜索".as_bytes()));
        assert_ne!(skeleton(b"__"), skeleton(b"--"));
    }

    #[test]
    fn words_and_distinctive_ones() {
        let found: Vec<_> = words(b"Before `send_mail`, call docs/read-file: it...").collect();
        assert!(found.contains(&&b"send_mail"[..]) && found.contains(&&b"docs/read-file"[..]), "{found:?}");
        assert!(found.contains(&&b"it"[..]));
        for (name, distinctive) in
            [("send_mail", true), ("sendMail", true), ("search", false), ("a_b", false), ("delete", false)]
        {
            assert_eq!(is_distinctive(name.as_bytes()), distinctive, "{name}");
        }
    }
}
