//! What the proxy counts and measures, and under which names.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use metrics::{
    Counter, Gauge, Histogram, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

use crate::placed_prompt::PlacedPrompt;

const CALLS: &str = "fulgurite_calls_total";
const CALLS_IN_FLIGHT: &str = "fulgurite_calls_in_flight";
const REPEATED_CALLS: &str = "fulgurite_repeated_calls_total";
const AUXILIARY_CALLS: &str = "fulgurite_auxiliary_calls_total";
const IGNORED_FIELDS: &str = "fulgurite_ignored_fields_total";
const DRIFT: &str = "fulgurite_drift_total";
const PROMPT_TOKENS: &str = "fulgurite_prompt_tokens_total";
const CONTINUED_TOKENS: &str = "fulgurite_continued_tokens_total";
const SAMPLED_TOKENS: &str = "fulgurite_sampled_tokens_total";
const DURATION: &str = "gen_ai_server_request_duration_seconds";
const TIME_TO_FIRST_TOKEN: &str = "gen_ai_server_time_to_first_token_seconds";
const TIME_PER_OUTPUT_TOKEN: &str = "gen_ai_server_time_per_output_token_seconds";

/// Values of OpenTelemetry's `gen_ai.operation.name` and `gen_ai.provider.name`.
const CHAT: &str = "chat";
const TEXT_COMPLETION: &str = "text_completion";
const PROVIDER: &str = "fulgurite";

/// Upper bounds of the buckets of each histogram, in seconds: those that OpenTelemetry's conventions for generative AI
/// advise.
pub const HISTOGRAM_BUCKETS: &[(&str, &[f64])] = &[
    (DURATION, &[0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]),
    (
        TIME_TO_FIRST_TOKEN,
        &[0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0],
    ),
    (TIME_PER_OUTPUT_TOKEN, &[0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5]),
];

/// Tells the process's recorder of metrics what the proxy's are. To be called before a proxy is made.
pub fn describe_metrics() {
    describe_counter!(CALLS, Unit::Count, "Requests for a model's answer, by how they ended.");
    describe_gauge!(CALLS_IN_FLIGHT, Unit::Count, "Requests for a model's answer that are not over.");
    describe_counter!(
        REPEATED_CALLS,
        Unit::Count,
        "Requests that came before: they joined the answer on its way, got it replayed, or had it resumed."
    );
    describe_counter!(AUXILIARY_CALLS, Unit::Count, "Calls made beside the task, which are not trained.");
    describe_counter!(IGNORED_FIELDS, Unit::Count, "Fields of requests that had no effect, and were ignored.");
    describe_counter!(DRIFT, Unit::Count, "Calls that did not continue the latest call of their attempt, by reason.");
    describe_counter!(PROMPT_TOKENS, Unit::Count, "Tokens of prompts.");
    describe_counter!(CONTINUED_TOKENS, Unit::Count, "Tokens of prompts that an earlier call of the attempt had.");
    describe_counter!(SAMPLED_TOKENS, Unit::Count, "Tokens that were sampled.");
    describe_histogram!(DURATION, Unit::Seconds, "Time from a request to the last byte of its answer.");
    describe_histogram!(TIME_TO_FIRST_TOKEN, Unit::Seconds, "Time from a request to the first token of an answer.");
    describe_histogram!(
        TIME_PER_OUTPUT_TOKEN,
        Unit::Seconds,
        "Mean time between the tokens of an answer, after the first."
    );
}

/// The routes of model calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Api {
    ChatCompletions,
    Completions,
    Responses,
    Messages,
    GenerateContent,
    Generate,
}

impl Api {
    const ALL: [Self; 6] = [
        Self::ChatCompletions,
        Self::Completions,
        Self::Responses,
        Self::Messages,
        Self::GenerateContent,
        Self::Generate,
    ];

