use std::collections::BTreeMap;

use fulgurite_types::RecordedReward;

/// The rewards of one attempt that count: of several for the same thing the one given last, so that a reward can be
/// revised.
#[derive(Debug)]
pub(crate) struct CountedRewards<'a> {
    /// For the attempt as a whole.
    pub of_attempt: Option<f64>,
    /// For single generations, by id.
    pub of_generations: BTreeMap<&'a str, f64>,
}

impl<'a> CountedRewards<'a> {
    pub(crate) fn new(rewards: &'a [RecordedReward]) -> Self {
        let mut in_order: Vec<&RecordedReward> = rewards.iter().collect();
        in_order.sort_by_key(|reward| reward.sequence_id);
        let mut counted = Self { of_attempt: None, of_generations: BTreeMap::new() };
        for recorded in in_order {
            match &recorded.generation_id {
                Some(generation_id) => {
                    counted.of_generations.insert(generation_id, recorded.reward.value);
                }
                None => counted.of_attempt = Some(recorded.reward.value),
            }
        }
        counted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorded::reward;

    #[test]
    fn the_reward_given_last_counts() {
        let rewards =
            [reward(4, None, 0.25), reward(2, None, 1.0), reward(3, Some("a"), 0.5), reward(5, Some("a"), 0.75)];
        let counted = CountedRewards::new(&rewards);
        assert_eq!(counted.of_attempt, Some(0.25));
        assert_eq!(counted.of_generations, BTreeMap::from([("a", 0.75)]));
    }
}
