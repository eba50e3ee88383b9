//! Datums as the wire has them, and what comes back of them.

use fulgurite_types::{Chunk, Datum, LossInputs};

use crate::wire::protobuf::{self, ChunkContent, ForwardBackwardOutput, Tensor};
use fulgurite_backends::{AnswerFault, BackendError, LossFunction, RatioBounds};

/// What is computed over datums.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Pass {
    /// Logprobs alone.
    Forward,
    /// Logprobs, and the gradient of a loss.
    ForwardBackward(LossFunction),
}

impl Pass {
    /// The loss's name on the wire. A forward pass names the one whose inputs it can do without.
    pub(super) fn loss_name(self) -> &'static str {
        match self {
            Self::Forward => LossFunction::CrossEntropy.name(),
            Self::ForwardBackward(loss) => loss.name(),
        }
    }

    /// The loss's numbers on the wire.
    pub(super) fn loss_configuration(self) -> impl Iterator<Item = (String, f64)> {
        let configuration = match self {
            Self::Forward => Default::default(),
            Self::ForwardBackward(loss) => loss.configuration(),
        };
        configuration.into_iter().map(|(name, number)| (name.to_owned(), number))
    }
}

/// A datum as the wire has it. Both shift the targets: position `i` of the input predicts target `i`. The wire has no
/// mask: a target counts for nothing whose weight or advantage is 0.
pub(super) fn wire_datum(datum: &Datum, pass: Pass) -> Result<protobuf::Datum, BackendError> {
    datum.validate().map_err(|error| BackendError::InvalidRequest { message: error.to_string() })?;
    let chunk = |chunk: &Chunk| match chunk {
        Chunk::Tokens(tokens) => Ok(protobuf::Chunk::tokens(tokens)),
        Chunk::Image { .. } => {
            let message = "a datum holds an image, of which only its identity is known here".to_owned();
            Err(BackendError::InvalidRequest { message })
        }
    };
    let shaped = |tensor: Tensor| match &datum.loss_inputs {
        LossInputs::SoftTargets { width, .. } => {
            Tensor { shape: vec![datum.positions() as i64, *width as i64], ..tensor }
        }
        LossInputs::Supervised { .. } | LossInputs::Policy { .. } => tensor,
    };
    let targets = Tensor::integers(datum.targets().iter().map(|&token| i64::from(token)));
    let mut inputs = vec![("target_tokens", shaped(targets))];
    match (pass, &datum.loss_inputs) {
        (
            Pass::ForwardBackward(LossFunction::CrossEntropy) | Pass::Forward,
            LossInputs::Supervised { weights } | LossInputs::SoftTargets { weights, .. },
        ) => {
            inputs.push(("weights", shaped(Tensor::floats(weights))));
        }
        (Pass::ForwardBackward(loss @ LossFunction::CrossEntropy), LossInputs::Policy { .. })
        | (Pass::ForwardBackward(loss), LossInputs::Supervised { .. } | LossInputs::SoftTargets { .. }) => {
            let message = format!("a datum has not the inputs that the loss {} needs", loss.name());
            return Err(BackendError::InvalidRequest { message });
        }
        (Pass::ForwardBackward(LossFunction::Dro { .. }), LossInputs::Policy { .. }) => {
            let message = "the Tinker API has no mask, and DRO's loss is not 0 where nothing was sampled".to_owned();
            return Err(BackendError::InvalidRequest { message });
        }
        (Pass::Forward, LossInputs::Policy { mask, .. }) => inputs.push(("weights", Tensor::floats(mask))),
        (Pass::ForwardBackward(loss), LossInputs::Policy { logprobs, advantages, mask }) => {
            // A masked target's ratio must not be more than a number, or even 0 times it is none.
            let masked = |values: &[f32], by: fn(f32, f32) -> f32| -> Tensor {
                Tensor::floats(&values.iter().zip(mask).map(|(&value, &mask)| by(value, mask)).collect::<Vec<_>>())
            };
            inputs.push(("logprobs", masked(logprobs, |logprob, mask| if mask == 0.0 { 0.0 } else { logprob })));
            inputs.push(("advantages", masked(advantages, |advantage, mask| advantage * mask)));
            if let LossFunction::Gspo(_) = loss {
                inputs.push(("sequence_ratio_mask", Tensor::floats(mask)));
            }
        }
    }
    Ok(protobuf::Datum {
        model_input: datum.model_input.iter().map(chunk).collect::<Result<_, _>>()?,
        loss_fn_inputs: inputs.into_iter().map(|(name, tensor)| (name.to_owned(), tensor)).collect(),
        ..protobuf::Datum::default()
    })
}

