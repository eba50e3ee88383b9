use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Which weights sampled a token: counts up by one with every update that is put behind the sampler.
/// Version 0 is the model as it was loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WeightsVersion(pub u64);

/// How the next token is chosen from the model's distribution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SamplingParameters {
    /// Divides the logits. 0 takes the likeliest token, whose logprob is then 0: it was certain.
    pub temperature: f32,
    /// Keep the smallest set of tokens whose probabilities sum to at least this. 1 keeps all.
    pub top_p: f32,
    /// Keep this many of the likeliest tokens. `None` keeps all.
    pub top_k: Option<usize>,
    /// Taken from the logit of every token that has been sampled in this answer, once.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub presence_penalty: f32,
    /// Taken from a token's logit as often as it has been sampled in this answer.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub frequency_penalty: f32,
    /// Added to the logits of these tokens.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub logit_bias: BTreeMap<u32, f32>,
    /// What the answer must look like: tokens that would break it cannot be sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub constraint: Option<Constraint>,
}

fn is_zero(value: &f32) -> bool {
    *value == 0.0
}

/// What an answer must look like. Tokens that cannot be part of such an answer are masked while it is sampled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Constraint {
    /// JSON text that meets this JSON schema, and nothing else.
    JsonSchema(Value),
    /// Text that this grammar derives, in llguidance's dialect of Lark.
    Lark(String),
}

impl Default for SamplingParameters {
    fn default() -> Self {
        Self {
            temperature: 1.0,
            top_p: 1.0,
            top_k: None,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            logit_bias: BTreeMap::new(),
            constraint: None,
        }
    }
}

impl SamplingParameters {
    /// Whether what can come next depends on what this answer has said, not on the tokens before alone: such an answer
    /// cannot be gone on with as if its beginning were the prompt's end.
    pub fn depends_on_answer(&self) -> bool {
        self.presence_penalty != 0.0 || self.frequency_penalty != 0.0 || self.constraint.is_some()
    }

    /// Whether a token's logprob is that of the model's own distribution, so that it can be trained on as it stands.
    pub fn is_unmodified(&self) -> bool {
        self.is_unmodified_at(1.0)
    }

    /// Whether a token's logprob is that of the model's own distribution at this temperature, above 0, so that it can be
    /// trained by logits that the temperature divides.
    pub fn is_unmodified_at(&self, expected: f32) -> bool {
        let Self { temperature, top_p, top_k, presence_penalty, frequency_penalty, logit_bias, constraint } = self;
        *temperature == expected
            && *temperature > 0.0
            && *top_p >= 1.0
            && top_k.is_none()
            && *presence_penalty == 0.0
            && *frequency_penalty == 0.0
            && logit_bias.is_empty()
            && constraint.is_none()
    }
}

/// Sampling parameters as they are recorded, to the letter: an upstream's and an imported record's may be others than ours.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RecordedSampling(pub Value);

impl RecordedSampling {
    /// The parameters, if they are such as ours.
    pub fn parameters(&self) -> Option<SamplingParameters> {
        SamplingParameters::deserialize(&self.0).ok()
    }
}

impl From<&SamplingParameters> for RecordedSampling {
    fn from(parameters: &SamplingParameters) -> Self {
        Self(json!(parameters))
    }
}
