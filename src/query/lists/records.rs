//! The lists that may be followed: of rollouts, attempts, spans, generations, rewards.

use anyhow::Result;
use fulgurite_lab::queries::listed_rollout::ListedRollout;
use fulgurite_lab::records::matching_rollouts::narrow;
use fulgurite_types::{Attempt, CallDrift, FoundReward, Generation, ListFilter, Span};

use super::list::list;
use crate::query::arguments::{
    AttemptsArguments, GenerationsArguments, RewardsArguments, RolloutsArguments, SpansArguments,
};
use crate::query::open_selected;

/// Lists rollouts, each with its latest attempt and that attempt's last reward.
pub async fn rollouts(mut arguments: RolloutsArguments) -> Result<()> {
    let store = open_selected(&arguments.store, &mut arguments.selection).await?;
    let status = (!arguments.status.is_empty()).then_some(arguments.status);
    let filter = ListFilter { rollout_status_in: status, ..arguments.selection.filter() };
    let filter = narrow(&store, filter, arguments.expression.as_ref()).await?;
    list::<ListedRollout>(&store, &filter, &arguments.list).await
}

/// Lists attempts.
pub async fn attempts(mut arguments: AttemptsArguments) -> Result<()> {
    let store = open_selected(&arguments.store, &mut arguments.selection).await?;
    let filter = ListFilter {
        attempt_status_in: (!arguments.status.is_empty()).then_some(arguments.status),
        worker_id: arguments.worker,
        ..arguments.selection.filter()
    };
    list::<Attempt>(&store, &filter, &arguments.list).await
}

/// Lists spans.
pub async fn spans(mut arguments: SpansArguments) -> Result<()> {
    let store = open_selected(&arguments.store, &mut arguments.selection).await?;
    let filter = ListFilter { attempt_id: arguments.attempt, name: arguments.name, ..arguments.selection.filter() };
    list::<Span>(&store, &filter, &arguments.list).await
}

/// Lists generations.
pub async fn generations(mut arguments: GenerationsArguments) -> Result<()> {
    let store = open_selected(&arguments.store, &mut arguments.selection).await?;
    let filter = ListFilter { attempt_id: arguments.attempt, model: arguments.model, ..arguments.selection.filter() };
    list::<Generation>(&store, &filter, &arguments.list).await
}

/// Lists calls, and how each stands to those before it.
pub async fn drift(mut arguments: GenerationsArguments) -> Result<()> {
    let store = open_selected(&arguments.store, &mut arguments.selection).await?;
    let filter = ListFilter { attempt_id: arguments.attempt, model: arguments.model, ..arguments.selection.filter() };
    list::<CallDrift>(&store, &filter, &arguments.list).await
}

/// Lists rewards.
pub async fn rewards(mut arguments: RewardsArguments) -> Result<()> {
    let store = open_selected(&arguments.store, &mut arguments.selection).await?;
    let filter = ListFilter { attempt_id: arguments.attempt, ..arguments.selection.filter() };
    list::<FoundReward>(&store, &filter, &arguments.list).await
}
