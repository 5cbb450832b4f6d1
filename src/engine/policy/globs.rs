//! Names of tools as an operator writes them: `*` stands for any run of characters.

use super::OptionsProblem;

/// The most patterns of one option, and the longest, bytes.
const MOST: usize = 256;
const MOST_BYTES: usize = 128;

/// Whether any of the patterns means this name.
pub(super) fn matches(patterns: &[String], name: &[u8]) -> bool {
    patterns.iter().any(|pattern| glob(pattern.as_bytes(), name))
}

/// What an option of patterns cannot be.
pub(super) fn problems(path: &str, patterns: &[String]) -> Vec<OptionsProblem> {
    let mut found = Vec::new();
    let mut say = |path: String, problem: String| found.push(OptionsProblem { path, problem });
    if patterns.len() > MOST {
        say(path.to_owned(), format!("{} patterns are more than {MOST}", patterns.len()));
    }
    for (n, pattern) in patterns.iter().enumerate() {
        if !(1..=MOST_BYTES).contains(&pattern.len()) {
            say(format!("{path}.{n}"), format!("{} bytes are not between 1 and {MOST_BYTES}", pattern.len()));
        } else if let Some(problem) = no_glob(pattern) {
            say(format!("{path}.{n}"), problem);
        }
    }
    found
}

/// Why no name is meant by this pattern: it is written in another language, or with blanks around it.
pub(super) fn no_glob(pattern: &str) -> Option<String> {
    let regex = pattern.starts_with('^') || pattern.ends_with('$') || pattern.contains(['|', '\\', '{', '}']);
    let slashes = pattern.len() > 1 && pattern.starts_with('/') && pattern.ends_with('/');
    let why = match () {
        () if pattern.contains('?') => "`?` is read as no pattern, only `*` is",
        () if regex || slashes => "is read as no regular expression or list; only `*` is a pattern",
        () if pattern.trim() != pattern => "begins or ends with a blank, as no name does",
        () => return None,
    };
    Some(format!("{pattern:?}: {why}"))
}

/// What the name of one thing cannot be, where patterns are not read.
pub(super) fn no_name(path: &str, name: &str) -> Option<OptionsProblem> {
    let problem = match name {
        "" => "empty: names nothing".to_owned(),
        _ if name.contains(['*', '?']) || no_glob(name).is_some() => {
            format!("{name:?}: patterns are not read here; name each by itself")
        }
        _ => return None,
    };
    Some(OptionsProblem { path: path.to_owned(), problem })
}

/// Whether a pattern matches the whole of a name. Linear in the name for each of the pattern's bytes.
pub(super) fn glob(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    // Where the last star stood, and how much of the name it has taken.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(byte) if Some(byte) == name.get(n) => {
                p += 1;
                n += 1;
            }
            _ => {
                let Some((at, taken)) = star else { return false };
                star = Some((at, taken + 1));
                p = at + 1;
                n = taken + 1;
            }
        }
    }
    pattern.get(p..).unwrap_or_default().iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_any_run() {
        for (pattern, name, want) in [
            ("send_mail", "send_mail", true),
            ("send_mail", "send_mails", false),
            ("send_*", "send_", true),
            ("*_test*", "run_test_suite", true),
            ("*a*b", "xaab", true),
            ("*a*b", "xaba", false),
            ("*", "", true),
            ("", "x", false),
        ] {
            assert_eq!(matches(&[pattern.to_owned()], name.as_bytes()), want, "{pattern} {name}");
        }
        assert_eq!(problems("tools", &[String::new(), "a".repeat(129)]).len(), 2);
        assert_eq!(problems("tools", &vec!["a".to_owned(); 257]).len(), 1);
        for never in ["f?", "^f", "f$", "/f.*/", "a|b", "\\w+", "{a,b}", " f", "f\t"] {
            assert_eq!(problems("tools", &[never.to_owned()]).len(), 1, "{never:?}");
        }
        for name in ["f", "a.*", "mcp__files__*", "/srv/files", "a b", "[::1]:80", "get-*"] {
            assert_eq!(problems("tools", &[name.to_owned()]), [], "{name:?}");
        }
    }
}
