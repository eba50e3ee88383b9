//! What the examples measure, and with.
#![allow(dead_code, unreachable_pub, reason = "each example uses its part")]

use std::sync::Arc;

use fulgurite_backends::SampleRequest;
use fulgurite_engine::ModelConfig;
use fulgurite_types::{Chunk, Datum, LossInputs};

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
        head: Default::default(),
        other: Default::default(),
    }
}

/// The decoder of a shape that is named by its number of weights.
pub fn shape(name: &str) -> Result<ModelConfig, String> {
    Ok(match name {
        "0.3m" => model(512, 64, 256, 4, 16),
        "6m" => model(4096, 256, 768, 6, 32),
        "30m" => model(8192, 512, 1536, 8, 64),
        // SmolLM2's: a fifth of its weights is the vocabulary's.
        "135m" => ModelConfig { num_key_value_heads: 3, num_attention_heads: 9, ..model(49_152, 576, 1536, 30, 64) },
        // Its heads are together twice as wide as its stream.
        "0.6b" => {
            ModelConfig { num_attention_heads: 16, num_key_value_heads: 8, ..model(151_936, 1024, 3072, 28, 128) }
        }
        _ => return Err("which shape: 0.3m, 6m, 30m, 135m or 0.6b?".to_owned()),
    })
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
    SampleRequest::new(prompt, tokens, seed)
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
