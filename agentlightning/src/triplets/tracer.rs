//! Triplets from the spans of a tracer.

use std::collections::HashMap;

use fulgurite_types::Span;

use super::calls::{CallContent, looks_like_call, traced_content, traced_response_id};
use super::options::TripletOptions;
use super::report::{Reason, Reasons, TripletReport};
use super::rewards::{Call, give_rewards};
use super::tree::SpanTree;
use super::walk::{Place, walk};

/// The triplets among the spans of one attempt that a tracer recorded (AgentOps, Weave, or our own proxy), as
/// Agent-lightning 0.3's `TracerTraceToTriplet` finds them, in the order of the tree.
///
/// A call is a span with a matching name, in a matching agent, outside of rewards, whose response id was not seen before.
pub fn tracer_triplets(spans: &[Span], options: &TripletOptions) -> TripletReport {
    let tree = SpanTree::of(spans, options.repair_hierarchy);
    let mut reasons = Reasons::unreached(spans);
    let mut found: Vec<(Call, Option<String>, CallContent)> = Vec::new();
    let mut seen: HashMap<&str, usize> = HashMap::new();
    walk(&tree, options, |node, span, place| {
        let response_id = traced_response_id(span);
        match passed_over(span, place, response_id, options, &seen, spans) {
            Some((reason, detail)) => {
                reasons.set(node, reason, detail);
                return false;
            }
            None => reasons.clear(node),
        }
        seen.extend(response_id.map(|id| (id, node)));
        let call = Call { nodes: vec![node], response_id: response_id.map(str::to_owned), reward: None };
        found.push((call, place.agent.as_deref().map(str::to_owned), traced_content(span)));
        true
    });
    if options.skip_empty_token_spans {
        found.retain(|(call, _, content)| {
            if let Some(reason) = content.why_no_tokens() {
                reasons.set(call.nodes[0], reason, None);
            }
            content.has_tokens()
        });
    }
    let (mut calls, accounts): (Vec<Call>, Vec<_>) =
        found.into_iter().map(|(call, agent, content)| (call, (agent, content))).unzip();
    reasons.of_rewards(&give_rewards(&tree, &mut calls, options));
    let triplets = calls
        .into_iter()
        .zip(accounts)
        .map(|(call, (agent, content))| {
            content.into_triplet(&spans[call.nodes[0]], call.response_id, agent, call.reward)
        })
        .collect();
    TripletReport { triplets, passed_over: reasons.into_passed_over() }
}

fn passed_over(
    span: &Span,
    place: &Place,
    response_id: Option<&str>,
    options: &TripletOptions,
    seen: &HashMap<&str, usize>,
    spans: &[Span],
) -> Option<(Reason, Option<String>)> {
    if !options.is_call_name(&span.name) {
        return Some(if looks_like_call(span) {
            (Reason::NameDoesNotMatch, Some(format!("the name asked for is `{}`", options.call_name())))
        } else {
            (Reason::NotAModelCall, None)
        });
    }
    place.reason(options).or_else(|| match response_id {
        None => place.within_call.then_some((Reason::NoResponseIdInsideCall, None)),
        Some(id) => {
            let first = seen.get(id)?;
            Some((Reason::DuplicateResponseId, Some(format!("told by span {}", spans[*first].span_id))))
        }
    })
}
