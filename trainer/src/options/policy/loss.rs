use fulgurite_backends::{LossFunction, RatioBounds};
use serde::{Deserialize, Serialize};

use crate::TrainError;

/// GSPO's bounds, unless told otherwise; the Tinker API has none.
const GSPO: RatioBounds = RatioBounds { low: 0.9997, high: 1.0004 };

/// What is made of a token's advantage `A`, and of the ratio `r` of its probability to that under the sampler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicyLoss {
    /// `-r A`: the policy gradient of what was sampled.
    #[default]
    ImportanceSampling,
    /// `-min(r A, clip(r) A)` (PPO: Schulman et al. 2017), between 0.8 and 1.2.
    Ppo,
    /// `-4 / t sigmoid(t (r - 1)) A`: a gate that closes softly (SAPO: Gao et al. 2025), with `t` 1 where `A` is above 0 and 1.05
    /// elsewhere.
    Sapo,
    /// `-clip(r) A logprob`, without a gradient through the ratio (CISPO: MiniMax 2025), between 0 and 4.
    Cispo,
    /// As `ppo`, with one ratio for a whole trajectory, the geometric mean of its tokens' (GSPO: Zheng et al. 2025), between
    /// 0.9997 and 1.0004.
    Gspo,
    /// `-(A logprob - beta / 2 (logprob - sampler's)^2)` (DRO: Richemond et al. 2024); `beta` has no usual value.
    Dro,
}

impl PolicyLoss {
    fn name(self) -> &'static str {
        match self {
            Self::ImportanceSampling => "importance_sampling",
            Self::Ppo => "ppo",
            Self::Sapo => "sapo",
            Self::Cispo => "cispo",
            Self::Gspo => "gspo",
            Self::Dro => "dro",
        }
    }
}

/// The numbers of a loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LossParameters {
    /// Least ratio of a token's probability to that under the sampler, of `ppo`, `cispo` and `gspo`: 0.8, say, and not 0.2.
    pub clip_low: Option<f32>,
    /// Greatest ratio.
    pub clip_high: Option<f32>,
    /// Greatest ratio of a token whose advantage is negative, of `ppo` (dual clip: Ye et al. 2020), such as 3.0; at least
    /// `clip_high`. Without it, there is none.
    pub ratio_limit: Option<f32>,
    /// Of `sapo`: `t` where the advantage is above 0; 1 unless told otherwise.
    pub temperature_positive: Option<f32>,
    /// Of `sapo`: `t` elsewhere; 1.05 unless told otherwise.
    pub temperature_negative: Option<f32>,
    /// How much a distance from the sampler costs, of `dro`.
    pub beta: Option<f32>,
}

