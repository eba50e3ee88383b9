use async_trait::async_trait;
use fulgurite_types::GenerationUse;
use serde_json::{Map, Value};

use crate::{Reporter, TrainError};

/// What a run is scored on while it learns, and at its end.
#[async_trait]
pub(crate) trait Evaluator: Send {
    /// Whether there is a score to take after `step` updates, unless they are the last.
    fn is_due(&self, step: u64) -> bool;

    /// Scores what is held out, after `step` updates; `None` if nothing is.
    async fn held_out(&mut self, step: u64, reporter: &mut dyn Reporter) -> Result<Option<Evaluation>, TrainError>;

    /// Scores what nothing before has seen, once; `None` if there is no such thing.
    async fn last(&mut self, step: u64, reporter: &mut dyn Reporter) -> Result<Option<Evaluation>, TrainError>;

    /// Whether the evaluations that are among these metrics of steps, oldest first, stop the run.
    fn is_met(&self, history: &[&Map<String, Value>]) -> bool;
}

/// Scores, and the account of what was sampled for them.
pub(crate) struct Evaluation {
    pub(crate) metrics: Map<String, Value>,
    pub(crate) uses: Vec<GenerationUse>,
    pub(crate) seconds: f64,
    /// What each held-out conversation costs, of a run that scores those.
    pub(crate) costs: Vec<f64>,
}
