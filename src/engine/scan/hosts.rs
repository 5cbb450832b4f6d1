//! Which host an address leads to, and whether anybody's tool should go there.
//!
//! Addresses are read as browsers read them (WHATWG URL): odd notations of IPv4, percent-encoded and full-width hosts,
//! names in other scripts and tabs inside come to the host that is connected to, in its ASCII form.
//!
//! Left out: what a name resolves to (no look-ups), and where a redirect ends.
//!
//! Private networks are told by [`parameters`], as in what a call's arguments name.

use super::parameters;
use url::Url;

/// What an address says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Leads {
    /// Lower case, ASCII; `None` where it names none, or cannot be read.
    pub host: Option<String>,
    /// Why nobody's tool should follow it, from a closed list.
    pub risk: Option<&'static str>,
}

/// Names, or `*.` and a name for everything below it.
#[derive(Debug, Clone, Default)]
pub struct Hosts(Vec<String>);

impl Hosts {
    /// What cannot be read as a host is left out: see [`Hosts::refused`].
    pub fn new(names: &[String]) -> Self {
        Self(names.iter().filter_map(|name| normal(name)).collect())
    }
    /// Of these names, the first that names no host.
    pub fn refused(names: &[String]) -> Option<&String> {
        names.iter().find(|name| normal(name).is_none())
    }
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Whether a host, as [`read`] gives it, is among them.
    pub fn has(&self, host: &str) -> bool {
        self.0.iter().any(|known| match known.strip_prefix('*') {
            Some(below) => host.len() > below.len() && host.ends_with(below),
            None => host == known,
        })
    }
}

/// A host as it is compared, with its `*.` if it has one.
fn normal(name: &str) -> Option<String> {
    let (star, name) = match name.strip_prefix("*.") {
        Some(name) => ("*.", name),
        None => ("", name),
    };
    host(name).map(|host| format!("{star}{host}"))
}

/// A host that stands alone, in its ASCII form.
pub fn host(name: &str) -> Option<String> {
    let plain = !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', '@', '?', '#', '*', ' ', '%']);
    let url = Url::parse(&format!("http://{name}/")).ok().filter(|url| plain && url.port().is_none())?;
    url.host_str().map(|host| host.trim_end_matches('.').to_owned()).filter(|host| !host.is_empty())
}

/// Reads an address. One without a scheme is read as what follows it would: as `http:`.
pub fn read(address: &str) -> Leads {
    let schemed = schemed(address);
    let address = schemed.as_deref().unwrap_or(address);
    let Ok(url) = Url::parse(address) else { return Leads::default() };
    let host = url.host_str().map(|host| host.trim_end_matches('.').to_ascii_lowercase());
    let network = || parameters::find(parameters::Kind::Url, address).first().map(|found| found.label);
    let risk = match url.scheme() {
        "http" | "https" if !url.username().is_empty() || url.password().is_some() => Some("credentials"),
        "http" | "https" => network(),
        _ => Some("scheme"),
    };
    Leads { host, risk }
}

/// An address that begins with its host, as the one it stands for: `//example.org`, `example.org/x`, `host:8080/x`.
fn schemed(address: &str) -> Option<String> {
    let text = address.trim();
    let slash = |c: char| matches!(c, '/' | '\\');
    if text.starts_with(slash) {
        let rest = text.strip_prefix(slash)?.strip_prefix(slash)?;
        return Some(format!("http://{}", rest.trim_start_matches(slash)));
    }
    let end = text.find(|c: char| slash(c) || matches!(c, '?' | '#')).unwrap_or(text.len());
    let authority = text.get(..end)?;
    let is_name = |name: &str| !name.is_empty() && !name.contains(char::is_whitespace);
    let host = authority.rsplit('@').next().unwrap_or(authority);
    let begins = match host.rsplit_once(':') {
        Some((name, port)) => {
            is_name(name) && (1..=5).contains(&port.len()) && port.bytes().all(|b| b.is_ascii_digit())
        }
        // `example.org`, also in letters and dots of other scripts; a word alone is none.
        None => is_name(host) && host.trim_matches('.').contains(['.', '\u{3002}', '\u{ff0e}', '\u{ff61}']),
    };
    begins.then(|| format!("http://{text}"))
}

