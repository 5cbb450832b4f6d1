//! `schema`: what a file or a record must look like, as JSON Schema 2020-12; and all channels as AsyncAPI.

use super::{Exit, Failure, Global};
use crate::runtime::schema::{DOCUMENTS, asyncapi};
use clap::builder::{PossibleValue, PossibleValuesParser};
use std::io::Write as _;

#[derive(clap::Args)]
pub struct Args {
    /// Which
    #[arg(value_parser = names(), value_name = "NAME")]
    name: String,
}

/// Not a schema: the document that refers to them.
const ASYNCAPI: &str = "asyncapi";

fn names() -> PossibleValuesParser {
    let schemas = DOCUMENTS.iter().map(|document| PossibleValue::new(document.name).help(document.about));
    schemas.chain([PossibleValue::new(ASYNCAPI).help("every topic, as AsyncAPI 3.0 (YAML)")]).collect::<Vec<_>>().into()
}

pub fn run(_global: &Global, args: &Args) -> Result<Exit, Failure> {
    let text = match DOCUMENTS.iter().find(|document| document.name == args.name) {
        Some(document) => document.text(),
        None => asyncapi::document(),
    };
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(Exit::Fine)
}
