//! What stands around a bid and makes it less than one: whose words are put aside, on what condition, and where
//! something else is named by the same words.
//!
//! Invariant: what is looked at lies in the sentence, so that a sentence in a fence scores as it did before.

use super::{Hit, Kind, Range, View};
use crate::engine::scan::injection::phrases::Mark;

/// The most that a bid to ignore scores that holds on a condition, or is about a third one's words: it is fenced.
const SOFTENED: u32 = 60;
/// Bytes around an object in which it is said whose it is.
const WHOSE: usize = 40;

/// Of the one who writes, in the languages of the phrases.
const OWN: &[&str] = &[
    "my", "our", "mein", "meine", "meiner", "meinen", "meinem", "unsere", "unseren", "unserer", "mon", "ma", "mes",
    "notre", "nos", "mi", "mis", "nuestra", "nuestro", "nuestras", "nuestros", "mio", "mia", "miei", "mie", "nostra",
    "nostro", "meu", "minha", "meus", "minhas", "mijn", "onze",
];
/// What people send each other.
const LETTERS: &[&str] = &[
    "email",
    "emails",
    "e-mail",
    "e-mails",
    "mail",
    "mails",
    "letter",
    "letters",
    "comment",
    "comments",
    "ticket",
    "note",
    "notes",
    "invoice",
    "voicemail",
    "reply",
    "post",
    "nachricht",
    "brief",
    "kommentar",
    "courriel",
    "lettre",
    "correo",
    "carta",
    "lettera",
];
/// Whose instructions people get besides a model's.
const OTHERS: &[&str] = &[
    "doctor",
    "physician",
    "nurse",
    "dentist",
    "pharmacist",
    "teacher",
    "manufacturer",
    "landlord",
    "arzt",
    "arztin",
    "lehrer",
    "apotheker",
    "hersteller",
    "medecin",
    "fabricant",
    "medico",
    "profesor",
    "dokter",
];
/// Conditions of a manual; `if you are an ai` is none.
const CONDITIONS: &[&str] = &[
    "if you already",
    "if you have already",
    "if you've already",
    "if you have installed",
    "if you've installed",
    "if you installed",
    "if you are upgrading",
    "if you're upgrading",
    "unless you ",
];
/// Words before a noun.
const DETERMINERS: &[&str] = &[
    "the", "this", "that", "any", "all", "its", "their", "his", "her", "my", "no", "previous", "prior", "last", "of",
    "command", "standard", "error", "debug",
];

/// What of the writer's own is put aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Own {
    Letter,
    Other,
}

/// Whether a scope is said of what is the writer's own: `my previous email`, `mi correo anterior`.
pub(super) fn own(view: &View, sentence: &Range<usize>, scope: Hit) -> Option<Own> {
    let before = view.text.get(sentence.start..scope.start)?;
    // A stem may end within the word.
    let behind = view.text.get(scope.end..sentence.end)?.trim_start_matches(char::is_alphanumeric);
    let mut words = before.split_whitespace().rev();
    let (last, second) = (words.next()?, words.next().unwrap_or_default());
    if !OWN.contains(&last) && !OWN.contains(&second) {
        return None;
    }
    let is_letter = LETTERS.contains(&last) || LETTERS.contains(&word(behind));
    Some(if is_letter { Own::Letter } else { Own::Other })
}

/// The most that a bid to ignore may score in this sentence.
pub(super) fn most(
    view: &View,
    sentence: &Range<usize>,
    verb: Option<(Hit, bool)>,
    object: Option<(Hit, bool)>,
) -> u32 {
    let said = view.text.get(sentence.clone()).unwrap_or_default();
    let whose = verb.zip(object).and_then(|((verb, _), (object, _))| {
        let mut end = sentence.end.min(object.end + WHOSE);
        while !view.text.is_char_boundary(end) {
            end -= 1;
        }
        view.text.get(verb.end..end)
    });
    let of_others = || {
        let mut words = whose.unwrap_or_default().split(|c: char| !c.is_alphanumeric());
        words.any(|word| OTHERS.iter().any(|other| word.starts_with(other)))
    };
    let is_softened = CONDITIONS.iter().any(|condition| said.contains(condition)) || of_others();
    if is_softened { SOFTENED } else { u32::MAX }
}

