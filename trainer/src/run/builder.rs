//! Puts a run together, the same way for everything that it may learn from.

use std::sync::Arc;

use fulgurite_backends::{AdamParameters, Learner};

use super::checkpoint_rules::Checkpointing;
use super::gate::PublishGate;
use super::safeguards::spikes::{SpikeGuard, SpikeRule};
use super::training_run::TrainingRun;
use crate::evaluation::Evaluator;
use crate::objectives::Objective;
use crate::options::{CommonOptions, DataOptions, FinalWeights};
use crate::publishing::Publisher;
use crate::schedule::Schedule;
use crate::scores::Patience;
use crate::sources::Source;
use crate::{Record, RunIdentity};

/// The course of a run: its updates, how large they are, and which of them are saved.
pub(crate) struct Course {
    pub(crate) schedule: Schedule,
    /// Its step size is the greatest of the schedule.
    pub(crate) optimizer: AdamParameters,
    pub(crate) checkpointing: Checkpointing,
    /// When it ends early, with which weights, and which steps it leaves out.
    pub(crate) rules: CourseRules,
}

/// What changes the course of a run as it goes on; unless told otherwise, nothing does.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CourseRules {
    pub(crate) patience: Option<Patience>,
    pub(crate) final_weights: FinalWeights,
    pub(crate) spikes: Option<SpikeRule>,
}

impl Course {
    /// As the options say, of so many updates at most.
    pub(crate) fn of(options: &CommonOptions, updates: u64) -> Self {
        Self {
            schedule: Schedule::of(options, updates),
            optimizer: options.optimizer(),
            checkpointing: Checkpointing::of(options),
            rules: CourseRules {
                patience: Patience::of(options),
                final_weights: options.final_weights,
                spikes: SpikeRule::of(options),
            },
        }
    }

    /// The same, of the epochs of so many rows.
    pub(crate) fn of_epochs(options: &CommonOptions, data: &DataOptions, rows: u64) -> Self {
        let updates = data.updates_of(rows);
        Self::of(options, options.max_steps.map_or(updates, |most| most.min(updates)))
    }
}

/// Where new weights go.
pub(crate) struct Publishing {
    /// Puts them behind a sampler.
    pub(crate) publisher: Publisher,
    /// Which of them it puts there; without it all.
    pub(crate) gate: Option<PublishGate>,
}

/// A run that nobody samples for, unless it is told otherwise.
pub(crate) struct RunBuilder {
    record: Arc<dyn Record>,
    learner: Arc<dyn Learner>,
    identity: RunIdentity,
    course: Course,
    stop_without_gradient: u64,
    publishing: Option<Publishing>,
    keeps_reference: bool,
}

impl RunBuilder {
    pub(crate) fn new(
        record: &Arc<dyn Record>,
        learner: Arc<dyn Learner>,
        identity: &RunIdentity,
        course: Course,
    ) -> Self {
        Self {
            record: record.clone(),
            learner,
            identity: identity.clone(),
            course,
            stop_without_gradient: 0,
            publishing: None,
            keeps_reference: false,
        }
    }

    /// Ends it with an error after so many updates in a row that had nothing to learn from; 0 never does.
    pub(crate) fn stop_without_gradient(self, updates: u64) -> Self {
        Self { stop_without_gradient: updates, ..self }
    }

    /// Puts new weights behind a sampler.
    pub(crate) fn publish(self, publishing: Publishing) -> Self {
        Self { publishing: Some(publishing), ..self }
    }

    /// Keeps the weights that the run begins with, if they are asked for later.
    pub(crate) fn keep_reference_if(self, is_needed: bool) -> Self {
        Self { keeps_reference: is_needed, ..self }
    }

    /// The run on these data.
    pub(crate) fn build<Data>(
        self,
        source: Box<dyn Source<Data>>,
        objective: Box<dyn Objective<Data>>,
        evaluator: Box<dyn Evaluator>,
    ) -> TrainingRun<Data> {
        let Self { record, learner, identity, course, stop_without_gradient, publishing, keeps_reference } = self;
        let Course { schedule, optimizer, checkpointing, rules } = course;
        let (publisher, publish_gate) = match publishing {
            Some(Publishing { publisher, gate }) => (Some(publisher), gate),
            None => (None, None),
        };
        TrainingRun {
            record,
            learner,
            identity,
            source,
            objective,
            evaluator,
            schedule,
            optimizer,
            checkpointing,
            patience: rules.patience,
            final_weights: rules.final_weights,
            spikes: rules.spikes.map(SpikeGuard::new),
            stop_without_gradient,
            first_nll: None,
            first_sampled_nll: None,
            publisher,
            publish_gate,
            keeps_reference,
        }
    }
}
