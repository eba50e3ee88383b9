use serde_json::{Map, Value, json};

use crate::remote::sampling_fields::sampling_fields;
use crate::{Constraint, SampleRequest};

/// A request to `/v1/completions`.
pub(super) fn completion(model: &str, request: &SampleRequest) -> Value {
    let mut body = sampling(request, request.top_logprobs.max(1));
    for (field, value) in [
        ("model", json!(model)),
        ("prompt", json!(request.prompt)),
        ("stream", json!(true)),
        ("return_token_ids", json!(true)),
        ("return_tokens_as_token_ids", json!(true)),
        ("skip_special_tokens", json!(false)),
    ] {
        body.insert(field.to_owned(), value);
    }
    Value::Object(body)
}

/// A request to `/inference/v1/generate`. It counts the sampled token among the alternatives, so that one more is
/// asked for, as far as servers allow.
pub(super) fn generate(model: &str, request: &SampleRequest, greatest_top_logprobs: usize) -> Value {
    let mut sampling = sampling(request, (request.top_logprobs + 1).min(greatest_top_logprobs));
    sampling.insert("detokenize".to_owned(), json!(false));
    json!({
        "model": model,
        "token_ids": request.prompt,
        "stream": true,
        "return_token_ids": true,
        "sampling_params": sampling,
    })
}

/// The fields that both have. All that a server may have other defaults for is written out: it takes them from the
/// model's `generation_config.json`.
fn sampling(request: &SampleRequest, logprobs: usize) -> Map<String, Value> {
    let sampling = &request.sampling;
    let mut fields = sampling_fields(request);
    let mut set = |field: &str, value: Value| fields.insert(field.to_owned(), value);
    set("max_tokens", json!(request.max_tokens));
    set("seed", json!(seed(request.seed)));
    // The request's stop tokens alone end an answer. A constraint's end, though, is the model's own.
    set("ignore_eos", json!(sampling.constraint.is_none()));
    set("logprobs", json!(logprobs));
    if !sampling.logit_bias.is_empty() {
        set("logit_bias", json!(sampling.logit_bias));
    }
    match &sampling.constraint {
        Some(Constraint::JsonSchema(schema)) => drop(set("structured_outputs", json!({ "json": schema }))),
        Some(Constraint::Lark(grammar)) => drop(set("structured_outputs", json!({ "grammar": grammar }))),
        None => {}
    }
    fields
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
    use super::*;
    use crate::SamplingParameters;

    fn request(sampling: SamplingParameters) -> SampleRequest {
        SampleRequest {
            prompt: vec![1, 2],
            max_tokens: 3,
            sampling,
            stop_tokens: vec![9],
            stop_sequences: vec![],
            seed: u64::MAX,
            top_logprobs: 0,
            affinity: None,
        }
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
            ("return_token_ids", json!(true)),
            ("return_tokens_as_token_ids", json!(true)),
            ("skip_special_tokens", json!(false)),
        ] {
            expected[field] = value;
        }
        let plain = request(SamplingParameters::default());
        assert_eq!(completion("m", &plain), expected);
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
