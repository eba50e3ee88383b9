//! Events that other programs report of an attempt, stored as spans without duration.

use std::sync::Arc;

use fulgurite_types::{Object, Span, SpanStatus, StatusCode};
use uuid::Uuid;

use crate::checksums::Recorded;
use crate::database::writer::Write;
use crate::reward_rules::annotations::ANNOTATION;
use crate::reward_rules::rights::{Sender, admit};
use crate::rollouts::attempts::activity::record_activity;
use crate::rollouts::attempts::opening::open_attempt;
use crate::spans::Spans;
use crate::spans::writing::{allocate_sequence_id, insert_span};
use crate::{Result, StoreError};
use fulgurite_types::time::now;

/// What has just happened in an attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct NewInstantSpan {
    /// The rollout, which must exist.
    pub rollout_id: String,
    /// The attempt, which is made if its rollout has none of that name.
    pub attempt_id: String,
    /// Name of the span that keeps it.
    pub name: &'static str,
    /// Attributes of that span.
    pub attributes: Object,
}

impl Spans {
    /// Records an event of an attempt, and returns its time in seconds since the epoch. An annotation with a reward is
    /// refused if the sender may not give it.
    pub async fn add_instant(&self, sender: &Sender, moment: NewInstantSpan) -> Result<f64> {
        let (sender, time) = (sender.clone(), now());
        self.database.write(move |write| Box::pin(async move { record(write, &sender, moment, time).await })).await?;
        Ok(time)
    }
}

async fn record(write: &mut Write, sender: &Sender, moment: NewInstantSpan, time: f64) -> Result<()> {
    let NewInstantSpan { rollout_id, attempt_id, name, attributes } = moment;
    let attempt = open_attempt(write, &rollout_id, &attempt_id).await?;
    if name == ANNOTATION {
        admit(write.connection(), &attempt, None, sender).await?;
    }
    let sequence_id = allocate_sequence_id(write, &rollout_id).await?;
    let span = instant_span(attempt.rollout_id, attempt.attempt_id, sequence_id, name, attributes, time);
    if !insert_span(write, &span).await? {
        return Err(StoreError::Conflict { kind: "span", id: span.span_id });
    }
    record_activity(write, &rollout_id, &attempt_id, Recorded::default()).await?;
    Ok(())
}

/// The span of what happened at one moment, with new ids.
pub(crate) fn instant_span(
    rollout_id: String,
    attempt_id: String,
    sequence_id: u64,
    name: &str,
    attributes: Object,
    time: f64,
) -> Span {
    let id = Uuid::now_v7().simple().to_string();
    Span {
        rollout_id,
        attempt_id,
        sequence_id,
        // The id's low half is its random one.
        span_id: id[16..].to_owned(),
        trace_id: id,
        parent_id: None,
        name: name.to_owned(),
        status: SpanStatus { status_code: StatusCode::Ok, description: None, extra: Object::new() },
        attributes,
        events: Vec::new(),
        links: Vec::new(),
        start_time: Some(time),
        end_time: Some(time),
        context: None,
        parent: None,
        resource: Arc::default(),
        extra: Object::new(),
    }
}
