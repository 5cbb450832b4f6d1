//! Where a link leads, and where it says that it leads.
//!
//! Addresses are read as browsers do (WHATWG URL), so that white space, controls and case inside a scheme do not
//! hide it. Schemes are an allow-list: what is not on it leads somewhere that only the reader's machine knows.
//!
//! Left out: the public suffix list. Whoever is shown `example.com` and led to `docs.example.com` is not misled.

use core::net::Ipv4Addr;
use std::sync::LazyLock;
use url::Url;

/// Where an address leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Within what is shown, or beside it.
    Relative,
    /// A web host, lower case, in its ASCII form.
    Host(String),
    /// The domain of a mail address.
    Mail(String),
    /// A picture that stands in the address itself.
    Inline,
    /// Another scheme that does no harm.
    Other,
    /// A scheme that runs code or reads files, one that is not known, or no address at all.
    Dangerous,
}

/// An address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    pub target: Target,
    /// It names a user before the host, or a host that looks like another.
    pub disguised: bool,
}

/// Hosts that may be loaded from: names, or `*.` and a name for everything below it.
#[derive(Debug, Clone, Default)]
pub struct Hosts(Vec<String>);

/// Schemes that lead to something else than a web page and that every reader's program asks before it acts on.
const HARMLESS: &[&str] =
    &["ftp", "ftps", "geo", "irc", "ircs", "magnet", "news", "nntp", "sip", "sms", "tel", "urn", "webcal", "xmpp"];
/// Pictures that hold no script.
const PICTURES: &[&str] = &["data:image/png", "data:image/jpeg", "data:image/jpg", "data:image/gif", "data:image/webp"];
/// What a relative address is joined to.
const NOWHERE: &str = "relative.invalid";
/// Top-level domains by which a word is taken for a host. Those that are also endings of files' names are left out.
const DOMAINS: &[&str] = &[
    "ai", "app", "at", "biz", "ca", "ch", "cloud", "cn", "co", "com", "de", "dev", "edu", "es", "eu", "fr", "gov",
    "info", "io", "it", "jp", "me", "mil", "net", "nl", "online", "org", "ru", "shop", "site", "store", "top", "tv",
    "uk", "us", "xyz",
];
/// Letters of other scripts that are drawn like Latin ones.
const ALIKE: &str = "асԁеһіјӏкорԛѕԝхуѵѡьүαγικνορτυχω";

impl Hosts {
    pub fn new(names: &[String]) -> Self {
        Self(names.iter().map(|name| name.to_ascii_lowercase()).collect())
    }

    pub fn allow(&self, host: &str) -> bool {
        self.0.iter().any(|known| match known.strip_prefix('*') {
            Some(below) => host.len() > below.len() && host.ends_with(below),
            None => host == known,
        })
    }
}

/// Reads an address.
pub fn read(address: &str) -> Link {
    static BASE: LazyLock<Option<Url>> = LazyLock::new(|| Url::parse("https://relative.invalid/").ok());
    let dangerous = Link { target: Target::Dangerous, disguised: false };
    // Without slashes it is read against the page that it stands on, and that may be of the other scheme.
    let absolute = Url::parse(address).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let joined = || Url::options().base_url(BASE.as_ref()).parse(address).ok();
    let Some(url) = absolute.or_else(joined) else { return dangerous };
    let target = match (url.scheme(), url.host_str()) {
        ("http" | "https", Some(NOWHERE)) => Target::Relative,
        ("http" | "https", Some(host)) => Target::Host(host.to_ascii_lowercase()),
        ("mailto", _) => mail(url.path()),
        ("data", _) if is_picture(url.as_str()) => Target::Inline,
        (scheme, _) if HARMLESS.contains(&scheme) => Target::Other,
        _ => return dangerous,
    };
    let web = matches!(target, Target::Host(_));
    let names_user = web && (!url.username().is_empty() || url.password().is_some());
    let alike = url.host_str().is_some_and(|host| web && looks_like_another(host));
    Link { target, disguised: names_user || alike }
}

/// The first host that a text shows.
pub fn shown(text: &str) -> Option<String> {
    let visible: String = text.chars().filter(|c| !is_invisible(*c)).collect();
    let apart = |c: char| c.is_whitespace() || "()[]<>{}\"'`|,;!«»“”‘’".contains(c);
    visible.split(apart).find_map(host_of).or_else(|| numbers(visible.trim()))
}

