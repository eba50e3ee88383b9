//! Which call a reward among the spans is for.

use std::collections::HashMap;

use fulgurite_store::reward_of;
use fulgurite_types::{Object, Reward, Span};
use serde_json::Value;

use super::options::{RewardMatch, TripletOptions};
use super::report::Reason;
use super::tree::SpanTree;

/// The attribute by which links usually name a call.
const RESPONSE_ID: &str = "gen_ai.response.id";

/// A model call that may earn something.
#[derive(Clone, Debug)]
pub(super) struct Call {
    /// The nodes of its spans.
    pub nodes: Vec<usize>,
    /// The id of its response.
    pub response_id: Option<String>,
    /// What it has earned.
    pub reward: Option<Reward>,
}

impl Call {
    fn start(&self, tree: &SpanTree<'_>) -> f64 {
        self.nodes.iter().map(|node| tree.start(*node)).fold(f64::INFINITY, f64::min)
    }

    /// The earliest end among its spans.
    fn end(&self, tree: &SpanTree<'_>) -> f64 {
        self.nodes.iter().map(|node| tree.end(*node)).fold(f64::INFINITY, f64::min)
    }
}

/// Whether a span makes a reward: it holds one, or is the operation that computes one.
pub(super) fn is_reward(span: &Span) -> bool {
    let is_operation = || {
        span.name == "agentlightning.operation"
            && span.attributes.get("agentlightning.operation.name").is_some_and(|name| name == "agentlightning.reward")
    };
    reward_of(span).is_some() || is_operation()
}

/// Gives the rewards of the tree to the calls, and gives the outcome of every span with a reward.
///
/// With links followed, a reward whose links name a call, or a span around calls, goes there before all others are given:
/// to the last of these calls that had ended, or else the last. Of several for one call the last one counts.
pub(super) fn give_rewards(
    tree: &SpanTree<'_>,
    calls: &mut [Call],
    options: &TripletOptions,
) -> HashMap<usize, Reason> {
    let order = tree.preorder();
    let mut rewards: HashMap<usize, Reward> =
        order.iter().filter_map(|node| Some((*node, reward_of(tree.span(*node)?)?))).collect();
    let mut in_time = order.clone();
    in_time.sort_by(|one, other| {
        let time = |node: &usize| if rewards.contains_key(node) { tree.moment(*node) } else { tree.start(*node) };
        time(one).total_cmp(&time(other))
    });
    let mut outcomes = HashMap::new();
    let mut give = |calls: &mut [Call], node: usize, call: Option<usize>, reward: Reward| {
        outcomes.insert(node, if call.is_some() { Reason::RewardGiven } else { Reason::RewardWithoutCall });
        if let Some(call) = call {
            calls[call].reward = Some(reward);
        }
    };
    if options.follow_links {
        for &node in &in_time {
            let links = tree.span(node).map(|span| links(&span.attributes)).unwrap_or_default();
            if !links.is_empty()
                && let Some(reward) = rewards.remove(&node)
            {
                give(calls, node, linked_call(tree, calls, &links, tree.moment(node)), reward);
            }
        }
    }
    let groups: Vec<Vec<usize>> = match options.reward_match {
        RewardMatch::FirstOccurrence => vec![in_time],
        RewardMatch::FirstSibling => order.iter().map(|node| tree.children(*node).to_vec()).collect(),
    };
    let call_of: HashMap<usize, usize> =
        (0..).zip(calls.iter()).flat_map(|(call, found)| found.nodes.iter().map(move |node| (*node, call))).collect();
    for group in groups {
        let mut earlier: Vec<usize> = Vec::new();
        for node in group {
            earlier.extend(call_of.get(&node));
            if let Some(reward) = rewards.remove(&node) {
                let may_earn =
                    |call: &usize| calls[*call].reward.is_none() && calls[*call].end(tree) <= tree.moment(node);
                let call = earlier.iter().rev().copied().find(may_earn);
                give(calls, node, call, reward);
            }
        }
    }
    for (node, reward) in rewards {
        give(calls, node, None, reward);
    }
    outcomes
}

/// The `key_match` and `value_match` of every link.
fn links<'a>(attributes: &'a Object) -> Vec<(&'a str, &'a str)> {
    let link = |(key, key_match): (&String, &'a Value)| -> Option<(&'a str, &'a str)> {
        let prefix = key.strip_suffix(".key_match").filter(|prefix| prefix.starts_with("agentlightning.link."))?;
        Some((key_match.as_str()?, attributes.get(&format!("{prefix}.value_match"))?.as_str()?))
    };
    attributes.iter().filter_map(link).collect()
}

/// The call that all links name, or that is in a span that they name.
fn linked_call(tree: &SpanTree<'_>, calls: &[Call], links: &[(&str, &str)], time: f64) -> Option<usize> {
    let is_named = |call: &Call| {
        let by_response =
            links.iter().all(|(key, value)| *key == RESPONSE_ID && call.response_id.as_deref() == Some(value));
        let by_span = |node| tree.span(node).is_some_and(|span| links.iter().all(|link| is_named_by(span, link)));
        by_response || call.nodes.iter().any(|node| tree.lineage(*node).any(by_span))
    };
    let rank = |call: &Call| (call.end(tree) <= time, call.start(tree));
    let named = (0..).zip(calls).filter(|(_, call)| is_named(call));
    named
        .max_by(|(_, one), (_, other)| {
            let ((one_ended, one_start), (other_ended, other_start)) = (rank(one), rank(other));
            one_ended.cmp(&other_ended).then(one_start.total_cmp(&other_start))
        })
        .map(|(call, _)| call)
}

fn is_named_by(span: &Span, (key, value): &(&str, &str)) -> bool {
    match *key {
        "trace_id" => span.trace_id == *value,
        "span_id" => span.span_id == *value,
        attribute => match span.attributes.get(attribute) {
            None => false,
            Some(Value::String(text)) => text == value,
            Some(other) => {
                let written = other.to_string();
                written == *value
            }
        },
    }
}
