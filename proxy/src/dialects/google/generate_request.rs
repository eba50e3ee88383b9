use fulgurite_types::Message;
use serde_json::{Map, Value};

use super::fields::{Fields, must};
use super::reply::{GoogleReply, StreamForm};
use super::tools::{self, Tools};
use super::{conversation, generation_config};
use crate::dialects::field_checks::{check_other_hosts_fields, refuse};
use crate::error::ProxyError;
use crate::request_fields::TEMPLATE_ARGUMENTS;
use crate::requests::exact_json::ExactValues;
use crate::requests::left_out::LeftOut;
use crate::requests::model_request::{AnswerOptions, CallIds, Endpoint, ModelRequest, Prompt};
use crate::requests::request_body::digest;

/// Readers of spans find the call by the name that a chat's has. Clients of this dialect may leave the ids of calls out.
const GENERATE: Endpoint = Endpoint {
    span_name: "openai.chat.completion",
    operation_name: "chat",
    id_prefix: "content-",
    prompt_field: "contents",
    call_ids: CallIds::Numbered,
};

/// Fields that say nothing about the answer: what Google's servers would block, keep, place and bill.
const NEUTRAL: [&str; 5] = ["safetySettings", "labels", "store", "serviceTier", "requestId"];

/// A wish that nothing here follows: contents of Google's cache, of which nobody knows here.
const CACHED_CONTENT: &str = "cachedContent";

/// A request's prompt, which is also counted alone.
#[derive(Debug)]
pub(super) struct GooglePrompt {
    pub(crate) messages: Vec<Message>,
    pub(crate) tools: Tools,
    /// Every other field of the request.
    rest: Fields,
    left_out: LeftOut,
}

/// Reads and checks what makes a prompt, in which `exact` has what was rounded.
fn read_prompt(body: Map<String, Value>, exact: &ExactValues) -> Result<GooglePrompt, ProxyError> {
    let (mut rest, mut left_out) = (Fields::of_body(body)?, LeftOut::default());
    rest.take("model");
    let messages = conversation::read(&mut rest, exact, &mut left_out.unknown)?;
    let tools = tools::read(&mut rest, &mut left_out.unknown)?;
    for neutral in NEUTRAL {
        rest.take(neutral);
    }
    if rest.take(CACHED_CONTENT).is_some() {
        left_out.hints.push(CACHED_CONTENT.to_owned());
    }
    Ok(GooglePrompt { messages, tools, rest, left_out })
}

/// Puts the path's model into a request, which may name no other.
fn put_model(body: &mut Map<String, Value>, model: &str) -> Result<(), ProxyError> {
    match body.insert("model".to_owned(), model.into()) {
        None | Some(Value::Null) => Ok(()),
        Some(Value::String(named)) if named.strip_prefix("models/").unwrap_or(&named) == model => Ok(()),
        Some(other) => refuse("model", &format!("is {other}, but the path names `{model}`")),
    }
}

/// Reads a request to count tokens, which holds the contents alone, or a whole request to generate.
pub(crate) fn read_count(
    body: Map<String, Value>,
    model: &str,
    exact: &ExactValues,
) -> Result<CountedPrompt, ProxyError> {
    let mut fields = Fields::of_body(body)?;
    let mut body = match fields.take("generateContentRequest") {
        None => fields.into_rest(),
        Some(Value::Object(_)) if fields.has("contents") => {
            return Err(must("generateContentRequest", "cannot stand beside contents: leave one of them out"));
        }
        Some(Value::Object(request)) => request,
        Some(_) => return Err(must("generateContentRequest", "must be an object")),
    };
    put_model(&mut body, model)?;
    let GooglePrompt { messages, tools, mut rest, .. } = read_prompt(body, exact)?;
    let config = generation_config::read(rest.object("generationConfig")?, &mut Vec::new())?;
    let extra = extra(&mut rest, config.thinking)?;
    Ok(CountedPrompt { messages, tools: tools.shown, extra })
}

/// What is counted: a prompt, and what its template is told.
#[derive(Debug)]
pub(crate) struct CountedPrompt {
    pub(crate) messages: Vec<Message>,
    pub(crate) tools: Vec<Value>,
    pub(crate) extra: Map<String, Value>,
}

