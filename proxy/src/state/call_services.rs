use fulgurite_store::Store;

use crate::attempt::attempt_memories::AttemptMemories;
use crate::state::deadlines::SamplingLimits;
use crate::state::shutdown::Shutdown;

/// What calls are sampled or forwarded and recorded with, until they have ended.
pub(crate) struct CallServices {
    pub(crate) store: Store,
    /// The memories of attempts. Read from the store at the first call of an attempt, so that a restarted server continues
    /// where it was.
    pub(crate) memories: AttemptMemories,
    pub(crate) shutdown: Shutdown,
    pub(crate) limits: SamplingLimits,
}
