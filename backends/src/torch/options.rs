use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// GPUs that a node may have.
const MOST_PROCESSES: usize = 64;

/// `[torch]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TorchOptions {
    /// A Python interpreter with the package `fulgurite[torch]`: a path, or a name on the PATH.
    pub python: PathBuf,
    /// Processes that train, each on a GPU of its own, with the weights of layers spread over them (FSDP); on the CPU each has its
    /// share of the cores.
    pub processes: usize,
    /// `cpu`, `cuda`, or `auto`: the GPU if there is one, else the CPU.
    pub device: TorchDevice,
    /// Element type of weights that an adapter stands beside, and of products: `float32`, `bfloat16`, `nf4` (4 bits, by
    /// bitsandbytes, products in `bfloat16`), or `auto`: `bfloat16` on GPUs, else `float32`. Trained weights, moments and losses
    /// are always in `float32`.
    pub dtype: TorchElements,
    /// Tokens of the sequences that are packed into one pass; a longer sequence, or a pair that is compared, is a pass of its own.
    pub max_tokens_per_pass: usize,
    /// Whether a pass back computes activations again, which takes less memory and a third more time: `on`, `off`, or `auto`:
    /// where they might not fit into the free memory.
    pub gradient_checkpointing: GradientCheckpointing,
    /// Whether the learner and the model's vLLM have one GPU by turns: vLLM sleeps during each pass, and calls wait.
    pub shares_gpu: bool,
}

impl Default for TorchOptions {
    fn default() -> Self {
        Self {
            python: "python3".into(),
            processes: 1,
            device: TorchDevice::default(),
            dtype: TorchElements::default(),
            max_tokens_per_pass: 4096,
            gradient_checkpointing: GradientCheckpointing::default(),
            shares_gpu: false,
        }
    }
}

/// Where the torch learner computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TorchDevice {
    /// The GPU if there is one.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// The GPU.
    Cuda,
}

/// Element type of frozen weights and of products.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TorchElements {
    /// By the device.
    #[default]
    Auto,
    /// 32 bits.
    Float32,
    /// 16 bits.
    Bfloat16,
    /// 4 bits, for weights that are not trained.
    Nf4,
}

/// Whether activations are computed again in the backward pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GradientCheckpointing {
    /// Where they might not fit.
    #[default]
    Auto,
    /// Always.
    On,
    /// Never.
    Off,
}

impl TorchOptions {
    /// Refuses numbers that make no sense, with the key.
    ///
    /// # Errors
    /// The message names the key and what to write.
    pub fn check(&self) -> Result<(), String> {
        if !(1..=MOST_PROCESSES).contains(&self.processes) {
            return Err(format!("[torch] processes is {}, but must be 1 to {MOST_PROCESSES}", self.processes));
        }
        if self.shares_gpu && self.processes > 1 {
            return Err(format!(
                "[torch] shares_gpu = true with processes = {}: one process and vLLM have one GPU by turns; set processes = 1",
                self.processes
            ));
        }
        if self.max_tokens_per_pass == 0 {
            return Err("[torch] max_tokens_per_pass is 0, but must be at least 1".to_owned());
        }
        if self.shares_gpu && self.device == TorchDevice::Cpu {
            return Err(
                "[torch] shares_gpu = true with device = \"cpu\": a learner on the CPU has no GPU to share".to_owned()
            );
        }
        if self.shares_gpu && self.dtype == TorchElements::Nf4 {
            return Err("[torch] shares_gpu = true with dtype = \"nf4\": weights of 4 bits stay on their GPU; set \
                        dtype = \"bfloat16\""
                .to_owned());
        }
        if self.python.as_os_str().is_empty() {
            return Err("[torch] python is empty: it names an interpreter, such as \".venv/bin/python\"".to_owned());
        }
        Ok(())
    }
}

/// The model that a torch learner trains.
#[derive(Clone, Debug, PartialEq)]
pub struct TorchModel {
    /// Its directory.
    pub path: PathBuf,
    /// The adapter that is trained beside it; `None` trains all of its weights.
    pub adapter: Option<TorchAdapter>,
    /// What it computes from the last layer's output.
    pub head: TorchHead,
    /// What the adapter's first numbers follow from.
    pub seed: u64,
}

/// The head of a model that a torch learner trains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TorchHead {
    /// As its directory says.
    #[default]
    AsWritten,
    /// A score, which is 0 at first where the directory has none.
    Score,
}

/// An adapter in PEFT's terms.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TorchAdapter {
    /// `r`.
    pub rank: usize,
    /// `lora_alpha`.
    pub alpha: f64,
    /// `target_modules`; `None` takes the usual ones that the model has.
    pub modules: Option<Vec<String>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_make_no_sense_are_refused_by_their_keys() {
        TorchOptions::default().check().unwrap();
        for (wrong, words) in [
            (TorchOptions { processes: 65, ..TorchOptions::default() }, "[torch] processes is 65"),
            (
                TorchOptions { shares_gpu: true, processes: 2, ..TorchOptions::default() },
                "[torch] shares_gpu = true with processes = 2",
            ),
            (TorchOptions { processes: 0, ..TorchOptions::default() }, "[torch] processes is 0"),
            (TorchOptions { max_tokens_per_pass: 0, ..TorchOptions::default() }, "[torch] max_tokens_per_pass is 0"),
            (
                TorchOptions { shares_gpu: true, device: TorchDevice::Cpu, ..TorchOptions::default() },
                "[torch] shares_gpu = true with device",
            ),
            (
                TorchOptions { shares_gpu: true, dtype: TorchElements::Nf4, ..TorchOptions::default() },
                "[torch] shares_gpu = true with dtype",
            ),
            (TorchOptions { python: "".into(), ..TorchOptions::default() }, "[torch] python is empty"),
        ] {
            let error = wrong.check().unwrap_err();
            assert!(error.starts_with(words), "{error}");
        }
    }
}
