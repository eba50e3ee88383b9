use std::f64::consts::{PI, TAU};

use serde::{Deserialize, Serialize};

/// How the rotary embedding of a model was stretched to longer contexts, under Hugging Face's names. The formulas are
/// those of its `modeling_rope_utils`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "rope_type", rename_all = "snake_case")]
pub enum RopeScaling {
    /// Not at all.
    #[default]
    Default,
    /// All wavelengths by one factor.
    Linear {
        /// By how much.
        factor: f64,
    },
    /// Llama 3.1's: long wavelengths whole, short ones not, those between in part.
    Llama3 {
        /// By how much.
        factor: f64,
        /// Wavelengths above the original context length over this are stretched whole.
        low_freq_factor: f64,
        /// Wavelengths below the original context length over this are left alone.
        high_freq_factor: f64,
        /// Context length before.
        original_max_position_embeddings: f64,
    },
    /// YaRN (Peng et al. 2023): as Llama 3.1's, but by place, and with sharper attention.
    Yarn {
        /// By how much.
        factor: f64,
        /// Context length before.
        original_max_position_embeddings: f64,
        /// Rotations over the original context above which nothing is stretched.
        #[serde(default = "beta_fast")]
        beta_fast: f64,
        /// Rotations below which all is.
        #[serde(default = "beta_slow")]
        beta_slow: f64,
        /// Multiplies cosines and sines; by default `0.1 ln(factor) + 1`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attention_factor: Option<f64>,
        /// Whether the range between is widened to whole places.
        #[serde(default = "truncate")]
        truncate: bool,
    },
}

fn beta_fast() -> f64 {
    32.0
}

fn beta_slow() -> f64 {
    1.0
}

fn truncate() -> bool {
    true
}

/// Keys beside those above that Hugging Face's files may hold; each of them changes what is computed.
pub(crate) const UNSUPPORTED_KEYS: [&str; 4] = ["mscale", "mscale_all_dim", "partial_rotary_factor", "short_factor"];

impl RopeScaling {
    /// The angle per position of each pair of a head, and what cosines and sines are multiplied with.
    pub(crate) fn frequencies(&self, head: usize, theta: f64) -> (Vec<f32>, f32) {
        let plain: Vec<f64> = (0..head / 2).map(|i| 1.0 / theta.powf(2.0 * i as f64 / head as f64)).collect();
        let scaled: Vec<f64> = match *self {
            Self::Default => plain,
            Self::Linear { factor } => plain.into_iter().map(|frequency| frequency / factor).collect(),
            Self::Llama3 { factor, low_freq_factor, high_freq_factor, original_max_position_embeddings } => {
                let stretch = |frequency: f64| {
                    let turns = original_max_position_embeddings * frequency / TAU;
                    let kept = ((turns - low_freq_factor) / (high_freq_factor - low_freq_factor)).clamp(0.0, 1.0);
                    (1.0 - kept) * frequency / factor + kept * frequency
                };
                plain.into_iter().map(stretch).collect()
            }
            Self::Yarn { factor, original_max_position_embeddings, beta_fast, beta_slow, truncate, .. } => {
                let place = |turns: f64| {
                    head as f64 * (original_max_position_embeddings / (turns * 2.0 * PI)).ln() / (2.0 * theta.ln())
                };
                let (low, high) = (place(beta_fast), place(beta_slow));
                let (low, high) = if truncate { (low.floor(), high.ceil()) } else { (low, high) };
                let (low, high) = (low.max(0.0), high.min(head as f64 - 1.0));
                let high = if low == high { high + 0.001 } else { high };
                let stretch = |(index, frequency): (usize, f64)| {
                    let stretched = ((index as f64 - low) / (high - low)).clamp(0.0, 1.0);
                    stretched * frequency / factor + (1.0 - stretched) * frequency
                };
                plain.into_iter().enumerate().map(stretch).collect()
            }
        };
        (scaled.into_iter().map(|frequency| frequency as f32).collect(), self.attention_factor())
    }

    fn attention_factor(&self) -> f32 {
        match *self {
            Self::Yarn { attention_factor: Some(given), .. } => given as f32,
            Self::Yarn { factor, .. } if factor > 1.0 => (0.1 * factor.ln() + 1.0) as f32,
            _ => 1.0,
        }
    }

    /// What is wrong with its numbers, if anything is.
    pub(crate) fn fault(&self) -> Option<String> {
        let positive = |name: &str, value: f64| {
            (!(value.is_finite() && value > 0.0)).then(|| format!("rope scaling: {name} is {value}, not above 0"))
        };
        match *self {
            Self::Default => None,
            Self::Linear { factor } => positive("factor", factor),
            Self::Llama3 { factor, low_freq_factor, high_freq_factor, original_max_position_embeddings } => {
                let ordered = (high_freq_factor <= low_freq_factor)
                    .then(|| "rope scaling: high_freq_factor must be above low_freq_factor".to_owned());
                positive("factor", factor)
                    .or_else(|| positive("original_max_position_embeddings", original_max_position_embeddings))
                    .or(ordered)
            }
            Self::Yarn { factor, original_max_position_embeddings, beta_fast, beta_slow, attention_factor, .. } => {
                positive("factor", factor)
                    .or_else(|| positive("attention_factor", attention_factor.unwrap_or(1.0)))
                    .or_else(|| positive("original_max_position_embeddings", original_max_position_embeddings))
                    .or_else(|| positive("beta_fast", beta_fast))
                    .or_else(|| positive("beta_slow", beta_slow))
            }
        }
    }
}