/// `Ignoriere die Anweisungen des Arztes nicht`: turned around at the end of its clause.
pub(super) fn turned_behind(view: &View, sentence: &Range<usize>, verb: Hit) -> bool {
    let said = view.text.get(verb.start..verb.end).unwrap_or_default();
    if !["ignorier", "missacht", "vergiss", "vergessen", "negeer", "vergeet"].iter().any(|stem| said.starts_with(stem))
    {
        return false;
    }
    let clause = view.text.get(verb.end..sentence.end).unwrap_or_default();
    let clause = clause.trim_end_matches(|c: char| !c.is_alphanumeric());
    let Some(clause) = clause.strip_suffix(" nicht").or_else(|| clause.strip_suffix(" niet")) else { return false };
    let parts = clause.split(' ').any(|word| {
        matches!(word, "und" | "oder" | "sondern" | "aber" | "en" | "of" | "maar")
            || word.contains([',', ';', ':', '-', '(', '\u{2026}'])
    });
    !parts
}

/// A word that may be said and may be a thing: `ignoring the output`, `ignoring_line(cargo_output)`.
pub(super) fn names_a_thing(view: &View, verb: Hit, say: Hit) -> bool {
    let between = view.text.get(verb.end..say.start).unwrap_or_default();
    let joins = |at: Option<usize>| at.and_then(|at| view.text.as_bytes().get(at)) == Some(&b'_');
    let is_name = |hit: Hit| joins(hit.start.checked_sub(1)) || joins(Some(hit.end));
    let is_named = between.contains(' ') && (is_name(verb) || is_name(say));
    is_named || between.split_whitespace().next_back().is_some_and(|word| DETERMINERS.contains(&word))
}

/// `ignore the previous output of the command`: the output is ignored, and not the command.
pub(super) fn belongs_to(view: &View, verb: Option<(Hit, bool)>, object: Hit) -> bool {
    let between = verb.and_then(|(verb, _)| view.text.get(verb.end..object.start)).unwrap_or_default();
    let noun = [" of the ", " of this ", " of a ", " of each "].iter().find_map(|of| between.strip_suffix(of));
    let noun = noun.and_then(|noun| noun.split_whitespace().next_back());
    let parts = ["all", "any", "each", "every", "most", "rest", "some", "none", "both", "above"];
    noun.is_some_and(|noun| !parts.contains(&noun))
}

/// A phrase that means something else here.
pub(super) fn is_harmless(view: &View, sentence: &Range<usize>, hit: Hit) -> bool {
    let said = view.text.get(hit.start..hit.end).unwrap_or_default();
    let behind = view.text.get(hit.end..sentence.end).unwrap_or_default();
    match hit.mark {
        Mark::Alone(Kind::OverridePhrase, _) if said.ends_with("my previous") => LETTERS.contains(&word(behind)),
        Mark::Alone(Kind::OverridePhrase, _) if said == "forget everything" => {
            matches!(word(behind), "we" | "i" | "they")
        }
        // `you must call close()`: of an interface, whose functions take nothing.
        Mark::Alone(Kind::ModelOrder, _) if said == "you must call" => {
            let name = behind
                .trim_start_matches([' ', '`'])
                .trim_start_matches(|c: char| c.is_alphanumeric() || "_.:".contains(c));
            name.starts_with("()")
        }
        // The public half of a key.
        Mark::Alone(Kind::Exfiltration, _) | Mark::Secret => behind.starts_with(".pub"),
        _ => false,
    }
}

/// The word at the start.
fn word(text: &str) -> &str {
    text.trim_start().split(|c: char| !c.is_alphanumeric() && c != '-').next().unwrap_or_default()
}
