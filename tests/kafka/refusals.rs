//! What the service refuses, and what it says then.

use std::time::Duration;

use sluicegate::runtime::environment::EnvironmentError;
use sluicegate::runtime::settings::{OnLoss, OnReset, Settings, state_topic};
use sluicegate::runtime::worker::Ended;

use crate::exactly_once::{Running, check, traffic, world};
use crate::support::client::{create_topic, delete_topic, eventually, produce, read_committed, set_offset, widen};
use crate::support::world::{Event, World};
use crate::support::{broker, unique};

fn refusal(ended: Result<Ended, EnvironmentError>) -> EnvironmentError {
    match ended {
        Ok(Ended::Environment(error)) | Err(error) => error,
        other => panic!("not refused: {other:?}"),
    }
}

/// A world in which 400 records were judged and the service has ended.
fn judged(bootstrap: &str) -> (Settings, Vec<(i32, String, String)>) {
    let settings = world(bootstrap, 1);
    let records = traffic(400, 1, 7);
    produce(bootstrap, &settings.inputs[0], &records);
    let running = Running::start(&settings);
    check(&settings, &records, Duration::from_secs(30));
    assert_eq!(running.finish(), Ok(Ended::Drained));
    (settings, records)
}

#[test]
fn an_offset_that_was_reset_is_refused_until_a_setting_decides() {
    let Some(broker) = broker() else { return };
    let (settings, records) = judged(&broker.bootstrap);
    set_offset(&broker.bootstrap, &settings.group, &settings.inputs[0], 0, 100);
    let error = refusal(Running::start(&settings).ended(Duration::from_secs(30)));
    assert_eq!(error.code, "offset_reset", "{error}");
    assert!(error.what.contains(&settings.group) && error.repair.contains("state.on_offset_reset"), "{error}");

    let replay = Settings { on_offset_reset: OnReset::ReplayFresh, ..settings.clone() };
    let before = read_committed(&broker.bootstrap, &settings.verdicts).len();
    let expected: Vec<String> = crate::exactly_once::expectation(&records[100..]).remove(&0).unwrap();
    let running = Running::start(&replay);
    let now = || read_committed(&broker.bootstrap, &settings.verdicts);
    assert!(eventually(Duration::from_secs(30), || now().len() >= before + expected.len()));
    let again: Vec<String> = now()[before..].iter().map(crate::support::client::Seen::text).collect();
    assert_eq!(again, expected, "the range is judged again with empty state");
    assert_eq!(running.finish(), Ok(Ended::Drained));
    // The old state is gone: a restart under the strict setting finds only what the replay wrote.
    let running = Running::start(&settings);
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(running.finish(), Ok(Ended::Drained));
}

#[test]
fn a_group_deleted_behind_its_state_is_refused() {
    let Some(broker) = broker() else { return };
    let (settings, _) = judged(&broker.bootstrap);
    let other = Settings { group: unique("group"), ..settings };
    let error = refusal(Running::start(&other).ended(Duration::from_secs(30)));
    assert_eq!(error.code, "offset_reset", "{error}");
}

/// State under another fingerprint key is not recognised: said where it is restored, once.
#[test]
fn another_fingerprint_key_is_told_once() {
    let Some(broker) = broker() else { return };
    let world = World::new(&broker.bootstrap, 1);
    let run = |n: i64| {
        let instance = world.instance("0");
        world.send(&[Event::result(&format!("c{n}"), "log", "done")]);
        world.judged_to(n, &instance);
        let told = instance.log().lines().filter(|l| l.contains("state.other_key")).count();
        instance.drain();
        told
    };
    assert_eq!((run(0), run(1)), (0, 0));
    std::fs::write(world.folder.path().join("key"), "ff".repeat(32)).unwrap();
    assert_eq!((run(2), run(3)), (1, 0));
}

#[test]
fn lost_state_is_refused_until_a_setting_decides() {
    let Some(broker) = broker() else { return };
    let (mut settings, mut records) = judged(&broker.bootstrap);
    settings.transaction_timeout = Duration::from_secs(2);
    let state = state_topic(&settings.inputs[0]);
    delete_topic(&broker.bootstrap, &state);
    std::thread::sleep(Duration::from_secs(2));
    create_topic(&broker.bootstrap, &state, 1, &[("cleanup.policy", "compact")]);
    let error = refusal(Running::start(&settings).ended(Duration::from_secs(30)));
    assert_eq!(error.code, "state_lost", "{error}");
    assert!(error.what.contains(&state) && error.repair.contains("state.on_loss"), "{error}");

    settings.on_loss = OnLoss::StartEmpty;
    let before = read_committed(&broker.bootstrap, &settings.verdicts).len();
    let running = Running::start(&settings);
    let more = traffic(30, 1, 7);
    produce(&broker.bootstrap, &settings.inputs[0], &more);
    let expected = crate::exactly_once::expectation(&more).remove(&0).unwrap();
    let now = || read_committed(&broker.bootstrap, &settings.verdicts);
    assert!(eventually(Duration::from_secs(30), || now().len() >= before + expected.len()));
    let fresh: Vec<String> = now()[before..].iter().map(crate::support::client::Seen::text).collect();
    assert_eq!(fresh, expected);
    records.extend(more);
    assert_eq!(running.finish(), Ok(Ended::Drained));
}

