//! What models say and said.

use std::path::PathBuf;

use fulgurite_lab::queries::event::RolloutEvent;
use fulgurite_lab::queries::listed_rollout::ListedRollout;
use fulgurite_lab::queries::listing::{ListRequest, SortOrder, list_records};
use fulgurite_lab::queries::named_store::NamedStore;
use fulgurite_lab::queries::rollout_reading::EventPages;
use fulgurite_lab::records::matching_rollouts::narrow;
use fulgurite_types::{ListFilter, RolloutStatus, shortened_line};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::spending;
use crate::error::ToolError;
use crate::program::{failure_of, words};
use crate::progress::Progress;
use crate::session::Session;
use crate::workspace::RunHome;

/// Prompts of one call.
const PROMPTS: usize = 16;
/// Characters of an answer that are shown.
const SHOWN: usize = 600;
/// Tokens of an answer where nothing is said.
const TOKENS: u64 = 256;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Sample {
    /// A run, whose newest checkpoint answers. Or name a `model`.
    pub(super) run: Option<String>,
    /// Of the run: another checkpoint, by its name or its updates; "before" is the model as it was before training.
    pub(super) checkpoint: Option<String>,
    /// In place of a run: a model of list_models.
    pub(super) model: Option<String>,
    /// What is asked, each in a conversation of its own; 16 at most.
    pub(super) prompts: Vec<String>,
    /// What the model is told first.
    pub(super) system: Option<String>,
    /// Of sampling; 0 takes the likeliest token each time.
    pub(super) temperature: Option<f64>,
    /// Tokens of an answer at most; 256 unless told otherwise.
    pub(super) max_tokens: Option<u64>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Compare {
    /// The run.
    run: String,
    /// Another checkpoint than its newest, by its name or its updates.
    checkpoint: Option<String>,
    /// What is asked; 16 at most. Questions of the run's own held-out tasks are the best.
    prompts: Vec<String>,
    /// What the model is told first.
    system: Option<String>,
    /// Tokens of an answer at most; 256 unless told otherwise.
    max_tokens: Option<u64>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ShowRollouts {
    /// The run.
    run: String,
    /// How many; 5 unless told otherwise, 20 at most.
    number: Option<usize>,
    /// Which: latest (the default), best or worst.
    order: Option<Order>,
    /// Whose: train (the default) or held_out.
    of: Option<RolloutSplit>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Order {
    Latest,
    Best,
    Worst,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum RolloutSplit {
    Train,
    HeldOut,
}

/// Who answers, as `fulgurite chat` is told.
enum Who {
    Path(PathBuf),
    BeforeTraining(PathBuf),
}

fn who(session: &Session, sample: &Sample) -> Result<Who, ToolError> {
    let wrong = |why: &str| ToolError::Arguments { tool: "sample", why: why.to_owned() };
    let Sample { run, checkpoint, model, .. } = sample;
    match (run, model) {
        (Some(run), None) => {
            let home = session.workspace.run(run)?;
            if checkpoint.as_deref() == Some("before") {
                return Ok(Who::BeforeTraining(home.path().to_owned()));
            }
            let step = home.chosen(&home.record()?, checkpoint.as_deref())?;
            Ok(Who::Path(home.checkpoint(step)))
        }
        (None, Some(name)) if checkpoint.is_none() => {
            let path = session.workspace.model(name);
            let known = || session.workspace.names("models");
            let unknown = || ToolError::Unknown { kind: "model", name: name.clone(), known: known() };
            known().contains(name).then_some(Who::Path(path)).ok_or_else(unknown)
        }
        _ => Err(wrong("name either a `run`, and perhaps its `checkpoint`, or a `model`")),
    }
}

/// The answers to the prompts of a call, in their order.
pub(super) async fn replies(session: &Session, sample: &Sample) -> Result<Vec<Value>, ToolError> {
    let wrong = |why: String| ToolError::Arguments { tool: "sample", why };
    let Sample { prompts, system, temperature, max_tokens, .. } = sample;
    if prompts.is_empty() || prompts.len() > PROMPTS {
        return Err(wrong(format!("there are {} prompts, and must be 1 to {PROMPTS}", prompts.len())));
    }
    spending::check(session).await?;
    let mut command = match who(session, sample)? {
        Who::Path(path) => words([&"chat", &path]),
        Who::BeforeTraining(run) => words([&"chat", &run, &"--before"]),
    };
    command.extend(words([&"--json", &"--max-tokens", &max_tokens.unwrap_or(TOKENS).to_string()]));
    if let Some(temperature) = temperature {
        command.extend(words([&"--temperature", &temperature.to_string()]));
    }
    // With an equals sign, so that what begins with a dash is no flag.
    command.extend(system.iter().map(|text| format!("--system={text}").into()));
    command.extend(prompts.iter().map(|text| format!("--prompt={text}").into()));
    session.program.lines(&command).await
}

fn text(reply: &Value) -> String {
    shortened_line(reply["reply"].as_str().unwrap_or_default(), SHOWN, "...")
}

pub(super) async fn sample(session: &Session, arguments: Sample, _: &Progress) -> Result<String, ToolError> {
    let replies = replies(session, &arguments).await?;
    let lines = arguments.prompts.iter().zip(&replies).map(|(prompt, reply)| {
        let end = reply["finish_reason"]
            .as_str()
            .filter(|end| *end != "stop")
            .map_or(String::new(), |end| format!(" [{end}]"));
        format!("{}\n  -> {}{end}", shortened_line(prompt, SHOWN, "..."), text(reply))
    });
    Ok(lines.collect::<Vec<_>>().join("\n"))
}

pub(super) async fn compare(session: &Session, arguments: Compare, _: &Progress) -> Result<String, ToolError> {
    let Compare { run, checkpoint, prompts, system, max_tokens } = arguments;
    let of = |checkpoint: Option<String>| Sample {
        run: Some(run.clone()),
        checkpoint,
        model: None,
        prompts: prompts.clone(),
        system: system.clone(),
        temperature: Some(0.0),
        max_tokens,
    };
    let before = replies(session, &of(Some("before".to_owned()))).await?;
    let after = replies(session, &of(checkpoint)).await?;
    let rows = prompts.iter().zip(before.iter().zip(&after)).map(|(prompt, (before, after))| {
        let same = if text(before) == text(after) { " (the same)" } else { "" };
        format!("{}\n  before: {}\n  after:  {}{same}", shortened_line(prompt, SHOWN, "..."), text(before), text(after))
    });
    Ok(rows.collect::<Vec<_>>().join("\n"))
}

/// Rollouts of a run that a filter means.
pub(super) async fn rollouts(
    home: &RunHome,
    filter: &str,
    order: Order,
    number: usize,
) -> Result<Vec<ListedRollout>, ToolError> {
    let failed = failure_of("rollouts --run");
    let listed = async {
        let store = store_of(home).open().await?;
        // A server's store has those of others, too.
        let of_run = ListFilter { run_id: Some(home.name()), ..ListFilter::default() };
        let filter = narrow(&store, of_run, Some(&filter.parse()?)).await?;
        let request = ListRequest {
            limit: Some(number as u64),
            sort: (order != Order::Latest).then_some("reward"),
            order: if order == Order::Worst { SortOrder::Descending } else { SortOrder::Ascending },
        };
        let mut found = Vec::with_capacity(number);
        list_records::<ListedRollout>(&store, &filter, &request, &mut |page| found.extend(page)).await?;
        store.close().await;
        Ok(found)
    };
    listed.await.map_err(failed)
}

fn store_of(home: &RunHome) -> NamedStore {
    NamedStore { run: Some(home.path().to_owned()), ..NamedStore::default() }
}

/// A rollout in a few lines: what was asked, answered and earned.
pub(super) async fn transcript(home: &RunHome, listed: &ListedRollout) -> Result<String, ToolError> {
    let ListedRollout { rollout, reward, .. } = listed;
    let answers = answers(home, &rollout.rollout_id).await.map_err(failure_of("show"))?;
    let reward = reward.map_or("no reward".to_owned(), |reward| format!("{reward:+.3}"));
    let status = match rollout.status {
        RolloutStatus::Succeeded => String::new(),
        other => format!(" [{other}]"),
    };
    let task = shortened_line(&rollout.input.to_string(), SHOWN, "...");
    Ok(format!("{reward}{status}  {task}\n    -> {}\n", answers.join("\n    -> ")))
}

/// What the model answered in the latest attempt of a rollout.
async fn answers(home: &RunHome, rollout_id: &str) -> anyhow::Result<Vec<String>> {
    let store = store_of(home).open().await?;
    let mut answers = Vec::new();
    if let Some(attempt) = store.attempts().of_rollout(rollout_id).await?.last() {
        let mut pages = EventPages::of(&store, attempt).await?;
        while let Some(page) = pages.next().await? {
            answers.extend(page.filter_map(|event| match event {
                RolloutEvent::Call(call) => Some(shortened_line(&call.answer.content, SHOWN, "...")),
                RolloutEvent::Reward(_) | RolloutEvent::Span(_) => None,
            }));
        }
    }
    store.close().await;
    Ok(answers)
}

pub(super) async fn show_rollouts(
    session: &Session,
    arguments: ShowRollouts,
    _: &Progress,
) -> Result<String, ToolError> {
    let ShowRollouts { run, number, order, of } = arguments;
    let home = session.workspace.run(&run)?;
    if !home.has_started() {
        return Ok(format!("Run {run:?} is beginning: it has no rollouts yet."));
    }
    let filter = if of == Some(RolloutSplit::HeldOut) { "mode = val" } else { "mode = train and status = succeeded" };
    let found = rollouts(&home, filter, order.unwrap_or(Order::Latest), number.unwrap_or(5).clamp(1, 20)).await?;
    if found.is_empty() {
        return Ok(format!("Run {run:?} has no such rollouts yet."));
    }
    let mut lines = Vec::with_capacity(found.len());
    for rollout in &found {
        lines.push(transcript(&home, rollout).await?);
    }
    Ok(lines.concat())
}
