use fulgurite_types::WeightsVersion;
use smallvec::SmallVec;

use crate::remote::weights_label::{WeightsSpan, versions_of_tokens};
use crate::{AnswerFault, SampleEvent, SampleRequest, SampledToken, SamplingEnd};

/// The elements of an array. What hosts stream is of one token at a time, for which no memory is taken.
pub type Elements<T> = SmallVec<[T; 1]>;

/// What servers write where a logprob is not a number, minus infinity, or unknown.
const NO_LOGPROB: f64 = -9999.0;
/// How far above 0 rounding may carry a logprob.
const ROUNDING: f64 = 1e-3;

/// A part of an answer as one event of a wire reports it, not yet believed.
#[derive(Clone, Debug, Default)]
pub struct Piece {
    /// The prompt, where the host repeats it.
    pub prompt: Option<Elements<i64>>,
    /// What was sampled since the last piece.
    pub tokens: Elements<PieceToken>,
    /// The weights behind the whole answer, where the host reports them at its end.
    pub weights: Option<Vec<WeightsSpan>>,
    /// How many of the prompt's tokens the host had in its cache.
    pub cached: Option<usize>,
    /// Why the answer ended with this piece, if it did.
    pub end: Option<SamplingEnd>,
}

impl Piece {
    /// What an event says that tells of usage alone.
    pub(crate) fn of_usage(cached: Option<usize>) -> Option<Self> {
        cached.map(|cached| Self { cached: Some(cached), ..Self::default() })
    }
}

/// A sampled token as a wire reports it.
#[derive(Clone, Debug)]
pub struct PieceToken {
    /// Its id.
    pub id: i64,
    /// Its logprob, if it came.
    pub logprob: Option<f64>,
    /// The likeliest tokens in any order, the sampled one perhaps among them although it is none of them.
    pub alternatives: Elements<(i64, f64)>,
    /// The weights behind it, where the host reports them.
    pub weights_version: Option<WeightsVersion>,
}

/// What may end an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndsAt {
    /// The request's stop tokens alone.
    StopTokens,
    /// Also what the host itself takes for the end of a text.
    HostsEnd,
}

/// An answer under way: pieces in, checked events out.
#[derive(Debug)]
pub struct Answer {
    prompt: Vec<u32>,
    stop_tokens: Vec<u32>,
    max_tokens: usize,
    top_logprobs: usize,
    /// Whether the likeliest token is taken, which is certain then, whatever the host reports.
    is_greedy: bool,
    vocabulary_size: usize,
    ends_at: EndsAt,
    /// The weights behind every token, where that is certain, whatever the host reports.
    certain_weights: Option<WeightsVersion>,
    tokens_so_far: usize,
}

impl Answer {
    /// Nothing of the answer to `request` has come. Token ids are below `vocabulary_size`.
    pub fn new(request: &SampleRequest, vocabulary_size: usize, ends_at: EndsAt) -> Self {
        Self {
            prompt: request.prompt.clone(),
            stop_tokens: request.stop_tokens.clone(),
            max_tokens: request.max_tokens,
            top_logprobs: request.top_logprobs,
            is_greedy: request.sampling.temperature == 0.0,
            vocabulary_size,
            ends_at,
            certain_weights: None,
            tokens_so_far: 0,
        }
    }

    /// With the weights behind every token, where that is certain.
    pub fn of_weights(self, certain_weights: Option<WeightsVersion>) -> Self {
        Self { certain_weights, ..self }
    }

    /// How many tokens have come.
    pub(crate) fn tokens_so_far(&self) -> usize {
        self.tokens_so_far
    }

