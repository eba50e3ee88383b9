//! A model call, read from a span.

use fulgurite_types::{Object, Reward, Span};
use serde_json::Value;

use super::attributes::{TokenIds, logprobs, nested, parsed, text};
use super::conversations::part_messages;
use super::report::Reason;
use super::triplet::{Triplet, TripletMetadata, TripletPrompt, TripletResponse};

/// The spans of LiteLLM's proxy of a model call: as it was forwarded, and as it was requested.
const RAW_REQUEST: &str = "raw_gen_ai_request";
const LITELLM_REQUEST: &str = "litellm_request";
const INPUT: &str = "agentlightning.operation.input";
const OUTPUT: &str = "agentlightning.operation.output";

/// One span's account of a model call.
#[derive(Debug)]
pub(super) struct CallContent {
    /// The tokens that were read.
    pub prompt_ids: TokenIds,
    /// The tokens that were sampled.
    pub response_ids: TokenIds,
    /// The prompt's messages.
    pub prompt: Value,
    /// The answer's choices.
    pub response: Value,
    /// The logprobs as they were written.
    pub logprobs: Option<Value>,
    /// The request without its messages.
    pub request_facts: Value,
    /// The response without its choices.
    pub response_facts: Value,
}

/// Whether it is our own proxy's span, whose tokens and logprobs are those of the sampler.
pub(super) fn is_ours(span: &Span) -> bool {
    span.attributes.get("gen_ai.provider.name").is_some_and(|name| name == "fulgurite")
}

/// Whether it is a model call's span of LiteLLM's proxy.
pub(super) fn is_litellms(span: &Span) -> bool {
    [RAW_REQUEST, LITELLM_REQUEST].contains(&span.name.as_str())
}

/// Whether it has what only a model call has, whatever its name is.
pub(super) fn looks_like_call(span: &Span) -> bool {
    is_litellms(span)
        || span.attributes.keys().any(|key| {
            let marks = ["gen_ai.completion.", "gen_ai.response.", "agentlightning.operation.output.choices."];
            key == "response_token_ids" || marks.iter().any(|mark| key.starts_with(mark))
        })
}

/// The id of the response that the client saw, where a tracer writes it.
pub(super) fn traced_response_id(span: &Span) -> Option<&str> {
    text(&span.attributes, &["gen_ai.response.id", "agentlightning.operation.output.id"])
}

/// The same, where LiteLLM's proxy writes it.
pub(super) fn litellm_response_id(span: &Span) -> Option<&str> {
    text(&span.attributes, &["gen_ai.response.id", "llm.hosted_vllm.id"])
}

/// What a tracer recorded: AgentOps in `gen_ai.*`, Weave in `agentlightning.operation.*`, others by OpenTelemetry's current
/// conventions.
pub(super) fn traced_content(span: &Span) -> CallContent {
    let attributes = &span.attributes;
    let first_ids = |keys: &[&str]| TokenIds::first(keys.iter().filter_map(|key| attributes.get(*key)));
    let (mut input, mut output) = (nested(attributes, INPUT), nested(attributes, OUTPUT));
    let take = |of: &mut Option<Value>, key: &str| of.as_mut()?.as_object_mut()?.remove(key);
    let messages = take(&mut input, "messages");
    let choices = take(&mut output, "choices");
    take(&mut output, "prompt_token_ids");
    take(&mut output, "response_token_ids");
    // By OpenTelemetry's current conventions.
    let of_parts = |read: fn(&Object) -> Result<Vec<Value>, String>| {
        read(attributes).ok().filter(|messages| !messages.is_empty()).map(Value::from)
    };
    CallContent {
        prompt_ids: first_ids(&["prompt_token_ids", "agentlightning.operation.output.prompt_token_ids"]),
        response_ids: first_ids(&[
            "response_token_ids",
            "agentlightning.operation.output.response_token_ids.0",
            "agentlightning.operation.output.choices.0.token_ids",
            "agentlightning.operation.output.choices.0.provider_specific_fields.token_ids",
        ]),
        prompt: nested(attributes, "gen_ai.prompt")
            .or(messages)
            .or_else(|| of_parts(part_messages::prompt))
            .unwrap_or_default(),
        response: nested(attributes, "gen_ai.completion")
            .or(choices)
            .or_else(|| of_parts(part_messages::answers))
            .unwrap_or_default(),
        logprobs: text(attributes, &["logprobs.content"]).and_then(|content| serde_json::from_str(content).ok()),
        request_facts: nested(attributes, "gen_ai.request").or(input).unwrap_or_default(),
        response_facts: nested(attributes, "gen_ai.response").or(output).unwrap_or_default(),
    }
}

