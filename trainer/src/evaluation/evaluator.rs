use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use fulgurite_backends::Learner;
use fulgurite_types::GenerationUse;
use serde_json::{Map, Value};

use crate::conversations::HeldOutRows;
use crate::{Reporter, TrainError};

/// What a run is scored on while it learns, and at its end.
#[async_trait]
pub(crate) trait Evaluator: Send {
    /// Whether there is a score to take after `step` updates, unless they are the last.
    fn is_due(&self, step: u64) -> bool;

    /// Scores what is held out, after `step` updates; `None` if nothing is.
    async fn held_out(&mut self, step: u64, reporter: &mut dyn Reporter) -> Result<Option<Evaluation>, TrainError>;

    /// Scores what nothing before has seen, once; `None` if there is no such thing.
    async fn last(&mut self, _step: u64, _reporter: &mut dyn Reporter) -> Result<Option<Evaluation>, TrainError> {
        Ok(None)
    }

    /// Whether the evaluations that are among these metrics of steps, oldest first, stop the run.
    fn is_met(&self, _history: &[&Map<String, Value>]) -> bool {
        false
    }
}

/// Scores, and the account of what was sampled for them.
pub(crate) struct Evaluation {
    pub(crate) metrics: Map<String, Value>,
    pub(crate) uses: Vec<GenerationUse>,
    pub(crate) seconds: f64,
    /// What each held-out conversation costs, of a run that scores those.
    pub(crate) costs: Vec<f64>,
}

/// Scores of rows that are held out: of conversations, or of comparisons.
#[async_trait]
pub(crate) trait DataScores: Clone + Send + Sync {
    type Item: Send;

    /// Adds those of some rows.
    async fn add(&mut self, rows: Vec<Self::Item>, learner: &dyn Learner) -> Result<(), TrainError>;

    /// Adds those of other rows.
    fn merge(&mut self, other: Self);

    /// What they say, and what each row costs, if that is told.
    fn into_metrics(self) -> (Map<String, Value>, Vec<f64>);
}

/// Scores a run on what is held out of its data, read in parts so that their number costs no memory.
pub(crate) struct DataEvaluator<S: DataScores> {
    pub(crate) learner: Arc<dyn Learner>,
    /// What is held out: each that has a name has scores of its own beside those of all together.
    pub(crate) sets: Vec<HeldOutRows<S::Item>>,
    /// Rows that are read together.
    pub(crate) batch_size: usize,
    /// Updates between scores.
    pub(crate) every: u64,
    /// Scores of nothing yet.
    pub(crate) scores: S,
}

#[async_trait]
impl<S: DataScores> Evaluator for DataEvaluator<S> {
    fn is_due(&self, step: u64) -> bool {
        step.is_multiple_of(self.every.max(1))
    }

    async fn held_out(&mut self, _: u64, _: &mut dyn Reporter) -> Result<Option<Evaluation>, TrainError> {
        if self.sets.iter().all(|set| set.numbers.is_empty()) {
            return Ok(None);
        }
        let started = Instant::now();
        let (mut all, mut of_sets) = (self.scores.clone(), Map::new());
        for set in &self.sets {
            let mut scores = self.scores.clone();
            for numbers in set.numbers.chunks(self.batch_size) {
                scores.add(set.rows.read(numbers).await?, self.learner.as_ref()).await?;
            }
            if let Some(name) = &set.name {
                let (metrics, _) = scores.clone().into_metrics();
                let renamed =
                    |(key, value): (String, Value)| (key.replacen("test/", &format!("test/{name}/"), 1), value);
                of_sets.extend(metrics.into_iter().map(renamed));
            }
            all.merge(scores);
        }
        let (mut metrics, costs) = all.into_metrics();
        metrics.extend(of_sets);
        Ok(Some(Evaluation { metrics, uses: Vec::new(), seconds: started.elapsed().as_secs_f64(), costs }))
    }
}
