use serde::{Deserialize, Serialize};

/// How fast the parts of a model learn, each as a factor of the step size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LearningRateFactors {
    /// The embedding, which is the head too where they are tied.
    pub embeddings: f64,
    /// A head of its own, or the adapter beside it.
    pub head: f64,
    /// Gains of norms.
    pub norms: f64,
    /// Matrices and biases of the layers, or the adapter beside them.
    pub layers: f64,
    /// The `B` matrices of an adapter, times the factor of their part, as LoRA+ has it.
    pub lora_b: f64,
}

impl Default for LearningRateFactors {
    fn default() -> Self {
        Self { embeddings: 1.0, head: 1.0, norms: 1.0, layers: 1.0, lora_b: 1.0 }
    }
}

/// A part of a model, by the names of its tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Embeddings,
    Head,
    Norms,
    Layers,
}

impl Part {
    fn of(name: &str) -> Self {
        let mut components = name.split('.');
        if components.clone().any(|component| component == "lm_head") {
            Self::Head
        } else if components.clone().any(|component| component == "embed_tokens") {
            Self::Embeddings
        } else if components.any(|component| component.ends_with("norm")) {
            Self::Norms
        } else {
            Self::Layers
        }
    }
}

impl LearningRateFactors {
    /// Each factor with its key.
    pub fn named(&self) -> [(&'static str, f64); 5] {
        let Self { embeddings, head, norms, layers, lora_b } = *self;
        [("embeddings", embeddings), ("head", head), ("norms", norms), ("layers", layers), ("lora_b", lora_b)]
    }

    fn of(&self, name: &str) -> f64 {
        let of_part = match Part::of(name) {
            Part::Embeddings => self.embeddings,
            Part::Head => self.head,
            Part::Norms => self.norms,
            Part::Layers => self.layers,
        };
        if is_lora_b(name) { of_part * self.lora_b } else { of_part }
    }
}

fn is_lora_b(name: &str) -> bool {
    name.split('.').any(|component| component == "lora_B")
}

/// What of a model is trained, and how fast.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TrainedParts {
    /// Factors of the step size.
    pub factors: LearningRateFactors,
    /// Tensors that stay as they are: components of their names, one after another, with `*` for any and `0-11` for a range.
    pub frozen: Vec<String>,
}

impl TrainedParts {
    /// The factor of the step size of each of these tensors; 0 of one that stays as it is.
    ///
    /// # Errors
    /// Names the key that is of no tensor, or the patterns that leave nothing to train.
    pub fn rates(&self, names: &[&str]) -> Result<Vec<f64>, String> {
        for pattern in &self.frozen {
            if !names.iter().any(|name| matches(pattern, name)) {
                return Err(format!(
                    "[[models]] frozen has {pattern:?}, which is in the name of no tensor that is trained"
                ));
            }
        }
        let is_there = |key: &str| match key {
            "embeddings" => names.iter().any(|name| Part::of(name) == Part::Embeddings),
            "head" => names.iter().any(|name| Part::of(name) == Part::Head),
            "norms" => names.iter().any(|name| Part::of(name) == Part::Norms),
            "layers" => names.iter().any(|name| Part::of(name) == Part::Layers),
            _ => names.iter().any(|name| is_lora_b(name)),
        };
        if let Some((key, _)) = self.factors.named().iter().find(|(key, factor)| *factor != 1.0 && !is_there(key)) {
            return Err(format!("[trainer] learning_rate_factors.{key} is of no tensor that is trained: leave it out"));
        }
        let is_frozen = |name: &str| self.frozen.iter().any(|pattern| matches(pattern, name));
        let rate = |name: &&str| if is_frozen(name) { 0.0 } else { self.factors.of(name) };
        let rates: Vec<f64> = names.iter().map(rate).collect();
        if names.iter().all(|name| is_frozen(name)) {
            return Err("[[models]] frozen leaves nothing to train".to_owned());
        }
        Ok(rates)
    }
}

/// Whether a pattern's components stand one after another in a name.
fn matches(pattern: &str, name: &str) -> bool {
    let pattern: Vec<&str> = pattern.split('.').collect();
    let components: Vec<&str> = name.split('.').collect();
    let is_it = |found: &[&str]| found.iter().zip(&pattern).all(|(component, wanted)| fits(wanted, component));
    components.windows(pattern.len()).any(is_it)
}

fn fits(wanted: &str, component: &str) -> bool {
    if wanted == "*" || wanted == component {
        return true;
    }
    let range = || {
        let (first, last) = wanted.split_once('-')?;
        Some(first.parse::<u64>().ok()?..=last.parse().ok()?)
    };
    component.parse().is_ok_and(|number: u64| range().is_some_and(|range| range.contains(&number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 6] = [
        "model.embed_tokens.weight",
        "model.layers.1.self_attn.q_proj.weight",
        "model.layers.1.self_attn.q_norm.weight",
        "model.layers.11.mlp.up_proj.weight",
        "model.norm.weight",
        "lm_head.weight",
    ];

    fn frozen(patterns: &[&str]) -> Result<Vec<bool>, String> {
        let parts = TrainedParts {
            frozen: patterns.iter().map(|pattern| (*pattern).to_owned()).collect(),
            ..TrainedParts::default()
        };
        Ok(parts.rates(&NAMES)?.into_iter().map(|rate| rate == 0.0).collect())
    }

    #[test]
    fn patterns_are_components_one_after_another() {
        for (pattern, expected) in [
            ("layers.1", [false, true, true, false, false, false]),
            ("layers.0-11", [false, true, true, true, false, false]),
            ("layers.*.mlp", [false, false, false, true, false, false]),
            ("model.embed_tokens", [true, false, false, false, false, false]),
            ("norm", [false, false, false, false, true, false]),
            ("model", [true, true, true, true, true, false]),
        ] {
            assert_eq!(frozen(&[pattern]), Ok(expected.to_vec()), "{pattern}");
        }
        for wrong in ["layers.2", "embed", "1.layers", "", "layers.1.self_attn.q_proj.weight.more"] {
            let error = frozen(&[wrong]).unwrap_err();
            assert!(error.contains("frozen has") && error.contains("no tensor"), "{wrong}: {error}");
        }
        assert!(frozen(&["model", "lm_head"]).unwrap_err().contains("nothing to train"));
    }

    #[test]
    fn factors_are_by_part() {
        let factors = LearningRateFactors { embeddings: 0.1, head: 0.5, norms: 2.0, layers: 3.0, lora_b: 1.0 };
        let parts = TrainedParts { factors, frozen: vec!["layers.11".to_owned()] };
        assert_eq!(parts.rates(&NAMES), Ok(vec![0.1, 3.0, 2.0, 0.0, 2.0, 0.5]));
        let factors = LearningRateFactors { head: 2.0, lora_b: 16.0, ..LearningRateFactors::default() };
        let adapter =
            ["base_model.model.model.layers.0.mlp.up_proj.lora_A.weight", "base_model.model.lm_head.lora_B.weight"];
        let parts = TrainedParts { factors, ..TrainedParts::default() };
        assert_eq!(parts.rates(&adapter), Ok(vec![1.0, 32.0]));
        let error = parts.rates(&NAMES).unwrap_err();
        assert!(error.contains("learning_rate_factors.lora_b is of no tensor"), "{error}");
        let error = parts.rates(&NAMES[..5]).unwrap_err();
        assert!(error.contains("learning_rate_factors.head is of no tensor"), "{error}");
    }
}
