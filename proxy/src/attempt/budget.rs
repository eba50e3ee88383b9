use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fulgurite_types::{EpisodeStop, Rollout};
use serde::{Deserialize, Serialize};

use crate::error::ProxyError;
use fulgurite_types::time::now;

/// What the model calls of one attempt may consume together. A request that is sent again is answered from the same call,
/// and consumes nothing. A running call reserves what it may still sample until it has ended; a call to an upstream
/// reserves the limit in its request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Budget {
    /// Model calls; one that asks for several answers is one.
    pub calls: Option<u64>,
    /// Tokens of prompts and answers together, each prompt counted whole.
    pub tokens: Option<u64>,
    /// Tokens of answers, without prompts.
    pub sampled_tokens: Option<u64>,
    /// Tool calls that answers make; the answer that makes the last one may make more.
    pub tool_calls: Option<u64>,
    /// Seconds from the attempt's beginning, in which a call may begin. What is sampled at their end ends there.
    pub seconds: Option<f64>,
}

/// Key of a rollout's metadata under which it has a budget of its own.
const METADATA_KEY: &str = "fulgurite_budget";

impl Budget {
    /// A rollout's budget: this one, or what is less in the rollout's own.
    pub(crate) fn of(self, rollout: &Rollout) -> Result<Self, ProxyError> {
        let Some(own) = rollout.metadata.as_ref().and_then(|metadata| metadata.get(METADATA_KEY)) else {
            return Ok(self);
        };
        let own = Self::deserialize(own).map_err(|error| ProxyError::InvalidRequest {
            message: format!("the metadata's {METADATA_KEY} of the rollout `{}`: {error}", rollout.rollout_id),
            parameter: None,
            code: Some("invalid_budget"),
        })?;
        Ok(self.tightened_by(own))
    }

    fn tightened_by(self, other: Self) -> Self {
        fn lesser<T: PartialOrd>(one: Option<T>, other: Option<T>) -> Option<T> {
            match (one, other) {
                (Some(one), Some(other)) => Some(if other < one { other } else { one }),
                (one, other) => one.or(other),
            }
        }
        Self {
            calls: lesser(self.calls, other.calls),
            tokens: lesser(self.tokens, other.tokens),
            sampled_tokens: lesser(self.sampled_tokens, other.sampled_tokens),
            tool_calls: lesser(self.tool_calls, other.tool_calls),
            seconds: lesser(self.seconds, other.seconds),
        }
    }
}

/// What an attempt may still take, and since when it takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Allowance {
    pub(crate) budget: Budget,
    /// The attempt's beginning, in seconds since the epoch.
    pub(crate) start_time: f64,
}

impl Allowance {
    /// How long the attempt may run, if that is limited.
    pub(crate) fn time_left(&self) -> Option<TimeLeft> {
        let seconds = self.budget.seconds?;
        let left = (self.start_time + seconds - now()).max(0.0);
        Some(TimeLeft { budget: seconds, left: Duration::try_from_secs_f64(left).unwrap_or(Duration::MAX) })
    }
}

/// What is left of an attempt's time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TimeLeft {
    /// Seconds of the whole budget.
    budget: f64,
    pub(crate) left: Duration,
}

impl TimeLeft {
    /// The time left for an attempt without a limit.
    pub(crate) fn spent(&self) -> ProxyError {
        ProxyError::BudgetSpent { of: format!("{} seconds", self.budget), stop: EpisodeStop::RolloutTimeout }
    }
}

/// What the calls of an attempt have taken: those that are recorded, and those under way.
#[derive(Default)]
pub(crate) struct Spending {
    spent: Mutex<Spent>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Spent {
    calls: u64,
    /// Of prompts and answers.
    tokens: u64,
    /// Of answers alone.
    sampled: u64,
    tool_calls: u64,
    /// Tokens that calls under way may still sample.
    reserved: u64,
}

/// A call that was let in. What it may sample is taken until it is dropped; if nothing of it is recorded by then, it has
/// taken nothing.
pub(crate) struct Admission {
    spending: Arc<Spending>,
    prompt_tokens: u64,
    reserved: u64,
    is_recorded: AtomicBool,
    /// Tokens that may be sampled for each of its answers, if that is limited.
    pub(crate) answer_tokens: Option<usize>,
}

/// What admission needs to know of a call.
#[derive(Clone, Copy)]
pub(crate) struct BudgetRequest {
    pub(crate) prompt_tokens: usize,
    pub(crate) choices: usize,
    /// Tokens that each of its answers may have otherwise.
    pub(crate) answer_tokens: usize,
    /// The request's field that holds the prompt.
    pub(crate) prompt_field: &'static str,
}

impl Spending {
    fn spent(&self) -> MutexGuard<'_, Spent> {
        // Two numbers, whole after every statement.
        self.spent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call in that is recorded.
    pub(crate) fn call(&self, prompt_tokens: usize) {
        let mut spent = self.spent();
        spent.calls += 1;
        spent.tokens += prompt_tokens as u64;
    }

