use serde_json::{Map, Value};

use super::task_set::{HELD_OUT, Scores};
use super::validation_scores::{VALIDATION_LOSS, VALIDATION_NLL};

/// A score of what is held out, with the metric that it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct HeldOutScore {
    /// The metric's name.
    pub(crate) metric: &'static str,
    /// Its value.
    pub(crate) measured: f64,
    /// The same where more is better.
    pub(crate) score: f64,
}

/// The held-out score among a step's metrics: the mean reward, or the negative of what data cost, which is the loss of
/// comparisons, and of text its nats a token.
pub(crate) fn held_out_score(metrics: &Map<String, Value>) -> Option<HeldOutScore> {
    if let Some(scores) = Scores::read(metrics, HELD_OUT) {
        let reward = scores.reward;
        return Some(HeldOutScore { metric: "test/env/all/reward/total", measured: reward, score: reward });
    }
    [VALIDATION_LOSS, VALIDATION_NLL].into_iter().find_map(|metric| {
        let measured = metrics.get(metric)?.as_f64()?;
        Some(HeldOutScore { metric, measured, score: -measured })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_reward_is_the_score_and_of_data_less_cost_is_more() {
        let score = |metrics: Value| held_out_score(metrics.as_object().unwrap()).map(|held_out| held_out.score);
        assert_eq!(score(json!({ "test/env/all/reward/total": 0.5, "final/env/all/reward/total": 1.0 })), Some(0.5));
        assert!(score(json!({ "test/nll": 1.0 })) > score(json!({ "test/nll": 2.0 })));
        assert_eq!(score(json!({ "train_mean_nll": 1.0 })), None);
        assert_eq!(score(json!({ "test/nll": 1.0, "test/loss": 3.0 })), Some(-3.0), "of comparisons the loss");
    }
}
