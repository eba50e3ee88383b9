//! Eight tools over the same functions, by the names that Tinkerer's agents know: one session, which is the latest run.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::checkpoints::{self, LoadCheckpoint, SaveCheckpoint};
use super::graders::{self, Example, WriteGrader};
use super::looking::{self, Sample};
use super::runs;
use super::start::{self, Rows, StartRun};
use super::steps::{self, TrainSteps};
use crate::at_start::{AtStart, RunsInReach, StartTools};
use crate::error::ToolError;
use crate::progress::Progress;
use crate::session::Session;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct InitSft {
    /// The model, by its directory in the project, or its name among those that were fetched.
    base_model: String,
    /// Conversations, {"messages": [...]} a row: a JSON lines file, or a list.
    data: Rows,
    /// Step size.
    learning_rate: Option<f64>,
    /// Rank of a LoRA adapter; without it all weights learn.
    lora_rank: Option<u64>,
    /// Conversations of a step.
    batch_size: Option<u64>,
    /// How often all data is gone through.
    epochs: Option<u64>,
    /// What to do where somebody's weights are behind the model at the server: refuse (the default), or start_over, which
    /// puts this model's files in their place.
    #[serde(default)]
    at_start: AtStart,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct InitGrpo {
    /// The model, by its directory in the project, or its name among those that were fetched.
    base_model: String,
    /// Tasks: questions as text, or objects with `prompt` and what the grading function needs. A JSON lines file, or a list.
    prompts: Rows,
    /// Tasks of the same kind that are never trained on, by which progress is measured.
    held_out_prompts: Rows,
    /// Python with a function `grade(task, answer)` that gives a number.
    grading_function: String,
    /// Answers whose reward is known, at least two, of which one earns more than another.
    examples: Vec<Example>,
    /// What the model is told before each prompt.
    system_prompt: Option<String>,
    /// Step size.
    learning_rate: Option<f64>,
    /// Rank of a LoRA adapter; without it all weights learn.
    lora_rank: Option<u64>,
    /// Answers to each prompt of a step.
    group_size: Option<u64>,
    /// Prompts of a step.
    groups_per_batch: Option<u64>,
    /// Tokens of an answer at most.
    max_tokens: Option<u64>,
    /// What to do where somebody's weights are behind the model at the server: refuse (the default), or start_over, which
    /// puts this model's files in their place.
    #[serde(default)]
    at_start: AtStart,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TrainStep {
    /// Updates; 1 unless told otherwise.
    num_steps: Option<u64>,
    /// What to do where other weights than the session's are behind the model at the server: refuse (the default), or
    /// replace_weights, which puts the session's checkpoint in their place.
    #[serde(default)]
    at_start: AtStart,
    /// Seconds to wait for them; 45 unless told otherwise, -1 for as long as it takes.
    wait_seconds: Option<f64>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SampleSession {
    /// What is asked, each in a conversation of its own.
    prompts: Vec<String>,
    /// What the model is told first.
    system_prompt: Option<String>,
    /// Of sampling; 0 takes the likeliest token each time.
    temperature: Option<f64>,
    /// Tokens of an answer at most.
    max_tokens: Option<u64>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Named {
    /// The checkpoint's name.
    name: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Loaded {
    /// The checkpoint's name.
    name: String,
    /// What to do where weights are behind the model at the server: refuse (the default), or start_over, which puts the
    /// checkpoint's in their place.
    #[serde(default)]
    at_start: AtStart,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

/// Sessions are numbered, so that the latest is known by its name.
const PREFIX: &str = "session-";

fn latest(session: &Session) -> Option<u64> {
    let names = session.workspace.names("runs");
    names.iter().filter_map(|name| name.strip_prefix(PREFIX)?.parse().ok()).max()
}

fn current(session: &Session) -> Result<String, ToolError> {
    let none = || ToolError::Refused("there is no session yet: init_sft or init_grpo begins one".to_owned());
    latest(session).map(|number| format!("{PREFIX}{number}")).ok_or_else(none)
}

fn next(session: &Session) -> String {
    format!("{PREFIX}{}", latest(session).map_or(1, |number| number + 1))
}

/// The tools of this set by which a refused start goes on: `begins` is the one that was called.
fn tools(session: &Session, begins: &'static str) -> StartTools {
    let objective = current(session)
        .and_then(|run| session.workspace.run(&run))
        .and_then(|home| home.record())
        .map(|record| record.objective);
    let goes_on = match objective.as_deref() {
        Ok("sft") => "train_sft_step",
        _ => "train_grpo_step",
    };
    StartTools { begins, goes_on, runs: RunsInReach::LatestSession }
}

fn settings<const N: usize>(given: [(&str, Option<Value>); N]) -> BTreeMap<String, Value> {
    given.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
}

pub(super) async fn init_sft(session: &Session, arguments: InitSft, progress: &Progress) -> Result<String, ToolError> {
    let InitSft { base_model, data, learning_rate, lora_rank, batch_size, epochs, at_start } = arguments;
    let run = StartRun {
        name: next(session),
        model: Some(base_model),
        objective: Some("sft".to_owned()),
        data: Some(data),
        settings: settings([
            ("trainer.learning_rate", learning_rate.map(Value::from)),
            ("models.0.lora_rank", lora_rank.map(Value::from)),
            ("trainer.batch_size", batch_size.map(Value::from)),
            ("trainer.epochs", epochs.map(Value::from)),
        ]),
        at_start,
        ..StartRun::default()
    };
    let started = start::start(session, run, progress).await;
    started.map_err(|error| error.with_tools(tools(session, "init_sft")))
}

pub(super) async fn init_grpo(
    session: &Session,
    arguments: InitGrpo,
    progress: &Progress,
) -> Result<String, ToolError> {
    let InitGrpo { base_model, prompts, held_out_prompts, grading_function, examples, .. } = arguments;
    let name = next(session);
    let grader = WriteGrader { name: name.clone(), code: grading_function, examples };
    let checked = graders::write(session, grader, progress).await?;
    let run = StartRun {
        name: name.clone(),
        model: Some(base_model),
        tasks: Some(prompts),
        held_out: Some(held_out_prompts),
        grader: Some(name),
        system: arguments.system_prompt,
        max_tokens: arguments.max_tokens,
        settings: settings([
            ("trainer.learning_rate", arguments.learning_rate.map(Value::from)),
            ("models.0.lora_rank", arguments.lora_rank.map(Value::from)),
            ("trainer.group_size", arguments.group_size.map(Value::from)),
            ("trainer.groups_per_batch", arguments.groups_per_batch.map(Value::from)),
        ]),
        at_start: arguments.at_start,
        ..StartRun::default()
    };
    let started = start::start(session, run, progress).await;
    let started = started.map_err(|error| error.with_tools(tools(session, "init_grpo")))?;
    Ok(format!("{checked}\n{started}"))
}

pub(super) async fn train(session: &Session, arguments: TrainStep, progress: &Progress) -> Result<String, ToolError> {
    let TrainStep { num_steps, at_start, wait_seconds } = arguments;
    let steps = TrainSteps { run: current(session)?, steps: num_steps.unwrap_or(1), at_start, wait_seconds };
    let tools = tools(session, "init_grpo");
    let begins = if tools.goes_on == "train_sft_step" { "init_sft" } else { tools.begins };
    let trained = steps::train(session, steps, progress).await;
    trained.map_err(|error| error.with_tools(StartTools { begins, ..tools }))
}

pub(super) async fn sample(
    session: &Session,
    arguments: SampleSession,
    progress: &Progress,
) -> Result<String, ToolError> {
    let SampleSession { prompts, system_prompt, temperature, max_tokens } = arguments;
    let run = current(session)?;
    // Until something is learnt, the model is what it was.
    let untrained = session.workspace.run(&run)?.checkpoints().is_empty();
    let checkpoint = untrained.then(|| "before".to_owned());
    let (run, system) = (Some(run), system_prompt);
    let sample = Sample { run, checkpoint, model: None, prompts, system, temperature, max_tokens };
    looking::sample(session, sample, progress).await
}

pub(super) async fn save(session: &Session, arguments: Named, progress: &Progress) -> Result<String, ToolError> {
    let run = current(session)?;
    checkpoints::save(session, SaveCheckpoint { run, name: arguments.name }, progress).await
}

pub(super) async fn load(session: &Session, arguments: Loaded, progress: &Progress) -> Result<String, ToolError> {
    let Loaded { name, at_start } = arguments;
    let runs = session.workspace.names("runs");
    let has_it = |run: &&String| {
        session
            .workspace
            .run(run)
            .and_then(|home| home.record())
            .is_ok_and(|record| record.checkpoints.contains_key(&name))
    };
    let known = || ToolError::Unknown { kind: "checkpoint", name: name.clone(), known: Vec::new() };
    let run = runs.iter().rev().find(has_it).cloned().ok_or_else(known)?;
    let new_run = next(session);
    let arguments = LoadCheckpoint { run, checkpoint: name, new_run, at_start };
    let loaded = checkpoints::load(session, arguments, progress).await;
    loaded.map_err(|error| error.with_tools(tools(session, "load")))
}

pub(super) async fn finish(session: &Session, _: Nothing, progress: &Progress) -> Result<String, ToolError> {
    let mut trainings = session.turn().await?;
    runs::finished(session, &mut trainings, &current(session)?, progress).await
}
