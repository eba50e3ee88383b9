//! What became of every span.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use fulgurite_adapters::exclusion;
use fulgurite_types::{Generation, Span};
use serde::{Deserialize, Serialize};

use super::triplet::Triplet;

/// Why a span is not a triplet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Nothing in it is a model call's.
    NotAModelCall,
    /// It has the attributes of a model call, but not a name that was requested.
    NameDoesNotMatch,
    /// A model call, but not one of the agent that was requested.
    OutsideAgent,
    /// A model call that made a reward, as a judge does.
    InsideReward,
    /// The same model call as another span, which counts.
    DuplicateResponseId,
    /// Inside another model call and without a response id: it is not known whether it is the same one.
    NoResponseIdInsideCall,
    /// A model call without token ids for its prompt or its answer.
    NoTokenIds,
    /// A model call whose token ids are not a list of whole numbers.
    UnreadableTokenIds,
    /// A reward that a call got.
    RewardGiven,
    /// A reward that no call was there for.
    RewardWithoutCall,
    /// It has the attributes of a reward, but no number.
    UnreadableReward,
    /// Another span has its id.
    RepeatedSpanId,
    /// Its parents form a ring.
    ParentsFormRing,
    /// It has no messages.
    NoMessages,
    /// Its messages are not written as a conversation.
    UnreadableMessages,
}

impl Reason {
    /// Every reason, in the order of declaration.
    pub const ALL: [Self; 15] = [
        Self::NotAModelCall,
        Self::NameDoesNotMatch,
        Self::OutsideAgent,
        Self::InsideReward,
        Self::DuplicateResponseId,
        Self::NoResponseIdInsideCall,
        Self::NoTokenIds,
        Self::UnreadableTokenIds,
        Self::RewardGiven,
        Self::RewardWithoutCall,
        Self::UnreadableReward,
        Self::RepeatedSpanId,
        Self::ParentsFormRing,
        Self::NoMessages,
        Self::UnreadableMessages,
    ];

    /// The name in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotAModelCall => "not_a_model_call",
            Self::NameDoesNotMatch => "name_does_not_match",
            Self::OutsideAgent => "outside_agent",
            Self::InsideReward => "inside_reward",
            Self::DuplicateResponseId => "duplicate_response_id",
            Self::NoResponseIdInsideCall => "no_response_id_inside_call",
            Self::NoTokenIds => "no_token_ids",
            Self::UnreadableTokenIds => "unreadable_token_ids",
            Self::RewardGiven => "reward_given",
            Self::RewardWithoutCall => "reward_without_call",
            Self::UnreadableReward => "unreadable_reward",
            Self::RepeatedSpanId => "repeated_span_id",
            Self::ParentsFormRing => "parents_form_ring",
            Self::NoMessages => "no_messages",
            Self::UnreadableMessages => "unreadable_messages",
        }
    }

    /// The reason in words.
    fn in_words(self) -> &'static str {
        match self {
            Self::NotAModelCall => "not a model call",
            Self::NameDoesNotMatch => "looks like a model call, but its name does not match",
            Self::OutsideAgent => "a model call outside the agent that was asked for",
            Self::InsideReward => "a model call inside a reward",
            Self::DuplicateResponseId => "the same model call as another span",
            Self::NoResponseIdInsideCall => "inside a model call and without a response id of its own",
            Self::NoTokenIds => "a model call without token ids",
            Self::UnreadableTokenIds => "a model call whose token ids are not a list of whole numbers",
            Self::RewardGiven => "a reward that was given to a call",
            Self::RewardWithoutCall => "a reward without a call to give it to",
            Self::UnreadableReward => "a reward without a number",
            Self::RepeatedSpanId => "another span has the same id",
            Self::ParentsFormRing => "its parents form a ring",
            Self::NoMessages => "no messages",
            Self::UnreadableMessages => "messages that cannot be read",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.in_words())
    }
}

