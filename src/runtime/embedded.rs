//! A broker inside the process, for `demo` and quick wiring tests: librdkafka's mock cluster on loopback.
//!
//! It speaks the real protocol and proves nothing about exactly-once: it shows aborted records to everybody,
//! throws transactional offsets away, and knows neither fencing nor compaction nor admin calls. It keeps at most
//! 5 MiB or 100 000 records a partition.

use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;

use super::environment::EnvironmentError;
use super::settings::{Settings, state_topic};

pub struct Embedded(MockCluster<'static, DefaultProducerContext>);

impl Embedded {
    pub fn start() -> Result<Self, EnvironmentError> {
        MockCluster::new(1).map(Self).map_err(|e| error(&e))
    }

    pub fn bootstrap(&self) -> String {
        self.0.bootstrap_servers()
    }

    pub fn create_topic(&self, name: &str, partitions: i32) -> Result<(), EnvironmentError> {
        self.0.create_topic(name, partitions, 1).map_err(|e| error(&e))
    }

    /// Makes every topic of `settings` and points it here, for one worker that keeps nothing.
    pub fn prepare(&self, settings: &mut Settings, partitions: i32) -> Result<(), EnvironmentError> {
        settings.bootstrap = self.bootstrap();
        settings.durable = false;
        settings.workers = 1;
        let states: Vec<String> = settings.inputs.iter().map(|i| state_topic(i)).collect();
        for topic in settings.inputs.iter().chain(&states).map(String::as_str).chain(settings.outputs()) {
            self.create_topic(topic, partitions)?;
        }
        Ok(())
    }
}

fn error(error: &rdkafka::error::KafkaError) -> EnvironmentError {
    EnvironmentError::new(
        "embedded_broker",
        format!("the embedded broker failed: {error}"),
        "try again; it needs loopback",
    )
}
