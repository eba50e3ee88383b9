//! How old the weights were that sampled what is trained.

use fulgurite_types::Generation;
use serde_json::{Value, json};

use crate::rollouts::{Collected, Member};
use crate::weights::VersionDistances;

/// `async/staleness_min`, `_mean` and `_max`: updates between the weights which sampled and those that learn, over the tokens
/// that are trained; nothing if none is.
pub(crate) fn staleness_metrics(collected: &Collected, distances: &VersionDistances) -> Vec<(String, Value)> {
    let trained = collected.groups.iter().flatten().flat_map(Member::trained);
    describe(trained.flat_map(|generation| tokens_by_staleness(generation, distances)))
}

/// Of pairs of a staleness and how many tokens have it.
fn describe(tokens: impl Iterator<Item = (u64, u64)>) -> Vec<(String, Value)> {
    let (mut count, mut sum, mut least, mut greatest) = (0, 0, u64::MAX, 0);
    for (staleness, tokens) in tokens.filter(|(_, tokens)| *tokens > 0) {
        count += tokens;
        sum += staleness * tokens;
        least = least.min(staleness);
        greatest = greatest.max(staleness);
    }
    if count == 0 {
        return Vec::new();
    }
    let mean = sum as f64 / count as f64;
    [("min", json!(least)), ("mean", json!(mean)), ("max", json!(greatest))]
        .map(|(name, value)| (format!("async/staleness_{name}"), value))
        .into()
}

fn tokens_by_staleness(generation: &Generation, distances: &VersionDistances) -> Vec<(u64, u64)> {
    let parts = &generation.weights_versions;
    let ends = parts.iter().skip(1).map(|next| next.first_token).chain([generation.sampled_tokens.len()]);
    parts
        .iter()
        .zip(ends)
        .filter_map(|(part, end)| {
            Some((distances.of_version(part.version)?, end.saturating_sub(part.first_token) as u64))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_count_and_calls_do_not() {
        let metrics = describe([(0, 3), (2, 1), (7, 0)].into_iter());
        let expected = [("min", json!(0)), ("mean", json!(0.5)), ("max", json!(2))];
        assert_eq!(metrics, expected.map(|(name, value)| (format!("async/staleness_{name}"), value)));
        assert!(describe(std::iter::empty()).is_empty());
    }
}
