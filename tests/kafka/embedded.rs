//! The worker on the embedded broker: wiring only, see the module's warning.

use std::time::Duration;

use sluicegate::runtime::embedded::Embedded;
use sluicegate::runtime::settings::Settings;
use sluicegate::runtime::worker::Ended;

use crate::exactly_once::{Running, check, traffic};
use crate::support::client::produce;

#[test]
fn the_same_worker_runs_on_the_embedded_broker() {
    let embedded = Embedded::start().unwrap();
    let mut settings = Settings::new("", "demo", &["events"]);
    embedded.prepare(&mut settings, 2).unwrap();
    let records = traffic(1_000, 2, 10);
    produce(&settings.bootstrap, "events", &records);
    let running = Running::start(&settings);
    check(&settings, &records, Duration::from_secs(40));
    assert_eq!(running.finish(), Ok(Ended::Drained));
}
