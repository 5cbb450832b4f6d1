//! Tokens that begin with a prefix of their service: prefix, alphabet, length, and a checksum where it has one.
//!
//! Source: the services' own pages on their formats, as far as they are published; else the shape in which they
//! are issued. The checksum of GitHub's tokens is the CRC32 of the random part in six digits of base 62
//! (GitHub, "Behind GitHub's new authentication token formats"); npm took it over.

use super::{Family, Secret, is_boundary, is_placeholder, is_random};

/// Bytes that a token's body is made of.
#[derive(Debug, Clone, Copy)]
pub(super) enum Set {
    Alnum,
    /// `A-Z2-7`
    Base32,
    /// Lower case.
    Hex,
    /// Letters, digits and `_`.
    Word,
    /// Letters, digits and `-`.
    Dash,
    /// `Word` and `-`.
    Url,
    /// `Url` and `.`.
    Dotted,
    /// `Alnum`, `+`, `/`, `=`.
    Base64,
}

impl Set {
    pub(super) fn has(self, byte: u8) -> bool {
        match self {
            Set::Alnum => byte.is_ascii_alphanumeric(),
            Set::Base32 => matches!(byte, b'A'..=b'Z' | b'2'..=b'7'),
            Set::Hex => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
            Set::Word => byte.is_ascii_alphanumeric() || byte == b'_',
            Set::Dash => byte.is_ascii_alphanumeric() || byte == b'-',
            Set::Url => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'),
            Set::Dotted => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'),
            Set::Base64 => byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='),
        }
    }
}

/// What is asked of a body beside its alphabet and length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Check {
    /// That it is no placeholder.
    Form,
    /// That it looks random: the prefix is short, or a word's beginning.
    Random,
    /// That its last six symbols are the CRC32 of the others; where they are not, that it looks random.
    Crc,
    /// SendGrid's two parts.
    TwoParts,
    /// An AWS key id, beside which the secret itself may stand.
    Aws,
    /// Airtable's id and 64 hex digits.
    Airtable,
}

#[derive(Debug)]
pub(super) struct Token {
    pub kind: &'static str,
    pub prefix: &'static str,
    set: Set,
    /// Bytes behind the prefix, at least and at most.
    length: (usize, usize),
    check: Check,
}

const fn token(kind: &'static str, prefix: &'static str, set: Set, length: (usize, usize), check: Check) -> Token {
    Token { kind, prefix, set, length, check }
}

/// Bits per byte, in hundredths, of a body that has to look random.
const RANDOM: u16 = 300;
/// The longest body of any token.
const LONGEST: usize = 1024;

use Check::{Airtable, Aws, Crc, Form, Random, TwoParts};
use Set::{Alnum, Base32, Base64, Dash, Dotted, Hex, Url, Word};

