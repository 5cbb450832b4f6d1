//! What the benches of the engine share: an engine, a feed of records, and the wire shapes.
#![allow(dead_code, reason = "each bench uses its part")]

pub mod texts;

use sluicegate::engine::policy::{Mode, OnePolicy, Profile};
use sluicegate::engine::state::PartitionState;
use sluicegate::engine::{Engine, Input, Limits, Out, Outcome, Settings};

pub const CHUNK: &str = "io.sluicegate.model.chunk.v1";
pub const RESULT: &str = "io.sluicegate.tool.result.v1";

pub fn engine(limits: Limits) -> Engine {
    of(Settings { limits, ..Settings::local(Profile::Standard) })
}

/// An engine in which these policies are off.
pub fn without(codes: &[String]) -> Engine {
    let mut settings = Settings::local(Profile::Standard);
    let off = OnePolicy { mode: Some(Mode::Off), ..OnePolicy::default() };
    settings.policy.policies = codes.iter().map(|code| (code.clone(), off.clone())).collect();
    of(settings)
}

fn of(settings: Settings) -> Engine {
    Engine::new(settings).unwrap_or_else(|problems| panic!("{problems:?}"))
}

/// A stream of records, fed in order to one partition.
pub struct Feed<'e> {
    engine: &'e Engine,
    pub state: PartitionState,
    pub out: Out,
    offset: i64,
    provider: &'static str,
    /// Records of one transaction.
    pub transaction: i64,
    /// Whether a transaction's entries are encoded, as a worker does to write them.
    pub writes: bool,
    /// Verdicts so far.
    pub verdicts: u64,
}

impl<'e> Feed<'e> {
    pub fn new(engine: &'e Engine, provider: &'static str) -> Self {
        let mut state = PartitionState::new();
        state.begin();
        Self { engine, state, out: Out::default(), offset: 0, provider, transaction: 64, writes: false, verdicts: 0 }
    }

    /// One event in binary mode, with ten headers.
    pub fn record(&mut self, kind: &str, value: &[u8]) -> Outcome {
        let headers: [(&str, Option<&[u8]>); 10] = [
            ("content-type", Some(b"application/json")),
            ("ce_specversion", Some(b"1.0")),
            ("ce_id", Some(b"e-1")),
            ("ce_source", Some(b"/fleet/bench")),
            ("ce_type", Some(kind.as_bytes())),
            ("ce_time", Some(b"2026-01-01T00:00:00Z")),
            ("ce_provider", Some(self.provider.as_bytes())),
            ("ce_responseid", Some(b"r-1")),
            ("ce_fleet", Some(b"bench")),
            ("ce_agent", Some(b"agent-1")),
        ];
        self.step(&headers, value)
    }

    /// One event in structured mode.
    pub fn structured(&mut self, value: &[u8]) -> Outcome {
        self.step(&[("content-type", Some(b"application/cloudevents+json"))], value)
    }

    fn step(&mut self, headers: &[(&str, Option<&[u8]>)], value: &[u8]) -> Outcome {
        let input = Input {
            topic: "agent.events",
            partition: 0,
            offset: self.offset,
            timestamp: Some(1_767_225_600_000 + self.offset),
            key: Some(b"c-1"),
            headers,
            value: Some(value),
        };
        self.offset += 1;
        let outcome = self.engine.step(&mut self.state, &input, &mut self.out);
        assert!(!matches!(outcome, Outcome::Rejected(reject) if reject.label() == "engine_panic"), "a panic");
        self.verdicts += self.out.emissions.iter().filter(|e| e.to == sluicegate::engine::To::Verdicts).count() as u64;
        if self.offset % self.transaction == 0 {
            self.commit();
        }
        outcome
    }

    pub fn commit(&mut self) {
        if self.writes {
            let mut bytes = 0;
            self.state.writes(&mut |key, value| bytes += key.len() + value.map_or(0, <[u8]>::len));
            divan::black_box(bytes);
        }
        self.state.accept();
        self.state.begin();
    }
}

