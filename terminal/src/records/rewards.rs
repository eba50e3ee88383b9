//! Rewards in a table.

use fulgurite_lab::visible::cut;
use fulgurite_types::{FoundReward, Reward};

use super::table_record::TableRecord;

impl TableRecord for FoundReward {
    const COLUMNS: &'static [&'static str] =
        &["rollout", "attempt", "seq", "reward", "name", "components", "given by", "generation", "span"];

    fn row(&self) -> Vec<String> {
        let recorded = &self.recorded;
        vec![
            self.rollout_id.clone(),
            recorded.attempt_id.clone(),
            recorded.sequence_id.to_string(),
            format!("{:+.3}", recorded.reward.value),
            recorded.reward.name.clone(),
            cut(&components(&recorded.reward)),
            recorded.giver.map_or(String::new(), |giver| giver.to_string()),
            recorded.generation_id.clone().unwrap_or_default(),
            self.span_name.clone(),
        ]
    }
}

/// The further named numbers of a reward.
pub(crate) fn components(reward: &Reward) -> String {
    let components: Vec<String> = reward.components.iter().map(|(name, value)| format!("{name} {value}")).collect();
    components.join(", ")
}