pub(super) static TOKENS: &[Token] = &[
    // Clouds.
    token("aws-access-key", "AKIA", Base32, (16, 16), Aws),
    token("aws-access-key", "ASIA", Base32, (16, 16), Aws),
    token("aws-access-key", "ABIA", Base32, (16, 16), Aws),
    token("aws-access-key", "ACCA", Base32, (16, 16), Aws),
    token("aws-bedrock-key", "ABSK", Base64, (100, 300), Random),
    token("google-api-key", "AIza", Url, (35, 35), Form),
    token("google-api-key", "AQ.Ab", Url, (40, 120), Random),
    token("google-oauth-secret", "GOCSPX-", Url, (28, 28), Form),
    token("google-oauth-token", "ya29.", Url, (30, LONGEST), Random),
    token("google-refresh-token", "1//0", Url, (40, 200), Random),
    token("digitalocean-token", "dop_v1_", Hex, (64, 64), Form),
    token("digitalocean-token", "doo_v1_", Hex, (64, 64), Form),
    token("digitalocean-token", "dor_v1_", Hex, (64, 64), Form),
    token("alibaba-access-key", "LTAI", Alnum, (12, 26), Random),
    token("tencent-secret-id", "AKID", Alnum, (32, 32), Random),
    token("heroku-api-key", "HRKU-", Url, (36, 60), Form),
    token("fly-token", "fo1_", Url, (43, 43), Form),
    token("fly-token", "fm2_", Base64, (100, LONGEST), Random),
    token("scaleway-secret", "tk-us-", Url, (48, 48), Random),
    token("cloudflare-origin-key", "v1.0-", Dash, (160, 175), Random),
    token("vault-token", "hvs.", Url, (24, 200), Random),
    token("vault-token", "hvb.", Url, (24, 300), Random),
    token("vault-token", "hvr.", Url, (24, 200), Random),
    token("openshift-token", "sha256~", Url, (43, 43), Random),
    token("doppler-token", "dp.pt.", Alnum, (40, 44), Form),
    token("doppler-token", "dp.st.", Dotted, (40, 80), Random),
    token("pulumi-token", "pul-", Hex, (40, 40), Form),
    token("databricks-token", "dapi", Hex, (32, 32), Form),
    token("planetscale-token", "pscale_tkn_", Dotted, (32, 64), Form),
    token("planetscale-token", "pscale_pw_", Dotted, (32, 64), Form),
    token("planetscale-token", "pscale_oauth_", Dotted, (32, 64), Form),
    token("supabase-token", "sbp_", Hex, (40, 40), Form),
    token("supabase-token", "sb_secret_", Url, (22, 60), Form),
    token("age-key", "AGE-SECRET-KEY-1", Alnum, (58, 58), Form),
    token("onepassword-token", "ops_eyJ", Base64, (200, LONGEST), Form),
    // Code, packages, builds.
    token("github-token", "ghp_", Alnum, (36, 36), Crc),
    token("github-token", "gho_", Alnum, (36, 36), Crc),
    token("github-token", "ghu_", Alnum, (36, 36), Crc),
    token("github-token", "ghs_", Alnum, (36, 36), Crc),
    token("github-token", "ghr_", Alnum, (36, 36), Crc),
    token("github-token", "ghr_", Alnum, (76, 76), Random),
    token("github-token", "ghs_", Dotted, (100, LONGEST), Random),
    token("github-token", "github_pat_", Word, (82, 82), Form),
    token("gitlab-token", "glpat-", Dotted, (20, 320), Form),
    token("gitlab-token", "gldt-", Url, (20, 64), Form),
    token("gitlab-token", "glrt-", Dotted, (20, 320), Form),
    token("gitlab-token", "glcbt-", Url, (20, 64), Form),
    token("gitlab-token", "glptt-", Hex, (40, 40), Form),
    token("gitlab-token", "glft-", Url, (20, 64), Form),
    token("gitlab-token", "glimt-", Url, (20, 64), Form),
    token("gitlab-token", "glagent-", Url, (50, 64), Form),
    token("gitlab-token", "gloas-", Alnum, (64, 64), Form),
    token("gitlab-token", "glsoat-", Url, (20, 64), Form),
    token("npm-token", "npm_", Alnum, (36, 36), Crc),
    token("pypi-token", "pypi-AgEIcHlwaS5vcmc", Url, (50, LONGEST), Form),
    token("pypi-token", "pypi-AgENdGVzdC5weXBpLm9yZw", Url, (50, LONGEST), Form),
    token("rubygems-token", "rubygems_", Hex, (48, 48), Form),
    token("crates-io-token", "cio", Alnum, (32, 32), Random),
    token("clojars-token", "CLOJARS_", Alnum, (60, 60), Form),
    token("docker-token", "dckr_pat_", Url, (27, 27), Form),
    token("docker-token", "dckr_oat_", Url, (27, 40), Form),
    token("artifactory-token", "AKCp", Alnum, (65, 73), Random),
    token("atlassian-token", "ATATT3", Set::Url, (150, 250), Random),
    token("atlassian-token", "ATCTT3", Set::Url, (150, 250), Random),
    token("bitbucket-token", "ATBB", Alnum, (32, 32), Random),
    token("postman-token", "PMAK-", Dash, (59, 59), Form),
    token("sentry-token", "sntryu_", Hex, (64, 64), Form),
    token("sentry-token", "sntrys_", Base64, (80, LONGEST), Form),
    token("grafana-token", "glsa_", Word, (41, 41), Form),
    token("grafana-token", "glc_", Base64, (32, 400), Random),
    token("new-relic-key", "NRAK-", Alnum, (27, 27), Form),
    token("new-relic-key", "NRII-", Url, (32, 32), Form),
    token("dynatrace-token", "dt0c01.", Dotted, (89, 89), Form),
    token("infracost-key", "ico-", Alnum, (32, 32), Random),
    token("prefect-key", "pnu_", Alnum, (36, 36), Form),
    token("sourcegraph-token", "sgp_", Word, (40, 81), Random),
    token("snyk-token", "snyk_uat.", Dotted, (40, 200), Random),
    // Models.
    token("anthropic-api-key", "sk-ant-", Url, (40, 140), Random),
    token("openai-api-key", "sk-proj-", Url, (40, 200), Random),
    token("openai-api-key", "sk-svcacct-", Url, (40, 200), Random),
    token("openai-api-key", "sk-admin-", Url, (40, 200), Random),
    token("openrouter-api-key", "sk-or-v1-", Hex, (64, 64), Form),
    token("langfuse-key", "sk-lf-", Dash, (36, 36), Form),
    token("openai-api-key", "sk-", Alnum, (32, 64), Random),
    token("xai-api-key", "xai-", Alnum, (70, 120), Form),
    token("groq-api-key", "gsk_", Alnum, (48, 56), Form),
    token("hugging-face-token", "hf_", Alnum, (34, 40), Form),
    token("hugging-face-token", "api_org_", Alnum, (34, 34), Form),
    token("replicate-token", "r8_", Alnum, (37, 37), Form),
    token("perplexity-api-key", "pplx-", Alnum, (48, 56), Form),
    token("nvidia-api-key", "nvapi-", Url, (60, 80), Form),
    token("langsmith-key", "lsv2_pt_", Word, (43, 43), Form),
    token("langsmith-key", "lsv2_sk_", Word, (43, 43), Form),
    token("tavily-api-key", "tvly-", Dash, (32, 48), Random),
    token("firecrawl-api-key", "fc-", Hex, (32, 32), Random),
    token("e2b-api-key", "e2b_", Hex, (40, 40), Form),
    token("pinecone-api-key", "pcsk_", Word, (60, 80), Form),
    token("voyage-api-key", "pa-", Url, (43, 43), Random),
    token("elevenlabs-api-key", "sk_", Hex, (48, 48), Random),
    // Messages, mail.
    token("slack-token", "xoxb-", Dash, (24, 200), Form),
    token("slack-token", "xoxp-", Dash, (24, 200), Form),
    token("slack-token", "xoxa-", Dash, (24, 200), Form),
    token("slack-token", "xoxr-", Dash, (24, 200), Form),
    token("slack-token", "xoxs-", Dash, (24, 200), Form),
    token("slack-token", "xoxc-", Dash, (24, 200), Form),
    token("slack-token", "xoxe-", Dash, (24, 200), Form),
    token("slack-token", "xoxe.xoxp-", Dash, (24, 200), Form),
    token("slack-token", "xoxe.xoxb-", Dash, (24, 200), Form),
    token("slack-token", "xapp-", Dash, (40, 200), Form),
    token("sendgrid-api-key", "SG.", Dotted, (66, 66), TwoParts),
    token("mailgun-api-key", "key-", Hex, (32, 32), Random),
    token("resend-api-key", "re_", Word, (32, 33), Random),
    token("brevo-api-key", "xkeysib-", Dash, (81, 81), Form),
    token("twilio-api-key", "SK", Hex, (32, 32), Random),
    // Shops, payments, offices.
    token("stripe-key", "sk_live_", Alnum, (16, 250), Form),
    token("stripe-key", "sk_test_", Alnum, (16, 250), Form),
    token("stripe-key", "rk_live_", Alnum, (16, 250), Form),
    token("stripe-key", "rk_test_", Alnum, (16, 250), Form),
    token("stripe-webhook-secret", "whsec_", Base64, (24, 80), Form),
    token("square-token", "sq0atp-", Url, (22, 22), Form),
    token("square-token", "sq0csp-", Url, (43, 43), Form),
    token("shopify-token", "shpat_", Hex, (32, 32), Form),
    token("shopify-token", "shpca_", Hex, (32, 32), Form),
    token("shopify-token", "shppa_", Hex, (32, 32), Form),
    token("shopify-token", "shpss_", Hex, (32, 32), Form),
    token("shippo-token", "shippo_live_", Hex, (40, 40), Form),
    token("easypost-key", "EZAK", Alnum, (54, 54), Random),
    token("linear-api-key", "lin_api_", Alnum, (40, 40), Form),
    token("notion-token", "ntn_", Alnum, (40, 50), Form),
    token("figma-token", "figd_", Url, (36, 60), Form),
    token("airtable-token", "pat", Dotted, (79, 79), Airtable),
    token("dropbox-token", "sl.", Url, (130, LONGEST), Random),
    token("typeform-token", "tfp_", Dotted, (40, 80), Form),
    token("contentful-token", "CFPAT-", Url, (43, 43), Form),
    token("readme-token", "rdme_", Alnum, (70, 72), Form),
    token("adafruit-key", "aio_", Alnum, (28, 28), Random),
];

