//! What is noted of an attempt whose call failed: which limit it met, or that a host failed it.

use fulgurite_store::Store;

use crate::attempt::attribution::Attribution;
use crate::error::ProxyError;

/// Notes in the attempt's record why a call of it failed, where whoever judges the attempt needs to know. A note that
/// cannot be written is logged: the caller has an error already.
pub(crate) async fn note(store: &Store, attribution: Option<&Attribution>, error: &ProxyError) {
    let (Some(Attribution { rollout_id, attempt_id, .. }), Some(note)) = (attribution, error.note()) else { return };
    if let Err(error) = store.note_attempt(rollout_id, attempt_id, note).await {
        tracing::warn!(rollout_id, attempt_id, %error, "why a call of an attempt failed could not be noted");
    }
}
