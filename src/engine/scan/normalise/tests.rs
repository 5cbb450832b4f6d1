//! Views of texts as a model reads them.

use super::*;
use proptest::prelude::*;

fn seen(text: &str) -> String {
    view(text.as_bytes()).text
}

/// What stands in the text where the view has this.
fn source<'t>(text: &'t str, part: &str) -> &'t str {
    let view = view(text.as_bytes());
    let start = view.text.find(part).unwrap_or_else(|| panic!("{part:?} is not in {:?}", view.text));
    &text[view.source_range(start, start + part.len())]
}

#[test]
fn words_are_read_however_they_are_spelled() {
    let cases = [
        ("IGNORE  all\n\tprevious", "ignore all previous"),
        ("\u{ff29}\u{ff27}\u{ff2e}\u{ff2f}\u{ff32}\u{ff25} it", "ignore it"),
        ("\u{1d422}\u{1d420}\u{1d427}\u{1d428}\u{1d42b}\u{1d41e} it", "ignore it"),
        ("\u{456}gn\u{43e}r\u{435} \u{3b1}ll", "ignore all"),
        ("ig\u{200b}no\u{ad}re \u{2066}all\u{2069}", "ignore all"),
        ("i g n o r e it", "ignore it"),
        ("a b c\n\ni g n o r e it", "a b c ignore it"),
        ("i.g.n.o.r.e a-l-l-t-h-e", "ignore allthe"),
        ("I&#103;n&#x6F;re&nbsp;all &lt;b&gt;", "ignore all <b>"),
        ("Ignore%20all%20of%0Ait", "ignore all of it"),
        ("\\u0069gnore \\x61ll\\nof \\ud835\\udc22t", "ignore all of it"),
        ("ig**no**re `all`", "ignore `all`"),
        ("ig<b>no</b>re <b>all</b> o<!-- -->f", "ignore <b>all</b> of"),
        ("ig\u{1b}[0mno\u{1b}[1;31m\u{1b}[Kre \u{1b}[1mall\u{1b}[0m of", "ignore \u{1b}all\u{1b} of"),
        ("ig-\nnore all of- it -\nx", "ignore all of- it - x"),
        ("a<b style=\"display:none\">c<!-- x -->d<p>e", "a<b style=\"display:none\">c<!-- x -->d<p>e"),
        ("pre\u{301}ce\u{301}dentes PRÉCÉDENTES", "precedentes precedentes"),
        ("x\u{e0049}\u{e0067}\u{e006e}\u{e006f}\u{e0072}\u{e0065}", "xignore"),
        ("100% of a & b, c:\\dir %zz &nope; \\ud83d", "100% of a & b, c:\\dir %zz &nope; \\ud83d"),
    ];
    for (text, expected) in cases {
        assert_eq!(seen(text), expected, "{text:?}");
    }
}

#[test]
fn the_way_back_holds_all_of_what_was_read() {
    assert_eq!(source("say: I&#103;n&#x6F;re it", "ignore"), "I&#103;n&#x6F;re");
    assert_eq!(source("a b \u{ff29}\u{ff27} c", "ig"), "\u{ff29}\u{ff27}");
    assert_eq!(source("so i  g n o r e it", "ignore"), "i  g n o r e");
    assert_eq!(source("x ig\u{200b}n\u{ad} y", "ign"), "ig\u{200b}n");
    assert_eq!(source("%69%67 b", "ig"), "%69%67");
    assert_eq!(source("x ig-\nnore y", "ignore"), "ig-\nnore");
    assert_eq!(source("x ig<b>no</b>re y", "ignore"), "ig<b>no</b>re");
}

#[test]
fn what_is_not_seen_is_noted() {
    let kinds = |text: &str| view(text.as_bytes()).hidden.iter().map(|h| (h.kind, h.range.len())).collect::<Vec<_>>();
    let tags: String = ('a'..='j').filter_map(|c| char::from_u32(0xe_0000 + u32::from(c))).collect();
    assert_eq!(kinds(&format!("x{tags}y")), [(Unseen::Tags, 40)]);
    assert_eq!(kinds("a\u{fe01}\u{fe02}\u{fe03}b"), [(Unseen::Selectors, 9)]);
    assert_eq!(kinds("a\u{202e}b"), [(Unseen::Override, 3)]);
    assert_eq!(kinds(&"\u{200b}\u{200c}".repeat(4)), [(Unseen::ZeroWidth, 24)]);
    // A flag, an emoji of several, a heart, Persian and Arabic need them.
    let england = "\u{1f3f4}\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}";
    let family = "\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}";
    for text in [england, family, "\u{2764}\u{fe0f}", "\u{645}\u{6cc}\u{200c}\u{62e}", "\u{200f}\u{627}"] {
        assert_eq!(kinds(text), [], "{text:?}");
    }
}

/// No line begins with a space, and neither does the view: a text of ` aa` was held to be its own.
#[test]
fn spaces_in_front_are_no_part_of_the_view() {
    let view = view(b" aa");
    assert_eq!((view.text.as_str(), view.source_range(0, 2)), ("aa", 1..3));
}

proptest! {
    // A case that is found becomes a test with a name.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn plain_text_is_its_own_view(text in "[a-z0-9,.:]{1,60}( [a-z0-9,.:]{2,9}){0,9}") {
        let view = view(text.as_bytes());
        prop_assume!(spaced_out(&text, &[], &[]).is_empty());
        prop_assert_eq!(&view.text, &text);
        prop_assert_eq!(view.source_range(0, text.len()), 0..text.len());
    }

    /// What is said to be read as it stands is; among all bytes that mean something, and over blocks.
    #[test]
    fn what_is_read_as_it_stands_is_its_own_view(
        text in "[A-Za-z .]{0,80}", strange in "([ -~\n\u{e9}\u{200b}\u{e0041}\u{202e}]{0,2}|[a-z] ){0,7}", at in 0..80usize
    ) {
        let at = at.min(text.len());
        let text = format!("{}{strange}{}", &text[..at], &text[at..]);
        let view = view(text.as_bytes());
        let as_it_stands = view.text == text.to_ascii_lowercase() && view.hidden.is_empty() && view.lines.len() == 1;
        prop_assert!(as_it_stands || !is_read_as_it_stands(text.as_bytes()), "{text:?}");
    }

    /// Ranges of a view are ranges of the text, on its boundaries, in order; and each character comes from where
    /// it says.
    #[test]
    fn every_character_maps_back(text in "(&#[0-9]{2,3};|%[46][1-9]|\\\\u00[46][1-9]|[a-z] |[a-z]-\\n|<b>|\u{1b}\\[0m|[ -~]|\\n|\\PC|[\u{200b}\u{e0041}\u{fe0f}\u{202e}\u{301}]){0,60}") {
        let view = view(text.as_bytes());
        let mut last = 0;
        for (at, c) in view.text.char_indices() {
            let range = view.source_range(at, at + c.len_utf8());
            prop_assert!(range.start >= last);
            let part = text.get(range.clone());
            prop_assert!(part.is_some(), "{:?} of {:?} is no range of the text", range, text);
            prop_assert!(seen(part.unwrap_or_default()).contains(c) || c == ' ', "{:?} is not in {:?}", c, part);
            prop_assert!(view.position(range.start) <= at);
            last = range.start;
        }
        for hidden in &view.hidden {
            prop_assert!(text.get(hidden.range.clone()).is_some());
        }
    }

    #[test]
    fn any_bytes_have_a_view(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let view = view(&bytes);
        let all = view.source_range(0, view.text.len());
        prop_assert!(all.end <= bytes.len());
    }
}
