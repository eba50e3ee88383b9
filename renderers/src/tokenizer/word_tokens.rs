//! The tokens of words that have been met, so that each is merged from its bytes once.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{PoisonError, RwLock};

/// Bytes of the longest word that is kept; what is longer hardly comes again.
const LONGEST: usize = 64;
/// About what a word takes beside itself and its tokens.
const OVERHEAD: usize = 64;

/// Words with their tokens. When there is no more room, all are forgotten.
pub(crate) struct WordTokens {
    known: RwLock<Known>,
    /// Bytes that they may take, about.
    limit: usize,
}

#[derive(Default)]
struct Known {
    /// Where in `tokens` those of a word are.
    places: HashMap<Box<str>, Range<usize>>,
    tokens: Vec<u32>,
    size: usize,
}

impl WordTokens {
    /// None yet.
    pub(crate) fn new(limit: usize) -> Self {
        Self { known: RwLock::default(), limit }
    }

    /// The tokens of words, one after another; `tokenize` computes those of an unknown word.
    pub(crate) fn encode<'t, E>(
        &self,
        words: impl Iterator<Item = &'t str>,
        tokenize: impl Fn(&str) -> Result<Vec<u32>, E>,
    ) -> Result<Vec<u32>, E> {
        let mut tokens = Vec::new();
        let mut met = Vec::new();
        // Whatever is in it is true.
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        for word in words {
            match known.places.get(word) {
                Some(place) => tokens.extend_from_slice(&known.tokens[place.clone()]),
                None => {
                    let start = tokens.len();
                    tokens.extend(tokenize(word)?);
                    met.push((word, start..tokens.len()));
                }
            }
        }
        drop(known);
        met.retain(|(word, _)| word.len() <= LONGEST);
        if !met.is_empty() {
            let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
            met.into_iter().for_each(|(word, place)| known.keep(word, &tokens[place], self.limit));
        }
        Ok(tokens)
    }
}

impl Known {
    fn keep(&mut self, word: &str, tokens: &[u32], limit: usize) {
        if self.places.contains_key(word) {
            return;
        }
        let size = OVERHEAD + word.len() + size_of_val(tokens);
        if self.size + size > limit {
            *self = Self::default();
        }
        let start = self.tokens.len();
        self.tokens.extend_from_slice(tokens);
        self.places.insert(word.into(), start..self.tokens.len());
        self.size += size;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::convert::Infallible;

    use super::*;

    fn tokenize(word: &str) -> Vec<u32> {
        word.bytes().map(u32::from).collect()
    }

    #[test]
    fn a_word_is_tokenised_once_while_there_is_room() {
        let tokenised = Cell::new(0);
        let words = WordTokens::new(3 * (OVERHEAD + 5 * 3));
        let encode = |text: &str| {
            let tokens = words.encode(text.split_inclusive(' '), |word| {
                tokenised.set(tokenised.get() + 1);
                Ok::<_, Infallible>(tokenize(word))
            });
            assert_eq!(tokens.unwrap(), tokenize(text));
            tokenised.take()
        };
        assert_eq!(encode("aa bb cc "), 3);
        assert_eq!(encode("cc aa aa bb "), 0);
        assert_eq!(encode("dd aa "), 1);
        // All were forgotten for the last new one.
        assert_eq!(encode("dd aa "), 1);
        let long = "x".repeat(LONGEST + 1);
        assert_eq!((encode(&long), encode(&long)), (1, 1));
    }

    #[test]
    fn what_cannot_be_tokenised_is_not_kept() {
        let words = WordTokens::new(1 << 20);
        assert_eq!(words.encode(["a", "b"].into_iter(), |_| Err("broken")), Err("broken"));
        assert_eq!(words.encode(["a"].into_iter(), |word| Ok::<_, &str>(tokenize(word))), Ok(vec![97]));
    }
}
