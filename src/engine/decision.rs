//! The two scales that everything is measured on: what is decided, and where.

use serde::{Deserialize, Serialize};

/// What is asked for, and what was done. Ordered: the stronger wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    Allow,
    Redact,
    Block,
}

impl Decision {
    pub fn name(self) -> &'static str {
        match self {
            Decision::Allow => "allow",
            Decision::Redact => "redact",
            Decision::Block => "block",
        }
    }
}

/// Where in an agent's loop the verdict stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Checkpoint {
    ToolCall,
    ToolStart,
    ToolResult,
    ModelRequest,
    ServerResult,
    ToolDefinitions,
    Render,
}

impl Checkpoint {
    pub const ALL: [Checkpoint; 7] = [
        Checkpoint::ToolCall,
        Checkpoint::ToolStart,
        Checkpoint::ToolResult,
        Checkpoint::ModelRequest,
        Checkpoint::ServerResult,
        Checkpoint::ToolDefinitions,
        Checkpoint::Render,
    ];
    pub fn name(self) -> &'static str {
        match self {
            Checkpoint::ToolCall => "tool_call",
            Checkpoint::ToolStart => "tool_start",
            Checkpoint::ToolResult => "tool_result",
            Checkpoint::ModelRequest => "model_request",
            Checkpoint::ServerResult => "server_result",
            Checkpoint::ToolDefinitions => "tool_definitions",
            Checkpoint::Render => "render",
        }
    }
}
