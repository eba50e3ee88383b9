//! Runs agents: takes a rollout off the queue, starts the agent, reports how it ended.
//!
//! [`run`] is the whole of it. For every rollout it gets from the server it starts the agent's command once, in a process
//! group of its own, with the base URLs of that rollout's attempt in its environment; grades it; posts the reward; and
//! reports the attempt as succeeded, failed or timed out. A crash or a missing reward is a failed attempt with its reason,
//! never a reward of zero. A warm agent is one process that is given all rollouts.

mod agent_environment;
mod attempt;
mod error;
mod grader;
mod grading_environment;
mod launch;
mod options;
mod order;
mod placeholders;
mod process;
mod program;
mod reward;
mod rubric;
mod run;
mod sandbox;
mod supervision;
mod warm;
mod world;

pub use error::RunnerError;
pub use grader::{GradeFault, GradedAttempt, Grader};
pub use options::RunnerOptions;
pub use placeholders::{PlaceholderError, asks_for_task, asks_for_world, check_arguments};
pub use process::open_files::raise_open_files;
pub use program::Program;
pub use reward::Reward;
pub use rubric::{
    Agreement, Criterion, JudgeOnLabels, JudgePrices, LabelledAnswer, LabelledAnswers, LabelledError, RubricError,
    RubricOptions, SecondJudge, judge_labelled, judges_spending,
};
pub use run::{RunnerSummary, run};
pub use sandbox::{
    Bounds, GraderSandboxOptions, SandboxKind, SandboxNetwork, SandboxOptions, SandboxPartError, sandbox_part,
};
pub use supervision::{SUPERVISE_AGENT, supervise};
pub use world::WorldOptions;