    /// Counts tokens in that were sampled and are recorded.
    pub(crate) fn sampled(&self, tokens: usize) {
        self.sampled_anew(0, tokens);
    }

    /// Counts tool calls in that an answer has made.
    pub(crate) fn called_tools(&self, calls: usize) {
        self.spent().tool_calls += calls as u64;
    }

    /// Counts tokens in that were sampled and are recorded in the place of so many.
    pub(crate) fn sampled_anew(&self, before: usize, tokens: usize) {
        let mut spent = self.spent();
        // An answer that is sampled again may be shorter than what it replaces.
        spent.tokens = (spent.tokens + tokens as u64).saturating_sub(before as u64);
        spent.sampled = (spent.sampled + tokens as u64).saturating_sub(before as u64);
    }

    /// Admits a call again that was admitted before, whose answers may have so many more tokens without a limit.
    pub(crate) fn readmit(self: &Arc<Self>, allowance: Allowance, answer_tokens: &[usize]) -> Option<Admission> {
        let Budget { tokens, sampled_tokens, .. } = allowance.budget;
        let mut spent = self.spent();
        let left = [tokens.map(|all| spent.left_of(all)), sampled_tokens.map(|all| spent.left_to_sample(all))];
        let each = left.into_iter().flatten().min()?.checked_div(answer_tokens.len())?;
        let reserved = answer_tokens.iter().map(|requested| each.min(*requested) as u64).sum();
        spent.reserved += reserved;
        Some(Admission {
            spending: Arc::clone(self),
            prompt_tokens: 0,
            reserved,
            is_recorded: AtomicBool::new(true),
            answer_tokens: Some(each),
        })
    }

    /// Lets a call in, unless the budget is spent.
    pub(crate) fn admit(
        self: &Arc<Self>,
        allowance: Allowance,
        request: BudgetRequest,
    ) -> Result<Admission, ProxyError> {
        let BudgetRequest { prompt_tokens, choices, answer_tokens, prompt_field } = request;
        let Budget { calls, tokens, sampled_tokens, tool_calls, .. } = allowance.budget;
        let refuse = |of: String, stop| Err(ProxyError::BudgetSpent { of, stop });
        let mut spent = self.spent();
        if let Some(time) = allowance.time_left().filter(|time| time.left.is_zero()) {
            return Err(time.spent());
        }
        if let Some(calls) = calls.filter(|calls| spent.calls >= *calls) {
            return refuse(format!("{calls} model calls"), EpisodeStop::MaxTurns);
        }
        if let Some(calls) = tool_calls.filter(|calls| spent.tool_calls >= *calls) {
            return refuse(format!("{calls} tool calls"), EpisodeStop::MaxToolCalls);
        }
        let to_sample = match sampled_tokens {
            None => None,
            Some(all) => match spent.left_to_sample(all) / choices {
                0 => return refuse(format!("{all} sampled tokens"), EpisodeStop::MaxSampledTokens),
                each => Some(answer_tokens.min(each)),
            },
        };
        let answer_tokens = match tokens {
            None => None,
            Some(tokens) => {
                let left = spent.left_of(tokens);
                // Each answer needs room for a token.
                let maximum = left.saturating_sub(choices);
                if prompt_tokens > maximum {
                    return Err(ProxyError::TokensSpent { parameter: prompt_field, prompt_tokens, maximum, tokens });
                }
                Some(answer_tokens.min((left - prompt_tokens) / choices))
            }
        };
        let answer_tokens = [answer_tokens, to_sample].into_iter().flatten().min();
        let reserved = answer_tokens.map_or(0, |each| (each * choices) as u64);
        spent.calls += 1;
        spent.tokens += prompt_tokens as u64;
        spent.reserved += reserved;
        let spending = Arc::clone(self);
        Ok(Admission {
            spending,
            prompt_tokens: prompt_tokens as u64,
            reserved,
            is_recorded: AtomicBool::new(false),
            answer_tokens,
        })
    }
}

impl Spent {
    /// What is left of so many tokens.
    fn left_of(&self, tokens: u64) -> usize {
        let left = tokens.saturating_sub(self.tokens).saturating_sub(self.reserved);
        usize::try_from(left).unwrap_or(usize::MAX)
    }

