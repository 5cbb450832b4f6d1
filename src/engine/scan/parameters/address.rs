//! Addresses that lead into the network of whoever follows them.
//!
//! Read as browsers and most clients read them (WHATWG URL): odd notations of IPv4, percent-encoded and full-width
//! hosts, tabs inside, backslashes and a missing scheme come to the address that is connected to. What that reader
//! refuses although it names the web is `unreadable`: others may read it, nobody knows as what.
//!
//! Left out: what a name resolves to (no look-ups), redirects, and addresses inside an address's query.
//!
//! Source: RFC 6890 and its registries for special addresses; the providers' documentation for metadata services.

use super::Finds;
use core::net::{Ipv4Addr, Ipv6Addr};
use url::{Host, Url};

/// Schemes that read files or speak to services, with clients that have them.
const SCHEMES: [&str; 13] =
    ["dict", "expect", "file", "gopher", "jar", "ldap", "ldaps", "local_file", "netdoc", "phar", "php", "tftp", "unix"];

/// Services that hand out a machine's credentials.
const METADATA_NAMES: [&str; 8] = [
    "metadata",
    "metadata.google.internal",
    "metadata.goog",
    "metadata.azure.internal",
    "metadata.tencentyun.com",
    "metadata.packet.net",
    "instance-data",
    "instance-data.ec2.internal",
];
const METADATA_FOUR: [[u8; 4]; 7] = [
    [169, 254, 169, 254],
    [169, 254, 170, 2],
    [169, 254, 170, 23],
    [169, 254, 0, 23],
    [100, 100, 100, 200],
    [168, 63, 129, 16],
    [192, 0, 0, 192],
];
const METADATA_SIX: [[u16; 8]; 3] =
    [[0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254], [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23], [0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254]];

/// Ends of names that only private networks have.
const INTERNAL: [&str; 10] =
    ["arpa", "corp", "home", "internal", "intranet", "lan", "local", "localdomain", "private", "svc"];

/// Public names that resolve to any address that they spell, or to the loopback.
const ALIASES: [&str; 8] =
    ["nip.io", "sslip.io", "xip.io", "localtest.me", "lvh.me", "vcap.me", "lacolhost.com", "rbndr.us"];

pub(super) fn find(text: &str, finds: &mut Finds) {
    if let Some(label) = label(text) {
        finds.whole(label);
    }
}

fn label(text: &str) -> Option<&'static str> {
    let text = text.trim_matches(|c: char| c <= ' ');
    let bare = |text: &str| {
        let text = text.trim_start_matches(['/', '\\']);
        Url::parse(&format!("http://{text}")).ok().and_then(|url| of_host(&url, true))
    };
    match Url::parse(text) {
        Ok(url) if SCHEMES.contains(&url.scheme()) => Some("scheme"),
        Ok(url) if url.has_host() => of_host(&url, false),
        // `localhost:8080` has a scheme, to this reader.
        Ok(url) => (url.cannot_be_a_base() && port_follows(url.path())).then(|| bare(text)).flatten(),
        Err(url::ParseError::RelativeUrlWithoutBase) => match text.as_bytes() {
            [b'/' | b'\\', b'/' | b'\\', ..] => bare(text),
            [b'/' | b'\\' | b'?' | b'#' | b'.', ..] | [] => None,
            _ => bare(text),
        },
        Err(_) => {
            let web = ["http:", "https:", "ws:", "wss:", "ftp:"];
            let starts = |scheme: &&str| text.get(..scheme.len()).is_some_and(|t| t.eq_ignore_ascii_case(scheme));
            match web.iter().any(starts) {
                true => Some("unreadable"),
                false => bare(text),
            }
        }
    }
}

/// What follows a host that was taken for a scheme.
fn port_follows(path: &str) -> bool {
    let digits = path.bytes().take_while(u8::is_ascii_digit).count();
    digits > 0 && matches!(path.as_bytes().get(digits), None | Some(b'/' | b'?' | b'#'))
}

/// A host without a scheme before it may be the first segment of a path, so that a plain word is none.
fn of_host(url: &Url, bare: bool) -> Option<&'static str> {
    // Schemes that this reader does not know keep their hosts as they are written.
    let host = match url.host()? {
        Host::Domain(name) => match Host::parse(name) {
            Ok(Host::Ipv4(four)) => Host::Ipv4(four),
            _ => Host::Domain(name),
        },
        Host::Ipv4(four) => Host::Ipv4(four),
        Host::Ipv6(six) => Host::Ipv6(six),
    };
    match host {
        Host::Domain(name) => of_name(&name.trim_end_matches('.').to_ascii_lowercase(), bare),
        Host::Ipv4(four) => of_four(four),
        Host::Ipv6(six) => of_six(six),
    }
}

fn of_name(name: &str, bare: bool) -> Option<&'static str> {
    let ends = |suffix: &str| name.strip_suffix(suffix).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    let last = name.rsplit('.').next().unwrap_or_default();
    if METADATA_NAMES.contains(&name) && !(bare && name == "metadata") {
        Some("metadata")
    } else if last == "localhost" || matches!(name, "ip6-localhost" | "ip6-loopback" | "localhost.localdomain") {
        Some("loopback")
    } else if ALIASES.iter().any(|alias| ends(alias)) {
        Some("alias")
    } else if !name.contains('.') {
        (!bare && !name.is_empty()).then_some("internal_name")
    } else {
        INTERNAL.contains(&last).then_some("internal_name")
    }
}

fn of_four(four: Ipv4Addr) -> Option<&'static str> {
    let [a, b, c, _] = four.octets();
    if METADATA_FOUR.contains(&four.octets()) {
        Some("metadata")
    } else if four.is_loopback() {
        Some("loopback")
    } else if a == 0 {
        Some("unspecified")
    } else if four.is_link_local() {
        Some("link_local")
    } else if four.is_private() || (a == 100 && (64..128).contains(&b)) || (a == 198 && (18..20).contains(&b)) {
        Some("private")
    } else if a >= 224 || (a, b, c) == (192, 0, 0) {
        Some("special")
    } else {
        None
    }
}

fn of_six(six: Ipv6Addr) -> Option<&'static str> {
    let [a, b, c, d, e, f, g, h] = six.segments();
    let four = |high: u16, low: u16| {
        let ([w, x], [y, z]) = (high.to_be_bytes(), low.to_be_bytes());
        of_four(Ipv4Addr::new(w, x, y, z))
    };
    if METADATA_SIX.contains(&six.segments()) {
        Some("metadata")
    } else if six.is_loopback() {
        Some("loopback")
    } else if six.is_unspecified() {
        Some("unspecified")
    } else if a & 0xFFC0 == 0xFE80 {
        Some("link_local")
    } else if a & 0xFE00 == 0xFC00 || a & 0xFFC0 == 0xFEC0 {
        Some("private")
    } else if a & 0xFF00 == 0xFF00 {
        Some("special")
    } else {
        // Addresses of IPv4 inside: mapped, compatible, translated (NAT64), 6to4.
        match (a, b, c, d, e, f) {
            (0, 0, 0, 0, 0, 0 | 0xFFFF)
            | (0, 0, 0, 0, 0xFFFF, 0)
            | (0x64, 0xFF9B, 0, 0, 0, 0)
            | (0x64, 0xFF9B, 1, ..) => four(g, h),
            (0x2002, ..) => four(b, c),
            _ => None,
        }
    }
}
