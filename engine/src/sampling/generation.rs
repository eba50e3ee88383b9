use std::sync::Arc;
use std::time::Instant;

use fulgurite_backends::{BackendError, SampleEvent, SampleRequest, SampledToken, SamplingEnd};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use tokio::sync::mpsc::UnboundedSender;

use crate::grammars::Grammar;
use crate::kernels::BLOCK;
use crate::model::weights::Weights;
use crate::sampling::adjustments::Adjustments;
use crate::sampling::choice::{Choice, choose, not_finite, uniform};
use crate::sampling::decode::Extension;
use crate::sampling::key_value_cache::KeyValueCache;
use crate::sampling::prefix_cache::{BlockTokens, Place, PrefixCache, ROOT};
use crate::sampling::published::Published;
use crate::sampling::stop_sequences::StopSequences;

/// Prompt tokens of one request that go through the model in one step, so that a long prompt does not hold up the rest.
const PREFILL: usize = 256;

/// One request on its way.
#[derive(Debug)]
pub(crate) struct Generation {
    /// Without its prompt.
    request: SampleRequest,
    pub(crate) published: Arc<Published>,
    pub(crate) arrived: Instant,
    sender: UnboundedSender<Result<SampleEvent, BackendError>>,
    /// The prompt's tokens, and those sampled after them.
    tokens: Vec<u32>,
    prompt_tokens: usize,
    /// Of all tokens that the model has read: all but the last sampled one, once the prompt has been read.
    cache: KeyValueCache,
    /// Full blocks of `cache` that the prefix cache has seen, and the place at their end there; no place once it has
    /// not taken a block.
    shared_blocks: usize,
    place: Option<Place>,
    adjustments: Adjustments,
    stops: StopSequences,
    /// Gives one number per sampled token, whatever is done with it: position `i` always gets number `i`.
    generator: ChaCha8Rng,
    /// How many of the prompt's tokens were in the prefix cache.
    cached_tokens: usize,
    finished: bool,
}

/// Memory for choosing a token, kept between steps.
#[derive(Debug, Default)]
pub(crate) struct ChoiceScratch {
    adjusted: Vec<f32>,
    weights: Vec<f32>,
}

impl Generation {
    pub(crate) fn new(
        mut request: SampleRequest,
        grammar: Option<Grammar>,
        stops: StopSequences,
        published: Arc<Published>,
        sender: UnboundedSender<Result<SampleEvent, BackendError>>,
    ) -> Self {
        Self {
            generator: ChaCha8Rng::seed_from_u64(request.seed),
            adjustments: Adjustments::new(&request, grammar),
            stops,
            prompt_tokens: request.prompt.len(),
            tokens: std::mem::take(&mut request.prompt),
            request,
            published,
            arrived: Instant::now(),
            sender,
            cache: KeyValueCache::default(),
            shared_blocks: 0,
            place: Some(ROOT),
            cached_tokens: 0,
            finished: false,
        }
    }

    /// Nothing more is to be done: it has finished, or its receiver is dropped.
    pub(crate) fn is_over(&self) -> bool {
        self.finished || self.sender.is_closed()
    }

    /// The weights that it is sampled from, beside its adapter if it has one.
    pub(crate) fn weights(&self) -> &Arc<Weights> {
        &self.published.policy.weights
    }

    /// Takes from the prefix cache what it has of the prompt from here on. Tells how many tokens that was.
    pub(crate) fn take_prefix(&mut self, prefixes: &mut PrefixCache) -> usize {
        let before = self.cache.len();
        while let Some((place, tokens)) = self.next_step()
            && let Some((next, block)) = prefixes.find(&self.published, place, &tokens)
        {
            self.cache.share(block);
            self.shared_blocks += 1;
            self.place = Some(next);
        }
        let found = self.cache.len() - before;
        self.cached_tokens += found;
        found
    }

