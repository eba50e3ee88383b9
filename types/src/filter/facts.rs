//! What a rollout is held against an expression by.

use serde_json::Value;

use super::condition::{Comparison, Condition, Field, Operand};
use super::expression::RolloutExpression;
use crate::{RecordedReward, Reward, Rollout, session_rollout_ids};

/// What is known of a rollout.
#[derive(Clone, Copy, Debug)]
pub struct RolloutFacts<'r> {
    /// The rollout itself.
    pub rollout: &'r Rollout,
    /// The rewards of its last attempt, in the order in which they were given.
    pub rewards: &'r [RecordedReward],
    /// The models that its last attempt called.
    pub models: &'r [&'r str],
}

impl RolloutExpression {
    /// Whether a rollout is meant. What is not known of it meets no condition, `!=` among them.
    pub fn matches(&self, facts: &RolloutFacts<'_>) -> bool {
        match self {
            Self::Is(condition) => condition.holds(facts),
            Self::And(parts) => parts.iter().all(|part| part.matches(facts)),
            Self::Or(parts) => parts.iter().any(|part| part.matches(facts)),
            Self::Not(part) => !part.matches(facts),
        }
    }
}

impl RolloutExpression {
    /// The models that a rollout may be asked for by `model = NAME`, in their order.
    pub fn models(&self) -> Vec<&str> {
        match self {
            Self::Is(Condition {
                field: Field::Model,
                comparison: Comparison::Equal,
                operand: Operand::Text(name),
            }) => {
                vec![name]
            }
            Self::Is(_) | Self::Not(_) => Vec::new(),
            Self::And(parts) | Self::Or(parts) => parts.iter().flat_map(Self::models).collect(),
        }
    }
}

impl Condition {
    fn holds(&self, facts: &RolloutFacts<'_>) -> bool {
        match &self.operand {
            Operand::Number(number) => {
                facts.number(&self.field).is_some_and(|known| self.comparison.holds(known, *number))
            }
            Operand::Text(name) if matches!(self.field, Field::Rollout | Field::Session) => {
                match (facts.is_named(&self.field, name), self.comparison) {
                    (None, _) => false,
                    (Some(is_named), Comparison::NotEqual) => !is_named,
                    (Some(is_named), _) => is_named,
                }
            }
            Operand::Text(text) => {
                let known = facts.texts(&self.field);
                match self.comparison {
                    Comparison::NotEqual => !known.is_empty() && known.iter().all(|known| known != text),
                    _ => known.iter().any(|known| known == text),
                }
            }
        }
    }
}

impl RolloutFacts<'_> {
    fn number(&self, field: &Field) -> Option<f64> {
        match field {
            Field::Reward => self.reward().map(|reward| reward.value),
            Field::Component(name) => {
                self.reward()?.components.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
            }
            Field::Step => self.metadata("step")?.as_f64(),
            Field::Since => Some(self.rollout.start_time),
            Field::Mode | Field::Tag | Field::Model | Field::Run | Field::Status | Field::Rollout | Field::Session => {
                None
            }
        }
    }

    fn texts(&self, field: &Field) -> Vec<&str> {
        match field {
            Field::Mode => self.rollout.mode.as_ref().map(|mode| mode.as_str()).into_iter().collect(),
            Field::Status => vec![self.rollout.status.as_str()],
            Field::Run => self.metadata("run_id").and_then(Value::as_str).into_iter().collect(),
            Field::Model => self.models.to_vec(),
            Field::Tag => {
                let one = self.metadata("tag").and_then(Value::as_str);
                let several = self.metadata("tags").and_then(Value::as_array).into_iter().flatten();
                one.into_iter().chain(several.filter_map(Value::as_str)).collect()
            }
            Field::Reward | Field::Component(_) | Field::Step | Field::Since | Field::Rollout | Field::Session => {
                Vec::new()
            }
        }
    }

    /// Whether the rollout has this name; `None` if it has no name of this kind.
    fn is_named(&self, field: &Field, name: &str) -> Option<bool> {
        let id = &self.rollout.rollout_id;
        let is_session = self.metadata("kind").and_then(Value::as_str) == Some("session");
        let has_session_name = || session_rollout_ids(name).iter().any(|(_, rollout_id)| rollout_id == id);
        match field {
            Field::Session => is_session.then(has_session_name),
            _ => Some(id == name || (is_session && has_session_name())),
        }
    }

    /// The reward of the rollout as a whole: the one given last.
    fn reward(&self) -> Option<&Reward> {
        let whole = self.rewards.iter().rev().find(|reward| reward.generation_id.is_none());
        whole.map(|recorded| &recorded.reward)
    }

    fn metadata(&self, key: &str) -> Option<&Value> {
        self.rollout.noted(key)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_rollout_is_met_by_what_is_known_of_it() {
        let rollout = json!({
            "rollout_id": "r", "input": null, "start_time": 1764028800.0, "end_time": null, "mode": "train",
            "resources_id": null, "status": "succeeded", "config": {},
            "metadata": { "run_id": "hello-1", "step": 3, "tags": ["good", "hand made"] },
        });
        let rollout: Rollout = serde_json::from_value(rollout).unwrap();
        let reward = |value: f64, generation_id: Option<&str>| RecordedReward {
            attempt_id: "a".to_owned(),
            span_id: "s".to_owned(),
            sequence_id: 1,
            time: None,
            generation_id: generation_id.map(str::to_owned),
            reward: Reward { components: vec![("exact".to_owned(), 0.5)], ..Reward::new(value) },
            giver: None,
        };
        let rewards = [reward(-1.0, None), reward(1.0, None), reward(9.0, Some("g"))];
        let facts = RolloutFacts { rollout: &rollout, rewards: &rewards, models: &["hello"] };
        let matches = |text: &str, facts: &RolloutFacts<'_>| text.parse::<RolloutExpression>().unwrap().matches(facts);
        for yes in [
            "reward >= 1 and mode = train",
            "reward = 1 and reward != 2 and reward.exact < 0.6",
            "tag = good and tag = 'hand made' and tag != bad",
            "model = hello and run = hello-1 and step <= 3",
            "status = succeeded and not status = failed",
            "since >= 2025-11-25 and since < 2025-11-26",
            "mode = val or (mode = train and not reward < 1)",
        ] {
            assert!(matches(yes, &facts), "{yes}");
        }
        let unknown = RolloutFacts { rewards: &[], models: &[], ..facts };
        for no in ["reward < 1", "reward != 1", "reward.other = 0", "model != hello", "tag != good", "mode = val"] {
            assert!(!matches(no, if no.starts_with("reward.") { &facts } else { &unknown }), "{no}");
        }
        assert!(matches("not reward >= 1", &unknown), "what is not known meets no condition");
        assert!(matches("rollout = r and rollout != s and not session = s and not session != s", &facts));
    }

    #[test]
    fn a_session_is_met_by_its_name() {
        let session = json!({
            "rollout_id": session_rollout_ids("visit 7")[2].1, "input": null, "start_time": 0.0, "end_time": null,
            "mode": null, "resources_id": null, "status": "running", "config": {}, "metadata": { "kind": "session" },
        });
        let session: Rollout = serde_json::from_value(session).unwrap();
        let facts = RolloutFacts { rollout: &session, rewards: &[], models: &[] };
        let matches = |text: &str| text.parse::<RolloutExpression>().unwrap().matches(&facts);
        assert!(matches("session = 'visit 7' and rollout = 'visit 7' and session != 'visit 8'"));
        assert!(
            !matches("session = 'visit 8'") && !matches("session != 'visit 7'") && !matches("rollout != 'visit 7'")
        );
    }
}
