//! Detectors: what stands in a text, whoever asks.
//!
//! Place in the journey: policies show their subject's texts to the detectors below, each of which reads bytes
//! and answers with ranges of them. Several policies look for the same things (credentials in outputs, in
//! descriptions, in errors), so what looks is here and what follows from it is theirs. Texts are decoded once,
//! for all of them ([`text`]).
//!
//! Invariants: a detector is a function of the bytes; it takes time linear in them; its ranges are in order, apart
//! from each other, and lie on character boundaries.

pub mod escapes;
pub mod hosts;
pub mod injection;
pub mod internal;
pub mod invisible;
pub mod literals;
pub mod markup;
pub mod media;
pub mod names;
pub mod normalise;
pub mod parameters;
pub mod personal;
pub mod secrets;
pub mod terminal;
pub mod text;
pub mod traces;
