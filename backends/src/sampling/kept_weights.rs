use std::sync::Arc;

use crate::Sampler;

/// Weights that a host keeps under names of their own, which calls may name in the place of a model's.
pub trait KeptWeights: Send + Sync + 'static {
    /// What samples from the weights of that name; `None` if the name is not of the kind that these have.
    ///
    /// # Errors
    /// If it is of their kind, and names nothing that can be sampled from.
    fn find(&self, name: &str) -> Result<Option<KeptModel>, KeptWeightsError>;
}

/// Weights that can be sampled from.
#[derive(Clone)]
pub struct KeptModel {
    /// Their name in its one spelling.
    pub name: String,
    /// The model that they are of, as it is served: its tokenizer and template are theirs.
    pub base_model: String,
    /// What samples from them. They are read when they are first needed.
    pub sampler: Arc<dyn Sampler>,
}

/// Why a name of kept weights names nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeptWeightsError {
    /// It cannot name any.
    #[error("{message}")]
    Invalid {
        /// What is wrong with it, and what such a name looks like.
        message: String,
    },
    /// There are none of that name.
    #[error("there are no weights `{name}` here; kept: {kept}")]
    Unknown {
        /// What was requested.
        name: String,
        /// Names of those that there are, the newest first.
        kept: String,
    },
}
