use std::sync::Arc;
use std::time::Instant;

use fulgurite_backends::{BackendError, SampleEvent, SampleRequest, SampledToken, StopReason};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use tokio::sync::mpsc::UnboundedSender;

use crate::adjustments::Adjustments;
use crate::choice::{Choice, choose};
use crate::decode::Extension;
use crate::grammars::Grammar;
use crate::key_value_cache::KeyValueCache;
use crate::published::Published;

/// Prompt tokens of one request that go through the model in one step, so that a long prompt does not hold up the rest.
const PREFILL: usize = 256;

/// One request on its way.
#[derive(Debug)]
pub(crate) struct Generation {
    request: SampleRequest,
    pub(crate) published: Arc<Published>,
    pub(crate) arrived: Instant,
    sender: UnboundedSender<Result<SampleEvent, BackendError>>,
    cache: KeyValueCache,
    /// The last sampled token, which is not in the cache yet.
    last: [u32; 1],
    sampled: usize,
    adjustments: Adjustments,
    /// Gives one number per sampled token, whatever is done with it: position `i` always gets number `i`.
    generator: ChaCha8Rng,
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
        request: SampleRequest,
        grammar: Option<Grammar>,
        published: Arc<Published>,
        sender: UnboundedSender<Result<SampleEvent, BackendError>>,
    ) -> Self {
        Self {
            generator: ChaCha8Rng::seed_from_u64(request.seed),
            adjustments: Adjustments::new(&request, grammar),
            request,
            published,
            arrived: Instant::now(),
            sender,
            cache: KeyValueCache::default(),
            last: [0],
            sampled: 0,
            finished: false,
        }
    }

    /// Nothing more is to be done: it has finished, or nobody listens.
    pub(crate) fn is_over(&self) -> bool {
        self.finished || self.sender.is_closed()
    }

    /// What the model is to read next.
    pub(crate) fn extension(&mut self) -> Extension<'_> {
        let fed = self.cache.len();
        let prompt = &self.request.prompt;
        let tokens = if fed < prompt.len() { &prompt[fed..prompt.len().min(fed + PREFILL)] } else { &self.last };
        Extension { cache: &mut self.cache, tokens }
    }

    /// Takes the logits of what follows the tokens read, and samples if the whole prompt has been read.
    pub(crate) fn advance(&mut self, logits: &[f32], scratch: &mut ChoiceScratch) {
        if self.cache.len() < self.request.prompt.len() {
            return;
        }
        if let Err(error) = self.sample(logits, scratch) {
            self.send(Err(error));
            self.finished = true;
        }
    }

    fn sample(&mut self, logits: &[f32], scratch: &mut ChoiceScratch) -> Result<(), BackendError> {
        let choice = self.choose(logits, scratch)?;
        self.last = [choice.token];
        self.sampled += 1;
        self.send(Ok(SampleEvent::Token(SampledToken {
            id: choice.token,
            logprob: choice.logprob,
            weights_version: Some(self.published.version),
            top_logprobs: choice.likeliest,
        })));
        match self.stop_reason(choice.token) {
            Some(reason) => {
                self.send(Ok(SampleEvent::Finished(reason)));
                self.finished = true;
            }
            None => self.adjustments.note(choice.token)?,
        }
        Ok(())
    }

    fn choose(&mut self, logits: &[f32], scratch: &mut ChoiceScratch) -> Result<Choice, BackendError> {
        const UNIT: f64 = 1.0 / (1u64 << 53) as f64;
        let uniform = (self.generator.next_u64() >> 11) as f64 * UNIT;
        let SampleRequest { sampling, top_logprobs, .. } = &self.request;
        let logits = self.adjustments.apply(logits, &mut scratch.adjusted)?;
        choose(logits, sampling, uniform, *top_logprobs, &mut scratch.weights).ok_or_else(|| {
            let message = "the weights give logits that are not finite numbers".into();
            BackendError::Internal { message }
        })
    }

    fn stop_reason(&self, token: u32) -> Option<StopReason> {
        let context = self.published.weights.model.config.max_position_embeddings;
        let full = self.sampled >= self.request.max_tokens || self.request.prompt.len() + self.sampled >= context;
        if self.request.stop_tokens.contains(&token) {
            Some(StopReason::StopToken)
        } else {
            full.then_some(StopReason::Length)
        }
    }

    /// A listener that has gone is found by `is_over` before the next step.
    fn send(&self, event: Result<SampleEvent, BackendError>) {
        let _ = self.sender.send(event);
    }
}
