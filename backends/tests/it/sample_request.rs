//! The request that hosts are sent where what it asks for does not matter.

use fulgurite_backends::SampleRequest;
use fulgurite_types::SamplingParameters;

pub fn sample_request() -> SampleRequest {
    SampleRequest {
        prompt: vec![5, 6],
        max_tokens: 8,
        sampling: SamplingParameters::default(),
        stop_tokens: vec![9],
        stop_sequences: vec![],
        seed: 1,
        top_logprobs: 0,
        stream_interval: 1,
        affinity: None,
    }
}