/// Reads and checks a request to generate. `stream` says how a stream is written, if the answer is to be one.
pub(crate) fn read(
    mut body: Map<String, Value>,
    model: String,
    stream: Option<StreamForm>,
    exact: &ExactValues,
) -> Result<ModelRequest, ProxyError> {
    put_model(&mut body, &model)?;
    let digest = exact.digest(digest(&body));
    let GooglePrompt { messages, tools, mut rest, mut left_out } = read_prompt(body, exact)?;
    if messages.last().is_some_and(Message::is_assistant) {
        refuse("contents", "must not end with the model's: no answer can be begun for this model")?;
    }
    let config = generation_config::read(rest.object("generationConfig")?, &mut left_out.unknown)?;
    let return_token_ids = rest.boolean("returnTokenIds")?.unwrap_or(false);
    let extra = extra(&mut rest, config.thinking)?;
    rest.tell_left(&mut left_out.unknown);
    let mut options: AnswerOptions = config.options;
    options.form.call = tools.call;
    Ok(ModelRequest {
        endpoint: &GENERATE,
        model,
        prompt: Prompt::conversation(messages, tools.shown),
        options,
        stream: stream.is_some(),
        return_token_ids,
        seed: config.seed,
        ignored_tools: Vec::new(),
        left_out,
        extra,
        digest,
        reply: Box::new(GoogleReply { shows_thoughts: config.shows_thoughts, stream: stream.unwrap_or_default() }),
    })
}

/// What the template is told, under the names that it is looked for.
fn extra(rest: &mut Fields, thinking: Map<String, Value>) -> Result<Map<String, Value>, ProxyError> {
    let mut extra = Map::new();
    if let Some(arguments) = rest.take("chatTemplateKwargs") {
        extra.insert(TEMPLATE_ARGUMENTS.to_owned(), arguments);
    }
    if !thinking.is_empty() {
        extra.insert("thinkingConfig".to_owned(), Value::Object(thinking));
    }
    check_other_hosts_fields(&extra)?;
    Ok(extra)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::dialects::field_checks::refused_field;

    fn with(key: &str, value: Value) -> Map<String, Value> {
        let mut body = json!({ "contents": [{ "parts": [{ "text": "Hi" }] }] });
        body[key] = value;
        body.as_object().unwrap().clone()
    }

    fn read_body(body: Map<String, Value>) -> Result<ModelRequest, String> {
        read(body, "tiny".to_owned(), None, &ExactValues::default()).map_err(refused_field)
    }

    #[test]
    fn what_says_nothing_is_taken_and_the_rest_is_told() {
        let mut body = with("safety_settings", json!([{ "category": "HARM_CATEGORY_HARASSMENT" }]));
        for (key, value) in [
            ("model", json!("models/tiny")),
            ("cachedContent", json!("cachedContents/c")),
            ("returnTokenIds", json!(true)),
            ("chat_template_kwargs", json!({ "a": 1 })),
            ("frobnicate", json!(1)),
            ("generationConfig", json!({ "thinkingConfig": { "thinkingBudget": 0 }, "style": 1 })),
        ] {
            body.insert(key.to_owned(), value);
        }
        let request = read_body(body).unwrap();
        assert!(request.return_token_ids && !request.stream);
        let expected = json!({ "chat_template_kwargs": { "a": 1 }, "thinkingConfig": { "thinkingBudget": 0 } });
        assert_eq!(Value::Object(request.extra), expected);
        let unknown = ["generationConfig.style", "frobnicate"].map(str::to_owned).to_vec();
        assert_eq!(request.left_out, LeftOut { hints: vec!["cachedContent".to_owned()], unknown });
    }

    #[test]
    fn every_fault_names_its_field() {
        let ends = json!([{ "parts": [{ "text": "Hi" }] }, { "role": "model", "parts": [{ "text": "I" }] }]);
        for (key, value, field) in [
            ("model", json!("huge"), "model"),
            ("contents", ends, "contents"),
            ("generationConfig", json!("warm"), "generationConfig"),
            ("returnTokenIds", json!("yes"), "returnTokenIds"),
            ("chatTemplateKwargs", json!([]), "chat_template_kwargs"),
            ("toolConfig", json!([]), "toolConfig"),
        ] {
            assert_eq!(read_body(with(key, value)).map(drop), Err(field.to_owned()), "{key}");
        }
    }

    #[test]
    fn requests_of_other_models_are_others_and_a_stream_is_the_same() {
        let digest = |model: &str, stream| {
            read(with("x", json!(1)), model.to_owned(), stream, &ExactValues::default()).unwrap().digest
        };
        assert_eq!(digest("tiny", None), digest("tiny", Some(StreamForm::Events)));
        assert_ne!(digest("tiny", None), digest("other", None));
    }

    #[test]
    fn a_whole_request_is_counted_as_it_would_be_sampled() {
        let whole = with("systemInstruction", json!({ "parts": [{ "text": "Be brief." }] }));
        let wrapped = json!({ "generate_content_request": whole }).as_object().unwrap().clone();
        for body in [whole, wrapped] {
            assert_eq!(read_count(body, "tiny", &ExactValues::default()).unwrap().messages.len(), 2);
        }
        let both = with("generateContentRequest", json!({}));
        assert_eq!(
            refused_field(read_count(both, "tiny", &ExactValues::default()).unwrap_err()),
            "generateContentRequest"
        );
    }
}
