use serde::{Deserialize, Serialize};

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Paginated<T> {
    /// This page.
    pub items: Vec<T>,
    /// How many were asked for; -1 is all.
    pub limit: i64,
    /// How many were passed over.
    pub offset: u64,
    /// How many there are before paging.
    pub total: u64,
}
