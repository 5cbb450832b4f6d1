//! The command line: one file a command, one set of exit codes.
//!
//! Machine output goes to standard output, everything else to standard error. Whoever closes the pipe early
//! (`sluicegate check … | head`) ends the command quietly.

mod check;
mod demo;
mod pins;
mod policies;
mod raw;
mod run;
mod schema;
mod style;
mod topics;
mod validate;

use super::config::{self, Config, Need, Purpose};
use super::environment::EnvironmentError;
use super::reload::Source;
use crate::engine::policy::Profile;
use crate::engine::{Engine, Problem, Settings};
use clap::{CommandFactory, Parser, Subcommand, ValueEnum};
use std::collections::HashMap;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

const EXIT_CODES: &str = "\
Exit codes:
  0  fine
  1  findings at or above --fail-on, or input that could not be read (check)
  2  usage or configuration
  3  forced stop (a second signal)
  4  environment: broker, permissions, topics, state

Every key of the configuration can also be set as SLUICEGATE__SECTION__KEY, for example
SLUICEGATE__KAFKA__BOOTSTRAP_SERVERS=broker:9092.";

#[derive(Parser)]
#[command(name = "sluicegate", version, about = "Judges what agents' tools say and what models ask tools to do.", after_help = EXIT_CODES)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// Options of every command.
#[derive(clap::Args)]
struct Global {
    /// Configuration file (YAML), or several, of which the later win key by key; without one, defaults and environment hold
    #[arg(long, global = true, value_name = "FILE")]
    config: Vec<PathBuf>,
    /// Base policy; overrides policy.profile [default: standard]
    #[arg(long, global = true, value_enum, value_name = "PROFILE")]
    profile: Option<ProfileName>,
    /// When to colour; NO_COLOR counts under auto
    #[arg(long, global = true, value_enum, default_value = "auto", value_name = "WHEN")]
    color: Colour,
}

#[derive(Clone, Copy, ValueEnum)]
enum ProfileName {
    /// The checklist to the letter
    Strict,
    /// Blocks and redacts what is unsafe, takes what the providers accept
    Standard,
    /// Observes everything, changes nothing
    Monitor,
    /// Assembles only
    Off,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Colour {
    Auto,
    Always,
    Never,
}

#[derive(Subcommand)]
enum Command {
    /// The main job with nothing installed: an embedded broker, sample traffic, live verdicts
    Demo(demo::Args),
    /// Run the service
    Run(run::Args),
    /// Judge events from files, one CloudEvent a line
    Check(check::Args),
    /// Check configuration and policies, offline
    Validate(validate::Args),
    /// The catalogue of policies, or one policy's page
    Policies(policies::Args),
    /// Review what servers say of their tools: list, show, diff, export, approve, reject
    Pins(pins::Args),
    /// Plan, create or verify the topics that the service needs
    Topics(topics::Args),
    /// JSON Schemas of the configuration, of events and of what is published
    Schema(schema::Args),
}

/// How a command ended well, or with findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Exit {
    Fine = 0,
    Findings = 1,
    Usage = 2,
    Forced = 3,
    Environment = 4,
}

/// Why a command could not do its work.
enum Failure {
    /// What, where, and what to do next.
    Said(Exit, String),
    /// Standard output failed.
    Output(io::Error),
}

impl From<io::Error> for Failure {
    fn from(e: io::Error) -> Self {
        Failure::Output(e)
    }
}

impl From<EnvironmentError> for Failure {
    fn from(e: EnvironmentError) -> Self {
        Failure::Said(Exit::Environment, e.to_string())
    }
}

impl Failure {
    fn usage(text: impl Into<String>) -> Self {
        Failure::Said(Exit::Usage, text.into())
    }
    fn problems(problems: &[Problem]) -> Self {
        let n = problems.len();
        let head = if n == 1 {
            "1 problem in the configuration:".into()
        } else {
            format!("{n} problems in the configuration:")
        };
        Failure::Said(Exit::Usage, format!("{head}\n{}", config::listed(problems).trim_end()))
    }
}

/// The definition of all commands and options, for whoever wants to know whether a command line would be taken.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Parses the arguments and runs the command.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) => {
            // Help and version are no errors; a closed pipe is none either.
            let _ = e.print();
            return code(if e.use_stderr() { Exit::Usage } else { Exit::Fine });
        }
    };
    let result = match &cli.command {
        Command::Demo(args) => demo::run(&cli.global, args),
        Command::Run(args) => run::run(&cli.global, args),
        Command::Check(args) => check::run(&cli.global, args),
        Command::Validate(args) => validate::run(&cli.global, args),
        Command::Policies(args) => policies::run(&cli.global, args),
        Command::Pins(args) => pins::run(&cli.global, args),
        Command::Topics(args) => topics::run(&cli.global, args),
        Command::Schema(args) => schema::run(&cli.global, args),
    };
    match result {
        Ok(exit) => code(exit),
        Err(Failure::Output(e)) if e.kind() == io::ErrorKind::BrokenPipe => code(Exit::Fine),
        Err(Failure::Output(e)) => {
            let _ = writeln!(io::stderr(), "error: standard output: {e}");
            code(Exit::Environment)
        }
        Err(Failure::Said(exit, text)) => {
            let _ = writeln!(io::stderr(), "error: {text}");
            code(exit)
        }
    }
}

fn code(exit: Exit) -> ExitCode {
    ExitCode::from(exit as u8)
}

impl Global {
    fn load(&self, need: Need) -> Result<Config, Failure> {
        self.source().load(need).map_err(|p| Failure::problems(&p))
    }
    fn source(&self) -> Source {
        Source { files: self.config.clone(), env: environment(), profile: self.profile() }
    }
    fn purpose(&self) -> Result<Purpose, Failure> {
        config::purpose(&self.config, environment()).map_err(|p| Failure::problems(&p))
    }
    fn profile(&self) -> Option<Profile> {
        self.profile.map(|p| match p {
            ProfileName::Strict => Profile::Strict,
            ProfileName::Standard => Profile::Standard,
            ProfileName::Monitor => Profile::Monitor,
            ProfileName::Off => Profile::Off,
        })
    }
    fn settings(&self, config: &Config, cluster: &str) -> Result<Settings, Failure> {
        config.engine_settings(cluster, self.profile()).map_err(|p| Failure::problems(&[p]))
    }
}

/// `SLUICEGATE__…` of the environment; variables that are not text cannot be ours.
fn environment() -> HashMap<String, String> {
    std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?))).collect()
}

/// Compiles the engine. Its problems stand under `policy` or `engine`, where the file has them.
fn engine(settings: Settings) -> Result<Engine, Failure> {
    Engine::new(settings).map_err(|problems| {
        let placed: Vec<Problem> = problems.into_iter().map(config::placed).collect();
        Failure::problems(&placed)
    })
}
