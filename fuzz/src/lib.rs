//! What the fuzz targets do with bytes.
//!
//! Each module is one target: `run` takes any bytes and panics where something does not hold that must always
//! hold. `tests/engine/fuzz_corpus.rs` replays the committed corpora through these very functions, so what
//! a fuzzer once found stays found without a fuzzer.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a broken promise is a panic here")]

pub mod assemble;
pub mod decode;
pub mod json;
pub mod layers;
pub mod step;
pub mod translate;

/// The events of a translation as text, as the golden files have them.
#[path = "../../tests/engine/support/describe.rs"]
pub mod describe;

/// A target's name, which is also its corpus folder, and what it does.
pub type Target = (&'static str, fn(&[u8]));

pub const TARGETS: [Target; 6] = [
    ("assemble", assemble::run),
    ("decode", decode::run),
    ("json", json::run),
    ("layers", layers::run),
    ("step", step::run),
    ("translate", translate::run),
];

/// A number from a byte, so that corpora can be written with digits: `0` is 0.
fn digit(byte: Option<&u8>) -> usize {
    usize::from(byte.copied().unwrap_or(b'0').wrapping_sub(b'0'))
}

/// What a byte chooses of a table.
fn pick<T: Copy>(table: &[T], byte: Option<&u8>) -> T {
    table[digit(byte) % table.len()]
}

/// The bytes before and behind the first `by`; all and nothing if it is not there.
fn split<'a>(bytes: &'a [u8], by: &[u8]) -> (&'a [u8], Option<&'a [u8]>) {
    match bytes.windows(by.len()).position(|window| window == by) {
        Some(at) => (&bytes[..at], Some(&bytes[at + by.len()..])),
        None => (bytes, None),
    }
}
