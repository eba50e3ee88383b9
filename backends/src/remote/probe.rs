//! Short requests that find out what a host reports of what it samples.

use fulgurite_types::SamplingParameters;

use crate::{BackendError, SampleEvent, SampleRequest, SampleStream};

/// How many tokens try out which logprobs a host reports: a model is hardly sure of so many by itself.
pub const PROBED_TOKENS: usize = 4;
/// A certain token's logprob is above minus this.
const UNCERTAIN: f32 = 1e-2;

/// A request for a few tokens after a prompt of one.
pub fn probe(sampling: SamplingParameters, max_tokens: usize, top_logprobs: usize) -> SampleRequest {
    SampleRequest { sampling, top_logprobs, ..SampleRequest::new(vec![0], max_tokens, 0) }
}

/// Whether a host reports that tokens were certain which had to be.
pub async fn reports_certainty(mut stream: SampleStream) -> Result<bool, BackendError> {
    let mut are_certain = true;
    loop {
        match stream.next().await? {
            SampleEvent::Token(token) => are_certain &= token.logprob > -UNCERTAIN,
            SampleEvent::WeightsVersions(_) | SampleEvent::CachedPrompt(_) => {}
            SampleEvent::Finished(_) => return Ok(are_certain),
        }
    }
}
