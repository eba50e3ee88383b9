//! An advantage for each call of a rollout, from what calls earned by themselves.

use std::collections::HashMap;

use fulgurite_adapters::{Trajectory, TrajectoryGroup};
use fulgurite_types::Chunk;

use crate::options::{ComparedCalls, PerCall};

/// By what calls are compared.
#[derive(PartialEq, Eq, Hash)]
enum Key<'a> {
    Turn(usize),
    State(&'a [Chunk]),
}

/// The advantage of each transition of each trajectory of a group.
///
/// The return of a call is `G(k) = r(k) + discount G(k+1)`, where the last call earns what the rollout earned as a whole too;
/// its advantage is `G(k)` less the mean over the calls that it is compared with, itself included, and `rollout_weight` times
/// its rollout's in `rollouts`. `turns` has the place in time of each transition.
pub(crate) fn call_advantages(
    group: &TrajectoryGroup,
    turns: &[Vec<usize>],
    rollouts: &[f32],
    options: PerCall,
) -> Vec<Vec<f32>> {
    let returns: Vec<Vec<f64>> = group
        .trajectories
        .iter()
        .zip(turns)
        .map(|(trajectory, turns)| returns(trajectory, turns, options.discount))
        .collect();
    let mut compared: HashMap<Key<'_>, (f64, f64)> = HashMap::new();
    for ((trajectory, turns), returns) in group.trajectories.iter().zip(turns).zip(&returns) {
        for (key, value) in keys(trajectory, turns, options.compared_with).zip(returns) {
            let (sum, count) = compared.entry(key).or_default();
            (*sum, *count) = (*sum + value, *count + 1.0);
        }
    }
    let calls = group.trajectories.iter().zip(turns).zip(&returns).zip(rollouts);
    calls
        .map(|(((trajectory, turns), returns), rollout)| {
            let keys = keys(trajectory, turns, options.compared_with);
            let less_mean = |(key, value): (Key<'_>, &f64)| {
                let (sum, count) = compared.get(&key).copied().unwrap_or((*value, 1.0));
                (value - sum / count) as f32 + options.rollout_weight * rollout
            };
            keys.zip(returns).map(less_mean).collect()
        })
        .collect()
}

fn keys<'a>(trajectory: &'a Trajectory, turns: &'a [usize], compared: ComparedCalls) -> impl Iterator<Item = Key<'a>> {
    trajectory.transitions.iter().zip(turns).map(move |(transition, turn)| match compared {
        ComparedCalls::Turn => Key::Turn(*turn),
        ComparedCalls::State => Key::State(&transition.observation),
    })
}

/// The return of each transition; `turns` has their places in time.
fn returns(trajectory: &Trajectory, turns: &[usize], discount: f64) -> Vec<f64> {
    let mut in_time: Vec<usize> = (0..turns.len()).collect();
    in_time.sort_by_key(|index| std::cmp::Reverse(turns[*index]));
    let mut returns = vec![0.0; turns.len()];
    let mut later = None;
    for index in in_time {
        let beyond = later.map_or(trajectory.final_reward, |later| discount * later);
        returns[index] = trajectory.transitions[index].reward + beyond;
        later = Some(returns[index]);
    }
    returns
}

#[cfg(test)]
mod tests {
    use fulgurite_adapters::Transition;

    use super::*;

    fn rollout(calls: &[(u32, f64)], final_reward: f64) -> Trajectory {
        let transition = |(state, reward): &(u32, f64)| Transition {
            observation: vec![Chunk::Tokens(vec![*state])],
            reward: *reward,
            ..Transition::default()
        };
        Trajectory { transitions: calls.iter().map(transition).collect(), final_reward, ..Trajectory::default() }
    }

    fn group() -> TrajectoryGroup {
        // The second one's calls stand in another order than that of time.
        let trajectories = vec![rollout(&[(7, 1.0), (8, 0.0)], 4.0), rollout(&[(8, 2.0), (7, 0.0), (9, 0.0)], 0.0)];
        TrajectoryGroup { trajectories, ..TrajectoryGroup::default() }
    }

    fn advantages(options: PerCall) -> Vec<Vec<f32>> {
        call_advantages(&group(), &[vec![0, 1], vec![1, 0, 2]], &[0.5, -0.5], options)
    }

    #[test]
    fn a_call_answers_for_what_follows_it_against_the_calls_of_its_turn() {
        // Returns in time: 1 + 4 / 2, 4; 0 + 2 / 2, 2 + 0, 0.
        let by_turn = advantages(PerCall { discount: 0.5, ..PerCall::default() });
        assert_eq!(by_turn, [vec![1.0, 1.0], vec![-1.0, -1.0, 0.0]]);
        let whole = advantages(PerCall { discount: 0.5, rollout_weight: 2.0, ..PerCall::default() });
        assert_eq!(whole, [vec![2.0, 2.0], vec![-2.0, -2.0, -1.0]]);
        assert_eq!(advantages(PerCall { discount: 0.0, ..PerCall::default() })[0], [0.5, 1.0]);
    }

    #[test]
    fn equal_states_are_compared_in_whichever_turn_and_one_alone_teaches_nothing() {
        let options = PerCall { discount: 1.0, compared_with: ComparedCalls::State, rollout_weight: 0.0 };
        // Returns of state 7: 5 and 2; of state 8: 4 and 2; of state 9: 0.
        assert_eq!(advantages(options), [vec![1.5, 1.0], vec![-1.0, -1.5, 0.0]]);
    }
}