/// What LiteLLM's proxy recorded of a call to vLLM. The logprobs are in the choices only.
pub(super) fn litellm_content(span: &Span) -> CallContent {
    let field = |key: &str| readable(&span.attributes, key);
    let choices = field("llm.hosted_vllm.choices");
    let choice = choices.as_ref().and_then(|choices| choices.get(0));
    let (prompt, response) = if span.name == RAW_REQUEST {
        // An older vLLM lists the tokens of every choice; a newer one has them in the choice.
        let answers = field("llm.hosted_vllm.response_token_ids");
        let first = answers.as_ref().and_then(|answers| answers.get(0)).filter(|first| first.is_array());
        let in_choice = choice.and_then(|choice| choice.get("token_ids"));
        let unreadable = choices.as_ref().filter(|choices| choices.is_string());
        let response = TokenIds::first(first.into_iter().chain(in_choice).chain(unreadable));
        (field("llm.hosted_vllm.prompt_token_ids"), response)
    } else {
        (field("prompt_token_ids"), TokenIds::first(field("response_token_ids").as_ref()))
    };
    CallContent {
        prompt_ids: TokenIds::first(prompt.as_ref()),
        response_ids: response,
        prompt: field("llm.hosted_vllm.messages").unwrap_or_default(),
        logprobs: choice.and_then(|choice| choice.get("logprobs")?.get("content")).cloned(),
        request_facts: nested(&span.attributes, "gen_ai.request").unwrap_or_default(),
        response_facts: nested(&span.attributes, "gen_ai.response").unwrap_or_default(),
        response: choices.unwrap_or_default(),
    }
}

/// An attribute that LiteLLM wrote, for which a null is an empty text; a text that cannot be read stays one.
fn readable(attributes: &Object, key: &str) -> Option<Value> {
    let value = attributes.get(key).filter(|value| *value != "")?;
    Some(parsed(value).unwrap_or_else(|| value.clone()))
}

impl CallContent {
    /// Whether both prompt and answer are there token by token.
    pub(super) fn has_tokens(&self) -> bool {
        !self.prompt_ids.ids().is_empty() && !self.response_ids.ids().is_empty()
    }

    /// Why the tokens are not there, if they are not.
    pub(super) fn why_no_tokens(&self) -> Option<Reason> {
        let unreadable = |ids: &TokenIds| *ids == TokenIds::Unreadable;
        if self.has_tokens() {
            None
        } else if unreadable(&self.prompt_ids) || unreadable(&self.response_ids) {
            Some(Reason::UnreadableTokenIds)
        } else {
            Some(Reason::NoTokenIds)
        }
    }

    /// The sampler's logprobs, if there is one for each sampled token.
    pub(super) fn logprobs(&self) -> Option<Vec<f32>> {
        let sampled = self.response_ids.ids().len();
        logprobs(self.logprobs.as_ref()?).filter(|logprobs| logprobs.len() == sampled)
    }

    /// The triplet of `span`'s call.
    pub(super) fn into_triplet(
        self,
        span: &Span,
        response_id: Option<String>,
        agent_name: Option<String>,
        reward: Option<Reward>,
    ) -> Triplet {
        let value = reward.as_ref().map(|reward| reward.value);
        let logprobs = self.logprobs();
        Triplet {
            prompt: TripletPrompt {
                token_ids: self.prompt_ids.ids().to_vec(),
                image_urls: image_urls(&self.prompt),
                raw_content: self.prompt,
            },
            response: TripletResponse {
                logprobs,
                token_ids: self.response_ids.ids().to_vec(),
                raw_content: self.response,
                logprobs_content: self.logprobs,
            },
            reward: value,
            reward_components: reward
                .map(|reward| [(reward.name, reward.value)].into_iter().chain(reward.components).collect())
                .unwrap_or_default(),
            metadata: TripletMetadata {
                response_id,
                agent_name,
                rollout_id: span.rollout_id.clone(),
                attempt_id: span.attempt_id.clone(),
                span_id: span.span_id.clone(),
                sequence_id: span.sequence_id,
                request: self.request_facts,
                response: self.response_facts,
                generation: None,
            },
        }
    }
}

/// The URLs in the parts of type `image_url`; a tracer may have written a message's parts as JSON text.
fn image_urls(messages: &Value) -> Vec<String> {
    let messages = messages.as_array().map_or(std::slice::from_ref(messages), Vec::as_slice);
    let mut urls = Vec::new();
    for content in messages.iter().filter_map(|message| message.get("content")) {
        let read: Option<Value> = content.as_str().and_then(|text| serde_json::from_str(text).ok());
        let parts = read.as_ref().unwrap_or(content).as_array().map_or(&[][..], Vec::as_slice);
        let images = parts.iter().filter(|part| part.get("type").is_some_and(|kind| kind == "image_url"));
        urls.extend(images.filter_map(|part| Some(part.get("image_url")?.get("url")?.as_str()?.to_owned())));
    }
    urls
}

/// The agent that a span is, by whichever framework's attribute names it first.
pub(super) fn agent_name(span: &Span) -> Option<&str> {
    let attributes: &Object = &span.attributes;
    let is = |key: &str, value: &str| attributes.get(key).is_some_and(|found| found == value);
    let text_if = |applies: bool, key: &str| if applies { text(attributes, &[key]) } else { None };
    text(attributes, &["agent.name"])
        .or_else(|| text_if(is("agentops.span.kind", "agent"), "operation.name"))
        .or_else(|| text(attributes, &["recipient_agent_type", "langchain.chain.type", "executor.id"]))
        .or_else(|| text_if(is("type", "agent"), "agentlightning.operation.input.name"))
        .or_else(|| text_if(span.name.starts_with("langchain.Chain."), "lc_name"))
}
