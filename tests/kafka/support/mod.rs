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

/// A free port of loopback that stays free between two starts of a server: the system gives none of these to
/// outgoing connections (`net.ipv4.ip_local_port_range`), and other test processes begin elsewhere.
pub fn free_port() -> u16 {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let begin = std::process::id().wrapping_mul(97);
    let next = || 10_000 + (begin.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % 20_000) as u16;
    let free = |port: &u16| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok();
    std::iter::repeat_with(next).take(20_000).find(free).expect("a free port")
}

/// A name that no other test or run uses.
pub fn unique(prefix: &str) -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{prefix}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}
