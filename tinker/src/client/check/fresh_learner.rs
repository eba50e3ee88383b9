use std::sync::Arc;

use fulgurite_backends::{BackendError, Learner};

use crate::wire::LoraConfig;

/// Makes a learner of the same base whose numbers are known to be right, with a fresh adapter.
pub type FreshLearner = dyn Fn(&LoraConfig) -> Result<Arc<dyn Learner>, BackendError> + Send + Sync;
