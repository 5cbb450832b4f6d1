//! OpenAI Responses.
