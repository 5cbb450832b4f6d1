//! SG11: no secret leaves a tool, reaches a model, or is shown to a person.
//!
//! # What it checks
//! Every text of a tool's output, of a call's arguments, of tool definitions and of what is shown to people: string
//! values, names of members, JSON inside strings, base64, names and titles of files, what a text cites, `source` and
//! `url` of a host's event. Addresses that a provider fetches a file from are left as they are. Colours and other
//! sequences of a terminal, raw or spelled (`\u001b[0m`), are looked through, and go with a value that they stand in.
//! By their published formats, by a checksum where one
//! exists, else by what they are assigned to:
//! - `credential`: keys and tokens that a service issued (AWS, GitHub, Stripe, OpenAI, JWT, bearer headers and some
//!   hundred more), and values drawn at random that stand as `api_key`, `client_secret`, `access_token`.
//! - `password`: the password of a connection string, an address, a basic header, an assignment.
//! - `private_key`: keys in PEM, from BEGIN to END, also one that is cut at either end.
//! - `personal_data` (only with the option of that name): cards, IBAN, e-mail, phones, national numbers.
//! - `already_read`: one of these in the output of a tool that the provider ran.
//!
//! A value belongs to a name by `=` or `:`, as `value` beside a `name` or `key` (members, attributes, lines of YAML),
//! in SQL (`IDENTIFIED BY '…'`, `PASSWORD '…'`), behind `ENV`, in a cell or an element next to it, on the line below,
//! percent-encoded or between `&quot;`. Names are English ones; values with spaces are no passwords.
//!
//! Each value becomes `[secret:<kind>:<n>]` (`[personal:<kind>:<n>]`). Numbers count within one output, in order of
//! appearance, and one value keeps its number, so that the same output is the same text in every later request.
//! Evidence is the kind and how many of it one text holds.
//!
//! # Why it matters
//! What a model has read it can be talked into repeating: into a search query, an image address, a commit. A secret
//! that was never in its context cannot be.
//!
//! # Violates
//! - A tool prints its environment: `AWS_SECRET_ACCESS_KEY=…` becomes `[secret:aws-secret-key:1]`.
//! - An error holds `postgres://app:…@db/x`: only the password becomes `[secret:connection-password:1]`.
//! - A model puts a token into a call's arguments: the record of the call carries the placeholder, and
//!   `arguments_sha256` is that of the redacted text. The call is not to be run with the original.
//! - A token is the name of a member, or stands in base64: it is replaced there.
//! - A page that the provider fetched holds a token: `already_read`. Nothing can be taken out of what the model has
//!   read, so `standard` says it and lets the turn go on: blocking would end a conversation over a token in a public
//!   page, which the operator cannot revoke. `strict` blocks; so does `already_read: block` for those whose
//!   provider-run tools read their own data (file search, hosted MCP). Revoke the secret, strip the result.
//!
//! ```example password
//! call lookup {}
//! result "APP=web\nDB_PASSWORD=n0t-r3al-at-all\nDEBUG=1"
//! ```
//! ```example password
//! host "cannot connect to postgres://app:n0t-r3al@db.internal:5432/shop"
//! ```
//! ```example password
//! host "\u001b[32mpassword\u001b[0m=\u001b[1mn0t-r3al-at-all\u001b[0m"
//! ```
//! ```example password
//! call lookup {}
//! result {"env":[{"name":"DB_PASSWORD","value":"n0t-r3al-at-all"}]}
//! ```
//! ```example credential
//! call lookup {}
//! result {"service":"maps","api_key":"abcdef0123456789abcdef"}
//! ```
//! ```example credential
//! call lookup {"q":"curl -H 'Authorization: Bearer abcdef0123456789abcdef'"}
//! ```
//! ```example private_key
//! host "-----BEGIN PRIVATE KEY-----\n<<3*MIIBmadeup0123456789abcdefghijklmnopqrstuvwxyz\n>>-----END PRIVATE KEY-----"
//! ```
//! ```example personal_data
//! option personal_data=true
//! call lookup {}
//! result "paid with 4111 1111 1111 1111 by jane@mail.example.org"
//! ```
//! ```example already_read
//! ran "the token of this page: api_key=abcdef0123456789abcdef"
//! ```
//!
//! # Holds
//! - Placeholders: `<password>`, `${TOKEN}`, `********`, `AKIAIOSFODNN7EXAMPLE`, the gate's own.
//! - `max_tokens`, `next_page_token`, public keys, ids of calls and responses.
//! - A value that looks random without a known format, with no name beside it.
//!
//! ```example holds
//! call lookup {"password":"<password>","max_tokens":"4096"}
//! result "export TOKEN=${TOKEN}; password: ********; next_page_token=abcdef0123456789abcdef"
//! ```
//! ```example holds
//! option ignore=["password"]
//! call lookup {}
//! result "DB_PASSWORD=n0t-r3al-at-all"
//! ```
//!
//! # Options
//! - `ignore` (none): kinds that are left alone, as they stand in the placeholder (`jwt`, `email`). Identifiers in
//!   verdicts and labels are hashed all the same.
//! - `entropy` (3.0; 2.0 to 6.0): bits per character that a value must have at least if only its name gives it away.
//!   Passwords need less, and are held to half of it.
//! - `personal_data` (false): the second group.
//!
//! # Source
//! Rule 3 and the principle of `untrusted-tool-outputs.md`; formats as the services publish them, GitHub's checksum
//! from "Behind GitHub's new authentication token formats".

