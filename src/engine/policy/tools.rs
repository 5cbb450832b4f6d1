//! Which definition a call's name means.
//!
//! Source: `provider-formats` §8. Names are compared as bytes. A definition can be in the request's list, can
//! have come late, or can be a type of the provider's own whose calls go by another name. What was not seen
//! is never called undeclared.

use super::View;
use crate::engine::event::{Executor, Form, Provider, ToolFamily};
use crate::engine::state::{Call, Exchange, Tool};
use std::collections::HashSet;

/// What is known of a call's tool.
#[derive(Debug, Clone)]
pub enum Definitions<'s> {
    /// The request of the exchange was not seen, or definitions can have come where nobody saw them: nothing
    /// can be said. A label of a closed set.
    Unseen(&'static str),
    /// Declared, perhaps with schemas. More than one where a list declares one name twice: all of them hold.
    Declared(Vec<&'s Tool>),
    /// Declared, as a kind whose calls have another form.
    WrongForm,
    /// Its definition was blocked where it was listed.
    Withheld,
    /// The request was seen and does not declare it.
    Undeclared,
}

/// The same in short: the first definition.
#[derive(Debug, Clone, Copy)]
pub enum ToolKnown<'s> {
    RequestUnseen,
    Declared(&'s Tool),
    Undeclared,
}

/// What a definition is looked up by.
#[derive(Clone, Copy)]
struct Key<'k> {
    name: &'k [u8],
    namespace: Option<&'k [u8]>,
    server: Option<&'k [u8]>,
    executor: Executor,
}

impl<'s> View<'s> {
    /// The exchange that a call belongs to.
    pub fn exchange_of(&self, call: &Call) -> Option<&'s Exchange> {
        self.conversation.exchanges.get(&call.exchange).or(self.exchange)
    }

    /// The first definition of a call's tool.
    pub fn tool(&self, call: &Call) -> ToolKnown<'s> {
        match self.definitions(call) {
            Definitions::Unseen(_) => ToolKnown::RequestUnseen,
            Definitions::Declared(tools) => {
                tools.first().map_or(ToolKnown::Undeclared, |tool| ToolKnown::Declared(tool))
            }
            Definitions::WrongForm | Definitions::Withheld | Definitions::Undeclared => ToolKnown::Undeclared,
        }
    }

    /// The schemas of a call's tool that came with its request: whose property names a verdict may show. What
    /// came late, in a response, was written by others than the operator's agent.
    pub fn request_schemas(&self, call: &Call) -> Vec<&'s [u8]> {
        let [own, _] = self.exchange_of(call).map_or([None, None], sets);
        match self.definitions(call) {
            Definitions::Declared(tools) => {
                let own = tools.into_iter().filter(|tool| Some(tool.toolset) == own);
                own.filter_map(|tool| tool.schema.as_deref()).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The definitions of a call's tool.
    pub fn definitions(&self, call: &Call) -> Definitions<'s> {
        self.definitions_named(call, call.form, &call.name, call.namespace.as_deref())
    }

    /// The definitions of a tool that is named inside a call.
    pub fn definitions_named(&self, call: &Call, form: Form, name: &[u8], namespace: Option<&[u8]>) -> Definitions<'s> {
        let Some(exchange) = self.exchange_of(call) else { return Definitions::Unseen("no_request") };
        let key = Key { name, namespace, server: call.server.as_deref(), executor: call.executor };
        let all = &self.conversation.tools;
        let within = |set: u32| all.values().filter(move |tool| tool.toolset == set);
        // What an MCP server lists is called over MCP, and never by a model's own calls.
        let over_mcp = |exchange: &Exchange| exchange.provider == Provider::Mcp;
        let others = self.conversation.exchanges.values().filter(|other| over_mcp(other) != over_mcp(exchange));
        let strange: Vec<u32> = others.flat_map(|other| sets(other).into_iter().flatten()).collect();
        let own = || all.values().filter(|tool| !strange.contains(&tool.toolset));
        // What a server listed anew and was blocked is not what the request repeats of it.
        let again = exchange.late.map(|set| meant(within(set), key)).unwrap_or_default();
        if !again.is_empty() && again.iter().all(|tool| tool.family == ToolFamily::Withheld) {
            return Definitions::Withheld;
        }
        // What came late never stands in for what the request itself declares.
        for set in sets(exchange).into_iter().flatten() {
            let found = meant(within(set), key);
            if !found.is_empty() {
                return formed(found, key.executor, form, exchange.provider);
            }
        }
        // No list beside the call shows it: what its server listed last in this conversation was blocked.
        if key.server.is_some()
            && key.executor == Executor::Provider
            && let Some(latest) = meant(own(), key).iter().map(|tool| tool.toolset).max()
            && meant(within(latest), key).iter().all(|tool| tool.family == ToolFamily::Withheld)
        {
            return Definitions::Withheld;
        }
        // A history that is kept elsewhere keeps the definitions that came late in earlier exchanges.
        if exchange.elsewhere
            && let Some(latest) = meant(own(), key).iter().map(|tool| tool.toolset).max()
        {
            return formed(meant(within(latest), key), key.executor, form, exchange.provider);
        }
        let seen = || sets(exchange).into_iter().flatten().flat_map(within);
        // What a search brings stands in its output: once that was seen, nothing is behind it any more.
        let searched = match exchange.elsewhere {
            true => own().any(is_found),
            false => seen().any(is_found),
        };
        let hides = |tool: &Tool| {
            let search = tool.family == ToolFamily::Typed && undated(&tool.name) == b"tool_search";
            brings_others(tool, key.executor, exchange.provider) && !(search && searched)
        };
        if !exchange.request_seen {
            Definitions::Unseen("no_request")
        } else if (exchange.elsewhere && self.conversation.head.partial) || seen().any(hides) {
            Definitions::Unseen("tools_elsewhere")
        } else {
            // Also where the list was too long to be kept whole: what is not known is not declared.
            Definitions::Undeclared
        }
    }
}

