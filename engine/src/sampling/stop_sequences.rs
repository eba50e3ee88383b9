use std::sync::Arc;

use fulgurite_backends::{BackendError, StopSequence};

use crate::grammars::vocabulary::Vocabulary;

/// The stop sequences of one request, and its answer so far.
#[derive(Debug, Default)]
pub(crate) struct StopSequences {
    tokens: Vec<Vec<u32>>,
    texts: Vec<Vec<u8>>,
    /// There where texts are looked for.
    vocabulary: Option<Arc<Vocabulary>>,
    /// What the sampled tokens spell together, as long as texts are looked for.
    written: Vec<u8>,
}

impl StopSequences {
    /// Those of a request, none of them empty. Texts need the model's vocabulary.
    pub(crate) fn new(sequences: &[StopSequence], vocabulary: Option<&Arc<Vocabulary>>) -> Result<Self, BackendError> {
        let mut stops = Self::default();
        for sequence in sequences {
            match sequence {
                StopSequence::Tokens(tokens) => stops.tokens.push(tokens.clone()),
                StopSequence::Text(text) => stops.texts.push(text.clone().into_bytes()),
            }
        }
        if !stops.texts.is_empty() {
            let unknown = || BackendError::InvalidRequest {
                message: "a text cannot end an answer: what this model's tokens spell is not known".into(),
            };
            stops.vocabulary = Some(vocabulary.ok_or_else(unknown)?.clone());
        }
        Ok(stops)
    }

    /// Whether the last of an answer's tokens has completed one. To be called after each token.
    pub(crate) fn end(&mut self, answer: &[u32]) -> bool {
        let completes_text = match (&self.vocabulary, answer.last()) {
            (Some(vocabulary), Some(&last)) => {
                let bytes = vocabulary.bytes(last);
                self.written.extend_from_slice(bytes);
                self.texts.iter().any(|text| is_in_end(text, &self.written, bytes.len()))
            }
            _ => false,
        };
        completes_text || self.tokens.iter().any(|tokens| answer.ends_with(tokens))
    }
}

/// Whether `text` ends in the last `new` bytes of the answer.
fn is_in_end(text: &[u8], written: &[u8], new: usize) -> bool {
    let begin = written.len().saturating_sub(new + text.len() - 1);
    written[begin..].windows(text.len()).any(|window| window == text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::grammars::vocabulary::TokenText;

    fn vocabulary() -> Arc<Vocabulary> {
        let texts = ["a", "b", "ab", "ba", "aab", ""].map(|text| TokenText::Text(text.into()));
        let control = TokenText::Control(b"bb".to_vec());
        Arc::new(texts.into_iter().chain([control, TokenText::Unused]).collect())
    }

    /// Tokens of an answer until it ends.
    fn length(sequences: &[StopSequence], answer: &[u32]) -> Option<usize> {
        let mut stops = StopSequences::new(sequences, Some(&vocabulary())).unwrap();
        (1..=answer.len()).find(|&length| stops.end(&answer[..length]))
    }

    fn any_sequence() -> impl Strategy<Value = StopSequence> {
        prop_oneof![
            proptest::collection::vec(0..8_u32, 1..4).prop_map(StopSequence::Tokens),
            "[ab]{1,5}".prop_map(StopSequence::Text),
        ]
    }

    #[test]
    fn a_text_needs_a_vocabulary_and_tokens_need_none() {
        assert!(StopSequences::new(&[StopSequence::Text("a".into())], None).is_err());
        let mut stops = StopSequences::new(&[StopSequence::Tokens(vec![3, 4])], None).unwrap();
        assert!(!stops.end(&[4]) && !stops.end(&[4, 3]) && stops.end(&[4, 3, 4]));
    }

    #[test]
    fn a_text_is_found_across_tokens_and_inside_of_one() {
        let text = |text: &str| [StopSequence::Text(text.into())];
        assert_eq!(length(&text("bab"), &[2, 2, 1]), Some(2));
        assert_eq!(length(&text("aa"), &[1, 4, 1]), Some(2));
        assert_eq!(length(&text("abbb"), &[0, 1, 5, 6]), Some(4));
        assert_eq!(length(&text("bbb"), &[2, 2, 2]), None);
    }

    proptest! {
        #[test]
        fn an_answer_ends_where_a_naive_search_first_finds_a_sequence(
            sequences in proptest::collection::vec(any_sequence(), 0..4),
            answer in proptest::collection::vec(0..8_u32, 0..30),
        ) {
            let spelt = |tokens: &[u32]| -> Vec<u8> {
                tokens.iter().flat_map(|&token| vocabulary().bytes(token).to_vec()).collect()
            };
            let holds = |answer: &[u32], sequence: &StopSequence| match sequence {
                StopSequence::Tokens(tokens) => answer.windows(tokens.len()).any(|window| window == tokens),
                StopSequence::Text(text) => spelt(answer).windows(text.len()).any(|window| window == text.as_bytes()),
            };
            let naive = (1..=answer.len())
                .find(|&length| sequences.iter().any(|sequence| holds(&answer[..length], sequence)));
            prop_assert_eq!(length(&sequences, &answer), naive);
        }
    }
}
