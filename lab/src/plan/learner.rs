//! Memory of the learner in PyTorch, on each of its GPUs.

use fulgurite_engine::LoraModule;
use serde::Serialize;

use crate::plan::job::{Checkpointing, Elements, Job};
use crate::plan::model_shape::ModelShape;

const MIB: u64 = 1 << 20;

/// Logits in float32 that the learner has at a time (`_CHUNK_BYTES` of `python/fulgurite/learner/passes.py`).
const CHUNK: u64 = 256 * MIB;
/// Tensors of a chunk's size at a time: logits in both element types, logprobs, probabilities, their product, a gradient.
const CHUNK_TENSORS: u64 = 5;
/// The same of an adapter beside the head: its product, and that scaled.
const ADAPTED_CHUNK_TENSORS: u64 = 2;
/// Assumed: a CUDA context with the libraries' work space, which stays while the learner waits for its turn.
pub(crate) const CONTEXT: u64 = 768 * MIB;
/// Assumed: what PyTorch's allocator cannot use between tensors is one byte of so many.
const FRAGMENTATION: u64 = 20;

/// Bytes that the learner takes of a GPU, as they add up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LearnerNeed {
    /// The model, frozen in its element type, or trained in float32.
    pub weights: u64,
    /// Of trained weights: their copies in the element type of products.
    pub weights_for_products: u64,
    /// Of weights that are spread over several GPUs: two layers, gathered for the pass of one and ahead of the next.
    pub gathered: u64,
    /// The adapter, in float32.
    pub adapter: u64,
    /// In float32.
    pub gradients: u64,
    /// Adam's two moments, in float32.
    pub moments: u64,
    /// The kept policy's weights, which come back to the GPU while it is scored.
    pub reference: u64,
    /// What the largest pass keeps for its way back, with the gradients of one layer.
    pub activations: u64,
    /// Logits of a chunk, and what is made of them.
    pub logits: u64,
    /// The CUDA context, and what lies idle between tensors.
    pub reserve: u64,
    /// Whether activations are computed again.
    pub checkpoints: bool,
}

impl LearnerNeed {
    /// With activations kept, or computed again.
    pub fn of(job: &Job, checkpoints: bool) -> Self {
        let Job { shape, elements, .. } = job;
        let parameters = shape.parameters();
        let trained = job.trained();
        let is_adapter = job.adapter.is_some();
        // Layers are spread over the processes; embedding, head and adapters are not, and neither are weights of 4 bits.
        let spreads = job.processes > 1 && *elements != Elements::Nf4;
        let of_layers = shape.layer_numbers();
        let kept = if spreads { parameters - of_layers + of_layers.div_ceil(job.processes) } else { parameters };
        let number_bytes = if is_adapter { elements.bytes() } else { 4 };
        let trained = if is_adapter { trained } else { kept };
        let mut need = Self {
            weights: if is_adapter { frozen_bytes(shape, kept, *elements) } else { kept * 4 },
            gathered: if spreads { 2 * number_bytes * of_layers / shape.layers } else { 0 },
            weights_for_products: match elements {
                Elements::Bfloat16 | Elements::Nf4 if !is_adapter => parameters * 2,
                _ => 0,
            },
            adapter: 4 * job.adapter_numbers(),
            gradients: 4 * trained,
            moments: 8 * trained,
            // An adapter is switched off for it.
            reference: if job.keeps_reference && !is_adapter { 4 * kept } else { 0 },
            activations: activations(job, checkpoints),
            logits: logits(job),
            reserve: 0,
            checkpoints,
        };
        need.reserve = CONTEXT + need.sum() / FRAGMENTATION;
        need
    }

    /// As the config says, on a GPU with so much free memory.
    pub fn configured(job: &Job, free: u64) -> Self {
        let checkpoints = match job.checkpointing {
            Checkpointing::On => true,
            Checkpointing::Off => false,
            Checkpointing::Auto => {
                let opened = Self::of(job, true);
                auto_checkpoints(job, free.saturating_sub(opened.weights + opened.adapter))
            }
        };
        Self::of(job, checkpoints)
    }

