use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Absolute bounds of the ratio of a token's probability to that under the sampler: 0.8 and 1.2, say, and not 0.2.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RatioBounds {
    /// The least.
    pub low: f32,
    /// The greatest.
    pub high: f32,
}

impl RatioBounds {
    /// PPO's, unless configured otherwise.
    pub const PPO: Self = Self { low: 0.8, high: 1.2 };
    /// CISPO's, unless configured otherwise.
    pub const CISPO: Self = Self { low: 0.0, high: 4.0 };
    /// GSPO's over the Tinker API, unless configured otherwise: PPO's, since the API publishes none.
    pub const GSPO: Self = Self::PPO;
}

/// The objective. Every loss is a sum over tokens and datums, never a mean: scaling is the caller's job. The names and
/// formulas are those of the Tinker API; `ratio` is `exp(logprob - sampler_logprob)`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossFunction {
    /// `-weight * logprob` per token.
    CrossEntropy,
    /// `-ratio * advantage` per token; the gradient runs through the ratio.
    ImportanceSampling,
    /// `-min(ratio * advantage, clip(ratio) * advantage)` per token.
    Ppo(RatioBounds),
    /// As `Ppo`, and where the advantage is negative at least `ratio_limit * advantage` (dual clip: Ye et al. 2020): a token that
    /// became far likelier than when it was sampled does not pull without end.
    DualClip {
        /// Of the ratio, as PPO's.
        bounds: RatioBounds,
        /// Greatest ratio of a token whose advantage is negative.
        ratio_limit: f32,
    },
    /// `-4 / tau * sigmoid(tau * (ratio - 1)) * advantage` per token (SAPO: Gao et al. 2025): a gate that closes softly the
    /// farther the ratio is from 1. `tau` goes by the advantage's sign.
    Sapo {
        /// Where the advantage is above 0.
        positive: f32,
        /// Elsewhere.
        negative: f32,
    },
    /// `-clip(ratio) * logprob * advantage` per token; the gradient does not run through the ratio.
    Cispo(RatioBounds),
    /// `-(logprob * advantage - beta / 2 * (logprob - sampler_logprob)^2)` per token.
    Dro {
        /// How much a distance from the sampler costs.
        beta: f32,
    },
    /// As `Ppo`, but with one ratio for all of a datum's trained tokens: the geometric mean of theirs.
    Gspo(RatioBounds),
}

const LOW: &str = "clip_low_threshold";
const HIGH: &str = "clip_high_threshold";
const BETA: &str = "beta";
const RATIO_LIMIT: &str = "ratio_limit";
const POSITIVE: &str = "temperature_positive";
const NEGATIVE: &str = "temperature_negative";

impl LossFunction {
    /// SAPO's temperatures, of a positive and of any other advantage, unless configured otherwise.
    pub const SAPO: (f32, f32) = (1.0, 1.05);

