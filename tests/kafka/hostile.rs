//! Records that a well-behaved client would not write.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use sluicegate::runtime::worker::Ended;

use crate::exactly_once::{Running, world};
use crate::support::broker;
use crate::support::client::{eventually, read_committed};

/// Castagnoli's CRC, as a record batch carries it.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |c, _| if c & 1 == 1 { (c >> 1) ^ 0x82f6_3b78 } else { c >> 1 })
    })
}

fn varint(into: &mut Vec<u8>, value: i64) {
    let mut rest = ((value << 1) ^ (value >> 63)) as u64;
    while rest >= 0x80 {
        into.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    into.push(rest as u8);
}

fn size(length: usize) -> i64 {
    i64::try_from(length).unwrap()
}

/// Produces one record without key and value to partition 0, its header names taken as bytes (Produce, version 3).
fn produce_raw(bootstrap: &str, topic: &str, names: &[&[u8]]) {
    let mut record = vec![0_u8];
    varint(&mut record, 0);
    varint(&mut record, 0);
    varint(&mut record, -1);
    varint(&mut record, -1);
    varint(&mut record, size(names.len()));
    for name in names {
        varint(&mut record, size(name.len()));
        record.extend_from_slice(name);
        varint(&mut record, 1);
        record.push(b'v');
    }
    let mut covered = Vec::new();
    covered.extend(0_i16.to_be_bytes()); // attributes
    covered.extend(0_i32.to_be_bytes()); // last offset delta
    covered.extend(1_700_000_000_000_i64.to_be_bytes()); // first timestamp
    covered.extend(1_700_000_000_000_i64.to_be_bytes()); // last timestamp
    covered.extend((-1_i64).to_be_bytes()); // producer id
    covered.extend((-1_i16).to_be_bytes()); // producer epoch
    covered.extend((-1_i32).to_be_bytes()); // first sequence
    covered.extend(1_i32.to_be_bytes()); // records
    varint(&mut covered, size(record.len()));
    covered.extend(record);
    let mut batch = 0_i64.to_be_bytes().to_vec();
    batch.extend(i32::try_from(covered.len() + 9).unwrap().to_be_bytes());
    batch.extend((-1_i32).to_be_bytes()); // leader epoch
    batch.push(2); // format
    batch.extend(crc32c(&covered).to_be_bytes());
    batch.extend(covered);

    let mut request = Vec::new();
    request.extend(0_i16.to_be_bytes());
    request.extend(3_i16.to_be_bytes());
    request.extend(7_i32.to_be_bytes()); // correlation
    request.extend((-1_i16).to_be_bytes()); // no client id
    request.extend((-1_i16).to_be_bytes()); // no transactional id
    request.extend((-1_i16).to_be_bytes()); // acks
    request.extend(5_000_i32.to_be_bytes());
    request.extend(1_i32.to_be_bytes());
    request.extend(i16::try_from(topic.len()).unwrap().to_be_bytes());
    request.extend(topic.as_bytes());
    request.extend(1_i32.to_be_bytes());
    request.extend(0_i32.to_be_bytes()); // partition
    request.extend(i32::try_from(batch.len()).unwrap().to_be_bytes());
    request.extend(batch);

    let mut stream = TcpStream::connect(bootstrap).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream.write_all(&i32::try_from(request.len()).unwrap().to_be_bytes()).unwrap();
    stream.write_all(&request).unwrap();
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut answer = vec![0; usize::try_from(i32::from_be_bytes(length)).unwrap()];
    stream.read_exact(&mut answer).unwrap();
    // correlation, topics, name, partitions, partition, error
    let at = 4 + 4 + 2 + topic.len() + 4 + 4;
    assert_eq!(answer[at..at + 2], [0, 0], "the broker refused the record");
}

/// A header's name is bytes on the wire; the wrapper of the client takes it for UTF-8.
#[test]
fn header_names_that_are_not_text_and_null_fields_are_judged() {
    let Some(broker) = broker() else { return };
    let settings = world(&broker.bootstrap, 1);
    for names in [vec![&b"\xff\xfe"[..], b"ok"], vec![], vec![&b"many"[..]; 60]] {
        produce_raw(&broker.bootstrap, &settings.inputs[0], &names);
    }
    let running = Running::start(&settings);
    let verdicts = || read_committed(&broker.bootstrap, &settings.verdicts);
    assert!(eventually(Duration::from_secs(20), || verdicts().len() == 3));
    assert_eq!(verdicts().iter().map(|v| v.text()).collect::<Vec<_>>(), [":1:", ":2:", ":3:"]);
    assert_eq!(running.finish(), Ok(Ended::Drained));
}
