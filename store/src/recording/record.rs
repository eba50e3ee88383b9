//! Recording calls, replacing one that was cut short, and noting whose client left.

use fulgurite_types::NewGeneration;
use futures::future::BoxFuture;
use sqlx::AnyConnection;

use crate::call_records::at_once::{CALLS_AT_ONCE, record_at_once};
use crate::call_records::call_record::CallRecord;
use crate::call_records::new_call::NewCall;
use crate::database::rollout_cache::Change;
use crate::database::signals::Effects;
use crate::database::writer::{Joinable, Write};
use crate::recording::Recording;
use crate::recording::call_notifications::CallNotification;
use crate::recording::one_by_one::{record_one_by_one, replace};
use crate::{Result, StoreError};

impl Recording {
    /// Records an answered model call in one transaction: its span, its tokens, and the activity of its attempt. Refused,
    /// with nothing stored, if the attempt does not exist, if the id is taken, or if the lists do not fit each other.
    /// Logprobs that are not all finite are left out, which the generation's defect names.
    pub async fn record(&self, call: impl Into<NewCall>) -> Result<()> {
        let call = call.into();
        let notification = self.call_notification(&call);
        let attempt = (call.generation.rollout_id.clone(), call.generation.attempt_id.clone());
        let call = CallRecord::new(call, &self.latest_calls.of(&attempt))?.by_server(self.database.server_id());
        let continuable = call.continuable();
        self.database.writer()?.join(call).await?;
        if let Some(call) = continuable {
            self.latest_calls.note(attempt, call);
        }
        notification.into_iter().for_each(CallNotification::send);
        Ok(())
    }

    /// Records the only call of a session, which begins and ends with it, in one transaction. Its rollout and attempt, which
    /// the generation names ([`SessionIds::new`](fulgurite_types::SessionIds::new)), must not be there yet.
    pub async fn record_session(&self, call: impl Into<NewCall>) -> Result<()> {
        let call = call.into();
        let notification = self.call_notification(&call);
        self.database.writer()?.join(CallRecord::alone(call)?.by_server(self.database.server_id())).await?;
        notification.into_iter().for_each(CallNotification::send);
        Ok(())
    }

    /// Records a model call that was answered to its end in the place of its beginning, which was recorded when its
    /// client had gone: the same id, the same place among the spans. Refused, with nothing changed, where no such
    /// beginning is recorded.
    pub async fn replace(&self, call: impl Into<NewCall>) -> Result<()> {
        let call = call.into();
        let notification = self.call_notification(&call);
        let call = CallRecord::new(call, &[])?.by_server(self.database.server_id());
        self.database.write(move |write| Box::pin(async move { replace(write, &call).await })).await?;
        notification.into_iter().for_each(CallNotification::send);
        Ok(())
    }

    /// Notes whether the client of a generation hung up before it had the whole answer.
    pub async fn set_client_disconnected(&self, generation_id: &str, client_disconnected: bool) -> Result<()> {
        let generation_id = generation_id.to_owned();
        self.database
            .write(move |write| {
                Box::pin(async move {
                    let marked = sqlx::query(
                    "UPDATE generations SET client_gone = $2, checksum = (checksum & -2) | $2 WHERE generation_id = $1",
                )
                .bind(generation_id.as_str())
                .bind(i64::from(client_disconnected))
                .execute(write.connection())
                .await?
                .rows_affected();
                    if marked == 0 { Err(StoreError::not_found("generation", &generation_id)) } else { Ok(()) }
                })
            })
            .await
    }
}

impl Joinable for CallRecord {
    const TOGETHER: usize = CALLS_AT_ONCE;

    fn write_at_once<'c>(connection: &'c mut AnyConnection, calls: &'c [&'c Self]) -> BoxFuture<'c, Result<bool>> {
        Box::pin(record_at_once(connection, calls))
    }

    fn write_alone<'c>(&'c self, write: &'c mut Write) -> BoxFuture<'c, Result<()>> {
        Box::pin(record_one_by_one(write, self))
    }

    fn effects(&self) -> Effects {
        match self.session {
            Some(_) => Effects { finished: true, ..Effects::default() },
            None => {
                let NewGeneration { rollout_id, attempt_id, .. } = &self.generation;
                Effects { rollouts: vec![Change::Active(rollout_id.clone(), attempt_id.clone())], ..Effects::default() }
            }
        }
    }
}
