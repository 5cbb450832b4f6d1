//! MCP: JSON-RPC messages in both directions.
