//! Generations and rewards as a store would give them, for the tests.

use fulgurite_types::{Generation, RecordedReward, RecordedSampling, Reward, WeightsFrom};
use serde_json::json;

/// A generation that may be trained, with the logprobs -1, -2, ...
pub(crate) fn generation(generation_id: &str, prompt_tokens: &[u32], sampled_tokens: &[u32]) -> Generation {
    Generation {
        generation_id: generation_id.into(),
        rollout_id: "ro-1".into(),
        attempt_id: "at-1".into(),
        span_id: "00000000000000aa".into(),
        trace_id: "000000000000000000000000000000aa".into(),
        name: "openai.chat.completion".into(),
        sequence_id: 1,
        parent_id: None,
        branch_reason: None,
        start_time: 1.0,
        end_time: 2.0,
        model: "tiny".into(),
        prompt_tokens: prompt_tokens.into(),
        sampled_tokens: sampled_tokens.into(),
        logprobs: Some((1..=sampled_tokens.len()).map(|place| -(place as f32)).collect()),
        stop_reason: "stop".into(),
        weights_versions: vec![WeightsFrom { version: 3, first_token: 0 }],
        sampling: RecordedSampling(json!({"temperature": 1.0, "top_p": 1.0, "top_k": null})),
        seed: 7,
        renderer: "template".into(),
        tokenizer: "fingerprint".into(),
        request_digest: String::new(),
        client_disconnected: false,
        defect: None,
    }
}

/// A reward for one generation, or for the whole attempt.
pub(crate) fn reward(sequence_id: u64, generation_id: Option<&str>, value: f64) -> RecordedReward {
    RecordedReward {
        attempt_id: "at-1".into(),
        span_id: format!("{sequence_id:016x}"),
        sequence_id,
        time: None,
        generation_id: generation_id.map(str::to_owned),
        reward: Reward::new(value),
        giver: None,
    }
}
