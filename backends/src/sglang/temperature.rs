use fulgurite_types::SamplingParameters;

use super::generate::generate;
use super::server::SglangServer;
use crate::BackendError;
use crate::remote::probe::{PROBED_TOKENS, probe, reports_certainty};
use crate::remote::sampler::Remote;
use crate::remote::serving::Serving;

/// At this temperature the likeliest token is certain, unless two of them are as good as equal.
const LOW_TEMPERATURE: f32 = 1e-4;

impl SglangServer {
    /// Whether logprobs are those after the temperature was applied. Tried out the first time.
    pub(super) async fn reports_temperature(&self, remote: &Remote) -> Result<bool, BackendError> {
        self.reports_temperature.get_or_try_init(|| self.try_temperature(remote)).await.copied()
    }

    /// Whether tokens are told to have been certain that were.
    async fn try_temperature(&self, remote: &Remote) -> Result<bool, BackendError> {
        let sampling = SamplingParameters { temperature: LOW_TEMPERATURE, ..SamplingParameters::default() };
        let stream = generate(remote, self, &probe(sampling, PROBED_TOKENS, 0), &Serving::default()).await?;
        let are_certain = reports_certainty(stream).await?;
        tracing::info!(host = %remote.host.name(), are_certain, "tried out whether logprobs tell of the temperature");
        Ok(are_certain)
    }
}
