//! What `fulgurite serve` takes.

use std::path::PathBuf;

use clap::Args;

/// `fulgurite serve`. What the environment can say in place of a key of the config has that key for its id, by which
/// `config show` finds it; so it is with `train`.
#[derive(Debug, Args)]
pub struct ServeArguments {
    /// Config file
    #[arg(long, value_name = "FILE", env = "FULGURITE_CONFIG")]
    pub config: Option<PathBuf>,
    /// Address to listen on; port 0 takes a free one
    #[arg(id = "server.listen", long = "listen", value_name = "ADDRESS", env = "FULGURITE_LISTEN")]
    pub listen: Option<String>,
    /// Write {"url": ..., "pid": ...} here once it answers
    #[arg(long, value_name = "FILE")]
    pub ready_file: Option<PathBuf>,
    /// Where everything is recorded: sqlite://FILE or postgres://USER:PASSWORD@HOST/DATABASE
    #[arg(id = "store.url", long = "store", value_name = "URL", env = "FULGURITE_STORE", hide_env_values = true)]
    pub store: Option<String>,
    /// Serve a model: NAME=embedded:DIRECTORY|FILE.gguf[,renderer=NAME][,tools=preamble], at a remote host
    /// NAME=vllm|sglang|llama-cpp|tinker:URL,path=DIRECTORY[,renderer=NAME][,tools=preamble][,api_key_env=VARIABLE], or by passing
    /// its calls on NAME=openai|anthropic:URL[,upstream_model=NAME][,api_key_env=VARIABLE] (repeatable)
    #[arg(long = "model", value_name = "SPEC")]
    pub models: Vec<String>,
    /// Seconds between looks for attempts that are out of time or silent; 0 looks before each call of
    /// Agent-lightning's API instead
    #[arg(
        id = "server.watchdog_interval",
        long = "watchdog-interval",
        value_name = "SECONDS",
        env = "FULGURITE_WATCHDOG_INTERVAL"
    )]
    pub watchdog_interval: Option<f64>,
    /// Print JSON, one object a line
    #[arg(long)]
    pub json: bool,
}