use super::placeholders::Placeholders;
use super::{Evidence, Meta, OptionsProblem, Policy, Profile, Report, Rule, Severity, Subject, View};
use crate::engine::decision::Decision;
use crate::engine::event::ResultShape;
use crate::engine::scan::personal;
use crate::engine::scan::secrets::{self, Family, Secret};
use serde::{Deserialize, Serialize};

const CREDENTIAL: Rule = Rule {
    name: "credential",
    effect: Decision::Redact,
    strict: Decision::Redact,
    severity: Severity::High,
    message: "a key or token that a service issued stands in the text; it is replaced, and should be revoked",
};
const PASSWORD: Rule = Rule {
    name: "password",
    effect: Decision::Redact,
    strict: Decision::Redact,
    severity: Severity::High,
    message: "a password stands in the text; it is replaced, and should be changed",
};
const PRIVATE_KEY: Rule = Rule {
    name: "private_key",
    effect: Decision::Redact,
    strict: Decision::Redact,
    severity: Severity::Critical,
    message: "a private key stands in the text; it is replaced, and what it protects should get another",
};
const PERSONAL_DATA: Rule = Rule {
    name: "personal_data",
    effect: Decision::Redact,
    strict: Decision::Redact,
    severity: Severity::Medium,
    message: "personal data stands in the text; it is replaced",
};
const ALREADY_READ: Rule = Rule {
    name: "already_read",
    effect: Decision::Allow,
    strict: Decision::Block,
    severity: Severity::High,
    message: "a secret stands in what the provider's own tool gave the model; it cannot be taken back, so revoke it \
              and strip the result",
};

/// The policy.
pub struct SecretLeaks {
    options: Options,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    pub ignore: Vec<String>,
    pub entropy: f64,
    pub personal_data: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { ignore: Vec::new(), entropy: 3.0, personal_data: false }
    }
}

impl Policy for SecretLeaks {
    const META: Meta = Meta {
        code: "SG11",
        number: 11,
        name: "secret_leaks",
        checklist: "rule 3, the principle",
        summary: "no secret passes through a tool's output, a call or a page",
        rules: &[CREDENTIAL, PASSWORD, PRIVATE_KEY, PERSONAL_DATA, ALREADY_READ],
    };
    type Options = Options;

    fn problems(options: &Options) -> Vec<OptionsProblem> {
        let mut found = Vec::new();
        let known = kinds();
        for (at, kind) in options.ignore.iter().enumerate() {
            if !known.contains(&kind.as_str()) {
                let problem = format!("{kind} is no kind; known are {}", known.join(", "));
                found.push(OptionsProblem { path: format!("ignore.{at}"), problem });
            }
        }
        if !(2.0..=6.0).contains(&options.entropy) {
            let problem = format!("{} is not between 2 and 6", options.entropy);
            found.push(OptionsProblem { path: "entropy".to_owned(), problem });
        }
        found
    }

