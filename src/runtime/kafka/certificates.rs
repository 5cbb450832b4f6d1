//! When the certificates expire that the clients were given.
//!
//! Read once: clients keep what they read when they were made, so a file that was renewed since helps after a restart.

use std::fs;

use openssl::asn1::Asn1Time;
use openssl::error::ErrorStack;
use openssl::x509::X509;

use crate::runtime::settings::Settings;

/// What a file of PEM is to the client, and the property that names it.
const FILES: [(&str, &str); 2] = [("kafka_ca", "ssl.ca.location"), ("kafka_client", "ssl.certificate.location")];

/// By role the seconds since the epoch; of several certificates in a file the earliest end.
pub fn expiries(settings: &Settings) -> Vec<(&'static str, u64)> {
    let read = |(role, property): (&'static str, &str)| {
        let file = settings.properties.get(property)?;
        let found = fs::read(file).map_err(|e| e.to_string()).and_then(|pem| earliest(&pem));
        match found {
            Ok(at) => Some((role, at)),
            Err(error) => {
                tracing::warn!(event = "tls.certificate_unread", role, file, error, what = "its expiry is not known");
                None
            }
        }
    };
    FILES.into_iter().filter_map(read).collect()
}

fn earliest(pem: &[u8]) -> Result<u64, String> {
    let ends = |pem: &[u8]| -> Result<Vec<i64>, ErrorStack> {
        let epoch = Asn1Time::from_unix(0)?;
        let all = X509::stack_from_pem(pem)?;
        let since = all.iter().map(|certificate| epoch.diff(certificate.not_after()));
        since.map(|since| since.map(|s| i64::from(s.days) * 86_400 + i64::from(s.secs))).collect()
    };
    let first = ends(pem).map_err(|e| e.to_string())?.into_iter().min();
    first.map(|at| u64::try_from(at).unwrap_or(0)).ok_or_else(|| "it holds no certificate in PEM".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use openssl::hash::MessageDigest;
    use openssl::pkey::PKey;

    fn until(end: i64) -> Vec<u8> {
        let key = PKey::generate_ed25519().unwrap();
        let mut made = X509::builder().unwrap();
        made.set_pubkey(&key).unwrap();
        made.set_not_before(&Asn1Time::from_unix(0).unwrap()).unwrap();
        made.set_not_after(&Asn1Time::from_unix(end).unwrap()).unwrap();
        made.sign(&key, MessageDigest::null()).unwrap();
        made.build().to_pem().unwrap()
    }

    #[test]
    fn of_a_bundle_the_earliest_end_counts() {
        let [far, near] = [4_102_444_799, 1_900_000_001].map(until);
        assert_eq!(earliest(&far), Ok(4_102_444_799));
        assert_eq!(earliest(&[&far[..], b"\n# a remark\n", &near, &far].concat()), Ok(1_900_000_001));
        assert_eq!(earliest(&until(-5)), Ok(0), "long over");
        for bad in [&b""[..], b"text", &far[..60], &[&far[..], &near[..80]].concat()] {
            assert!(earliest(bad).is_err(), "{}", String::from_utf8_lossy(bad));
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_has_no_expiry() {
        let folder = tempfile::tempdir().unwrap();
        let [good, bad] = ["good", "bad"].map(|name| folder.path().join(name));
        fs::write(&good, until(2_000_000_000)).unwrap();
        fs::write(&bad, "-----BEGIN CERTIFICATE-----").unwrap();
        let mut settings = Settings::new("", "g", &["t"]);
        assert_eq!(expiries(&settings), []);
        let mut set = |name: &str, file: &std::path::Path| {
            settings.properties.insert(name.to_owned(), file.display().to_string());
            expiries(&settings)
        };
        assert_eq!(set("ssl.certificate.location", &good), [("kafka_client", 2_000_000_000)]);
        assert_eq!(set("ssl.ca.location", &bad), [("kafka_client", 2_000_000_000)]);
        assert_eq!(set("ssl.ca.location", folder.path()), [("kafka_client", 2_000_000_000)]);
        assert_eq!(set("ssl.ca.location", &good), [("kafka_ca", 2_000_000_000), ("kafka_client", 2_000_000_000)]);
    }
}
