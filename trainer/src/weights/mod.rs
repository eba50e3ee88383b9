//! Weights that a run can name: the identities of its updates, the versions that the store gave them, and how far apart
//! they are.

mod learnt;
mod lineage;
mod run_weights;

pub(crate) use self::learnt::DigestingLearner;
pub(crate) use self::lineage::VersionDistances;
pub(crate) use self::run_weights::{RunWeights, StartName, WeightsOrigin};
