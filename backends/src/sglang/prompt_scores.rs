//! How likely a prompt is, by `/generate` with `logprob_start_len` 0.

use serde_json::{Value, json};

use crate::remote::prompt_scores::{ScoredToken, prompt_scores};
use crate::remote::sampler::Remote;
use crate::remote::serving::Serving;
use crate::{AnswerFault, BackendError, PromptScores};

/// Nothing is sampled.
pub(super) async fn score_prompt(
    remote: &Remote,
    prompt: &[u32],
    alternatives: usize,
    serving: &Serving,
) -> Result<PromptScores, BackendError> {
    let mut body = json!({
        "input_ids": prompt,
        "sampling_params": { "max_new_tokens": 0, "temperature": 1.0 },
        "return_logprob": true,
        "logprob_start_len": 0,
        "top_logprobs_num": alternatives,
        "return_text_in_logprobs": false,
    });
    if let Some(adapter) = &serving.adapter {
        body["lora_path"] = json!(adapter);
    }
    let reply = remote.host.post_for_json("generate", &body).await?;
    let meta = &reply["meta_info"];
    let Some(own) = meta["input_token_logprobs"].as_array() else {
        return Err(remote.unusable("it does not tell the logprobs of a prompt (input_token_logprobs of /generate)"));
    };
    let likeliest = meta["input_top_logprobs"].as_array();
    let row = |place: usize| {
        let mut tokens = match likeliest.and_then(|rows| rows.get(place)).and_then(Value::as_array) {
            Some(row) => row.iter().map(scored).collect::<Result<Vec<_>, _>>()?,
            None => Vec::new(),
        };
        let own = scored(&own[place])?;
        if tokens.iter().all(|token| token.id != own.id) {
            tokens.push(own);
        }
        Ok(tokens)
    };
    let rows = (1..own.len()).map(row).collect::<Result<Vec<_>, _>>();
    rows.and_then(|rows| prompt_scores(prompt, rows, alternatives)).map_err(|fault| remote.host.broken_answer(fault))
}

/// A token as `[logprob, id, text]`.
fn scored(row: &Value) -> Result<ScoredToken, AnswerFault> {
    let read = || Some(ScoredToken { id: row[1].as_u64()?.try_into().ok()?, logprob: row[0].as_f64()? as f32 });
    read().ok_or_else(|| AnswerFault::Unreadable { message: "a prompt's logprobs are no [logprob, id]".to_owned() })
}
