use std::sync::Arc;

use fulgurite_renderers::{Renderer, SpecialTokens};
use fulgurite_types::{Conversation, Message, RolloutSampling, SamplingParameters};
use serde_json::{Map, Value};

use crate::reply::reply_writer::{ReplyContext, ReplyWriter};
use crate::requests::left_out::LeftOut;
use crate::requests::structured_output::StructuredOutput;

/// A request for a model's answer, read and checked, in no dialect.
#[derive(Debug)]
pub(crate) struct ModelRequest {
    pub(crate) endpoint: &'static Endpoint,
    pub(crate) model: String,
    pub(crate) prompt: Prompt,
    pub(crate) options: AnswerOptions,
    pub(crate) stream: bool,
    /// Whether the reply is to carry token ids, whatever the path.
    pub(crate) return_token_ids: bool,
    /// The client's own seed.
    pub(crate) seed: Option<i64>,
    /// Tools that it declares and that the model is not shown, because others than its agent would run them: kept in the
    /// record.
    pub(crate) ignored_tools: Vec<Value>,
    /// Fields that are left out of account.
    pub(crate) left_out: LeftOut,
    /// Fields that we do not act on: kept in the record.
    pub(crate) extra: Map<String, Value>,
    /// What makes two requests the same.
    pub(crate) digest: String,
    /// How its answers are written.
    pub(crate) reply: Box<dyn ReplyFormat>,
}

/// Names of an endpoint of a dialect.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// Name of a call's span.
    pub(crate) span_name: &'static str,
    /// `gen_ai.operation.name` of OpenTelemetry's conventions.
    pub(crate) operation_name: &'static str,
    /// What ids of replies begin with, its separator included.
    pub(crate) id_prefix: &'static str,
    /// The request's field that holds the prompt.
    pub(crate) prompt_field: &'static str,
    /// What the ids of an answer's tool calls are.
    pub(crate) call_ids: CallIds,
}

/// What the ids of an answer's tool calls are, in formats that have none of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallIds {
    /// They follow from the call's seed.
    Seeded,
    /// They are the places of the calls in the conversation, for a dialect whose clients may leave ids out.
    Numbered,
}

impl ModelRequest {
    /// How many declared tools a renderer leaves out of the prompt.
    pub(crate) fn unseen_tools(&self, renderer: &dyn Renderer) -> usize {
        match &self.prompt {
            Prompt::Messages(conversation) if !renderer.shows_tools() => conversation.tools.len(),
            _ => 0,
        }
    }
}

/// What a prompt was given as.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Prompt {
    /// A conversation, which the model's renderer turns into tokens.
    Messages(Arc<Conversation>),
    /// Text that is tokenised unchanged; text that spells a control token is that token.
    Text { text: String, special_tokens: SpecialTokens },
    /// The tokens themselves.
    Tokens(Vec<u32>),
}

impl Prompt {
    pub(crate) fn conversation(messages: Vec<Message>, tools: Vec<Value>) -> Self {
        Prompt::Messages(Arc::new(Conversation { messages, tools }))
    }
}

/// A request's parameters for the sampler.
#[derive(Debug, PartialEq)]
pub(crate) struct AnswerOptions {
    pub(crate) sampling: SamplingParameters,
    /// Whether the request has a temperature of its own.
    pub(crate) sets_temperature: bool,
    pub(crate) form: StructuredOutput,
    /// `None`: as many as the context has room for.
    pub(crate) max_tokens: Option<usize>,
    pub(crate) stop_strings: Vec<String>,
    pub(crate) logprobs: bool,
    pub(crate) top_logprobs: usize,
    /// How many answers, at least one.
    pub(crate) choices: usize,
}

impl AnswerOptions {
    /// Takes what the rollout has for calls of this model, where the request leaves it out.
    pub(crate) fn set_default(&mut self, model: &str, of_rollout: &RolloutSampling) {
        if !self.sets_temperature && of_rollout.model == model {
            self.sampling.temperature = of_rollout.temperature;
        }
    }
}

/// Knows how the answers to one request are written.
pub(crate) trait ReplyFormat: std::fmt::Debug + Send + Sync {
    /// A writer of one response.
    fn writer(self: Box<Self>, context: ReplyContext) -> Box<dyn ReplyWriter>;
}
