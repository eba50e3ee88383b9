//! What is asked of a store under measurement: the same requests of every server.

use anyhow::{Context, Result};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyValue;
use opentelemetry_proto::tonic::common::v1::{AnyValue as Attribute, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message;
use reqwest::Client;
use serde_json::{Value, json};

/// Spans in one OTLP request.
const OTLP_SPANS: usize = 50;
/// Spans that a query gives.
const QUERIED_SPANS: usize = 1000;
/// Tokens of the span that carries a model call.
const PROMPT_TOKENS: usize = 2000;
const SAMPLED_TOKENS: usize = 500;

/// One kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// One rollout into the queue.
    Enqueue,
    /// One span of a few attributes.
    SmallSpan,
    /// One span with token ids and logprobs.
    TokenSpan,
    /// Many small spans as OTLP, in protobuf.
    Otlp,
    /// All spans of a rollout that has many.
    Query,
}

impl Operation {
    /// Every operation, in the order of the table.
    pub const ALL: [Self; 5] = [Self::Enqueue, Self::SmallSpan, Self::TokenSpan, Self::Otlp, Self::Query];

    /// What the table calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Enqueue => "enqueue",
            Self::SmallSpan => "small span",
            Self::TokenSpan => "span with 2,000 + 500 token ids",
            Self::Otlp => "OTLP with 50 spans",
            Self::Query => "query of 1,000 spans",
        }
    }

    /// Processor milliseconds for one request of Agent-lightning 0.3.0's server over its in-memory store, measured on
    /// 2026-11-21 with 16 connections (the query with 4) on two shared cores.
    pub fn agent_lightning_milliseconds(self) -> f64 {
        match self {
            Self::Enqueue => 4.3,
            Self::SmallSpan => 6.2,
            Self::TokenSpan => 19.0,
            Self::Otlp => 14.5,
            Self::Query => 49.5,
        }
    }

    /// Requests at the same time: as many as in the figures above.
    pub fn connections(self) -> usize {
        if self == Self::Query { 4 } else { 16 }
    }

    /// Of a number of requests for the cheapest operation, how many this one makes.
    pub fn share_of(self, requests: usize) -> usize {
        match self {
            Self::Enqueue | Self::SmallSpan => requests,
            Self::TokenSpan | Self::Otlp | Self::Query => requests.div_ceil(4),
        }
    }
}

/// A rollout under way on a server, which spans are sent for.
#[derive(Clone, Debug)]
pub struct Target {
    client: Client,
    url: String,
    rollout_id: String,
    attempt_id: String,
}

impl Target {
    /// Starts a rollout.
    pub async fn start(client: &Client, url: &str) -> Result<Self> {
        let started = client
            .post(format!("{url}/v1/agl/rollouts"))
            .json(&json!({"input": {"question": "1 + 1"}}))
            .send()
            .await?
            .error_for_status()?;
        let started: Value = started.json().await?;
        let id = |value: &Value| value.as_str().map(str::to_owned).context("a started rollout has no id");
        Ok(Self {
            client: client.clone(),
            url: url.to_owned(),
            rollout_id: id(&started["rollout_id"])?,
            attempt_id: id(&started["attempt"]["attempt_id"])?,
        })
    }

    /// Gives the rollout the spans that a query will ask for.
    pub async fn fill(&self) -> Result<()> {
        for chunk in 0..QUERIED_SPANS / OTLP_SPANS {
            self.ask(Operation::Otlp, chunk).await?;
        }
        Ok(())
    }

    /// Makes one request and reads the whole answer. `number` tells the requests of a target apart.
    pub async fn ask(&self, operation: Operation, number: usize) -> Result<()> {
        let post = |path: &str| self.client.post(format!("{}{path}", self.url));
        let request = match operation {
            Operation::Enqueue => post("/v1/agl/queues/rollouts/enqueue")
                .json(&json!({"rollouts": [{"input": {"question": "1 + 1"}, "mode": "train"}]})),
            Operation::SmallSpan => {
                post("/v1/agl/spans").json(&self.span(number, json!({"gen_ai.request.model": "m"})))
            }
            Operation::TokenSpan => post("/v1/agl/spans").json(&self.span(number, token_attributes())),
            Operation::Otlp => post("/v1/traces")
                .header("content-type", "application/x-protobuf")
                .body(self.export(number).encode_to_vec()),
            Operation::Query => post("/v1/agl/spans/search").json(&json!({"rollout_id": self.rollout_id, "limit": -1})),
        };
        request.send().await?.error_for_status()?.bytes().await?;
        Ok(())
    }

    fn span(&self, number: usize, attributes: Value) -> Value {
        json!({
            "rollout_id": self.rollout_id, "attempt_id": self.attempt_id, "sequence_id": number + 1,
            "trace_id": "0af7651916cd43dd8448eb211c80319c", "span_id": format!("{number:016x}"), "parent_id": null,
            "name": "openai.chat.completion", "status": {"status_code": "OK", "description": null},
            "attributes": attributes, "events": [], "links": [], "start_time": 1795256016.5, "end_time": 1795256017.25,
            "context": null, "parent": null, "resource": {"attributes": {}, "schema_url": ""},
        })
    }

    fn export(&self, number: usize) -> ExportTraceServiceRequest {
        let spans = (0..OTLP_SPANS)
            .map(|index| Span {
                trace_id: vec![7; 16],
                // Apart from the ids of single spans.
                span_id: ((1 << 48) + number * OTLP_SPANS + index).to_be_bytes().to_vec(),
                name: "work".to_owned(),
                start_time_unix_nano: 1_795_256_016_500_000_000,
                end_time_unix_nano: 1_795_256_017_250_000_000,
                attributes: vec![attribute("gen_ai.request.model", "m"), attribute("tool.name", "calculator")],
                ..Span::default()
            })
            .collect();
        let resource = Resource {
            attributes: vec![
                attribute("agentlightning.rollout_id", &self.rollout_id),
                attribute("agentlightning.attempt_id", &self.attempt_id),
            ],
            ..Resource::default()
        };
        ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans {
                resource: Some(resource),
                scope_spans: vec![ScopeSpans { spans, ..ScopeSpans::default() }],
                ..ResourceSpans::default()
            }],
        }
    }
}

fn attribute(key: &str, value: &str) -> KeyValue {
    let value = Attribute { value: Some(AnyValue::StringValue(value.to_owned())) };
    KeyValue { key: key.to_owned(), value: Some(value), ..KeyValue::default() }
}

fn token_attributes() -> Value {
    let ids = |first: usize, number| (first..first + number).collect::<Vec<_>>();
    let logprob =
        |token| json!({"token": format!("token_id:{token}"), "logprob": -0.25, "bytes": null, "top_logprobs": []});
    let logprobs: Vec<Value> = ids(150_000, SAMPLED_TOKENS).into_iter().map(logprob).collect();
    json!({
        "gen_ai.request.model": "m", "gen_ai.response.id": "chatcmpl-1",
        "prompt_token_ids": ids(100_000, PROMPT_TOKENS), "response_token_ids": ids(150_000, SAMPLED_TOKENS),
        "logprobs.content": Value::from(logprobs).to_string(),
    })
}
