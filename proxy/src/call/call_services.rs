use fulgurite_store::Store;

use crate::attempt::attempt_memories::AttemptMemories;
use crate::call::deadlines::SamplingLimits;
use crate::call::shutdown::Shutdown;

/// What a call is sampled and recorded with, whether here or by an upstream, until nobody waits for it any more.
pub(crate) struct CallServices {
    pub(crate) store: Store,
    /// What is known of the calls of attempts. Filled from the store on first sight of an attempt, so that a restarted
    /// server goes on where it was.
    pub(crate) memories: AttemptMemories,
    pub(crate) shutdown: Shutdown,
    pub(crate) limits: SamplingLimits,
}
