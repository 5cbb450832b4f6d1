//! Times and sizes as an operator writes them: a whole number and a unit, read back as written.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A length of time: `50ms`, `30s`, `15m`, `24h`, or a number of milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct Time(#[serde(deserialize_with = "time")] pub Duration);

/// A size: `512KiB`, `2GiB`, or a number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct Size(#[serde(deserialize_with = "size")] pub u64);

const TIME_UNITS: [(&str, u64); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];
const SIZE_UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// A whole number and a unit.
fn quantity(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let unit = unit.trim();
    let factor = if unit.is_empty() { 1 } else { units.iter().find(|(name, _)| *name == unit)?.1 };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// The largest unit that divides it.
fn spelled(amount: u64, units: &[(&str, u64)]) -> String {
    let unit = units.iter().find(|(_, f)| amount >= *f && amount.is_multiple_of(*f)).or(units.last());
    unit.map_or_else(|| amount.to_string(), |(name, f)| format!("{}{name}", amount / f))
}

impl std::fmt::Display for Time {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&spelled(u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX), &TIME_UNITS))
    }
}

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&spelled(self.0, &SIZE_UNITS))
    }
}

/// Number or text with a unit.
#[derive(Deserialize)]
#[serde(untagged)]
enum Quantity {
    Number(u64),
    Text(String),
}

impl Serialize for Time {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

fn time<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Duration, D::Error> {
    let expected = "must be a time such as 50ms, 30s, 15m, 24h, or a number of milliseconds";
    amount(d, &TIME_UNITS, expected).map(Duration::from_millis)
}

fn size<'de, D: serde::Deserializer<'de>>(d: D) -> Result<u64, D::Error> {
    amount(d, &SIZE_UNITS, "must be a size such as 512KiB, 64MiB, 2GiB, or a number of bytes")
}

fn amount<'de, D: serde::Deserializer<'de>>(d: D, units: &[(&str, u64)], expected: &str) -> Result<u64, D::Error> {
    let found = match Quantity::deserialize(d).map_err(|_| serde::de::Error::custom(expected))? {
        Quantity::Number(n) => Some(n),
        Quantity::Text(text) => quantity(&text, units),
    };
    found.ok_or_else(|| serde::de::Error::custom(expected))
}

impl Serialize for Size {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}
