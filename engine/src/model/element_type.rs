use safetensors::Dtype;
use serde::{Deserialize, Serialize};

/// What the numbers of a written model are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ElementType {
    /// 32 bits: what this engine computes with.
    #[default]
    F32,
    /// The upper half of those.
    Bf16,
    /// IEEE half precision.
    F16,
}

impl ElementType {
    /// Its name in a configuration's `dtype`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::F32 => "float32",
            Self::Bf16 => "bfloat16",
            Self::F16 => "float16",
        }
    }

    /// What a safetensors file calls it.
    pub(crate) fn dtype(self) -> Dtype {
        match self {
            Self::F32 => Dtype::F32,
            Self::Bf16 => Dtype::BF16,
            Self::F16 => Dtype::F16,
        }
    }
}
