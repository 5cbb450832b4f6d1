//! Tests against Apache Kafka itself: exactly-once, faults, refusals.

mod embedded;
mod exactly_once;
mod hostile;
mod instance;
mod outages;
mod recorded;
mod refusals;
mod support;
mod throughput;
