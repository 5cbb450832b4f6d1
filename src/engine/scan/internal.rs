//! What an error tells of the machine that it happened on: absolute paths, home directories, names and addresses of
//! its network.
//!
//! Paths are told by the directories that operating systems have, or by a source's place (`/x/y.rb:12`), so that the
//! path of an address on the web is none. Names that somebody could use in prose (`threading.local`, `db:5432`) count
//! only where a connection is spoken of.
//!
//! Invariants: one walk; what may stand before a path ends the one before it, and hosts are looked for within a
//! bounded distance, so that it is linear; ranges are in order and apart.
//!
//! Source: RFC 1918, RFC 4193, RFC 6598, RFC 3927 and RFC 6762 for addresses and names.

mod hosts;

/// What was found. Offsets are bytes of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    pub kind: Kind,
    pub start: usize,
    pub end: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Path,
    Host,
}

/// The first directories of paths that machines have.
const ROOTS: [&str; 40] = [
    "Applications",
    "Library",
    "System",
    "Users",
    "Volumes",
    "app",
    "apps",
    "bin",
    "boot",
    "build",
    "builds",
    "code",
    "data",
    "deploy",
    "dev",
    "etc",
    "github",
    "go",
    "home",
    "lib",
    "lib64",
    "media",
    "mnt",
    "nix",
    "opt",
    "private",
    "proc",
    "project",
    "root",
    "rustc",
    "sbin",
    "snap",
    "src",
    "srv",
    "sys",
    "tmp",
    "usr",
    "var",
    "workspace",
    "workspaces",
];

/// Extensions of sources, for paths whose directories say nothing.
const SOURCES: [&str; 24] = [
    "c", "cc", "cpp", "cs", "dart", "ex", "go", "h", "hpp", "java", "js", "jsx", "kt", "lua", "mjs", "php", "pl", "py",
    "rb", "rs", "scala", "swift", "ts", "tsx",
];

/// Paths and hosts of a text, in order.
pub fn find(text: &[u8]) -> Vec<Found> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        let end = match byte {
            b'/' => unix(text, at).map(|end| (Kind::Path, end)),
            b'~' => home(text, at).map(|end| (Kind::Path, end)),
            b'\\' => unc(text, at).map(|end| (Kind::Path, end)),
            b':' if is_edge(text, at) => hosts::address(text, at).map(|end| (Kind::Host, end)),
            b if b.is_ascii_alphanumeric() && is_edge(text, at) => {
                let path = windows(text, at).map(|end| (Kind::Path, end));
                path.or_else(|| hosts::find(text, at).map(|end| (Kind::Host, end)))
            }
            _ => None,
        };
        match end {
            Some((kind, end)) => {
                found.push(Found { kind, start: at, end });
                at = end.max(at + 1);
            }
            None => at = after(text, at),
        }
    }
    found
}

/// Where the next place to look at is: behind the word that stands here.
fn after(text: &[u8], at: usize) -> usize {
    let word = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
    let rest = text.get(at..).unwrap_or_default();
    at + rest.iter().take_while(|b| word(b)).count().max(1)
}

/// No word goes on over this place.
fn is_edge(text: &[u8], at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|at| text.get(at));
    before.is_none_or(|b| !b.is_ascii_alphanumeric() && !matches!(b, b'_' | b'-' | b'.' | 0x80..))
}

/// What ends a path.
fn ends_path(b: u8) -> bool {
    b.is_ascii_whitespace() || b.is_ascii_control() || b"\"'`<>|(){}[],;*?:!=&#".contains(&b)
}

/// The end of a path that goes on from here, its line and column included.
fn path_end(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    let mut length = rest.iter().take_while(|b| !ends_path(**b)).count();
    while length > 0 && rest.get(length - 1).is_some_and(|b| *b == b'.') {
        length -= 1;
    }
    let mut end = at + length;
    for _ in 0..2 {
        let number = text.get(end + 1..).unwrap_or_default().iter().take(9).take_while(|b| b.is_ascii_digit()).count();
        if text.get(end) == Some(&b':') && number > 0 {
            end += 1 + number;
        }
    }
    end
}

fn unix(text: &[u8], at: usize) -> Option<usize> {
    let before = text.get(..at).unwrap_or_default();
    let edge = match before.last() {
        None => true,
        Some(b) if b.is_ascii_whitespace() || b"\"'`<>|({[,;=:".contains(b) => true,
        Some(b'/') => before.ends_with(b"file://"),
        Some(_) => false,
    };
    // `https://…` is an address.
    if !edge || (text.get(at + 1) == Some(&b'/')) {
        return None;
    }
    let end = path_end(text, at);
    let path = text.get(at + 1..end)?;
    let path = path.split(|b| *b == b':').next().unwrap_or_default();
    let mut segments = path.split(|b| *b == b'/').filter(|segment| !segment.is_empty());
    let first = segments.next()?;
    let deep = segments.next().is_some();
    let root = ROOTS.binary_search_by(|root| root.as_bytes().cmp(first)).is_ok();
    let placed = text.get(at + 1 + path.len()).is_some_and(|b| *b == b':') && end > at + 1 + path.len();
    let extension = path.rsplit(|b| *b == b'.').next().unwrap_or_default();
    let source = SOURCES.iter().any(|known| known.as_bytes() == extension);
    let quoted = text.get(end..).is_some_and(|rest| rest.starts_with(b"\", line ") || rest.starts_with(b" on line "));
    (deep && (root || (source && (placed || quoted)))).then_some(end)
}