/// An IPv4 address, with what may follow one, that is all of a text: among words it may be a version.
fn numbers(text: &str) -> Option<String> {
    let end = text.find([':', '/', '?', '#']).unwrap_or(text.len());
    let address: Ipv4Addr = text.get(..end)?.parse().ok()?;
    (!text.contains(char::is_whitespace)).then(|| address.to_string())
}

/// Whether a link whose text shows this host leads elsewhere.
pub fn misleads(shown: &str, target: &Target) -> bool {
    let (Target::Host(host) | Target::Mail(host)) = target else { return false };
    let plain = |host: &str| host.strip_prefix("www.").unwrap_or(host).trim_end_matches('.').to_owned();
    let (shown, host) = (plain(shown), plain(host));
    let below = |inner: &str, outer: &str| inner.strip_suffix(outer).is_some_and(|rest| rest.ends_with('.'));
    shown != host && !below(&host, &shown) && !below(&shown, &host)
}

fn mail(address: &str) -> Target {
    let first = address.split(',').next().unwrap_or_default();
    match first.rsplit_once('@') {
        Some((_, domain)) => Target::Mail(ascii(domain).unwrap_or_else(|| domain.to_ascii_lowercase())),
        None => Target::Other,
    }
}

fn is_picture(address: &str) -> bool {
    let rest = |kind: &str| address.get(..kind.len()).filter(|s| s.eq_ignore_ascii_case(kind)).map(str::len);
    PICTURES
        .iter()
        .any(|kind| rest(kind).is_some_and(|end| address.as_bytes().get(end).is_some_and(|b| matches!(b, b';' | b','))))
}

/// Characters of no width.
pub(super) fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{2064}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

fn host_of(word: &str) -> Option<String> {
    let (rest, is_address) = match word.find("://") {
        Some(at) => (word.get(at + 3..)?, true),
        None => (word, false),
    };
    let authority = rest.split(['/', '?', '#', '\\']).next()?;
    let (authority, is_mail) = match authority.rsplit_once('@') {
        Some((_, domain)) => (domain, true),
        None => (authority, false),
    };
    let host = authority.split(':').next()?.trim_matches(['.', '*', '_', '~']);
    let labels: Vec<&str> = host.split(['.', '\u{2024}', '\u{3002}', '\u{fe52}', '\u{ff0e}', '\u{ff61}']).collect();
    let is_label = |label: &&str| !label.is_empty() && label.chars().all(|c| c.is_alphanumeric() || c == '-');
    if labels.len() < 2 || labels.len() > 64 || !labels.iter().all(is_label) {
        return None;
    }
    let last = labels.last()?.to_lowercase();
    let named = last.chars().any(char::is_alphabetic);
    let known =
        DOMAINS.contains(&last.as_str()) || labels.first().is_some_and(|label| label.eq_ignore_ascii_case("www"));
    if is_address || named && (known || is_mail) { ascii(&labels.join(".")) } else { None }
}

fn ascii(host: &str) -> Option<String> {
    let url = Url::parse(&format!("https://{host}/")).ok()?;
    url.host_str().map(str::to_ascii_lowercase)
}

