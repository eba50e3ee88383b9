use std::time::Duration;

use fulgurite_backends::{BackendError, SampleEvent, SampleRequest, SampleStream, Sampled};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::Proxy;
use crate::attempt::attribution::Owner;
use crate::attempt::budget::TimeLeft;
use crate::call::model_call::{Call, CallEvent, End, FinishReason};
use crate::error::ProxyError;
use crate::observe::telemetry::SamplingClock;
use crate::reply::flight::Flight;
use crate::reply::sampled_answer::{Answer, Taken};

/// How long a model's host may take for an answer. An answer that takes longer is broken off, and its client told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SamplingLimits {
    /// Until the first token, in which the call may wait for its turn.
    pub first_token: Duration,
    /// From each token to the next.
    pub silence: Duration,
    /// From the beginning to the end.
    pub whole: Duration,
}

impl Default for SamplingLimits {
    fn default() -> Self {
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        Self { first_token: minutes(10), silence: minutes(5), whole: minutes(60) }
    }
}

/// How long a host may be silent at least, though little is waited for: it may be given a model.
const HOSTS_SILENCE: Duration = Duration::from_secs(600);
/// How much later than here a host is given up for its silence: what is told of is the limit of the config.
const HOSTS_ALLOWANCE: Duration = Duration::from_secs(60);

impl SamplingLimits {
    /// How long a connection to a host may be silent.
    pub fn host_silence(&self) -> Duration {
        // Longer than anybody waits, where a clock cannot tell the end.
        let longest = Duration::from_secs(u64::from(u32::MAX));
        let awaited = self.first_token.max(self.silence).min(longest);
        HOSTS_SILENCE.max(awaited + HOSTS_ALLOWANCE)
    }
}

/// How long a host that was told to stop may take to say which weights sampled what it had sampled.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Samples an answer to one request, or goes on behind what was sampled of it before.
pub(crate) struct Sampling<'s> {
    pub(crate) answer: &'s mut Answer,
    pub(crate) choice: usize,
    pub(crate) flight: &'s Flight,
    pub(crate) clock: Option<SamplingClock>,
    proxy: &'s Proxy,
    cut: watch::Receiver<bool>,
    /// While the model is paused, only that of the attempt's budget.
    deadline: Option<Deadline>,
}

/// When the host will have been waited for long enough, and why.
#[derive(Clone, Copy)]
pub(crate) struct Deadline {
    pub(crate) at: Instant,
    limit: Limit,
}

#[derive(Clone, Copy)]
enum Limit {
    /// Of the host, for something that is awaited of it.
    Host { awaited: &'static str, limit: Duration, key: &'static str },
    /// Of the attempt.
    Budget(TimeLeft),
}

impl Deadline {
    fn new(from: Instant, limit: Duration, awaited: &'static str, key: &'static str) -> Self {
        Self { at: after(from, limit), limit: Limit::Host { awaited, limit, key } }
    }

    /// The end of the attempt's time.
    pub(crate) fn of_budget(owner: &Owner) -> Option<Self> {
        let time = owner.attribution()?.allowance.time_left()?;
        Some(Self { at: after(Instant::now(), time.left), limit: Limit::Budget(time) })
    }

    fn or_earlier(self, other: Self) -> Self {
        if other.at < self.at { other } else { self }
    }

    /// What is told when it is over.
    pub(crate) fn error(self) -> ProxyError {
        match self.limit {
            Limit::Host { awaited, limit, key } => {
                ProxyError::SamplerTimeout { awaited, seconds: limit.as_secs_f64(), key }
            }
            Limit::Budget(time) => time.spent(),
        }
    }
}

/// The deadlines of an answer, from when its host is asked.
#[derive(Clone, Copy)]
pub(crate) struct Deadlines {
    limits: SamplingLimits,
    /// The answer's end, or that of the attempt's time.
    pub(crate) whole: Deadline,
    /// The first token, if that is earlier.
    pub(crate) first_token: Deadline,
}

impl Deadlines {
    pub(crate) fn new(limits: SamplingLimits, of_budget: Option<Deadline>) -> Self {
        let now = Instant::now();
        let whole = Deadline::new(now, limits.whole, "the end of the answer", "proxy.call_seconds");
        let whole = of_budget.map_or(whole, |of_budget| whole.or_earlier(of_budget));
        let first = Deadline::new(now, limits.first_token, "the first token", "proxy.first_token_seconds");
        Self { limits, whole, first_token: whole.or_earlier(first) }
    }

    /// The token that follows one of now.
    pub(crate) fn next_token(&self) -> Deadline {
        let silence = Deadline::new(Instant::now(), self.limits.silence, "the next token", "proxy.silence_seconds");
        self.whole.or_earlier(silence)
    }
}

