//! Where a run's data come from.

mod adapted;
mod auxiliary_source;
mod collection;
mod conversations;
mod corpus;
mod curriculum;
mod driven;
mod harbor;
mod harvest;
mod harvest_state;
mod solve_rates;
mod source;
mod task_order;
mod tasks;

pub(crate) use self::adapted::AdaptedCoefficients;
pub(crate) use self::auxiliary_source::AuxiliarySource;
pub(crate) use self::collection::{GroupTasks, Plan, gather, new_rollouts};
pub(crate) use self::conversations::{ConversationBatch, ConversationSource, report_forms};
pub(crate) use self::corpus::{Corpus, CorpusRows};
pub(crate) use self::curriculum::Curriculum;
pub(crate) use self::driven::{DrivenTasks, PendingGroups, Purpose, RolloutGroups};
pub(crate) use self::harvest::HarvestedRollouts;
pub(crate) use self::harvest_state::HarvestState;
pub(crate) use self::solve_rates::SolveRates;
pub(crate) use self::source::{DataPosition, Source};
pub use self::tasks::{TaskForm, TaskSource, Tasks};
