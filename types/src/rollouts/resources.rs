use serde::{Deserialize, Serialize};

use crate::Object;

/// Named things that agents use (model endpoints, prompt templates), at one version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResourcesUpdate {
    /// `rs-` and 12 hexadecimal digits, or what its creator chose.
    pub resources_id: String,
    /// When it was created.
    pub create_time: f64,
    /// When it was last replaced.
    pub update_time: f64,
    /// 1, then counting up with every update.
    pub version: u32,
    /// By name, each an object with a `resource_type`.
    pub resources: Object,
}