/// A token whose prefix stands at `start`.
pub(super) fn verify(text: &[u8], start: usize, token: &Token, found: &mut Vec<Secret>) {
    let body_start = start + token.prefix.len();
    if text.get(start..body_start) != Some(token.prefix.as_bytes()) || !begins(text, start) {
        return;
    }
    let (least, most) = token.length;
    let rest = text.get(body_start..).unwrap_or_default();
    let mut length = rest.iter().take(most + 1).take_while(|byte| token.set.has(**byte)).count();
    // A sentence's end is not the token's.
    while length > least && matches!(rest.get(length - 1), Some(b'.' | b'-')) {
        length -= 1;
    }
    if length < least || length > most || rest.get(length).is_some_and(u8::is_ascii_alphanumeric) {
        return;
    }
    let body = rest.get(..length).unwrap_or_default();
    let holds = match token.check {
        Check::Form => !is_placeholder(body),
        Check::Random => is_random(body, RANDOM),
        Check::Crc => has_crc(body) || is_random(body, RANDOM),
        Check::TwoParts => body.get(22) == Some(&b'.') && !is_placeholder(body),
        Check::Aws => !is_placeholder(body) && body.iter().any(u8::is_ascii_alphabetic),
        Check::Airtable => {
            let (id, rest) = body.split_at_checked(14).unwrap_or_default();
            id.iter().all(u8::is_ascii_alphanumeric)
                && rest.split_first().is_some_and(|(dot, hex)| *dot == b'.' && hex.iter().all(|b| Set::Hex.has(*b)))
        }
    };
    if !holds {
        return;
    }
    let end = body_start + length;
    let family = if token.kind == "age-key" { Family::PrivateKey } else { Family::Credential };
    found.push(Secret::sure(token.kind, family, start, end));
    if token.check == Check::Aws {
        beside_key_id(text, end, found);
    }
}

