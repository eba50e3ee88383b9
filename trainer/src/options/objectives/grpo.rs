//! `objective = "grpo"`: from rewards.

use super::variant::Variant;
use crate::TrainError;
use crate::options::flat::part::{OptionsPart, part};
use crate::options::flat::table::TrainerTable;
use crate::options::keys::failures::FailureOptions;
use crate::options::keys::harvest::{HarvestOptions, PublishRule};
use crate::options::keys::preference::PairwiseOptions;
use crate::options::keys::refusal::{least, refuse, share, wrong};
use crate::options::policy::dynamic_sampling::DynamicSampling;
use crate::options::shared::common::Usual;
use crate::options::shared::rollouts::{self, RolloutOptions};

part! {
    /// Keys of `[trainer]` of `objective = "grpo"`.
    GrpoOptions with rollouts: RolloutOptions, has {
        dynamic_sampling: Option<DynamicSampling>,
        harvest: Option<HarvestOptions>,
        pairwise: Option<PairwiseOptions>,
        publish_if: Option<PublishRule>,
        publish_max_kl: f64,
    }
}

impl Default for GrpoOptions {
    fn default() -> Self {
        Self::take(&TrainerTable::default())
    }
}

impl Variant for GrpoOptions {
    fn usual(&self) -> Usual {
        rollouts::USUAL
    }

    fn set_evaluation_every(&mut self, every: u64) {
        self.rollouts.evaluation.every = every;
    }

    fn check(&self) -> Result<(), TrainError> {
        match &self.harvest {
            Some(harvest) => harvest.check()?,
            None => self.rollouts.check_groups(true)?,
        }
        self.check_of_harvest()?;
        self.check_pairwise()?;
        self.check_dynamic_sampling()?;
        self.check_schedule()?;
        self.check_publishing()?;
        self.rollouts.check()
    }
}

impl GrpoOptions {
    /// Which new weights are put behind the model: what is said, or else what suits whoever calls it.
    pub fn publish_rule(&self) -> PublishRule {
        self.publish_if.unwrap_or(match &self.harvest {
            Some(harvest) if harvest.validation.is_some() => PublishRule::NotWorse,
            Some(_) => PublishRule::WithinBounds,
            None => PublishRule::Always,
        })
    }

    /// Refuses what is of groups that the run itself has done, in a harvest.
    fn check_of_harvest(&self) -> Result<(), TrainError> {
        let RolloutOptions { advantages, failures, .. } = &self.rollouts;
        if advantages.per_call.is_some() {
            let key = "[trainer] advantages.per_call";
            if self.harvest.is_some() {
                return wrong(key, "is of groups, and a harvest's rollouts may be alone: leave it out");
            }
            if self.dynamic_sampling.is_some() {
                return wrong(key, "is not for dynamic_sampling, which looks at what whole rollouts earned");
            }
        }
        if self.harvest.is_none() {
            return Ok(());
        }
        if !advantages.baseline.is_of_group() {
            let message = "a harvest measures a rollout that is alone against harvest.baseline_decay's running mean: leave it out";
            return wrong("[trainer] advantages.baseline", message);
        }
        if *failures != FailureOptions::default() {
            return wrong("[trainer] failures", "is of rollouts that a run starts itself: of a harvest leave it out");
        }
        Ok(())
    }

    fn check_pairwise(&self) -> Result<(), TrainError> {
        let limit = self.pairwise.as_ref().map(|pairwise| pairwise.undecided_limit);
        if let Some(limit) = limit.filter(|limit| !(0.0..=1.0).contains(limit)) {
            return refuse("[trainer] pairwise.undecided_limit", limit, "must be a share from 0 to 1");
        }
        match &self.pairwise {
            Some(_) if self.harvest.is_some() => {
                wrong("[trainer] pairwise", "compares the rollouts of a group, and a harvest has none")
            }
            Some(_) => {
                let group_size = self.rollouts.group_size as u64;
                least("[trainer] group_size", group_size, 2, "answers are compared with each other")
            }
            None => Ok(()),
        }
    }

    fn check_dynamic_sampling(&self) -> Result<(), TrainError> {
        let Some(dynamic) = self.dynamic_sampling else { return Ok(()) };
        let key = "[trainer] dynamic_sampling";
        if self.harvest.is_some() {
            return wrong(key, "a harvest has no tasks to try in place of others: leave it out");
        }
        if !self.rollouts.advantages.baseline.is_of_group() {
            let message = "only groups that are measured against themselves can have nothing to teach: leave it out";
            return wrong(key, message);
        }
        if let Some([low, high]) = dynamic.solve_rate
            && !(0.0 <= low && low <= high && high <= 1.0)
        {
            let value = format!("[{low}, {high}]");
            return refuse(&format!("{key}.solve_rate"), value, "must be two shares from 0 to 1, in order");
        }
        if !dynamic.solved_at.is_finite() {
            return refuse(&format!("{key}.solved_at"), dynamic.solved_at, "must be a finite number");
        }
        let least_refills = if dynamic.prioritize || dynamic.solve_rate.is_some() { 0 } else { 1 };
        let refills = dynamic.max_refills as u64;
        least(&format!("{key}.max_refills"), refills, least_refills, "leave the table out for none")
    }

