//! Rows of soft targets: conversations as tokens, with what a teacher would say in each place.

use fulgurite_renderers::WeightedTokens;
use serde::{Deserialize, Serialize};

use super::file::RowReader;
use super::rendering::{RenderRefusal, trainable};
use super::rows::conversation::read_row;
use super::split::sequences::{CutCount, CutOff, Example, Likeliest};
use crate::Truncation;

/// By how much the probabilities of a place may add up to more than 1, as those of hosts that round them do.
const ROUNDING: f64 = 1e-3;

/// A row as it is written.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SoftTargetRow {
    /// The fingerprint of the tokenizer that all ids are of.
    pub(crate) tokenizer: String,
    /// How many of the likeliest tokens a place has at most.
    pub(crate) top_k: usize,
    pub(crate) sequences: Vec<TaughtSequence>,
}

/// A sequence of a conversation.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TaughtSequence {
    pub(crate) tokens: Vec<u32>,
    /// What each token counts; the first one, before which there is nothing, counts nothing.
    pub(crate) weights: Vec<f32>,
    /// What may stand in the place of each token after the first.
    pub(crate) targets: Vec<Likeliest>,
}

/// Reads soft targets for a model.
#[derive(Clone)]
pub(crate) struct SoftTargetReader {
    /// The fingerprint of its tokenizer.
    pub(crate) tokenizer: String,
    /// How many tokens that has.
    pub(crate) vocabulary: usize,
    /// How many of the likeliest tokens a place is taught.
    pub(crate) top_k: usize,
    /// Tokens of a sequence at most.
    pub(crate) max_tokens: Option<usize>,
    /// What becomes of what is longer.
    pub(crate) truncate: Truncation,
    /// What was cut off so far.
    pub(crate) cut: CutCount,
}

impl RowReader for SoftTargetReader {
    type Item = Example;
    const WHAT: &'static str = "soft targets";

    fn read(&self, json: &[u8]) -> Result<Example, RenderRefusal> {
        let row: SoftTargetRow = read_row(json).map_err(RenderRefusal::Wrong)?;
        self.check(&row).map_err(RenderRefusal::Wrong)?;
        let (mut sequences, mut targets) = (Vec::new(), Vec::new());
        for TaughtSequence { tokens, weights, targets: taught } in row.sequences {
            sequences.push(WeightedTokens { tokens, weights });
            targets.push(taught);
        }
        let sequences = trainable(sequences, self.max_tokens, self.truncate, &self.cut)?;
        for (sequence, targets) in sequences.iter().zip(&mut targets) {
            let places = sequence.tokens.len().saturating_sub(1);
            match self.truncate {
                Truncation::Left => drop(targets.drain(..targets.len() - places)),
                Truncation::Right | Truncation::Refuse => targets.truncate(places),
            }
        }
        Ok(Example { sequences, targets, uses: Vec::new() })
    }

    fn cut(&self) -> CutOff {
        self.cut.so_far()
    }
}

impl SoftTargetReader {
    fn check(&self, row: &SoftTargetRow) -> Result<(), String> {
        if row.tokenizer != self.tokenizer {
            let (theirs, ours) = (&row.tokenizer, &self.tokenizer);
            return Err(format!("is of the tokenizer {theirs}, and that of the model that is trained is {ours}"));
        }
        if row.top_k != self.top_k {
            let (theirs, ours) = (row.top_k, self.top_k);
            return Err(format!("has targets of top_k = {theirs}, and [trainer] distillation.top_k is {ours}"));
        }
        if row.sequences.is_empty() {
            return Err("has no sequence".to_owned());
        }
        for (index, sequence) in row.sequences.iter().enumerate() {
            self.check_sequence(sequence).map_err(|message| format!("sequence {index}: {message}"))?;
        }
        Ok(())
    }

    fn check_sequence(&self, TaughtSequence { tokens, weights, targets }: &TaughtSequence) -> Result<(), String> {
        let (count, weighed, taught) = (tokens.len(), weights.len(), targets.len());
        if count != weighed || count != taught + 1 {
            return Err(format!(
                "has {count} tokens, {weighed} weights and targets of {taught} places: a weight for each token, and a place for \
                 each after the first"
            ));
        }
        if let Some(token) = tokens.iter().find(|token| !self.is_known(**token)) {
            return Err(self.unknown(*token));
        }
        if let Some(weight) = weights.iter().find(|weight| !(weight.is_finite() && **weight >= 0.0)) {
            return Err(format!("has the weight {weight}, which must be a finite number of at least 0"));
        }
        for (place, (targets, weight)) in targets.iter().zip(&weights[1..]).enumerate() {
            self.check_place(targets, *weight).map_err(|message| format!("place {place} {message}"))?;
        }
        Ok(())
    }

