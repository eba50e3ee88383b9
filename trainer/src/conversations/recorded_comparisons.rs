//! Comparisons of rollouts that were recorded: of those of one task, the best against the worst, as they were sampled.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

use async_trait::async_trait;
use fulgurite_backends::DigestingWriter;
use fulgurite_types::RolloutRecord;
use serde_json::{Value, json};

use super::recorded::{PART, RecordedRules, rollout_records};
use super::sequences::{ComparedExample, Sequences, SkippedRows, Unusable};
use crate::{Record, TrainError, UnusableRows};

/// Groups of a record, every rollout of which has been looked at.
pub(crate) struct RecordedComparisons {
    record: Arc<dyn Record>,
    rules: RecordedRules,
    /// Of each group the best and the worst.
    pairs: Vec<[String; 2]>,
    skipped: SkippedRows,
    fingerprint: String,
}

/// The best and the worst of a group so far; of equals the first.
struct Extremes {
    best: (f64, String),
    worst: (f64, String),
}

impl RecordedComparisons {
    /// Looks at these rollouts, and pairs the best with the worst of each group: of the rollouts of one group of a run's step,
    /// or else of the same input.
    ///
    /// # Errors
    /// [`TrainError::Rollout`] for the first that cannot be trained or that nobody rewarded, unless such are left out;
    /// [`TrainError::NoRollouts`] if no group has rewards that differ.
    pub(crate) async fn open(
        record: Arc<dyn Record>,
        rules: RecordedRules,
        rollout_ids: &[String],
        unusable: UnusableRows,
    ) -> Result<Self, TrainError> {
        let mut skipped = SkippedRows::new();
        let (mut groups, mut order): (HashMap<String, Extremes>, Vec<String>) = Default::default();
        for ids in rollout_ids.chunks(PART) {
            for (rollout_id, recorded) in ids.iter().zip(rollout_records(record.as_ref(), ids).await?) {
                let found = rules.example(&recorded).and_then(|_| group(&recorded));
                let (key, reward) = match found {
                    Ok(found) => found,
                    Err((_, message)) if unusable == UnusableRows::Refuse => {
                        let message = message + " (unusable_rows = \"skip\" leaves such rollouts out)";
                        return Err(TrainError::Rollout { rollout_id: rollout_id.clone(), message });
                    }
                    Err((cause, _)) => {
                        *skipped.entry(cause).or_default() += 1;
                        continue;
                    }
                };
                let own = (reward, rollout_id.clone());
                match groups.get_mut(&key) {
                    None => {
                        order.push(key.clone());
                        groups.insert(key, Extremes { best: own.clone(), worst: own });
                    }
                    Some(extremes) if reward > extremes.best.0 => extremes.best = own,
                    Some(extremes) if reward < extremes.worst.0 => extremes.worst = own,
                    Some(_) => {}
                }
            }
        }
        let mut pairs = Vec::new();
        for Extremes { best, worst } in order.iter().filter_map(|key| groups.remove(key)) {
            match best.0 > worst.0 {
                true => pairs.push([best.1, worst.1]),
                false => *skipped.entry(Unusable::NoDifference).or_default() += 1,
            }
        }
        if pairs.is_empty() {
            return Err(TrainError::NoComparisons { looked_at: rollout_ids.len() });
        }
        let mut digest = DigestingWriter::new(std::io::sink());
        for [best, worst] in &pairs {
            // A sink takes everything.
            let _ = writeln!(digest, "{best} {worst}");
        }
        Ok(Self { record, rules, pairs, skipped, fingerprint: digest.finish().1 })
    }

    async fn pair(&self, ids: &[String; 2]) -> Result<ComparedExample, TrainError> {
        let mut uses = Vec::new();
        let mut answers = Vec::new();
        for (rollout_id, recorded) in ids.iter().zip(rollout_records(self.record.as_ref(), ids).await?) {
            let wrong = |(_, message)| TrainError::Rollout { rollout_id: rollout_id.clone(), message };
            let example = self.rules.example(&recorded).map_err(wrong)?;
            uses.extend(example.uses);
            answers.push(example.sequences);
        }
        let rejected = answers.pop();
        Ok(ComparedExample { chosen: answers.pop(), rejected, uses })
    }
}

/// Which group a rollout belongs to, and what it earned.
fn group(recorded: &RolloutRecord) -> Result<(String, f64), (Unusable, String)> {
    let whole = recorded.rewards.iter().rev().find(|reward| reward.generation_id.is_none());
    let Some(reward) = whole else {
        return Err((Unusable::NotRewarded, "has no reward to be compared by".to_owned()));
    };
    let key = match (recorded.rollout.group(), &recorded.rollout.input) {
        (None, Value::Null) => {
            let message = "belongs to no group, and has no input that others may share".to_owned();
            return Err((Unusable::NoDifference, message));
        }
        (None, input) => json!([input]).to_string(),
        (Some(group), _) => group,
    };
    Ok((key, reward.reward.value))
}

#[async_trait]
impl Sequences<ComparedExample> for RecordedComparisons {
    fn count(&self) -> u64 {
        self.pairs.len() as u64
    }

    async fn read(&self, numbers: &[u64]) -> Result<Vec<ComparedExample>, TrainError> {
        let mut examples = Vec::with_capacity(numbers.len());
        for ids in numbers.iter().filter_map(|number| self.pairs.get(*number as usize)) {
            examples.push(self.pair(ids).await?);
        }
        Ok(examples)
    }

    fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    fn skipped(&self) -> &SkippedRows {
        &self.skipped
    }
}
