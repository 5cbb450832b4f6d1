//! Records that a well-behaved client would not write.

use std::ffi::CString;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::bindings as raw;
use rdkafka::producer::{BaseProducer, Producer};
use sluicegate::runtime::worker::Ended;

use crate::exactly_once::{Running, world};
use crate::support::broker;
use crate::support::client::{eventually, read_committed};

/// A header's name is bytes on the wire; the wrapper of the client takes it for UTF-8.
#[test]
fn header_names_that_are_not_text_and_null_fields_are_judged() {
    let Some(broker) = broker() else { return };
    let settings = world(&broker.bootstrap, 1);
    let producer: BaseProducer = ClientConfig::new().set("bootstrap.servers", &broker.bootstrap).create().unwrap();
    let topic = CString::new(settings.inputs[0].as_str()).unwrap();
    for names in [vec![&b"\xff\xfe"[..], b"ok"], vec![], vec![&b"many"[..]; 60]] {
        // SAFETY: the pointers are valid for the calls; the headers are owned by the record once it is queued.
        let error = unsafe {
            let headers = raw::rd_kafka_headers_new(names.len());
            for name in &names {
                let name = CString::new(*name).unwrap();
                raw::rd_kafka_header_add(headers, name.as_ptr(), -1, b"v".as_ptr().cast(), 1);
            }
            raw::rd_kafka_producev(
                producer.client().native_ptr(),
                raw::rd_kafka_vtype_t::RD_KAFKA_VTYPE_TOPIC,
                topic.as_ptr(),
                raw::rd_kafka_vtype_t::RD_KAFKA_VTYPE_PARTITION,
                0,
                raw::rd_kafka_vtype_t::RD_KAFKA_VTYPE_HEADERS,
                headers,
                raw::rd_kafka_vtype_t::RD_KAFKA_VTYPE_END,
            )
        };
        assert_eq!(error, raw::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR);
    }
    producer.flush(Duration::from_secs(10)).unwrap();
    let running = Running::start(&settings);
    let verdicts = || read_committed(&broker.bootstrap, &settings.verdicts);
    assert!(eventually(Duration::from_secs(20), || verdicts().len() == 3));
    assert_eq!(verdicts().iter().map(|v| v.text()).collect::<Vec<_>>(), [":1:", ":2:", ":3:"]);
    assert_eq!(running.finish(), Ok(Ended::Drained));
}
