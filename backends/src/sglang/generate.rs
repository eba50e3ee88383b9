use serde_json::json;

use super::event::SglangReader;
use super::request::body;
use super::server::SglangServer;
use crate::remote::answer::{Answer, EndsAt};
use crate::remote::sampler::Remote;
use crate::remote::serving::Serving;
use crate::{BackendError, SampleRequest, SampleStream};

/// Starts sampling from what is served.
pub(super) async fn generate(
    remote: &Remote,
    server: &SglangServer,
    request: &SampleRequest,
    serving: &Serving,
) -> Result<SampleStream, BackendError> {
    let mut body = body(request, server);
    let mut answer = Answer::new(request, remote.vocabulary_size, EndsAt::HostsEnd);
    if let Some(adapter) = &serving.adapter {
        body["lora_path"] = json!(adapter);
        // What the server reports is the version of the model below the adapter.
        answer = answer.of_weights(serving.version);
    }
    remote.stream("generate", &body, answer, SglangReader::new(request)).await
}