    fn check_place(&self, targets: &Likeliest, weight: f32) -> Result<(), String> {
        if weight > 0.0 && targets.is_empty() {
            return Err("is trained and has no target".to_owned());
        }
        if targets.len() > self.top_k {
            return Err(format!("has {} targets, and top_k is {}", targets.len(), self.top_k));
        }
        if let Some((token, _)) = targets.iter().find(|(token, _)| !self.is_known(*token)) {
            return Err(self.unknown(*token));
        }
        if let Some((token, logprob)) = targets.iter().find(|(_, logprob)| !logprob.is_finite()) {
            return Err(format!("has the logprob {logprob} of token {token}, which is no finite number"));
        }
        let sum: f64 = targets.iter().map(|(_, logprob)| f64::from(*logprob).exp()).sum();
        if sum > 1.0 + ROUNDING {
            return Err(format!("has probabilities that add up to {sum:.4}, which is more than 1"));
        }
        Ok(())
    }

    fn is_known(&self, token: u32) -> bool {
        (token as usize) < self.vocabulary
    }

    fn unknown(&self, token: u32) -> String {
        format!("has the token {token}, and the vocabulary of the model has {}", self.vocabulary)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::split::sequences::Unusable;
    use super::*;

    fn reader() -> SoftTargetReader {
        SoftTargetReader {
            tokenizer: "t".to_owned(),
            vocabulary: 10,
            top_k: 2,
            max_tokens: None,
            truncate: Truncation::Refuse,
            cut: CutCount::default(),
        }
    }

    fn row() -> Value {
        json!({ "tokenizer": "t", "top_k": 2, "sequences": [
            { "tokens": [1, 2, 3], "weights": [0.0, 0.5, 0.0], "targets": [[[2, -0.5], [9, -1.5]], []] },
        ] })
    }

    #[test]
    fn places_have_the_targets_that_stand_in_the_row_to_the_bit() {
        let logprobs: [f32; 3] = [-0.1, -f32::MIN_POSITIVE, -12.345_678];
        for logprob in logprobs {
            let mut row = row();
            row["sequences"][0]["targets"][0][0][1] = json!(logprob);
            row["sequences"][0]["targets"][0][1][1] = json!(-30.0);
            let example = reader().read(row.to_string().as_bytes()).unwrap();
            assert_eq!(example.targets, [vec![vec![(2, logprob), (9, -30.0)], Vec::new()]]);
            assert_eq!(example.sequences[0].weights, [0.0, 0.5, 0.0]);
        }
        let short = SoftTargetReader { max_tokens: Some(2), truncate: Truncation::Right, ..reader() };
        let example = short.read(row().to_string().as_bytes()).unwrap();
        assert_eq!((example.sequences[0].tokens.len(), example.targets[0].len()), (2, 1));
        let tail = SoftTargetReader { max_tokens: Some(2), truncate: Truncation::Left, ..reader() };
        let mut last = row();
        last["sequences"][0]["weights"] = json!([0.0, 0.0, 0.5]);
        last["sequences"][0]["targets"] = json!([[], [[3, -0.5]]]);
        let example = tail.read(last.to_string().as_bytes()).unwrap();
        assert_eq!((&example.sequences[0].tokens, &example.targets[0]), (&vec![2, 3], &vec![vec![(3, -0.5)]]));
        let refused = SoftTargetReader { max_tokens: Some(2), ..reader() }.read(row().to_string().as_bytes());
        assert!(matches!(refused, Err(RenderRefusal::Unusable(Unusable::TooLong, _))), "{refused:?}");
    }

    #[test]
    fn what_cannot_be_of_the_model_is_told_of_in_words() {
        let place = "/sequences/0/targets/0";
        for (at, value, expected) in [
            ("/tokenizer", json!("u"), "is of the tokenizer u, and that of the model that is trained is t"),
            ("/top_k", json!(3), "has targets of top_k = 3, and [trainer] distillation.top_k is 2"),
            ("/sequences", json!([]), "has no sequence"),
            ("/sequences/0/tokens", json!([1, 2]), "has 2 tokens, 3 weights and targets of 2 places"),
            ("/sequences/0/tokens/2", json!(10), "has the token 10, and the vocabulary of the model has 10"),
            ("/sequences/0/weights/1", json!(-1.0), "has the weight -1, which must be"),
            (place, json!([]), "place 0 is trained and has no target"),
            (place, json!([[1, -3.0], [2, -3.0], [3, -3.0]]), "place 0 has 3 targets, and top_k is 2"),
            (place, json!([[10, -3.0]]), "place 0 has the token 10"),
            (place, json!([[-1, -3.0]]), "is -1, but must be"),
            (place, json!([[1, null]]), "but must be"),
            (place, json!([[1, -0.1], [2, -0.1]]), "place 0 has probabilities that add up to 1.8097"),
        ] {
            let mut row = row();
            *row.pointer_mut(at).unwrap() = value;
            match reader().read(row.to_string().as_bytes()) {
                Err(RenderRefusal::Wrong(message)) => assert!(message.contains(expected), "{row}: {message}"),
                other => panic!("{row}: {other:?}"),
            }
        }
        let infinite = row().to_string().replace("-0.5", "-1e60");
        let message = reader().read(infinite.as_bytes()).unwrap_err();
        assert!(format!("{message:?}").contains("number out of range"), "{message:?}");
    }
}