/// Datums in as many requests as the service wants, in order.
pub(super) fn in_requests(
    datums: Vec<protobuf::Datum>,
    greatest_length: usize,
    greatest_bytes: usize,
) -> Vec<Vec<protobuf::Datum>> {
    let mut requests: Vec<Vec<protobuf::Datum>> = Vec::new();
    let mut bytes = 0;
    for datum in datums {
        let next = byte_count(&datum);
        match requests.last_mut() {
            Some(request) if request.len() < greatest_length && bytes + next <= greatest_bytes => {
                request.push(datum);
                bytes += next;
            }
            _ => {
                requests.push(vec![datum]);
                bytes = next;
            }
        }
    }
    requests
}

/// As the official SDK estimates it.
fn byte_count(datum: &protobuf::Datum) -> usize {
    let of_chunk = |chunk: &protobuf::Chunk| match &chunk.chunk {
        Some(ChunkContent::EncodedText(text)) => text.tokens.len(),
        Some(ChunkContent::Image(image)) => image.data.len(),
        Some(ChunkContent::Dmel(sound)) => sound.dmel.len(),
        None => 0,
    };
    let input: usize = datum.model_input.iter().map(of_chunk).sum();
    input + datum.loss_fn_inputs.values().map(Tensor::byte_count).sum::<usize>()
}

/// The logprob of each target of each datum, checked: as many as were requested, and numbers wherever they count.
pub(super) fn logprobs(output: &ForwardBackwardOutput, data: &[Datum]) -> Result<Vec<Vec<f32>>, AnswerFault> {
    let unreadable = |message: String| AnswerFault::Unreadable { message };
    let field = output.field("logprobs").map_err(|error| unreadable(error.to_string()))?;
    let field = field.ok_or_else(|| unreadable("the logprobs of the targets are missing".to_owned()))?;
    if field.len() != data.len() {
        return Err(unreadable(format!("{} datums were sent, and logprobs of {} came", data.len(), field.len())));
    }
    let datum = |(numbers, datum): (crate::wire::Numbers, &Datum)| {
        let logprobs = numbers.into_floats().map_err(|error| unreadable(error.to_string()))?;
        let targets = datum.targets();
        if logprobs.len() != targets.len() {
            return Err(AnswerFault::CountsDiffer { tokens: targets.len(), logprobs: logprobs.len() });
        }
        let wrong = (0..logprobs.len()).find(|&index| counts(datum, index) && !logprobs[index].is_finite());
        match wrong {
            None => Ok(logprobs),
            Some(index) => Err(AnswerFault::Logprob { token: targets[index].into(), logprob: logprobs[index].into() }),
        }
    };
    field.into_iter().zip(data).map(datum).collect()
}

/// Whether a target counts for anything.
fn counts(datum: &Datum, index: usize) -> bool {
    match &datum.loss_inputs {
        LossInputs::Supervised { weights } | LossInputs::SoftTargets { weights, .. } => weights[index] != 0.0,
        LossInputs::Policy { mask, .. } => mask[index] != 0.0,
    }
}

/// The loss as the service reports it; it may report none.
pub(super) fn reported_loss(output: &ForwardBackwardOutput) -> Option<f64> {
    ["loss:sum", "total_loss:sum"].into_iter().find_map(|name| output.metrics.get(name).copied())
}

