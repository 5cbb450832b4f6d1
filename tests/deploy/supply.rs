//! `deploy/supply-chain.md` speaks of this lock file and of these rules.

use crate::files::read;

/// Name and version of every package in the lock file.
fn locked() -> Vec<(String, String)> {
    let lock = read("Cargo.lock");
    let value = |text: &str, key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key).map(str::to_owned));
        line.map(|line| line.trim_matches(['=', ' ', '"']).to_owned()).unwrap_or_default()
    };
    lock.split("[[package]]").skip(1).map(|text| (value(text, "name"), value(text, "version"))).collect()
}

#[test]
fn versions_on_the_page_are_those_of_the_lock_file() {
    let (page, locked) = (read("deploy/supply-chain.md"), locked());
    for name in ["openssl-src", "rdkafka-sys"] {
        let (_, version) = locked.iter().find(|(found, _)| found == name).unwrap();
        assert!(page.contains(&format!("`{name}` {version}")), "{name} {version}");
    }
    for name in ["openssl-src", "rdkafka-sys", "zstd-sys", "libz-sys", "cssparser", "dtoa-short"] {
        assert!(page.contains(&format!("`{name}`")) && locked.iter().any(|(found, _)| found == name), "{name}");
    }
}

/// Every package but this one comes from a registry, with a checksum.
#[test]
fn the_lock_file_pins_every_source() {
    for package in read("Cargo.lock").split("[[package]]").skip(1) {
        let own = package.contains("\nname = \"sluicegate\"\n");
        let pinned = package.contains("\nsource = \"registry+") && package.contains("\nchecksum = \"");
        assert!(own != pinned, "{package}");
    }
}
