use clap::ValueEnum;
use fulgurite_engine::ModelConfig;
use serde_json::Map;

/// Dimensions of a model under measurement: Qwen3's, with a tied head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shape {
    /// 279,232 parameters, 512 tokens of vocabulary.
    #[value(name = "0.3m")]
    Tiny,
    /// 5,770,880 parameters, 4,096 tokens of vocabulary.
    #[value(name = "6m")]
    Small,
    /// 29,369,856 parameters, 8,192 tokens of vocabulary.
    #[value(name = "30m")]
    Middle,
    /// SmolLM2-135M's.
    #[value(name = "135m")]
    Smol135M,
    /// Qwen3-0.6B's.
    #[value(name = "0.6b")]
    Qwen600M,
    /// Qwen3-1.7B's.
    #[value(name = "1.7b")]
    Qwen1700M,
}

impl Shape {
    /// What the command line and the table call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tiny => "0.3m",
            Self::Small => "6m",
            Self::Middle => "30m",
            Self::Smol135M => "135m",
            Self::Qwen600M => "0.6b",
            Self::Qwen1700M => "1.7b",
        }
    }

    /// The dimensions.
    pub fn config(self) -> ModelConfig {
        let (vocab_size, hidden_size, intermediate_size, num_hidden_layers, heads) = match self {
            Self::Tiny => (512, 64, 256, 4, (4, 2, 16)),
            Self::Small => (4096, 256, 768, 6, (8, 4, 32)),
            Self::Middle => (8192, 512, 1536, 8, (8, 4, 64)),
            Self::Smol135M => (49_152, 576, 1536, 30, (9, 3, 64)),
            Self::Qwen600M => (151_936, 1024, 3072, 28, (16, 8, 128)),
            Self::Qwen1700M => (151_936, 2048, 6144, 28, (16, 8, 128)),
        };
        let (num_attention_heads, num_key_value_heads, head_dim) = heads;
        ModelConfig {
            architecture: Default::default(),
            vocab_size,
            hidden_size,
            intermediate_size,
            num_hidden_layers,
            num_attention_heads,
            num_key_value_heads,
            head_dim,
            max_position_embeddings: 4096,
            rms_norm_eps: 1e-6,
            rope_theta: 1_000_000.0,
            rope_scaling: Default::default(),
            tie_word_embeddings: true,
            head: Default::default(),
            other: Map::new(),
        }
    }
}
