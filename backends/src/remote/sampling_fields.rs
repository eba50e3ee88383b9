use serde::Serialize;

use crate::SampleRequest;

/// How tokens are drawn, by the names that vLLM and SGLang share. What a server may have other defaults for is written
/// out.
#[derive(Debug, Serialize)]
pub(crate) struct SamplingFields<'r> {
    n: u32,
    temperature: f32,
    top_p: f32,
    /// -1 for all.
    top_k: i64,
    min_p: f32,
    repetition_penalty: f32,
    presence_penalty: f32,
    frequency_penalty: f32,
    stop_token_ids: &'r [u32],
}

impl<'r> SamplingFields<'r> {
    pub(crate) fn of(request: &'r SampleRequest) -> Self {
        let sampling = &request.sampling;
        Self {
            n: 1,
            temperature: sampling.temperature,
            top_p: sampling.top_p,
            top_k: sampling.top_k.map_or(-1, |top_k| i64::try_from(top_k).unwrap_or(i64::MAX)),
            min_p: 0.0,
            repetition_penalty: 1.0,
            presence_penalty: sampling.presence_penalty,
            frequency_penalty: sampling.frequency_penalty,
            stop_token_ids: &request.stop_tokens,
        }
    }
}
