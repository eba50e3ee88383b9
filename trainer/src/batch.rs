use std::collections::BTreeMap;
use std::sync::Arc;

use fulgurite_adapters::{Trajectory, TrajectoryGroup, merge_generations, trajectory_to_data};
use fulgurite_backends::Datum;
use fulgurite_types::Generation;

use crate::TrainError;
use crate::advantages::{AdvantageOptions, group_advantages, is_constant};
use crate::collection::{Collected, Member};
use crate::harvest::HarvestState;
use crate::rollout_metrics::rollout_metrics;

/// What a step learns from.
#[derive(Debug)]
pub(crate) struct Batch {
    /// The rows; empty if no group has anything to teach.
    pub(crate) data: Arc<[Datum]>,
    /// Rewards of the harvested rollouts that were alone with their task.
    pub(crate) alone: Vec<f64>,
    /// `env/all/...`
    pub(crate) rollout_metrics: BTreeMap<String, f64>,
}

/// Makes datums of the rollouts that succeeded. Each counts once in its group's baseline, however many datums its
/// calls become; a group in which everybody earned the same gives none. Of what was harvested, a rollout that is alone in
/// its group is measured against the running baseline. Notes of groups without a signal that they are not trained.
pub(crate) fn assemble(
    collected: &mut Collected,
    options: &AdvantageOptions,
    harvest: Option<&HarvestState>,
) -> Result<Batch, TrainError> {
    let groups: Vec<TrajectoryGroup> =
        collected.groups.iter().map(|members| trajectories(members)).collect::<Result<_, _>>()?;
    let rewards: Vec<Vec<f64>> = groups.iter().map(TrajectoryGroup::total_rewards).collect();
    let is_alone = |rewards: &[f64]| harvest.is_some() && rewards.len() == 1;
    let alone: Vec<f64> = rewards.iter().filter(|rewards| is_alone(rewards)).flatten().copied().collect();
    let baseline = harvest.map_or(0.0, |harvest| harvest.baseline(&alone));

    let mut data = Vec::new();
    for ((group, rewards), members) in groups.iter().zip(&rewards).zip(&mut collected.groups) {
        let (advantages, has_signal) = match rewards.as_slice() {
            [reward] if is_alone(rewards) => (vec![(reward - baseline) as f32], *reward != baseline),
            rewards => (group_advantages(rewards, *options), !is_constant(rewards)),
        };
        if has_signal {
            for (trajectory, advantage) in group.trajectories.iter().zip(advantages) {
                if !trajectory.transitions.is_empty() {
                    data.extend(trajectory_to_data(trajectory, advantage)?);
                }
            }
        } else {
            members.iter_mut().for_each(Member::learn_nothing);
        }
    }
    Ok(Batch { data: data.into(), rollout_metrics: rollout_metrics(&groups), alone })
}

fn trajectories(members: &[Member]) -> Result<TrajectoryGroup, TrainError> {
    let mut group = TrajectoryGroup::default();
    for member in members.iter().filter(|member| member.succeeded()) {
        let trained: Vec<&Generation> = member.trained().collect();
        let mut trajectory: Trajectory = merge_generations(&trained, &member.rewards)?;
        let components = member.reward().into_iter().flat_map(|reward| reward.components.iter().cloned());
        trajectory.metrics.extend(components);
        group.trajectories.push(trajectory);
    }
    Ok(group)
}
