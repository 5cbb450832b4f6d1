//! Raw librdkafka properties that an operator may not set: each would break a guarantee, follows from a setting of
//! ours, or is a secret. The one list; the adapter sets most of these itself, behind what the operator gave.

/// librdkafka properties that are not for the operator, and why. A name that ends in `*` is a prefix.
pub const DENIED_PROPERTIES: &[(&str, &str)] = &[
    ("enable.auto.commit", "offsets are committed in the transaction"),
    ("enable.auto.offset.store", "offsets are committed in the transaction"),
    ("isolation.level", "inputs and state are read with read_committed"),
    ("transactional.id", "it is <group>-<instance>-<worker>; set kafka.instance"),
    ("enable.idempotence", "transactions need it"),
    ("acks", "transactions need all"),
    ("request.required.acks", "transactions need all"),
    ("max.in.flight*", "order within a partition depends on it"),
    ("group.id", "set kafka.group"),
    ("group.instance.id", "set kafka.instance and kafka.static_membership"),
    ("group.protocol", "the rebalance of the classic protocol is what was verified"),
    ("partition.assignment.strategy", "cooperative-sticky is what was verified"),
    ("auto.offset.reset", "set kafka.start"),
    ("allow.auto.create.topics", "a mistyped topic must be an error; use `sluicegate topics apply`"),
    ("enable.partition.eof", "restore and idleness are told by it"),
    ("message.max.bytes", "it follows from engine.limits"),
    ("message.timeout.ms", "it follows from the transaction"),
    ("delivery.timeout.ms", "it follows from the transaction"),
    ("session.timeout.ms", "set kafka.session_timeout"),
    ("transaction.timeout.ms", "set worker.transaction_timeout"),
    ("socket.timeout.ms", "deadlines of transactional calls depend on it"),
    ("enable.gapless.guarantee", "the worker decides what a lost record means"),
    ("partitioner", "outputs go to the input's partition number"),
    ("bootstrap.servers", "set kafka.bootstrap_servers"),
    ("metadata.broker.list", "set kafka.bootstrap_servers"),
    ("security.protocol", "set kafka.security_protocol"),
    ("sasl.mechanism*", "set kafka.sasl.mechanism"),
    ("sasl.username", "set kafka.sasl.username"),
    ("sasl.password", "secrets come from files: set kafka.sasl.password_file"),
    ("ssl.ca.location", "set kafka.ca_file"),
    ("ssl.key.password", "secrets come from files: use a key file without a password, mounted read-only"),
    ("ssl.key.pem", "secrets come from files: set ssl.key.location"),
    ("ssl.keystore.password", "secrets come from files: use ssl.key.location"),
    ("sasl.oauthbearer.client.secret", "secrets come from files; OAUTHBEARER is not in this version"),
];

/// The reason why a librdkafka property is not for the operator.
pub fn denied(property: &str) -> Option<&'static str> {
    DENIED_PROPERTIES
        .iter()
        .find(|(name, _)| match name.strip_suffix('*') {
            Some(prefix) => property.starts_with(prefix),
            None => property == *name,
        })
        .map(|(_, why)| *why)
}