/// Like a boundary, but not behind `-` either: slugs and identifiers go on there.
fn begins(text: &[u8], at: usize) -> bool {
    is_boundary(text, at) && !matches!(text.get(..at).and_then(<[u8]>::last), Some(b'-'))
}

/// Files of credentials have the secret behind its id: forty symbols behind a separator.
fn beside_key_id(text: &[u8], end: usize, found: &mut Vec<Secret>) {
    let rest = text.get(end..).unwrap_or_default();
    let gap = rest.iter().take(4).take_while(|byte| b",;:|\t \"'".contains(byte)).count();
    let value = rest.get(gap..).unwrap_or_default();
    let length = value.iter().take(41).take_while(|byte| Set::Base64.has(**byte)).count();
    if gap > 0 && length == 40 && value.get(..40).is_some_and(|value| is_random(value, 350)) {
        let start = end + gap;
        found.push(Secret::sure("aws-secret-key", Family::Credential, start, start + 40));
    }
}

/// Whether the last six symbols are the CRC32 of those before them, in base 62.
fn has_crc(body: &[u8]) -> bool {
    const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let Some((random, sum)) = body.len().checked_sub(6).and_then(|at| body.split_at_checked(at)) else { return false };
    let mut left = crc32(random);
    sum.iter().rev().all(|symbol| {
        let digit = DIGITS.get((left % 62) as usize);
        left /= 62;
        digit == Some(symbol)
    }) && left == 0
}

/// CRC-32 as in zip files; bit by bit, since it is of thirty bytes.
pub(super) fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 };
        }
    }
    !crc
}
