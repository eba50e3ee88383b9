use fulgurite_types::{Chunk, Datum, LossInputs};

use crate::{AdapterError, Trajectory, Transition};

/// Turns a trajectory into datums: consecutive turns share one as long as each observation begins with everything so
/// far, element for element (tokens by id, images by identity); where it does not, a new datum begins.
///
/// In a datum of `n + 1` elements position `i` predicts element `i + 1`. A sampled token's target carries the
/// sampler's logprob, `advantage` and mask 1; every other target carries zeros, and so do sampled tokens of a masked
/// turn but for their logprob. A turn without observation and action adds nothing. Nothing predicts the first token of
/// a datum: if that was sampled (an empty prompt) it is not trained.
///
/// # Errors
/// [`AdapterError::LogprobCount`], [`AdapterError::TooShort`], [`AdapterError::EndsWithImage`], and
/// [`AdapterError::Datum`] for numbers that are not finite.
pub fn trajectory_to_data(trajectory: &Trajectory, advantage: f32) -> Result<Vec<Datum>, AdapterError> {
    turns_to_data(trajectory, std::iter::repeat(advantage))
}

/// As [`trajectory_to_data`], each turn with an advantage of its own; a turn beyond the last of them is left out.
///
/// # Errors
/// As there.
pub fn turns_to_data(
    trajectory: &Trajectory,
    advantages: impl IntoIterator<Item = f32>,
) -> Result<Vec<Datum>, AdapterError> {
    let mut data = Vec::new();
    let mut sequence = Sequence::default();
    for (turn, (transition, advantage)) in trajectory.transitions.iter().zip(advantages).enumerate() {
        let (sampled, logprobs) = (transition.action.tokens.len(), transition.action.logprobs.len());
        if sampled != logprobs {
            return Err(AdapterError::LogprobCount { turn, sampled, logprobs });
        }
        let observation = elements(&transition.observation);
        if !observation.starts_with(&sequence.elements) {
            data.push(std::mem::take(&mut sequence).into_datum()?);
        }
        sequence.observe(&observation[sequence.elements.len()..]);
        sequence.act(transition, advantage);
    }
    if !sequence.elements.is_empty() {
        data.push(sequence.into_datum()?);
    }
    Ok(data)
}

/// What a sequence is compared by: an image is one element, whatever positions it takes.
#[derive(Clone, Copy, PartialEq)]
enum Element<'a> {
    Token(u32),
    Image { digest: &'a str, expected_tokens: usize },
}

impl Element<'_> {
    fn positions(self) -> usize {
        match self {
            Element::Token(_) => 1,
            Element::Image { expected_tokens, .. } => expected_tokens,
        }
    }
}

fn elements(chunks: &[Chunk]) -> Vec<Element<'_>> {
    let mut elements = Vec::new();
    for chunk in chunks {
        match chunk {
            Chunk::Tokens(tokens) => elements.extend(tokens.iter().map(|token| Element::Token(*token))),
            Chunk::Image { digest, expected_tokens } => {
                elements.push(Element::Image { digest, expected_tokens: *expected_tokens });
            }
        }
    }
    elements
}

fn chunks(elements: &[Element<'_>]) -> Vec<Chunk> {
    let mut chunks = Vec::new();
    for element in elements {
        match (*element, chunks.last_mut()) {
            (Element::Token(token), Some(Chunk::Tokens(tokens))) => tokens.push(token),
            (Element::Token(token), _) => chunks.push(Chunk::Tokens(vec![token])),
            (Element::Image { digest, expected_tokens }, _) => {
                chunks.push(Chunk::Image { digest: digest.into(), expected_tokens });
            }
        }
    }
    chunks
}

/// A datum as it grows: the three lists have one entry per position, the first of which is never a target.
#[derive(Default)]
struct Sequence<'a> {
    elements: Vec<Element<'a>>,
    logprobs: Vec<f32>,
    advantages: Vec<f32>,
    mask: Vec<f32>,
    trained_targets: usize,
}

