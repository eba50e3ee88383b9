//! Triplets from spans of several sources at once.

use std::collections::HashMap;
use std::rc::Rc;

use fulgurite_types::Span;
use serde_json::Value;

use super::calls::{
    CallContent, is_litellms, is_ours, litellm_content, litellm_response_id, looks_like_call, traced_content,
    traced_response_id,
};
use super::options::TripletOptions;
use super::report::{Reason, Reasons, TripletReport};
use super::rewards::{Call, give_rewards};
use super::tree::SpanTree;
use super::walk::{ANY_AGENT, Place, walk};

/// One span's account of a model call, and where it stands.
struct Account<'s> {
    node: usize,
    span: &'s Span,
    place: Place,
    content: CallContent,
}

/// The triplets among the spans of one attempt, whoever recorded them: our own proxy, LiteLLM's, tracers in the agent's
/// process, several of them at once. By sequence id.
///
/// Spans with one response id describe one call. Its tokens and logprobs are from our own proxy's span if there is one,
/// which has them from the sampler, else from the first span that knows most of them; messages and metadata are from
/// the first span that has them. A call is an agent's, or a reward's, if one of its spans is. Rewards find calls as in
/// [`tracer_triplets`](super::tracer_triplets). A span is a model call if its name matches, and in any case if it is
/// our proxy's or LiteLLM's.
pub fn any_triplets(spans: &[Span], options: &TripletOptions) -> TripletReport {
    let tree = SpanTree::of(spans, options.repair_hierarchy);
    let mut reasons = Reasons::unreached(spans);
    let mut found: Vec<(Call, Vec<Account<'_>>)> = Vec::new();
    for (response_id, accounts) in accounts_of_calls(&tree, options, &mut reasons) {
        let nodes: Vec<usize> = accounts.iter().map(|account| account.node).collect();
        match why_not(&accounts, options) {
            Some((reason, detail)) => nodes.iter().for_each(|node| reasons.set(*node, reason, detail.clone())),
            None => found.push((Call { nodes, response_id, reward: None }, accounts)),
        }
    }
    found.sort_by_key(|(_, accounts)| accounts.iter().map(|account| account.span.sequence_id).min());
    let (mut calls, accounts): (Vec<Call>, Vec<_>) = found.into_iter().unzip();
    let outcomes = give_rewards(&tree, &mut calls, options);
    let triplets = calls
        .into_iter()
        .zip(accounts)
        .map(|(call, accounts)| {
            let agent = agent(&accounts);
            let (best, others) = best_of(accounts);
            for other in &others {
                let detail = format!("told by span {}", best.span.span_id);
                reasons.set(other.node, Reason::DuplicateResponseId, Some(detail));
            }
            reasons.clear(best.node);
            completed(best.content, others).into_triplet(best.span, call.response_id, agent, call.reward)
        })
        .collect();
    reasons.of_rewards(&outcomes);
    TripletReport { triplets, passed_over: reasons.into_passed_over() }
}

/// The accounts of every call, with the response id that they share.
fn accounts_of_calls<'s>(
    tree: &SpanTree<'s>,
    options: &TripletOptions,
    reasons: &mut Reasons<'_>,
) -> Vec<(Option<String>, Vec<Account<'s>>)> {
    let mut calls: Vec<(Option<String>, Vec<Account<'_>>)> = Vec::new();
    let mut by_id: HashMap<&str, usize> = HashMap::new();
    walk(tree, options, |node, span, place| {
        let is_litellms = is_litellms(span);
        if !(is_litellms || is_ours(span) || options.is_call_name(&span.name)) {
            let detail = looks_like_call(span).then(|| format!("the name asked for is `{}`", options.call_name()));
            let reason = if detail.is_some() { Reason::NameDoesNotMatch } else { Reason::NotAModelCall };
            reasons.set(node, reason, detail);
            return false;
        }
        let response_id = if is_litellms { litellm_response_id(span) } else { traced_response_id(span) };
        let content = if is_litellms { litellm_content(span) } else { traced_content(span) };
        let account = Account { node, span, place: place.clone(), content };
        match response_id {
            None if place.within_call => reasons.set(node, Reason::NoResponseIdInsideCall, None),
            None => calls.push((None, vec![account])),
            Some(id) => {
                let call = *by_id.entry(id).or_insert_with(|| {
                    calls.push((Some(id.to_owned()), Vec::new()));
                    calls.len() - 1
                });
                calls[call].1.push(account);
            }
        }
        true
    });
    calls
}

/// Why a call is not to be a triplet, if it is not.
fn why_not(accounts: &[Account<'_>], options: &TripletOptions) -> Option<(Reason, Option<String>)> {
    let places: Vec<_> = accounts.iter().map(|account| account.place.reason(options)).collect();
    let reason = |wanted: Reason| places.iter().flatten().find(|(reason, _)| *reason == wanted).cloned();
    let outside = places.iter().all(|place| matches!(place, Some((Reason::OutsideAgent, _))));
    reason(Reason::InsideReward).or_else(|| reason(Reason::OutsideAgent).filter(|_| outside)).or_else(|| {
        if !options.skip_empty_token_spans || accounts.iter().any(|account| account.content.has_tokens()) {
            return None;
        }
        accounts.iter().filter_map(|account| account.content.why_no_tokens()).max().map(|reason| (reason, None))
    })
}

/// The innermost agent that one of the accounts names.
fn agent(accounts: &[Account<'_>]) -> Option<String> {
    let agents = || accounts.iter().filter_map(|account| account.place.agent.as_ref());
    agents().find(|agent| ***agent != *ANY_AGENT).or_else(|| agents().next()).map(|agent: &Rc<str>| agent.to_string())
}

/// The account that knows the tokens best, and the others.
fn best_of(mut accounts: Vec<Account<'_>>) -> (Account<'_>, Vec<Account<'_>>) {
    let knows = |account: &Account<'_>| {
        let tokens = account.content.has_tokens();
        (tokens && is_ours(account.span), tokens && account.content.logprobs().is_some(), tokens)
    };
    let best = (0..accounts.len()).rev().max_by_key(|index| knows(&accounts[*index])).unwrap_or_default();
    (accounts.remove(best), accounts)
}

/// The best account's content, with what only others have in place of what it has not.
fn completed(mut content: CallContent, others: Vec<Account<'_>>) -> CallContent {
    for other in others.into_iter().map(|other| other.content) {
        for (value, other) in [
            (&mut content.prompt, other.prompt),
            (&mut content.response, other.response),
            (&mut content.request_facts, other.request_facts),
            (&mut content.response_facts, other.response_facts),
        ] {
            if *value == Value::Null {
                *value = other;
            }
        }
    }
    content
}
