use std::collections::BTreeMap;
use std::sync::Arc;

use fulgurite_adapters::{Trajectory, TrajectoryGroup, merge_generations, trajectory_to_data};
use fulgurite_backends::Datum;
use fulgurite_store::model::Generation;

use crate::TrainError;
use crate::accounting;
use crate::advantages::{AdvantageOptions, group_advantages, is_constant};
use crate::collection::{Collected, Member};
use crate::rollout_metrics::rollout_metrics;

/// What a step learns from.
#[derive(Debug)]
pub(crate) struct Batch {
    /// The rows; empty if no group has anything to teach.
    pub(crate) data: Arc<[Datum]>,
    /// For each group, whether its rewards differ.
    pub(crate) group_has_signal: Vec<bool>,
    /// `env/all/...`
    pub(crate) rollout_metrics: BTreeMap<String, f64>,
}

/// Makes datums of the rollouts that succeeded. Each counts once in its group's baseline, however many datums its
/// calls become; a group in which everybody earned the same gives none.
pub(crate) fn assemble(collected: &Collected, options: &AdvantageOptions) -> Result<Batch, TrainError> {
    let mut data = Vec::new();
    let mut group_has_signal = Vec::with_capacity(collected.groups.len());
    let mut groups = Vec::with_capacity(collected.groups.len());
    for members in &collected.groups {
        let group = trajectories(collected, members)?;
        let rewards = group.total_rewards();
        let has_signal = !is_constant(&rewards);
        if has_signal {
            for (trajectory, advantage) in group.trajectories.iter().zip(group_advantages(&rewards, *options)) {
                if !trajectory.transitions.is_empty() {
                    data.extend(trajectory_to_data(trajectory, advantage)?);
                }
            }
        }
        group_has_signal.push(has_signal);
        groups.push(group);
    }
    Ok(Batch { data: data.into(), group_has_signal, rollout_metrics: rollout_metrics(&groups) })
}

fn trajectories(collected: &Collected, members: &[Member]) -> Result<TrajectoryGroup, TrainError> {
    let mut group = TrajectoryGroup::default();
    for member in members.iter().filter(|member| member.succeeded()) {
        let trained: Vec<&Generation> = member
            .generations
            .iter()
            .filter(|generation| accounting::untrained_cause(generation, member, collected, true).is_none())
            .collect();
        let mut trajectory: Trajectory = merge_generations(&trained, &member.rewards)?;
        let components = member.reward().into_iter().flat_map(|reward| reward.components.iter().cloned());
        trajectory.metrics.extend(components);
        group.trajectories.push(trajectory);
    }
    Ok(group)
}
