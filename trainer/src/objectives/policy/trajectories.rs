//! From the rollouts of a step to rows with advantages.

use fulgurite_adapters::{
    Trajectory, TrajectoryGroup, merge_generations, turns_in_time, turns_to_data, zero_reward_on_limit,
};
use fulgurite_types::{Datum, Generation, UntrainedCause};
use serde_json::Value;

use super::super::trained_rows::{CallPlace, places_in_rows};
use super::credit::{batch_advantages, call_advantages};
use super::teaching::MemberPlace;
use crate::TrainError;
use crate::options::{AdvantageOptions, CountedRollouts};
use crate::rollouts::{Collected, Member, is_constant};
use crate::sources::HarvestState;

/// How the rewards of a group become advantages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Credit {
    pub(crate) advantages: AdvantageOptions,
    /// Whether a rollout that a limit cut off earns 0 at most.
    pub(crate) zero_reward_on_limit: bool,
}

/// What a step learns from.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// Of each group that has something to teach, the rows of each rollout.
    pub(crate) groups: Vec<Vec<Vec<Datum>>>,
    /// Whose rows those are, in the same order.
    pub(crate) places: Vec<Vec<MemberPlace>>,
    /// Groups that have nothing to teach.
    pub(crate) idle_groups: usize,
    /// Tokens that were sampled for them.
    pub(crate) idle_tokens: usize,
    /// Rollouts that succeeded and of which no token can be trained.
    pub(crate) uncounted_rollouts: usize,
    /// Rewards of the harvested rollouts that were alone with their task.
    pub(crate) alone: Vec<f64>,
    /// All rollouts that succeeded.
    pub(crate) trajectories: Vec<TrajectoryGroup>,
}

impl Batch {
    /// Adds what there is to say of another part of the same batch, but for its rows.
    pub(crate) fn add(&mut self, other: Self) {
        self.idle_groups += other.idle_groups;
        self.idle_tokens += other.idle_tokens;
        self.uncounted_rollouts += other.uncounted_rollouts;
        self.alone.extend(other.alone);
        self.trajectories.extend(other.trajectories);
    }
}

/// Makes datums of the rollouts that succeeded. Each counts once in its baseline, however many datums its calls become. One of
/// which no token can be trained does not, unless `credit` says so: what it earned was not earned by what is trained, and
/// nothing of it would pay for the baseline that it moves. A group that its baseline leaves without an advantage gives none. Of what was harvested, a rollout that is alone in
/// its group is measured against the running baseline. Where a teacher adds to the advantages of a task, `reward_scale` is what
/// those of rewards are scaled with, and its group has something to teach. Notes of groups without a signal that they are not
/// trained.
pub(crate) fn assemble(
    collected: &mut Collected,
    credit: Credit,
    harvest: Option<&HarvestState>,
    reward_scale: impl Fn(&Value) -> Option<f32>,
) -> Result<Batch, TrainError> {
    let groups: Vec<TrajectoryGroup> =
        collected.groups.iter().map(|members| trajectories(members, credit)).collect::<Result<_, _>>()?;
    let Counted { places: counted, rewards, untrainable: uncounted_rollouts } =
        counted(&groups, &sizes(collected), credit.advantages.counted);
    let is_alone = |rewards: &[f64]| harvest.is_some() && rewards.len() == 1;
    let alone: Vec<f64> = rewards.iter().filter(|rewards| is_alone(rewards)).flatten().copied().collect();
    let baseline = harvest.map_or(0.0, |harvest| harvest.baseline(&alone));

    let advantages = batch_advantages(&rewards, credit.advantages);

    let (mut taught, mut places) = (Vec::new(), Vec::new());
    let (mut idle_groups, mut idle_tokens) = (0, 0);
    for (index, ((((group, counted), rewards), advantages), members)) in
        groups.iter().zip(&counted).zip(&rewards).zip(advantages).zip(&mut collected.groups).enumerate()
    {
        // Left out as a whole, for a cause of its own.
        if counted.is_empty() {
            continue;
        }
        let is_taught = |advantages: &[f32]| advantages.iter().any(|advantage| *advantage != 0.0);
        let scale = members.first().and_then(|member| reward_scale(&member.rollout.input));
        let (advantages, has_signal) = match rewards.as_slice() {
            _ if scale.is_some() => (scaled(advantages, scale), true),
            [reward] if is_alone(rewards) => (vec![(reward - baseline) as f32], *reward != baseline),
            rewards if credit.advantages.baseline.is_of_group() => (advantages, !is_constant(rewards)),
            _ => {
                let has_signal = is_taught(&advantages);
                (advantages, has_signal)
            }
        };
        let advantages = spread(&advantages, counted, group.trajectories.len());
        let calls = credit.advantages.per_call.map(|options| {
            let turns = succeeded(members).map(|member| turns_in_time(&member.trained().collect::<Vec<_>>()));
            call_advantages(group, &turns.collect::<Vec<_>>(), &advantages, options)
        });
        let has_signal = calls.as_ref().map_or(has_signal, |calls| calls.iter().any(|calls| is_taught(calls)));
        if !has_signal {
            idle_groups += 1;
            let calls = members.iter().flat_map(|member| &member.generations);
            idle_tokens += calls.map(|call| call.sampled_tokens.len()).sum::<usize>();
            members.iter_mut().for_each(|member| member.do_not_train(UntrainedCause::ConstantGroup));
            continue;
        }
        let succeeded = (0..members.len()).filter(|member| members[*member].succeeded());
        let (of_group, members_of_group): (Vec<_>, Vec<_>) =
            rows_of_group(group, &advantages, calls, succeeded)?.into_iter().unzip();
        if !of_group.is_empty() {
            taught.push(of_group);
            places.push(members_of_group.into_iter().map(|member| MemberPlace { group: index, member }).collect());
        }
    }
    Ok(Batch { groups: taught, places, idle_groups, idle_tokens, uncounted_rollouts, alone, trajectories: groups })
}

