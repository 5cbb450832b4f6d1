//! The command line; everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    sluicegate::runtime::panics::install();
    sluicegate::runtime::cli::main()
}
