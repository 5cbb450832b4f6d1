//! Which definition a call's name means.
//!
//! Source: `provider-formats` §8. Names are compared as bytes. A definition can be in the request's list, can
//! have come late, or can be a type of the provider's own whose calls go by another name. What was not seen
//! is never called undeclared.

use super::View;
use crate::engine::event::Provider;
use crate::engine::event::ToolFamily;
use crate::engine::state::{Call, Exchange, Tool};

/// What is known of a call's tool.
#[derive(Debug, Clone, Copy)]
pub enum ToolKnown<'s> {
    /// The request of the exchange was not seen, or definitions can have come where nobody saw them: nothing
    /// can be said.
    RequestUnseen,
    /// Declared, perhaps with a schema.
    Declared(&'s Tool),
    /// The request was seen and does not declare it.
    Undeclared,
}

impl<'s> View<'s> {
    /// The exchange that a call belongs to.
    pub fn exchange_of(&self, call: &Call) -> Option<&'s Exchange> {
        self.conversation.exchanges.get(&call.exchange).or(self.exchange)
    }

    /// The definition of a call's tool.
    pub fn tool(&self, call: &Call) -> ToolKnown<'s> {
        self.tool_named(call, &call.name, call.namespace.as_deref())
    }

    /// The definition of a tool that is named inside a call.
    pub fn tool_named(&self, call: &Call, name: &[u8], namespace: Option<&[u8]>) -> ToolKnown<'s> {
        let Some(exchange) = self.exchange_of(call) else { return ToolKnown::RequestUnseen };
        let all = &self.conversation.tools;
        let here = || all.values().filter(|tool| Some(tool.toolset) == exchange.toolset);
        if let Some(tool) = pick(here(), name, namespace) {
            return ToolKnown::Declared(tool);
        }
        // A history that is kept elsewhere keeps the definitions that came late in earlier exchanges.
        if exchange.elsewhere
            && let Some(tool) = pick(all.values(), name, namespace)
        {
            return ToolKnown::Declared(tool);
        }
        let omitted = exchange.toolset.and_then(|n| self.conversation.toolsets.get(&n)).is_some_and(|s| s.omitted > 0);
        let unseen = !exchange.request_seen
            || omitted
            || (exchange.elsewhere && self.conversation.head.partial)
            || here().any(|tool| brings_others(tool, exchange.provider));
        if unseen { ToolKnown::RequestUnseen } else { ToolKnown::Undeclared }
    }
}

/// The definition with that namespace; else, where either side names none, the one with that name.
fn pick<'s>(tools: impl Iterator<Item = &'s Tool>, name: &[u8], namespace: Option<&[u8]>) -> Option<&'s Tool> {
    let mut loose = None;
    for tool in tools.filter(|tool| is_called(tool, name)) {
        if tool.namespace.as_deref() == namespace {
            return Some(tool);
        }
        if tool.namespace.is_none() || namespace.is_none() {
            loose = loose.or(Some(tool));
        }
    }
    loose
}

fn is_called(tool: &Tool, name: &[u8]) -> bool {
    if tool.name == name {
        return true;
    }
    if tool.family != ToolFamily::Typed {
        return false;
    }
    let kind = undated(&tool.name);
    kind == undated(name) || families(name).iter().any(|family| family.as_bytes() == kind)
}

/// The types of definition whose calls go by this name.
fn families(name: &[u8]) -> &'static [&'static str] {
    match name {
        b"bash_code_execution" | b"text_editor_code_execution" => &["code_execution"],
        b"str_replace_based_edit_tool" | b"str_replace_editor" => &["text_editor"],
        b"shell" | b"local_shell" => &["shell", "local_shell"],
        b"computer" => &["computer_use", "computer_use_preview", "computer"],
        b"tool_search" => &["tool_search_tool_regex", "tool_search_tool_bm25"],
        b"web_search" => &["web_search_preview"],
        b"program" => &["programmatic_tool_calling"],
        _ => &[],
    }
}

/// `bash_20250124` is `bash`, `web_search_preview_2025_03_11` is `web_search_preview`.
fn undated(name: &[u8]) -> &[u8] {
    let digits = name.iter().rev().take_while(|byte| byte.is_ascii_digit() || **byte == b'_').count();
    let (kind, date) = name.split_at(name.len() - digits);
    if date.iter().filter(|byte| byte.is_ascii_digit()).count() == 8 { kind } else { name }
}

/// A definition behind which stand others that the request does not spell out: OpenAI's tool search (its
/// output carries definitions), toolsets whose members go by their own names. Anthropic's tool search only
/// refers to definitions that the request already has.
fn brings_others(tool: &Tool, provider: Provider) -> bool {
    let kind = undated(&tool.name);
    tool.family == ToolFamily::Typed
        && ((kind == b"tool_search" && !matches!(provider, Provider::AnthropicMessages)) || kind.ends_with(b"toolset"))
}
