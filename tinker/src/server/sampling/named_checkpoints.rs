use std::sync::Arc;

use async_trait::async_trait;
use axum::http::StatusCode;
use fulgurite_backends::{
    BackendError, KeptModel, KeptWeights, KeptWeightsError, PromptQuestions, PromptScores, SampleRequest, SampleStream,
    Sampler, SamplerInfo,
};
use fulgurite_types::WeightsVersion;

use crate::server::base::TinkerBase;
use crate::server::error::run_blocking;
use crate::server::host::HostedWeights;
use crate::server::tinker_server::TinkerServer;
use crate::wire::{CheckpointKind, CheckpointPath};

/// What a checkpoint's path begins with.
const SCHEME: &str = "tinker://";

/// Checkpoints of a server as models that calls name: `tinker://RUN/sampler_weights/NAME`, or the same behind the base model's
/// name and a semicolon. As in sampling sessions, what was saved to be trained on can be sampled from too.
pub struct NamedCheckpoints(Arc<TinkerServer>);

impl NamedCheckpoints {
    /// Those of a server.
    pub fn new(server: Arc<TinkerServer>) -> Self {
        Self(server)
    }

    /// Names of checkpoints to sample from, the newest first; of many, some.
    fn names(&self) -> String {
        let registry = self.0.registry();
        let is_sampled_from =
            |path: &str| path.parse::<CheckpointPath>().is_ok_and(|path| path.kind == CheckpointKind::SamplerWeights);
        let mut found: Vec<_> = registry.checkpoints.values().filter(|record| is_sampled_from(&record.path)).collect();
        found.sort_by(|left, right| right.created.total_cmp(&left.created));
        listed(&found.into_iter().map(|record| record.path.as_str()).collect::<Vec<_>>())
    }
}

/// Names that an error lists.
const LISTED: usize = 8;

/// Names as an error lists them.
fn listed(names: &[&str]) -> String {
    match names {
        [] => "none".to_owned(),
        few if few.len() <= LISTED => few.join(", "),
        many => format!("{} and {} others", many[..LISTED].join(", "), many.len() - LISTED),
    }
}

/// The base model, if there is one, and the path that a name consists of; `None` if it is no checkpoint's.
fn parts(name: &str) -> Option<(Option<&str>, &str)> {
    let with_base = name.split_once(';').filter(|(_, path)| path.starts_with(SCHEME));
    match with_base {
        Some((base, path)) => Some((Some(base), path)),
        None => name.starts_with(SCHEME).then_some((None, name)),
    }
}

impl KeptWeights for NamedCheckpoints {
    fn find(&self, name: &str) -> Result<Option<KeptModel>, KeptWeightsError> {
        let Some((named_base, path)) = parts(name) else { return Ok(None) };
        let invalid = |message: String| KeptWeightsError::Invalid { message };
        let found = self.0.sampler_checkpoint(path);
        let (path, base_model) = found.map_err(|refusal| match refusal.status {
            StatusCode::NOT_FOUND => KeptWeightsError::Unknown { name: path.to_owned(), kept: self.names() },
            _ => invalid(refusal.detail),
        })?;
        let base = self.0.base(&base_model).map_err(|message| invalid(format!("`{path}`: {message}")))?;
        if let Some(named) = named_base
            && !base.is_named(named).map_err(invalid)?
        {
            return Err(invalid(format!("`{path}` is of base model `{base_model}`, not `{named}`")));
        }
        let sampler = Arc::new(CheckpointSampler { server: self.0.clone(), base, path: path.clone() });
        Ok(Some(KeptModel { name: path, base_model, sampler }))
    }
}

/// The sampler of a checkpoint's weights. Of these, the server keeps those in memory that were sampled from last.
struct CheckpointSampler {
    server: Arc<TinkerServer>,
    base: Arc<TinkerBase>,
    path: String,
}

impl CheckpointSampler {
    async fn weights(&self) -> Result<Arc<dyn HostedWeights>, BackendError> {
        let found = self.server.registry().checkpoints.get(&self.path).map(|record| record.directory.clone());
        let deleted = || BackendError::InvalidRequest { message: format!("`{}` was deleted", self.path) };
        let directory = self.server.state.resolve(&found.ok_or_else(deleted)?);
        self.server.weights.get(&self.base.model, &directory).await
    }
}

#[async_trait]
impl Sampler for CheckpointSampler {
    async fn info(&self) -> Result<SamplerInfo, BackendError> {
        self.base.model.sampler().info().await
    }

    /// They have one version: their name says which weights they are.
    fn weights_version(&self) -> Option<WeightsVersion> {
        Some(WeightsVersion::default())
    }

    async fn sample(&self, request: SampleRequest) -> Result<SampleStream, BackendError> {
        self.weights().await?.sample(request).await
    }

    async fn score_prompt(&self, prompt: &[u32], alternatives: usize) -> Result<PromptScores, BackendError> {
        self.info().await?.check_scored(prompt)?;
        let (weights, prompt) = (self.weights().await?, prompt.to_vec());
        run_blocking(move || {
            weights.score_prompt(&prompt, PromptQuestions { alternatives, ..PromptQuestions::default() })
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_path_that_may_follow_its_base() {
        let path = "tinker://s:train:0/sampler_weights/a";
        assert_eq!(parts(path), Some((None, path)));
        assert_eq!(parts(&format!("org/m:peft:65536;{path}")), Some((Some("org/m:peft:65536"), path)));
        assert_eq!(parts("tinker://"), Some((None, "tinker://")), "to be refused for what it is");
        for other in ["tiny", "tiny;tinker:/a", "a tinker://s/sampler_weights/a", ""] {
            assert_eq!(parts(other), None, "{other}");
        }
    }

    #[test]
    fn an_error_lists_some_of_many() {
        assert_eq!((listed(&[]), listed(&["a", "b"])), ("none".to_owned(), "a, b".to_owned()));
        let many: Vec<&str> = "abcdefghij".split("").filter(|name| !name.is_empty()).collect();
        assert_eq!(listed(&many), "a, b, c, d, e, f, g, h and 2 others");
    }
}