    /// The block of the prompt that is read next, and the place that it follows; `None` if no other sequence can be of
    /// help. The prompt's last token is always read, because what comes after it is to be known.
    pub(crate) fn next_step(&self) -> Option<(Place, BlockTokens)> {
        let prompt_left = &self.tokens[self.cache.len().min(self.prompt_tokens)..self.prompt_tokens];
        let (tokens, rest) = prompt_left.split_first_chunk::<BLOCK>()?;
        (!rest.is_empty()).then_some((self.place?, *tokens))
    }

    /// What the model is to read next.
    pub(crate) fn extension(&mut self) -> Extension<'_> {
        let read = self.cache.len();
        let end = if read < self.prompt_tokens { self.prompt_tokens.min(read + PREFILL) } else { self.tokens.len() };
        let adapter = self.published.policy.adapter.as_deref();
        Extension { cache: &mut self.cache, tokens: &self.tokens[read..end], adapter }
    }

    /// Prompt tokens that the model is to read next.
    pub(crate) fn prefill_tokens(&self) -> usize {
        self.prompt_tokens.saturating_sub(self.cache.len()).min(PREFILL)
    }

    /// Gives the prefix cache the blocks that have become full.
    pub(crate) fn give_prefix(&mut self, prefixes: &mut PrefixCache) {
        while let Some(place) = self.place
            && let Some(block) = self.cache.full_blocks().get(self.shared_blocks)
            && let Some(tokens) = self.tokens[self.shared_blocks * BLOCK..].first_chunk::<BLOCK>()
        {
            let inserted = prefixes.insert(&self.published, place, tokens, block);
            self.place = inserted.as_ref().map(|(place, _)| *place);
            if let Some((_, block)) = inserted {
                self.cache.replace(self.shared_blocks, block);
                self.shared_blocks += 1;
            }
        }
    }

    /// Takes the logits of what follows the tokens read, and samples if the whole prompt has been read.
    pub(crate) fn advance(&mut self, logits: &[f32], scratch: &mut ChoiceScratch) {
        if self.cache.len() < self.prompt_tokens {
            return;
        }
        if let Err(error) = self.sample(logits, scratch) {
            self.send(Err(error));
            self.finished = true;
        }
    }

    fn sample(&mut self, logits: &[f32], scratch: &mut ChoiceScratch) -> Result<(), BackendError> {
        let choice = self.choose(logits, scratch)?;
        self.tokens.push(choice.token);
        self.send(Ok(SampleEvent::Token(SampledToken {
            id: choice.token,
            logprob: choice.logprob,
            weights_version: Some(self.published.version),
            top_logprobs: choice.likeliest,
        })));
        match self.stop_reason(choice.token) {
            Some(reason) => {
                self.send(Ok(SampleEvent::CachedPrompt(self.cached_tokens)));
                self.send(Ok(SampleEvent::Finished(reason)));
                self.finished = true;
            }
            None => self.adjustments.note(choice.token)?,
        }
        Ok(())
    }

    fn choose(&mut self, logits: &[f32], scratch: &mut ChoiceScratch) -> Result<Choice, BackendError> {
        let uniform = uniform(&mut self.generator);
        let SampleRequest { sampling, top_logprobs, .. } = &self.request;
        let logits = self.adjustments.apply(logits, &mut scratch.adjusted)?;
        choose(logits, sampling, uniform, *top_logprobs, &mut scratch.weights).ok_or_else(not_finite)
    }

    fn stop_reason(&mut self, token: u32) -> Option<SamplingEnd> {
        let context = self.weights().model.config.max_position_embeddings;
        let answer = &self.tokens[self.prompt_tokens..];
        let full = answer.len() >= self.request.max_tokens || self.tokens.len() >= context;
        if self.stops.end(answer) || self.request.stop_tokens.contains(&token) {
            Some(SamplingEnd::StopToken)
        } else {
            full.then_some(SamplingEnd::Length)
        }
    }

    /// A listener that has gone is found by `is_over` before the next step.
    fn send(&self, event: Result<SampleEvent, BackendError>) {
        let _ = self.sender.send(event);
    }
}