/// The rows of each trajectory that has turns, each with the member that it is of. `calls` are the advantages of its calls,
/// where they differ.
fn rows_of_group(
    group: &TrajectoryGroup,
    advantages: &[f32],
    mut calls: Option<Vec<Vec<f32>>>,
    members: impl Iterator<Item = usize>,
) -> Result<Vec<(Vec<Datum>, usize)>, TrainError> {
    let mut rows = Vec::new();
    for (index, ((trajectory, advantage), member)) in group.trajectories.iter().zip(advantages).zip(members).enumerate()
    {
        let turns = trajectory.transitions.len();
        if turns > 0 {
            let of_turns = match &mut calls {
                Some(calls) => std::mem::take(&mut calls[index]),
                None => vec![*advantage; turns],
            };
            rows.push((turns_to_data(trajectory, of_turns)?, member));
        }
    }
    Ok(rows)
}

/// The rollouts that count in baselines.
struct Counted {
    /// Of each group, the places of those that succeeded among its trajectories; none of a group of which nothing can be trained.
    places: Vec<Vec<usize>>,
    /// What they earned, and behind them a 0 for each that failed, where those count.
    rewards: Vec<Vec<f64>>,
    /// Those that succeeded and of which nothing can be trained, in groups of which something can.
    untrainable: usize,
}

/// The rollouts of each group, those that failed among them.
fn sizes(collected: &Collected) -> Vec<usize> {
    collected.groups.iter().map(Vec::len).collect()
}

/// `sizes` has the rollouts of each group, those among them that failed and have no trajectory.
fn counted(groups: &[TrajectoryGroup], sizes: &[usize], who: CountedRollouts) -> Counted {
    let mut counted = Counted { places: Vec::new(), rewards: Vec::new(), untrainable: 0 };
    for (TrajectoryGroup { trajectories, .. }, size) in groups.iter().zip(sizes) {
        let is_trainable = |place: &usize| !trajectories[*place].transitions.is_empty();
        let trainable: Vec<usize> = (0..trajectories.len()).filter(is_trainable).collect();
        if trainable.is_empty() {
            counted.places.push(Vec::new());
            counted.rewards.push(Vec::new());
            continue;
        }
        counted.untrainable += trajectories.len() - trainable.len();
        let places = match who {
            CountedRollouts::Trained => trainable,
            CountedRollouts::Rewarded | CountedRollouts::All => (0..trajectories.len()).collect(),
        };
        let zeros = if who == CountedRollouts::All { size - trajectories.len() } else { 0 };
        let rewards = places.iter().map(|place| trajectories[*place].total_reward());
        counted.rewards.push(rewards.chain(std::iter::repeat_n(0.0, zeros)).collect());
        counted.places.push(places);
    }
    counted
}

/// The advantages of those rollouts in their places among all of the group; the others have none.
fn spread(advantages: &[f32], counted: &[usize], rollouts: usize) -> Vec<f32> {
    let mut all = vec![0.0; rollouts];
    for (place, advantage) in counted.iter().zip(advantages) {
        all[*place] = *advantage;
    }
    all
}

/// Where the calls of rollouts stand in the rows that [`assemble`] made of them, row by row.
pub(crate) fn call_places(places: &[Vec<MemberPlace>], collected: &Collected) -> Vec<Vec<CallPlace>> {
    let members = places.iter().flatten().map(|place| &collected.groups[place.group][place.member]);
    members.flat_map(|member| places_in_rows(member.trained().collect())).collect()
}

/// At a scale of 0 nothing is left, even of what is no number: a rollout that is alone has no baseline.
fn scaled(advantages: Vec<f32>, scale: Option<f32>) -> Vec<f32> {
    let scale = scale.unwrap_or(1.0);
    advantages.into_iter().map(|advantage| if scale == 0.0 { 0.0 } else { advantage * scale }).collect()
}

fn succeeded(members: &[Member]) -> impl Iterator<Item = &Member> {
    members.iter().filter(|member| member.succeeded())
}

