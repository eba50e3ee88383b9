//! What an update made of each token that it trained, as bytes: a file of an update's tokens.
//!
//! `fulgtok2`, the run's id, the number of calls, and of each call its id and how many tokens it sampled; then four columns over
//! all calls, little-endian: advantages (`f32`), logprobs under the weights that the update began with (`f32`), entropies of the
//! distributions that the tokens are predicted by (`f32`, NaN where nobody told one), and what became of each token (`u8`). An id
//! is its length (`u32`) and so many bytes; numbers are `u32`. Where no call has entropies a file begins with `fulgtok1`, and has
//! no such column.

use super::packing::{pack_logprobs, unpack_logprobs};

/// Which columns a file has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Columns {
    /// Advantages, logprobs and fates.
    WithoutEntropies,
    /// Entropies too.
    WithEntropies,
}

impl Columns {
    /// What a file begins with.
    fn beginning(self) -> &'static [u8; 8] {
        match self {
            Self::WithoutEntropies => b"fulgtok1",
            Self::WithEntropies => b"fulgtok2",
        }
    }

    /// Bytes that a token takes.
    fn token_bytes(self) -> usize {
        match self {
            Self::WithoutEntropies => 9,
            Self::WithEntropies => 13,
        }
    }

    /// Those of a file, and what follows its beginning.
    fn read(bytes: &[u8]) -> Option<(Self, &[u8])> {
        [Self::WithoutEntropies, Self::WithEntropies]
            .into_iter()
            .find_map(|columns| Some((columns, bytes.strip_prefix(columns.beginning())?)))
    }
}

/// What became of a token of a call that was trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum TokenFate {
    /// Nothing: it was no target.
    NotTrained = 0,
    /// It was trained.
    Trained = 1,
    /// Its ratio was outside of what the importance mask lets through.
    Masked = 2,
    /// Its ratio, or for a loss of whole sequences that of its sequence, was outside of the loss's bounds.
    Clipped = 3,
}

impl TokenFate {
    fn from_byte(byte: u8) -> Option<Self> {
        [Self::NotTrained, Self::Trained, Self::Masked, Self::Clipped].into_iter().find(|fate| *fate as u8 == byte)
    }
}

/// What an update made of a call's sampled tokens, one entry for each in every list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrainedTokens {
    /// Whose tokens.
    pub generation_id: String,
    /// What the loss weighed each with, before it was divided by a count of tokens or rollouts.
    pub advantages: Vec<f32>,
    /// Logprobs under the weights that the optimizer's step began with.
    pub logprobs: Vec<f32>,
    /// Entropies of the distributions that predict them under those weights, in nats, exact over the vocabulary; NaN of tokens that
    /// were not trained. `None` if the model host does not tell them.
    pub entropies: Option<Vec<f32>>,
    /// What became of each.
    pub fates: Vec<TokenFate>,
}

/// Where the file of an update stands in the directory of its run.
pub fn trained_tokens_file(step: u64) -> String {
    format!("tokens/{step:06}.tokens")
}

/// The bytes of a file. Of calls whose lists differ in length, what all of them have is kept; a call without entropies among others
/// has NaN for each.
pub fn pack_trained_tokens(run_id: &str, calls: &[TrainedTokens]) -> Vec<u8> {
    let count = |call: &TrainedTokens| {
        let entropies = call.entropies.as_ref().map_or(usize::MAX, Vec::len);
        call.advantages.len().min(call.logprobs.len()).min(entropies).min(call.fates.len())
    };
    let all: usize = calls.iter().map(count).sum();
    let have_entropies = calls.iter().any(|call| call.entropies.is_some());
    let columns = if have_entropies { Columns::WithEntropies } else { Columns::WithoutEntropies };
    let mut packed = Vec::with_capacity(columns.token_bytes() * all + 64 * (calls.len() + 1));
    packed.extend_from_slice(columns.beginning());
    push_text(&mut packed, run_id);
    push_number(&mut packed, calls.len());
    for call in calls {
        push_text(&mut packed, &call.generation_id);
        push_number(&mut packed, count(call));
    }
    calls.iter().for_each(|call| packed.extend(pack_logprobs(&call.advantages[..count(call)])));
    calls.iter().for_each(|call| packed.extend(pack_logprobs(&call.logprobs[..count(call)])));
    if columns == Columns::WithEntropies {
        calls.iter().for_each(|call| match &call.entropies {
            Some(entropies) => packed.extend(pack_logprobs(&entropies[..count(call)])),
            None => packed.extend(pack_logprobs(&vec![f32::NAN; count(call)])),
        });
    }
    calls.iter().for_each(|call| packed.extend(call.fates[..count(call)].iter().map(|fate| *fate as u8)));
    packed
}

fn push_number(packed: &mut Vec<u8>, number: usize) {
    packed.extend_from_slice(&u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes());
}

fn push_text(packed: &mut Vec<u8>, text: &str) {
    push_number(packed, text.len());
    packed.extend_from_slice(text.as_bytes());
}