    /// All of it.
    pub fn sum(&self) -> u64 {
        self.weights
            + self.weights_for_products
            + self.gathered
            + self.adapter
            + self.gradients
            + self.moments
            + self.reference
            + self.activations
            + self.logits
            + self.reserve
    }

    /// Its parts by name.
    pub fn parts(&self) -> Vec<(&'static str, u64)> {
        let parts = [
            ("weights", self.weights),
            ("weights for products", self.weights_for_products),
            ("gathered layers", self.gathered),
            ("adapter", self.adapter),
            ("gradients", self.gradients),
            ("optimizer", self.moments),
            ("reference", self.reference),
            ("activations", self.activations),
            ("logits", self.logits),
            ("reserve", self.reserve),
        ];
        parts.into_iter().filter(|(_, bytes)| *bytes > 0).collect()
    }
}

/// Bytes of so many frozen weights. In nf4 a matrix of the layers has 4 bits a number and 32 for each 64 of them (Dettmers et al.
/// 2023, section 3, without the second quantisation); embedding, head and norms have 16.
fn frozen_bytes(shape: &ModelShape, parameters: u64, elements: Elements) -> u64 {
    match elements {
        Elements::Float32 => parameters * 4,
        Elements::Bfloat16 => parameters * 2,
        Elements::Nf4 => {
            let matrices = shape.layer_numbers();
            matrices * 9 / 16 + (parameters - matrices) * 2
        }
    }
}

/// What `gradient_checkpointing = "auto"` decides with so much free memory once the model is there
/// (`_activations_are_large` of `python/fulgurite/learner/learner.py`).
fn auto_checkpoints(job: &Job, free: u64) -> bool {
    let shape = &job.shape;
    let width = 16 * shape.hidden + 4 * shape.intermediate;
    job.max_tokens_per_pass * shape.layers * width * job.elements.bytes() > free / 2
}

/// Bytes of the activations of the largest pass.
///
/// All layers keep theirs, or their inputs alone and one of them all (Chen et al. 2016, section 3); the way back has the
/// gradients of one more.
fn activations(job: &Job, checkpoints: bool) -> u64 {
    let layer = layer_activations(job);
    // Trained weights leave the residual stream in float32.
    let input = job.shape.hidden * if job.adapter.is_some() { job.elements.bytes() } else { 4 };
    let kept = if checkpoints { job.shape.layers * input + layer } else { job.shape.layers * layer };
    job.tokens_of_pass() * (kept + layer)
}

/// Bytes that one token leaves in a layer for the way back.
///
/// Counted in the way of Korthikanti et al. 2022 (section 4.1), tensor by tensor, for the decoders of transformers 5 and
/// the adapters of PEFT with fused attention; PyTorch's `saved_tensors_hooks` finds the same bytes.
fn layer_activations(job: &Job) -> u64 {
    let ModelShape { hidden, intermediate, heads, key_value_heads, has_head_norms, .. } = job.shape;
    let (query, key) = (job.shape.query_width(), job.shape.key_width());
    let element = job.elements.bytes();
    let is_half = job.elements != Elements::Float32;
    // Norms compute in float32 and keep their input and one number of each row; both of a layer, and those of the heads.
    let mut bytes = 2 * (4 * hidden + 4);
    if has_head_norms {
        bytes += 4 * (query + key) + 4 * (heads + key_value_heads);
    }
    // Queries, keys and values, which packed rows repeat for all query heads, the result, and a sum of each head.
    bytes += element * 4 * query + 4 * heads;
    // Of the feed-forward layer: the gate, that bent, and what passes.
    bytes += element * 3 * intermediate;
    match &job.adapter {
        Some(adapter) => {
            let modules = || adapter.modules.iter().copied().filter(|module| *module != LoraModule::Head);
            bytes += 4 * adapter.rank * modules().count() as u64;
            if is_half {
                // PEFT makes a copy in float32 for each adapter.
                bytes += modules().map(|module| 4 * job.shape.inputs(module)).sum::<u64>();
            } else {
                // What they read is there once for all that read the same; attention's result is counted above.
                let any = |of: &[LoraModule]| modules().any(|module| of.contains(&module));
                let attention = any(&[LoraModule::Query, LoraModule::Key, LoraModule::Value]);
                let feed_forward = any(&[LoraModule::Gate, LoraModule::Up]);
                bytes += 4 * hidden * (u64::from(attention) + u64::from(feed_forward));
                bytes += if any(&[LoraModule::Down]) { 4 * intermediate } else { 0 };
            }
        }
        None => {
            // Weights of norms are trained, too, for which the normalised numbers are kept.
            bytes += 2 * 4 * hidden + if has_head_norms { element * (query + key) } else { 0 };
            // The products' inputs: in bfloat16 a copy for each of five, in float32 one for all that read the same.
            bytes += if is_half { 5 * 2 * hidden } else { 2 * 4 * hidden };
            bytes += element * intermediate;
        }
    }
    bytes
}

