//! Where a run's data come from.

mod conversations;
mod corpus;
mod driven;
mod harvest;
mod harvest_state;
mod source;
mod task_order;
mod tasks;

pub(crate) use self::conversations::{ConversationBatch, ConversationSource};
pub(crate) use self::corpus::{Corpus, CorpusRows};
pub(crate) use self::driven::{DrivenTasks, Purpose, RolloutGroups};
pub use self::harvest::HarvestOptions;
pub(crate) use self::harvest::HarvestedRollouts;
pub(crate) use self::harvest_state::HarvestState;
pub(crate) use self::source::{DataPosition, Source};
pub use self::tasks::{TaskForm, TaskSource, Tasks};
