//! A run's beginning: its config is written, and whatever it is fixed to.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use fulgurite_types::shortened_line;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::graders;
use super::waiting::{Wait, wait_for};
use crate::at_start::AtStart;
use crate::error::ToolError;
use crate::options::SettingRule;
use crate::progress::Progress;
use crate::session::Session;
use crate::training::{Beginning, Ended, Trainings};
use crate::workspace::{Guarded, RunHome, RunRecord, check_name, copy_file, learns_from_data, read_text, write_whole};

/// Rows that may be written into a call; more are a file's.
const ROWS: usize = 20_000;
/// Checkpoints that are kept: as many as calls of train_steps are ever made.
const CHECKPOINTS: u64 = 1_000_000;

/// Data: written out, or in a file.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Rows {
    /// A JSON lines file of the project.
    File(String),
    /// The rows themselves.
    Listed(Vec<Value>),
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StartRun {
    /// What the run is called; new.
    pub(super) name: String,
    /// In place of most of what follows: a config file that the user has named with --config. `settings` count on top of it.
    pub(super) config: Option<String>,
    /// The model to be trained: its name in list_models, or the path of a model directory of the project.
    pub(super) model: Option<String>,
    /// What it learns by: grpo (the default), sft, dpo, ipo, orpo, simpo, kto, reward_model.
    pub(super) objective: Option<String>,
    /// Of grpo: what is trained on, a JSON lines file or a list. A task is a question as text, or an object with `prompt` (or
    /// `messages`) and whatever the grader needs, such as `answer`.
    pub(super) tasks: Option<Rows>,
    /// Of grpo: tasks of the same kind that are never trained on, by which progress is measured.
    pub(super) held_out: Option<Rows>,
    /// Of grpo: tasks that are scored once, when the run is finished.
    pub(super) final_tasks: Option<Rows>,
    /// Of grpo: the grader, by its name in write_grader.
    pub(super) grader: Option<String>,
    /// Of grpo: what the model is told before each question.
    pub(super) system: Option<String>,
    /// Of grpo: tokens of an answer at most.
    pub(super) max_tokens: Option<u64>,
    /// Of sft: conversations, {"messages": [...]} a row. Of dpo and its kin: comparisons, {"prompt": ..., "chosen": ...,
    /// "rejected": ...} a row. A file or a list.
    pub(super) data: Option<Rows>,
    /// Keys of the config, such as {"trainer.learning_rate": 0.001, "trainer.group_size": 8, "models.0.lora_rank": 8,
    /// "trainer.epochs": 2, "run.seed": 2}. Only `run.seed` and those of [trainer] and the model that name no file, place or
    /// command can be set.
    #[serde(default)]
    pub(super) settings: BTreeMap<String, Value>,
    /// What to do where somebody's weights are behind the model at the server: refuse (the default), or start_over, which
    /// puts this model's files in their place.
    #[serde(default)]
    pub(super) at_start: AtStart,
    /// Seconds to wait for the beginning; 45 unless told otherwise.
    pub(super) wait_seconds: Option<f64>,
}

fn wrong(why: impl Into<String>) -> ToolError {
    ToolError::Arguments { tool: "start_run", why: why.into() }
}

pub(super) async fn start(session: &Session, arguments: StartRun, progress: &Progress) -> Result<String, ToolError> {
    let mut trainings = session.turn().await?;
    check_name(&arguments.name).map_err(wrong)?;
    super::spending::check(session).await?;
    let home = session.workspace.home(&arguments.name);
    if home.path().exists() {
        return Err(ToolError::Exists { kind: "run", name: arguments.name });
    }
    trainings.check_no_other(&home)?;
    let record = match prepare(session, &home, &arguments) {
        Ok(record) => record,
        Err(error) => return Err(undone(&home, error)),
    };
    let wait = Wait::of(arguments.wait_seconds);
    match begin(session, &mut trainings, &home, &record, arguments.at_start, wait, progress).await? {
        None => Ok(format!(
            "Run {:?} is still beginning. Next: train_steps(run = {0:?}, steps = 0) waits for it.",
            home.name()
        )),
        Some(_) => Ok(format!(
            "Run {:?} has begun: objective {}; nothing is learnt yet. What it is graded and scored by is fixed now.\n\
             Next: train_steps(run = {0:?}, steps = 5), then show_rollouts; of a grpo run the first call also scores the \
             held-out tasks before training.",
            home.name(),
            record.objective
        )),
    }
}

