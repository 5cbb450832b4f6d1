//! What is found, where, and what is left alone. All values are made up: their randomness is that of a
//! multiplication, their prefixes are joined here.

use super::*;
use proptest::prelude::*;

/// `length` symbols of an alphabet, the same for the same seed.
fn drawn(seed: u64, length: usize, alphabet: &[u8]) -> String {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(alphabet[(state >> 33) as usize % alphabet.len()])
    };
    (0..length).map(|_| next()).collect()
}

const ALNUM: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const BASE32: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const HEX: &[u8] = b"0123456789abcdef";
const BASE64: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn alnum(seed: u64, length: usize) -> String {
    drawn(seed, length, ALNUM)
}

fn with_crc(prefix: &str, seed: u64) -> String {
    let random = alnum(seed, 30);
    let digits = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut left = tokens::crc32(random.as_bytes());
    let mut sum = [b'0'; 6];
    for place in sum.iter_mut().rev() {
        *place = digits[(left % 62) as usize];
        left /= 62;
    }
    format!("{prefix}{random}{}", String::from_utf8_lossy(&sum))
}

fn jwt() -> String {
    use base64::Engine as _;
    let encode = |text: &str| base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(text);
    format!(
        "{}.{}.{}",
        encode(r#"{"typ":"JWT","alg":"HS256"}"#),
        encode(r#"{"sub":"1","name":"made up"}"#),
        alnum(5, 43)
    )
}

fn key(label: &str) -> String {
    let lines: Vec<String> = (0..4).map(|n| drawn(n, 64, BASE64)).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----", lines.join("\n"))
}

/// The kinds that can be found, each with a text in which the secret stands between « and ».
fn plain() -> Vec<(&'static str, String)> {
    let hex = |n: usize| drawn(3, n, HEX);
    vec![
        ("aws-access-key", format!("id «{}{}» ok", "AKIA", drawn(1, 16, BASE32))),
        ("aws-access-key", format!("({}«{}{}»)", "", "ASIA", drawn(2, 16, BASE32))),
        ("aws-secret-key", format!("aws_secret_access_key = «{}»\n", drawn(9, 40, BASE64))),
        ("github-token", format!("https://x/?t=«{}»&a=1", with_crc("ghp_", 1))),
        ("github-token", format!("«github_pat_{}_{}»", alnum(1, 22), alnum(2, 59))),
        ("npm-token", format!("//registry/:_authToken=«{}»", with_crc("npm_", 2))),
        ("gitlab-token", format!("'«glpat-{}»'", alnum(4, 20))),
        ("slack-token", format!("«{}-{}-{}-{}»", "xoxb", "123456789012", "1234567890123", alnum(1, 24))),
        (
            "slack-webhook",
            format!("https://hooks.slack.com/services/«T{}/B{}/{}»", alnum(1, 8), alnum(2, 8), alnum(3, 24)),
        ),
        ("stripe-key", format!("«{}_{}_{}»", "sk", "live", alnum(1, 24))),
        ("openai-api-key", format!("key is «sk-proj-{}»", alnum(8, 74))),
        ("openai-api-key", format!("\\n«sk-{}»", alnum(8, 48))),
        ("anthropic-api-key", format!("x-api-key: «sk-ant-api03-{}-{}AA»", alnum(3, 60), alnum(4, 30))),
        ("xai-api-key", format!("«xai-{}»", alnum(6, 80))),
        ("google-api-key", format!("key=«{}{}»", "AIza", alnum(7, 35))),
        ("google-oauth-secret", format!("«GOCSPX-{}»", alnum(7, 28))),
        ("hugging-face-token", format!("HF=«hf_{}»", alnum(7, 34))),
        ("pypi-token", format!("password: «pypi-AgEIcHlwaS5vcmc{}»", alnum(7, 80))),
        ("twilio-api-key", format!("«{}{}»", "SK", hex(32))),
        ("sendgrid-api-key", format!("«SG.{}.{}»", alnum(1, 22), alnum(2, 43))),
        ("telegram-bot-token", format!("/bot«{}:AA{}»/getMe", "123456789", alnum(2, 33))),
        ("azure-account-key", format!("AccountName=a;AccountKey=«{}==»;E=x", drawn(1, 86, BASE64))),
        ("azure-sas", format!("?sv=2024-01-01&se=2026-01-01&sr=b&sig=«{}%3D»&x", alnum(4, 43))),
        ("private-key", format!("see\n«{}»\nend", key("RSA PRIVATE KEY"))),
        ("private-key", format!("«{}»", key("OPENSSH PRIVATE KEY").replace('\n', "\\n"))),
        ("private-key", format!("cut: «{}»", key("PRIVATE KEY").rsplit_once('\n').unwrap().0)),
        ("jwt", format!("cookie=«{}»; path", jwt())),
        ("bearer-token", format!("Authorization: Bearer «{}»\r\n", alnum(1, 40))),
        ("basic-auth", "authorization: Basic «bWFkZTp1cC0xMjM0NQ==»".to_owned()),
        ("connection-password", "postgres://app:«n0t-r3al»@db.internal:5432/x".to_owned()),
        ("connection-password", "mongodb+srv://app:«n0t-r3al»@cluster0/x".to_owned()),
        ("url-password", "git clone https://me:«n0t@r3al»@host/x.git".to_owned()),
        ("password", "DB_PASSWORD=«hunter2-made-up»\nX=1".to_owned()),
        ("password", "Server=x;User Id=a;Password=«N0tReal!x»;".to_owned()),
        ("password", r#"{"password": "«hunt3r!»", "a": 1}"#.to_owned()),
        ("password", r#"{\"passwd\":\"«hunt3r!»\"}"#.to_owned()),
        ("password", "mysql --password «made1up2x» -u root".to_owned()),
        ("password", "<password>«made1up2x»</password>".to_owned()),
        ("api-key", format!("api_key: '«{}»'", alnum(3, 32))),
        ("api-key", format!("\"apiKey\" : \"«{}»\"", hex(32))),
        ("access-token", format!("export ACCESS_TOKEN=«{}»", alnum(9, 40))),
        ("secret", format!("client_secret = \"«{}»\"", alnum(10, 40))),
        ("secret-key", format!("SECRET_KEY=«{}»", alnum(11, 50))),
    ]
}

fn marked(text: &str) -> (String, usize, usize) {
    let (before, rest) = text.split_once('«').unwrap();
    let (secret, after) = rest.split_once('»').unwrap();
    (format!("{before}{secret}{after}"), before.len(), before.len() + secret.len())
}

#[test]
fn plain_cases_are_found_where_they_stand() {
    for (kind, text) in plain() {
        let (text, start, end) = marked(&text);
        let found: Vec<(&str, usize, usize)> =
            find(text.as_bytes(), None).iter().map(|s| (s.kind, s.start, s.end)).collect();
        assert_eq!(found, [(kind, start, end)], "{text}");
        assert!(kinds().contains(&kind));
    }
}

#[test]
fn members_give_context() {
    let token = alnum(12, 32);
    for (member, text, kind) in [
        ("password", "hunter2!", Some("password")),
        ("dbPassword", " hunter2! ", Some("password")),
        ("apiKey", &token, Some("api-key")),
        ("X-Auth-Token", &token, Some("access-token")),
        ("secretAccessKey", &drawn(9, 40, BASE64), Some("aws-secret-key")),
        ("password", "string", None),
        ("password", "<password>", None),
        ("password", "${DB_PASSWORD}", None),
        ("password", "********", None),
        ("password", "your_password1", None),
        ("password", "changeme123", None),
        ("password", "/run/secrets/db1", None),
        ("password", "[secret:password:1]", None),
        ("password_hint", "hunter2!", None),
        ("nextPageToken", &token, None),
        ("max_tokens", "12345678", None),
        ("token_type", &token, None),
        ("public_key", &token, None),
        ("key", &token, None),
        ("token", "0f8fad5b-d9cb-469f-a165-70867728950e", None),
        ("name", &token, None),
    ] {
        let found = find(text.as_bytes(), Some(member.as_bytes()));
        assert_eq!(found.first().map(|s| s.kind), kind, "{member}: {text}");
        if let Some(secret) = found.first() {
            assert_eq!(&text[secret.start..secret.end], text.trim());
        }
    }
}

#[test]
fn what_is_no_secret_is_left_alone() {
    let broken = with_crc("ghp_", 1).replace(|c: char| c.is_ascii_alphanumeric(), "a");
    let long = format!("{}{}{}", "AKIA", drawn(1, 16, BASE32), "Q");
    let inside = format!("x{}{}", "AKIA", drawn(1, 16, BASE32));
    for text in [
        "the quick brown fox, a task-force and a risk-based approach",
        "AKIAIOSFODNN7EXAMPLE",
        "https://www.example.org/news/sk-boosts-lung-cancer-portfolio-with-10-6-billion-takeover-ce7f5dd3df8ff525",
        "the bearer of authentication-information shall",
        "a basic understanding: yes",
        "Authorization: Bearer <token>",
        "Authorization: Bearer $ACCESS_TOKEN1",
        "password = getpass.getpass()",
        "password: str",
        "password: Optional[str] = None",
        "token = os.environ[\"TOKEN\"]",
        "secret_key=config.secret_key1",
        "if token == expected_token_1234567890ab:",
        "max_tokens: 4096, total_tokens=123456789012345678",
        "postgres://user:password@localhost/db",
        "postgres://user:${PASSWORD}@localhost/db",
        "postgres://localhost:5432/db?a@b",
        "http://[::1]:8080/a:b@c",
        "-----BEGIN PRIVATE KEY----- begins a key, -----END PRIVATE KEY----- ends it",
        "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAu1SU1LfVLPHCozMxH2Mo\n-----END PUBLIC KEY-----",
        "eyJub3QiOiJhIGhlYWRlciJ9.eyJub3QiOiJhIGhlYWRlciJ9.c2lnbmF0dXJlc2lnbmF0dXJl",
        "[secret:aws-access-key:1] and password=[secret:password:2]; Bearer [secret:bearer-token:1]",
        "postgres://app:[secret:connection-password:1]@db",
        "toolu_01A09q90qw90lq917835lq9 call_abcDEF1234567890abcDEF12 msg_01XFDUDYJgAACzvnptvVoYEL",
        "resp_67ccd2bed1ec8190b14f964abc0542670bb6a6b452d3795b",
        "chatcmpl-ABCdef1234567890abcdefABCDEF",
        &broken,
        &long,
        &inside,
    ] {
        assert_eq!(find(text.as_bytes(), None), [], "{text}");
    }
}

#[test]
fn a_checksum_settles_it() {
    let token = with_crc("ghp_", 77);
    assert!(has_any(token.as_bytes()));
    // GitHub's own example of a body with its sum.
    assert_eq!(tokens::crc32(b"123456789"), 0xCBF4_3926);
    let zeros = format!("ghp_{}", "0".repeat(36));
    assert!(!has_any(zeros.as_bytes()));
}

#[test]
fn overlaps_are_one_and_keep_the_stronger_name() {
    let token = with_crc("ghp_", 3);
    let text = format!("https://me:{token}@host and password={token}!x");
    let found = find(text.as_bytes(), None);
    let kinds: Vec<&str> = found.iter().map(|s| s.kind).collect();
    assert_eq!(kinds, ["github-token", "github-token"]);
    assert_eq!(found[1].end, text.len());
}

/// Names and values that no `=` or `:` joins directly.
#[test]
fn values_are_found_by_names_in_every_shape() {
    let drawn = drawn(21, 32, HEX);
    let pem = key("RSA PRIVATE KEY");
    let tail = pem.split_once('\n').unwrap().1;
    for (kind, text) in [
        ("password", "env:\n- name: DB_PASSWORD\n  value: «Winter2024!»\n".to_owned()),
        ("password", "- name: \"DB_PASSWORD\"\n  value: '«Winter2024!»'\n".to_owned()),
        ("password", r#"cut {"name":"DB_PASSWORD","value":"«Winter2024!»"},"#.to_owned()),
        ("password", r#"{\"Name\": \"DB_PASSWORD\", \"Value\": \"«Winter2024!»\"}"#.to_owned()),
        ("password", r#"<add key="password" value="«Winter2024!»"/>"#.to_owned()),
        ("password", r#"<property name="password">«Winter2024!»</property>"#.to_owned()),
        ("password", "CREATE USER a IDENTIFIED BY '«Winter2024!»'".to_owned()),
        ("password", "create user 'a'@'%' identified with mysql_native_password by '«Winter2024!»';".to_owned()),
        ("password", "CREATE ROLE a WITH LOGIN PASSWORD '«Winter2024!»'".to_owned()),
        ("password", "FROM x\nENV DB_PASSWORD «Winter2024!»\n".to_owned()),
        ("password", "machine api.example.com login bob password «n0t-r3al-1»".to_owned()),
        ("password", "a=1%26password%3D«Winter2024%21»%26b%3D2".to_owned()),
        ("password", "%7B%22password%22%3A%22«Winter2024%21»%22%7D".to_owned()),
        ("password", "{&quot;password&quot;:&quot;«Winter2024!»&quot;}".to_owned()),
        ("password", "**Password:** «Winter2024!»".to_owned()),
        ("password", "- **Password**: `«Winter2024!»`".to_owned()),
        ("api-key", format!("- **API key**: «{drawn}»")),
        ("api-key", format!("API Key: «{drawn}»")),
        ("secret-key", format!("Your secret key = «{drawn}»")),
        ("password", "| user | bob |\n| password | «Winter2024!» |\n".to_owned()),
        ("password", "<b>Password:</b> «Winter2024!»<br>".to_owned()),
        ("password", "<tr><td>Password</td>\n <td>«Winter2024!»</td></tr>".to_owned()),
        ("password", "password:\n  «Winter2024!»\nuser: a".to_owned()),
        ("password", "password: |\n  «Winter2024!»\n".to_owned()),
        ("private-key", format!("«{tail}»\nmore")),
        ("private-key", format!("«{}»", tail.get(5..).unwrap())),
        ("private-key", format!("«{}»\\n", tail.replace('\n', "\\n"))),
        ("private-key", format!("file k.pem:\n«{tail}»")),
    ] {
        let (text, start, end) = marked(&text);
        let found: Vec<(&str, usize, usize)> =
            find(text.as_bytes(), None).iter().map(|s| (s.kind, s.start, s.end)).collect();
        assert_eq!(found, [(kind, start, end)], "{text}");
        let once = redacted(text.as_bytes(), None);
        assert_eq!(redacted(&once, None), once, "{text}");
    }
    for text in [
        "- name: DB_PASSWORD\n  valueFrom: secret1234\n",
        "- name: DB_PASSWORD\n  value: $(PASSWORD_1)\n",
        "- name: DB_USER\n  value: Winter2024!\n",
        "def set(password, value=Default123): pass",
        "the part is identified by 'ABC-123/9' on its plate",
        "a password 'of eight letters' is asked for",
        "ENV DB_PASSWORD $PASSWORD1",
        "password%3D%24%7BDB_PASSWORD1%7D",
        "password%3D%3Cyour1%3E",
        "**Password**: at least 8 characters",
        "Primary Key: 0a1b2c3d4e5f60718293a4b5c6d7e8f9",
        "| password | string | required1 |",
        "| password | min. 8 characters |",
        "<label>Password</label><input name=\"password\">",
        "password:\n  type: string1\n  minLength: 8",
        "password:\nlogin1234 failed",
        "if check(password):\n    return1 = 2",
        "token:\n    abcdef",
        "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAu1SU1LfVLPHCozMxH2Mo\n-----END PUBLIC KEY-----",
        "the marker -----END PRIVATE KEY----- ends it",
    ] {
        assert_eq!(find(text.as_bytes(), None), [], "{text}");
    }
}

/// Colours before, behind and inside; what is replaced may hold those inside, and never half of one.
#[test]
fn sequences_of_a_terminal_hide_nothing() {
    let token = with_crc("ghp_", 8);
    let id = format!("{}{}", "AKIA", drawn(4, 16, BASE32));
    let split = format!("{}ESC[0m{}", &token[..9], &token[9..]);
    let cases = [
        ("github-token", format!(".env:GITHUB_TOKEN=ESC[01;31mESC[K«{token}»ESC[mESC[K")),
        ("github-token", format!("ESC[1m«{split}»ESC[0m")),
        ("aws-access-key", format!(".env:ESC[01;31mESC[K«{id}»ESC[mESC[K")),
        ("jwt", format!("ESC[32m«{}»", jwt())),
        ("password", "ESC[32mpasswordESC[0m=«Winter2024!»".to_owned()),
        ("password", "ESC[34;1m\"password\"ESC[0mESC[1;39m:ESC[0m ESC[0;32m\"«Winter2024!»\"ESC[0m".to_owned()),
        ("password", "key ESC[33mDB_PASSWORDESC[0m ESC[2m=ESC[0m «Winter2024!»ESC[0m".to_owned()),
        ("connection-password", "ESC[36mpostgres://app:«n0tESC[1mr3al»@db/xESC[0m".to_owned()),
        ("private-key", format!("ESC[33m«{}»", key("PRIVATE KEY").replace('\n', "ESC[0m\nESC[33m"))),
    ];
    for (kind, text) in &cases {
        for escape in ["\u{1b}", "\\u001b", "\\x1b", "\\033", "\\e", "^["] {
            let (text, start, end) = marked(&text.replace("ESC", escape));
            let found: Vec<(&str, usize, usize)> =
                find(text.as_bytes(), None).iter().map(|s| (s.kind, s.start, s.end)).collect();
            assert_eq!(found, [(*kind, start, end)], "{text:?}");
            let once = redacted(text.as_bytes(), None);
            assert_eq!(redacted(&once, None), once, "{text:?}");
        }
    }
    let member = find(b"\x1b[1mhunter2!\x1b[0m", Some(b"password"));
    assert_eq!(member.iter().map(|s| (s.start, s.end)).collect::<Vec<_>>(), [(4, 12)]);
}

fn redacted(text: &[u8], member: Option<&[u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut at = 0;
    for (n, secret) in find(text, member).iter().enumerate() {
        assert!(at <= secret.start && secret.start < secret.end && secret.end <= text.len());
        out.extend_from_slice(&text[at..secret.start]);
        out.extend_from_slice(format!("[secret:{}:{}]", secret.kind, n + 1).as_bytes());
        at = secret.end;
    }
    out.extend_from_slice(&text[at..]);
    out
}

proptest! {
    /// Any secrets glued together anyhow: ranges are in order and on characters, and nothing is left to redact.
    #[test]
    fn a_second_pass_finds_nothing(
        pieces in prop::collection::vec((0usize..60, 0usize..14), 1..6),
        member in prop::option::of(prop::sample::select(vec!["password", "api_key", "text"])),
    ) {
        let glue = ["", " ", "-", "_", "é", "\\n", "=", ":", "\"", "a", ".", "password=", "\u{1b}[31m", "\\u001b[0m"];
        let plain = plain();
        let mut text = String::new();
        for (piece, between) in pieces {
            text.push_str(glue[between]);
            text.push_str(&marked(&plain[piece % plain.len()].1).0);
        }
        let member = member.map(str::as_bytes);
        for secret in find(text.as_bytes(), member) {
            prop_assert!(text.is_char_boundary(secret.start) && text.is_char_boundary(secret.end));
        }
        let once = redacted(text.as_bytes(), member);
        prop_assert_eq!(redacted(&once, member), once);
    }

    #[test]
    fn any_bytes_are_taken(text in prop::collection::vec(any::<u8>(), 0..200), member in prop::collection::vec(any::<u8>(), 0..20)) {
        redacted(&text, Some(&member));
    }
}

/// Time is linear: what would make a naive search quadratic stays below a bound that only that would break.
#[test]
fn hostile_texts_take_linear_time() {
    let jwt = "eyJ.".repeat(100_000);
    let pem = "-----BEGIN PRIVATE KEY-----".repeat(20_000);
    for text in [
        jwt,
        pem,
        "pwd=".repeat(100_000),
        "sk-".repeat(100_000),
        "Bearer a".repeat(50_000),
        "a://".repeat(100_000),
        "\\neyJ".repeat(80_000),
        "passw%3d".repeat(50_000),
        "key=\"password\"".repeat(30_000),
        "-----END PRIVATE KEY-----".repeat(20_000),
        "abcdefghijklmnopq ".repeat(30_000) + "-----END PRIVATE KEY-----",
        "user identified by 'a".repeat(20_000),
        "&quot;password&quot;:&quot;".repeat(20_000),
    ] {
        find(text.as_bytes(), None);
    }
}
