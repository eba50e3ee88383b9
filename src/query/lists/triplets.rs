//! `fulgurite triplets`.

use anyhow::{Result, bail};
use fulgurite_agentlightning::TripletOptions;
use fulgurite_lab::transfer::attempt_triplets::triplet_report;
use fulgurite_terminal::output;
use fulgurite_terminal::records::triplets::{COLUMNS, reason_lines, reasons_json, row};
use fulgurite_terminal::table::Columns;
use fulgurite_types::Part;
use serde_json::json;

use crate::query::arguments::{Adapter, TripletsArguments};
use crate::query::open_selected;

/// Lists the triplets of rollouts' latest attempts; where there are none, and with `--why`, what became of every span.
pub async fn triplets(mut arguments: TripletsArguments) -> Result<()> {
    let options = options(&arguments)?;
    let store = open_selected(&arguments.store, &mut arguments.selection).await?;
    let named = arguments.selection.rollout_id();
    let part = Part::Newest { limit: (!arguments.all).then_some(arguments.limit), sort_by: None };
    let mut table = Columns::new(&COLUMNS);
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
        output::lines(table.lines());
    }
    for (rollout_id, report) in explained {
        if arguments.json {
            report.iter().for_each(|report| output::lines(reasons_json(&rollout_id, report)));
        } else {
            output::lines(reason_lines(&rollout_id, report.as_ref()));
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