/// A span that yields nothing, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassedOver {
    /// The span.
    pub span_id: String,
    /// Its name.
    pub name: String,
    /// Its place in its rollout.
    pub sequence_id: u64,
    /// Why.
    pub reason: Reason,
    /// Details: the pattern, the agent, the other span.
    pub detail: Option<String>,
}

impl fmt::Display for PassedOver {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.detail {
            Some(detail) => write!(formatter, "{} ({detail})", self.reason),
            None => write!(formatter, "{}", self.reason),
        }
    }
}

/// What is known so far of why spans yield nothing.
pub(super) struct Reasons<'s> {
    spans: &'s [Span],
    of_spans: Vec<Option<(Reason, Option<String>)>>,
}

impl<'s> Reasons<'s> {
    /// Spans of which all that is known is that no tree reaches them: another one has their id, or they form a ring.
    pub(super) fn unreached(spans: &'s [Span]) -> Self {
        let last: HashMap<&str, usize> = (0..).zip(spans).map(|(index, span)| (span.span_id.as_str(), index)).collect();
        let reason = |(index, span): (usize, &Span)| {
            let repeated = last[span.span_id.as_str()] != index;
            Some((if repeated { Reason::RepeatedSpanId } else { Reason::ParentsFormRing }, None))
        };
        Self { spans, of_spans: spans.iter().enumerate().map(reason).collect() }
    }

    /// Spans for which one reason is assumed.
    pub(super) fn assume(spans: &'s [Span], reason: Reason) -> Self {
        Self { spans, of_spans: vec![Some((reason, None)); spans.len()] }
    }

    /// Sets what became of rewards, for the spans that have nothing of a model call.
    pub(super) fn of_rewards(&mut self, outcomes: &HashMap<usize, Reason>) {
        for (index, span) in self.spans.iter().enumerate() {
            let unreadable = || span.attributes.keys().any(|key| key.starts_with("agentlightning.reward"));
            let is_plain = self.of_spans[index].as_ref().is_some_and(|(reason, _)| *reason == Reason::NotAModelCall);
            match outcomes.get(&index) {
                _ if !is_plain => {}
                Some(outcome) => self.set(index, *outcome, None),
                None if unreadable() => self.set(index, Reason::UnreadableReward, None),
                None => {}
            }
        }
    }

    /// Sets why a span yields nothing, in place of any earlier reason.
    pub(super) fn set(&mut self, index: usize, reason: Reason, detail: Option<String>) {
        if let Some(of_span) = self.of_spans.get_mut(index) {
            *of_span = Some((reason, detail));
        }
    }

    /// Clears the reason of a span.
    pub(super) fn clear(&mut self, index: usize) {
        if let Some(of_span) = self.of_spans.get_mut(index) {
            *of_span = None;
        }
    }

    /// Every span for which there is a reason.
    pub(super) fn into_passed_over(self) -> Vec<PassedOver> {
        let passed_over = |(span, reason): (&Span, Option<(Reason, Option<String>)>)| {
            let (reason, detail) = reason?;
            Some(PassedOver {
                span_id: span.span_id.clone(),
                name: span.name.clone(),
                sequence_id: span.sequence_id,
                reason,
                detail,
            })
        };
        self.spans.iter().zip(self.of_spans).filter_map(passed_over).collect()
    }
}

/// The triplets among some spans, and for every other span why it is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TripletReport {
    /// The triplets.
    pub triplets: Vec<Triplet>,
    /// The spans that are none, in the order in which they were given.
    pub passed_over: Vec<PassedOver>,
}

impl TripletReport {
    /// The same, with what the store knows of the calls that went through this program's proxy: tokens and logprobs to
    /// the bit, and whether they may be trained.
    #[must_use]
    pub fn with_generations(mut self, generations: &[Generation]) -> Self {
        let by_id: HashMap<&str, &Generation> =
            generations.iter().map(|generation| (generation.generation_id.as_str(), generation)).collect();
        for triplet in &mut self.triplets {
            let response_id = triplet.metadata.response_id.as_deref();
            if let Some(generation) = response_id.and_then(|response_id| by_id.get(response_id)) {
                triplet.take_generation(generation);
            }
        }
        for passed in self.passed_over.iter_mut().filter(|passed| passed.reason == Reason::NoTokenIds) {
            let generation = generations.iter().find(|generation| generation.span_id == passed.span_id);
            passed.detail = generation.and_then(exclusion).map(|cause| cause.as_str().to_owned());
        }
        self
    }

