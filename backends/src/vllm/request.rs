use std::collections::BTreeMap;

use fulgurite_types::Constraint;
use serde::Serialize;
use serde_json::Value;

use crate::SampleRequest;
use crate::remote::sampling_fields::SamplingFields;

/// A request to `/v1/completions`.
#[derive(Debug, Serialize)]
pub(super) struct Completion<'r> {
    model: &'r str,
    prompt: &'r [u32],
    stream: bool,
    stream_options: StreamOptions,
    return_token_ids: bool,
    return_tokens_as_token_ids: bool,
    skip_special_tokens: bool,
    #[serde(flatten)]
    sampling: Sampling<'r>,
}

/// A request to `/inference/v1/generate`.
#[derive(Debug, Serialize)]
pub(super) struct Generate<'r> {
    model: &'r str,
    token_ids: &'r [u32],
    stream: bool,
    stream_options: StreamOptions,
    return_token_ids: bool,
    sampling_params: Sampling<'r>,
}

/// What the last event of a stream is to say.
#[derive(Debug, Serialize)]
struct StreamOptions {
    include_usage: bool,
}

impl StreamOptions {
    /// How much of the prompt was cached, of a server that was started with `--enable-prompt-tokens-details`.
    const USAGE: Self = Self { include_usage: true };
}

/// The fields that both have. All that a server may have other defaults for is written out: it takes them from the
/// model's `generation_config.json`.
#[derive(Debug, Serialize)]
struct Sampling<'r> {
    #[serde(flatten)]
    shared: SamplingFields<'r>,
    max_tokens: usize,
    seed: i64,
    /// The request's stop tokens alone end an answer. A constraint's end, though, is the model's own.
    ignore_eos: bool,
    logprobs: usize,
    /// Of which older servers do not know, and which they leave aside.
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_interval: Option<usize>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    logit_bias: &'r BTreeMap<u32, f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    structured_outputs: Option<StructuredOutputs<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detokenize: Option<bool>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum StructuredOutputs<'r> {
    Json(&'r Value),
    Grammar(&'r str),
}

impl<'r> Completion<'r> {
    pub(super) fn new(model: &'r str, request: &'r SampleRequest) -> Self {
        Self {
            model,
            prompt: &request.prompt,
            stream: true,
            stream_options: StreamOptions::USAGE,
            return_token_ids: true,
            return_tokens_as_token_ids: true,
            skip_special_tokens: false,
            sampling: Sampling::new(request, request.top_logprobs.max(1)),
        }
    }
}

impl<'r> Generate<'r> {
    /// The route counts the sampled token among the alternatives, so that one more is requested, as far as servers
    /// allow.
    pub(super) fn new(model: &'r str, request: &'r SampleRequest, greatest_top_logprobs: usize) -> Self {
        let sampling = Sampling::new(request, (request.top_logprobs + 1).min(greatest_top_logprobs));
        Self {
            model,
            token_ids: &request.prompt,
            stream: true,
            stream_options: StreamOptions::USAGE,
            return_token_ids: true,
            sampling_params: Sampling { detokenize: Some(false), ..sampling },
        }
    }
}

impl<'r> Sampling<'r> {
    fn new(request: &'r SampleRequest, logprobs: usize) -> Self {
        let sampling = &request.sampling;
        let structured_outputs = sampling.constraint.as_ref().map(|constraint| match constraint {
            Constraint::JsonSchema(schema) => StructuredOutputs::Json(schema),
            Constraint::Lark(grammar) => StructuredOutputs::Grammar(grammar),
        });
        Self {
            shared: SamplingFields::of(request),
            max_tokens: request.max_tokens,
            seed: seed(request.seed),
            ignore_eos: structured_outputs.is_none(),
            logprobs,
            stream_interval: (request.stream_interval > 1).then_some(request.stream_interval),
            logit_bias: &sampling.logit_bias,
            structured_outputs,
            detokenize: None,
        }
    }
}

/// A seed is an i64 there, and -1 asks for none.
fn seed(seed: u64) -> i64 {
    match seed.cast_signed() {
        -1 => i64::MAX,
        seed => seed,
    }
}

#[cfg(test)]
mod tests {
    use fulgurite_types::SamplingParameters;
    use serde_json::json;

    use super::*;

    fn completion(model: &str, request: &SampleRequest) -> Value {
        json!(Completion::new(model, request))
    }

    fn generate(model: &str, request: &SampleRequest, greatest_top_logprobs: usize) -> Value {
        json!(Generate::new(model, request, greatest_top_logprobs))
    }

    fn request(sampling: SamplingParameters) -> SampleRequest {
        SampleRequest { sampling, stop_tokens: vec![9], ..SampleRequest::new(vec![1, 2], 3, u64::MAX) }
    }

    #[test]
    fn nothing_is_left_to_the_servers_defaults() {
        let fields = json!({
            "n": 1, "max_tokens": 3, "temperature": 1.0, "top_p": 1.0, "top_k": -1, "min_p": 0.0,
            "repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0, "seed": i64::MAX,
            "stop_token_ids": [9], "ignore_eos": true, "logprobs": 1,
        });
        let mut expected = fields.clone();
        for (field, value) in [
            ("model", json!("m")),
            ("prompt", json!([1, 2])),
            ("stream", json!(true)),
            ("stream_options", json!({ "include_usage": true })),
            ("return_token_ids", json!(true)),
            ("return_tokens_as_token_ids", json!(true)),
            ("skip_special_tokens", json!(false)),
        ] {
            expected[field] = value;
        }
        let plain = request(SamplingParameters::default());
        assert_eq!(completion("m", &plain), expected);
        let unwatched = SampleRequest { stream_interval: 16, ..plain.clone() };
        assert_eq!(completion("m", &unwatched)["stream_interval"], 16);
        assert_eq!(generate("m", &unwatched, 20)["sampling_params"]["stream_interval"], 16);
        let mut sampling_params = fields;
        sampling_params["detokenize"] = json!(false);
        let generated = generate("m", &plain, 20);
        assert_eq!((&generated["sampling_params"], &generated["token_ids"]), (&sampling_params, &json!([1, 2])));
    }

    #[test]
    fn what_changes_the_distribution_is_asked_for_by_its_name_there() {
        let sampling = SamplingParameters {
            temperature: 0.5,
            top_k: Some(4),
            presence_penalty: 0.25,
            logit_bias: [(7, -1.5)].into(),
            constraint: Some(Constraint::JsonSchema(json!({ "type": "boolean" }))),
            ..SamplingParameters::default()
        };
        let body = completion("m", &SampleRequest { top_logprobs: 20, ..request(sampling.clone()) });
        assert_eq!((&body["temperature"], &body["top_k"]), (&json!(0.5), &json!(4)));
        assert_eq!((&body["presence_penalty"], &body["logit_bias"]), (&json!(0.25), &json!({ "7": -1.5 })));
        assert_eq!(body["structured_outputs"], json!({ "json": { "type": "boolean" } }));
        assert_eq!((&body["ignore_eos"], &body["logprobs"]), (&json!(false), &json!(20)));
        let lark = SamplingParameters { constraint: Some(Constraint::Lark("start: \"a\"".into())), ..sampling };
        let body = generate("m", &SampleRequest { top_logprobs: 20, ..request(lark) }, 20);
        assert_eq!(body["sampling_params"]["structured_outputs"], json!({ "grammar": "start: \"a\"" }));
        assert_eq!(body["sampling_params"]["logprobs"], 20);
    }
}
