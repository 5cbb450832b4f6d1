//! Serves HTTP on a port that others can reach: what each may hold is bounded, in time and in number.
//!
//! A client has [`HEADER`] for each request, and a connection ends after [`AGE`], so that no client keeps one for good.
//! Of [`MOST`] connections, the one that asked nothing for longest makes room for a new one: a probe that asks at once
//! is answered while others hold connections open without asking.

use axum::Router;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// How long a client may take for the header of a request, the first one and each after it.
pub const HEADER: Duration = Duration::from_secs(5);
/// How many connections are open at once.
pub const MOST: usize = 128;
/// After this time a connection ends with its next answer.
const AGE: Duration = Duration::from_secs(60);
/// How long that answer may take to be read.
const LAST: Duration = Duration::from_secs(10);
/// Bytes of a header, and of an answer that waits to be read.
const BUFFER: usize = 16 * 1024;
/// The pause where no connection can be accepted, such as without a free descriptor.
const PAUSE: Duration = Duration::from_millis(100);

/// The open connections, by when they last asked, oldest first. Without its sender a connection ends.
#[derive(Default)]
struct Open {
    next: u64,
    held: BTreeMap<u64, oneshot::Sender<()>>,
}

impl Open {
    fn insert(&mut self, end: oneshot::Sender<()>) -> u64 {
        let at = self.next;
        self.next += 1;
        self.held.insert(at, end);
        at
    }
}

/// The place of one connection.
struct Slot {
    open: Arc<Mutex<Open>>,
    at: AtomicU64,
}

impl Slot {
    /// Takes a place; of more than `MOST`, the one that asked nothing for longest is dropped.
    fn take(open: &Arc<Mutex<Open>>) -> (Self, oneshot::Receiver<()>) {
        let (end, ended) = oneshot::channel();
        let mut all = lock(open);
        while all.held.len() >= MOST {
            all.held.pop_first();
        }
        let at = AtomicU64::new(all.insert(end));
        (Self { open: Arc::clone(open), at }, ended)
    }
    /// It asked.
    fn asked(&self) {
        let mut all = lock(&self.open);
        if let Some(end) = all.held.remove(&self.at.load(Ordering::Relaxed)) {
            self.at.store(all.insert(end), Ordering::Relaxed);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        lock(&self.open).held.remove(&self.at.load(Ordering::Relaxed));
    }
}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Serves until `stop` is done, and then until every connection has its answer.
pub async fn serve(listener: TcpListener, router: Router, stop: impl Future<Output = ()> + Send) {
    let open = Arc::new(Mutex::new(Open::default()));
    let (stopping, stopped) = watch::channel(());
    let mut connections = JoinSet::new();
    let mut stop = pin!(stop);
    loop {
        let accepted = tokio::select! {
            () = stop.as_mut() => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                let (slot, ended) = Slot::take(&open);
                connections.spawn(connection(stream, router.clone(), slot, ended, stopped.clone()));
            }
            // One client's, or none can be accepted now: then the oldest gives its descriptor back. Never a reason to
            // end, nor to spin.
            Err(error) => {
                tracing::warn!(event = "http.accept", %error, what = "one connection was closed to make room");
                lock(&open).held.pop_first();
                tokio::select! {
                    () = stop.as_mut() => break,
                    () = sleep(PAUSE) => {}
                }
            }
        }
    }
    drop(listener);
    let _ = stopping.send(());
    while connections.join_next().await.is_some() {}
}

async fn connection(
    stream: TcpStream,
    router: Router,
    slot: Slot,
    mut ended: oneshot::Receiver<()>,
    mut stopped: watch::Receiver<()>,
) {
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        slot.asked();
        router.call(request)
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADER).max_buf_size(BUFFER);
    let mut http = pin!(http.serve_connection(TokioIo::new(stream), service));
    // What went wrong on one connection is its client's matter.
    tokio::select! {
        _ = http.as_mut() => return,
        _ = &mut ended => return,
        _ = stopped.changed() => {}
        () = sleep(AGE) => {}
    }
    http.as_mut().graceful_shutdown();
    tokio::select! {
        _ = http.as_mut() => {}
        _ = ended => {}
        () = sleep(LAST) => {}
    }
}
