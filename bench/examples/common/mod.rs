//! What the examples measure, and with.
#![allow(dead_code, unreachable_pub, reason = "each example uses its part")]

use std::sync::Arc;

use fulgurite_backends::SampleRequest;
use fulgurite_engine::ModelConfig;
use fulgurite_types::{Chunk, Datum, LossInputs, SamplingParameters};

/// A decoder of this vocabulary, width, width of the feed-forward part and number of layers, with heads of `head` and half
/// as many of keys and values.
pub fn model(vocabulary: usize, hidden: usize, inner: usize, layers: usize, head: usize) -> ModelConfig {
    ModelConfig {
        architecture: Default::default(),
        vocab_size: vocabulary,
        hidden_size: hidden,
        intermediate_size: inner,
        num_hidden_layers: layers,
        num_attention_heads: hidden / head,
        num_key_value_heads: hidden / head / 2,
        head_dim: head,
        max_position_embeddings: 4096,
        rms_norm_eps: 1e-6,
        rope_theta: 10_000.0,
        rope_scaling: Default::default(),
        tie_word_embeddings: true,
        other: Default::default(),
    }
}

/// Sequences of so many tokens, all of which but the first are trained.
pub fn rows(count: usize, length: usize, vocabulary: usize) -> Arc<[Datum]> {
    let row = |row: usize| {
        let token = |at: usize| ((row * 7919 + at * at * 104_729) % vocabulary) as u32;
        Datum {
            model_input: vec![Chunk::Tokens((0..length).map(token).collect())],
            target_tokens: (1..=length).map(token).collect(),
            loss_inputs: LossInputs::Supervised { weights: vec![1.0; length] },
        }
    };
    (0..count).map(row).collect()
}

/// An answer of so many tokens to a prompt, at temperature 1.
pub fn request(prompt: Vec<u32>, tokens: usize, seed: u64) -> SampleRequest {
    SampleRequest {
        prompt,
        max_tokens: tokens,
        sampling: SamplingParameters::default(),
        stop_tokens: vec![],
        stop_sequences: vec![],
        seed,
        top_logprobs: 0,
        stream_interval: 1,
        affinity: None,
    }
}

/// What this process has had of processors, on Linux.
pub fn processor_seconds() -> Result<f64, Box<dyn std::error::Error>> {
    const TICKS: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // After the command's name, which may hold anything, the times are the twelfth and thirteenth.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
    let ticks = fields.map(str::parse::<u64>).sum::<Result<u64, _>>()?;
    Ok(ticks as f64 / TICKS)
}

/// The most memory that this process has had, where the system tells (Linux).
pub fn peak_memory() -> Result<String, std::io::Error> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    Ok(line.map_or("unknown".to_owned(), |line| line.trim().to_owned()))
}