    fn check_schedule(&self) -> Result<(), TrainError> {
        let is_ahead = self.rollouts.schedule.max_staleness() > 0;
        let key = "[trainer] schedule";
        if is_ahead && self.harvest.is_some() {
            let message =
                "has no rollouts to run ahead in a harvest, whose own harvest.max_staleness says how old they may be";
            return wrong(key, message);
        }
        let own = [("harvest", self.harvest.is_some()), ("dynamic_sampling", self.dynamic_sampling.is_some())];
        self.rollouts.check_minibatches(&own)?;
        if is_ahead && self.dynamic_sampling.is_some() {
            let message =
                "must be sync with dynamic_sampling, which has to know a group before it tries a further task";
            return wrong(key, message);
        }
        Ok(())
    }

    /// Looks at which weights are put behind the model.
    fn check_publishing(&self) -> Result<(), TrainError> {
        let max_kl = self.publish_max_kl;
        if !(max_kl.is_finite() && max_kl > 0.0) {
            return refuse("[trainer] publish_max_kl", max_kl, "must be a number of nats above 0");
        }
        let message = match (self.publish_if, self.publish_rule(), &self.harvest) {
            (_, PublishRule::NotWorse, Some(harvest)) if harvest.validation.is_some() => {
                let (every, most) = (self.rollouts.evaluation.every, harvest.max_staleness);
                if every <= most.saturating_add(1) {
                    return Ok(());
                }
                let message = "must not be above harvest.max_staleness + 1 with publish_if = \"not_worse\": weights are put behind \
                               the model once they are scored, and what older ones sample is not learnt from";
                return refuse("[trainer] evaluation.every", every, message);
            }
            (_, PublishRule::NotWorse, Some(_)) => {
                "compares what is held out, and nothing is: name conversations by harvest = { validation = \"FILE\" }"
            }
            (_, PublishRule::WithinBounds | PublishRule::Always, Some(_)) | (None, _, None) => return Ok(()),
            (Some(_), _, None) => {
                "is of a harvest, whose agents are others': a run's own rollouts are sampled from its newest weights, so leave \
                 it out"
            }
        };
        wrong("[trainer] publish_if", message)
    }
}

impl HarvestOptions {
    fn check(&self) -> Result<(), TrainError> {
        least("[trainer] harvest.rollouts_per_step", self.rollouts_per_step as u64, 1, "a step needs a rollout")?;
        share("[trainer] harvest.baseline_decay", self.baseline_decay)
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn weights_are_judged_only_by_what_is_held_out() {
        let publish_if = Some(PublishRule::NotWorse);
        let with = |harvest| GrpoOptions { publish_if, harvest, ..GrpoOptions::default() }.check_publishing();
        let validation = Some(PathBuf::from("held-out.jsonl"));
        with(Some(HarvestOptions { validation, ..HarvestOptions::default() })).unwrap();
        let refused = with(Some(HarvestOptions::default())).unwrap_err().to_string();
        assert!(refused.contains("nothing is: name conversations by harvest = { validation"), "{refused}");
        assert!(with(None).unwrap_err().to_string().starts_with("[trainer] publish_if is of a harvest"));
        let bounded = |publish_max_kl| {
            let harvest = Some(HarvestOptions::default());
            GrpoOptions { publish_max_kl, harvest, ..GrpoOptions::default() }.check_publishing()
        };
        bounded(0.1).unwrap();
        let refused = bounded(f64::NAN).unwrap_err().to_string();
        assert_eq!(refused, "[trainer] publish_max_kl is NaN, but must be a number of nats above 0");
    }

    #[test]
    fn a_harvest_has_a_gate_unless_it_is_told_to_have_none() {
        let rule = |publish_if, harvest| GrpoOptions { publish_if, harvest, ..GrpoOptions::default() }.publish_rule();
        let validation = Some(PathBuf::from("held-out.jsonl"));
        let validated = Some(HarvestOptions { validation, ..HarvestOptions::default() });
        assert_eq!(rule(None, validated.clone()), PublishRule::NotWorse);
        assert_eq!(rule(None, Some(HarvestOptions::default())), PublishRule::WithinBounds);
        assert_eq!(rule(Some(PublishRule::Always), validated), PublishRule::Always);
        assert_eq!(rule(None, None), PublishRule::Always);
    }

    #[test]
    fn who_harvests_needs_no_groups() {
        let rollouts = RolloutOptions { group_size: 1, ..RolloutOptions::default() };
        GrpoOptions { rollouts, harvest: Some(HarvestOptions::default()), ..GrpoOptions::default() }.check().unwrap();
    }
}
