use axum::Json;
use serde::Deserialize;
use serde_json::{Value, json};

/// Which part of a list is requested.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default)]
pub(crate) struct PageRange {
    pub(crate) limit: usize,
    pub(crate) offset: usize,
}

impl Default for PageRange {
    fn default() -> Self {
        Self { limit: 20, offset: 0 }
    }
}

impl PageRange {
    /// The part of a list, under its name, and where it is in the whole.
    pub(crate) fn of(self, name: &str, all: Vec<Value>) -> Json<Value> {
        let cursor = json!({ "offset": self.offset, "limit": self.limit, "total_count": all.len() });
        let part: Vec<Value> = all.into_iter().skip(self.offset).take(self.limit).collect();
        Json(json!({ name: part, "cursor": cursor }))
    }
}
