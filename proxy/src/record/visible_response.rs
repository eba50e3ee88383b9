use fulgurite_store::{Store, StoreError};

use crate::record::deleted_responses::is_deleted;
use crate::record::recorded_call::RecordedCall;
use crate::record::recorded_calls::recorded_call;

/// A recorded answer to messages that was not deleted and that the caller may see: its own rollout's, or, for a caller
/// that names no rollout, one of a session.
pub(crate) async fn visible_response(
    store: &Store,
    rollout_id: Option<&str>,
    id: &str,
) -> Result<Option<RecordedCall>, StoreError> {
    let Some(call) = recorded_call(store, id).await?.filter(|call| !call.messages.is_empty()) else { return Ok(None) };
    let is_visible = match rollout_id {
        Some(rollout_id) if rollout_id == call.generation.rollout_id => true,
        Some(name) => store.rollouts().id_of(name).await? == call.generation.rollout_id,
        None => {
            let rollout = store.rollouts().get(&call.generation.rollout_id).await?;
            let metadata = rollout.and_then(|(rollout, _)| rollout.metadata);
            metadata.is_some_and(|metadata| metadata.get("kind").is_some_and(|kind| kind == "session"))
        }
    };
    let is_found = is_visible && !is_deleted(store, &call.generation).await?;
    Ok(is_found.then_some(call))
}
