use std::time::Duration;

use fulgurite_backends::{AnswerFault, BackendError, SampleEvent, SampleRequest, SampleStream, Sampled};
use fulgurite_types::Backoff;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::call::call_end::End;
use crate::call::model_call::ModelCall;
use crate::call::sampled_answer::{SampledAnswer, ended_before};
use crate::error::ProxyError;
use crate::observe::telemetry::SamplingClock;
use crate::reply::answer_token::AnswerToken;
use crate::reply::call_event::CallEvent;
use crate::reply::finish_reason::FinishReason;
use crate::reply::flight::Flight;
use crate::state::call_services::CallServices;
use crate::state::deadlines::{Deadline, Deadlines, Limit, SamplingLimits};
use crate::state::interruption::{Interruption, unless_interrupted};

/// How long a host that was told to stop may take to report the weights version of what it had sampled.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// The first pause before a host is tried again that did not answer, and the longest: each is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Whether a failure says that the host is away, which may be back soon.
pub(crate) fn is_away(error: &ProxyError) -> bool {
    matches!(
        error,
        ProxyError::Backend(
            BackendError::Unavailable { .. } | BackendError::BrokenAnswer { fault: AnswerFault::BrokenOff { .. }, .. }
        )
    )
}

/// When a host that is away is tried again, until patience ends.
pub(crate) struct Patience {
    until: Instant,
    backoff: Backoff,
}

impl Patience {
    pub(crate) fn new(patience: Duration) -> Self {
        let now = Instant::now();
        Self {
            until: now.checked_add(patience).unwrap_or(now + patience.min(Duration::from_secs(1 << 30))),
            backoff: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE),
        }
    }

    /// When to try again; `None` once patience has ended.
    pub(crate) fn next(&mut self) -> Option<Instant> {
        let at = Instant::now() + self.backoff.pause();
        (at <= self.until).then_some(at)
    }
}

/// Samples an answer to one request, or continues what was sampled of it before.
pub(crate) struct Sampling<'s> {
    pub(crate) answer: &'s mut SampledAnswer,
    pub(crate) choice: usize,
    pub(crate) flight: &'s Flight,
    pub(crate) clock: Option<SamplingClock>,
    limits: SamplingLimits,
    cut: watch::Receiver<bool>,
    /// While the model is paused, only that of the attempt's budget.
    deadline: Option<Deadline>,
    /// Those of the whole answer, once a host is first asked: what is tried again gets no more time.
    deadlines: Option<Deadlines>,
}

impl<'s> Sampling<'s> {
    pub(crate) fn new(
        services: &CallServices,
        answer: &'s mut SampledAnswer,
        choice: usize,
        flight: &'s Flight,
        clock: Option<SamplingClock>,
    ) -> Self {
        let (limits, cut) = (services.limits, services.shutdown.cut());
        Self { answer, choice, flight, clock, limits, cut, deadline: None, deadlines: None }
    }

    /// Takes tokens until the end, passing each on with what it makes certain. While no host answers it waits, and where one
    /// broke off it goes on from there, on any host: the client sees neither.
    pub(crate) async fn run(mut self, call: &ModelCall) -> End {
        let mut patience = Patience::new(self.limits.host_patience);
        let given = self.answer.tokens().len();
        loop {
            let before = self.answer.tokens().len();
            let end = self.run_once(call, before > given).await;
            let End::Broken(error) = &end else { return end };
            let sampled = self.answer.tokens().len();
            // What a penalty or a constraint would have to know of the part is not known to a host that gets it as prompt.
            let goes_on = sampled == 0 || !call.sampling.depends_on_answer();
            if !is_away(error) || !goes_on {
                return end;
            }
            if let Some(reason) = ended_before(call, self.answer) {
                return End::Finished(reason);
            }
            if sampled > before {
                patience = Patience::new(self.limits.host_patience);
            }
            let Some(at) = patience.next() else { return end };
            let model = &call.model.name;
            tracing::info!(model, %error, sampled, "a model's host is away: the call is held, and tried again");
            if let Err(why) = self.unless_interrupted(sleep_until(at)).await {
                return self.end_of(why);
            }
            self.answer.begin_again();
        }
    }

