//! Sequences as prime-rl's trainer reads them: its struct `MicroBatch`, as an array of its fields.

use fulgurite_types::{Chunk, Datum, LossInputs};

use super::message_pack::MessagePack;
use crate::BackendError;

/// What the trainer groups its metrics by.
const ENVIRONMENT: &str = "fulgurite";

/// One sequence. The trainer's lists have an entry for each token, which says how that token itself was sampled; a datum's say
/// it of the token after.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct MicroBatch {
    pub(super) input_ids: Vec<u32>,
    pub(super) loss_mask: Vec<bool>,
    pub(super) advantages: Vec<f32>,
    pub(super) inference_logprobs: Vec<f32>,
}

impl MicroBatch {
    pub(super) fn of(datum: &Datum) -> Result<Self, BackendError> {
        let refuse = |message: &str| Err(BackendError::InvalidRequest { message: message.to_owned() });
        datum.validate().map_err(|error| BackendError::InvalidRequest { message: error.to_string() })?;
        let LossInputs::Policy { logprobs, advantages, mask } = &datum.loss_inputs else {
            return refuse("prime-rl's trainer is given sampled tokens with advantages, and a datum has others");
        };
        let mut tokens = Vec::new();
        for chunk in &datum.model_input {
            match chunk {
                Chunk::Tokens(more) => tokens.extend_from_slice(more),
                Chunk::Image { .. } => return refuse("prime-rl's trainer is given no images"),
            }
        }
        let is_next = |place: usize| tokens.get(place + 1).is_none_or(|next| *next == datum.target_tokens[place]);
        if (0..tokens.len()).any(|place| mask[place] > 0.0 && !is_next(place)) {
            return refuse("a trained target is not the token that follows, which prime-rl's trainer cannot be told");
        }
        tokens.extend(datum.target_tokens.last());
        let shifted = |values: &mut dyn Iterator<Item = f32>| std::iter::once(0.0).chain(values).collect::<Vec<f32>>();
        let counting = |values: &[f32]| {
            let of_place = |(&value, &mask): (&f32, &f32)| if mask > 0.0 { value } else { 0.0 };
            shifted(&mut values.iter().zip(mask).map(of_place))
        };
        let scaled: Vec<f32> = advantages.iter().zip(mask).map(|(advantage, mask)| advantage * mask).collect();
        Ok(Self {
            loss_mask: std::iter::once(false).chain(mask.iter().map(|mask| *mask > 0.0)).collect(),
            advantages: counting(&scaled),
            inference_logprobs: counting(logprobs),
            input_ids: tokens,
        })
    }

    /// The same tokens, from which nothing is learnt: every rank reads as many sequences.
    fn idle(&self) -> Self {
        let nothing = vec![0.0; self.input_ids.len()];
        Self {
            loss_mask: vec![false; self.input_ids.len()],
            advantages: nothing.clone(),
            inference_logprobs: nothing,
            input_ids: self.input_ids.clone(),
        }
    }

    fn write(&self, pack: &mut MessagePack, temperature: f32) {
        let length = self.input_ids.len();
        let places: Vec<u32> = (0..length as u32).collect();
        pack.list(9);
        pack.list_of(&self.input_ids, MessagePack::integer);
        pack.list_of(&self.loss_mask, MessagePack::boolean);
        pack.list_of(&self.advantages, MessagePack::float);
        pack.list_of(&self.inference_logprobs, MessagePack::float);
        pack.list_of(&places, MessagePack::integer);
        pack.list_of(&[length as u32], MessagePack::integer);
        pack.list_of(&vec![temperature; length], MessagePack::float);
        pack.list_of(&vec![ENVIRONMENT; length], MessagePack::short_text);
        pack.list_of(&[length as u32], MessagePack::integer);
    }
}

/// The file of each rank: its share of the sequences, every rank with as many.
pub(super) fn rank_files(batches: &[MicroBatch], ranks: usize, temperature: f32) -> Vec<Vec<u8>> {
    let of_rank = |rank: usize| {
        let mut share: Vec<MicroBatch> = batches.iter().skip(rank).step_by(ranks).cloned().collect();
        let idle = batches.first().map(MicroBatch::idle);
        let missing = batches.len().div_ceil(ranks) - share.len();
        share.extend(idle.into_iter().cycle().take(missing));
        let mut pack = MessagePack::default();
        pack.list(share.len());
        share.iter().for_each(|batch| batch.write(&mut pack, temperature));
        pack.into_bytes()
    };
    (0..ranks).map(of_rank).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datum(targets: Vec<u32>) -> Datum {
        Datum {
            model_input: vec![Chunk::Tokens(vec![5, 6, 7])],
            target_tokens: targets,
            loss_inputs: LossInputs::Policy {
                logprobs: vec![-9.0, -0.5, -1.25],
                advantages: vec![4.0, 1.5, -2.0],
                mask: vec![0.0, 1.0, 0.5],
            },
        }
    }

    #[test]
    fn each_token_has_what_it_was_sampled_with() {
        let batch = MicroBatch::of(&datum(vec![0, 7, 8])).unwrap();
        assert_eq!(batch.input_ids, [5, 6, 7, 8]);
        assert_eq!(batch.loss_mask, [false, false, true, true]);
        assert_eq!(batch.advantages, [0.0, 0.0, 1.5, -1.0]);
        assert_eq!(batch.inference_logprobs, [0.0, 0.0, -0.5, -1.25]);
    }

    #[test]
    fn what_the_trainer_cannot_be_told_is_refused() {
        let supervised = LossInputs::Supervised { weights: vec![1.0; 3] };
        for datum in [datum(vec![0, 9, 8]), Datum { loss_inputs: supervised, ..datum(vec![6, 7, 8]) }] {
            assert!(matches!(MicroBatch::of(&datum), Err(BackendError::InvalidRequest { .. })));
        }
    }

    /// `tests/long/prime-rl-types` reads the same bytes by the trainer's own definition.
    #[test]
    fn the_bytes_are_those_that_the_trainers_types_read() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors/prime_rl/rank_0.bin");
        let batch = MicroBatch::of(&datum(vec![0, 7, 151_643])).unwrap();
        let idle = batch.idle();
        assert!(rank_files(&[batch, idle], 1, 0.5)[0] == std::fs::read(path).unwrap());
    }

    #[test]
    fn every_rank_reads_as_many_sequences() {
        let batch = MicroBatch::of(&datum(vec![0, 7, 8])).unwrap();
        let files = rank_files(&vec![batch; 5], 3, 1.0);
        assert_eq!(files.len(), 3);
        assert!(files.iter().all(|file| file[0] == 0x92), "two sequences each");
        assert_ne!(files[2], files[0], "the last one's second is idle");
        assert_eq!(files[0], files[1]);
    }
}
