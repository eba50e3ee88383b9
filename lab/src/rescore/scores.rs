//! Logprobs of sampled tokens: as they were recorded, under the weights that sampled them, and under others.

use std::collections::BTreeMap;

use serde::Serialize;

/// The sampled tokens of a model call, three times.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rescored {
    /// The call.
    pub generation_id: String,
    /// Its rollout.
    pub rollout_id: String,
    /// The update that it was sampled for; `None` of a rollout that no update asked for.
    pub step: Option<u64>,
    /// What was sampled.
    pub tokens: Vec<u32>,
    /// Natural logprobs as the sampler gave them.
    pub recorded: Vec<f32>,
    /// Under the weights that sampled them, scored again; `None` where their checkpoint is gone.
    pub same_weights: Option<Vec<f32>>,
    /// Under the other weights.
    pub rescored: Vec<f32>,
}

/// How far tokens are from how they were sampled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Difference {
    /// Tokens that were compared.
    pub tokens: usize,
    /// Mean of the change of their logprobs.
    pub mean: f64,
    /// The greatest change of one, without its sign.
    pub greatest: f64,
    /// KL divergence of the weights that sampled from the others, as Schulman estimates it from samples without bias and
    /// below 0 never: the mean of `exp(d) - 1 - d` over the changes `d` (<http://joschu.net/blog/kl-approx.html>, k3).
    pub kl: f64,
}

impl Difference {
    /// From the first logprobs to the second, of the same tokens.
    pub fn of<'l>(pairs: impl Iterator<Item = (&'l [f32], &'l [f32])>) -> Self {
        let (mut tokens, mut sum, mut kl, mut greatest) = (0, 0.0, 0.0, 0.0_f64);
        for (from, to) in pairs {
            for (from, to) in from.iter().zip(to) {
                let change = f64::from(*to) - f64::from(*from);
                tokens += 1;
                sum += change;
                kl += change.exp() - 1.0 - change;
                greatest = greatest.max(change.abs());
            }
        }
        let count = tokens.max(1) as f64;
        Self { tokens, mean: sum / count, greatest, kl: kl / count }
    }
}

/// Why tokens are not as likely as when they were sampled.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Split {
    /// Under the other weights, against what was recorded.
    pub all: Difference,
    /// By the engine alone: the same weights scored again. Of tokens whose weights are still there.
    pub engine: Difference,
    /// By the weights alone: the other weights against the same ones. Of the same tokens.
    pub weights: Difference,
}

impl Split {
    /// Of these calls.
    pub fn of<'r>(rescored: impl Iterator<Item = &'r Rescored> + Clone) -> Self {
        let known = || rescored.clone().filter_map(|call| Some((call, call.same_weights.as_deref()?)));
        Self {
            all: Difference::of(rescored.clone().map(|call| (&call.recorded[..], &call.rescored[..]))),
            engine: Difference::of(known().map(|(call, same)| (&call.recorded[..], same))),
            weights: Difference::of(known().map(|(call, same)| (same, &call.rescored[..]))),
        }
    }
}

/// The calls of each update, in order; those of none come first.
pub fn by_step(rescored: &[Rescored]) -> BTreeMap<Option<u64>, Vec<&Rescored>> {
    let mut steps: BTreeMap<Option<u64>, Vec<&Rescored>> = BTreeMap::new();
    for call in rescored {
        steps.entry(call.step).or_default().push(call);
    }
    steps
}

/// A token of the vocabulary, and how its logprob changed wherever it was sampled.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Moved {
    /// The token.
    pub token: u32,
    /// How often it was sampled.
    pub count: usize,
    /// Mean of the changes.
    pub mean: f64,
    /// Their sum, by which tokens are ranked: what is rare and what hardly moves was not learnt.
    pub sum: f64,
}

/// What was learnt and what was unlearnt: the `count` tokens that rose most, and those that fell most, most first.
pub fn most_moved(rescored: &[Rescored], count: usize) -> (Vec<Moved>, Vec<Moved>) {
    let mut sums: BTreeMap<u32, (usize, f64)> = BTreeMap::new();
    for call in rescored {
        for ((token, from), to) in call.tokens.iter().zip(&call.recorded).zip(&call.rescored) {
            let of_token = sums.entry(*token).or_default();
            *of_token = (of_token.0 + 1, of_token.1 + f64::from(*to) - f64::from(*from));
        }
    }
    let moved = |(token, (count, sum)): (u32, (usize, f64))| Moved { token, count, mean: sum / count as f64, sum };
    let mut all: Vec<Moved> = sums.into_iter().map(moved).collect();
    all.sort_by(|a, b| b.sum.total_cmp(&a.sum));
    let risen = all.iter().filter(|moved| moved.sum > 0.0).take(count).copied().collect();
    let fallen = all.iter().rev().filter(|moved| moved.sum < 0.0).take(count).copied().collect();
    (risen, fallen)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(step: u64, tokens: &[u32], recorded: &[f32], same: Option<&[f32]>, rescored: &[f32]) -> Rescored {
        Rescored {
            generation_id: "g".to_owned(),
            rollout_id: "r".to_owned(),
            step: Some(step),
            tokens: tokens.to_vec(),
            recorded: recorded.to_vec(),
            same_weights: same.map(<[f32]>::to_vec),
            rescored: rescored.to_vec(),
        }
    }

    #[test]
    fn a_change_is_split_into_engine_and_weights_where_the_weights_are_there() {
        let calls = [
            call(0, &[7, 8], &[-1.0, -2.0], Some(&[-1.0, -2.5]), &[-0.5, -2.5]),
            call(1, &[7], &[-3.0], None, &[-1.0]),
        ];
        let Split { all, engine, weights } = Split::of(calls.iter());
        assert_eq!((all.tokens, all.greatest), (3, 2.0));
        assert!((all.mean - (0.5 - 0.5 + 2.0) / 3.0).abs() < 1e-12);
        assert_eq!((engine.tokens, engine.mean, engine.greatest), (2, -0.25, 0.5));
        assert_eq!((weights.tokens, weights.mean), (2, 0.25));
        let k3 = |change: f64| change.exp() - 1.0 - change;
        assert!((engine.kl - k3(-0.5) / 2.0).abs() < 1e-12);
        assert!((all.kl - (k3(0.5) + k3(-0.5) + k3(2.0)) / 3.0).abs() < 1e-12);
        assert_eq!(Split::of([].iter()).all, Difference::default());
        assert_eq!(by_step(&calls).keys().copied().collect::<Vec<_>>(), [Some(0), Some(1)]);
    }

    #[test]
    fn tokens_are_ranked_by_all_that_they_moved() {
        let calls = [
            call(0, &[1, 2, 3], &[-1.0, -1.0, -1.0], None, &[-0.5, -1.25, -1.0]),
            call(0, &[1, 4], &[-1.0, -3.0], None, &[-0.5, -2.25]),
        ];
        let (risen, fallen) = most_moved(&calls, 5);
        let ranked =
            |moved: &[Moved]| moved.iter().map(|moved| (moved.token, moved.count, moved.sum)).collect::<Vec<_>>();
        assert_eq!(ranked(&risen), [(1, 2, 1.0), (4, 1, 0.75)]);
        assert_eq!(ranked(&fallen), [(2, 1, -0.25)]);
        assert_eq!(risen[0].mean, 0.5);
    }
}
