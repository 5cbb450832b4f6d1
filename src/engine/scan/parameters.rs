//! What the value of a parameter can do to those who put it into a path, a request, a statement, a command or a
//! template.
//!
//! An operator says what a parameter is ([`Kind`]); nothing is guessed from names. What is found are the characters
//! and forms by which a value becomes more than a value there, not proofs that somebody is attacked: a name such as
//! O'Brien has a quote.
//!
//! Invariants: linear in the text; one entry for each label, with the place of the first and how many there are; a
//! range lies on character boundaries and is missing where the text had to be decoded first.

mod address;
mod metacharacters;
mod path;

use serde::{Deserialize, Serialize};

/// What a parameter's value becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A file's place.
    Path,
    /// An address that something connects to.
    Url,
    /// Part of an SQL statement.
    Sql,
    /// Part of a shell's command line.
    Shell,
    /// Part of a template.
    Template,
}

/// What was found of one label, of a closed list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    pub label: &'static str,
    /// Of the first, bytes of the text.
    pub range: Option<(usize, usize)>,
    pub count: u64,
}

/// What a value of this kind should not hold, in the order in which it was met.
pub fn find(kind: Kind, text: &str) -> Vec<Found> {
    let mut finds = Finds::default();
    match kind {
        Kind::Path => path::find(text, &mut finds),
        Kind::Url => address::find(text, &mut finds),
        Kind::Sql => metacharacters::sql(text, &mut finds),
        Kind::Shell => metacharacters::shell(text, &mut finds),
        Kind::Template => metacharacters::template(text, &mut finds),
    }
    finds.found
}

#[derive(Default)]
struct Finds {
    found: Vec<Found>,
}

impl Finds {
    fn at(&mut self, label: &'static str, start: usize, end: usize) {
        self.add(label, Some((start, end)));
    }

    fn whole(&mut self, label: &'static str) {
        self.add(label, None);
    }

    fn add(&mut self, label: &'static str, range: Option<(usize, usize)>) {
        match self.found.iter_mut().find(|found| found.label == label) {
            Some(found) => found.count += 1,
            None => self.found.push(Found { label, range, count: 1 }),
        }
    }