/// Whether a label mixes scripts, or is written in letters that are drawn like Latin ones under a Latin domain.
fn looks_like_another(host: &str) -> bool {
    let labels: Vec<&str> = host.split('.').collect();
    let latin_domain = labels.last().is_some_and(|last| !last.starts_with("xn--"));
    labels.iter().filter_map(|label| label.strip_prefix("xn--")).any(|label| {
        let Some(label) = idna::punycode::decode_to_string(label) else { return true };
        let (mut latin, mut other, mut alike) = (false, false, true);
        for c in label.to_lowercase().chars() {
            match c {
                'a'..='z' | '\u{e0}'..='\u{24f}' => latin = true,
                '\u{370}'..='\u{58f}' | '\u{10a0}'..='\u{10ff}' | '\u{13a0}'..='\u{13ff}' => {
                    other = true;
                    alike &= ALIKE.contains(c);
                }
                _ => {}
            }
        }
        other && (latin || alike && latin_domain)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_are_read_as_browsers_read_them() {
        let dangerous = [
            "javascript:alert(1)",
            " JaVaScRiPt:alert(1)",
            "java\nscript:alert(1)",
            "\u{1}javascript:alert(1)",
            "vbscript:x",
            "data:text/html,<script>",
            "data:image/svg+xml,<svg/>",
            "data:image/pngx,",
            "file:///etc/passwd",
            "blob:https://a.example/1",
            "ms-settings:x",
            "https://[::1",
        ];
        for address in dangerous {
            assert_eq!(read(address).target, Target::Dangerous, "{address:?}");
        }
        let host = |host: &str| Target::Host(host.to_owned());
        let others = [
            ("https://A.example/x", host("a.example")),
            ("//a.example/x", host("a.example")),
            ("https:a.example", host("a.example")),
            ("http:a.example/x", host("a.example")),
            ("HTT\nPS:/a.example/x", host("a.example")),
            ("/\\a.example/x", host("a.example")),
            ("\\\\a.example", host("a.example")),
            ("x/y?z#w", Target::Relative),
            ("#top", Target::Relative),
            ("", Target::Relative),
            ("mailto:a@b.example", Target::Mail("b.example".to_owned())),
            ("tel:+1", Target::Other),
            ("data:image/png;base64,AAAA", Target::Inline),
        ];
        for (address, wanted) in others {
            assert_eq!(read(address), Link { target: wanted, disguised: false }, "{address:?}");
        }
    }

    #[test]
    fn disguises() {
        for address in [
            "https://bank.example@evil.example/",
            "https://\u{430}pple.com",
            "https://xn--pple-43d.com",
            "https://\u{430}\u{440}\u{440}\u{4cf}\u{435}.com",
        ] {
            assert!(read(address).disguised, "{address}");
        }
        for address in [
            "https://bücher.de",
            "https://пример.рф",
            "https://яндекс.com",
            "https://a.example:8080",
            "https://日本.jp",
        ] {
            assert!(!read(address).disguised, "{address}");
        }
    }

    #[test]
    fn hosts_that_a_text_shows() {
        for (text, host) in [
            ("see https://a.example/x", "a.example"),
            ("bank.com", "bank.com"),
            ("**bank.com**", "bank.com"),
            ("www.bank.example", "www.bank.example"),
            ("me@bank.com", "bank.com"),
            ("ba\u{200b}nk.com", "bank.com"),
            ("http://10.0.0.1/x", "10.0.0.1"),
            (" 10.0.0.1:8080/x ", "10.0.0.1"),
            ("192.0.2.7", "192.0.2.7"),
            ("bank\u{2024}com", "bank.com"),
            ("bank\u{fe52}com", "bank.com"),
        ] {
            assert_eq!(shown(text).as_deref(), Some(host), "{text}");
        }
        for text in [
            "click here",
            "README.md",
            "main.rs",
            "Node.js",
            "e.g. this",
            "v1.2.3",
            "since 10.0.0.1",
            "10.0.0.1234",
            "a.b.c",
            "index.html",
        ] {
            assert_eq!(shown(text), None, "{text}");
        }
    }

    #[test]
    fn what_misleads() {
        let host = |host: &str| Target::Host(host.to_owned());
        for (shown, target) in [("bank.com", "evil.com"), ("bank.com", "bank.com.evil.io"), ("bank.com", "xbank.com")] {
            assert!(misleads(shown, &host(target)), "{shown} {target}");
        }
        for (shown, target) in [("bank.com", "www.bank.com"), ("docs.bank.com", "bank.com"), ("bank.com", "a.bank.com")]
        {
            assert!(!misleads(shown, &host(target)), "{shown} {target}");
        }
        assert!(misleads("bank.com", &Target::Mail("evil.com".to_owned())));
        assert!(!misleads("bank.com", &Target::Relative));
    }

    #[test]
    fn allowed_hosts() {
        let hosts = Hosts::new(&["a.example".to_owned(), "*.B.example".to_owned()]);
        assert!(hosts.allow("a.example") && hosts.allow("x.b.example") && hosts.allow("y.x.b.example"));
        assert!(!hosts.allow("x.a.example") && !hosts.allow("b.example") && !hosts.allow("xb.example"));
    }
}