/// Begins a run of which the directory is there, and waits until it has begun (`None` if it has not by then). One that cannot
/// begin leaves nothing behind.
pub(super) async fn begin(
    session: &Session,
    trainings: &mut Trainings,
    home: &RunHome,
    record: &RunRecord,
    at_start: AtStart,
    wait: Wait,
    progress: &Progress,
) -> Result<Option<Ended>, ToolError> {
    let started = async {
        home.write(record)?;
        let server = session.server_of(record);
        let training = trainings.begin(&session.program, server, home, record, Beginning::Allowed(0), at_start).await?;
        wait_for(session, training, home, 0, wait, progress).await
    };
    match started.await {
        Ok(ended) => Ok(ended),
        Err(error) => {
            trainings.end().await;
            Err(undone(home, error))
        }
    }
}

/// A run that could not begin leaves nothing behind.
fn undone(home: &RunHome, error: ToolError) -> ToolError {
    match fs::remove_dir_all(home.path()) {
        Err(left) if left.kind() != std::io::ErrorKind::NotFound => {
            tracing::warn!(path = %home.path().display(), error = %left, "a run that did not begin cannot be removed");
        }
        _ => {}
    }
    error
}

/// Writes what the run is begun with.
fn prepare(session: &Session, home: &RunHome, arguments: &StartRun) -> Result<RunRecord, ToolError> {
    let setup = home.setup();
    fs::create_dir_all(&setup).map_err(ToolError::file(&setup))?;
    let settings = settings(session.options.settings, &arguments.settings)?;
    let objective = arguments.objective.clone().unwrap_or_else(|| "grpo".to_owned());
    let (config, mut guarded, objective) = match &arguments.config {
        Some(named) => of_config(session, named, arguments)?,
        None => {
            let (config, guarded) = written(session, home, arguments, &objective)?;
            (config, guarded, objective)
        }
    };
    guarded.push(config.clone());
    Ok(RunRecord {
        name: home.name(),
        config,
        settings,
        objective,
        grader: arguments.grader.clone(),
        guarded: Guarded::now(guarded)?,
        checkpoints: BTreeMap::new(),
        best_reward: None,
        finished: false,
    })
}

/// A config of the user's, the files that it must keep, and what it learns by.
fn of_config(
    session: &Session,
    named: &str,
    arguments: &StartRun,
) -> Result<(PathBuf, Vec<PathBuf>, String), ToolError> {
    let StartRun { model, objective, tasks, held_out, final_tasks, grader, system, max_tokens, data, .. } = arguments;
    let given = [model.is_some(), objective.is_some(), tasks.is_some(), held_out.is_some(), final_tasks.is_some()];
    if given.contains(&true) || grader.is_some() || system.is_some() || max_tokens.is_some() || data.is_some() {
        return Err(wrong("with `config` there are `name` and `settings` alone: the config says all else"));
    }
    let path = session.workspace.file(named)?;
    let is_named = |known: &PathBuf| fs::canonicalize(known).is_ok_and(|known| known == path);
    if !session.options.configs.iter().any(is_named) {
        return Err(ToolError::Refused(format!(
            "{named} is not among the configs that the user has named, and a config's commands run outside of a sandbox: the \
             user starts these tools with --config {named}, or you begin the run without one"
        )));
    }
    let text = read_text(&path).map_err(ToolError::file(&path))?;
    let config: toml::Table = toml::from_str(&text).map_err(|error| wrong(format!("{named}: {error}")))?;
    let directory = path.parent().unwrap_or(Path::new("")).to_owned();
    let of = |table: &str, key: &str| config.get(table).and_then(|table| table.get(key)).cloned();
    let mut guarded = Vec::new();
    for tasks in ["train", "held_out", "final"].iter().filter_map(|key| of("tasks", key)) {
        guarded.extend(tasks.get("file").and_then(|file| file.as_str()).map(|file| directory.join(file)));
    }
    let project = of("runner", "directory").and_then(|path| Some(directory.join(path.as_str()?))).unwrap_or(directory);
    let words = of("runner", "grade").and_then(|words| words.as_array().cloned()).unwrap_or_default();
    let files = words.iter().filter_map(|word| Some(project.join(word.as_str()?))).filter(|path| path.is_file());
    guarded.extend(files);
    let objective = of("trainer", "objective").and_then(|objective| objective.as_str().map(str::to_owned));
    Ok((path, guarded, objective.unwrap_or_else(|| "grpo".to_owned())))
}

