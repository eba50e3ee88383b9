//! Which tokens of which calls stand where in the rows of a lesson, and what the loss makes of them.

use fulgurite_adapters::turns_in_time;
use fulgurite_backends::{LossFunction, RatioBounds};
use fulgurite_types::{Datum, Generation, LossInputs, TokenFate, TrainedTokens, WeightsFrom};

/// A call's sampled tokens among the targets of a row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CallPlace {
    generation_id: String,
    /// The target that its first token is.
    first: usize,
    count: usize,
    /// Which weights sampled its tokens.
    weights_versions: Vec<WeightsFrom>,
}

impl CallPlace {
    /// Of a call with so many tokens, of which the first is the target `first`.
    pub(super) fn new(generation_id: &str, first: usize, count: usize, weights_versions: Vec<WeightsFrom>) -> Self {
        Self { generation_id: generation_id.to_owned(), first, count, weights_versions }
    }

    /// The version of the weights that sampled a target, if it is a token of this call and the version is known.
    pub(super) fn version_of(&self, target: usize) -> Option<u64> {
        let token = target.checked_sub(self.first).filter(|token| *token < self.count)?;
        let parts = &self.weights_versions;
        let part = parts.partition_point(|part| part.first_token <= token).checked_sub(1)?;
        Some(parts.get(part)?.version)
    }
}

/// What is known of a row's targets before it is trained.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TrainedRow {
    calls: Vec<CallPlace>,
    /// Of each target, before the loss is divided by anything.
    advantages: Vec<f32>,
    /// Targets that the importance mask leaves out, in order.
    masked: Vec<usize>,
    loss: LossFunction,
}

/// A row as the learner's pass over it found it, under the weights that the optimizer's step began with: of each target a logprob, and
/// the entropy of the distribution that predicts it if the host tells it.
#[derive(Clone, Copy)]
pub(super) struct LearntRow<'p> {
    pub(super) datum: &'p Datum,
    pub(super) logprobs: &'p [f32],
    pub(super) entropies: Option<&'p [f32]>,
}

/// Where the trained calls of a rollout stand in its rows, row by row. As [`turns_to_data`](fulgurite_adapters::turns_to_data) has
/// them: calls share a row as long as each prompt begins with all that came before.
pub(super) fn places_in_rows(mut in_time: Vec<&Generation>) -> Vec<Vec<CallPlace>> {
    in_time.sort_by_key(|generation| generation.sequence_id);
    let mut rows: Vec<Vec<CallPlace>> = Vec::new();
    let mut last: Option<&Generation> = None;
    for generation in turns_in_time(&in_time).into_iter().map(|index| in_time[index]) {
        let goes_on = last.is_some_and(|last| {
            let rest = generation.prompt_tokens.strip_prefix(last.prompt_tokens.as_slice());
            rest.is_some_and(|rest| rest.starts_with(&last.sampled_tokens))
        });
        if !goes_on {
            rows.push(Vec::new());
        }
        // The first token of a row is no target, so that targets are counted from the second.
        if let (Some(row), Some(first)) = (rows.last_mut(), generation.prompt_tokens.len().checked_sub(1)) {
            let (count, versions) = (generation.sampled_tokens.len(), generation.weights_versions.clone());
            row.push(CallPlace::new(&generation.generation_id, first, count, versions));
        }
        last = Some(generation);
    }
    rows
}

