use fulgurite_types::{Constraint, exact_json};
use serde_json::{Value, json};

use super::server::SglangServer;
use crate::SampleRequest;
use crate::remote::sampling_fields::SamplingFields;

/// A request. What a server may have other defaults for is written out.
pub(super) fn body(request: &SampleRequest, server: &SglangServer) -> Value {
    let sampling = &request.sampling;
    let mut fields = json!(SamplingFields::of(request));
    // Null is for all the room that the server has: some keep a part of it to themselves without telling, and older ones
    // refuse whoever asks for the whole.
    let is_limited = request.prompt.len() + request.max_tokens < server.longest;
    fields["max_new_tokens"] = json!(is_limited.then_some(request.max_tokens));
    // A positive i64 there.
    fields["sampling_seed"] = json!(request.seed & i64::MAX.cast_unsigned());
    fields["ignore_eos"] = json!(false);
    fields["skip_special_tokens"] = json!(false);
    if server.takes_stream_interval && request.stream_interval > 1 {
        fields["stream_interval"] = json!(request.stream_interval);
    }
    if !sampling.logit_bias.is_empty() {
        fields["logit_bias"] = json!(sampling.logit_bias);
    }
    match &sampling.constraint {
        Some(Constraint::JsonSchema(schema)) => fields["json_schema"] = json!(exact_json(schema)),
        // Its llguidance takes Lark by that name too.
        Some(Constraint::Lark(grammar)) => fields["ebnf"] = json!(grammar),
        None => {}
    }
    for preferred in server.preferred.iter() {
        // Null is for what a field is where nobody prefers anything.
        if fields.get(preferred).is_none() {
            fields[preferred] = Value::Null;
        }
    }
    let mut body = json!({
        "input_ids": request.prompt,
        "sampling_params": fields,
        "stream": true,
        "return_logprob": true,
        "logprob_start_len": -1,
        "return_text_in_logprobs": false,
    });
    if is_truncated(request) {
        body["return_sampling_mask"] = json!(true);
        body["sampling_logprobs_mode"] = json!(if request.top_logprobs > 0 { "support" } else { "selected" });
    } else {
        body["top_logprobs_num"] = json!(request.top_logprobs);
    }
    body
}

/// Whether tokens are sampled from a part of the distribution. Of the likeliest token it is certain anyhow.
pub(super) fn is_truncated(request: &SampleRequest) -> bool {
    let sampling = &request.sampling;
    sampling.temperature != 0.0 && (sampling.top_p < 1.0 || sampling.top_k.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> SampleRequest {
        SampleRequest {
            sampling: fulgurite_types::SamplingParameters {
                logit_bias: [(7, 1.5)].into(),
                constraint: Some(Constraint::JsonSchema(json!({ "type": "null" }))),
                ..Default::default()
            },
            stop_tokens: vec![9],
            top_logprobs: 2,
            ..SampleRequest::new(vec![1, 2], 3, u64::MAX)
        }
    }

    fn server(settings: Value) -> SglangServer {
        SglangServer::new(64, &settings)
    }

    /// As an older one, which tells nothing of itself.
    fn silent(longest: usize) -> SglangServer {
        SglangServer::new(longest, &Value::Null)
    }

    #[test]
    fn the_whole_room_is_not_asked_for_by_its_number() {
        let sampling_fields = |longest| body(&request(), &silent(longest))["sampling_params"]["max_new_tokens"].clone();
        assert_eq!((sampling_fields(6), sampling_fields(5), sampling_fields(4)), (json!(3), Value::Null, Value::Null));
    }

    #[test]
    fn nothing_is_left_to_the_servers_defaults() {
        assert_eq!(
            body(&request(), &silent(64)),
            json!({
                "input_ids": [1, 2],
                "sampling_params": {
                    "n": 1, "max_new_tokens": 3, "temperature": 1.0, "top_p": 1.0, "top_k": -1, "min_p": 0.0,
                    "repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0,
                    "sampling_seed": i64::MAX, "stop_token_ids": [9], "ignore_eos": false,
                    "skip_special_tokens": false, "logit_bias": { "7": 1.5 }, "json_schema": "{\"type\":\"null\"}",
                },
                "stream": true, "return_logprob": true, "logprob_start_len": -1, "top_logprobs_num": 2,
                "return_text_in_logprobs": false,
            })
        );
    }

    #[test]
    fn what_a_server_prefers_is_taken_back() {
        let preferred =
            json!({ "preferred_sampling_params": { "min_new_tokens": 4, "temperature": 0.6, "stop": "x" } });
        let fields = &body(&request(), &server(preferred))["sampling_params"];
        assert_eq!((&fields["temperature"], fields.get("min_new_tokens")), (&json!(1.0), Some(&Value::Null)));
        assert_eq!(fields.get("stop"), Some(&Value::Null));
    }

    #[test]
    fn what_top_k_and_top_p_left_is_asked_for_with_the_logprobs_that_somebody_wants() {
        let sampling_fields = |top_logprobs, temperature| {
            let sampling = fulgurite_types::SamplingParameters { top_k: Some(5), temperature, ..Default::default() };
            let body = body(&SampleRequest { sampling, top_logprobs, ..request() }, &silent(64));
            ["return_sampling_mask", "sampling_logprobs_mode", "top_logprobs_num"].map(|field| body[field].clone())
        };
        assert_eq!(sampling_fields(2, 0.5), [json!(true), json!("support"), Value::Null]);
        assert_eq!(sampling_fields(0, 0.5), [json!(true), json!("selected"), Value::Null]);
        assert_eq!(sampling_fields(2, 0.0), [Value::Null, Value::Null, json!(2)]);
    }

    #[test]
    fn a_grammar_and_the_number_of_tokens_told_together_go_where_they_are_known() {
        let constraint = Some(Constraint::Lark("start: /a/".into()));
        let sampling = fulgurite_types::SamplingParameters { constraint, ..Default::default() };
        let request = SampleRequest { sampling, stream_interval: 16, ..request() };
        let newer = server(json!({ "incremental_streaming_output": false, "grammar_backend": "llguidance" }));
        assert!(newer.takes_lark && !server(json!({ "grammar_backend": "xgrammar" })).takes_lark);
        let sampling_fields = |server| {
            let fields = &body(&request, server)["sampling_params"];
            (fields["ebnf"].clone(), fields["stream_interval"].clone())
        };
        assert_eq!(sampling_fields(&newer), (json!("start: /a/"), json!(16)));
        assert_eq!(sampling_fields(&silent(64)).1, Value::Null);
    }
}