/// Writes a config of what the call says; gives it and the files beside it that must stay.
fn written(
    session: &Session,
    home: &RunHome,
    arguments: &StartRun,
    objective: &str,
) -> Result<(PathBuf, Vec<PathBuf>), ToolError> {
    let mut setup = Setup { session, directory: home.setup(), guarded: Vec::new() };
    let model = model_path(session, arguments.model.as_deref())?;
    let mut config = json!({
        "run": { "name": home.name(), "directory": session.workspace.evaluations() },
        "models": [{ "name": model_name(session, arguments), "backend": "embedded", "path": model }],
        "trainer": {
            "objective": objective,
            "checkpoint_every": 1_000_000,
            "keep_checkpoints": CHECKPOINTS,
        },
    });
    match learns_from_data(objective) {
        true => config["trainer"]["source"] = setup.data_source(arguments, objective)?,
        false => setup.add_tasks(&mut config, arguments, objective)?,
    }
    let path = setup.directory.join("config.toml");
    let text = toml::to_string(&config).map_err(|error| wrong(error.to_string()))?;
    write_whole(&path, &text)?;
    Ok((path, setup.guarded))
}

/// The directory of what a run begins with, as it is filled.
struct Setup<'s> {
    session: &'s Session,
    directory: PathBuf,
    /// Files that must stay as they are.
    guarded: Vec<PathBuf>,
}

impl Setup<'_> {
    /// Copies or writes rows; gives the file's name.
    fn row_file(&mut self, name: &str, rows: &Rows) -> Result<String, ToolError> {
        let path = self.directory.join(name);
        match rows {
            Rows::File(named) => {
                copy_file(&self.session.workspace.file(named)?, &path).map_err(ToolError::file(named))?;
            }
            Rows::Listed(rows) if rows.len() > ROWS => {
                return Err(wrong(format!("{} rows are too many for a call: write them to a file", rows.len())));
            }
            Rows::Listed(rows) => write_whole(&path, &rows.iter().map(|row| format!("{row}\n")).collect::<String>())?,
        }
        self.guarded.push(path);
        Ok(name.to_owned())
    }

    /// `[trainer] source` of a run that learns from data.
    fn data_source(&mut self, arguments: &StartRun, objective: &str) -> Result<Value, ToolError> {
        if arguments.tasks.is_some() || arguments.held_out.is_some() || arguments.grader.is_some() {
            return Err(wrong(format!("{objective} learns from `data`: leave out tasks, held_out and grader")));
        }
        let data = arguments.data.as_ref();
        let data = data.ok_or_else(|| wrong(format!("{objective} learns from `data`, which is missing")))?;
        let kind = if matches!(objective, "sft" | "off_policy_distillation") { "conversations" } else { "comparisons" };
        Ok(json!({ kind: self.row_file("data.jsonl", data)?, "validation": 0.1 }))
    }

    /// Tasks, a grader and how groups are made, of a run that learns from tasks.
    fn add_tasks(&mut self, config: &mut Value, arguments: &StartRun, objective: &str) -> Result<(), ToolError> {
        if arguments.data.is_some() {
            return Err(wrong(format!("{objective} learns from `tasks`, not from `data`")));
        }
        let missing =
            |what: &str| wrong(format!("`{what}` is missing: {objective} needs tasks, held_out tasks and a grader"));
        let tasks = arguments.tasks.as_ref().ok_or_else(|| missing("tasks"))?;
        let held_out = arguments.held_out.as_ref().ok_or_else(|| missing("held_out"))?;
        let mut table = Map::new();
        table.insert("train".to_owned(), json!({ "file": self.row_file("tasks.jsonl", tasks)? }));
        table.insert("held_out".to_owned(), json!({ "file": self.row_file("held_out.jsonl", held_out)? }));
        if let Some(last) = &arguments.final_tasks {
            table.insert("final".to_owned(), json!({ "file": self.row_file("final.jsonl", last)? }));
        }
        check_apart(&self.directory)?;
        config["tasks"] = Value::Object(table);
        let grader = arguments.grader.as_deref().ok_or_else(|| missing("grader"))?;
        let grader_home = self.directory.join("grader");
        self.guarded.extend(graders::copy(self.session, grader, &grader_home)?);
        config["runner"] = runner(self.session, arguments, &grader_home);
        config["trainer"]["group_size"] = json!(8);
        config["trainer"]["groups_per_batch"] = json!(8);
        config["trainer"]["max_steps"] = json!(1000);
        config["trainer"]["evaluation"] = json!({ "every": 5, "samples_per_task": 1 });
        Ok(())
    }
}

