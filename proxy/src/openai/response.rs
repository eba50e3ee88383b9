use fulgurite_backends::SampledToken;
use fulgurite_renderers::Tokenizer;
use serde_json::{Value, json};

use crate::call::Finished;

/// What every response and chunk of one call repeats.
#[derive(Clone, Debug)]
pub(crate) struct Header {
    pub(crate) id: String,
    pub(crate) created: u64,
    pub(crate) model: String,
}

/// `chat.completion`: the whole answer.
pub(crate) fn completion(header: &Header, content: &str, logprobs: Option<Vec<Value>>, finished: &Finished) -> Value {
    json!({
        "id": header.id,
        "object": "chat.completion",
        "created": header.created,
        "model": header.model,
        "choices": [{
            "index": 0,
            "message": { "role": "assistant", "content": content, "refusal": null },
            "logprobs": logprobs.map(|content| json!({ "content": content, "refusal": null })),
            "finish_reason": finished.reason.as_str(),
        }],
        "usage": usage(finished),
    })
}

/// `usage`: tokens as the sampler counted them.
pub(crate) fn usage(finished: &Finished) -> Value {
    json!({
        "prompt_tokens": finished.prompt_tokens,
        "completion_tokens": finished.sampled_tokens,
        "total_tokens": finished.prompt_tokens + finished.sampled_tokens,
    })
}

/// One entry of `logprobs.content`.
pub(crate) fn token_logprob(token: &SampledToken, tokenizer: &Tokenizer) -> Value {
    let entry = |id: u32, logprob: f32| {
        let bytes = tokenizer.id_to_bytes(id).unwrap_or_default();
        json!({ "token": String::from_utf8_lossy(bytes), "bytes": bytes, "logprob": logprob })
    };
    let mut value = entry(token.id, token.logprob);
    value["top_logprobs"] =
        token.top_logprobs.iter().map(|(id, logprob)| entry(*id, *logprob)).collect::<Vec<_>>().into();
    value
}
