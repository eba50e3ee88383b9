//! What `fulgurite template` takes.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `fulgurite template`.
#[derive(Debug, Args)]
pub struct TemplateArguments {
    /// What to do.
    #[command(subcommand)]
    pub action: TemplateAction,
}

/// What can be done with a template.
#[derive(Debug, Subcommand)]
pub enum TemplateAction {
    /// Say what a model's chat template is good for
    ///
    /// Whether conversations stay append-only and what the template rewrites, whether new messages are rendered without
    /// the history before them, at which tokens turns end, whether text can forge control tokens, what is shown of
    /// tools and roles, and whether prompts tell the date. Exit code 1 where a fault was found.
    Check(TemplateCheckArguments),
    /// Turn conversations into tokens
    ///
    /// Reads JSON lines: {"messages": [...], "tools": [...]}, and with "train_on" (last_assistant_message,
    /// last_assistant_turn, all_assistant_messages, all_messages, all_tokens, all_user_and_system_messages, customized)
    /// the sequences to train on. Prints one line for each: {"tokens": [...], "text": "...", "stop": [...]}, with
    /// "segments": [[weight, text], ...] and "examples" to train on, or {"error": "..."}.
    Render(TemplateRenderArguments),
    /// Turn sampled tokens into messages
    ///
    /// Reads JSON lines: {"tokens": [...]}, with "prompt", the tokens before them (without it, those that ask for an
    /// answer to one message), and the request's "tools". Prints one line for each: {"message": {...},
    /// "termination": "stop_sequence" | "eos" | "malformed"}, or {"error": "..."}.
    Parse(TemplateParseArguments),
}

/// `fulgurite template check`.
#[derive(Debug, Args)]
pub struct TemplateCheckArguments {
    /// Model directory: its tokenizer and chat template
    #[arg(value_name = "MODEL_DIR")]
    pub model_dir: PathBuf,
    /// Print the report as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// `fulgurite template render`.
#[derive(Debug, Args)]
pub struct TemplateRenderArguments {
    #[command(flatten)]
    pub renderer: RendererArguments,
    /// File of rows, in place of standard input
    #[arg(value_name = "FILE")]
    pub rows: Option<PathBuf>,
}

/// `fulgurite template parse`.
#[derive(Debug, Args)]
pub struct TemplateParseArguments {
    #[command(flatten)]
    pub renderer: RendererArguments,
    /// File of rows, in place of standard input
    #[arg(value_name = "FILE")]
    pub rows: Option<PathBuf>,
}

/// Which renderer.
#[derive(Debug, Args)]
pub struct RendererArguments {
    /// Model directory: its tokenizer and chat template
    #[arg(long, value_name = "DIR", required_unless_present = "tokenizer", conflicts_with = "tokenizer")]
    pub model: Option<PathBuf>,
    /// A tokenizer.json; the files beside it are read too
    #[arg(long, value_name = "FILE")]
    pub tokenizer: Option<PathBuf>,
    /// How conversations are written: auto, template, chatml, or the name of a format such as qwen3_5
    #[arg(id = "renderer", long = "renderer", value_name = "NAME", default_value = "auto")]
    pub name: String,
    /// Reproduce tinker-cookbook token for token, faults included
    #[arg(long)]
    pub cookbook_exact: bool,
    /// What formats that tell the model the date say that it is, in place of today's
    #[arg(long, value_name = "YYYY-MM-DD")]
    pub current_date: Option<String>,
}