#[test]
fn a_missing_topic_is_named() {
    let Some(broker) = broker() else { return };
    let mut settings = world(&broker.bootstrap, 1);
    settings.verdicts = unique("nowhere");
    let error = refusal(Running::start(&settings).ended(Duration::from_secs(20)));
    assert_eq!(error.code, "topic_missing");
    assert!(error.what.contains(&settings.verdicts) && error.repair.contains("topics apply"), "{error}");
    settings.inputs = vec![unique("nothing")];
    let error = refusal(Running::start(&settings).ended(Duration::from_secs(20)));
    assert!(error.what.contains(&settings.inputs[0]) && error.what.contains("input topic"), "{error}");
}

#[test]
fn an_unreachable_broker_is_named() {
    let mut settings = Settings::new("127.0.0.1:1", "group", &["events"]);
    settings.startup_timeout = Duration::from_secs(2);
    let error = refusal(Running::start(&settings).ended(Duration::from_secs(20)));
    assert_eq!(error.code, "kafka_unreachable", "{error}");
    assert!(error.what.contains("127.0.0.1:1"), "{error}");
}

#[test]
fn a_verdict_topic_that_cannot_hold_a_verdict_is_refused() {
    let Some(broker) = broker() else { return };
    let mut settings = world(&broker.bootstrap, 1);
    settings.verdicts = unique("narrow");
    create_topic(&broker.bootstrap, &settings.verdicts, 1, &[("max.message.bytes", "10000")]);
    let error = refusal(Running::start(&settings).ended(Duration::from_secs(20)));
    assert_eq!(error.code, "topic_limit", "{error}");
    assert!(error.what.contains(&settings.verdicts), "{error}");
}

#[test]
fn partitions_beyond_a_narrow_output_wait_and_are_not_lost() {
    let Some(broker) = broker() else { return };
    let mut settings = world(&broker.bootstrap, 2);
    settings.metadata_refresh = Duration::from_secs(2);
    settings.verdicts = unique("verdicts");
    create_topic(&broker.bootstrap, &settings.verdicts, 1, &[]);
    let records = traffic(200, 2, 4);
    produce(&broker.bootstrap, &settings.inputs[0], &records);
    let running = Running::start(&settings);
    let narrow: Vec<_> = records.iter().filter(|r| r.0 == 0).cloned().collect();
    check(&settings, &narrow, Duration::from_secs(30));
    std::thread::sleep(Duration::from_secs(1));
    assert!(read_committed(&broker.bootstrap, &settings.redacted).iter().all(|r| r.partition == 0));
    widen(&broker.bootstrap, &settings.verdicts, 2);
    check(&settings, &records, Duration::from_secs(30));
    assert_eq!(running.finish(), Ok(Ended::Drained));
}

#[test]
fn an_output_that_its_topic_refuses_ends_the_process() {
    let Some(broker) = broker() else { return };
    let mut settings = world(&broker.bootstrap, 1);
    settings.redacted = unique("narrow");
    create_topic(&broker.bootstrap, &settings.redacted, 1, &[("max.message.bytes", "10000")]);
    // Not compressible to below the limit.
    let mut x = 88_172_645_463_325_252_u64;
    let noise: String = std::iter::repeat_with(|| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        char::from(33 + u8::try_from(x % 90).unwrap())
    })
    .take(30_000)
    .collect();
    produce(&broker.bootstrap, &settings.inputs[0], &[(0, "k".to_owned(), noise)]);
    let error = refusal(Running::start(&settings).ended(Duration::from_secs(30)));
    assert_eq!(error.code, "output_too_large", "{error}");
    assert!(
        error.what.contains("batch")
            && error.what.contains(&settings.redacted)
            && error.repair.contains("max.message.bytes"),
        "{error}"
    );
    assert!(read_committed(&broker.bootstrap, &settings.verdicts).is_empty());
}

#[test]
fn a_wrong_password_and_a_missing_permission_are_named() {
    let Some(broker) = broker() else { return };
    let mut settings = world(&broker.bootstrap, 1);
    settings.startup_timeout = Duration::from_secs(3);
    settings.bootstrap = broker.sasl.clone();
    for (key, value) in [
        ("security.protocol", "SASL_PLAINTEXT"),
        ("sasl.mechanism", "PLAIN"),
        ("sasl.username", "gate"),
        ("sasl.password", "wrong"),
    ] {
        settings.properties.insert(key.to_owned(), value.to_owned());
    }
    let error = refusal(Running::start(&settings).ended(Duration::from_secs(20)));
    assert_eq!(error.code, "kafka_denied", "{error}");
    assert!(error.what.contains(&broker.sasl) && error.what.contains("PLAIN"), "{error}");
    assert!(!error.to_string().contains("wrong"), "{error}");

    settings.properties.insert("sasl.password".to_owned(), "secret".to_owned());
    let error = refusal(Running::start(&settings).ended(Duration::from_secs(20)));
    assert!(error.what.contains("may not see it") && error.repair.contains("Describe"), "{error}");
}
