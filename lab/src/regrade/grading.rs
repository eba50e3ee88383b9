//! Recorded rollouts, graded again.

use std::time::Duration;

use anyhow::{Context, Result};
use fulgurite_runner::{GradedAttempt, Grader, Reward as Graded};
use fulgurite_store::{Sender, Store};
use fulgurite_types::{AttemptRef, NewReward, Repeat, Reward, RewardGiver};
use futures::{StreamExt, stream};

use super::comparison::Regraded;
use super::recorded::Recorded;

/// How rollouts are graded again.
pub struct Grading<'g> {
    /// What grades them.
    pub grader: &'g Grader,
    /// How long one grading may take.
    pub timeout: Duration,
    /// How many are graded at once.
    pub parallel: usize,
    /// The store that gets the new rewards, if they are given.
    pub given_to: Option<&'g Store>,
}

/// What came of it.
pub struct GradedAgain {
    /// Old rewards and new ones.
    pub regraded: Vec<Regraded>,
    /// Rollouts that got none.
    pub faults: Vec<GraderFault>,
}

/// A rollout that the grader gave no reward.
pub struct GraderFault {
    /// Which.
    pub rollout_id: String,
    /// Why.
    pub fault: String,
}

impl Grading<'_> {
    /// Grades these rollouts. `progress` gets how many are done, and of how many.
    ///
    /// # Errors
    /// If the grader gives a number that is too large, or a reward cannot be given.
    pub async fn grade(&self, rollouts: &[Recorded], progress: &mut dyn FnMut(u64, u64)) -> Result<GradedAgain> {
        let mut again = GradedAgain { regraded: Vec::with_capacity(rollouts.len()), faults: Vec::new() };
        let graded = stream::iter(rollouts).map(|recorded| grade_one(self.grader, recorded, self.timeout));
        let mut graded = graded.buffered(self.parallel);
        while let Some((recorded, graded)) = graded.next().await {
            let rollout_id = recorded.rollout.rollout_id.clone();
            match graded {
                Ok(reward) => {
                    let new = rewarded(recorded, reward)?;
                    if let Some(store) = self.given_to {
                        give(store, recorded, &new).await?;
                    }
                    let old = recorded.reward.as_ref().map(|reward| reward.value);
                    again.regraded.push(Regraded { rollout_id, group: recorded.rollout.group(), old, new: new.value });
                }
                Err(fault) => again.faults.push(GraderFault { rollout_id, fault }),
            }
            progress((again.regraded.len() + again.faults.len()) as u64, rollouts.len() as u64);
        }
        Ok(again)
    }
}

async fn grade_one<'r>(
    grader: &Grader,
    recorded: &'r Recorded,
    timeout: Duration,
) -> (&'r Recorded, Result<Graded, String>) {
    let attempt = GradedAttempt {
        rollout_id: &recorded.rollout.rollout_id,
        attempt_id: &recorded.attempt_id,
        task: &recorded.rollout.input,
        output: recorded.output.as_bytes(),
    };
    (recorded, grader.grade(&attempt, timeout).await.map_err(|fault| fault.to_string()))
}

/// What the grader printed, as the store has rewards.
fn rewarded(recorded: &Recorded, graded: Graded) -> Result<Reward> {
    let finite = |number: Option<f64>| {
        number
            .filter(|number| number.is_finite())
            .with_context(|| format!("the grader gave {} a number that is too large", recorded.rollout.rollout_id))
    };
    let components = graded.components.iter().map(|(name, number)| Ok((name.clone(), finite(number.as_f64())?)));
    Ok(Reward { components: components.collect::<Result<_>>()?, ..Reward::new(finite(graded.value.as_f64())?) })
}

/// Gives a rollout its new reward, unless that is what it has.
async fn give(store: &Store, recorded: &Recorded, reward: &Reward) -> Result<()> {
    if recorded.reward.as_ref() == Some(reward) {
        return Ok(());
    }
    let rollout_id = recorded.rollout.rollout_id.clone();
    let new = NewReward {
        attempt: Some(AttemptRef::Id(recorded.attempt_id.clone())),
        generation_id: None,
        reward: reward.clone(),
        giver: Some(RewardGiver::Grader),
        repeat: Repeat::New,
        rollout_id,
    };
    let given = store.rewards().give(&Sender::Server, new).await;
    given.map(drop).with_context(|| format!("cannot reward {}", recorded.rollout.rollout_id))
}
