/// Which kind of decoder a model is. All have RMS norms, grouped query attention with rotary embedding, and SwiGLU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Architecture {
    /// Norms on query and key heads.
    #[default]
    Qwen3,
    /// Biases on the query, key and value projections; Qwen2.5 too.
    Qwen2,
    /// Neither.
    Llama,
}

impl Architecture {
    /// All of them.
    pub const ALL: [Architecture; 3] = [Architecture::Qwen3, Architecture::Qwen2, Architecture::Llama];

    /// Its name in a configuration's `architectures`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Qwen3 => "Qwen3ForCausalLM",
            Self::Qwen2 => "Qwen2ForCausalLM",
            Self::Llama => "LlamaForCausalLM",
        }
    }

    /// Its name there where its head is a score.
    pub fn score_name(self) -> &'static str {
        match self {
            Self::Qwen3 => "Qwen3ForSequenceClassification",
            Self::Qwen2 => "Qwen2ForSequenceClassification",
            Self::Llama => "LlamaForSequenceClassification",
        }
    }

    /// Its `model_type` there.
    pub fn model_type(self) -> &'static str {
        match self {
            Self::Qwen3 => "qwen3",
            Self::Qwen2 => "qwen2",
            Self::Llama => "llama",
        }
    }

    pub(crate) fn has_head_norms(self) -> bool {
        self == Self::Qwen3
    }

    pub(crate) fn has_biases(self) -> bool {
        self == Self::Qwen2
    }

    /// The width of a head where the configuration does not give it.
    pub(crate) fn default_head(self, hidden: usize, heads: usize) -> usize {
        match self {
            Self::Qwen3 => 128,
            Self::Qwen2 | Self::Llama => hidden / heads.max(1),
        }
    }
}
