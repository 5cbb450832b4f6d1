//! Workers under one roof: the checks before they start, their threads, and how the process ends.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use super::environment::EnvironmentError;
use super::judge::Judge;
use super::kafka::SystemClock;
use super::kafka::ledger::KafkaLedger;
use super::kafka::source::KafkaSource;
use super::kafka::topics::{self, Cluster};
use super::restore::{Desk, Restorer};
use super::settings::Settings;
use super::worker::{Ended, Ports, Stop, Telemetry, Worker};

/// How long after the drain a client may still need to leave the group.
const GRACE: Duration = Duration::from_secs(10);
/// How long a forced stop waits for an abort; what is open then ends with the transaction's timeout.
const FORCED_GRACE: Duration = Duration::from_secs(3);

/// Runs the workers until `stop` is requested or one of them cannot go on; blocks.
///
/// The first end that is not a drain decides for all: a process with a dead worker would hold partitions that
/// nobody reads.
pub fn run<J: Judge>(
    settings: Settings,
    judge: Arc<J>,
    telemetry: Arc<dyn Telemetry>,
    stop: Arc<Stop>,
) -> Result<Ended, EnvironmentError> {
    let cluster = topics::check(&settings)?;
    run_checked(settings, &cluster, judge, telemetry, stop)
}

/// Like [`run`], for a cluster that [`topics::check`] found in order.
pub fn run_checked<J: Judge>(
    settings: Settings,
    cluster: &Cluster,
    judge: Arc<J>,
    telemetry: Arc<dyn Telemetry>,
    stop: Arc<Stop>,
) -> Result<Ended, EnvironmentError> {
    let settings = Arc::new(settings);
    tracing::info!(
        event = "service.starting",
        cluster = cluster.id,
        brokers = cluster.brokers,
        workers = settings.workers,
        group = settings.group,
        instance = settings.instance,
    );
    let restorer = Restorer::start(&settings, &judge, &telemetry)?;
    let (report, reports) = channel();
    let mut threads = Vec::new();
    for number in 0..settings.workers.max(1) {
        let source = KafkaSource::new(&settings, number)?;
        let ledger = KafkaLedger::new(&settings, number);
        let desk: Desk<J::State> = restorer.desk(number);
        let (settings, judge) = (Arc::clone(&settings), Arc::clone(&judge));
        let (telemetry, stop) = (Arc::clone(&telemetry), Arc::clone(&stop));
        let report = report.clone();
        // Made on its own thread: a judge's buffers need not be able to move.
        let thread = std::thread::Builder::new().name(format!("worker-{number}")).spawn(move || {
            let ports = Ports { source, ledger, clock: SystemClock::new(), restore: desk };
            let mut worker = Worker::new(number, &settings, &judge, &telemetry, &stop, ports);
            let ended = worker.run();
            drop(worker);
            let _ = report.send(ended);
        });
        threads.push(thread.map_err(|e| {
            EnvironmentError::new("threads", format!("no thread could be started: {e}"), "check the process limits")
        })?);
    }
    drop(report);
    let ended = supervise(&settings, &stop, &reports, threads.len());
    if ended.1 {
        for thread in threads {
            let _ = thread.join();
        }
        restorer.finish();
    }
    Ok(ended.0)
}

/// The verdict over all workers, and whether all of them came back.
fn supervise(
    settings: &Settings,
    stop: &Stop,
    reports: &std::sync::mpsc::Receiver<Ended>,
    workers: usize,
) -> (Ended, bool) {
    let mut verdict = Ended::Drained;
    let mut back = 0;
    let (mut since, mut forced): (Option<Instant>, Option<Instant>) = (None, None);
    while back < workers {
        match reports.recv_timeout(Duration::from_millis(50)) {
            Ok(ended) => {
                back += 1;
                if ended != Ended::Drained && verdict == Ended::Drained {
                    verdict = ended;
                }
                if !stop.draining() {
                    stop.request();
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                let over =
                    |began: &mut Option<Instant>, patience| began.get_or_insert_with(Instant::now).elapsed() > patience;
                if (stop.forced() && over(&mut forced, FORCED_GRACE))
                    || (stop.draining() && over(&mut since, settings.drain_timeout + GRACE))
                {
                    tracing::error!(event = "service.stuck", workers = workers - back);
                    return (if verdict == Ended::Drained { Ended::Forced } else { verdict }, false);
                }
            }
            // A worker that panicked sends nothing.
            Err(RecvTimeoutError::Disconnected) => {
                stop.request();
                let error = EnvironmentError::new(
                    "worker_panic",
                    "a worker thread panicked",
                    "restart the process and report the line event=\"panic\" above",
                );
                return (Ended::Environment(error), true);
            }
        }
    }
    // A second signal is answered as such, also when it came while the group was being left.
    (if verdict == Ended::Drained && stop.forced() { Ended::Forced } else { verdict }, true)
}
