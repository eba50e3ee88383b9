//! Triplets from the spans of Agent-lightning's own proxy, which is LiteLLM's.

use std::collections::HashMap;

use fulgurite_store::reward_of;
use fulgurite_types::{Reward, Span};

use super::calls::{CallContent, is_litellms, litellm_content, litellm_response_id, looks_like_call};
use super::report::{Reason, Reasons, TripletReport};

/// A call, and what it has earned.
struct LitellmCall {
    /// The index of its span.
    index: usize,
    content: CallContent,
    reward: Option<Reward>,
}

/// The triplets among the spans of one attempt that LiteLLM's proxy recorded, as Agent-lightning 0.3's
/// `LlmProxyTraceToTriplet` finds them, by sequence id. A reward goes to the latest call without one that has a smaller
/// sequence id. Unlike there, logprobs and messages are kept.
pub fn llm_proxy_triplets(spans: &[Span]) -> TripletReport {
    let mut reasons = Reasons::assume(spans, Reason::NotAModelCall);
    let mut order: Vec<usize> = (0..spans.len()).collect();
    order.sort_by(|one, other| {
        let key = |index: &usize| (spans[*index].sequence_id, spans[*index].start_time.unwrap_or(f64::NEG_INFINITY));
        let ((one, one_time), (other, other_time)) = (key(one), key(other));
        one.cmp(&other).then(one_time.total_cmp(&other_time))
    });
    let mut calls: Vec<LitellmCall> = Vec::new();
    let mut seen: HashMap<&str, usize> = HashMap::new();
    for &index in order.iter().filter(|index| is_litellms(&spans[**index])) {
        let content = litellm_content(&spans[index]);
        let id = litellm_response_id(&spans[index]);
        if let Some(reason) = content.why_no_tokens() {
            reasons.set(index, reason, None);
        } else if let Some(first) = id.and_then(|id| seen.get(id)) {
            reasons.set(index, Reason::DuplicateResponseId, Some(format!("told by span {}", spans[*first].span_id)));
        } else {
            seen.extend(id.map(|id| (id, index)));
            reasons.clear(index);
            calls.push(LitellmCall { index, content, reward: None });
        }
    }
    let mut outcomes = HashMap::new();
    for &index in &order {
        let span = &spans[index];
        if let Some(reward) = reward_of(span) {
            let may_earn =
                |call: &&mut LitellmCall| spans[call.index].sequence_id < span.sequence_id && call.reward.is_none();
            let call = calls.iter_mut().rev().find(may_earn);
            outcomes.insert(index, if call.is_some() { Reason::RewardGiven } else { Reason::RewardWithoutCall });
            if let Some(call) = call {
                call.reward = Some(reward);
            }
        } else if !is_litellms(span) && looks_like_call(span) {
            reasons.set(index, Reason::NameDoesNotMatch, Some("it is not one of LiteLLM's spans".to_owned()));
        }
    }
    reasons.of_rewards(&outcomes);
    let triplet = |call: LitellmCall| {
        let span = &spans[call.index];
        call.content.into_triplet(span, litellm_response_id(span).map(str::to_owned), None, call.reward)
    };
    TripletReport { triplets: calls.into_iter().map(triplet).collect(), passed_over: reasons.into_passed_over() }
}
