//! What `fulgurite model` takes.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use fulgurite_lab::runs::which_checkpoint::WhichCheckpoint;

use crate::model_commands::fetch::ModelFetchArguments;

/// `fulgurite model`.
#[derive(Debug, Args)]
pub struct ModelArguments {
    /// What to do.
    #[command(subcommand)]
    pub action: ModelAction,
}

/// What can be done with a model directory.
#[derive(Debug, Subcommand)]
pub enum ModelAction {
    /// Say what a model is, and whether this machine can sample and train it
    ///
    /// Reads the configuration and the names, shapes and element types of the tensors, not the weights. Exit code 1, with
    /// the field or tensor at fault, where the embedded engine cannot run it.
    Inspect(ModelInspectArguments),
    /// Fetch a model from Hugging Face's hub
    ///
    /// What a model directory needs (configuration, tokenizer, templates, *.safetensors), or files by name; each is
    /// checked by the hub's digest, and none stands under its name before all are whole. The same command goes on where
    /// an interrupted one stopped. HF_TOKEN holds the token for models that are gated or private, HF_ENDPOINT the address
    /// of another hub.
    Fetch(ModelFetchArguments),
    /// Write a model into one file of one element type, with its tokenizer
    Convert(ModelConvertArguments),
    /// Write a model with a LoRA adapter, in PEFT's format, added to its weights
    Merge(ModelMergeArguments),
    /// Write what a run has trained, or another model, in a form that other programs read
    ///
    /// An adapter for PEFT, a whole model in Hugging Face's format, or a GGUF file for llama.cpp. Prints where it is.
    Export(ModelExportArguments),
    /// Put an earlier checkpoint's weights back behind a model that is served
    ///
    /// The server reads them from the directory of the run, which it must see under the same path. They stay behind the
    /// model, over a restart of the server too, until others are put there. A run that trains at the server ends at its
    /// next update, and goes on with `--resume --replace-weights`.
    Rollback(ModelRollbackArguments),
}

/// `fulgurite model convert`.
#[derive(Debug, Args)]
pub struct ModelConvertArguments {
    /// Model directory in Hugging Face's format, or a model in a GGUF file
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
    /// Directory to be made
    #[arg(value_name = "OUTPUT_DIR")]
    pub output_dir: PathBuf,
    /// What the numbers become: f32 unless told otherwise; of a GGUF file bf16 if it is quantised, and else what it has
    #[arg(long, value_name = "TYPE")]
    pub dtype: Option<Elements>,
}

/// `fulgurite model merge`.
#[derive(Debug, Args)]
pub struct ModelMergeArguments {
    /// Model directory in Hugging Face's format
    #[arg(value_name = "MODEL_DIR")]
    pub model_dir: PathBuf,
    /// Directory of the adapter
    #[arg(value_name = "ADAPTER_DIR")]
    pub adapter_dir: PathBuf,
    /// Directory to be made
    #[arg(value_name = "OUTPUT_DIR")]
    pub output_dir: PathBuf,
    /// What the numbers become
    #[arg(long, value_name = "TYPE", default_value = "f32")]
    pub dtype: Elements,
}

/// `fulgurite model inspect`.
#[derive(Debug, Args)]
pub struct ModelInspectArguments {
    /// Model directory in Hugging Face's format, or a GGUF file
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// `fulgurite model export`.
#[derive(Clone, Debug, Args)]
pub struct ModelExportArguments {
    /// A run, by its directory or its name below runs/; a checkpoint; or the directory of a model or an adapter
    #[arg(value_name = "RUN|CHECKPOINT|DIR")]
    pub source: PathBuf,
    /// What is written
    #[arg(long, value_name = "FORMAT")]
    pub format: ExportFormat,
    /// Of a run: which checkpoint: that of its final weights ([trainer] final_weights), the newest, the best (by the held-out
    /// score), or the one after so many updates
    #[arg(long, value_name = "final|newest|best|N", default_value = "final")]
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
#[derive(Clone, Debug, Args)]
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