fn home(text: &[u8], at: usize) -> Option<usize> {
    if text.get(at + 1) != Some(&b'/') || !is_edge(text, at) {
        return None;
    }
    let end = path_end(text, at + 1);
    (end > at + 2).then_some(end)
}

/// `C:\x`, `C:/x`.
fn windows(text: &[u8], at: usize) -> Option<usize> {
    let &[drive, b':', slash, first] = text.get(at..at + 4)? else { return None };
    let is_path = match slash {
        b'\\' => drive.is_ascii_alphabetic(),
        b'/' => drive.is_ascii_uppercase(),
        _ => false,
    };
    (is_path && (first.is_ascii_alphanumeric() || b"._%$".contains(&first))).then(|| with_spaces(text, at + 3))
}

/// `\\server\share`.
fn unc(text: &[u8], at: usize) -> Option<usize> {
    let rest = text.get(at..)?.strip_prefix(b"\\\\")?;
    let server = rest.iter().take(64).take_while(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b)).count();
    let share = rest.get(server + 1).is_some_and(u8::is_ascii_alphanumeric);
    (server > 0 && rest.get(server) == Some(&b'\\') && share && is_edge(text, at))
        .then(|| with_spaces(text, at + 3 + server))
}

/// The end of a path of Windows: a space belongs to it where a directory goes on behind it.
fn with_spaces(text: &[u8], at: usize) -> usize {
    const NEAR: usize = 48;
    let mut end = path_end(text, at);
    while text.get(end) == Some(&b' ') {
        let ahead = text.get(end + 1..).unwrap_or_default();
        let name = |b: &&u8| b.is_ascii_alphanumeric() || b"._-()".contains(b);
        let length = ahead.iter().take(NEAR).take_while(name).count();
        if length == 0 || ahead.get(length) != Some(&b'\\') {
            break;
        }
        end = path_end(text, end + 1 + length);
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(text: &str) -> String {
        let mut out = String::new();
        let mut at = 0;
        for found in find(text.as_bytes()) {
            out.push_str(&text[at..found.start]);
            out.push_str(if found.kind == Kind::Path { "<p>" } else { "<h>" });
            at = found.end;
        }
        out + &text[at..]
    }

    #[test]
    fn roots_are_in_order() {
        assert!(ROOTS.is_sorted() && SOURCES.is_sorted());
    }

    #[test]
    fn paths_of_machines() {
        for (text, want) in [
            ("open '/home/ada/app/x.py': no", "open '<p>': no"),
            ("at /srv/api/main.rb:12:in", "at <p>:in"),
            ("File \"/opt/x/y.py\", line 3", "File \"<p>\", line 3"),
            ("in /x/y/z.php on line 3", "in <p> on line 3"),
            ("see file:///Users/ada/x.js:1:2)", "see file://<p>)"),
            ("~/secret.txt and ~ada", "<p> and ~ada"),
            ("C:\\Users\\Ada Lovelace\\x.cs:line 4", "<p>:line 4"),
            ("C:\\Program Files\\A B\\c.dll failed", "<p> failed"),
            ("D:/build/x.c:3: error", "<p>: error"),
            ("on \\\\files-01\\share\\x now", "on <p> now"),
            ("no such file: /etc/passwd.", "no such file: <p>."),
        ] {
            assert_eq!(marked(text), want);
        }
    }

    #[test]
    fn what_is_no_path() {
        for text in [
            "GET /v1/users/42 is 404",
            "https://example.com/home/ada/x",
            "and/or /home",
            "either / or //comment/x",
            "a:/b is c",
            "application/json, text/plain",
            "1/2 of it ~ 3",
            "\\d+\\w",
        ] {
            assert_eq!(marked(text), text);
        }
    }

    #[test]
    fn hosts_of_a_network() {
        for (text, want) in [
            ("connect 10.0.0.5:5432 refused", "connect <h> refused"),
            ("http://192.168.1.20/x and 172.31.0.1", "http://<h>/x and <h>"),
            ("127.0.0.1, 169.254.169.254, 100.64.0.1", "<h>, <h>, <h>"),
            ("dial tcp [::1]:80 or fd00::12 or fe80::1", "dial tcp [<h>]:80 or <h> or <h>"),
            ("could not connect to db-01.internal", "could not connect to <h>"),
            ("http://grafana.corp/d", "http://<h>/d"),
            ("api.prod.svc.cluster.local is down", "<h> is down"),
            ("host redis-master:6379 timed out", "host <h> timed out"),
            ("postgres://u@pg:5432/x", "postgres://u@<h>/x"),
            ("http://localhost:8080", "http://<h>"),
            ("getaddrinfo ENOTFOUND kafka.lan", "getaddrinfo ENOTFOUND <h>"),
            ("version 10.2.0.7:80 and subversion_10 10.2.0.7", "version <h> and subversion_10 <h>"),
            ("release of 10.2.0.7", "release of <h>"),
        ] {
            assert_eq!(marked(text), want);
        }
    }

    #[test]
    fn what_is_no_host() {
        for text in [
            "8.8.8.8 and 172.32.0.1 and 11.0.0.1",
            "version 10.0.0.5.1",
            "version 10.2.0.7 is not supported",
            "firmware: 10.2.0.7, Version=10.2.0.7, build (192.168.0.12)",
            "threading.local is set",
            "com.example.internal.Foo",
            "error:404 at line:12",
            "ratio 3:45, a::b, std::vec",
            "example.com:443 could not connect",
            "2001:4860:4860::8888",
            "time 12:30:45",
        ] {
            assert_eq!(marked(text), text);
        }
    }
}