    fn is_empty(&self) -> bool {
        self.found.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(kind: Kind, text: &str) -> String {
        find(kind, text).iter().map(|found| found.label).collect::<Vec<_>>().join(" ")
    }

    fn check(kind: Kind, cases: &[(&str, &str)]) {
        for (text, wanted) in cases {
            assert_eq!(labels(kind, text), *wanted, "{kind:?} {text:?}");
        }
    }

    #[test]
    fn paths() {
        check(
            Kind::Path,
            &[
                ("../etc/passwd", "parent"),
                ("a/../b", "parent"),
                ("a\\..\\..\\b", "parent"),
                ("/srv/data/..", "parent"),
                ("C:..\\x", "parent"),
                ("a/.. /b", "parent"),
                ("a/..;/b", "parent"),
                ("....//....//etc", "nested"),
                ("..././etc", "nested"),
                ("%2e%2e/x", "encoded"),
                ("%252e%252e%252fx", "encoded"),
                ("..%2fx", "encoded"),
                ("..%c0%afx", "encoded"),
                ("%u002e%u002e/x", "encoded"),
                ("a%00.png", "encoded"),
                ("a\0.png", "nul"),
                ("．．/x", "lookalike"),
                ("‥/x", "lookalike"),
                ("..∕x", "lookalike"),
                ("\\\\host\\share", "unc"),
                ("file:///etc/passwd", "scheme"),
                // What holds.
                ("src/main.rs", ""),
                ("/home/me/a b.txt", ""),
                ("./x", ""),
                ("a..b/c...d/...", ""),
                ("v1.0..v2.0", ""),
                ("100%/x%20y", ""),
                ("größe/日本.txt", ""),
                ("C:\\Users\\me\\x.txt", ""),
                ("", ""),
            ],
        );
    }

    #[test]
    fn addresses() {
        check(
            Kind::Url,
            &[
                ("http://localhost:8080/x", "loopback"),
                ("http://LOCALHOST./", "loopback"),
                ("http://app.localhost/", "loopback"),
                ("https://127.0.0.1/", "loopback"),
                ("http://127.1/", "loopback"),
                ("http://2130706433/", "loopback"),
                ("http://0x7f.0.0.1/", "loopback"),
                ("http://0177.0.0.1/", "loopback"),
                ("http://%31%32%37.0.0.1/", "loopback"),
                ("http://①②⑦.⓪.⓪.①/", "loopback"),
                ("http://[::1]/", "loopback"),
                ("http://[::ffff:127.0.0.1]/", "loopback"),
                ("http://[::ffff:7f00:1]/", "loopback"),
                ("http://[::127.0.0.1]/", "loopback"),
                ("http://[64:ff9b::7f00:1]/", "loopback"),
                ("http://[2002:7f00:1::]/", "loopback"),
                ("http://user@127.0.0.1#@example.com/", "loopback"),
                ("http:\\\\127.0.0.1\\x", "loopback"),
                ("http:127.0.0.1", "loopback"),
                ("//127.0.0.1/x", "loopback"),
                ("127.0.0.1:80/x", "loopback"),
                ("localhost:8080", "loopback"),
                (" http://127.0.0.1", "loopback"),
                ("ht\ntp://127.0.0.1", "loopback"),
                ("http://0.0.0.0/", "unspecified"),
                ("http://0/", "unspecified"),
                ("http://[::]/", "unspecified"),
                ("http://10.0.0.1/", "private"),
                ("http://172.31.0.1/", "private"),
                ("http://192.168.1.1/", "private"),
                ("http://100.64.0.1/", "private"),
                ("http://[fd12::1]/", "private"),
                ("http://169.254.1.1/", "link_local"),
                ("http://[fe80::1]/", "link_local"),
                ("http://169.254.169.254/latest/meta-data/", "metadata"),
                ("169.254.169.254/latest", "metadata"),
                ("http://[fd00:ec2::254]/", "metadata"),
                ("http://[::ffff:a9fe:a9fe]/", "metadata"),
                ("http://0xa9fea9fe/", "metadata"),
                ("http://metadata.google.internal/", "metadata"),
                ("http://100.100.100.200/", "metadata"),
                ("http://224.0.0.1/", "special"),
                ("http://db/", "internal_name"),
                ("http://api.default.svc.cluster.local/", "internal_name"),
                ("http://host.docker.internal:3000/", "internal_name"),
                ("http://127.0.0.1.nip.io/", "alias"),
                ("http://app.localtest.me/", "alias"),
                ("file:///etc/passwd", "scheme"),
                ("gopher://x.example/", "scheme"),
                ("jar:http://x.example!/", "scheme"),
                ("http://[fe80::1%25eth0]/", "unreadable"),
                ("http://1.2.3.4.5/", "unreadable"),
                // What holds.
                ("https://example.com/a?b=http://localhost/", ""),
                ("https://192.0.2.1/", ""),
                ("https://8.8.8.8/", ""),
                ("https://172.32.0.1/", ""),
                ("https://[2606:4700::1111]/", ""),
                ("https://localhost.example.com/", ""),
                ("https://bücher.example/", ""),
                ("wss://x.example/s", ""),
                ("mailto:me@example.com", ""),
                ("data:text/plain,hello", ""),
                ("/a/relative/path", ""),
                ("docs/index.html", ""),
                ("example.com/x", ""),
                ("?q=1", ""),
                ("", ""),
            ],
        );
    }

    #[test]
    fn statements() {
        check(
            Kind::Sql,
            &[
                ("x' OR '1'='1", "quote clause"),
                ("1 OR 1=1", "clause"),
                ("1 union  all select a from b", "clause"),
                ("1; drop table x", "statement"),
                ("x -- y", "comment"),
                ("un/**/ion", "comment"),
                ("a\\", "escape"),
                ("O\u{ff07}Brien", "lookalike"),
                ("a\0", "nul"),
                ("O'Brien", "quote"),
                ("Jane and John = friends", "clause"),
                // What holds.
                ("Jane Doe", ""),
                ("2026-10-19", ""),
                ("black or white", ""),
                ("student union selection", ""),
                ("it\u{2019}s", ""),
            ],
        );
    }

    #[test]
    fn commands() {
        check(
            Kind::Shell,
            &[
                ("a; rm -rf /", "separator"),
                ("a\nb", "separator"),
                ("a && b | c", "separator"),
                ("$(id)", "substitution group"),
                ("`id`", "substitution"),
                ("$HOME", "substitution"),
                ("${IFS}", "substitution"),
                ("a > b", "redirection"),
                ("it's", "quote"),
                ("a\\ b", "quote"),
                ("*.rs", "glob"),
                ("{a,b}", "glob"),
                ("--output=/etc/x", "option"),
                (" -x", "option"),
                ("~root/x", "home"),
                ("# x", "comment"),
                ("a\0", "nul"),
                // What holds.
                ("main.rs", ""),
                ("a-b_c/d:e@f,g+h=i%j", ""),
                ("costs 5$", ""),
                ("issue#5", ""),
                ("a~b", ""),
            ],
        );
    }

    #[test]
    fn templates() {
        check(
            Kind::Template,
            &[
                ("{{7*7}}", "braces"),
                ("{% import os %}", "block"),
                ("{# x #}", "block"),
                ("${7*7}", "dollar"),
                ("${jndi:ldap://x}", "lookup"),
                ("${${lower:j}ndi:ldap://x}", "dollar"),
                ("#{7*7}", "hash"),
                ("<%= 7 %>", "tag"),
                ("<?php 1 ?>", "tag"),
                ("*{7*7}", "star"),
                ("%{7*7}", "percent"),
                ("#set($x=1)", "directive"),
                ("{0.__class__}", "dunder"),
                // What holds.
                ("costs $5", ""),
                ("{\"a\": {\"b\": 1}}", ""),
                ("#hashtag (x)", ""),
                ("a < b % c", ""),
                ("50%", ""),
            ],
        );
    }

    #[test]
    fn the_first_place_and_how_many() {
        let found = find(Kind::Path, "x/../../y");
        assert_eq!(found, [Found { label: "parent", range: Some((2, 4)), count: 2 }]);
        assert_eq!(find(Kind::Url, "http://127.0.0.1/")[0].range, None);
        assert_eq!(find(Kind::Shell, "a;b;c")[0], Found { label: "separator", range: Some((1, 2)), count: 2 });
    }
}
