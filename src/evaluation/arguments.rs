//! What `fulgurite eval` is told on the command line.

use std::path::PathBuf;

use clap::Args;

use fulgurite_config::overrides::Override;
use fulgurite_trainer::EvaluatedTasks;
use fulgurite_training::evaluation::options::EvalOptions;

/// What a script may want to know.
pub const EXIT_CODES: &str = "\
Exit codes:
  0  the tasks are scored
  1  they are not, or were cut short; the same command goes on with what is missing
  2  the command line is wrong";

/// `fulgurite eval`.
#[derive(Debug, Args)]
pub struct EvalArguments {
    /// Config file, as of `train`, or the directory of a run; without one, that of the run which --checkpoint is of
    #[arg(value_name = "CONFIG")]
    pub config: Option<PathBuf>,
    /// Weights: a checkpoint, or the directory of a run, whose last checkpoint is meant; else the model of the config as
    /// it was before training
    #[arg(long, value_name = "DIR", conflicts_with = "model")]
    pub checkpoint: Option<PathBuf>,
    /// Another model in the place of the config's: a directory, a GGUF file, or the name of one of [[models]]
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// Take over the scores of an evaluation by Inspect AI, from its log in JSON (inspect eval --log-format json), as
    /// one among ours in runs/
    #[arg(long, value_name = "LOG", conflicts_with_all = ["config", "checkpoint", "model", "samples", "last", "seed"])]
    pub inspect_log: Option<PathBuf>,
    /// Of --inspect-log: the scorer whose value is the reward, in place of the first
    #[arg(long, value_name = "NAME", requires = "inspect_log")]
    pub scorer: Option<String>,
    /// Rollouts of each task, in place of [trainer] evaluation.samples_per_task
    #[arg(long, value_name = "K")]
    pub samples: Option<usize>,
    /// Score [tasks] final in place of held_out; the same weights once
    #[arg(long = "final")]
    pub last: bool,
    /// The least reward of a sample that passes, for pass@k
    #[arg(long, value_name = "REWARD", default_value_t = 1.0, allow_negative_numbers = true)]
    pub pass_reward: f64,
    /// Compare, task by task, with another evaluation, with the last held-out score of a training run, or with a
    /// checkpoint that has been evaluated
    #[arg(long, value_name = "RUN_OR_EVAL")]
    pub against: Option<PathBuf>,
    /// Put a value in place of a key of the config file (repeatable), as `train` does
    #[arg(long = "set", value_name = "KEY=VALUE", requires = "config")]
    pub overrides: Vec<Override>,
    /// Seed of the samples, in place of [run] seed
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// The agent's command, in place of the config's [runner] command
    #[arg(last = true, value_name = "AGENT")]
    pub agent: Vec<String>,
}

impl EvalArguments {
    /// What of them an evaluation needs.
    pub fn options(self) -> EvalOptions {
        EvalOptions {
            config: self.config,
            checkpoint: self.checkpoint,
            model: self.model,
            samples: self.samples,
            tasks: if self.last { EvaluatedTasks::Final } else { EvaluatedTasks::HeldOut },
            against: self.against,
            overrides: self.overrides,
            seed: self.seed,
            agent: self.agent,
        }
    }
}
