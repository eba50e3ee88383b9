//! What `fulgurite chat` is told on the command line.

use clap::Args;

/// What can be written at the prompt.
pub const CHAT_COMMANDS: &str = "\
At the prompt:
  /reset   forget the conversation
  /tokens  the last reply, token by token: id, logprob, text
  /quit    leave; so does Ctrl-D. Ctrl-C ends a reply, and at the prompt it leaves";

/// `fulgurite chat`.
#[derive(Debug, Args)]
pub struct ChatArguments {
    /// Model directory or GGUF file; checkpoint, or run, whose last checkpoint is meant; or the URL of a server
    #[arg(value_name = "MODEL|CHECKPOINT|RUN|URL")]
    pub target: String,
    /// Of a run: the model as it was before training
    #[arg(long)]
    pub before: bool,
    /// Say this, print the reply and leave; each of several in a conversation of its own
    #[arg(long = "prompt", value_name = "TEXT")]
    pub prompts: Vec<String>,
    /// Which model of the server, where it has several
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Environment variable of the key that the server asks for
    #[arg(long, value_name = "VARIABLE")]
    pub api_key_env: Option<String>,
    /// What the model is told first
    #[arg(long, value_name = "TEXT")]
    pub system: Option<String>,
    /// Of sampling; 0 takes the likeliest token each time
    #[arg(long, value_name = "T")]
    pub temperature: Option<f64>,
    /// Tokens of a reply at most
    #[arg(long, value_name = "N", default_value_t = 512)]
    pub max_tokens: u64,
    /// Print JSON, one object a reply: its text, token ids, logprobs and why it ended
    #[arg(long)]
    pub json: bool,
}
