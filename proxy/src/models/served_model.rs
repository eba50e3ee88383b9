use std::sync::Arc;

use fulgurite_backends::{Sampler, Upstream};
use fulgurite_renderers::Renderer;

/// One model that agents can name.
#[derive(Clone)]
pub enum ServedModel {
    /// It is sampled token by token, and may be trained.
    Sampled(SampledModel),
    /// Its calls are forwarded, recorded, and never trained.
    Upstream(UpstreamModel),
}

impl ServedModel {
    /// What agents send in `model`.
    pub fn name(&self) -> &str {
        match self {
            ServedModel::Sampled(model) => &model.name,
            ServedModel::Upstream(model) => &model.name,
        }
    }

    /// The model, if it is sampled.
    pub fn sampled(&self) -> Option<&SampledModel> {
        match self {
            ServedModel::Sampled(model) => Some(model),
            ServedModel::Upstream(_) => None,
        }
    }

    /// Tokens that prompt and answer may have together, as far as that is known now.
    pub(crate) async fn context_length(&self) -> Option<usize> {
        // A remote host that cannot be reached now is listed all the same.
        self.sampled()?.sampler.info().await.ok().map(|info| info.context_length)
    }
}

/// A model that is sampled token by token.
#[derive(Clone)]
pub struct SampledModel {
    /// What agents send in `model`.
    pub name: String,
    /// Conversation to tokens and back.
    pub renderer: Arc<dyn Renderer>,
    /// Tokens to sampled tokens.
    pub sampler: Arc<dyn Sampler>,
}

/// A model whose calls are forwarded unchanged.
#[derive(Clone)]
pub struct UpstreamModel {
    /// What agents send in `model`.
    pub name: String,
    /// The name that is forwarded in its place.
    pub upstream_name: String,
    /// Who answers.
    pub upstream: Arc<Upstream>,
}
