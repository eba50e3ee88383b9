//! `fulgurite triplets`.

use anyhow::{Result, bail};
use fulgurite_agentlightning::{PassedOver, Triplet, TripletOptions, TripletReport};
use fulgurite_lab::transfer::attempt_triplets::triplet_report;
use fulgurite_terminal::output;
use fulgurite_terminal::table::Columns;
use fulgurite_types::Part;
use serde_json::json;

use super::generations::logprob;
use crate::query::arguments::{Adapter, TripletsArguments};
use crate::query::open_selected;

/// Lists the triplets of rollouts' latest attempts; where there are none, and with `--why`, what became of every span.
pub async fn triplets(mut arguments: TripletsArguments) -> Result<()> {
    let options = options(&arguments)?;
    let store = open_selected(&arguments.store, &mut arguments.selection).await?;
    let named = arguments.selection.rollout_id();
    let part = Part::Newest { limit: (!arguments.all).then_some(arguments.limit), sort_by: None };
    let mut table = Columns::new(&["rollout", "attempt", "response", "prompt", "sampled", "logprob", "reward"]);
    let mut explained = Vec::new();
    for rollout in store.queries().list_rollouts(&arguments.selection.filter(), &part).await?.items {
        let attempt = store.attempts().get(&rollout.rollout_id, "latest").await?;
        let report = match &attempt {
            Some(attempt) => Some(triplet_report(&store, attempt, arguments.adapter.into(), &options).await?),
            None => None,
        };
        for triplet in report.iter().flat_map(|report| &report.triplets) {
            if arguments.json {
                output::line(json!(triplet));
            } else {
                table.push(row(triplet));
            }
        }
        let has_none = report.as_ref().is_none_or(|report| report.triplets.is_empty());
        if arguments.why || (has_none && named.is_some() && !arguments.json) {
            explained.push((rollout.rollout_id, report));
        }
    }
    if !arguments.json {
        table.print();
    }
    for (rollout_id, report) in explained {
        if arguments.json {
            print_reasons(&rollout_id, report.as_ref());
        } else {
            explain(&rollout_id, report.as_ref());
        }
    }
    Ok(())
}

/// What is asked of the adapter. Calls without tokens are of use to nobody but the tracer adapter's readers, who expect
/// them.
fn options(arguments: &TripletsArguments) -> Result<TripletOptions> {
    let flags = [
        ("--agent", arguments.agent.is_some()),
        ("--llm-call", arguments.llm_call.is_some()),
        ("--reward", arguments.reward.is_some()),
    ];
    if let (Adapter::LlmProxy, Some((flag, _))) = (arguments.adapter, flags.iter().find(|(_, is_given)| *is_given)) {
        bail!("{flag} is not for --adapter llm-proxy, which knows its spans by name and their rewards by order");
    }
    Ok(TripletOptions {
        agent_match: arguments.agent.clone(),
        llm_call_match: arguments.llm_call.clone(),
        reward_match: arguments.reward.map(Into::into).unwrap_or_default(),
        skip_empty_token_spans: arguments.adapter != Adapter::Tracer,
        ..TripletOptions::default()
    })
}

fn row(triplet: &Triplet) -> Vec<String> {
    vec![
        triplet.metadata.rollout_id.clone(),
        triplet.metadata.attempt_id.clone(),
        triplet.metadata.response_id.clone().unwrap_or_default(),
        format!("{} tokens", triplet.prompt.token_ids.len()),
        format!("{} tokens", triplet.response.token_ids.len()),
        logprob(triplet.response.logprobs.as_deref()),
        triplet.reward.map_or(String::new(), |reward| format!("{reward:+.3}")),
    ]
}

/// Says for people why a rollout has the triplets that it has.
fn explain(rollout_id: &str, report: Option<&TripletReport>) {
    let Some(report) = report else {
        output::line(format!("\n{rollout_id}: No attempt yet: no runner has taken it."));
        return;
    };
    output::line(format!("\n{rollout_id}: {}", report.explain()));
    let mut table = Columns::new(&["seq", "span", "name", "why it is no triplet"]);
    for passed in &report.passed_over {
        table.push(vec![
            passed.sequence_id.to_string(),
            passed.span_id.clone(),
            passed.name.clone(),
            passed.to_string(),
        ]);
    }
    if !report.passed_over.is_empty() {
        table.print();
    }
}

/// Says the same for programs: an object for each span that is no triplet, told apart by its `reason`.
fn print_reasons(rollout_id: &str, report: Option<&TripletReport>) {
    for passed in report.iter().flat_map(|report| &report.passed_over) {
        let PassedOver { span_id, name, sequence_id, reason, detail } = passed;
        output::line(json!({
            "rollout_id": rollout_id, "span_id": span_id, "name": name, "sequence_id": sequence_id, "reason": reason,
            "detail": detail,
        }));
    }
}
