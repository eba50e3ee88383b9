//! A training run for programs: one JSON object for each step, and one for the summary.

use fulgurite_trainer::{Failures, Reporter, RewardFinding, RewardOddity, SampleAnswer, TrainEvent};
use serde_json::{Value, json};

use super::stale_harvest;
use crate::output;

/// A reporter that prints JSON, one object for each step and a summary at the end.
pub struct JsonReporter;

impl Reporter for JsonReporter {
    fn report(&mut self, event: TrainEvent) {
        match event {
            TrainEvent::OddRewards { phase, step, findings } => {
                findings.iter().for_each(|finding| output::line(odd_reward_json(phase, step, finding)));
            }
            other => event_json(other).into_iter().for_each(output::line),
        }
    }
}

/// The object of an event, if programs are given it.
fn event_json(event: TrainEvent) -> Option<Value> {
    Some(match event {
        TrainEvent::Step { mut metrics, .. } => {
            metrics.insert("event".to_owned(), json!("step"));
            Value::Object(metrics)
        }
        TrainEvent::Finished(summary) => Value::Object(summary.to_json()),
        TrainEvent::CheckpointPassedOver { directory, message } => {
            json!({ "event": "checkpoint_passed_over", "checkpoint": directory, "reason": message })
        }
        TrainEvent::CheckpointNotUploaded { directory, message } => {
            json!({ "event": "checkpoint_not_uploaded", "checkpoint": directory, "reason": message })
        }
        TrainEvent::Waiting { step } => json!({ "event": "waiting", "step": step }),
        TrainEvent::AgentsAwaited { url } => json!({ "event": "agents_awaited", "url": url }),
        TrainEvent::RunnersAwaited { url } => json!({ "event": "runners_awaited", "url": url }),
        TrainEvent::JudgeOnLabels { judge, criterion, labels, share, kappa } => json!({
            "event": "judge_on_labels", "judge": judge, "criterion": criterion, "labels": labels, "share": share,
            "kappa": kappa,
        }),
        TrainEvent::StaleHarvest { step, stale, max_staleness } => stale_harvest::json(step, stale, max_staleness),
        TrainEvent::NoTrustRegion { max_staleness } => {
            json!({ "event": "no_trust_region", "max_staleness": max_staleness })
        }
        TrainEvent::MarksAsText { rows, marks } => json!({ "event": "marks_as_text", "rows": rows, "marks": marks }),
        TrainEvent::JudgeUndecided { step, undecided, comparisons, answer } => json!({
            "event": "judge_undecided", "step": step, "undecided": undecided, "comparisons": comparisons, "said": answer,
        }),
        TrainEvent::RolloutsFailed { phase, step, failures } => failures_json(phase, step, &failures),
        TrainEvent::StepsSkipped { step, skipped, norm, bound, in_a_row } => json!({
            "event": "steps_skipped", "step": step, "skipped": skipped, "gradient_norm": norm, "spike_bound": bound,
            "in_a_row": in_a_row,
        }),
        TrainEvent::WithoutGradient { step, updates, untrained, answers } => json!({
            "event": "without_gradient", "step": step, "updates": updates, "untrained_tokens": untrained,
            "answers": answers.iter().map(answer_json).collect::<Vec<_>>(),
        }),
        TrainEvent::WeightsJudged { step, version, is_published, difference } => json!({
            "event": if is_published { "weights_published" } else { "weights_kept_back" },
            "step": step, "version": version, "difference": difference,
        }),
        TrainEvent::WeightsMovedTooFar { step, version, kl, max_kl } => {
            json!({ "event": "weights_kept_back", "step": step, "version": version, "kl": kl, "max_kl": max_kl })
        }
        // Each of its findings is an object of its own.
        TrainEvent::OddRewards { .. }
        | TrainEvent::SupervisedStep { .. }
        | TrainEvent::RowsFound { .. }
        | TrainEvent::RunStarted { .. }
        | TrainEvent::Corpus { .. }
        | TrainEvent::PageServed { .. }
        | TrainEvent::StepRecalled { .. }
        | TrainEvent::Learning { .. }
        | TrainEvent::Sampled { .. }
        | TrainEvent::Rollouts { .. } => return None,
    })
}

fn odd_reward_json(phase: &str, step: u64, finding: &RewardFinding) -> Value {
    let RewardFinding { rollout_id, reward, oddity } = finding;
    let values = match oddity {
        RewardOddity::SeveralDiffer { values } => json!(values),
        RewardOddity::Refused { .. } | RewardOddity::Outlier { .. } => json!([reward]),
    };
    json!({
        "event": "odd_reward", "phase": phase, "step": step, "rollout_id": rollout_id, "what": oddity.as_str(),
        "values": values,
    })
}

fn failures_json(phase: &str, step: u64, failures: &Failures) -> Value {
    let Failures { failed, rollouts, cause, reason, count, calls, ran_out_of_time: _, stderr_tail } = failures;
    json!({
        "event": "rollouts_failed",
        "phase": phase,
        "step": step,
        "failed": failed,
        "rollouts": rollouts,
        "cause": cause,
        "reason": reason,
        "count": count,
        "calls": calls,
        "stderr_tail": stderr_tail,
    })
}

fn answer_json(answer: &SampleAnswer) -> Value {
    let SampleAnswer { task, answer, reward } = answer;
    json!({ "task": task, "answer": answer, "reward": reward })
}
