//! What can go wrong with a query.

use fulgurite_store::StoreError;

/// Error of a query.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// No rollout has the id, and no session the name.
    #[error("there is no rollout `{name}` in this store, and no session of that name")]
    UnknownRollout {
        /// What was asked for.
        name: String,
    },
    /// A list cannot be sorted by a field.
    #[error("{}", sorted_by(field, more))]
    Sort {
        /// The field.
        field: String,
        /// What the list can be sorted by beside what the store says.
        more: &'static [&'static str],
        /// What the store says.
        source: StoreError,
    },
    /// The store does not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn sorted_by(field: &str, more: &[&str]) -> String {
    match more {
        [] => format!("--sort {field}"),
        more => format!("--sort {field} (beside the store's fields there are {})", more.join(", ")),
    }
}
