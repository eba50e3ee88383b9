//! What a service takes of what its API has, and whether its numbers are right: found out with one small batch.
//!
//! - [`learner_check`]: every probe one after another; [`finding`]: what each found.
//! - [`needs`]: the few that a run needs, asked before it begins.
//! - [`losses`], [`loss_options`], [`forms`], [`sampling`], [`checkpoints`]: the probes by their subject.
//! - [`batch`], [`expectation`], [`update`]: the known batch, what must come of it, and one update on it.
//! - [`fresh_learner`]: whose numbers a service is compared with.
//! - [`probe_model`]: a model at the service that lasts for one probe; [`remains`]: what could not be removed.

mod batch;
mod checkpoints;
mod expectation;
mod finding;
mod forms;
mod fresh_learner;
mod learner_check;
mod loss_options;
mod losses;
mod needs;
mod probe_model;
mod remains;
mod sampling;
mod update;

pub use finding::{CheckFinding, CheckNumbers, CheckVerdict};
pub use fresh_learner::FreshLearner;
pub use learner_check::LearnerCheck;
pub use needs::{Need, UnmetNeed, find_unmet_need};
pub use remains::CheckRemains;
