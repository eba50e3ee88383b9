//! Giving rewards: whether it may be done, and once however often it is sent.

use fulgurite_types::{Attempt, AttemptRef, NewReward, RecordedReward, Repeat, Reward, RewardGiver, SpanFilter};
use sha2::{Digest, Sha256};

use crate::database::sql::Sql;
use crate::database::writer::Write;
use crate::reward_rules::annotations::{ANNOTATION, attributes, recorded_reward};
use crate::reward_rules::rights::{Sender, admit};
use crate::rewards::Rewards;
use crate::rollouts::attempts::rows::existing_attempt;
use crate::spans::Spans;
use crate::spans::instant_spans::instant_span;
use crate::spans::rows::span_from_row;
use crate::spans::writing::{allocate_sequence_id, insert_span};
use crate::{Result, StoreError};
use fulgurite_types::time::now;

impl Rewards {
    /// Gives a reward to an attempt, or to one of its generations. The attempt's status does not matter, and does not
    /// change.
    pub async fn add(
        &self,
        rollout_id: &str,
        attempt: impl Into<AttemptRef>,
        generation_id: Option<&str>,
        reward: Reward,
    ) -> Result<RecordedReward> {
        let generation_id = generation_id.map(str::to_owned);
        self.give(&Sender::Server, of_server(rollout_id, Some(attempt.into()), generation_id, reward)).await
    }

    /// Gives a reward to a generation of a rollout, whichever attempt it belongs to.
    pub async fn add_to_generation(
        &self,
        rollout_id: &str,
        generation_id: &str,
        reward: Reward,
    ) -> Result<RecordedReward> {
        let generation_id = Some(generation_id.to_owned());
        self.give(&Sender::Server, of_server(rollout_id, None, generation_id, reward)).await
    }

    /// Gives a reward, if the sender may. One that repeats an earlier one is returned as it was recorded.
    pub async fn give(&self, sender: &Sender, new: NewReward) -> Result<RecordedReward> {
        validate(&new.reward)?;
        let giver = sender.giver_claiming(new.giver)?;
        let sender = sender.clone();
        self.database.write(move |write| Box::pin(async move { record(write, new, giver, &sender).await })).await
    }

    /// The rewards among an attempt's spans, in order of sequence id; the last one without a generation is the
    /// attempt's final reward. None if the attempt is not known.
    pub async fn of_attempt(&self, rollout_id: &str, attempt: impl Into<AttemptRef>) -> Result<Vec<RecordedReward>> {
        let filter =
            SpanFilter { rollout_id: rollout_id.to_owned(), attempt: Some(attempt.into()), ..SpanFilter::default() };
        Ok(Spans::new(&self.database).query(&filter).await?.items.iter().filter_map(recorded_reward).collect())
    }
}

/// A reward that the server gives itself.
fn of_server(
    rollout_id: &str,
    attempt: Option<AttemptRef>,
    generation_id: Option<String>,
    reward: Reward,
) -> NewReward {
    NewReward { rollout_id: rollout_id.to_owned(), attempt, generation_id, reward, giver: None, repeat: Repeat::New }
}

fn validate(reward: &Reward) -> Result<()> {
    if !reward.value.is_finite() {
        return Err(StoreError::invalid("value", "must be a finite number"));
    }
    if reward.name.is_empty() {
        return Err(StoreError::invalid("name", "must not be empty"));
    }
    match reward.components.iter().find(|(name, value)| name.is_empty() || !value.is_finite()) {
        None => Ok(()),
        Some((name, _)) => {
            Err(StoreError::invalid(format!("components.{name}"), "must be a finite number with a name"))
        }
    }
}

/// The attempt that a generation of a rollout belongs to.
async fn attempt_of(write: &mut Write, rollout_id: &str, generation_id: &str) -> Result<String> {
    let row = sqlx::query("SELECT attempt_id FROM generations WHERE generation_id = $1 AND rollout_id = $2")
        .bind(generation_id)
        .bind(rollout_id)
        .fetch_optional(write.connection())
        .await?;
    match row {
        Some(row) => crate::database::sql::column(&row, "attempt_id"),
        None => {
            crate::rollouts::rows::existing_rollout(write.connection(), rollout_id).await?;
            Err(StoreError::not_found("generation", generation_id))
        }
    }
}