    /// In a sentence or two for people: what was found, and, if it was nothing or nothing that can be trained, what to
    /// do about it.
    pub fn explain(&self) -> String {
        let counted = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        let without_tokens = self.triplets.iter().filter(|triplet| !triplet.has_tokens()).count();
        let without_logprobs = self.triplets.iter().filter(|triplet| triplet.response.logprobs.is_none()).count();
        if self.triplets.is_empty() {
            return format!("No triplets among {}. {}", counted(self.passed_over.len(), "span"), self.likely_cause());
        }
        let mut text = counted(self.triplets.len(), "triplet");
        text.push_str(&format!("; {} passed over", counted(self.passed_over.len(), "span")));
        text.push('.');
        if without_tokens > 0 {
            text.push_str(&format!(" {without_tokens} without token ids, which cannot be trained: {NO_TOKENS}"));
        } else if without_logprobs > 0 {
            text.push_str(&format!(" {without_logprobs} without logprobs, which cannot be trained: {NO_LOGPROBS}"));
        }
        text
    }

    /// The first of these that applies: the nearer a span came to being a triplet, the likelier its cause.
    fn likely_cause(&self) -> String {
        if self.passed_over.is_empty() {
            return NO_SPANS.to_owned();
        }
        let some = |reason| self.passed_over.iter().find(|passed| passed.reason == reason);
        if some(Reason::NoTokenIds).is_some() {
            format!("There are model calls, but without token ids: {NO_TOKENS}")
        } else if let Some(passed) = some(Reason::UnreadableTokenIds) {
            format!(
                "There are model calls, but the token ids of `{}` are not a list of whole numbers: whoever writes them \
                 must write the numbers themselves.",
                passed.name
            )
        } else if let Some(passed) = some(Reason::OutsideAgent) {
            format!(
                "There are model calls, but none of the agent that was asked for: {}. Ask for another, or for none.",
                passed.detail.as_deref().unwrap_or("they belong to no agent")
            )
        } else if some(Reason::InsideReward).is_some() {
            "All model calls are inside rewards, as a judge's are: the agent's own calls are not recorded.".to_owned()
        } else if let Some(passed) = some(Reason::NameDoesNotMatch) {
            format!(
                "Spans named `{}` look like model calls, but {}: ask for that name, or let `auto` find the calls of \
                 every source.",
                passed.name,
                passed.detail.as_deref().unwrap_or("that is not the name asked for")
            )
        } else {
            format!("No span is a model call ({}): {NO_CALLS}", self.names())
        }
    }

    /// The most frequent names, as many as a line holds.
    fn names(&self) -> String {
        const SHOWN: usize = 4;
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for passed in &self.passed_over {
            *counts.entry(&passed.name).or_default() += 1;
        }
        let mut names: Vec<_> = counts.into_iter().collect();
        names.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let more = names.len().saturating_sub(SHOWN);
        let shown: Vec<String> = names.iter().take(SHOWN).map(|(name, count)| format!("{count} × `{name}`")).collect();
        let more = if more == 0 { String::new() } else { format!(" and {more} other names") };
        format!("{}{more}", shown.join(", "))
    }
}

const NO_SPANS: &str = "Either the rollout and attempt are others than was thought, or whoever recorded them writes to \
                        another store: compare the ids and the store's URL.";
const NO_TOKENS: &str = "the model server was not asked for them. Point the agent's base URL at Fulgurite, or have the \
                         server return them (vLLM: `return_token_ids`).";
const NO_LOGPROBS: &str = "the model server was not asked for them. Point the agent's base URL at Fulgurite, or set \
                           `logprobs` in the request.";
const NO_CALLS: &str = "the agent's calls went past the proxy, or its tracer does not record them. Point the agent's \
                        base URL at Fulgurite.";
