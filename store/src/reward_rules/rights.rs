//! Who may give an attempt a reward. This is decided when a reward is stored, once for every route, so that readers of
//! spans (here, in SQL, or in another program) find only rewards that count.

use fulgurite_types::{Attempt, Object, Reward, RewardGiver, Span};
use sqlx::AnyConnection;

use crate::database::sql::json;
use crate::keys::holder::KeyHolder;
use crate::reward_refused::RewardRefused;
use crate::reward_rules::annotations::{ANNOTATION, EVENT_TYPE, GIVER, REWARD, attributes, recorded_reward};
use crate::{Result, StoreError};

/// Prefix of the attributes of a reward that does not count.
const UNCOUNTED: &str = "fulgurite.uncounted.";
/// The name of an annotation whose reward does not count.
const UNCOUNTED_ANNOTATION: &str = "fulgurite.uncounted_annotation";

/// Who sent what may be a reward.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sender {
    /// A program that has the database itself.
    Server,
    /// A client, by its key; `None` if it brought none that opens anything.
    Client(Option<KeyHolder>),
}

/// Name and attributes of the span that keeps a reward of an attempt as a whole.
pub fn reward_annotation(reward: &Reward, sender: &Sender) -> (&'static str, Object) {
    (ANNOTATION, attributes(reward, None, sender.giver()))
}

impl Sender {
    /// Who gives what was sent.
    pub(crate) fn giver(&self) -> RewardGiver {
        match self {
            Self::Server | Self::Client(Some(KeyHolder::Admin)) => RewardGiver::Admin,
            Self::Client(Some(KeyHolder::Grader { .. })) => RewardGiver::Grader,
            Self::Client(Some(KeyHolder::Attempt { .. })) => RewardGiver::Agent,
            Self::Client(Some(KeyHolder::ModelCalls | KeyHolder::Reader | KeyHolder::Worker { .. }) | None) => {
                RewardGiver::Unknown
            }
        }
    }

    /// Who gives it if its body names `claimed`.
    pub(crate) fn giver_claiming(
        &self,
        claimed: Option<RewardGiver>,
    ) -> std::result::Result<RewardGiver, RewardRefused> {
        match (claimed, self.giver()) {
            (Some(claimed), RewardGiver::Admin) => Ok(claimed),
            (Some(claimed), giver) if claimed != giver => Err(RewardRefused::Claimed { giver }),
            (_, giver) => Ok(giver),
        }
    }

    /// The attempt that the sender's key is of.
    fn attempt(&self) -> Option<(&str, &str)> {
        match self {
            Self::Client(Some(
                KeyHolder::Attempt { rollout_id, attempt_id } | KeyHolder::Grader { rollout_id, attempt_id },
            )) => Some((rollout_id, attempt_id)),
            _ => None,
        }
    }
}

/// Whether the sender may reward the attempt, or one of its generations: its grader may always; the agent may if it has no
/// grader and as long as the attempt runs.
pub(crate) async fn admit(
    connection: &mut AnyConnection,
    attempt: &Attempt,
    generation_id: Option<&str>,
    sender: &Sender,
) -> Result<()> {
    if let Some((rollout_id, attempt_id)) = sender.attempt()
        && (rollout_id, attempt_id) != (&attempt.rollout_id, &attempt.attempt_id)
    {
        let (of, requested) = (attempt_id.to_owned(), attempt.attempt_id.clone());
        return Err(RewardRefused::OtherAttempt { of, requested }.into());
    }
    let giver = sender.giver();
    if giver.is_judge() {
        return Ok(());
    }
    if let Some(grader) = &attempt.grader {
        return Err(RewardRefused::Graded { grader: grader.clone() }.into());
    }
    if giver != RewardGiver::Agent {
        return Ok(());
    }
    if attempt.status.is_ended() {
        let (attempt_id, status) = (attempt.attempt_id.clone(), attempt.status.as_str());
        return Err(RewardRefused::Ended { attempt_id, status }.into());
    }
    match judge_of(connection, attempt, generation_id).await? {
        Some(giver) => Err(RewardRefused::Judged { giver }.into()),
        None => Ok(()),
    }
}

/// Who of those that rank above the agent has rewarded the attempt, or the generation.
async fn judge_of(
    connection: &mut AnyConnection,
    attempt: &Attempt,
    generation_id: Option<&str>,
) -> Result<Option<RewardGiver>> {
    let rows = sqlx::query("SELECT body FROM spans WHERE rollout_id = $1 AND attempt_id = $2 AND name = $3")
        .bind(attempt.rollout_id.as_str())
        .bind(attempt.attempt_id.as_str())
        .bind(ANNOTATION)
        .fetch_all(connection)
        .await?;
    for row in &rows {
        let found = recorded_reward(&json(row, "body")?);
        let of_the_same = found.filter(|found| found.generation_id.as_deref() == generation_id);
        if let Some(giver) = of_the_same.and_then(|found| found.giver).filter(|giver| giver.is_judge()) {
            return Ok(Some(giver));
        }
    }
    Ok(None)
}

/// Whether a reader may take a span for a reward, or for a statement of who gave one.
pub(crate) fn speaks_of_reward(span: &Span) -> bool {
    span.attributes.keys().any(|key| is_reward_key(span, key) || key == GIVER)
}

fn is_reward_key(span: &Span, key: &str) -> bool {
    let is_reward_event = || key == EVENT_TYPE && span.attributes.get(key).is_some_and(|kind| kind == "reward");
    let mentions_reward = || span.attributes.get(key).is_some_and(|value| value.to_string().contains("reward"));
    key.starts_with(REWARD)
        || (span.name == ANNOTATION && key == "reward")
        || (matches!(key, "agentops.task.output" | "agentops.entity.output") && mentions_reward())
        || is_reward_event()
}

/// Settles a client's span that contains a reward: one that counts gets its giver's name, any other is kept under attribute
/// names that are not read as a reward.
pub(crate) async fn settle(
    connection: &mut AnyConnection,
    attempt: &Attempt,
    sender: &Sender,
    span: &mut Span,
) -> Result<()> {
    if *sender == Sender::Server {
        return Ok(());
    }
    span.attributes.shift_remove(GIVER);
    if !speaks_of_reward(span) {
        return Ok(());
    }
    let generation_id = recorded_reward(span).and_then(|found| found.generation_id);
    match admit(connection, attempt, generation_id.as_deref(), sender).await {
        Ok(()) => {
            span.attributes.insert(GIVER.to_owned(), sender.giver().as_str().into());
            Ok(())
        }
        Err(StoreError::RewardRefused(reason)) => {
            let Span { rollout_id, attempt_id, span_id, .. } = &*span;
            tracing::warn!(rollout_id, attempt_id, span_id, %reason, "the reward of a span does not count");
            set_aside(span);
            Ok(())
        }
        Err(error) => Err(error),
    }
}

fn set_aside(span: &mut Span) {
    let keys: Vec<String> = span.attributes.keys().filter(|key| is_reward_key(span, key)).cloned().collect();
    for key in keys {
        if let Some(value) = span.attributes.shift_remove(&key) {
            span.attributes.insert(format!("{UNCOUNTED}{key}"), value);
        }
    }
    if span.name == ANNOTATION {
        span.name = UNCOUNTED_ANNOTATION.to_owned();
    }
}
