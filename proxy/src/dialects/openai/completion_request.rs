use fulgurite_renderers::SpecialTokens;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::reply_shape::Shape;
use super::sampling_fields::SamplingFields;
use crate::dialects::field_checks::refuse;
use crate::error::ProxyError;
use crate::requests::model_request::{ModelRequest, Prompt};
use crate::requests::request_body::{digest, read_fields};

/// The default of Completions' `max_tokens`, which is OpenAI's.
const DEFAULT_MAX_TOKENS: u32 = 16;

/// The fields that only Completions has.
#[derive(Debug, Deserialize)]
struct CompletionFields {
    prompt: PromptField,
    logprobs: Option<LogprobsField>,
    echo: Option<bool>,
    suffix: Option<String>,
    best_of: Option<u32>,
    /// vLLM's: whether the tokenizer's own tokens stand around a prompt that is text.
    add_special_tokens: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected a string or an array of token ids")]
enum PromptField {
    Text(String),
    Tokens(Vec<u32>),
    Texts(Vec<String>),
    TokenLists(Vec<Vec<u32>>),
}

/// How many of the likeliest tokens come with each.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(untagged, expecting = "expected a whole number, 0 or more")]
enum LogprobsField {
    Count(usize),
    /// As gateways send it that make a completion of a chat; vLLM takes it for 1.
    Wished(bool),
}

impl LogprobsField {
    fn count(self) -> Option<usize> {
        match self {
            Self::Count(count) => Some(count),
            Self::Wished(wished) => wished.then_some(1),
        }
    }
}

/// Reads and checks a Completions request.
pub(crate) fn read(mut body: Map<String, Value>) -> Result<ModelRequest, ProxyError> {
    let digest = digest(&body);
    let completion: CompletionFields = read_fields(&mut body)?;
    let fields = SamplingFields::read(body)?;
    completion.refuse_unsupported()?;
    let max_tokens = ("max_tokens", Some(fields.max_tokens.unwrap_or(DEFAULT_MAX_TOKENS)));
    let logprobs = completion.logprobs.and_then(LogprobsField::count);
    let options = fields.check(max_tokens, ("logprobs", logprobs), logprobs.is_some())?;
    Ok(fields.request(Shape::Text, completion.prompt.one(completion.add_special_tokens.into())?, options, digest))
}

impl CompletionFields {
    fn refuse_unsupported(&self) -> Result<(), ProxyError> {
        if self.echo == Some(true) {
            return refuse("echo", "is not supported; return_token_ids gives the prompt's tokens");
        }
        if self.suffix.as_ref().is_some_and(|suffix| !suffix.is_empty()) {
            return refuse("suffix", "is not supported by this model host");
        }
        if self.best_of.is_some_and(|best_of| best_of != 1) {
            return refuse("best_of", "other than 1 is not supported; send the request again for another sample");
        }
        Ok(())
    }
}

impl PromptField {
    /// The only prompt; each call answers one.
    fn one(self, special_tokens: SpecialTokens) -> Result<Prompt, ProxyError> {
        let several = "prompt must be one prompt: send a request for each, so that each is recorded as a call";
        let prompt = match self {
            PromptField::Text(text) => Prompt::Text { text, special_tokens },
            PromptField::Tokens(tokens) => Prompt::Tokens(tokens),
            PromptField::Texts(texts) => match <[String; 1]>::try_from(texts) {
                Ok([text]) => Prompt::Text { text, special_tokens },
                Err(_) => return Err(ProxyError::invalid("prompt", several)),
            },
            PromptField::TokenLists(lists) => match <[Vec<u32>; 1]>::try_from(lists) {
                Ok([tokens]) => Prompt::Tokens(tokens),
                Err(_) => return Err(ProxyError::invalid("prompt", several)),
            },
        };
        if matches!(&prompt, Prompt::Text { text, .. } if text.is_empty())
            || matches!(&prompt, Prompt::Tokens(tokens) if tokens.is_empty())
        {
            return Err(ProxyError::invalid("prompt", "prompt must not be empty"));
        }
        Ok(prompt)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::requests::request_body::parse;

    fn read_with(key: &str, value: Value) -> Result<ModelRequest, ProxyError> {
        let mut body = json!({ "model": "m", "prompt": "hi" });
        body[key] = value;
        parse(body.to_string().as_bytes()).and_then(read)
    }

    #[test]
    fn a_prompt_is_text_or_tokens_alone_or_in_a_list_of_one() {
        let text = || Prompt::Text { text: "hi".to_owned(), special_tokens: SpecialTokens::Add };
        let tokens = || Prompt::Tokens(vec![1, 2]);
        for (given, expected) in
            [(json!("hi"), text()), (json!(["hi"]), text()), (json!([1, 2]), tokens()), (json!([[1, 2]]), tokens())]
        {
            assert_eq!(read_with("prompt", given).unwrap().prompt, expected);
        }
        assert_eq!(read_with("prompt", json!("hi")).unwrap().options.max_tokens, Some(16));
    }

    #[test]
    fn logprobs_may_be_wished_for_as_a_chat_does() {
        for (given, expected) in
            [(json!(true), Some(1)), (json!(false), None), (json!(0), Some(0)), (json!(2), Some(2))]
        {
            let options = read_with("logprobs", given.clone()).unwrap().options;
            assert_eq!(options.logprobs.then_some(options.top_logprobs), expected, "{given}");
        }
    }

    #[test]
    fn every_fault_names_its_field() {
        for (key, value) in [
            ("prompt", json!("")),
            ("prompt", json!([])),
            ("prompt", json!([[]])),
            ("prompt", json!(["a", "b"])),
            ("prompt", json!([[1], [2]])),
            ("prompt", json!([-1])),
            ("prompt", json!({ "text": "hi" })),
            ("echo", json!(true)),
            ("suffix", json!("end")),
            ("best_of", json!(2)),
            ("logprobs", json!(21)),
            ("logprobs", json!("1")),
            ("logprobs", json!(-1)),
            ("max_tokens", json!(0)),
            ("n", json!(0)),
        ] {
            match read_with(key, value.clone()) {
                Err(ProxyError::InvalidRequest { parameter, message, .. }) => {
                    assert_eq!(parameter.as_deref(), Some(key), "{value}: {message}");
                }
                other => panic!("{key} {value}: {other:?}"),
            }
        }
    }
}
