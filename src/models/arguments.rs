//! What `fulgurite model export` and `rollback` are told on the command line.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::runs::which_checkpoint::WhichCheckpoint;

/// `fulgurite model export`.
#[derive(Debug, Args)]
pub struct ModelExportArguments {
    /// A run, by its directory or its name below runs/; a checkpoint; or the directory of a model or an adapter
    #[arg(value_name = "RUN|CHECKPOINT|DIR")]
    pub source: PathBuf,
    /// What is written
    #[arg(long, value_name = "FORMAT")]
    pub format: ExportFormat,
    /// Of a run: which checkpoint, newest, best (by the held-out score), or the one after so many updates
    #[arg(long, value_name = "newest|best|N", default_value = "newest")]
    pub checkpoint: WhichCheckpoint,
    /// Directory of the model that an adapter is over, in place of what its run, or else the adapter, says
    #[arg(long, value_name = "DIR")]
    pub base: Option<PathBuf>,
    /// Directory to be made; of gguf a file NAME.gguf to be made, or a directory for it. Without it, a name made of the
    /// run's, in the working directory
    #[arg(long, short, value_name = "PATH")]
    pub output: Option<PathBuf>,
    /// What the numbers become: f32 unless told otherwise, of gguf f16
    #[arg(long, value_name = "TYPE")]
    pub dtype: Option<Elements>,
}

/// Forms of weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// A LoRA adapter as PEFT, vLLM and SGLang read it
    Peft,
    /// A whole model in Hugging Face's format, with tokenizer and chat template; an adapter is added to its weights
    Merged,
    /// The same in one file, as llama.cpp reads it
    Gguf,
}

/// `fulgurite model rollback`.
#[derive(Debug, Args)]
pub struct ModelRollbackArguments {
    /// A run, by its directory or its name below runs/, or one of its checkpoints
    #[arg(value_name = "RUN|CHECKPOINT")]
    pub source: PathBuf,
    /// Of a run: which checkpoint, newest, best (by the held-out score), or the one after so many updates; without it,
    /// the newest that is older than what is served
    #[arg(long, value_name = "newest|best|N")]
    pub checkpoint: Option<WhichCheckpoint>,
    /// The model as agents call it, in place of the run's own name for it
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Server that serves the model; its admin key, if it has one, is taken from FULGURITE_ADMIN_KEY
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:4747", env = "FULGURITE_SERVER")]
    pub server: String,
}

/// Element types of written models.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Elements {
    /// 32 bits.
    F32,
    /// The upper half of those.
    Bf16,
    /// IEEE half precision.
    F16,
}