/// The loss by its definition, summed over what counts.
pub(super) fn loss_of(data: &[Datum], logprobs: &[Vec<f32>], loss: LossFunction) -> f64 {
    data.iter().zip(logprobs).map(|(datum, logprobs)| loss_of_datum(datum, logprobs, loss)).sum()
}

fn loss_of_datum(datum: &Datum, logprobs: &[f32], loss: LossFunction) -> f64 {
    let counting = (0..logprobs.len()).filter(|&index| counts(datum, index));
    match &datum.loss_inputs {
        LossInputs::Supervised { weights } | LossInputs::SoftTargets { weights, .. } => {
            counting.map(|index| -f64::from(weights[index]) * f64::from(logprobs[index])).sum()
        }
        LossInputs::Policy { logprobs: sampled, advantages, mask } => {
            let distance = |index: usize| f64::from(logprobs[index]) - f64::from(sampled[index]);
            let count = counting.clone().count() as f64;
            let of_all = counting.clone().map(distance).sum::<f64>() / count;
            let gain = |index: usize| {
                let (logprob, advantage) = (f64::from(logprobs[index]), f64::from(advantages[index] * mask[index]));
                let ratio = distance(index).exp();
                let clip = |ratio: f64, bounds: RatioBounds| ratio.clamp(bounds.low.into(), bounds.high.into());
                let clipped = |ratio, bounds| f64::min(ratio * advantage, clip(ratio, bounds) * advantage);
                match loss {
                    LossFunction::CrossEntropy => logprob,
                    LossFunction::ImportanceSampling => ratio * advantage,
                    LossFunction::Ppo(bounds) => clipped(ratio, bounds),
                    LossFunction::Gspo(bounds) => clipped(of_all.exp(), bounds),
                    LossFunction::DualClip { bounds, ratio_limit } => {
                        let limited = f64::min(ratio, ratio_limit.into());
                        f64::min(limited * advantage, clip(ratio, bounds) * advantage)
                    }
                    LossFunction::Sapo { positive, negative } => {
                        let tau = f64::from(if advantage > 0.0 { positive } else { negative });
                        4.0 / tau / (1.0 + (-tau * (ratio - 1.0)).exp()) * advantage
                    }
                    LossFunction::Cispo(bounds) => clip(ratio, bounds) * logprob * advantage,
                    LossFunction::Dro { beta } => logprob * advantage - f64::from(beta) / 2.0 * distance(index).powi(2),
                }
            };
            -counting.map(gain).sum::<f64>()
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use prost::Message;

    use super::*;
    use crate::wire::protobuf::ForwardBackwardRequest;

    const POLICY: Pass = Pass::ForwardBackward(LossFunction::ImportanceSampling);
    const SUPERVISED: Pass = Pass::ForwardBackward(LossFunction::CrossEntropy);

    fn policy() -> Datum {
        Datum {
            model_input: vec![Chunk::Tokens(vec![5, 6, 7])],
            target_tokens: vec![0, 7, 8],
            loss_inputs: LossInputs::Policy {
                logprobs: vec![-9.0, -0.5, -1.25],
                advantages: vec![4.0, 1.5, -2.0],
                mask: vec![0.0, 1.0, 1.0],
            },
        }
    }

    fn supervised() -> Datum {
        Datum {
            model_input: vec![Chunk::Tokens(vec![5, 6])],
            target_tokens: vec![6, 7],
            loss_inputs: LossInputs::Supervised { weights: vec![0.0, 1.0] },
        }
    }

    fn floats(datum: &protobuf::Datum, name: &str) -> Vec<f32> {
        datum.loss_fn_inputs[name].decode().unwrap().numbers.into_floats().unwrap()
    }

    #[test]
    fn a_datum_is_what_the_official_sdk_sends_of_it() {
        let sent = include_bytes!("../../tests/vectors/importance_sampling_request.bin").as_slice();
        let sent = ForwardBackwardRequest::decode(sent).unwrap();
        assert_eq!(wire_datum(&policy(), POLICY).unwrap(), sent.data[0]);
        assert_eq!(POLICY.loss_name(), sent.loss_fn);
        let sent = include_bytes!("../../tests/vectors/cross_entropy_request.bin").as_slice();
        let sent = ForwardBackwardRequest::decode(sent).unwrap();
        for pass in [SUPERVISED, Pass::Forward] {
            assert_eq!(wire_datum(&supervised(), pass).unwrap(), sent.data[0]);
            assert_eq!(pass.loss_name(), sent.loss_fn);
        }
        let forward = wire_datum(&policy(), Pass::Forward).unwrap();
        assert_eq!(floats(&forward, "weights"), [0.0, 1.0, 1.0]);
        assert_eq!(forward.loss_fn_inputs.len(), 2);
    }

    #[test]
    fn soft_targets_are_a_matrix_and_their_logprobs_come_row_by_row() {
        let (tokens, weights) = (vec![6, 9, 7, 8], vec![0.75, 0.25, 1.0, 0.0]);
        let soft = Datum { loss_inputs: LossInputs::SoftTargets { width: 2, tokens, weights }, ..supervised() };
        let sent = wire_datum(&soft, SUPERVISED).unwrap();
        let targets = sent.loss_fn_inputs["target_tokens"].decode().unwrap();
        assert_eq!((targets.shape, targets.numbers), (vec![2, 2], crate::wire::Numbers::Integers(vec![6, 9, 7, 8])));
        let weights = sent.loss_fn_inputs["weights"].decode().unwrap();
        assert_eq!((weights.shape, floats(&sent, "weights")), (vec![2, 2], vec![0.75, 0.25, 1.0, 0.0]));
        assert!(wire_datum(&soft, POLICY).is_err());
        let logprobs = [vec![-1.0, -2.0, -0.5, f32::NEG_INFINITY]];
        assert_eq!(loss_of(&[soft], &logprobs, LossFunction::CrossEntropy), 0.75 + 0.5 + 0.5);
    }

    #[test]
    fn a_loss_has_its_numbers_and_its_own_inputs() {
        let bounds = RatioBounds { low: 0.5, high: 2.0 };
        let gspo = Pass::ForwardBackward(LossFunction::Gspo(bounds));
        assert_eq!(floats(&wire_datum(&policy(), gspo).unwrap(), "sequence_ratio_mask"), [0.0, 1.0, 1.0]);
        let numbers: Vec<(String, f64)> = gspo.loss_configuration().collect();
        assert_eq!(numbers, [("clip_high_threshold".to_owned(), 2.0), ("clip_low_threshold".to_owned(), 0.5)]);
        let ppo = Pass::ForwardBackward(LossFunction::Ppo(bounds));
        assert_eq!(wire_datum(&policy(), ppo).unwrap(), wire_datum(&policy(), POLICY).unwrap());
    }

    #[test]
    fn what_cannot_be_sent_is_refused() {
        let image = Chunk::Image { digest: "a".into(), expected_tokens: 3 };
        for (datum, pass) in [
            (policy(), SUPERVISED),
            (supervised(), POLICY),
            (policy(), Pass::ForwardBackward(LossFunction::Dro { beta: 0.5 })),
            (Datum { model_input: vec![image], ..policy() }, POLICY),
            (Datum { target_tokens: vec![1], ..policy() }, POLICY),
        ] {
            let error = wire_datum(&datum, pass).unwrap_err();
            assert!(matches!(error, BackendError::InvalidRequest { .. }), "{error}");
        }
    }

    #[test]
    fn datums_are_split_by_number_and_by_bytes() {
        let datum = wire_datum(&supervised(), SUPERVISED).unwrap();
        assert_eq!(byte_count(&datum), 2 * 4 + 2 * 8 + 2 * 4);
        let lengths = |length, bytes| -> Vec<usize> {
            in_requests(vec![datum.clone(); 5], length, bytes).iter().map(Vec::len).collect()
        };
        assert_eq!(lengths(2, 1000), [2, 2, 1]);
        assert_eq!(lengths(9, 96), [3, 2]);
        assert_eq!(lengths(9, 95), [2, 2, 1]);
        assert_eq!(lengths(0, 1), [1, 1, 1, 1, 1]);
        assert!(in_requests(Vec::new(), 2, 1000).is_empty());
    }

    proptest! {
        #[test]
        fn nothing_is_lost_or_moved_where_datums_are_split(
            lengths in prop::collection::vec(1usize..9, 0..20),
            greatest_length in 1usize..5,
            greatest_bytes in 1usize..400,
        ) {
            let datum = |length: &usize| protobuf::Datum {
                model_input: vec![protobuf::Chunk::tokens(&vec![7; *length])],
                ..protobuf::Datum::default()
            };
            let datums: Vec<protobuf::Datum> = lengths.iter().map(datum).collect();
            let requests = in_requests(datums.clone(), greatest_length, greatest_bytes);
            for request in &requests {
                let bytes: usize = request.iter().map(byte_count).sum();
                prop_assert!(request.len() <= greatest_length);
                prop_assert!(bytes <= greatest_bytes || request.len() == 1);
            }
            prop_assert_eq!(requests.concat(), datums);
        }
    }

    #[test]
    fn a_loss_is_a_sum_over_what_counts() {
        let exact = |actual: f64, expected: f64| assert!((actual - expected).abs() < 1e-12, "{actual} {expected}");
        exact(loss_of(&[supervised()], &[vec![f32::NAN, -0.5]], LossFunction::CrossEntropy), 0.5);
        // The ratios are exp(-0.5) with advantage 1.5, and exp(0.25) with advantage -2.
        let loss = |loss| loss_of(&[policy()], &[vec![f32::NAN, -1.0, -1.0]], loss);
        let (first, second) = ((-0.5f64).exp(), 0.25f64.exp());
        let bounds = RatioBounds { low: 0.75, high: 1.25 };
        exact(loss(LossFunction::ImportanceSampling), -(first * 1.5 - second * 2.0));
        exact(loss(LossFunction::Ppo(bounds)), -(first * 1.5 - second * 2.0));
        exact(loss(LossFunction::Ppo(RatioBounds { low: 0.0, high: 0.5 })), -(0.5 * 1.5 - second * 2.0));
        exact(loss(LossFunction::Cispo(bounds)), -(-0.75 * 1.5 - 1.25 * -2.0));
        let of_all = (-0.125f64).exp();
        exact(loss(LossFunction::Gspo(bounds)), -(of_all * 1.5 - of_all * 2.0));
        exact(loss(LossFunction::Dro { beta: 2.0 }), -((-1.5 - 0.25) + (2.0 - 0.0625)));
    }

    #[test]
    fn what_does_not_fit_the_datums_is_named() {
        let output = |logprobs: &[Vec<f32>]| ForwardBackwardOutput::new(logprobs, Default::default());
        let data = [supervised(), policy()];
        let whole = vec![vec![f32::NAN, -0.5], vec![f32::NAN, -1.0, -2.0]];
        let read = logprobs(&output(&whole), &data).unwrap();
        assert_eq!((read[0][1], read[1][2]), (-0.5, -2.0));
        let faulty = |logprobs_of_data: &[Vec<f32>]| logprobs(&output(logprobs_of_data), &data).unwrap_err();
        assert!(matches!(faulty(&whole[..1]), AnswerFault::Unreadable { .. }));
        let short = [whole[0].clone(), vec![-1.0]];
        assert_eq!(faulty(&short), AnswerFault::CountsDiffer { tokens: 3, logprobs: 1 });
        let infinite = [whole[0].clone(), vec![0.0, -1.0, f32::NEG_INFINITY]];
        assert_eq!(faulty(&infinite), AnswerFault::Logprob { token: 8, logprob: f64::NEG_INFINITY });
        let missing = logprobs(&ForwardBackwardOutput::default(), &data);
        assert!(matches!(missing, Err(AnswerFault::Unreadable { .. })));
    }
}