    fn new(options: Options, _profile: Profile) -> Self {
        Self { options }
    }

    fn check<'r>(&self, subject: &Subject<'_, 'r>, _view: &View<'_>, report: &mut Report<'r>) {
        let hits = self.hits(subject, report);
        if hits.is_empty() {
            return;
        }
        let texts = report.texts(subject);
        let read = matches!(subject, Subject::Result(result) if result.result.shape == ResultShape::Server);
        let mut placeholders = Placeholders::default();
        for of_text in hits.chunk_by(|a, b| a.text == b.text) {
            let Some(text) = of_text.first().and_then(|hit| texts.get(hit.text)) else { continue };
            let value = |hit: &Hit| text.bytes().get(hit.start..hit.end).unwrap_or_default();
            // By kind, in order of appearance.
            let mut said: Vec<(&'static str, Decision)> = Vec::new();
            for hit in of_text {
                let name = placeholders.of((hit.group, hit.kind), value(hit));
                let told = said.iter().find(|(kind, _)| *kind == hit.kind).map(|(_, decision)| *decision);
                let decision = told.unwrap_or_else(|| {
                    let count = of_text.iter().filter(|other| other.kind == hit.kind).count() as u64;
                    let evidence = Evidence::Found { kind: hit.group, label: hit.kind, count };
                    let rule = if read { &ALREADY_READ } else { hit.rule };
                    let most =
                        if read && report.comes_to(rule) < Decision::Block { Decision::Allow } else { Decision::Block };
                    let decision = report.find_in(rule, most, text, (hit.start, hit.end), evidence);
                    said.push((hit.kind, decision));
                    decision
                });
                if decision == Decision::Redact {
                    report.edit(text.edit(hit.start, hit.end, name.into_bytes()));
                }
            }
        }
    }
}

/// A secret or a piece of personal data in a text.
struct Hit {
    text: usize,
    start: usize,
    end: usize,
    kind: &'static str,
    /// The placeholder's first word.
    group: &'static str,
    rule: &'static Rule,
}

impl SecretLeaks {
    /// In order, apart from each other.
    fn hits<'r>(&self, subject: &Subject<'_, 'r>, report: &mut Report<'r>) -> Vec<Hit> {
        let secrets = report.secrets(subject);
        let wanted = |kind: &str| !self.options.ignore.iter().any(|ignored| ignored == kind);
        let found = secrets.iter().filter(|(_, secret)| wanted(secret.kind) && self.is_enough(secret));
        let mut hits: Vec<Hit> = found.map(|(text, secret)| hit(*text, secret)).collect();
        if self.options.personal_data {
            for (text, layer) in report.texts(subject).iter().enumerate() {
                // A secret's own digits are the secret's.
                let inside = |start: usize, end: usize| {
                    let at = secrets.partition_point(|(ix, secret)| (*ix, secret.end) <= (text, start));
                    secrets.get(at).is_some_and(|(ix, secret)| *ix == text && secret.start < end)
                };
                let found = personal::find(layer.bytes()).into_iter();
                let found = found.filter(|found| wanted(found.kind) && !inside(found.start, found.end));
                hits.extend(found.map(|found| Hit {
                    text,
                    start: found.start,
                    end: found.end,
                    kind: found.kind,
                    group: "personal",
                    rule: &PERSONAL_DATA,
                }));
            }
            hits.sort_by_key(|hit| (hit.text, hit.start));
        }
        hits
    }

    fn is_enough(&self, secret: &Secret) -> bool {
        let least = (self.options.entropy * 100.0) as u16;
        let least = if secret.family == Family::Password { least / 2 } else { least };
        secret.bits >= least
    }
}

fn hit(text: usize, secret: &Secret) -> Hit {
    let rule = match secret.family {
        Family::Credential => &CREDENTIAL,
        Family::Password => &PASSWORD,
        Family::PrivateKey => &PRIVATE_KEY,
    };
    Hit { text, start: secret.start, end: secret.end, kind: secret.kind, group: "secret", rule }
}

fn kinds() -> Vec<&'static str> {
    let mut kinds = secrets::kinds();
    kinds.extend(personal::KINDS);
    kinds
}
