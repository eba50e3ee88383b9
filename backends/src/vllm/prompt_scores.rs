//! How likely a prompt is, by `/v1/completions` with `prompt_logprobs`.

use serde_json::{Value, json};

use crate::remote::prompt_scores::{ScoredToken, prompt_scores};
use crate::remote::sampler::Remote;
use crate::{AnswerFault, BackendError, PromptScores};

/// The route is asked for a token, which nobody reads: it gives none only to those who ask for text.
pub(super) async fn score_prompt(
    remote: &Remote,
    model: &str,
    prompt: &[u32],
    alternatives: usize,
) -> Result<PromptScores, BackendError> {
    let body = json!({
        "model": model,
        "prompt": prompt,
        "max_tokens": 1,
        "temperature": 0.0,
        "prompt_logprobs": alternatives,
        "return_tokens_as_token_ids": true,
        "stream": false,
    });
    let reply = remote.host.post_for_json("v1/completions", &body).await?;
    let Some(places) = reply["choices"][0]["prompt_logprobs"].as_array() else {
        return Err(remote.unusable("it does not tell the logprobs of a prompt (prompt_logprobs of /v1/completions)"));
    };
    let rows = places.iter().skip(1).map(row).collect::<Result<Vec<_>, _>>();
    rows.and_then(|rows| prompt_scores(prompt, rows, alternatives)).map_err(|fault| remote.host.broken_answer(fault))
}

/// The tokens of a place by their ids: the likeliest, and the prompt's own.
fn row(place: &Value) -> Result<Vec<ScoredToken>, AnswerFault> {
    let unreadable = || AnswerFault::Unreadable { message: "prompt_logprobs is no list of tokens by id".to_owned() };
    let scored = |(id, entry): (&String, &Value)| {
        Some(ScoredToken { id: id.parse().ok()?, logprob: entry["logprob"].as_f64()? as f32 })
    };
    let tokens = place.as_object().ok_or_else(unreadable)?;
    tokens.iter().map(|entry| scored(entry).ok_or_else(unreadable)).collect()
}