/// Bytes of a chunk of logits with what is made of it, and of the rows that it is made of.
fn logits(job: &Job) -> u64 {
    let tokens = job.tokens_of_pass();
    let adapts_head = job.adapter.as_ref().is_some_and(|adapter| adapter.modules.contains(&LoraModule::Head));
    let tensors = CHUNK_TENSORS + if adapts_head { ADAPTED_CHUNK_TENSORS } else { 0 };
    let chunk = CHUNK.min(tokens * job.shape.vocabulary * 4);
    tensors * chunk + 2 * tokens * job.shape.hidden * 4
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::job::{AdapterShape, job};
    use crate::plan::model_shape::{Biases, LAYER_MODULES};

    /// As PyTorch counted them, for keys and values that were not repeated.
    #[test]
    fn a_layer_keeps_the_bytes_that_pytorch_counted() {
        let shape = ModelShape {
            vocabulary: 512,
            hidden: 256,
            intermediate: 1024,
            layers: 3,
            heads: 8,
            key_value_heads: 2,
            head_size: 64,
            context: 4096,
            is_tied: false,
            biases: Biases::None,
            has_head_norms: false,
        };
        let adapter = AdapterShape { rank: 16, modules: LAYER_MODULES.into() };
        for (has_head_norms, is_adapter, elements, counted) in [
            (true, true, Elements::Bfloat16, 25_104),
            (true, true, Elements::Float32, 28_688),
            (true, false, Elements::Bfloat16, 21_328),
            (true, false, Elements::Float32, 32_848),
            (false, true, Elements::Bfloat16, 22_504),
            (false, true, Elements::Float32, 26_088),
            (false, false, Elements::Bfloat16, 17_448),
            (false, false, Elements::Float32, 27_688),
        ] {
            let job = Job {
                shape: ModelShape { has_head_norms, ..shape },
                adapter: is_adapter.then(|| adapter.clone()),
                elements,
                ..job("Qwen3-4B", 0)
            };
            let repeated = elements.bytes() * 2 * (512 - 128);
            let name = format!("head norms {has_head_norms}, adapter {is_adapter}, {}", elements.name());
            assert_eq!(layer_activations(&job) - repeated, counted, "{name}");
        }
    }

    #[test]
    fn an_adapters_optimizer_is_small_and_that_of_all_weights_is_not() {
        let need = LearnerNeed::of(&job("Qwen3-4B", 32), true);
        let numbers = 36 * 32 * 57_344;
        assert_eq!(need.weights, 2 * 4_022_468_096);
        assert_eq!((need.adapter, need.gradients, need.moments), (4 * numbers, 4 * numbers, 8 * numbers));
        assert_eq!((need.weights_for_products, need.reference), (0, 0));
        let whole = Job { keeps_reference: true, ..job("Qwen3-4B", 0) };
        let need = LearnerNeed::of(&whole, true);
        // 4 + 2 + 4 + 8 bytes of each weight, and 4 of the reference.
        let of_weights = need.weights + need.weights_for_products + need.gradients + need.moments + need.reference;
        assert_eq!((of_weights, need.adapter), (22 * 4_022_468_096, 0));
    }

    #[test]
    fn layers_are_spread_over_processes_and_the_rest_is_not() {
        let layers = 36 * (2 * 2560 * 4096 + 2 * 2560 * 1024 + 3 * 2560 * 9728);
        let rest = 4_022_468_096 - layers;
        let adapter = LearnerNeed::of(&Job { processes: 4, ..job("Qwen3-4B", 32) }, true);
        assert_eq!(adapter.weights, 2 * (rest + layers / 4));
        assert_eq!(adapter.gathered, 2 * 2 * layers / 36);
        assert_eq!(adapter.moments, LearnerNeed::of(&job("Qwen3-4B", 32), true).moments);
        let whole = LearnerNeed::of(&Job { processes: 4, ..job("Qwen3-4B", 0) }, true);
        assert_eq!((whole.weights, whole.moments), (4 * (rest + layers / 4), 8 * (rest + layers / 4)));
        let four_bits = Job { elements: Elements::Nf4, ..job("Qwen3-4B", 32) };
        let of = |processes| LearnerNeed::of(&Job { processes, ..four_bits.clone() }, true);
        assert_eq!(of(4), of(1));
    }

    #[test]
    fn four_bits_are_those_of_the_matrices_of_layers() {
        let job = Job { elements: Elements::Nf4, ..job("Qwen3-8B", 32) };
        let matrices = 36 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 12_288);
        let others = 8_190_735_360 - matrices;
        assert_eq!(LearnerNeed::of(&job, true).weights, matrices * 9 / 16 + 2 * others);
    }

    #[test]
    fn activations_are_those_of_the_largest_pass() {
        let job = job("Qwen3-4B", 32);
        // Norms 2*(4*2560+4) + 4*(4096+1024) + 4*40, attention 2*4*4096 + 4*32, feed-forward 6*9728, adapters
        // 4*(5*2560 + 4096 + 9728) + 4*32*7.
        let layer = 20_488 + 20_480 + 160 + 32_768 + 128 + 58_368 + 106_496 + 896;
        assert_eq!(layer_activations(&job), layer);
        assert_eq!(activations(&job, false), 4096 * (36 * layer + layer));
        assert_eq!(activations(&job, true), 4096 * (36 * 2 * 2560 + 2 * layer));
        let long = Job { rollout_tokens: 8192, ..job };
        assert_eq!(activations(&long, true), 8192 * (36 * 2 * 2560 + 2 * layer));
    }

    #[test]
    fn logits_are_those_of_a_chunk() {
        let job = job("Qwen3-4B", 32);
        assert_eq!(logits(&job), 5 * (256 << 20) + 2 * 4096 * 2560 * 4);
        let short = Job { max_tokens_per_pass: 100, rollout_tokens: 100, ..job };
        assert_eq!(logits(&short), 5 * 100 * 151_936 * 4 + 2 * 100 * 2560 * 4);
    }

    #[test]
    fn auto_checkpoints_where_half_of_the_free_memory_is_too_little() {
        // 4096 tokens * 36 layers * (16*2560 + 4*9728) * 2 bytes: 22 GiB.
        let job = job("Qwen3-4B", 32);
        assert!(LearnerNeed::configured(&job, 24 << 30).checkpoints);
        assert!(!LearnerNeed::configured(&job, 80 << 30).checkpoints);
        let on = Job { checkpointing: Checkpointing::On, ..job };
        assert!(LearnerNeed::configured(&on, 80 << 30).checkpoints);
    }
}
