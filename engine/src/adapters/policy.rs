use std::sync::Arc;

use crate::adapters::adapter::Adapter;
use crate::model::layout::Tensor;
use crate::model::weights::Weights;

/// What tokens are sampled and scored under: a model's weights, all of which are trained, or an adapter over them, and
/// then that alone is. Adapters of one base share its weights.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    pub(crate) weights: Arc<Weights>,
    pub(crate) adapter: Option<Arc<Adapter>>,
}

impl Policy {
    /// A model's own weights.
    pub(crate) fn of(weights: Arc<Weights>) -> Self {
        Self { weights, adapter: None }
    }

    /// The names and shapes of what is trained.
    pub(crate) fn trained_tensors(&self) -> &[Tensor] {
        self.adapter.as_ref().map_or(&self.weights.model.layout.tensors, |adapter| &adapter.layout.tensors)
    }

    /// How many numbers are trained.
    pub(crate) fn trained_count(&self) -> usize {
        self.adapter.as_ref().map_or(self.weights.model.layout.length, |adapter| adapter.layout.length)
    }
}