/// How one provider streams one call with a long text: the records before, a fragment, the records behind.
pub struct Stream {
    pub provider: &'static str,
    pub before: &'static [&'static str],
    /// `@` is the fragment's text.
    pub fragment: &'static str,
    pub behind: &'static [&'static str],
}

pub const STREAMS: [Stream; 4] = [
    Stream {
        provider: "anthropic.messages",
        before: &[
            r#"{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","content":[]}}"#,
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"toolu_1","name":"search","input":{}}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"text\":\""}}"#,
        ],
        fragment: r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"@"}}"#,
        behind: &[
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"\"}"}}"#,
            r#"{"type":"content_block_stop","index":0}"#,
            r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"}}"#,
            r#"{"type":"message_stop"}"#,
        ],
    },
    Stream {
        provider: "openai.responses",
        before: &[
            r#"{"type":"response.created","sequence_number":0,"response":{"id":"resp_1","status":"in_progress","output":[]}}"#,
            r#"{"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"type":"function_call","id":"fc_1","call_id":"call_1","name":"search","arguments":"","status":"in_progress"}}"#,
            r#"{"type":"response.function_call_arguments.delta","sequence_number":2,"item_id":"fc_1","output_index":0,"delta":"{\"text\":\""}"#,
        ],
        fragment: r#"{"type":"response.function_call_arguments.delta","sequence_number":7,"item_id":"fc_68c2e6f7b72c8193ba1f55","output_index":0,"delta":"@","obfuscation":"k3hT9sQ"}"#,
        behind: &[
            r#"{"type":"response.function_call_arguments.delta","sequence_number":8,"item_id":"fc_1","output_index":0,"delta":"\"}"}"#,
            r#"{"type":"response.completed","sequence_number":9,"response":{"id":"resp_1","status":"completed","output":[]}}"#,
        ],
    },
    Stream {
        provider: "openai.chat",
        before: &[
            r#"{"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"search","arguments":"{\"text\":\""}}]},"finish_reason":null}]}"#,
        ],
        fragment: r#"{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1767225600,"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"@"}}]},"finish_reason":null}]}"#,
        behind: &[
            r#"{"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"}"}}]},"finish_reason":"tool_calls"}]}"#,
        ],
    },
    Stream {
        provider: "gemini.generate_content",
        before: &[
            r#"{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"search","willContinue":true}}]}}],"responseId":"g-1"}"#,
        ],
        fragment: r#"{"candidates":[{"content":{"parts":[{"functionCall":{"partialArgs":[{"jsonPath":"$.text","stringValue":"@","willContinue":true}],"willContinue":true}}]}}],"responseId":"g-1"}"#,
        behind: &[
            r#"{"candidates":[{"content":{"parts":[{"functionCall":{"partialArgs":[{"jsonPath":"$.text","stringValue":""}],"willContinue":true}}]}}],"responseId":"g-1"}"#,
            r#"{"candidates":[{"content":{"parts":[{"functionCall":{}}]},"finishReason":"STOP"}],"responseId":"g-1"}"#,
        ],
    },
];

impl Stream {
    pub fn of(provider: &str) -> &'static Stream {
        STREAMS.iter().find(|stream| stream.provider == provider).unwrap_or_else(|| panic!("no stream of {provider}"))
    }

    /// A fragment of that many bytes of text.
    pub fn with(&self, text: usize) -> Vec<u8> {
        self.fragment.replace('@', &prose(text)).into_bytes()
    }

    /// A fragment whose record has that many bytes.
    pub fn sized(&self, record: usize) -> Vec<u8> {
        self.with(record - (self.fragment.len() - 1))
    }
}

/// Text as it stands in a string.
pub fn prose(bytes: usize) -> String {
    "an argument of the usual length, ".chars().cycle().take(bytes).collect()
}
