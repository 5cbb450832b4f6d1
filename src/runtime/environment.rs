//! What is wrong around the process, said so that an operator can act: exit code 4.

use std::fmt;

/// A broker, a permission, a topic or a state that does not allow the service to go on.
///
/// `code` is stable and goes to logs; `what` names the thing, `repair` the next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvironmentError {
    pub code: &'static str,
    pub what: String,
    pub repair: String,
}

impl EnvironmentError {
    pub const EXIT_CODE: u8 = 4;

    pub fn new(code: &'static str, what: impl Into<String>, repair: impl Into<String>) -> Self {
        Self { code, what: what.into(), repair: repair.into() }
    }
}

impl fmt::Display for EnvironmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})\n  {}", self.what, self.code, self.repair)
    }
}

impl std::error::Error for EnvironmentError {}