impl LossParameters {
    /// The loss with these numbers.
    ///
    /// # Errors
    /// Names the number that the loss has not, lacks, or that cannot be.
    pub(crate) fn of(self, loss: PolicyLoss) -> Result<LossFunction, TrainError> {
        let refusal = |key: &str, message: String| TrainError::Option {
            key: format!("[trainer] loss_parameters.{key}"),
            message,
        };
        let wrong = |key: &str, message: String| Err(refusal(key, message));
        let clips = matches!(loss, PolicyLoss::Ppo | PolicyLoss::Cispo | PolicyLoss::Gspo);
        let given = [
            ("clip_low", self.clip_low, clips),
            ("clip_high", self.clip_high, clips),
            ("ratio_limit", self.ratio_limit, loss == PolicyLoss::Ppo),
            ("temperature_positive", self.temperature_positive, loss == PolicyLoss::Sapo),
            ("temperature_negative", self.temperature_negative, loss == PolicyLoss::Sapo),
            ("beta", self.beta, loss == PolicyLoss::Dro),
        ];
        for (key, value, has) in given {
            let Some(value) = value else { continue };
            if !has {
                return wrong(key, format!("is no number of the loss `{}`: leave it out", loss.name()));
            }
            if !value.is_finite() || value < 0.0 {
                return wrong(key, format!("is {value}, but must be a finite number of at least 0"));
            }
        }
        let bounds = |usual: RatioBounds| {
            let (low, high) = (self.clip_low.unwrap_or(usual.low), self.clip_high.unwrap_or(usual.high));
            if low > high {
                return Err(refusal("clip_low", format!("is {low}, above the {high} of clip_high")));
            }
            // Others write how far a ratio may be from 1.
            match (low <= 1.0, high >= 1.0) {
                (true, true) => Ok(RatioBounds { low, high }),
                (false, _) => Err(refusal("clip_low", format!("is {low}, but it is a ratio, 1 at most: 0.8, not 1.2"))),
                (_, false) => {
                    let words = format!("is {high}, but it is a ratio, 1 at least: {}, not {high}", 1.0 + high);
                    Err(refusal("clip_high", words))
                }
            }
        };
        match loss {
            PolicyLoss::ImportanceSampling => Ok(LossFunction::ImportanceSampling),
            PolicyLoss::Ppo => {
                let bounds = bounds(RatioBounds::PPO)?;
                match self.ratio_limit {
                    None => Ok(LossFunction::Ppo(bounds)),
                    Some(ratio_limit) if ratio_limit >= bounds.high => {
                        Ok(LossFunction::DualClip { bounds, ratio_limit })
                    }
                    Some(limit) => wrong("ratio_limit", format!("is {limit}, below the {} of clip_high", bounds.high)),
                }
            }
            PolicyLoss::Sapo => {
                let (positive, negative) = LossFunction::SAPO;
                let positive = self.temperature_positive.unwrap_or(positive);
                let negative = self.temperature_negative.unwrap_or(negative);
                match positive > 0.0 && negative > 0.0 {
                    true => Ok(LossFunction::Sapo { positive, negative }),
                    false if positive > 0.0 => wrong("temperature_negative", "is 0, but must be above 0".to_owned()),
                    false => wrong("temperature_positive", "is 0, but must be above 0".to_owned()),
                }
            }
            PolicyLoss::Cispo => bounds(RatioBounds::CISPO).map(LossFunction::Cispo),
            PolicyLoss::Gspo => bounds(GSPO).map(LossFunction::Gspo),
            PolicyLoss::Dro => match self.beta {
                Some(beta) => Ok(LossFunction::Dro { beta }),
                None => wrong("beta", "is missing: the loss `dro` has no usual one".to_owned()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn loss(name: &str, parameters: Value) -> Result<LossFunction, String> {
        let loss: PolicyLoss = serde_json::from_value(json!(name)).unwrap();
        let parameters: LossParameters = serde_json::from_value(parameters).unwrap();
        parameters.of(loss).map_err(|error| error.to_string())
    }

    #[test]
    fn a_loss_has_its_usual_numbers_unless_told_otherwise() {
        let bounds = |low, high| RatioBounds { low, high };
        assert_eq!(loss("importance_sampling", json!({})), Ok(LossFunction::ImportanceSampling));
        assert_eq!(loss("ppo", json!({})), Ok(LossFunction::Ppo(bounds(0.8, 1.2))));
        assert_eq!(loss("ppo", json!({ "clip_high": 1.28 })), Ok(LossFunction::Ppo(bounds(0.8, 1.28))));
        assert_eq!(loss("cispo", json!({})), Ok(LossFunction::Cispo(bounds(0.0, 4.0))));
        assert_eq!(loss("gspo", json!({ "clip_low": 0.5 })), Ok(LossFunction::Gspo(bounds(0.5, 1.0004))));
        let limited = LossFunction::DualClip { bounds: bounds(0.8, 1.2), ratio_limit: 3.0 };
        assert_eq!(loss("ppo", json!({ "ratio_limit": 3.0 })), Ok(limited));
        assert_eq!(loss("sapo", json!({})), Ok(LossFunction::Sapo { positive: 1.0, negative: 1.05 }));
        assert_eq!(loss("dro", json!({ "beta": 0.25 })), Ok(LossFunction::Dro { beta: 0.25 }));
    }

    #[test]
    fn a_number_that_a_loss_cannot_have_is_refused_by_name() {
        let is = |name: &str, parameters: Value, expected: &str| {
            assert_eq!(loss(name, parameters), Err(format!("[trainer] loss_parameters.{expected}")));
        };
        is("dro", json!({}), "beta is missing: the loss `dro` has no usual one");
        is("ppo", json!({ "beta": 1.0 }), "beta is no number of the loss `ppo`: leave it out");
        let none = "clip_low is no number of the loss `importance_sampling`: leave it out";
        is("importance_sampling", json!({ "clip_low": 0.8 }), none);
        is("ppo", json!({ "clip_low": -0.2 }), "clip_low is -0.2, but must be a finite number of at least 0");
        is("ppo", json!({ "ratio_limit": 1.1 }), "ratio_limit is 1.1, below the 1.2 of clip_high");
        is("sapo", json!({ "temperature_negative": 0.0 }), "temperature_negative is 0, but must be above 0");
        is("ppo", json!({ "clip_low": 2.0 }), "clip_low is 2, above the 1.2 of clip_high");
        is("ppo", json!({ "clip_low": 1.1 }), "clip_low is 1.1, but it is a ratio, 1 at most: 0.8, not 1.2");
        let as_distances = json!({ "clip_low": 0.2, "clip_high": 0.25 });
        is("ppo", as_distances, "clip_high is 0.25, but it is a ratio, 1 at least: 1.25, not 0.25");
    }
}
