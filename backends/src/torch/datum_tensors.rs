//! Datums and logprobs as tensors: lists of all datums, one after another.

use fulgurite_types::{Chunk, Datum, LossInputs};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};

use crate::{BackendError, Comparisons};

/// The number by which a datum says that it carries weights.
const WEIGHTS: u8 = 0;
/// The same for logprobs, advantages and a mask.
const POLICY: u8 = 1;

/// The lists of one call. A slot is a target of a position.
#[derive(Debug, Default)]
pub(super) struct CallTensors(Vec<(&'static str, Dtype, Vec<u8>)>);

impl CallTensors {
    /// Of datums, once they have been looked at.
    ///
    /// # Errors
    /// [`BackendError::InvalidRequest`] names the datum and what is wrong with it.
    pub(super) fn of(data: &[Datum]) -> Result<Self, BackendError> {
        let mut lists = Lists::default();
        for (index, datum) in data.iter().enumerate() {
            let wrong = |message: String| BackendError::InvalidRequest { message: format!("datum {index}: {message}") };
            datum.validate().map_err(|error| wrong(error.to_string()))?;
            lists.push(datum).map_err(wrong)?;
        }
        Ok(Self(vec![
            ("positions", Dtype::I64, lists.positions),
            ("widths", Dtype::I64, lists.widths),
            ("inputs", Dtype::U8, lists.inputs),
            ("tokens", Dtype::I64, lists.tokens),
            ("targets", Dtype::I64, lists.targets),
            ("weights", Dtype::F32, lists.weights),
            ("sampler_logprobs", Dtype::F32, lists.sampler_logprobs),
            ("advantages", Dtype::F32, lists.advantages),
        ]))
    }

    /// Adds comparisons of the datums.
    pub(super) fn with_comparisons(mut self, comparisons: &Comparisons) -> Self {
        let (mut ranges, mut references) = (Vec::new(), Vec::new());
        for answer in comparisons.list.iter().flat_map(|comparison| [&comparison.chosen, &comparison.rejected]) {
            let place = answer.as_ref().map_or([-1, -1], |it| [it.data.start as i64, it.data.end as i64]);
            place.into_iter().for_each(|number| ranges.extend(number.to_le_bytes()));
            references.extend(answer.as_ref().map_or(0.0, |it| it.reference).to_le_bytes());
        }
        self.0.push(("comparisons", Dtype::I64, ranges));
        self.0.push(("references", Dtype::F64, references));
        self
    }

    /// In the format of safetensors.
    pub(super) fn to_bytes(&self) -> Result<Vec<u8>, BackendError> {
        let failed = |error| BackendError::Internal { message: format!("datums cannot be sent: {error}") };
        let mut views = Vec::with_capacity(self.0.len());
        for (name, elements, bytes) in &self.0 {
            let count = bytes.len() * 8 / elements.bitsize();
            views.push((*name, TensorView::new(*elements, vec![count], bytes).map_err(failed)?));
        }
        safetensors::serialize(views, None).map_err(failed)
    }
}

/// The bytes of the lists.
#[derive(Default)]
struct Lists {
    positions: Vec<u8>,
    widths: Vec<u8>,
    inputs: Vec<u8>,
    tokens: Vec<u8>,
    targets: Vec<u8>,
    weights: Vec<u8>,
    sampler_logprobs: Vec<u8>,
    advantages: Vec<u8>,
}

impl Lists {
    fn push(&mut self, datum: &Datum) -> Result<(), String> {
        self.positions.extend((datum.positions() as i64).to_le_bytes());
        self.widths.extend((datum.targets_per_position() as i64).to_le_bytes());
        for chunk in &datum.model_input {
            match chunk {
                Chunk::Tokens(tokens) => push_ids(&mut self.tokens, tokens),
                Chunk::Image { digest, .. } => {
                    return Err(format!("it holds the image {digest}, but the torch learner sees no images"));
                }
            }
        }
        push_ids(&mut self.targets, datum.targets());
        match &datum.loss_inputs {
            LossInputs::Supervised { weights } | LossInputs::SoftTargets { weights, .. } => {
                self.inputs.push(WEIGHTS);
                let nothing = vec![0.0; weights.len()];
                push_numbers(&mut self.weights, weights);
                push_numbers(&mut self.sampler_logprobs, &nothing);
                push_numbers(&mut self.advantages, &nothing);
            }
            LossInputs::Policy { logprobs, advantages, mask } => {
                self.inputs.push(POLICY);
                push_numbers(&mut self.weights, mask);
                push_numbers(&mut self.sampler_logprobs, logprobs);
                push_numbers(&mut self.advantages, advantages);
            }
        }
        Ok(())
    }
}

fn push_ids(list: &mut Vec<u8>, ids: &[u32]) {
    ids.iter().for_each(|&id| list.extend(i64::from(id).to_le_bytes()));
}

fn push_numbers(list: &mut Vec<u8>, numbers: &[f32]) {
    numbers.iter().for_each(|number| list.extend(number.to_le_bytes()));
}

/// What a pass gave, in the order of the call's datums.
#[derive(Debug)]
pub(super) struct PassTensors<'a> {
    data: &'a [Datum],
    tensors: SafeTensors<'a>,
}

impl<'a> PassTensors<'a> {
    pub(super) fn read(data: &'a [Datum], body: &'a [u8]) -> Result<Self, BackendError> {
        let tensors = SafeTensors::deserialize(body).map_err(|error| unreadable(&error.to_string()))?;
        Ok(Self { data, tensors })
    }

    /// A list with a number for each target, datum by datum.
    pub(super) fn of_targets(&self, name: &str) -> Result<Vec<Vec<f32>>, BackendError> {
        let (numbers, rest) = self.bytes(name, Dtype::F32)?.as_chunks::<4>();
        let slots: usize = self.data.iter().map(|datum| datum.targets().len()).sum();
        if !rest.is_empty() || numbers.len() != slots {
            return Err(unreadable(&format!("{name} has {} numbers for {slots} targets", numbers.len())));
        }
        let mut numbers = numbers.iter().map(|bytes| f32::from_le_bytes(*bytes));
        Ok(self.data.iter().map(|datum| numbers.by_ref().take(datum.targets().len()).collect()).collect())
    }

    /// The sum of the losses.
    pub(super) fn loss_sum(&self) -> Result<f64, BackendError> {
        match self.bytes("loss_sum", Dtype::F64)?.as_chunks::<8>() {
            ([number], []) => Ok(f64::from_le_bytes(*number)),
            _ => Err(unreadable("loss_sum is not one number")),
        }
    }

    fn bytes(&self, name: &str, elements: Dtype) -> Result<&[u8], BackendError> {
        let tensor = self.tensors.tensor(name).map_err(|error| unreadable(&error.to_string()))?;
        if tensor.dtype() != elements {
            return Err(unreadable(&format!("{name} holds {:?}", tensor.dtype())));
        }
        Ok(tensor.data())
    }
}

fn unreadable(what: &str) -> BackendError {
    BackendError::Internal { message: format!("the torch learner's answer cannot be read: {what}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ComparedAnswer, Comparison, PreferenceLoss};

    fn data() -> Vec<Datum> {
        let tokens = |tokens: &[u32]| vec![Chunk::Tokens(tokens.to_vec())];
        vec![
            Datum {
                model_input: tokens(&[1, 2]),
                target_tokens: vec![2, 3],
                loss_inputs: LossInputs::Policy {
                    logprobs: vec![0.0, -0.5],
                    advantages: vec![0.0, 2.0],
                    mask: vec![0.0, 1.0],
                },
            },
            Datum {
                model_input: tokens(&[4]),
                target_tokens: vec![0],
                loss_inputs: LossInputs::SoftTargets { width: 3, tokens: vec![5, 6, 7], weights: vec![0.5, 0.25, 0.0] },
            },
        ]
    }

    fn ids(file: &SafeTensors<'_>, name: &str) -> Vec<i64> {
        let (numbers, _) = file.tensor(name).unwrap().data().as_chunks::<8>();
        numbers.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect()
    }

    #[test]
    fn datums_follow_each_other_in_lists() {
        let answer = |data| Some(ComparedAnswer { data, reference: -1.5 });
        let comparisons = Comparisons {
            loss: PreferenceLoss::Orpo { beta: 0.1 },
            scale: 1.0,
            likelihood_scale: 0.0,
            list: vec![Comparison { chosen: None, rejected: answer(0..2) }],
        };
        let bytes = CallTensors::of(&data()).unwrap().with_comparisons(&comparisons).to_bytes().unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        assert_eq!(ids(&file, "positions"), [2, 1]);
        assert_eq!(ids(&file, "widths"), [1, 3]);
        assert_eq!(ids(&file, "tokens"), [1, 2, 4]);
        assert_eq!(ids(&file, "targets"), [2, 3, 5, 6, 7]);
        assert_eq!(file.tensor("inputs").unwrap().data(), [POLICY, WEIGHTS]);
        assert_eq!(ids(&file, "comparisons"), [-1, -1, 0, 2]);
        for name in ["weights", "sampler_logprobs", "advantages"] {
            assert_eq!(file.tensor(name).unwrap().shape(), [5], "{name}");
        }
    }

    #[test]
    fn logprobs_come_back_to_their_datums() {
        let numbers: Vec<u8> = (0..5).flat_map(|number| (number as f32).to_le_bytes()).collect();
        let view = TensorView::new(Dtype::F32, vec![5], &numbers).unwrap();
        let body = safetensors::serialize([("logprobs", view)], None).unwrap();
        let data = data();
        let found = PassTensors::read(&data, &body).unwrap();
        assert_eq!(found.of_targets("logprobs").unwrap(), [vec![0.0, 1.0], vec![2.0, 3.0, 4.0]]);
        assert!(found.loss_sum().is_err());
        let fewer = PassTensors::read(&data[..1], &body).unwrap();
        assert!(fewer.of_targets("logprobs").unwrap_err().to_string().contains("5 numbers for 2 targets"));
    }

    #[test]
    fn a_datum_that_cannot_be_sent_is_named() {
        let mut data = data();
        data[1].model_input = vec![Chunk::Image { digest: "abc".into(), expected_tokens: 1 }];
        let error = CallTensors::of(&data).unwrap_err().to_string();
        assert_eq!(error, "datum 1: it holds the image abc, but the torch learner sees no images");
    }
}
