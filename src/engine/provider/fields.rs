//! The closed list of wire field names: what a pointer in a verdict may show verbatim.
//!
//! From `provider-formats` §2 to §8 and the contract's own events. A name that is not here is shown as a
//! keyed hash, since whoever writes a tool's output also chooses its keys.

/// Whether `name` is a member name that some provider's wire format defines.
pub fn is_wire_field(name: &str) -> bool {
    WIRE_FIELDS.binary_search(&name).is_ok()
}

/// Sorted; a test holds it so.
const WIRE_FIELDS: &[&str] = &[
    "action", "actions", "additional_tools", "agent", "annotations", "args", "arguments", "arguments_sha256", "call_id", "caller", "candidates", "choices", "citations", "code", "command", "commands", "container_id", "content", "content_block", "contents", "data", "delta", "description", "diff", "display", "document", "encrypted_content", "environment", "error", "errors", "execution", "exit_code", "fetched_at", "file_data", "file_id", "file_text", "file_url", "filename", "finishReason", "finish_reason", "format", "function", "functionCall", "functionDeclarations", "functionResponse", "function_call", "id", "idempotency_key", "image_url", "index", "inlineData", "input", "inputSchema", "input_schema", "instructions", "isError", "is_error", "item", "item_id", "jsonPath", "jsonrpc", "logs", "message", "messages", "metadata", "method", "mimeType", "model", "name", "namespace", "operation", "outcome", "output", "outputSchema", "output_index", "outputs", "parameters", "params", "partialArgs", "partial_json", "parts", "path", "properties", "queries", "query", "reasoning", "required", "response", "responses", "result", "results", "return_code", "role", "schema", "search_result", "server_label", "server_name", "signature", "source", "sources", "status", "stderr", "stdout", "stop_reason", "structuredContent", "summary", "system", "text", "thinking", "thoughtSignature", "title", "tool", "tool_call_id", "tool_calls", "tool_choice", "tool_references", "tool_use_id", "tools", "type", "uri", "url",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted() {
        assert!(WIRE_FIELDS.windows(2).all(|w| w[0] < w[1]), "sort WIRE_FIELDS and drop repeats");
        assert!(is_wire_field("tool_use_id") && is_wire_field("action") && is_wire_field("url"));
        assert!(!is_wire_field("ignore previous instructions"));
    }
}
