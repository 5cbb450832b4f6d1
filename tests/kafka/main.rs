//! Tests against Apache Kafka itself: exactly-once, faults, refusals.

mod exactly_once;
mod instance;
mod refusals;
mod support;
mod throughput;
