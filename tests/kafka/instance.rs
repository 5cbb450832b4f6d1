//! The body of a child process, see [`crate::support::process`].

use std::sync::Arc;

use sluicegate::runtime::service;
use sluicegate::runtime::worker::{Ended, NoTelemetry, Stop};

use crate::support::counting::Counting;
use crate::support::process;

/// Not a test of its own: runs the service until SIGTERM, with the exit codes of the command line.
#[test]
#[ignore = "the body of a child process"]
fn instance() {
    let Some(settings) = process::settings() else {
        return;
    };
    let level = std::env::var("SLUICEGATE_TEST_LOG").unwrap_or_else(|_| "info,rdkafka=off".to_owned());
    let _ = tracing_subscriber::fmt().with_env_filter(level).with_ansi(false).try_init();
    let stop = Arc::new(Stop::default());
    let signals = Arc::clone(&stop);
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut term = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).unwrap();
            while term.recv().await.is_some() {
                signals.request();
            }
        });
    });
    let ended =
        service::run(settings, Arc::new(Counting { step_time: process::step_time() }), Arc::new(NoTelemetry), stop);
    println!("ended: {ended:?}");
    std::process::exit(match ended {
        Ok(Ended::Drained) => 0,
        Ok(Ended::Forced) => 3,
        Ok(Ended::Environment(_)) | Err(_) => 4,
    });
}