#[cfg(test)]
mod tests {
    use super::{Hosts, Leads, host, read};

    #[test]
    fn an_address_leads_where_a_browser_would_go() {
        for (address, host, risk) in [
            ("https://Example.ORG./a", "example.org", None),
            ("https://b\u{fc}cher.example/", "xn--bcher-kva.example", None),
            ("https://b%C3%BCcher.example/", "xn--bcher-kva.example", None),
            ("http://8.8.8.8/", "8.8.8.8", None),
            ("http://2130706433/", "127.0.0.1", Some("loopback")),
            ("http://0x7f.1/", "127.0.0.1", Some("loopback")),
            ("http://169.254.169.254/latest/meta-data/", "169.254.169.254", Some("metadata")),
            ("http://168.63.129.16/", "168.63.129.16", Some("metadata")),
            ("http://10.0.0.8/", "10.0.0.8", Some("private")),
            ("http://[::1]/", "[::1]", Some("loopback")),
            ("http://[::ffff:10.0.0.1]/", "[::ffff:a00:1]", Some("private")),
            ("http://[fd00:ec2::254]/", "[fd00:ec2::254]", Some("metadata")),
            ("http://[2606:4700::1111]/", "[2606:4700::1111]", None),
            ("http://localhost:8080/", "localhost", Some("loopback")),
            ("http://vault/", "vault", Some("internal_name")),
            ("http://metadata.google.internal/", "metadata.google.internal", Some("metadata")),
            ("http://router.home.arpa/", "router.home.arpa", Some("internal_name")),
            ("https://a:b@example.org/", "example.org", Some("credentials")),
            ("https://example.org@evil.test/", "evil.test", Some("credentials")),
            ("ftp://example.org/", "example.org", Some("scheme")),
            ("//example.org/x", "example.org", None),
            ("\\\\example.org\\x", "example.org", None),
            ("///example.org/x", "example.org", None),
            ("example.org", "example.org", None),
            (" example.org/x?a=b", "example.org", None),
            ("EXAMPLE.org:8080/x", "example.org", None),
            ("localhost:8080/x", "localhost", Some("loopback")),
            ("example.org@evil.test/x", "evil.test", Some("credentials")),
            ("a:b@evil.test", "evil.test", Some("credentials")),
            ("example\u{3002}org", "example.org", None),
            ("169.254.169.254/latest", "169.254.169.254", Some("metadata")),
        ] {
            assert_eq!(read(address), Leads { host: Some(host.to_owned()), risk }, "{address}");
        }
        for (address, risk) in [
            ("file:///etc/passwd", Some("scheme")),
            ("data:text/html,x", Some("scheme")),
            ("", None),
            ("page", None),
            ("/a/b.html", None),
            ("a title. More", None),
        ] {
            assert_eq!(read(address), Leads { host: None, risk }, "{address}");
        }
    }

    #[test]
    fn a_list_names_hosts_or_all_below_one() {
        let hosts = Hosts::new(&["example.org".to_owned(), "*.b\u{fc}cher.example".to_owned(), "10.0.0.8".to_owned()]);
        for (host, expected) in [
            ("example.org", true),
            ("www.example.org", false),
            ("notexample.org", false),
            ("xn--bcher-kva.example", false),
            ("a.b.xn--bcher-kva.example", true),
            ("10.0.0.8", true),
        ] {
            assert_eq!(hosts.has(host), expected, "{host}");
        }
        for bad in ["", "*.", "https://example.org", "a b", "example.org/x", "example.org:8080", "*", "a.*.b"] {
            assert!(Hosts::refused(&[bad.to_owned()]).is_some(), "{bad}");
        }
        assert_eq!(host("Example.org").as_deref(), Some("example.org"));
    }
}
