//! What `fulgurite plan` takes.

use std::path::PathBuf;

use clap::Args;
use fulgurite_config::overrides::Override;
use fulgurite_lab::plan::gpu::Gpus;
use fulgurite_lab::plan::of_config::ModelSource;

/// `fulgurite plan`.
#[derive(Debug, Args)]
pub struct PlanArguments {
    /// Config file; without one, a table of public models and what of them fits
    #[arg(value_name = "CONFIG")]
    pub config: Option<PathBuf>,
    /// GPUs to plan for, in place of those that nvidia-smi finds here: memory or a kind, such as 24GiB, rtx4090 or 8xH100
    #[arg(long, value_name = "GPU")]
    pub gpu: Option<Gpus>,
    /// A model's config.json, or the name of a public model such as Qwen3-4B, in place of the config's model directory
    #[arg(long, value_name = "FILE|NAME", requires = "config")]
    pub model_config: Option<ModelSource>,
    /// Tokens of a rollout, its longest prompt and the answer together
    #[arg(long, value_name = "N", requires = "config", value_parser = clap::value_parser!(u32).range(1..))]
    pub rollout_tokens: Option<u32>,
    /// Put a value in place of a key of the config (repeatable), as `train` does
    #[arg(long = "set", value_name = "KEY=VALUE", requires = "config")]
    pub overrides: Vec<Override>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}