async fn record(write: &mut Write, new: NewReward, giver: RewardGiver, sender: &Sender) -> Result<RecordedReward> {
    let NewReward { rollout_id, attempt, generation_id, reward, repeat, .. } = new;
    let key_id = match &repeat {
        Repeat::Key(key) => Some(span_id_of_key(giver, key)),
        Repeat::New | Repeat::Retry => None,
    };
    let named = match (attempt, &generation_id) {
        (Some(attempt), _) => attempt,
        (None, Some(generation_id)) => AttemptRef::Id(attempt_of(write, &rollout_id, generation_id).await?),
        (None, None) => AttemptRef::Latest,
    };
    if let Some(span_id) = &key_id
        && let Some(earlier) = reward_in_span(write, &rollout_id, &named, span_id).await?
    {
        let is_same = (&earlier.reward, &earlier.generation_id) == (&reward, &generation_id);
        return if is_same { Ok(earlier) } else { Err(StoreError::KeyReused) };
    }
    let attempt = existing_attempt(write.connection(), &rollout_id, &named).await?;
    if let Some(generation_id) = &generation_id
        && attempt_of(write, &rollout_id, generation_id).await? != attempt.attempt_id
    {
        return Err(StoreError::not_found("generation", generation_id));
    }
    if repeat == Repeat::Retry
        && let Some(earlier) = latest_equal(write, &attempt, generation_id.as_deref(), &reward, giver).await?
    {
        return Ok(earlier);
    }
    admit(write.connection(), &attempt, generation_id.as_deref(), sender).await?;
    check_name(write, &attempt, generation_id.as_deref(), &reward.name, giver).await?;
    let sequence_id = allocate_sequence_id(write, &rollout_id).await?;
    let time = now();
    let attributes = attributes(&reward, generation_id.as_deref(), giver);
    let mut span = instant_span(rollout_id, attempt.attempt_id, sequence_id, ANNOTATION, attributes, time);
    span.span_id = key_id.unwrap_or(span.span_id);
    if !insert_span(write, &span).await? {
        return Err(StoreError::Conflict { kind: "span", id: span.span_id });
    }
    Ok(RecordedReward {
        attempt_id: span.attempt_id,
        span_id: span.span_id,
        sequence_id,
        time: Some(time),
        generation_id,
        reward,
        giver: Some(giver),
    })
}

/// The id of the span of a reward that came with an `Idempotency-Key`: within an attempt there is one of each giver's.
fn span_id_of_key(giver: RewardGiver, key: &str) -> String {
    let digest = Sha256::new().chain_update(giver.as_str()).chain_update("\n").chain_update(key).finalize();
    format!("{:.16}", format!("{digest:x}"))
}

/// The reward that a span of a rollout holds; of the latest attempt, that of an earlier one too, which may have been the
/// latest when the reward came first.
async fn reward_in_span(
    write: &mut Write,
    rollout_id: &str,
    attempt: &AttemptRef,
    span_id: &str,
) -> Result<Option<RecordedReward>> {
    let mut sql = Sql::new("SELECT body FROM spans WHERE rollout_id = ");
    sql.text(rollout_id).push(" AND span_id = ").text(span_id);
    if let AttemptRef::Id(attempt_id) = attempt {
        sql.push(" AND attempt_id = ").text(attempt_id);
    }
    let rows = sql.all(write.connection()).await?;
    Ok(rows.first().map(span_from_row).transpose()?.as_ref().and_then(recorded_reward))
}

/// Refuses a reward under another name than the one that the same thing has: a later reward replaces an earlier one of its
/// name. A judge is not bound by the name that an agent chose.
async fn check_name(
    write: &mut Write,
    attempt: &Attempt,
    generation_id: Option<&str>,
    name: &str,
    giver: RewardGiver,
) -> Result<()> {
    let binds = |found: &RecordedReward| {
        found.generation_id.as_deref() == generation_id
            && (!giver.is_judge() || found.giver.is_some_and(RewardGiver::is_judge))
    };
    let Some(earlier) = latest(write, attempt, binds).await?.filter(|earlier| earlier.reward.name != name) else {
        return Ok(());
    };
    let target = match generation_id {
        Some(generation_id) => format!("the call {generation_id}"),
        None => format!("the attempt {}", attempt.attempt_id),
    };
    Err(StoreError::OtherRewardName { target, earlier: earlier.reward.name, name: name.to_owned() })
}

/// The latest reward of the attempt with the same value, giver and target.
async fn latest_equal(
    write: &mut Write,
    attempt: &Attempt,
    generation_id: Option<&str>,
    reward: &Reward,
    giver: RewardGiver,
) -> Result<Option<RecordedReward>> {
    let is_it = |found: &RecordedReward| {
        found.generation_id.as_deref() == generation_id && found.reward == *reward && found.giver == Some(giver)
    };
    latest(write, attempt, is_it).await
}

/// The latest reward of the attempt that meets a condition.
async fn latest(
    write: &mut Write,
    attempt: &Attempt,
    is_it: impl Fn(&RecordedReward) -> bool,
) -> Result<Option<RecordedReward>> {
    let mut sql = Sql::new("SELECT body FROM spans WHERE rollout_id = ");
    sql.text(&attempt.rollout_id).push(" AND attempt_id = ").text(&attempt.attempt_id);
    sql.push(" AND name = ").text(ANNOTATION).push(" ORDER BY position DESC");
    for row in sql.all(write.connection()).await? {
        if let Some(found) = recorded_reward(&span_from_row(&row)?).filter(&is_it) {
            return Ok(Some(found));
        }
    }
    Ok(None)
}
