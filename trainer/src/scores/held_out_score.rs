use serde_json::{Map, Value};

use super::task_set::{HELD_OUT, Scores};
use super::validation_scores::VALIDATION_NLL;

/// The held-out score among a step's metrics, more being better: the mean reward, or of text the negative of what it costs.
pub(crate) fn held_out_score(metrics: &Map<String, Value>) -> Option<f64> {
    let cost = || metrics.get(VALIDATION_NLL).and_then(Value::as_f64).map(|cost| -cost);
    Scores::read(metrics, HELD_OUT).map(|scores| scores.reward).or_else(cost)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_reward_is_the_score_and_of_text_less_cost_is_more() {
        let score = |metrics: Value| held_out_score(metrics.as_object().unwrap());
        assert_eq!(score(json!({ "test/env/all/reward/total": 0.5, "final/env/all/reward/total": 1.0 })), Some(0.5));
        assert!(score(json!({ "test/nll": 1.0 })) > score(json!({ "test/nll": 2.0 })));
        assert_eq!(score(json!({ "train_mean_nll": 1.0 })), None);
    }
}
