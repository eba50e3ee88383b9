//! The policy that another one is kept near to.

use std::sync::Arc;

use fulgurite_backends::{BackendError, Learner};
use fulgurite_types::Datum;

/// Whose logprobs a policy's are held against.
#[derive(Clone)]
pub enum Reference {
    /// The weights that the run began with, which its learner keeps.
    Start,
    /// Another model; nothing of it is trained.
    Model(Arc<dyn Learner>),
}

impl Reference {
    /// Logprob of each target of each datum.
    pub(crate) async fn logprobs(
        &self,
        learner: &dyn Learner,
        data: Arc<[Datum]>,
    ) -> Result<Vec<Vec<f32>>, BackendError> {
        match self {
            Self::Start => learner.forward_reference(data).await,
            Self::Model(model) => model.forward(data).await,
        }
    }
}
