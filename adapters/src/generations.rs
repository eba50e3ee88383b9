use std::collections::BTreeMap;

use fulgurite_types::{Chunk, EpisodeStop, Generation, RecordedReward, StopReason};

use crate::merging::{CallTokens, merging_order};
use crate::rewards::CountedRewards;
use crate::{Action, AdapterError, Trajectory, Transition, exclusion_at_own_temperature};

/// The trajectory of one attempt, ready for [`trajectory_to_data`](crate::trajectory_to_data): `trained` are the
/// generations to be trained, in any order; `rewards` all rewards of the attempt.
///
/// The transitions are ordered so that calls share a datum wherever one continues another token by token, branches
/// behind the conversation that they left; the token ids alone decide, not what was recorded as parent. Then the datums
/// train each sampled token of each generation exactly once, after exactly the tokens that the sampler saw; a tree of
/// calls becomes one datum per leaf.
///
/// A reward for a generation is its transition's. The final reward is the attempt's, plus those for generations that
/// are not in `trained`: what a rollout earned counts whole, whatever of it is trained. The episode stopped for
/// [`EpisodeStop::MaxTokens`] if the answer of its last call was cut off, else it is [`EpisodeStop::Completed`]; a caller
/// who knows better says so.
///
/// # Errors
/// [`AdapterError::Untrainable`] for a generation that [`exclusion_at_own_temperature`] excludes.
pub fn merge_generations(trained: &[&Generation], rewards: &[RecordedReward]) -> Result<Trajectory, AdapterError> {
    let in_order = in_time(trained);
    let mut rewards = CountedRewards::new(rewards);
    let mut transitions = Vec::with_capacity(in_order.len());
    for index in order_of(&in_order) {
        let reward = rewards.of_generations.remove(in_order[index].generation_id.as_str());
        let is_last = index + 1 == in_order.len();
        transitions.push(transition(in_order[index], reward.unwrap_or(0.0), is_last)?);
    }
    let cut_off = in_order.last().is_some_and(|generation| generation.stop_reason == StopReason::Length);
    Ok(Trajectory {
        transitions,
        final_reward: rewards.of_attempt.unwrap_or(0.0) + rewards.of_generations.values().sum::<f64>(),
        stop_reason: if cut_off { EpisodeStop::MaxTokens } else { EpisodeStop::Completed },
        metrics: BTreeMap::new(),
    })
}

/// The place in time of each transition that [`merge_generations`] makes of these, from 0.
pub fn turns_in_time(trained: &[&Generation]) -> Vec<usize> {
    order_of(&in_time(trained))
}

fn in_time<'a>(trained: &[&'a Generation]) -> Vec<&'a Generation> {
    let mut in_order = trained.to_vec();
    in_order.sort_by_key(|generation| generation.sequence_id);
    in_order
}

fn order_of(in_time: &[&Generation]) -> Vec<usize> {
    let calls: Vec<CallTokens<'_>> = in_time
        .iter()
        .map(|generation| CallTokens { prompt: &generation.prompt_tokens, sampled: &generation.sampled_tokens })
        .collect();
    merging_order(&calls)
}

fn transition(generation: &Generation, reward: f64, episode_done: bool) -> Result<Transition, AdapterError> {
    let generation_id = || generation.generation_id.clone();
    if let Some(cause) = exclusion_at_own_temperature(generation) {
        return Err(AdapterError::Untrainable { generation_id: generation_id(), cause });
    }
    Ok(Transition {
        observation: vec![Chunk::Tokens(generation.prompt_tokens.clone())],
        action: Action {
            tokens: generation.sampled_tokens.clone(),
            logprobs: generation.logprobs.clone().unwrap_or_default(),
        },
        reward,
        episode_done,
        masked: false,
        metrics: BTreeMap::new(),
        stop_reason: Some(generation.stop_reason.clone()),
    })
}

#[cfg(test)]
mod tests {
    use fulgurite_types::{LossInputs, UntrainedCause};
    use proptest::prelude::*;

    use super::*;
    use crate::recorded::{generation, reward};
    use crate::trajectory_to_data;

    /// Sequence ids count up in the order given.
    fn recorded(calls: &[(&str, &[u32], &[u32])]) -> Vec<Generation> {
        calls
            .iter()
            .zip(1..)
            .map(|((id, prompt, sampled), sequence_id)| Generation { sequence_id, ..generation(id, prompt, sampled) })
            .collect()
    }

    fn merge(generations: &[Generation], rewards: &[RecordedReward]) -> Trajectory {
        merge_generations(&generations.iter().collect::<Vec<_>>(), rewards).unwrap()
    }

    #[test]
    fn two_answers_to_one_history_train_the_history_once() {
        let generations = recorded(&[("a", &[1], &[2, 3]), ("b", &[1, 2, 3, 4], &[5]), ("c", &[1, 2, 3, 6], &[7])]);
        let data = trajectory_to_data(&merge(&generations, &[]), 1.0).unwrap();
        let rows: Vec<(Vec<Chunk>, Vec<f32>)> = data
            .into_iter()
            .map(|datum| match datum.loss_inputs {
                LossInputs::Policy { mask, .. } => (datum.model_input, mask),
                LossInputs::Supervised { .. } | LossInputs::SoftTargets { .. } => unreachable!(),
            })
            .collect();
        assert_eq!(
            rows,
            [
                (vec![Chunk::Tokens(vec![1, 2, 3, 4])], vec![1.0, 1.0, 0.0, 1.0]),
                (vec![Chunk::Tokens(vec![1, 2, 3, 6])], vec![0.0, 0.0, 0.0, 1.0]),
            ]
        );
    }

