//! Which rollouts of a store an expression means.

use anyhow::Result;
use fulgurite_store::Store;
use fulgurite_trainer::Record;
use fulgurite_types::{ListFilter, Rollout, RolloutExpression, RolloutFacts, RolloutFilter, RolloutRecord};

/// Hands over every rollout with all that was recorded of it, in the order in which they were made: those of one run or all, and
/// of those the ones that the expression means, if there is one.
pub async fn each_record(
    store: &Store,
    run_id: Option<&str>,
    expression: Option<&RolloutExpression>,
    take: impl FnMut(RolloutRecord),
) -> Result<()> {
    let filter = RolloutFilter { run_id: run_id.map(str::to_owned), ..RolloutFilter::default() };
    each_considered(store, &filter, |_| true, expression, take).await
}

/// The ids of those that `is_considered` and that the expression means, in the order in which they were made.
pub async fn matching(
    store: &Store,
    expression: &RolloutExpression,
    is_considered: impl Fn(&Rollout) -> bool,
) -> Result<Vec<String>> {
    let mut chosen = Vec::new();
    let choose = |record: RolloutRecord| chosen.push(record.rollout.rollout_id);
    each_considered(store, &RolloutFilter::default(), is_considered, Some(expression), choose).await?;
    Ok(chosen)
}

/// Reads page by page; of what is not considered no more than the rollout.
async fn each_considered(
    store: &Store,
    filter: &RolloutFilter,
    is_considered: impl Fn(&Rollout) -> bool,
    expression: Option<&RolloutExpression>,
    mut take: impl FnMut(RolloutRecord),
) -> Result<()> {
    let mut pages = store.rollouts().pages(filter).await?;
    while let Some(page) = pages.next().await? {
        let considered = page.into_iter().filter(|(rollout, _)| is_considered(rollout));
        let ids: Vec<String> = considered.map(|(rollout, _)| rollout.rollout_id).collect();
        let records = store.rollout_records(&ids).await?.into_iter().flatten();
        records.filter(|record| expression.is_none_or(|expression| matches(record, expression))).for_each(&mut take);
    }
    Ok(())
}

/// Whether the expression means a rollout.
fn matches(record: &RolloutRecord, expression: &RolloutExpression) -> bool {
    let latest = record.attempts.last().map(|attempt| attempt.attempt_id.as_str());
    let called = record.generations.iter().filter(|generation| latest == Some(&generation.attempt_id));
    let models: Vec<&str> = called.map(|generation| generation.model.as_str()).collect();
    expression.matches(&RolloutFacts { rollout: &record.rollout, rewards: &record.rewards, models: &models })
}

/// Narrows a filter down to those that the expression means.
pub async fn narrow(store: &Store, filter: ListFilter, expression: Option<&RolloutExpression>) -> Result<ListFilter> {
    let Some(expression) = expression else { return Ok(filter) };
    let requested = filter.rollout_id_in.as_deref();
    let is_requested = |rollout: &Rollout| requested.is_none_or(|ids| ids.contains(&rollout.rollout_id));
    let ids = matching(store, expression, is_requested).await?;
    Ok(ListFilter { rollout_id_in: Some(ids), ..filter })
}