    /// Its name in the Tinker API, which has neither `ppo_dual_clip` nor `sapo`: our own service alone takes these.
    pub fn name(self) -> &'static str {
        match self {
            Self::CrossEntropy => "cross_entropy",
            Self::ImportanceSampling => "importance_sampling",
            Self::Ppo(_) => "ppo",
            Self::DualClip { .. } => "ppo_dual_clip",
            Self::Sapo { .. } => "sapo",
            Self::Cispo(_) => "cispo",
            Self::Dro { .. } => "dro",
            Self::Gspo(_) => "gspo",
        }
    }

    /// Its numbers, by their names there.
    pub fn configuration(self) -> BTreeMap<&'static str, f64> {
        match self {
            Self::CrossEntropy | Self::ImportanceSampling => BTreeMap::new(),
            Self::Ppo(bounds) | Self::Cispo(bounds) | Self::Gspo(bounds) => {
                [(LOW, f64::from(bounds.low)), (HIGH, f64::from(bounds.high))].into()
            }
            Self::DualClip { bounds, ratio_limit } => {
                let [low, high, limit] = [bounds.low, bounds.high, ratio_limit].map(f64::from);
                [(LOW, low), (HIGH, high), (RATIO_LIMIT, limit)].into()
            }
            Self::Sapo { positive, negative } => {
                [(POSITIVE, f64::from(positive)), (NEGATIVE, f64::from(negative))].into()
            }
            Self::Dro { beta } => [(BETA, f64::from(beta))].into(),
        }
    }

    /// Reads a name with its numbers. Those of PPO (0.8 and 1.2), CISPO (0 and 4) and GSPO (PPO's: the API publishes none) may
    /// be left out; DRO's must be given, since the API's default is not public. Fails with what is wrong.
    pub fn named(name: &str, configuration: &BTreeMap<String, f64>) -> Result<Self, String> {
        let number = |key: &str, default: Option<f32>| match (configuration.get(key), default) {
            (Some(value), _) if value.is_finite() && *value >= 0.0 => Ok(*value as f32),
            (Some(value), _) => Err(format!("loss_fn_config.{key} is {value}, but must be a number from 0 up")),
            (None, Some(default)) => Ok(default),
            (None, None) => Err(format!("the loss {name} needs loss_fn_config.{key}")),
        };
        let bounds = |usual: RatioBounds| {
            let bounds = RatioBounds { low: number(LOW, Some(usual.low))?, high: number(HIGH, Some(usual.high))? };
            match bounds.low <= bounds.high {
                true => Ok(bounds),
                false => Err(format!("loss_fn_config.{LOW} is above {HIGH}")),
            }
        };
        let loss = match name {
            "cross_entropy" => Self::CrossEntropy,
            "importance_sampling" => Self::ImportanceSampling,
            "ppo" => Self::Ppo(bounds(RatioBounds::PPO)?),
            "ppo_dual_clip" => {
                Self::DualClip { bounds: bounds(RatioBounds::PPO)?, ratio_limit: number(RATIO_LIMIT, None)? }
            }
            "sapo" => Self::Sapo {
                positive: number(POSITIVE, Some(Self::SAPO.0))?,
                negative: number(NEGATIVE, Some(Self::SAPO.1))?,
            },
            "cispo" => Self::Cispo(bounds(RatioBounds::CISPO)?),
            "dro" => Self::Dro { beta: number(BETA, None)? },
            "gspo" => Self::Gspo(bounds(RatioBounds::GSPO)?),
            "stable_reinforce" => {
                return Err(
                    "the objective of stable_reinforce is not public: use importance_sampling, ppo or cispo".into()
                );
            }
            unknown => return Err(format!("there is no loss `{unknown}`")),
        };
        match configuration.keys().find(|key| !loss.configuration().contains_key(key.as_str())) {
            Some(key) => Err(format!("the loss {name} has no loss_fn_config.{key}")),
            None => Ok(loss),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str, configuration: &[(&str, f64)]) -> Result<LossFunction, String> {
        LossFunction::named(name, &configuration.iter().map(|(key, value)| (key.to_string(), *value)).collect())
    }

    #[test]
    fn a_loss_is_read_back_from_its_name_and_numbers() {
        let bounds = RatioBounds { low: 0.5, high: 2.0 };
        for loss in [
            LossFunction::CrossEntropy,
            LossFunction::ImportanceSampling,
            LossFunction::Ppo(bounds),
            LossFunction::Cispo(bounds),
            LossFunction::Dro { beta: 0.25 },
            LossFunction::Gspo(bounds),
            LossFunction::DualClip { bounds, ratio_limit: 3.0 },
            LossFunction::Sapo { positive: 1.0, negative: 2.0 },
        ] {
            let numbers: Vec<_> = loss.configuration().into_iter().collect();
            assert_eq!(named(loss.name(), &numbers), Ok(loss));
        }
        assert_eq!(named("ppo", &[]), Ok(LossFunction::Ppo(RatioBounds { low: 0.8, high: 1.2 })));
        assert_eq!(named("gspo", &[]), Ok(LossFunction::Gspo(RatioBounds { low: 0.8, high: 1.2 })));
        assert_eq!(named("gspo", &[(LOW, 0.5)]), Ok(LossFunction::Gspo(RatioBounds { low: 0.5, high: 1.2 })));
        assert_eq!(named("cispo", &[(HIGH, 3.0)]), Ok(LossFunction::Cispo(RatioBounds { low: 0.0, high: 3.0 })));
    }

    #[test]
    fn what_cannot_be_meant_is_refused_by_name() {
        for (name, numbers, word) in [
            ("stable_reinforce", vec![], "not public"),
            ("reinforce", vec![], "no loss `reinforce`"),
            ("dro", vec![], "needs loss_fn_config.beta"),
            ("gspo", vec![(LOW, 1.5)], "above"),
            ("ppo", vec![(LOW, 2.0)], "above"),
            ("ppo", vec![(LOW, -1.0)], "from 0 up"),
            ("ppo", vec![(LOW, f64::NAN)], "from 0 up"),
            ("cross_entropy", vec![(BETA, 1.0)], "has no loss_fn_config.beta"),
        ] {
            let error = named(name, &numbers).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }
}