    /// What a piece says, in order. `Finished` is the last of it if it ends the answer; a stop token does, whether or
    /// not the host says so.
    pub fn take(&mut self, piece: Piece) -> Result<Elements<SampleEvent>, AnswerFault> {
        if let Some(prompt) = &piece.prompt
            && !prompt.iter().copied().eq(self.prompt.iter().map(|&token| i64::from(token)))
        {
            return Err(AnswerFault::PromptDiffers);
        }
        let mut events = Elements::with_capacity(piece.tokens.len());
        let mut at_stop_token = false;
        for token in piece.tokens {
            if at_stop_token {
                return Err(AnswerFault::BeyondStopToken);
            }
            let token = self.check(token)?;
            at_stop_token = self.stop_tokens.contains(&token.id);
            events.push(SampleEvent::Token(token));
        }
        // More than there is cannot have been cached.
        events.extend(piece.cached.filter(|cached| *cached <= self.prompt.len()).map(SampleEvent::CachedPrompt));
        let end = if at_stop_token { Some(SamplingEnd::StopToken) } else { piece.end };
        if let Some(reason) = end {
            if reason == SamplingEnd::StopToken && !at_stop_token && self.ends_at == EndsAt::StopTokens {
                return Err(AnswerFault::NotAtStopToken);
            }
            if self.certain_weights.is_none()
                && let Some(spans) = &piece.weights
            {
                events.push(SampleEvent::WeightsVersions(versions_of_tokens(spans, self.tokens_so_far)?));
            }
            events.push(SampleEvent::Finished(reason));
        }
        Ok(events)
    }

    fn check(&mut self, token: PieceToken) -> Result<SampledToken, AnswerFault> {
        if self.tokens_so_far == self.max_tokens {
            return Err(AnswerFault::TooManyTokens { limit: self.max_tokens });
        }
        let id = self.known(token.id)?;
        let logprob = match token.logprob {
            _ if self.is_greedy => 0.0,
            None => return Err(AnswerFault::NoLogprob { token: token.id }),
            Some(logprob) if logprob.is_finite() && logprob > NO_LOGPROB && logprob <= ROUNDING => logprob.min(0.0),
            Some(logprob) => return Err(AnswerFault::Logprob { token: token.id, logprob }),
        };
        let mut top_logprobs = Vec::new();
        for (id, logprob) in token.alternatives {
            let id = self.known(id)?;
            if logprob.is_nan() || logprob > ROUNDING {
                return Err(AnswerFault::Logprob { token: i64::from(id), logprob });
            }
            // What could not have been sampled is no alternative.
            if logprob > NO_LOGPROB && self.top_logprobs > 0 {
                top_logprobs.push((id, logprob.min(0.0) as f32));
            }
        }
        top_logprobs.sort_by(|a, b| b.1.total_cmp(&a.1));
        top_logprobs.truncate(self.top_logprobs);
        self.tokens_so_far += 1;
        let weights_version = self.certain_weights.or(token.weights_version);
        Ok(SampledToken { id, logprob: logprob as f32, weights_version, top_logprobs })
    }