    #[test]
    fn what_a_rollout_earned_counts_whole() {
        let generations = recorded(&[("a", &[1], &[2]), ("b", &[1, 2, 3], &[4]), ("left out", &[9], &[9])]);
        let rewards = [reward(4, Some("a"), 0.5), reward(5, Some("left out"), 0.25), reward(6, None, 1.0)];
        let trajectory = merge(&generations[..2], &rewards);
        assert_eq!(trajectory.transitions.iter().map(|turn| turn.reward).collect::<Vec<_>>(), [0.5, 0.0]);
        assert_eq!(trajectory.final_reward, 1.25);
        assert_eq!(trajectory.total_reward(), 1.75);
    }

    #[test]
    fn the_last_call_ends_the_episode_wherever_it_is_put() {
        let mut generations = recorded(&[("a", &[1], &[2]), ("x", &[9], &[9]), ("b", &[1, 2, 3], &[4])]);
        generations[2].stop_reason = "length".into();
        let trajectory = merge(&generations, &[]);
        let done: Vec<bool> = trajectory.transitions.iter().map(|turn| turn.episode_done).collect();
        assert_eq!(done, [false, true, false]);
        assert_eq!(trajectory.stop_reason, EpisodeStop::MaxTokens);
    }

    #[test]
    fn what_is_excluded_cannot_slip_in() {
        let mut generation = generation("a", &[1], &[2]);
        generation.client_disconnected = true;
        assert_eq!(
            merge_generations(&[&generation], &[]),
            Err(AdapterError::Untrainable { generation_id: "a".into(), cause: UntrainedCause::ClientDisconnected })
        );
    }

    #[test]
    fn an_attempt_without_calls_is_an_empty_trajectory_with_its_reward() {
        let trajectory = merge(&[], &[reward(1, None, -1.0)]);
        assert_eq!(trajectory_to_data(&trajectory, 1.0), Ok(Vec::new()));
        assert_eq!(trajectory.total_reward(), -1.0);
    }

    /// A sampled token: what it is conditioned on, itself, and a logprob that is its alone.
    type Sampled = (Vec<u32>, u32, f32);

    #[derive(Clone, Copy, PartialEq)]
    enum Tokens {
        /// So few different ones that calls also continue each other by chance.
        Few,
        /// All sampled tokens differ.
        Distinct,
    }

    /// Calls that form random trees: each continues an earlier one (or nothing), adding some tokens of its own.
    fn any_generations(tokens: Tokens) -> impl Strategy<Value = Vec<Generation>> {
        let some = |least| proptest::collection::vec(1..3u32, least..4);
        let call = (any::<prop::sample::Index>(), some(0), some(1));
        (proptest::collection::vec(call, 1..12), 0..5u64).prop_map(move |(calls, shift)| {
            let mut generations: Vec<Generation> = Vec::new();
            let mut count = 0;
            for (number, (parent, new, mut sampled)) in calls.into_iter().enumerate() {
                let mut prompt = match parent.index(number + 1) {
                    0 => vec![1],
                    parent => whole(&generations[parent - 1]),
                };
                prompt.extend(new);
                let mut logprobs = Vec::new();
                for token in &mut sampled {
                    count += 1;
                    logprobs.push(-(count as f32));
                    if tokens == Tokens::Distinct {
                        *token = 100 + count;
                    }
                }
                generations.push(Generation {
                    // Recorded in any order.
                    sequence_id: (number as u64 + shift) % 5,
                    logprobs: Some(logprobs),
                    ..generation(&format!("g{number}"), &prompt, &sampled)
                });
            }
            generations
        })
    }

    fn whole(generation: &Generation) -> Vec<u32> {
        [&generation.prompt_tokens[..], &generation.sampled_tokens[..]].concat()
    }

    fn sampled_tokens(generations: &[Generation]) -> Vec<Sampled> {
        let mut all = Vec::new();
        for generation in generations {
            let mut context = generation.prompt_tokens.clone();
            for (token, logprob) in generation.sampled_tokens.iter().zip(generation.logprobs.iter().flatten()) {
                all.push((context.clone(), *token, *logprob));
                context.push(*token);
            }
        }
        all
    }

    fn sorted(mut sampled: Vec<Sampled>) -> Vec<Sampled> {
        sampled.sort_by(|a, b| a.2.total_cmp(&b.2));
        sampled
    }

    proptest! {
        #[test]
        fn every_sampled_token_is_trained_once_after_what_the_sampler_saw(generations in any_generations(Tokens::Few)) {
            let mut trained = Vec::new();
            for datum in trajectory_to_data(&merge(&generations, &[]), 0.5).unwrap() {
                let LossInputs::Policy { logprobs, advantages, mask } = &datum.loss_inputs else { unreachable!() };
                let [Chunk::Tokens(input)] = &datum.model_input[..] else { unreachable!() };
                for position in 0..input.len() {
                    prop_assert_eq!(advantages[position], 0.5 * mask[position]);
                    if mask[position] == 1.0 {
                        trained.push((input[..=position].to_vec(), datum.target_tokens[position], logprobs[position]));
                    }
                }
            }
            prop_assert_eq!(sorted(trained), sorted(sampled_tokens(&generations)));
        }

        #[test]
        fn a_tree_of_calls_becomes_one_datum_per_leaf(generations in any_generations(Tokens::Distinct)) {
            let leaves = generations
                .iter()
                .filter(|leaf| !generations.iter().any(|other| other.prompt_tokens.starts_with(&whole(leaf))))
                .count();
            prop_assert_eq!(trajectory_to_data(&merge(&generations, &[]), 0.5).unwrap().len(), leaves);
        }
    }
}