fn after(from: Instant, time: Duration) -> Instant {
    // Longer than anybody waits, where a clock cannot tell the end.
    from.checked_add(time).unwrap_or(from + Duration::from_secs(u64::from(u32::MAX)))
}

/// Why the host is waited for no longer.
enum Interruption {
    /// Nobody listens any more.
    Abandoned,
    /// The server ends.
    Cut,
    OutOfTime(Deadline),
}

impl<'s> Sampling<'s> {
    pub(crate) fn new(
        proxy: &'s Proxy,
        answer: &'s mut Answer,
        choice: usize,
        flight: &'s Flight,
        clock: Option<SamplingClock>,
    ) -> Self {
        Self { answer, choice, flight, clock, proxy, cut: proxy.shared.ending.cut(), deadline: None }
    }

    /// Takes tokens until the end, passing each on with what it makes certain.
    pub(crate) async fn run(mut self, call: &Call) -> End {
        // Whoever pauses a model holds its calls back for as long as that takes.
        let gate = self.proxy.gate(&call.model.name).cloned().unwrap_or_default();
        let of_budget = Deadline::of_budget(&call.owner);
        self.deadline = of_budget;
        let inside = match self.unless_interrupted(gate.enter()).await {
            Ok(inside) => inside,
            Err(why) => return self.end_of(why),
        };
        let deadlines = Deadlines::new(self.proxy.shared.options.sampling_limits, of_budget);
        self.deadline = Some(deadlines.first_token);
        let sampled = self.answer.tokens().iter().map(|token| token.id).collect();
        let mut stream = match self.unless_interrupted(begin(call, sampled)).await {
            Ok(Ok(stream)) => stream.keeping(inside),
            Ok(Err(error)) => return End::Broken(error.into()),
            // What had not begun has nothing to say.
            Err(why) => return self.end_of(why),
        };
        loop {
            let (taken, end) = match self.unless_interrupted(stream.next_events()).await {
                Ok(events) => self.take(events),
                Err(why) => return self.stop(stream, why).await,
            };
            self.clock.iter_mut().for_each(|clock| clock.tokens(taken.len()));
            if !taken.is_empty() {
                self.flight.say(self.choice, CallEvent::Tokens(taken.into()));
            }
            if let Some(end) = end {
                return end;
            }
            self.deadline = Some(deadlines.next_token());
        }
    }

    /// Takes what came together, up to the answer's end if that is there.
    fn take(&mut self, events: Vec<Sampled>) -> (Vec<Taken>, Option<End>) {
        let mut taken = Vec::with_capacity(events.len());
        for event in events {
            match event {
                Ok(SampleEvent::Token(token)) => {
                    taken.push(self.answer.take(token));
                    if self.answer.has_ended() {
                        return (taken, Some(End::Finished(FinishReason::Stop)));
                    }
                }
                Ok(SampleEvent::WeightsVersions(versions)) => self.answer.set_weights_versions(versions),
                Ok(SampleEvent::CachedPrompt(tokens)) => self.answer.set_cached_tokens(tokens),
                Ok(SampleEvent::Finished(reason)) => return (taken, Some(End::Finished(reason.into()))),
                Err(error) => return (taken, Some(End::Broken(error.into()))),
            }
        }
        (taken, None)
    }

    /// Waits for the host for as long as there is a reason to.
    async fn unless_interrupted<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Interruption> {
        let deadline = self.deadline;
        let out_of_time = async {
            match deadline {
                Some(deadline) => {
                    sleep_until(deadline.at).await;
                    deadline
                }
                None => std::future::pending().await,
            }
        };
        tokio::pin!(work, out_of_time);
        loop {
            tokio::select! {
                biased;
                () = self.flight.abandoned() => if self.flight.close_if_abandoned() {
                    return Err(Interruption::Abandoned);
                },
                Ok(_) = self.cut.wait_for(|cut| *cut) => return Err(Interruption::Cut),
                done = &mut work => return Ok(done),
                deadline = &mut out_of_time => return Err(Interruption::OutOfTime(deadline)),
            }
        }
    }

    /// Stops the sampling, and keeps what had been sampled by then.
    async fn stop(mut self, mut stream: SampleStream, why: Interruption) -> End {
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
            Interruption::Abandoned => return End::ClientGone,
            Interruption::Cut => return End::Cut,
            Interruption::OutOfTime(deadline) => deadline,
        };
        match deadline.limit {
            // As where the budget's tokens end.
            Limit::Budget(_) if !self.answer.tokens().is_empty() => End::Finished(FinishReason::Length),
            Limit::Host { .. } | Limit::Budget(_) => End::Broken(deadline.error()),
        }
    }
}

/// Begins to sample, or goes on behind what was sampled before.
async fn begin(call: &Call, sampled: Vec<u32>) -> Result<SampleStream, BackendError> {
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
