use crate::device_name::Device;
use crate::grammars::GrammarLimits;
use crate::model::model_head::ModelHead;

/// How much of the machine an engine may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineOptions {
    /// Threads of the sampler, and of the learner (which uses at most two). Changes no result.
    pub threads: usize,
    /// Requests that may wait for a place in the batch.
    pub queue_limit: usize,
    /// Requests that are sampled together.
    pub max_batch: usize,
    /// Greatest size, in bytes, of the keys and values that are kept for prompts that begin as an earlier sequence did;
    /// 0 keeps none. Changes no result.
    pub prefix_cache_bytes: usize,
    /// Where the large products are computed. Changes no result.
    pub device: Device,
    /// The model's head, where it is not to be that of its directory: a score in place of the next token begins at 0.
    pub head: Option<ModelHead>,
    /// What a schema or grammar that an answer is kept to may take.
    pub grammar_limits: GrammarLimits,
}

impl Default for EngineOptions {
    /// All of the machine's cores.
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get());
        Self {
            threads,
            queue_limit: 1024,
            max_batch: 64,
            prefix_cache_bytes: 512 << 20,
            device: Device::Cpu,
            head: None,
            grammar_limits: GrammarLimits::default(),
        }
    }
}