    /// Of a path, with any prefix.
    pub(crate) fn of_path(path: &str) -> Option<Self> {
        // The longest first: one name ends with another.
        [
            ("/chat/completions", Self::ChatCompletions),
            ("/completions", Self::Completions),
            ("/responses", Self::Responses),
            ("/responses/compact", Self::Responses),
            ("/messages", Self::Messages),
            (":generateContent", Self::GenerateContent),
            (":streamGenerateContent", Self::GenerateContent),
            ("/inference/v1/generate", Self::Generate),
        ]
        .into_iter()
        .find_map(|(end, api)| path.ends_with(end).then_some(api))
    }

    fn name(self) -> &'static str {
        match self {
            Self::ChatCompletions => "chat_completions",
            Self::Completions => "completions",
            Self::Responses => "responses",
            Self::Messages => "messages",
            Self::GenerateContent => "generate_content",
            Self::Generate => "generate",
        }
    }
}

/// How a request for an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All of the answer was handed over.
    Answered,
    /// The client is at fault.
    Refused,
    /// It is not.
    Failed,
    /// The client hung up.
    ClientDisconnected,
}

impl Outcome {
    const ALL: [Self; 4] = [Self::Answered, Self::Refused, Self::Failed, Self::ClientDisconnected];

    fn name(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::ClientDisconnected => "client_gone",
        }
    }
}

/// What is counted and measured of a proxy's calls.
pub(crate) struct Telemetry {
    models: BTreeMap<String, Arc<ModelMetrics>>,
    /// Calls that named no model of ours.
    of_no_model: CallCounters,
}

impl Telemetry {
    pub(crate) fn new<'n>(models: impl Iterator<Item = &'n String>) -> Self {
        let models = models.map(|name| (name.clone(), Arc::new(ModelMetrics::new(name)))).collect();
        Self { models, of_no_model: CallCounters::new("") }
    }

    /// What is counted and measured of a model that is served.
    pub(crate) fn of_model(&self, name: &str) -> Arc<ModelMetrics> {
        self.models.get(name).map_or_else(|| Arc::new(ModelMetrics::new(name)), Arc::clone)
    }

    /// Counts a call that is over.
    pub(crate) fn call_ended(&self, model: Option<&ModelMetrics>, api: Api, outcome: Outcome) {
        model.map_or(&self.of_no_model, |model| &model.calls).count(api, outcome);
    }
}

struct CallCounters {
    by_api: [[Counter; Outcome::ALL.len()]; Api::ALL.len()],
}

impl CallCounters {
    fn new(model: &str) -> Self {
        let counter = |api: Api, outcome: Outcome| counter!(CALLS, "model" => model.to_owned(), "endpoint" => api.name(), "outcome" => outcome.name());
        Self { by_api: Api::ALL.map(|api| Outcome::ALL.map(|outcome| counter(api, outcome))) }
    }

    fn count(&self, api: Api, outcome: Outcome) {
        self.by_api[api as usize][outcome as usize].increment(1);
    }
}

/// What is counted and measured of one model's calls.
pub(crate) struct ModelMetrics {
    pub(crate) name: String,
    calls: CallCounters,
    pub(crate) in_flight: Gauge,
    pub(crate) joined: Counter,
    pub(crate) replayed: Counter,
    pub(crate) resumed: Counter,
    pub(crate) auxiliary: Counter,
    pub(crate) ignored_fields: Counter,
    prompt_tokens: Counter,
    continued_tokens: Counter,
    sampled_tokens: Counter,
    chat: OperationMetrics,
    text_completion: OperationMetrics,
}

impl ModelMetrics {
    fn new(name: &str) -> Self {
        let model = || name.to_owned();
        let repeated = |how| counter!(REPEATED_CALLS, "model" => model(), "how" => how);
        Self {
            name: model(),
            calls: CallCounters::new(name),
            in_flight: gauge!(CALLS_IN_FLIGHT, "model" => model()),
            joined: repeated("joined"),
            replayed: repeated("replayed"),
            resumed: repeated("resumed"),
            auxiliary: counter!(AUXILIARY_CALLS, "model" => model()),
            ignored_fields: counter!(IGNORED_FIELDS, "model" => model()),
            prompt_tokens: counter!(PROMPT_TOKENS, "model" => model()),
            continued_tokens: counter!(CONTINUED_TOKENS, "model" => model()),
            sampled_tokens: counter!(SAMPLED_TOKENS, "model" => model()),
            chat: OperationMetrics::new(name, CHAT),
            text_completion: OperationMetrics::new(name, TEXT_COMPLETION),
        }
    }