impl<'a> Sequence<'a> {
    fn observe(&mut self, elements: &[Element<'a>]) {
        self.elements.extend_from_slice(elements);
        let length = self.mask.len() + elements.iter().map(|element| element.positions()).sum::<usize>();
        for list in [&mut self.logprobs, &mut self.advantages, &mut self.mask] {
            list.resize(length, 0.0);
        }
    }

    fn act(&mut self, transition: &Transition, advantage: f32) {
        let (mask, advantage) = if transition.masked { (0.0, 0.0) } else { (1.0, advantage) };
        let tokens = &transition.action.tokens;
        if !transition.masked {
            let without_context = usize::from(self.mask.is_empty());
            self.trained_targets += tokens.len().saturating_sub(without_context);
        }
        self.elements.extend(tokens.iter().map(|token| Element::Token(*token)));
        self.logprobs.extend_from_slice(&transition.action.logprobs);
        self.advantages.resize(self.logprobs.len(), advantage);
        self.mask.resize(self.logprobs.len(), mask);
    }

    fn into_datum(self) -> Result<Datum, AdapterError> {
        if self.mask.len() < 2 {
            return Err(AdapterError::TooShort { positions: self.mask.len() });
        }
        if let Some(Element::Image { digest, .. }) = self.elements.last() {
            return Err(AdapterError::EndsWithImage { digest: (*digest).into() });
        }
        let datum = Datum {
            model_input: chunks(&self.elements[..self.elements.len() - 1]),
            target_tokens: labels(&self.elements)[1..].to_vec(),
            loss_inputs: LossInputs::Policy {
                logprobs: self.logprobs[1..].to_vec(),
                advantages: self.advantages[1..].to_vec(),
                mask: self.mask[1..].to_vec(),
            },
        };
        let marked = self.mask[1..].iter().filter(|mask| **mask != 0.0).count();
        if marked != self.trained_targets {
            return Err(AdapterError::MaskCount { expected: self.trained_targets, actual: marked });
        }
        datum.validate()?;
        Ok(datum)
    }
}

fn labels(elements: &[Element<'_>]) -> Vec<u32> {
    let mut labels = Vec::new();
    for element in elements {
        match element {
            Element::Token(token) => labels.push(*token),
            Element::Image { expected_tokens, .. } => labels.resize(labels.len() + expected_tokens, 0),
        }
    }
    labels
}

#[cfg(test)]
mod tests {
    use fulgurite_types::DatumError;
    use proptest::prelude::*;

    use super::*;
    use crate::Action;
    use crate::vectors::{datum, floats, list, number, transitions, vectors};
    use fulgurite_types::EpisodeStop;

    fn trajectory(transitions: Vec<Transition>) -> Trajectory {
        Trajectory { transitions, ..Trajectory::default() }
    }

    fn turn(observation: Vec<Chunk>, tokens: Vec<u32>, logprobs: Vec<f32>) -> Transition {
        Transition {
            observation,
            action: Action { tokens, logprobs },
            reward: 0.0,
            episode_done: false,
            masked: false,
            metrics: Default::default(),
            stop_reason: None,
        }
    }

    fn image(digest: &str) -> Chunk {
        Chunk::Image { digest: digest.into(), expected_tokens: 3 }
    }

    #[test]
    fn the_cookbooks_edge_cases() {
        let mut seen = 0;
        for case in list(&vectors("rl_edge_cases.json")["trajectory_to_data"]) {
            let trajectory = trajectory(transitions(&case["transitions"]));
            let result = trajectory_to_data(&trajectory, number(&case["advantage"]) as f32);
            let name = case["name"].as_str().unwrap();
            match name {
                // Theirs is a DataValidationError; ours says how long the sequence is.
                "one token total" => assert_eq!(result, Err(AdapterError::TooShort { positions: 1 })),
                // Theirs is a bare assertion; ours says which turn and by how much.
                "logprob count mismatch" => {
                    assert_eq!(result, Err(AdapterError::LogprobCount { turn: 0, sampled: 2, logprobs: 1 }));
                }
                _ => assert_eq!(result, Ok(list(&case["result"]).iter().map(datum).collect()), "{name}"),
            }
            seen += 1;
        }
        assert_eq!(seen, 8);
    }

    #[test]
    fn the_cookbooks_batch() {
        let batch = vectors("rl_batch_2x3.json");
        let mut data = Vec::new();
        let mut origins = Vec::new();
        for (group_index, group) in list(&batch["groups"]).iter().enumerate() {
            let advantages = floats(&batch["advantages"][group_index]);
            for (index, turns) in list(&group["trajectories"]).iter().enumerate() {
                let of_trajectory = trajectory_to_data(&trajectory(transitions(turns)), advantages[index]).unwrap();
                origins.extend(of_trajectory.iter().map(|_| (group_index as f64, index as f64)));
                data.extend(of_trajectory);
            }
        }
        assert_eq!(data, list(&batch["datums"]).iter().map(datum).collect::<Vec<_>>());
        let metadata = list(&batch["metadata"]);
        let expected: Vec<_> =
            metadata.iter().map(|entry| (number(&entry["group_idx"]), number(&entry["traj_idx"]))).collect();
        assert_eq!(origins, expected);
    }

    #[test]
    fn the_cookbooks_total_rewards() {
        let batch = vectors("rl_batch_2x3.json");
        for (group, totals) in list(&batch["groups"]).iter().zip(list(&batch["total_rewards"])) {
            for (index, turns) in list(&group["trajectories"]).iter().enumerate() {
                let stop_reason: EpisodeStop =
                    serde_json::from_value(group["stop_reasons"][index].clone()).expect("a stop reason we know");
                let trajectory = Trajectory {
                    transitions: transitions(turns),
                    final_reward: number(&group["final_rewards"][index]),
                    stop_reason,
                    metrics: Default::default(),
                };
                assert_eq!(trajectory.total_reward(), number(&totals[index]));
            }
        }
    }

    #[test]
    fn a_turn_that_sampled_nothing_keeps_advantages_that_are_floats() {
        let data = trajectory_to_data(&trajectory(vec![turn(vec![Chunk::Tokens(vec![1, 2])], vec![], vec![])]), 0.5);
        let expected = Datum {
            model_input: vec![Chunk::Tokens(vec![1])],
            target_tokens: vec![2],
            // Where the cookbook makes integers of the advantages.
            loss_inputs: LossInputs::Policy { logprobs: vec![0.0], advantages: vec![0.0], mask: vec![0.0] },
        };
        assert_eq!(data, Ok(vec![expected]));
    }

    #[test]
    fn another_image_in_the_same_place_is_no_continuation() {
        let turns = |second: &str| {
            trajectory(vec![
                turn(vec![Chunk::Tokens(vec![1]), image("a")], vec![2], vec![-0.5]),
                turn(vec![Chunk::Tokens(vec![1]), image(second), Chunk::Tokens(vec![2])], vec![3], vec![-0.5]),
            ])
        };
        assert_eq!(trajectory_to_data(&turns("a"), 1.0).unwrap().len(), 1);
        assert_eq!(trajectory_to_data(&turns("b"), 1.0).unwrap().len(), 2);
    }

    #[test]
    fn a_sequence_that_ends_with_an_image_is_refused() {
        let result = trajectory_to_data(&trajectory(vec![turn(vec![image("a")], vec![], vec![])]), 1.0);
        assert_eq!(result, Err(AdapterError::EndsWithImage { digest: "a".into() }));
    }

    #[test]
    fn an_image_without_positions_predicts_nothing() {
        let empty = Chunk::Image { digest: "a".into(), expected_tokens: 0 };
        let data =
            trajectory_to_data(&trajectory(vec![turn(vec![empty], vec![2, 3], vec![-0.5, -0.25])]), 1.0).unwrap();
        assert_eq!(data[0].target_tokens, [3]);
        assert_eq!(data[0].validate(), Ok(()));
    }

    #[test]
    fn numbers_that_are_not_finite_are_refused() {
        let turns = |logprob| trajectory(vec![turn(vec![Chunk::Tokens(vec![1])], vec![2], vec![logprob])]);
        for (logprob, advantage, name) in [(f32::NAN, 1.0, "logprobs"), (-0.5, f32::NAN, "advantages")] {
            let error = trajectory_to_data(&turns(logprob), advantage).unwrap_err();
            assert!(
                matches!(error, AdapterError::Datum(DatumError::NotFinite { name: found, index: 0, .. }) if found == name),
                "{error}"
            );
        }
    }

    /// A few tokens only, so that prefixes meet by chance.
    fn any_turn() -> impl Strategy<Value = (Vec<u32>, Vec<u32>, bool, bool)> {
        let token = 1..3u32;
        (
            proptest::collection::vec(token.clone(), 1..4),
            proptest::collection::vec(token, 1..4),
            any::<bool>(),
            any::<bool>(),
        )
    }

    proptest! {
        #[test]
        fn every_sampled_token_is_a_target_once_after_its_whole_context(turns in proptest::collection::vec(any_turn(), 1..6)) {
            let mut history: Vec<u32> = Vec::new();
            let mut transitions = Vec::new();
            let mut expected = Vec::new();
            let mut logprob = 0.0;
            for (new, sampled, rewrites, masked) in turns {
                if rewrites {
                    history.clear();
                }
                history.extend(new);
                let observation = vec![Chunk::Tokens(history.clone())];
                let mut logprobs = Vec::new();
                for token in &sampled {
                    // Distinct, so that it shows which sampled token a target is.
                    logprob -= 1.0;
                    logprobs.push(logprob);
                    expected.push((history.clone(), *token, logprob, if masked { 0.0 } else { 1.0 }));
                    history.push(*token);
                }
                transitions.push(Transition { masked, ..turn(observation, sampled, logprobs) });
            }

            let mut found = Vec::new();
            for datum in trajectory_to_data(&trajectory(transitions), 0.25).unwrap() {
                let LossInputs::Policy { logprobs, advantages, mask } = &datum.loss_inputs else { unreachable!() };
                let [Chunk::Tokens(input)] = &datum.model_input[..] else { unreachable!() };
                for position in 0..input.len() {
                    prop_assert_eq!(advantages[position], 0.25 * mask[position]);
                    if logprobs[position] != 0.0 {
                        let context = input[..=position].to_vec();
                        found.push((context, datum.target_tokens[position], logprobs[position], mask[position]));
                    }
                }
            }
            prop_assert_eq!(found, expected);
        }
    }
}
