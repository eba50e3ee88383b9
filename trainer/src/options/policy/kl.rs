//! What a config says of a reference that the policy is kept near to.

use serde::{Deserialize, Serialize};

use crate::TrainError;
use crate::options::keys::refusal::{positive_number, refuse, share, wrong};

/// Where leaving the reference is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KlPlace {
    /// In the advantages, as tinker-cookbook: no further pass over the rows than the reference's.
    #[default]
    Reward,
    /// In the loss, by a second pass with a gradient.
    Loss,
}

/// What leaving a reference policy costs. In the reward: the advantage of each sampled token grows by
/// `coefficient * (mean(d) - d)`, where `d` is its logprob under the policy less that under the reference, and the mean is the
/// batch's. In the loss: each adds `coefficient * (exp(-d) + d - 1)`, which is differentiated too (GRPO: Shao et al. 2024).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KlOptions {
    /// Scale of the penalty; with `target` that of the first update.
    pub coefficient: f32,
    /// Of the reward: the mean of `d` that the coefficient is adapted to, in nats a token (Ziegler et al. 2019). Without it, the
    /// coefficient stays.
    #[serde(default)]
    pub target: Option<f64>,
    /// With `target`: rollouts over which the coefficient changes by the relative error, which counts as 0.2 at most; 10,000 unless
    /// set.
    #[serde(default)]
    pub horizon: Option<f64>,
    /// Where it is counted.
    #[serde(default, rename = "in")]
    pub place: KlPlace,
    /// Of the reward: above 0, a token answers for what follows it too, each token further discounted by this.
    #[serde(default)]
    pub discount: f32,
    /// The name of one of `[[models]]` with the same tokenizer, in this process; without it, the weights that the run began
    /// with.
    #[serde(default)]
    pub reference: Option<String>,
}

/// How a coefficient is adapted to a target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KlTarget {
    /// Nats a token.
    pub target: f64,
    /// Rollouts.
    pub horizon: f64,
}

impl KlOptions {
    /// TRL's and verl's.
    const HORIZON: f64 = 10_000.0;

    /// What the coefficient is adapted to, if it is.
    pub(crate) fn adapted_to(&self) -> Option<KlTarget> {
        let horizon = self.horizon.unwrap_or(Self::HORIZON);
        self.target.map(|target| KlTarget { target, horizon })
    }

    pub(crate) fn check(&self) -> Result<(), TrainError> {
        if !self.coefficient.is_finite() || self.coefficient < 0.0 {
            let message = "must be a finite number of at least 0";
            return refuse("[trainer] kl.coefficient", self.coefficient, message);
        }
        if self.place == KlPlace::Loss && self.discount != 0.0 {
            return refuse("[trainer] kl.discount", self.discount, "is of kl.in = \"reward\": leave it out");
        }
        self.check_target()?;
        share("[trainer] kl.discount", f64::from(self.discount))
    }

    fn check_target(&self) -> Result<(), TrainError> {
        let Some(KlTarget { target, horizon }) = self.adapted_to() else {
            return match self.horizon {
                Some(horizon) => refuse("[trainer] kl.horizon", horizon, "is of kl.target: leave it out"),
                None => Ok(()),
            };
        };
        if self.place == KlPlace::Loss {
            return refuse("[trainer] kl.target", target, "is of kl.in = \"reward\": leave it out");
        }
        if self.coefficient == 0.0 {
            return wrong("[trainer] kl.target", "adapts the coefficient by factors, and kl.coefficient is 0");
        }
        positive_number("[trainer] kl.target", target)?;
        positive_number("[trainer] kl.horizon", horizon)
    }
}
