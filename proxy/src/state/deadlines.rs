use std::time::Duration;

use tokio::time::Instant;

use crate::attempt::budget::TimeLeft;
use crate::attempt::owner::Owner;
use crate::error::ProxyError;

/// How long a model's host may take for an answer. An answer that takes longer is aborted with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SamplingLimits {
    /// Until the first token, in which the call may wait for its turn.
    pub first_token: Duration,
    /// From each token to the next.
    pub silence: Duration,
    /// From the beginning to the end.
    pub whole: Duration,
    /// How long a call is held while no host answers, and again once an answer was broken off.
    pub host_patience: Duration,
}

impl Default for SamplingLimits {
    fn default() -> Self {
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        Self { first_token: minutes(10), silence: minutes(5), whole: minutes(60), host_patience: minutes(1) }
    }
}

/// How long a host may be silent at least, though little is waited for: it may be given a model.
const HOSTS_SILENCE: Duration = Duration::from_secs(600);

/// How much later than here a host is given up for its silence: errors name the limit of the config.
const HOSTS_ALLOWANCE: Duration = Duration::from_secs(60);

impl SamplingLimits {
    /// How long a connection to a host may be silent.
    pub fn host_silence(&self) -> Duration {
        // Practically forever, for times that a clock cannot represent.
        let longest = Duration::from_secs(u64::from(u32::MAX));
        let awaited = self.first_token.max(self.silence).min(longest);
        HOSTS_SILENCE.max(awaited + HOSTS_ALLOWANCE)
    }
}

/// When the host will have been waited for long enough, and why.
#[derive(Clone, Copy)]
pub(crate) struct Deadline {
    pub(crate) at: Instant,
    pub(crate) limit: Limit,
}

#[derive(Clone, Copy)]
pub(crate) enum Limit {
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
        let time = owner.attribution()?.allowance?.time_left()?;
        Some(Self { at: after(Instant::now(), time.left), limit: Limit::Budget(time) })
    }

    fn or_earlier(self, other: Self) -> Self {
        if other.at < self.at { other } else { self }
    }

    /// The error when it is over.
    pub(crate) fn error(self) -> ProxyError {
        match self.limit {
            Limit::Host { awaited, limit, key } => {
                ProxyError::SamplerTimeout { awaited, seconds: limit.as_secs_f64(), key }
            }
            Limit::Budget(time) => time.spent(),
        }
    }
}

/// The deadlines of an answer, from the request to its host.
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
    // Practically forever, for times that a clock cannot represent.
    from.checked_add(time).unwrap_or(from + Duration::from_secs(u64::from(u32::MAX)))
}