/// The rows with what is known of their targets; `masked` has the targets that the importance mask leaves out, one list a row, or is
/// empty without one. Nothing if the rows are not those of the places.
pub(super) fn trained_rows(
    places: Vec<Vec<CallPlace>>,
    groups: &[Vec<Vec<Datum>>],
    masked: Vec<Vec<usize>>,
    loss: LossFunction,
) -> Vec<TrainedRow> {
    let rows: Vec<&Datum> = groups.iter().flatten().flatten().collect();
    if rows.len() != places.len() {
        tracing::warn!(rows = rows.len(), places = places.len(), "trained tokens are not recorded: rows do not match");
        return Vec::new();
    }
    let mut masked = masked.into_iter();
    let row = |(calls, datum): (Vec<CallPlace>, &Datum)| {
        let advantages = match &datum.loss_inputs {
            LossInputs::Policy { advantages, .. } => advantages.clone(),
            LossInputs::Supervised { .. } | LossInputs::SoftTargets { .. } => Vec::new(),
        };
        TrainedRow { calls, advantages, masked: masked.next().unwrap_or_default(), loss }
    };
    places.into_iter().zip(rows).map(row).collect()
}

/// What was made of the tokens of these rows, call by call, where `learnt` has each row as it was trained; nothing if those are
/// other rows.
pub(super) fn trained_tokens(rows: &[TrainedRow], learnt: &[LearntRow<'_>]) -> Vec<TrainedTokens> {
    if rows.len() != learnt.len() {
        return Vec::new();
    }
    rows.iter().zip(learnt).flat_map(|(row, learnt)| of_row(row, *learnt)).collect()
}

fn of_row(row: &TrainedRow, learnt: LearntRow<'_>) -> Vec<TrainedTokens> {
    let LearntRow { datum, logprobs, entropies } = learnt;
    let LossInputs::Policy { logprobs: sampler_logprobs, mask, .. } = &datum.loss_inputs else { return Vec::new() };
    let is_trained = |target: usize| mask.get(target).is_some_and(|mask| *mask > 0.0);
    let difference = |target: usize| logprobs.get(target).zip(sampler_logprobs.get(target)).map(|(new, old)| new - old);
    let of_sequence = match row.loss {
        LossFunction::Gspo(_) => {
            let differences: Vec<f32> = (0..mask.len()).filter(|at| is_trained(*at)).filter_map(difference).collect();
            Some(differences.iter().sum::<f32>() / differences.len().max(1) as f32)
        }
        _ => None,
    };
    let fate = |target: usize| {
        let advantage = row.advantages.get(target).copied().unwrap_or(0.0);
        match of_sequence.or_else(|| difference(target)) {
            _ if !is_trained(target) => TokenFate::NotTrained,
            _ if row.masked.binary_search(&target).is_ok() => TokenFate::Masked,
            Some(difference) if is_clipped(row.loss, difference.exp(), advantage) => TokenFate::Clipped,
            _ => TokenFate::Trained,
        }
    };
    // A host tells the entropies of trained targets alone, and 0 of others.
    let entropy_of = |entropies: &[f32], target: usize| match entropies.get(target) {
        Some(entropy) if is_trained(target) => *entropy,
        Some(_) | None => f32::NAN,
    };
    let of_call = |CallPlace { generation_id, first, count, .. }: CallPlace| {
        let targets = first..first + count;
        Some(TrainedTokens {
            generation_id,
            advantages: row.advantages.get(targets.clone())?.to_vec(),
            logprobs: logprobs.get(targets.clone())?.to_vec(),
            entropies: entropies.map(|all| targets.clone().map(|target| entropy_of(all, target)).collect()),
            fates: targets.map(fate).collect(),
        })
    };
    row.calls.iter().cloned().filter_map(of_call).collect()
}

/// Whether the bounds of a loss decide what a token with this ratio and advantage teaches.
fn is_clipped(loss: LossFunction, ratio: f32, advantage: f32) -> bool {
    let is_outside = |RatioBounds { low, high }: RatioBounds| !(low..=high).contains(&ratio);
    match loss {
        // The lesser of two products is the bounded one only where the ratio has gone further the way that it is pushed.
        LossFunction::Ppo(bounds) | LossFunction::Gspo(bounds) => {
            (advantage > 0.0 && ratio > bounds.high) || (advantage < 0.0 && ratio < bounds.low)
        }
        LossFunction::DualClip { bounds, ratio_limit } => {
            (advantage > 0.0 && ratio > bounds.high) || (advantage < 0.0 && (ratio < bounds.low || ratio > ratio_limit))
        }
        LossFunction::Cispo(bounds) => advantage != 0.0 && is_outside(bounds),
        LossFunction::CrossEntropy
        | LossFunction::ImportanceSampling
        | LossFunction::Sapo { .. }
        | LossFunction::Dro { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use fulgurite_adapters::{merge_generations, trajectory_to_data};
    use serde_json::json;

    use super::*;

    /// A call with a logprob of -1 for each token that it sampled.
    fn generation(id: &str, sequence_id: i64, prompt: &[u32], sampled: &[u32]) -> Generation {
        let logprobs = vec![-1.0; sampled.len()];
        serde_json::from_value(json!({
            "generation_id": id, "rollout_id": "r", "attempt_id": "a", "span_id": id, "trace_id": "t", "name": "n",
            "sequence_id": sequence_id, "parent_id": null, "branch_reason": null, "start_time": 0.0, "end_time": 1.0,
            "model": "m", "prompt_tokens": prompt, "sampled_tokens": sampled, "logprobs": logprobs,
            "stop_reason": "stop", "weights_versions": [{ "version": 0, "first_token": 0 }],
            "sampling": { "temperature": 1.0, "top_p": 1.0, "top_k": null }, "seed": 1, "renderer": "x", "tokenizer": "f", "request_digest": "d",
            "client_gone": false, "defect": null,
        }))
        .unwrap()
    }

    fn place(id: &str, first: usize, count: usize) -> CallPlace {
        CallPlace::new(id, first, count, vec![WeightsFrom { version: 0, first_token: 0 }])
    }

    #[test]
    fn each_token_has_the_version_that_sampled_it() {
        let versions = [(4, 0), (5, 2)].map(|(version, first_token)| WeightsFrom { version, first_token });
        let place = CallPlace::new("a", 3, 4, versions.into());
        let of_targets: Vec<Option<u64>> = (2..8).map(|target| place.version_of(target)).collect();
        assert_eq!(of_targets, [None, Some(4), Some(4), Some(5), Some(5), None]);
        assert_eq!(CallPlace::new("a", 3, 4, Vec::new()).version_of(3), None);
    }

    fn bounds(low: f32, high: f32) -> RatioBounds {
        RatioBounds { low, high }
    }

    /// Calls that go on from each other, one that begins anew, and a branch.
    fn calls() -> Vec<Generation> {
        vec![
            generation("a", 1, &[1, 2], &[3, 4]),
            generation("other", 2, &[9], &[8]),
            generation("b", 3, &[1, 2, 3, 4, 5], &[6]),
            generation("branch", 4, &[1, 2, 3, 4, 7], &[8, 8]),
        ]
    }

    #[test]
    fn places_are_those_of_the_rows_that_are_trained() {
        let calls = calls();
        let calls: Vec<&Generation> = calls.iter().collect();
        let rows = places_in_rows(calls.clone());
        let expected =
            [vec![place("a", 1, 2), place("b", 4, 1)], vec![place("branch", 4, 2)], vec![place("other", 0, 1)]];
        assert_eq!(rows, expected);
        let data = trajectory_to_data(&merge_generations(&calls, &[]).unwrap(), 1.0).unwrap();
        assert_eq!(data.len(), rows.len());
        for (datum, row) in data.iter().zip(&rows) {
            let LossInputs::Policy { mask, .. } = &datum.loss_inputs else { unreachable!() };
            let trained: Vec<usize> = (0..mask.len()).filter(|target| mask[*target] > 0.0).collect();
            let placed: Vec<usize> = row.iter().flat_map(|call| call.first..call.first + call.count).collect();
            assert_eq!(trained, placed);
            for call in row {
                let sampled = calls.iter().find(|other| other.generation_id == call.generation_id).unwrap();
                assert_eq!(datum.target_tokens[call.first..call.first + call.count], sampled.sampled_tokens);
            }
        }
    }

    /// What is recorded of one row of one call, whose targets have these logprobs now; the last one's token was masked.
    fn fates(loss: LossFunction, advantage: f32, logprobs: &[f32]) -> Vec<TokenFate> {
        let count = logprobs.len();
        let sampled: Vec<u32> = (0..count as u32).collect();
        let call = generation("a", 1, &[1], &sampled);
        let data = trajectory_to_data(&merge_generations(&[&call], &[]).unwrap(), advantage).unwrap();
        let groups = vec![vec![data.clone()]];
        let rows = trained_rows(places_in_rows(vec![&call]), &groups, vec![vec![count - 1]], loss);
        let entropies: Vec<f32> = (0..count).map(|target| target as f32 / 2.0).collect();
        let learnt = LearntRow { datum: &data[0], logprobs, entropies: Some(&entropies) };
        assert_eq!(trained_tokens(&rows, &[learnt, learnt]), [], "other rows than were meant");
        let [tokens] = trained_tokens(&rows, &[learnt]).try_into().unwrap();
        assert_eq!((tokens.generation_id.as_str(), tokens.logprobs.as_slice()), ("a", logprobs));
        assert_eq!(tokens.advantages, vec![advantage; count]);
        assert_eq!(tokens.entropies, Some(entropies.clone()));
        let [without_entropies] = trained_tokens(&rows, &[LearntRow { entropies: None, ..learnt }]).try_into().unwrap();
        assert_eq!(without_entropies.entropies, None, "a host that tells none");
        tokens.fates
    }

    #[test]
    fn a_token_that_was_not_trained_has_no_entropy() {
        let call = generation("a", 1, &[1], &[5, 6]);
        let mut data = trajectory_to_data(&merge_generations(&[&call], &[]).unwrap(), 1.0).unwrap();
        let LossInputs::Policy { mask, .. } = &mut data[0].loss_inputs else { unreachable!() };
        mask[0] = 0.0;
        let groups = vec![vec![data.clone()]];
        let rows = trained_rows(places_in_rows(vec![&call]), &groups, Vec::new(), LossFunction::ImportanceSampling);
        let learnt = LearntRow { datum: &data[0], logprobs: &[-1.0, -1.0], entropies: Some(&[0.0, 0.5]) };
        let [tokens] = trained_tokens(&rows, &[learnt]).try_into().unwrap();
        let entropies = tokens.entropies.unwrap();
        assert!(entropies[0].is_nan() && entropies[1] == 0.5, "{entropies:?}");
        assert_eq!(tokens.fates, [TokenFate::NotTrained, TokenFate::Trained]);
    }

    #[test]
    fn what_the_bounds_of_a_loss_leave_out_is_told_apart() {
        use TokenFate::{Clipped, Masked, Trained};
        // Ratios of 1, e and 1 / e; the fourth is masked.
        let logprobs = [-1.0, 0.0, -2.0, -1.0];
        let of = |loss, advantage| fates(loss, advantage, &logprobs);
        let ppo = LossFunction::Ppo(bounds(0.8, 1.2));
        assert_eq!(of(ppo, 1.0), [Trained, Clipped, Trained, Masked]);
        assert_eq!(of(ppo, -1.0), [Trained, Trained, Clipped, Masked]);
        assert_eq!(of(LossFunction::Cispo(bounds(0.5, 4.0)), 1.0), [Trained, Trained, Clipped, Masked]);
        assert_eq!(of(LossFunction::ImportanceSampling, 1.0), [Trained, Trained, Trained, Masked]);
        // Over the four tokens the mean difference is nothing.
        assert_eq!(of(LossFunction::Gspo(bounds(0.9, 1.1)), 1.0), [Trained, Trained, Trained, Masked]);
        let further = fates(LossFunction::Gspo(bounds(0.9, 1.1)), 1.0, &[-1.0, 0.0]);
        assert_eq!(further, [Clipped, Masked], "every token of a sequence has its ratio");
    }
}