    /// Takes tokens until the end or until the host breaks off. What `goes_on` has had its first token.
    async fn run_once(&mut self, call: &ModelCall, goes_on: bool) -> End {
        let of_budget = Deadline::of_budget(&call.owner);
        self.deadline = of_budget;
        // A paused model holds its calls back until it is resumed.
        let inside = match self.unless_interrupted(call.gate.enter()).await {
            Ok(inside) => inside,
            Err(why) => return self.end_of(why),
        };
        if let Some(reason) = call.gate.refusal() {
            return End::Broken(ProxyError::WithoutNewWeights { model: call.model.name.clone(), reason });
        }
        let deadlines = *self.deadlines.get_or_insert_with(|| Deadlines::new(self.limits, of_budget));
        self.deadline = Some(if goes_on { deadlines.next_token() } else { deadlines.first_token });
        let sampled = self.answer.tokens().iter().map(|token| token.id).collect();
        let mut stream = match self.unless_interrupted(begin(call, sampled)).await {
            Ok(Ok(stream)) => stream.keeping(inside),
            Ok(Err(error)) => return End::Broken(error.into()),
            // What had not started has no weights versions to report.
            Err(why) => return self.end_of(why),
        };
        loop {
            let (tokens, end) = match self.unless_interrupted(stream.next_events()).await {
                Ok(events) => self.take(events),
                Err(why) => return self.stop(stream, why).await,
            };
            self.clock.iter_mut().for_each(|clock| clock.tokens(tokens.len()));
            if !tokens.is_empty() {
                self.flight.publish_event(self.choice, CallEvent::Tokens(tokens.into()));
            }
            if let Some(end) = end {
                return end;
            }
            self.deadline = Some(deadlines.next_token());
        }
    }

    /// Takes tokens that came together, up to the answer's end if that is among them.
    fn take(&mut self, events: Vec<Sampled>) -> (Vec<AnswerToken>, Option<End>) {
        let mut tokens = Vec::with_capacity(events.len());
        for event in events {
            match event {
                Ok(SampleEvent::Token(token)) => {
                    tokens.push(self.answer.take(token));
                    if self.answer.has_ended() {
                        return (tokens, Some(End::Finished(FinishReason::Stop)));
                    }
                }
                Ok(SampleEvent::WeightsVersions(versions)) => self.answer.set_weights_versions(versions),
                Ok(SampleEvent::CachedPrompt(tokens)) => self.answer.set_cached_tokens(tokens),
                Ok(SampleEvent::Finished(reason)) => return (tokens, Some(End::Finished(reason.into()))),
                Err(error) => return (tokens, Some(End::Broken(error.into()))),
            }
        }
        (tokens, None)
    }

    /// Waits for the host for as long as there is a reason to.
    async fn unless_interrupted<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Interruption> {
        unless_interrupted(work, self.flight, &mut self.cut, self.deadline).await
    }

    /// Stops the sampling, and keeps what had been sampled by then.
    async fn stop(&mut self, mut stream: SampleStream, why: Interruption) -> End {
        stream.stop();
        if matches!(why, Interruption::OutOfTime(_)) {
            return self.end_of(why);
        }
        let until = Instant::now() + LAST_WORDS;
        loop {
            match timeout_at(until, stream.next()).await {
                Ok(Ok(SampleEvent::Token(token))) => {
                    self.clock.iter_mut().for_each(|clock| clock.tokens(1));
                    drop(self.answer.take(token));
                }
                Ok(Ok(SampleEvent::WeightsVersions(versions))) => self.answer.set_weights_versions(versions),
                Ok(Ok(SampleEvent::CachedPrompt(tokens))) => self.answer.set_cached_tokens(tokens),
                Ok(Ok(SampleEvent::Finished(reason))) => return End::Finished(reason.into()),
                Ok(Err(_)) | Err(_) => return self.end_of(why),
            }
        }
    }

    fn end_of(&self, why: Interruption) -> End {
        let deadline = match why {
            Interruption::Abandoned => return End::ClientDisconnected,
            Interruption::ShutDown => return End::ShutDown,
            Interruption::OutOfTime(deadline) => deadline,
        };
        match deadline.limit {
            // As where the budget's tokens end.
            Limit::Budget(_) if !self.answer.tokens().is_empty() => End::Finished(FinishReason::Length),
            Limit::Host { .. } | Limit::Budget(_) => End::Broken(deadline.error()),
        }
    }
}

/// Starts sampling, or continues what was sampled before.
async fn begin(call: &ModelCall, sampled: Vec<u32>) -> Result<SampleStream, BackendError> {
    let request = SampleRequest {
        max_tokens: call.max_tokens.saturating_sub(sampled.len()),
        prompt: [&call.prompt[..], &sampled].concat(),
        sampling: call.sampling.clone(),
        stop_tokens: call.model.renderer.stop_tokens().to_vec(),
        stop_sequences: vec![],
        seed: call.seed,
        top_logprobs: call.top_logprobs,
        stream_interval: call.stream_interval,
        affinity: call.owner.attribution().map(|attribution| attribution.rollout_id.clone()),
    };
    call.model.sampler.sample(request).await
}
