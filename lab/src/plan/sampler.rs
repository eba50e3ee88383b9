//! Memory of vLLM on each of its GPUs.

use serde::Serialize;

use crate::plan::gpu::Gpus;
use crate::plan::job::Job;
use crate::plan::model_shape::ModelShape;

const MIB: u64 = 1 << 20;

/// Tokens of a block of vLLM's cache (`--block-size`).
const BLOCK: u64 = 16;
/// Element size of weights, keys and values: bfloat16.
const ELEMENT: u64 = 2;
/// Adapters that are loaded at a time: `--max-loras 2`, the new one beside the one that answers under way still have.
const ADAPTERS: u64 = 2;
/// Assumed: tokens of a step of vLLM (`--max-num-batched-tokens`), for which it reserves activations.
const STEP_TOKENS: u64 = 2048;
/// Assumed: sequences of a step (`--max-num-seqs`), for which it reserves logits and probabilities in float32.
const STEP_SEQUENCES: u64 = 256;
/// Assumed: CUDA context and CUDA graphs, which stay while vLLM sleeps.
pub(crate) const CONTEXT: u64 = 1536 * MIB;

/// Bytes that vLLM takes of each of its GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SamplerNeed {
    /// Servers, each of which samples its share of the rollouts.
    pub servers: u64,
    /// GPUs of each (`--tensor-parallel-size`).
    pub tensor_parallel: u64,
    /// In bfloat16.
    pub weights: u64,
    /// Room for adapters.
    pub adapters: u64,
    /// Keys and values of the rollouts that run at a time.
    pub key_value_cache: u64,
    /// Activations of a step, logits, the CUDA context and graphs.
    pub reserve: u64,
}

impl SamplerNeed {
    /// Of so many servers of so many GPUs each.
    pub fn of(job: &Job, servers: u64, tensor_parallel: u64) -> Self {
        let ModelShape { hidden, intermediate, vocabulary, .. } = job.shape;
        let rollouts = job.parallel.div_ceil(servers);
        let step = STEP_TOKENS * (4 * hidden + 3 * intermediate) * ELEMENT + 2 * STEP_SEQUENCES * vocabulary * 4;
        Self {
            servers,
            tensor_parallel,
            weights: job.shape.parameters() * ELEMENT / tensor_parallel,
            adapters: ADAPTERS * job.adapter_numbers() * ELEMENT / tensor_parallel,
            key_value_cache: rollouts * job.rollout_tokens.next_multiple_of(BLOCK) * token_bytes(&job.shape)
                / tensor_parallel,
            reserve: CONTEXT + step,
        }
    }

    /// All of it.
    pub fn sum(&self) -> u64 {
        self.weights + self.adapters + self.key_value_cache + self.reserve
    }

    /// Its parts by name.
    pub fn parts(&self) -> Vec<(&'static str, u64)> {
        let parts = [
            ("weights", self.weights),
            ("adapters", self.adapters),
            ("KV cache", self.key_value_cache),
            ("reserve", self.reserve),
        ];
        parts.into_iter().filter(|(_, bytes)| *bytes > 0).collect()
    }

    /// `--gpu-memory-utilization` that gives it as much, in hundredths.
    pub fn utilization(&self, gpus: &Gpus) -> f64 {
        (self.sum() as f64 / gpus.memory as f64 * 100.0).ceil() / 100.0
    }
}

/// Bytes of a token's keys and values: `2 * layers * key width * element size` (Kwon et al. 2023, section 3).
pub fn token_bytes(shape: &ModelShape) -> u64 {
    2 * shape.layers * shape.key_width() * ELEMENT
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::job::job;
    use crate::plan::known_models::KNOWN_MODELS;

    #[test]
    fn a_token_takes_keys_and_values_of_all_layers() {
        let bytes = KNOWN_MODELS.map(|model| token_bytes(&model.shape));
        // 2 * layers * (key heads * head size) * 2.
        assert_eq!(bytes, [12_288, 28_672, 147_456, 131_072, 147_456, 163_840, 262_144]);
    }

    #[test]
    fn the_cache_holds_the_rollouts_that_run_at_a_time() {
        let need = SamplerNeed::of(&job("Qwen3-4B", 32), 1, 1);
        assert_eq!(need.weights, 8_044_936_192);
        assert_eq!(need.key_value_cache, 16 * 2048 * 147_456);
        assert_eq!(need.adapters, 2 * 2 * 36 * 32 * 57_344);
        // 2048 tokens * (4*2560 + 3*9728) * 2, two times 256 rows of logits.
        assert_eq!(need.reserve, (1536 << 20) + 2048 * 39_424 * 2 + 2 * 256 * 151_936 * 4);
        let odd = Job { rollout_tokens: 2049, parallel: 3, ..job("Qwen3-4B", 32) };
        assert_eq!(SamplerNeed::of(&odd, 2, 1).key_value_cache, 2 * 2064 * 147_456);
        assert_eq!(SamplerNeed::of(&odd, 1, 2).weights, 4_022_468_096);
    }
}
