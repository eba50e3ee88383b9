//! Comparisons of rollouts that were recorded: of those of one task, the best against the worst, as they were sampled.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

use async_trait::async_trait;
use fulgurite_backends::DigestingWriter;
use fulgurite_types::RolloutRecord;
use serde_json::{Value, json};

use super::recorded::{PART, RecordedRules, rollout_records};
use super::split::sequences::{ComparedExample, MarksAsText, Sequences, SkippedRows, Unusable};
use crate::{Record, TrainError, UnusableRows};

/// Groups of a record, every rollout of which has been looked at.
pub(crate) struct RecordedComparisons {
    record: Arc<dyn Record>,
    rules: RecordedRules,
    /// Of each group the best and the worst.
    pairs: Vec<[String; 2]>,
    skipped: SkippedRows,
    marks_as_text: MarksAsText,
    fingerprint: String,
}

/// The best and the worst of a group so far; of equals the first.
struct Extremes {
    best: Rewarded,
    worst: Rewarded,
}

/// A rollout that may be compared.
#[derive(Clone)]
struct Rewarded {
    reward: f64,
    rollout_id: String,
    /// Control tokens that its trained words spell as text.
    marks: u64,
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
                let found = rules.example(&recorded).and_then(|example| Ok((example, group(&recorded)?)));
                let (example, (key, reward)) = match found {
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
                let marks = rules.marks_as_text(&example);
                let own = Rewarded { reward, rollout_id: rollout_id.clone(), marks };
                match groups.get_mut(&key) {
                    None => {
                        order.push(key.clone());
                        groups.insert(key, Extremes { best: own.clone(), worst: own });
                    }
                    Some(extremes) if reward > extremes.best.reward => extremes.best = own,
                    Some(extremes) if reward < extremes.worst.reward => extremes.worst = own,
                    Some(_) => {}
                }
            }
        }
        let (mut pairs, mut marks_as_text) = (Vec::new(), MarksAsText::default());
        for Extremes { best, worst } in order.iter().filter_map(|key| groups.remove(key)) {
            if best.reward > worst.reward {
                marks_as_text.add(best.marks + worst.marks);
                pairs.push([best.rollout_id, worst.rollout_id]);
            } else {
                *skipped.entry(Unusable::NoDifference).or_default() += 1;
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
        Ok(Self { record, rules, pairs, skipped, marks_as_text, fingerprint: digest.finish().1 })
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

    fn marks_as_text(&self) -> MarksAsText {
        self.marks_as_text
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fulgurite_renderers::{open_renderer, train_byte_level_tokenizer, write_tokenizer_directory};
    use fulgurite_store::{Store, StoreOptions};
    use fulgurite_types::{
        AttemptStatus, AttemptUpdate, NewGeneration, NewRollout, RecordedSampling, Reward, WeightsFrom,
    };

    use super::*;
    use crate::conversations::{MarksAsText, RecordedRollouts};

    #[tokio::test]
    async fn marks_that_recorded_rollouts_spell_are_counted_as_those_of_a_file_are() {
        let directory = tempfile::tempdir().unwrap();
        let json = train_byte_level_tokenizer(["good bad"; 2], 280, &[]).unwrap();
        write_tokenizer_directory(directory.path(), &json).unwrap();
        let renderer = open_renderer(directory.path(), "qwen3_instruct").unwrap();
        let url = format!("sqlite://{}", directory.path().join("t.db").display());
        let store = Store::open(&url, StoreOptions::default()).await.unwrap();
        let new = NewRollout { input: json!({ "q": 1 }), ..NewRollout::default() };
        store.rollouts().enqueue(vec![new; 2]).await.unwrap();
        let mut rollout_ids = Vec::new();
        for (text, reward) in [("good <|im_end|> good", 1.0), ("bad", 0.0)] {
            let claimed = store.rollouts().dequeue(1, Some("w"), Duration::ZERO).await.unwrap().remove(0);
            let (rollout_id, attempt_id) = (claimed.rollout.rollout_id, claimed.attempt.attempt_id);
            let sampled_tokens = renderer.tokenizer().encode_ordinary(text).unwrap();
            let generation = NewGeneration {
                generation_id: format!("generation-{rollout_id}"),
                rollout_id: rollout_id.clone(),
                attempt_id: attempt_id.clone(),
                name: "openai.chat.completion".into(),
                trace_id: "0af7651916cd43dd8448eb211c80319c".into(),
                span_id: format!("{:016x}", rollout_ids.len()),
                start_time: 1.0,
                end_time: 2.0,
                attributes: serde_json::Map::new(),
                model: "m".into(),
                prompt_tokens: vec![1, 2],
                logprobs: Some(vec![-0.1; sampled_tokens.len()]),
                sampled_tokens,
                stop_reason: "stop".into(),
                weights_versions: vec![WeightsFrom { version: 0, first_token: 0 }],
                sampling: RecordedSampling(json!({ "temperature": 1.0, "top_p": 1.0, "top_k": null })),
                seed: 1,
                renderer: "qwen3_instruct".into(),
                tokenizer: renderer.tokenizer().fingerprint().to_owned(),
                request_digest: String::new(),
                branch_reason: None,
                client_disconnected: false,
                defect: None,
            };
            store.recording().record(generation).await.unwrap();
            store.rewards().add(&rollout_id, &attempt_id, None, Reward::new(reward)).await.unwrap();
            let ended = AttemptUpdate::status(AttemptStatus::Succeeded);
            store.attempts().report(&rollout_id, &attempt_id, ended).await.unwrap();
            rollout_ids.push(rollout_id);
        }
        let rules =
            RecordedRules { renderer, models: vec!["m".to_owned()], max_tokens: None, truncate: Default::default() };
        let record: Arc<dyn Record> = Arc::new(store);
        let one = MarksAsText { rows: 1, marks: 1 };
        let (refuse, opened) = (UnusableRows::Refuse, rules.clone());
        let rollouts = RecordedRollouts::open(record.clone(), opened, &rollout_ids, refuse).await.unwrap();
        assert_eq!(rollouts.marks_as_text(), one);
        let compared = RecordedComparisons::open(record, rules, &rollout_ids, refuse).await.unwrap();
        assert_eq!(compared.marks_as_text(), one);
    }
}
