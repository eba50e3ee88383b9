use fulgurite_store::Store;

/// A generation that holds an answer, or the part of it that was sampled before its client had gone.
pub(crate) struct Recorded {
    pub(crate) generation_id: String,
    /// As the store has it.
    pub(crate) client_disconnected: bool,
}

/// Records whether the answers were delivered; returns whether that succeeded.
pub(crate) async fn mark(store: &Store, recorded: &[Recorded], was_delivered: bool) -> bool {
    let mut could = true;
    for Recorded { generation_id, client_disconnected } in recorded {
        if *client_disconnected != was_delivered {
            continue;
        }
        if let Err(error) = store.recording().set_client_disconnected(generation_id, !was_delivered).await {
            tracing::error!(%generation_id, %error, "could not note whether a client took its answer");
            could = false;
        }
    }
    could
}
