use std::sync::Arc;

use fulgurite_store::RecordedConversation;
use fulgurite_types::{BranchReason, Conversation, Defect, Generation, SamplingParameters};
use serde_json::{Map, Value};

use crate::attempt::attempt_memory::AttemptMemory;
use crate::attempt::budget::Admission;
use crate::attempt::joined_session::UnnamedConversation;
use crate::attempt::owner::Owner;
use crate::models::gate::Gate;
use crate::models::served_model::SampledModel;
use crate::observe::telemetry::SamplingClock;
use crate::reply::finish_reason::FinishReason;
use crate::requests::model_request::Endpoint;

/// One model call, in no dialect: everything that is needed to sample it and to record it.
pub(crate) struct ModelCall {
    pub(crate) owner: Arc<Owner>,
    /// Of a call that named no rollout: what the next call of the conversation finds it by.
    pub(crate) unnamed: Option<UnnamedConversation>,
    /// Of the attempt, if it belongs to one.
    pub(crate) memory: Option<Arc<AttemptMemory>>,
    /// What lets it take from its attempt's budget, unless there is nothing to take.
    pub(crate) admission: Option<Arc<Admission>>,
    /// What was sampled for the same request before, whose answer was not delivered or is requested again.
    pub(crate) earlier: Option<Generation>,
    pub(crate) model: SampledModel,
    /// What holds the model's calls.
    pub(crate) gate: Gate,
    /// Of the first answer to a request it is also the reply's id on the wire.
    pub(crate) generation_id: String,
    pub(crate) prompt: Arc<[u32]>,
    pub(crate) sampling: SamplingParameters,
    /// Whether the answer ends behind its first call.
    pub(crate) single_call: bool,
    pub(crate) max_tokens: usize,
    pub(crate) top_logprobs: usize,
    /// How many tokens the host may send together.
    pub(crate) stream_interval: usize,
    pub(crate) stop_strings: Vec<String>,
    pub(crate) reading: Reading,
    /// Why its prompt does not continue the latest call of its attempt, by name, if it does not.
    pub(crate) branch_reason: Option<BranchReason>,
    /// Why its answer must not be trained, by name, if it must not.
    pub(crate) defect: Option<Defect>,
    pub(crate) seed: u64,
    pub(crate) request_digest: String,
    /// Measures how it is sampled.
    pub(crate) clock: Option<SamplingClock>,
    pub(crate) endpoint: &'static Endpoint,
    /// What the record keeps of the prompt's messages and tools; `None` of a prompt without messages.
    pub(crate) conversation: Option<RecordedConversation>,
    /// The other attributes of the span that come from the request.
    pub(crate) attributes: Map<String, Value>,
}

impl ModelCall {
    /// How the answer ended that was recorded for the same request before, if all of it was sampled then.
    pub(crate) fn ended_earlier(&self) -> Option<FinishReason> {
        self.earlier.as_ref().and_then(|earlier| FinishReason::recorded(&earlier.stop_reason))
    }
}

/// How what is sampled is read.
#[derive(Clone)]
pub(crate) enum Reading {
    /// As a message in the model's format, which continues this conversation.
    Message(Arc<Conversation>),
    /// As text.
    Text,
}