fn trajectories(members: &[Member], credit: Credit) -> Result<TrajectoryGroup, TrainError> {
    let mut group = TrajectoryGroup::default();
    for member in succeeded(members) {
        let trained: Vec<&Generation> = member.trained().collect();
        let mut trajectory: Trajectory = merge_generations(&trained, &member.rewards)?;
        let components = member.reward().into_iter().flat_map(|reward| reward.components.iter().cloned());
        trajectory.metrics.extend(components);
        if credit.zero_reward_on_limit {
            trajectory.stop_reason = member.stop;
            zero_reward_on_limit(&mut trajectory);
        }
        group.trajectories.push(trajectory);
    }
    Ok(group)
}

#[cfg(test)]
mod tests {
    use fulgurite_adapters::Transition;

    use super::*;
    use crate::options::{Baseline, STANDARD_DEVIATION_FLOOR};

    #[test]
    fn a_rollout_that_cannot_be_trained_counts_in_no_baseline() {
        let rollout = |reward: f64, turns: usize| {
            let transitions = vec![Transition::default(); turns];
            Trajectory { transitions, final_reward: reward, ..Trajectory::default() }
        };
        let group = |rollouts: &[(f64, usize)]| TrajectoryGroup {
            trajectories: rollouts.iter().map(|(reward, turns)| rollout(*reward, *turns)).collect(),
            ..TrajectoryGroup::default()
        };
        let groups = [group(&[(100.0, 0), (1.0, 1), (3.0, 2)]), group(&[(100.0, 0), (1.0, 1)]), group(&[(5.0, 0)])];
        let Counted { places, rewards, untrainable } = counted(&groups, &[3, 4, 2], CountedRollouts::Trained);
        assert_eq!((untrainable, &rewards), (2, &vec![vec![1.0, 3.0], vec![1.0], vec![]]));
        let advantages = batch_advantages(&rewards, AdvantageOptions::default());
        let spread: Vec<Vec<f32>> = groups
            .iter()
            .zip(advantages.iter().zip(&places))
            .map(|(group, (advantages, places))| spread(advantages, places, group.trajectories.len()))
            .collect();
        assert_eq!(spread, [vec![0.0, -1.0, 1.0], vec![0.0, 0.0], vec![0.0]]);
    }

    /// Rewards 5, 3 and 1, of which the first has no token that can be trained, and one rollout that failed.
    #[test]
    fn who_counts_moves_the_mean_and_the_deviation() {
        let rollout = |(reward, turns): (f64, usize)| Trajectory {
            transitions: vec![Transition::default(); turns],
            final_reward: reward,
            ..Trajectory::default()
        };
        let trajectories = [(5.0, 0), (3.0, 1), (1.0, 1)].map(rollout).to_vec();
        let groups = [TrajectoryGroup { trajectories, ..TrajectoryGroup::default() }];
        let of = |who, options: AdvantageOptions| {
            let Counted { places, rewards, untrainable } = counted(&groups, &[4], who);
            assert_eq!(untrainable, 1);
            spread(&batch_advantages(&rewards, options)[0], &places[0], 3)
        };
        let plain = AdvantageOptions::default();
        let divided = AdvantageOptions { normalize_by_standard_deviation: true, ..plain };
        let leave_one_out = AdvantageOptions { baseline: Baseline::LeaveOneOut, ..plain };
        // Sample variances: of 3 and 1, 2; of 5, 3 and 1, 4; of 5, 3, 1 and 0, 59 / 12.
        let deviation = |variance: f32| variance.sqrt() + STANDARD_DEVIATION_FLOOR;
        for (who, mean, advantages, divisor, others) in [
            (CountedRollouts::Trained, 2.0, [0.0, 1.0, -1.0], deviation(2.0), [0.0, 2.0, -2.0]),
            (CountedRollouts::Rewarded, 3.0, [2.0, 0.0, -2.0], deviation(4.0), [3.0, 0.0, -3.0]),
            (CountedRollouts::All, 2.25, [2.75, 0.75, -1.25], deviation(59.0 / 12.0), [11.0 / 3.0, 1.0, -5.0 / 3.0]),
        ] {
            assert_eq!(of(who, plain), advantages, "the mean is {mean}");
            let near = |ours: Vec<f32>, theirs: [f32; 3]| {
                ours.iter().zip(theirs).for_each(|(one, other)| assert!((one - other).abs() < 1e-6, "{one} {other}"));
            };
            near(of(who, divided), advantages.map(|advantage: f32| advantage / divisor));
            near(of(who, leave_one_out), others);
        }
    }

    #[test]
    fn a_group_of_which_nothing_can_be_trained_counts_nowhere() {
        let trajectories = vec![Trajectory { final_reward: 5.0, ..Trajectory::default() }; 2];
        let groups = [TrajectoryGroup { trajectories, ..TrajectoryGroup::default() }];
        for who in [CountedRollouts::Trained, CountedRollouts::Rewarded, CountedRollouts::All] {
            let Counted { places, rewards, untrainable } = counted(&groups, &[3], who);
            assert_eq!((places, rewards, untrainable), (vec![vec![]], vec![vec![]], 0));
        }
    }
}