    fn known(&self, token: i64) -> Result<u32, AnswerFault> {
        match u32::try_from(token) {
            Ok(id) if (id as usize) < self.vocabulary_size => Ok(id),
            _ => Err(AnswerFault::UnknownToken { token, vocabulary_size: self.vocabulary_size }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> SampleRequest {
        SampleRequest { stop_tokens: vec![9], top_logprobs: 2, ..SampleRequest::new(vec![1, 2], 3, 1) }
    }

    fn token(id: i64, logprob: f64) -> PieceToken {
        let alternatives = Elements::from_vec(vec![(id, logprob), (3, -0.5), (4, -9999.0), (5, -0.25)]);
        PieceToken { id, logprob: Some(logprob), alternatives, weights_version: None }
    }

    fn piece(tokens: Vec<PieceToken>, end: Option<SamplingEnd>) -> Piece {
        Piece { tokens: tokens.into(), end, ..Piece::default() }
    }

    fn take(pieces: Vec<Piece>) -> Result<Vec<SampleEvent>, AnswerFault> {
        let mut answer = Answer::new(&request(), 10, EndsAt::StopTokens);
        pieces.into_iter().try_fold(Vec::new(), |mut events, piece| {
            events.extend(answer.take(piece)?);
            Ok(events)
        })
    }

    #[test]
    fn tokens_come_with_their_likeliest_alternatives_and_end_at_the_stop_token() {
        let events = take(vec![piece(vec![token(6, -1.0)], None), piece(vec![token(9, 1e-4)], None)]).unwrap();
        let [SampleEvent::Token(first), SampleEvent::Token(last), SampleEvent::Finished(SamplingEnd::StopToken)] =
            &events[..]
        else {
            panic!("{events:?}");
        };
        assert_eq!((first.id, first.logprob), (6, -1.0));
        assert_eq!(first.top_logprobs, [(5, -0.25), (3, -0.5)]);
        assert_eq!((last.id, last.logprob), (9, 0.0));
        assert_eq!(last.top_logprobs, [(9, 0.0), (5, -0.25)]);
    }

    #[test]
    fn a_greedy_choice_was_certain() {
        let mut request = request();
        request.sampling.temperature = 0.0;
        let mut answer = Answer::new(&request, 10, EndsAt::StopTokens);
        let events = answer.take(piece(vec![token(6, -1.5)], None)).unwrap();
        assert!(matches!(&events[..], [SampleEvent::Token(token)] if token.logprob == 0.0), "{events:?}");
    }

    #[test]
    fn the_hosts_own_end_counts_only_where_it_may() {
        let mut answer = Answer::new(&request(), 10, EndsAt::HostsEnd);
        let events = answer.take(piece(vec![token(6, -1.0)], Some(SamplingEnd::StopToken))).unwrap();
        assert_eq!(events.last(), Some(&SampleEvent::Finished(SamplingEnd::StopToken)));
    }

    #[test]
    fn every_lie_is_named() {
        let one = |token| vec![piece(vec![token], None)];
        let without = |change: fn(&mut PieceToken)| {
            let mut changed = token(6, -1.0);
            change(&mut changed);
            one(changed)
        };
        let unknown = |token| AnswerFault::UnknownToken { token, vocabulary_size: 10 };
        for (pieces, fault) in [
            (one(token(10, -1.0)), unknown(10)),
            (one(token(-1, -1.0)), unknown(-1)),
            (one(token(1 << 33, -1.0)), unknown(1 << 33)),
            (without(|token| token.alternatives[1].0 = 77), unknown(77)),
            (without(|token| token.logprob = None), AnswerFault::NoLogprob { token: 6 }),
            (one(token(6, 0.01)), AnswerFault::Logprob { token: 6, logprob: 0.01 }),
            (one(token(6, -9999.0)), AnswerFault::Logprob { token: 6, logprob: -9999.0 }),
            (one(token(6, f64::NEG_INFINITY)), AnswerFault::Logprob { token: 6, logprob: f64::NEG_INFINITY }),
            (vec![piece(vec![token(9, -1.0), token(6, -1.0)], None)], AnswerFault::BeyondStopToken),
            (vec![piece(vec![token(6, -1.0)], Some(SamplingEnd::StopToken))], AnswerFault::NotAtStopToken),
            (vec![piece(vec![token(6, -1.0); 4], None)], AnswerFault::TooManyTokens { limit: 3 }),
            (vec![Piece { prompt: Some(vec![1].into()), ..Piece::default() }], AnswerFault::PromptDiffers),
            (vec![Piece { prompt: Some(vec![1, 3].into()), ..Piece::default() }], AnswerFault::PromptDiffers),
        ] {
            assert_eq!(take(pieces), Err(fault));
        }
        let nan = take(one(token(6, f64::NAN)));
        assert!(matches!(nan, Err(AnswerFault::Logprob { token: 6, logprob }) if logprob.is_nan()), "{nan:?}");
    }
}
