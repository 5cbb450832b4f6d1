//! What the tests of this binary share: one Apache Kafka broker, topics of their own, a judge that counts.

pub mod broker;
pub mod client;
pub mod counting;
pub mod process;
pub mod world;

use std::sync::OnceLock;

use broker::Broker;

/// The broker of this test binary; `None` where the machine has no Java or Maven, which CI does not allow.
pub fn broker() -> Option<&'static Broker> {
    static BROKER: OnceLock<Result<Broker, String>> = OnceLock::new();
    match BROKER.get_or_init(Broker::start) {
        Ok(broker) => Some(broker),
        Err(reason) if std::env::var("CI").is_ok_and(|v| v == "true") => {
            panic!("no broker: {reason}")
        }
        Err(reason) => {
            println!("SKIPPED: {reason}");
            None
        }
    }
}

/// A name that no other test or run uses.
pub fn unique(prefix: &str) -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{prefix}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}
