use serde_json::{Map, Value, json};

use crate::SampleRequest;

/// How tokens are drawn, by the names that vLLM and SGLang share. What a server may have other defaults for is written
/// out.
pub(crate) fn sampling_fields(request: &SampleRequest) -> Map<String, Value> {
    let sampling = &request.sampling;
    let fields = [
        ("n", json!(1)),
        ("temperature", json!(sampling.temperature)),
        ("top_p", json!(sampling.top_p)),
        ("top_k", sampling.top_k.map_or(json!(-1), |top_k| json!(top_k))),
        ("min_p", json!(0.0)),
        ("repetition_penalty", json!(1.0)),
        ("presence_penalty", json!(sampling.presence_penalty)),
        ("frequency_penalty", json!(sampling.frequency_penalty)),
        ("stop_token_ids", json!(request.stop_tokens)),
    ];
    fields.into_iter().map(|(field, value)| (field.to_owned(), value)).collect()
}
