use serde_json::{Value, json};

use crate::server::registry::Registry;
use crate::server::state::records::CheckpointRecord;
use crate::wire::{CheckpointKind, CheckpointPath};
use fulgurite_types::time::rfc3339;

/// A run's checkpoints, the oldest first.
pub(crate) fn of_run<'a>(
    registry: &'a Registry,
    run_id: &str,
) -> impl DoubleEndedIterator<Item = (CheckpointPath, &'a CheckpointRecord)> + use<'a> {
    let own = |record: &'a CheckpointRecord| {
        let path: CheckpointPath = record.path.parse().ok()?;
        (path.run == run_id).then_some((path, record))
    };
    let mut all: Vec<_> = registry.checkpoints.values().filter_map(own).collect();
    all.sort_by(|(_, left), (_, right)| left.created.total_cmp(&right.created));
    all.into_iter()
}

/// A checkpoint as lists show it.
pub(crate) fn shown(path: &CheckpointPath, record: &CheckpointRecord) -> Value {
    let kind = match path.kind {
        CheckpointKind::Weights => "training",
        CheckpointKind::SamplerWeights => "sampler",
        CheckpointKind::ExternalWeights => "external",
    };
    json!({
        "checkpoint_id": format!("{}/{}", path.kind.segment(), path.name),
        "checkpoint_type": kind,
        "time": rfc3339(record.created),
        "tinker_path": record.path,
        "size_bytes": record.size_bytes,
        "public": record.public,
        "user_metadata": record.user_metadata,
        "expires_at": record.expires.map(rfc3339),
    })
}
