//! The policy gradient on groups as they end: the learner computes on the first while agents play the others.

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use fulgurite_backends::Learner;

use super::super::objective::{Lesson, Measurement, Objective, Pass, learn};
use super::super::trained_rows::trained_rows;
use super::policy_gradient::PolicyGradient;
use super::trajectories::{Batch, assemble, call_places};
use crate::rollouts::{Collected, Phase, sample_answers};
use crate::sources::{DataPosition, PendingGroups};
use crate::{Reporter, TrainError};

/// Learns from a batch of groups part by part, in the order of the tasks, and takes one optimizer step behind the last: the
/// gradient is the batch's.
pub(crate) struct Minibatches {
    pub(crate) policy: PolicyGradient,
    /// Parts of a batch; no group is cut in two.
    pub(crate) count: NonZeroUsize,
}

#[async_trait]
impl Objective<PendingGroups> for Minibatches {
    async fn lesson(
        &mut self,
        step: u64,
        mut pending: PendingGroups,
        _: &mut DataPosition,
        learner: &dyn Learner,
        reporter: &mut dyn Reporter,
    ) -> Result<Lesson, TrainError> {
        self.policy.begin();
        let (mut passes, mut waited) = (Vec::new(), Duration::ZERO);
        let mut rows = Vec::new();
        let mut all = Collected::of(Phase::Train, Vec::new());
        let mut whole = Batch::default();
        for rollouts in pending.split(self.count) {
            let started = Instant::now();
            let mut collected = pending.collect(rollouts, reporter).await?;
            waited += started.elapsed();
            let mut batch = assemble(&mut collected, self.policy.credit, None, |_| None)?;
            let groups = std::mem::take(&mut batch.groups);
            if !groups.is_empty() {
                let places = call_places(&batch.places, &collected);
                self.policy.origins.extend(places.clone());
                if self.policy.records_tokens {
                    rows.extend(trained_rows(places, &groups, Vec::new(), self.policy.loss));
                }
                let part = self.policy.part(groups);
                passes.push(learn(&mut self.policy, passes.len(), &part, learner).await?);
            }
            whole.add(batch);
            all.groups.append(&mut collected.groups);
            all.replaced.append(&mut collected.replaced);
        }
        pending.check(&all, reporter)?;
        let metrics = self.policy.describe(step, &all, &whole, reporter);
        let answers = if passes.is_empty() { sample_answers(&all, &self.policy.decode) } else { Vec::new() };
        let (uses, sampled_nll) = (all.uses(), all.sampled_nll());
        let lesson = Lesson { passes, waited, metrics, uses, ..Lesson::default() };
        Ok(Lesson { trained_rows: rows, answers, sampled_nll, ..lesson })
    }

    fn measure(&self, passes: &[Pass]) -> Result<Measurement, TrainError> {
        // The one optimizer step comes behind the last part.
        self.policy.measured(passes, |_| false)
    }
}
