//! Tools as requests define them and servers list them.

use super::Name;
use crate::engine::json::Value;

/// How a tool definition lets its calls be checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum ToolFamily {
    /// JSON arguments; a schema may be there.
    Function,
    /// Free text.
    Custom,
    /// A type of the provider's own whose input schema is implied; `name` is its type without the date.
    Typed,
    /// Whatever it was: its definition was withheld, so nobody may call it.
    Withheld,
}

/// One tool definition.
#[derive(Debug, Clone, Copy)]
pub struct ToolDef<'r> {
    pub name: Name<'r>,
    pub namespace: Option<Value<'r>>,
    pub server: Option<Value<'r>>,
    pub family: ToolFamily,
    pub schema: Option<Value<'r>>,
    pub item: Value<'r>,
    /// Arrived inside the conversation or a response, not in the request's own list.
    pub late: bool,
}

/// Tools as a server lists them.
#[derive(Debug, Clone)]
pub struct Tools<'r> {
    /// The server's name, if it has one.
    pub server: Option<Value<'r>>,
    /// In the order of the list, one without a name too.
    pub tools: Vec<ToolDef<'r>>,
    /// The array in which they stand.
    pub list: Option<Value<'r>>,
}