fn runner(session: &Session, arguments: &StartRun, grader: &Path) -> Value {
    let mut command = vec![session.options.program.display().to_string(), "ask".to_owned()];
    command.extend(["--model".to_owned(), model_name(session, arguments)]);
    if let Some(system) = &arguments.system {
        // In one word, so that what begins with a dash is no flag.
        command.push(format!("--system={system}"));
    }
    if let Some(tokens) = arguments.max_tokens {
        command.extend(["--max-tokens".to_owned(), tokens.to_string()]);
    }
    json!({
        "command": command,
        "warm": true,
        "grade": graders::command(grader),
        "grade_in_sandbox": !session.options.unsafe_grader,
        "directory": grader,
        "parallel": 16,
        "timeout_seconds": 60.0 + session.options.grader_timeout.as_secs_f64(),
    })
}

/// What agents call the model: a server knows it by its own name.
fn model_name(session: &Session, arguments: &StartRun) -> String {
    let named = arguments.model.as_ref().filter(|_| session.options.server.is_some());
    named.map_or("policy".to_owned(), Clone::clone)
}

fn model_path(session: &Session, named: Option<&str>) -> Result<PathBuf, ToolError> {
    let named = named.ok_or_else(|| wrong("`model` is missing: a name of list_models, or a path of the project"))?;
    let own = session.workspace.model(named);
    if check_name(named).is_ok() && own.is_dir() {
        return Ok(own);
    }
    session.workspace.model_files(named).map_err(|error| match error {
        ToolError::File { .. } => {
            ToolError::Unknown { kind: "model", name: named.to_owned(), known: session.workspace.names("models") }
        }
        other => other,
    })
}

/// Refuses held-out and final tasks that are trained on: a score on them would mean nothing.
fn check_apart(setup: &Path) -> Result<(), ToolError> {
    let rows = |name: &str| match read_text(&setup.join(name)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        read => read.map_err(ToolError::file(&setup.join(name))),
    };
    let parsed = |text: &str| -> Vec<String> {
        let row = |line: &str| serde_json::from_str::<Value>(line).map_or(line.to_owned(), |row| row.to_string());
        text.lines().filter(|line| !line.trim().is_empty()).map(row).collect()
    };
    let trained: BTreeSet<String> = parsed(&rows("tasks.jsonl")?).into_iter().collect();
    for name in ["held_out.jsonl", "final.jsonl"] {
        let shared: Vec<String> = parsed(&rows(name)?).into_iter().filter(|row| trained.contains(row)).collect();
        if let Some(first) = shared.first() {
            return Err(wrong(format!(
                "{} of the rows of {name} are among the tasks that are trained on, such as {}: take them out of either",
                shared.len(),
                shortened_line(first, 200, "...")
            )));
        }
    }
    Ok(())
}

/// The settings as `--set` takes them, if all of them may be set.
fn settings(rule: SettingRule, given: &BTreeMap<String, Value>) -> Result<Vec<String>, ToolError> {
    let read = |(key, value): (&String, &Value)| rule(key, value).map_err(|why| wrong(format!("settings: {why}")));
    given.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_that_are_scored_are_not_trained_on() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
        write("tasks.jsonl", "{\"prompt\": \"1+1\"}\n{\"prompt\": \"1+2\"}\n");
        write("held_out.jsonl", "{\"prompt\":\"2+2\"}\n");
        assert!(check_apart(directory.path()).is_ok());
        write("final.jsonl", "{\"prompt\":\"1+2\"}\n");
        let message = check_apart(directory.path()).unwrap_err().to_string();
        assert!(message.contains("1 of the rows of final.jsonl are among the tasks"), "{message}");
    }
}