    /// Counts the tokens of a new request's prompt, and why it continues nothing, if it does not.
    pub(crate) fn prompt_was_placed(&self, placed: &PlacedPrompt) {
        self.prompt_tokens.increment(placed.tokens.len() as u64);
        self.continued_tokens.increment(placed.tokens_kept as u64);
        if let Some(left) = &placed.departure {
            let reason = left.departure.reason.as_str();
            counter!(DRIFT, "model" => self.name.clone(), "reason" => reason).increment(1);
        }
    }

    /// By a name of OpenTelemetry's.
    pub(crate) fn operation(&self, name: &str) -> &OperationMetrics {
        match name {
            TEXT_COMPLETION => &self.text_completion,
            _ => &self.chat,
        }
    }

    /// Measures the sampling of an answer whose request `arrived` then.
    pub(crate) fn sampling_clock(&self, operation: &str, arrived: Instant) -> SamplingClock {
        let (operation, sampled_tokens) = (self.operation(operation).clone(), self.sampled_tokens.clone());
        SamplingClock { operation, sampled_tokens, arrived, sampled: None }
    }
}

/// What OpenTelemetry's conventions measure of one model's operation.
#[derive(Clone)]
pub(crate) struct OperationMetrics {
    pub(crate) duration: Histogram,
    pub(crate) time_to_first_token: Histogram,
    time_per_output_token: Histogram,
}

impl OperationMetrics {
    fn new(model: &str, operation: &'static str) -> Self {
        let of = |name| {
            histogram!(name, "gen_ai_operation_name" => operation, "gen_ai_provider_name" => PROVIDER,
                "gen_ai_request_model" => model.to_owned())
        };
        Self {
            duration: of(DURATION),
            time_to_first_token: of(TIME_TO_FIRST_TOKEN),
            time_per_output_token: of(TIME_PER_OUTPUT_TOKEN),
        }
    }
}

/// Sees the tokens of one answer go by.
pub(crate) struct SamplingClock {
    operation: OperationMetrics,
    sampled_tokens: Counter,
    /// When the request arrived.
    arrived: Instant,
    sampled: Option<Sampled>,
}

struct Sampled {
    first: Instant,
    last: Instant,
    tokens: u32,
}

impl SamplingClock {
    /// So many tokens have come together.
    pub(crate) fn tokens(&mut self, count: usize) {
        if count == 0 {
            return;
        }
        let now = Instant::now();
        let sampled = self.sampled.get_or_insert_with(|| {
            self.operation.time_to_first_token.record(now - self.arrived);
            Sampled { first: now, last: now, tokens: 0 }
        });
        sampled.last = now;
        sampled.tokens += count as u32;
    }
}

impl Drop for SamplingClock {
    fn drop(&mut self) {
        let Some(Sampled { first, last, tokens }) = self.sampled else { return };
        self.sampled_tokens.increment(tokens.into());
        if tokens > 1 {
            self.operation.time_per_output_token.record((last - first) / (tokens - 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_api_is_known_by_the_end_of_its_path() {
        for (path, api) in [
            ("/v1/chat/completions", Some(Api::ChatCompletions)),
            ("/rollout/r/attempt/a/completions", Some(Api::Completions)),
            ("/proxy/rollout/r/attempt/a/mode/train/openai/v1/responses", Some(Api::Responses)),
            ("/v1/messages", Some(Api::Messages)),
            ("/v1beta/models/org/tiny:generateContent", Some(Api::GenerateContent)),
            ("/rollout/r/attempt/a/v1beta/models/tiny:streamGenerateContent", Some(Api::GenerateContent)),
            ("/v1beta/models/tiny:countTokens", None),
            ("/v1/messages/count_tokens", None),
            ("/v1/models", None),
        ] {
            assert_eq!(Api::of_path(path), api, "{path}");
        }
    }
}
