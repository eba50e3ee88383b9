use fulgurite_store::RecordedConversation;
use fulgurite_types::exact_json;
use serde_json::{Map, Value, json};

use crate::attribute_names::{CHOICE, IDEMPOTENCY_KEY, REQUEST_EXTRA, UNSEEN_TOOLS};
use crate::placed_prompt::{PlacedDeparture, PlacedPrompt};
use crate::record::message_attributes::{add_tools, message_parts};
use crate::requests::model_request::{Endpoint, ModelRequest, Prompt};

/// What the record keeps of a request's messages and tools; `None` of a prompt without messages.
pub(crate) fn recorded_conversation(request: &ModelRequest) -> Option<RecordedConversation> {
    let Prompt::Messages(conversation) = &request.prompt else { return None };
    RecordedConversation::new(conversation.messages.iter().map(message_parts).collect(), tool_attributes(request))
}

fn tool_attributes(request: &ModelRequest) -> Map<String, Value> {
    let mut attributes = Map::new();
    if !request.ignored_tools.is_empty() {
        let text = exact_json(&json!(request.ignored_tools));
        attributes.insert("fulgurite.request.ignored_tools".to_owned(), json!(text));
    }
    if let Prompt::Messages(conversation) = &request.prompt {
        add_tools(&mut attributes, &conversation.tools);
    }
    attributes
}

/// Attributes of an answer's span that come from its request, but for its [`recorded_conversation`]; `place` are those of
/// [`place_attributes`].
pub(crate) fn request_attributes(
    request: &ModelRequest,
    idempotency_key: Option<&str>,
    place: &Map<String, Value>,
    choice: usize,
    unseen_tools: usize,
) -> Map<String, Value> {
    let options = &request.options;
    let Endpoint { operation_name, .. } = request.endpoint;
    let mut attributes = Map::new();
    let mut set = |key: &str, value: Value| attributes.insert(key.to_owned(), value);
    set("gen_ai.operation.name", json!(operation_name));
    set("gen_ai.provider.name", json!("fulgurite"));
    set("gen_ai.request.model", json!(request.model));
    set("gen_ai.request.temperature", json!(options.sampling.temperature));
    set("gen_ai.request.top_p", json!(options.sampling.top_p));
    if let Some(top_k) = options.sampling.top_k {
        set("gen_ai.request.top_k", json!(top_k));
    }
    if let Some(max_tokens) = options.max_tokens {
        set("gen_ai.request.max_tokens", json!(max_tokens));
    }
    if options.choices > 1 {
        set("gen_ai.request.choice.count", json!(options.choices));
        set(CHOICE, json!(choice));
    }
    if unseen_tools > 0 {
        set(UNSEEN_TOOLS, json!(unseen_tools));
    }
    if let Some(key) = idempotency_key {
        set(IDEMPOTENCY_KEY, json!(key));
    }
    for (key, value) in place {
        set(key, value.clone());
    }
    set("gen_ai.request.is_stream", json!(request.stream));
    if !request.extra.is_empty() {
        set(REQUEST_EXTRA, json!(exact_json(&json!(request.extra))));
    }
    let has_messages = matches!(&request.prompt, Prompt::Messages(conversation) if !conversation.messages.is_empty());
    if !has_messages {
        attributes.extend(tool_attributes(request));
    }
    attributes
}

/// How a prompt continues earlier calls.
pub(crate) fn place_attributes(placed: &PlacedPrompt) -> Map<String, Value> {
    let departure = placed.departure.as_ref().map(|PlacedDeparture { departure, generation }| {
        [
            ("reason", json!(departure.reason.as_str())),
            ("generation", json!(generation)),
            ("message_index", json!(departure.message_index)),
            ("token_index", json!(departure.token_index)),
            ("detail", json!(departure.detail)),
        ]
        .map(|(name, value)| (format!("fulgurite.departure.{name}"), value))
    });
    let continues = ("fulgurite.continues".to_owned(), json!(placed.continues));
    let attributes = std::iter::once(continues).chain(departure.into_iter().flatten());
    attributes.filter(|(_, value)| !value.is_null()).collect()
}