/// The toolsets of an exchange: the request's own, then what came late.
fn sets(exchange: &Exchange) -> [Option<u32>; 2] {
    [exchange.toolset, exchange.late]
}

/// A definition of the client's that came late: a search's output brought it.
fn is_found(tool: &Tool) -> bool {
    tool.late && tool.server.is_none()
}

/// Those of the definitions whose calls have this form, each schema once. OpenAI's own tools that a client runs
/// have items of their own, whose arguments are objects: a `function_call` of that name is none of them.
fn formed(mut tools: Vec<&Tool>, executor: Executor, form: Form, provider: Provider) -> Definitions<'_> {
    if tools.iter().all(|tool| tool.family == ToolFamily::Withheld) {
        return Definitions::Withheld;
    }
    let own_items =
        executor == Executor::Client && matches!(provider, Provider::OpenAiResponses | Provider::XaiResponses);
    tools.retain(|tool| match tool.family {
        ToolFamily::Function => form != Form::FreeText,
        ToolFamily::Custom => form == Form::FreeText,
        ToolFamily::Typed => !own_items || form == Form::JsonValue,
        ToolFamily::Withheld => false,
    });
    let mut seen = HashSet::new();
    tools.retain(|tool| seen.insert((tool.schema.as_deref(), tool.schema_omitted)));
    if tools.is_empty() { Definitions::WrongForm } else { Definitions::Declared(tools) }
}

/// The definitions that a call of that key can mean: whoever runs the call must run the definition too. A
/// function that an `additional_tools` item declares in no namespace is called in one of its own name, which
/// stands for it unless such a namespace is declared.
fn meant<'s>(tools: impl Iterator<Item = &'s Tool>, key: Key<'_>) -> Vec<&'s Tool> {
    let of_party = |tool: &Tool| match (key.executor, key.server) {
        // Of several MCP servers each has names of its own.
        (Executor::Client, server) => tool.server.as_deref() == server,
        (Executor::Provider, Some(server)) => tool.server.as_deref() == Some(server),
        (Executor::Provider, None) => tool.server.is_none() && tool.family == ToolFamily::Typed,
    };
    let (exact, others): (Vec<&Tool>, Vec<&Tool>) = tools
        .filter(|tool| of_party(tool) && is_called(tool, key.name))
        .partition(|tool| tool.namespace.as_deref() == key.namespace);
    if !exact.is_empty() || key.namespace != Some(key.name) {
        return exact;
    }
    others.into_iter().filter(|tool| tool.namespace.is_none()).collect()
}

fn is_called(tool: &Tool, name: &[u8]) -> bool {
    tool.name == name
        || (tool.family == ToolFamily::Typed && families(name).iter().any(|f| f.as_bytes() == undated(&tool.name)))
}

/// The types of definition whose calls go by this name, which is not the definition's.
fn families(name: &[u8]) -> &'static [&'static str] {
    match name {
        b"bash_code_execution" | b"text_editor_code_execution" => &["code_execution"],
        b"str_replace_based_edit_tool" | b"str_replace_editor" => &["text_editor"],
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
/// refers to definitions that the request already has. Gemini's computer use brings functions of its own.
fn brings_others(tool: &Tool, executor: Executor, provider: Provider) -> bool {
    // Behind a server stand only tools that the provider runs.
    if executor == Executor::Client && tool.server.is_some() {
        return false;
    }
    let kind = undated(&tool.name);
    let computer = kind == b"computer_use" && provider == Provider::GeminiGenerateContent;
    tool.family == ToolFamily::Typed
        && (computer
            || (kind == b"tool_search" && !matches!(provider, Provider::AnthropicMessages))
            || kind.ends_with(b"toolset"))
}
