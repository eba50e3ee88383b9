//! Shapes of public models, so that one can plan before anything is fetched.

use crate::plan::model_shape::{Biases, ModelShape};

/// A public model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KnownModel {
    /// As its repository is called.
    pub name: &'static str,
    /// By its `config.json`.
    pub shape: ModelShape,
}

/// The model of this name, in any case, with or without its owner.
pub fn known_model(name: &str) -> Option<KnownModel> {
    let name = name.rsplit('/').next().unwrap_or(name);
    KNOWN_MODELS.into_iter().find(|model| model.name.eq_ignore_ascii_case(name))
}

const QWEN2: ModelShape = ModelShape {
    vocabulary: 151_936,
    hidden: 896,
    intermediate: 4864,
    layers: 24,
    heads: 14,
    key_value_heads: 2,
    head_size: 64,
    context: 32_768,
    is_tied: true,
    biases: Biases::QueriesKeysValues,
    has_head_norms: false,
};

const QWEN3: ModelShape = ModelShape {
    vocabulary: 151_936,
    hidden: 2560,
    intermediate: 9728,
    layers: 36,
    heads: 32,
    key_value_heads: 8,
    head_size: 128,
    context: 40_960,
    is_tied: true,
    biases: Biases::None,
    has_head_norms: true,
};

/// From the smallest to the largest.
pub const KNOWN_MODELS: [KnownModel; 7] = [
    KnownModel { name: "Qwen2.5-0.5B", shape: QWEN2 },
    KnownModel {
        name: "Qwen2.5-1.5B",
        shape: ModelShape { hidden: 1536, intermediate: 8960, layers: 28, heads: 12, head_size: 128, ..QWEN2 },
    },
    KnownModel { name: "Qwen3-4B", shape: QWEN3 },
    KnownModel {
        name: "Llama-3.1-8B",
        shape: ModelShape {
            vocabulary: 128_256,
            hidden: 4096,
            intermediate: 14_336,
            layers: 32,
            context: 131_072,
            is_tied: false,
            has_head_norms: false,
            ..QWEN3
        },
    },
    KnownModel { name: "Qwen3-8B", shape: ModelShape { hidden: 4096, intermediate: 12_288, is_tied: false, ..QWEN3 } },
    KnownModel {
        name: "Qwen3-14B",
        shape: ModelShape { hidden: 5120, intermediate: 17_408, layers: 40, heads: 40, is_tied: false, ..QWEN3 },
    },
    KnownModel {
        name: "Qwen3-32B",
        shape: ModelShape { hidden: 5120, intermediate: 25_600, layers: 64, heads: 64, is_tied: false, ..QWEN3 },
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_models_have_as_many_weights_as_their_files() {
        let counts = KNOWN_MODELS.map(|model| (model.name, model.shape.parameters()));
        let published = [
            ("Qwen2.5-0.5B", 494_032_768),
            ("Qwen2.5-1.5B", 1_543_714_304),
            ("Qwen3-4B", 4_022_468_096),
            ("Llama-3.1-8B", 8_030_261_248),
            ("Qwen3-8B", 8_190_735_360),
            ("Qwen3-14B", 14_768_307_200),
            ("Qwen3-32B", 32_762_123_264),
        ];
        assert_eq!(counts, published);
        assert_eq!(known_model("Qwen/qwen3-4b").map(|model| model.name), Some("Qwen3-4B"));
        assert_eq!(known_model("Qwen3-5B"), None);
    }
}