/// Reads from a run's file the calls that are wanted; `None` if the bytes are no such file, or another run's.
pub fn unpack_trained_tokens(
    bytes: &[u8],
    run_id: &str,
    is_wanted: impl Fn(&str) -> bool,
) -> Option<Vec<TrainedTokens>> {
    let (columns, mut rest) = Columns::read(bytes)?;
    if take_text(&mut rest)? != run_id {
        return None;
    }
    let calls = take_number(&mut rest)?;
    let (mut wanted, mut all) = (Vec::new(), 0usize);
    for _ in 0..calls {
        let (generation_id, count) = (take_text(&mut rest)?, take_number(&mut rest)?);
        if is_wanted(generation_id) {
            wanted.push((generation_id.to_owned(), all..all.checked_add(count)?));
        }
        all = all.checked_add(count)?;
    }
    if Some(rest.len()) != all.checked_mul(columns.token_bytes()) {
        return None;
    }
    let (advantages, rest) = rest.split_at(4 * all);
    let (logprobs, rest) = rest.split_at(4 * all);
    let (entropies, fates) = match columns {
        Columns::WithoutEntropies => (None, rest),
        Columns::WithEntropies => {
            let (entropies, fates) = rest.split_at(4 * all);
            (Some(entropies), fates)
        }
    };
    let of_call = |(generation_id, range): (String, std::ops::Range<usize>)| {
        let words = 4 * range.start..4 * range.end;
        let floats = |column: &[u8]| unpack_logprobs(column.get(words.clone())?);
        let entropies = match entropies {
            Some(column) => Some(floats(column)?),
            None => None,
        };
        Some(TrainedTokens {
            generation_id,
            advantages: floats(advantages)?,
            logprobs: floats(logprobs)?,
            entropies,
            fates: fates.get(range)?.iter().map(|byte| TokenFate::from_byte(*byte)).collect::<Option<_>>()?,
        })
    };
    wanted.into_iter().map(of_call).collect()
}

fn take_number(rest: &mut &[u8]) -> Option<usize> {
    let (number, after) = rest.split_first_chunk::<4>()?;
    *rest = after;
    usize::try_from(u32::from_le_bytes(*number)).ok()
}

fn take_text<'b>(rest: &mut &'b [u8]) -> Option<&'b str> {
    let length = take_number(rest)?;
    let (text, after) = rest.split_at_checked(length)?;
    *rest = after;
    std::str::from_utf8(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls() -> [TrainedTokens; 2] {
        let first = TrainedTokens {
            generation_id: "g1".into(),
            advantages: vec![0.5, -0.5],
            logprobs: vec![-1.0, -2.5],
            entropies: Some(vec![0.75, 1.25]),
            fates: vec![TokenFate::Trained, TokenFate::Clipped],
        };
        let second = TrainedTokens {
            generation_id: "g2".into(),
            advantages: vec![0.0],
            logprobs: vec![-0.25],
            entropies: Some(vec![0.0]),
            fates: vec![TokenFate::Masked],
        };
        [first, second]
    }

    #[test]
    fn what_is_written_is_read_back_call_by_call() {
        let bytes = pack_trained_tokens("run", &calls());
        assert_eq!(unpack_trained_tokens(&bytes, "run", |_| true), Some(calls().to_vec()));
        assert_eq!(unpack_trained_tokens(&bytes, "run", |id| id == "g2"), Some(calls()[1..].to_vec()));
        assert_eq!(unpack_trained_tokens(&bytes, "other", |_| true), None, "another run's");
        // 8 and 4 + 3 bytes before the calls, 4 for their number, 4 + 2 + 4 for each, and thirteen for each of three tokens.
        assert_eq!(bytes.len(), 8 + 7 + 4 + 2 * 10 + 3 * 13);
    }

    #[test]
    fn a_file_from_before_entropies_were_kept_is_read() {
        let mut old = b"fulgtok1\x03\0\0\0run\x02\0\0\0\x02\0\0\0g1\x02\0\0\0\x02\0\0\0g2\x01\0\0\0".to_vec();
        for number in [0.5f32, -0.5, 0.0, -1.0, -2.5, -0.25] {
            old.extend(number.to_le_bytes());
        }
        old.extend([1, 3, 2]);
        let without = calls().map(|call| TrainedTokens { entropies: None, ..call });
        assert_eq!(unpack_trained_tokens(&old, "run", |_| true), Some(without.to_vec()));
        assert_eq!(pack_trained_tokens("run", &without), old, "where no host tells entropies");
    }

    #[test]
    fn a_call_without_entropies_among_others_has_none_that_are_numbers() {
        let [first, second] = calls();
        let bytes = pack_trained_tokens("run", &[first.clone(), TrainedTokens { entropies: None, ..second }]);
        let read = unpack_trained_tokens(&bytes, "run", |_| true).unwrap();
        assert_eq!(read[0], first);
        assert!(read[1].entropies.as_ref().unwrap()[0].is_nan());
        assert_eq!(read[1].fates, [TokenFate::Masked]);
    }

    #[test]
    fn what_is_cut_off_or_longer_is_no_file() {
        let bytes = pack_trained_tokens("run", &calls());
        for length in 0..bytes.len() {
            assert_eq!(unpack_trained_tokens(&bytes[..length], "run", |_| true), None, "{length}");
        }
        assert_eq!(unpack_trained_tokens(&[bytes.as_slice(), &[0]].concat(), "run", |_| true), None);
    }
}