    /// What is left of so many tokens of answers.
    fn left_to_sample(&self, tokens: u64) -> usize {
        let left = tokens.saturating_sub(self.sampled).saturating_sub(self.reserved);
        usize::try_from(left).unwrap_or(usize::MAX)
    }
}

impl Admission {
    /// Something of the call is recorded, and so it counts.
    pub(crate) fn is_recorded(&self) {
        self.is_recorded.store(true, Ordering::Release);
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        let mut spent = self.spending.spent();
        spent.reserved -= self.reserved;
        if !self.is_recorded.load(Ordering::Acquire) {
            spent.calls -= 1;
            spent.tokens -= self.prompt_tokens;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn rollout(own: serde_json::Value) -> Rollout {
        serde_json::from_value(json!({
            "rollout_id": "r", "input": null, "start_time": 0.0, "end_time": null, "mode": null, "resources_id": null,
            "status": "running", "config": {}, "metadata": { "fulgurite_budget": own },
        }))
        .unwrap()
    }

    fn ask(prompt_tokens: usize, choices: usize) -> BudgetRequest {
        BudgetRequest { prompt_tokens, choices, answer_tokens: usize::MAX, prompt_field: "messages" }
    }

    #[test]
    fn a_rollout_may_have_less_than_others_and_never_more() {
        let budget = Budget { calls: Some(5), seconds: Some(2.0), ..Budget::default() };
        let own = budget.of(&rollout(json!({ "calls": 9, "tokens": 100, "seconds": 0.5 }))).unwrap();
        assert_eq!(own, Budget { calls: Some(5), tokens: Some(100), seconds: Some(0.5), ..Budget::default() });
        for wrong in [json!({ "call": 1 }), json!({ "calls": -1 }), json!(7)] {
            let error = budget.of(&rollout(wrong)).unwrap_err().to_string();
            assert!(error.starts_with("the metadata's fulgurite_budget of the rollout `r`: "), "{error}");
        }
    }

    #[test]
    fn a_call_counts_from_its_admission_unless_nothing_of_it_is_recorded() {
        let spending = Arc::new(Spending::default());
        let budget = Budget { calls: Some(1), tokens: Some(10), ..Budget::default() };
        let allowance = Allowance { budget, start_time: 0.0 };
        let failed = spending.admit(allowance, ask(4, 2)).unwrap();
        assert_eq!(failed.answer_tokens, Some(3));
        assert!(spending.admit(allowance, ask(1, 1)).is_err());
        drop(failed);
        let recorded = spending.admit(allowance, ask(9, 1)).unwrap();
        assert_eq!(recorded.answer_tokens, Some(1));
        recorded.is_recorded();
        drop(recorded);
        spending.sampled(1);
        assert_eq!(*spending.spent(), Spent { calls: 1, tokens: 10, sampled: 1, ..Spent::default() });
    }

    #[test]
    fn what_a_call_may_sample_is_nobody_elses_until_it_ends() {
        let spending = Arc::new(Spending::default());
        let allowance = Allowance { budget: Budget { tokens: Some(100), ..Budget::default() }, start_time: 0.0 };
        let admit = |request| spending.admit(allowance, request);
        let first = admit(BudgetRequest { answer_tokens: 20, ..ask(10, 2) }).unwrap();
        let second = admit(BudgetRequest { answer_tokens: 60, ..ask(10, 1) }).unwrap();
        assert_eq!((first.answer_tokens, second.answer_tokens), (Some(20), Some(50 - 10)));
        assert!(admit(ask(1, 1)).is_err(), "nothing is left for a third");
        // Of 40 tokens 7 were sampled.
        spending.sampled(7);
        first.is_recorded();
        drop(first);
        assert_eq!(*spending.spent(), Spent { calls: 2, tokens: 27, sampled: 7, tool_calls: 0, reserved: 40 });
        assert_eq!(admit(ask(3, 1)).unwrap().answer_tokens, Some(33 - 3));
        drop(second);
        assert_eq!(*spending.spent(), Spent { calls: 1, tokens: 17, sampled: 7, ..Spent::default() });
    }

    #[test]
    fn a_call_that_goes_on_takes_what_it_may_still_sample_and_is_no_further_call() {
        let spending = Arc::new(Spending::default());
        let budget = Budget { calls: Some(1), tokens: Some(100), ..Budget::default() };
        let allowance = Allowance { budget, start_time: 0.0 };
        spending.call(40);
        spending.sampled(10);
        let first = spending.readmit(allowance, &[5, usize::MAX]).unwrap();
        assert_eq!((first.answer_tokens, spending.spent().reserved), (Some(25), 30));
        let second = spending.readmit(allowance, &[usize::MAX]).unwrap();
        assert_eq!((second.answer_tokens, spending.spent().reserved), (Some(20), 50));
        assert_eq!(spending.readmit(allowance, &[1]).unwrap().answer_tokens, Some(0));
        drop((first, second));
        // It was sampled again, and broke off sooner.
        spending.sampled_anew(10, 4);
        assert_eq!(*spending.spent(), Spent { calls: 1, tokens: 44, sampled: 4, ..Spent::default() });
        assert!(spending.readmit(allowance, &[]).is_none(), "there is nothing to sample");
        assert!(spending.readmit(Allowance::default(), &[1]).is_none(), "there is no limit");
    }

    proptest! {
        #[test]
        fn calls_at_once_never_take_more_than_the_budget(
            tokens in 0..300_u64,
            steps in proptest::collection::vec((0..40_usize, 1..4_usize, 0..80_usize, 0..100_usize, any::<bool>()), 1..40),
        ) {
            let spending = Arc::new(Spending::default());
            let allowance = Allowance { budget: Budget { tokens: Some(tokens), ..Budget::default() }, start_time: 0.0 };
            let mut under_way = Vec::new();
            for (prompt_tokens, choices, answer_tokens, sampled, ends_first) in steps {
                if let Ok(admission) = spending.admit(allowance, BudgetRequest { answer_tokens, ..ask(prompt_tokens, choices) }) {
                    let most = choices * admission.answer_tokens.unwrap();
                    under_way.push((admission, sampled.min(most)));
                }
                let spent = *spending.spent();
                prop_assert!(spent.tokens + spent.reserved <= tokens);
                if ends_first && !under_way.is_empty() {
                    let (admission, sampled) = under_way.remove(0);
                    admission.is_recorded();
                    spending.sampled(sampled);
                }
            }
            for (admission, sampled) in under_way {
                admission.is_recorded();
                spending.sampled(sampled);
            }
            let spent = *spending.spent();
            prop_assert!(spent.tokens <= tokens && spent.reserved == 0);
        }
    }

    #[test]
    fn what_is_spent_is_told() {
        let spending = Arc::new(Spending::default());
        spending.call(6);
        let refused = |budget| {
            let admitted = spending.admit(Allowance { budget, start_time: 0.0 }, ask(4, 1));
            admitted.map(|_| ()).unwrap_err().to_string()
        };
        let none = Budget::default();
        assert_eq!(refused(Budget { calls: Some(1), ..none }), "the attempt's budget of 1 model calls is spent");
        assert_eq!(refused(Budget { seconds: Some(0.5), ..none }), "the attempt's budget of 0.5 seconds is spent");
        let tokens = "the prompt has 4 tokens, but of the attempt's budget of 10 tokens no more than 3 are left for it";
        assert_eq!(refused(Budget { tokens: Some(10), ..none }), tokens);
    }

    #[test]
    fn answers_and_their_tool_calls_have_limits_of_their_own_and_name_how_the_episode_ended() {
        let spending = Arc::new(Spending::default());
        let budget = Budget { sampled_tokens: Some(10), tool_calls: Some(2), ..Budget::default() };
        let allowance = Allowance { budget, start_time: 0.0 };
        let first = spending.admit(allowance, ask(1_000_000, 2)).unwrap();
        assert_eq!(first.answer_tokens, Some(5), "prompts are free");
        first.is_recorded();
        drop(first);
        spending.sampled(8);
        spending.called_tools(1);
        let stop = |ask| match spending.admit(allowance, ask) {
            Err(ProxyError::BudgetSpent { of, stop }) => (of, stop),
            _ => unreachable!(),
        };
        assert_eq!(stop(ask(1, 3)), ("10 sampled tokens".to_owned(), EpisodeStop::MaxSampledTokens));
        assert_eq!(spending.admit(allowance, ask(1, 1)).unwrap().answer_tokens, Some(2));
        spending.called_tools(3);
        assert_eq!(stop(ask(1, 1)), ("2 tool calls".to_owned(), EpisodeStop::MaxToolCalls));
        assert_eq!(spending.readmit(allowance, &[100]).unwrap().answer_tokens, Some(2));
    }
}
