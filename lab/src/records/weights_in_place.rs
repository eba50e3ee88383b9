//! A run that does not begin, or ends, because of what is behind its model at a server: what programs read of that.

use serde::{Deserialize, Serialize};

/// Why a run does not begin or go on at a server, and how it can.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WeightsInPlace {
    /// For people: what was found, and the commands.
    pub message: String,
    /// The run whose weights are behind the model, if they are a run's.
    pub published_run: Option<String>,
    /// What can be done, each by a command that is not refused.
    pub ways: Vec<StartWay>,
}

impl std::fmt::Display for WeightsInPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for WeightsInPlace {}

/// A way to begin or go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartWay {
    /// What it does.
    pub way: StartWayKind,
    /// The run that goes on; none of a new run.
    pub run_id: Option<String>,
    /// What to type.
    pub command: String,
}

/// What a way to begin or go on does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartWayKind {
    /// Begins a new run, and changes nothing of what is behind the model.
    NewRun,
    /// Begins a new run, and puts the config's weights in their place.
    StartOver,
    /// Goes on with a run.
    Resume,
    /// Goes on with a run, and puts its checkpoint's weights in their place.
    ReplaceWeights,
}
