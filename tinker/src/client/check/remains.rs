use std::fmt;

use serde::Serialize;

/// What a check has made at a service and could not remove.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CheckRemains {
    /// Models, by their ids.
    pub models: Vec<String>,
    /// Checkpoints, by their paths.
    pub checkpoints: Vec<String>,
    /// Models that were requested, and whose ids never came.
    pub unnamed_models: usize,
}

impl CheckRemains {
    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for CheckRemains {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = |kind: &'static str, names: &[String]| names.iter().map(|name| format!("{kind} {name}")).collect();
        let mut parts: Vec<String> = named("model", &self.models);
        parts.extend::<Vec<String>>(named("checkpoint", &self.checkpoints));
        if self.unnamed_models > 0 {
            parts.push(format!("perhaps {} models whose ids did not come", self.unnamed_models));
        }
        formatter.write_str(&parts.join(", "))
    }
}
