//! What is noted of an attempt whose call failed: which limit it met, or that a host failed it.

use fulgurite_store::Store;

use crate::error::ProxyError;

/// Notes in the record of an attempt, of which rollout and attempt are given, why a call of it failed, where whoever judges the attempt needs to know. A note that
/// cannot be written is logged: the caller has an error already.
pub(crate) async fn note(store: &Store, attempt: Option<&(String, String)>, error: &ProxyError) {
    let (Some((rollout_id, attempt_id)), Some(note)) = (attempt, error.note()) else { return };
    if let Err(error) = store.attempts().note(rollout_id, attempt_id, note).await {
        tracing::warn!(rollout_id, attempt_id, %error, "why a call of an attempt failed could not be noted");
    }
}
