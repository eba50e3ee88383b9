//! The tools: their names, what they take, and what does their work.

mod checkpoints;
pub(crate) mod graders;
mod looking;
mod models;
mod runs;
mod scores;
mod spending;
mod start;
mod steps;
mod tinkerer;
mod waiting;

use std::future::Future;
use std::pin::Pin;

use rmcp::model::JsonObject;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::ToolError;
use crate::options::ToolSet;
use crate::progress::Progress;
use crate::session::Session;

/// What a tool answers.
type Answer<'a> = Pin<Box<dyn Future<Output = Result<String, ToolError>> + Send + 'a>>;

/// A tool.
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    /// What it is for, for the model that calls it.
    pub(crate) about: &'static str,
    /// Whether it leaves everything as it is.
    pub(crate) only_looks: bool,
    schema: fn() -> JsonObject,
    call: for<'a> fn(&'a Session, Value, &'a Progress) -> Answer<'a>,
}

macro_rules! tool {
    ($looks:literal, $name:literal, $module:ident :: $function:ident ( $arguments:ident ), $about:literal) => {
        Tool {
            name: $name,
            about: $about,
            only_looks: $looks,
            schema: schema::<$module::$arguments>,
            call: |session, arguments, progress| {
                Box::pin(async move {
                    let arguments: $module::$arguments = read($name, arguments)?;
                    $module::$function(session, arguments, progress).await
                })
            },
        }
    };
}

const OWN: [Tool; 19] = [
    tool!(
        true,
        "list_models",
        models::list(ListModels),
        "The models that can be trained here, with their size and kind."
    ),
    tool!(
        false,
        "fetch_model",
        models::fetch(FetchModel),
        "Fetch a model from Hugging Face's hub, or convert one of the project's files (a model directory or a GGUF file)."
    ),
    tool!(
        true,
        "look_at_data",
        models::look_at_data(LookAtData),
        "Look at a JSON lines file: how many rows, which fields, how long, the first rows. Look before you train on it."
    ),
    tool!(
        false,
        "write_grader",
        graders::write(WriteGrader),
        "Write what rewards an answer, and check it on examples whose reward you know: at least one that must earn much and one \
         that must earn little. It counts only if all examples come out as you say. It runs in a sandbox without network."
    ),
    tool!(
        false,
        "start_run",
        start::start(StartRun),
        "Begin a training run; nothing is learnt yet. By reinforcement learning: a model, tasks, held-out tasks and a grader \
         (the agent is one call of the model unless you name another). By examples: objective \"sft\" (or \"dpo\" and others) \
         and data. Grader and tasks are fixed from then on: to change them, begin another run."
    ),
    tool!(
        false,
        "train_steps",
        steps::train(TrainSteps),
        "Make so many more updates, wait for them, and say how they went. Take small steps, 5 to 20, and look at samples in \
         between. If it returns before they are made, call it again with steps = 0 to go on waiting."
    ),
    tool!(
        true,
        "run_status",
        runs::status(RunName),
        "How a run stands: updates, rewards, held-out scores, tokens, what is amiss."
    ),
    tool!(true, "list_runs", runs::list(ListRuns), "All runs, with their state, updates and held-out scores."),
    tool!(
        true,
        "sample",
        looking::sample(Sample),
        "What a run's model, one of its checkpoints, or a model before training says to prompts."
    ),
    tool!(
        false,
        "evaluate",
        scores::evaluate(Evaluate),
        "Score the held-out tasks of a run by its newest checkpoint, another one, or the model as it was before training."
    ),
    tool!(
        true,
        "compare",
        looking::compare(Compare),
        "The same prompts answered by the model before training and by a checkpoint, side by side, at temperature 0."
    ),
    tool!(
        true,
        "why_no_signal",
        runs::why_no_signal(RunName),
        "Why a run learns little or nothing: constant groups, failures, truncation, collapse, each with answers and a remedy."
    ),
    tool!(
        true,
        "show_rollouts",
        looking::show_rollouts(ShowRollouts),
        "Rollouts of a run, the best, worst or latest, with what was asked, answered and earned. Read them, not only numbers."
    ),
    tool!(
        true,
        "regrade",
        scores::regrade(Regrade),
        "What another grader would have given a run's recorded rollouts, without sampling anew. Changes nothing."
    ),
    tool!(false, "save_checkpoint", checkpoints::save(SaveCheckpoint), "Give a run's newest checkpoint a name."),
    tool!(
        false,
        "load_checkpoint",
        checkpoints::load(LoadCheckpoint),
        "Begin a new run from a checkpoint of another: its weights, with the same tasks, grader and settings."
    ),
    tool!(
        false,
        "export_weights",
        checkpoints::export(ExportWeights),
        "Write trained weights for other programs: an adapter for PEFT, vLLM and SGLang, a whole model for transformers, or GGUF."
    ),
    tool!(
        false,
        "report",
        runs::report(Report),
        "Write a page with curves, answers and findings of runs, and say where it is."
    ),
    tool!(
        false,
        "finish",
        runs::finish(RunName),
        "End a run: score the held-out tasks, and the final tasks once, and let go of it. No update can follow."
    ),
];

const TINKERER: [Tool; 8] = [
    tool!(
        false,
        "init_sft",
        tinkerer::init_sft(InitSft),
        "Begin supervised fine-tuning of a model on conversations. One session at a time."
    ),
    tool!(
        false,
        "init_grpo",
        tinkerer::init_grpo(InitGrpo),
        "Begin reinforcement learning (GRPO) of a model on prompts, with a grading function `grade(task, answer)` in Python that \
         is checked on examples first. One session at a time."
    ),
    tool!(false, "train_sft_step", tinkerer::train(TrainStep), "Make updates of the session that init_sft began."),
    tool!(false, "train_grpo_step", tinkerer::train(TrainStep), "Make updates of the session that init_grpo began."),
    tool!(true, "sample", tinkerer::sample(SampleSession), "What the session's model says to prompts."),
    tool!(false, "save", tinkerer::save(Named), "Give the session's newest checkpoint a name."),
    tool!(false, "load", tinkerer::load(Loaded), "Go on from a checkpoint that was saved, in a new session."),
    tool!(false, "finish", tinkerer::finish(Nothing), "End the session: score what is held out, and say how it went."),
];

/// The tools of a set.
pub(crate) fn all(set: ToolSet) -> &'static [Tool] {
    match set {
        ToolSet::Own => &OWN,
        ToolSet::Tinkerer => &TINKERER,
    }
}

impl Tool {
    /// What it takes.
    pub(crate) fn schema(&self) -> JsonObject {
        (self.schema)()
    }

    /// Does its work.
    pub(crate) fn call<'a>(&self, session: &'a Session, arguments: Value, progress: &'a Progress) -> Answer<'a> {
        (self.call)(session, arguments, progress)
    }
}

/// Without references, which not every host follows.
fn schema<A: JsonSchema>() -> JsonObject {
    let settings = SchemaSettings::default().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let schema = settings.into_generator().into_root_schema_for::<A>();
    let mut schema = schema.as_object().cloned().unwrap_or_default();
    // The name of a type, which says nothing to who calls.
    schema.remove("title");
    schema.remove("description");
    schema
}

fn read<A: DeserializeOwned>(tool: &'static str, arguments: Value) -> Result<A, ToolError> {
    serde_json::from_value(arguments).map_err(|error| ToolError::Arguments { tool, why: error.to_string() })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// What hosts take: above 25 tools, or a schema of that many characters, some drop tools without a word.
    const TOOLS: usize = 20;
    const SCHEMA: usize = 16_384;

    #[test]
    fn tools_are_few_and_their_schemas_small() {
        for set in [ToolSet::Own, ToolSet::Tinkerer] {
            let tools = all(set);
            assert!(tools.len() <= TOOLS);
            assert_eq!(tools.iter().map(|tool| tool.name).collect::<BTreeSet<_>>().len(), tools.len());
            for tool in tools {
                let schema = Value::Object(tool.schema());
                let length = schema.to_string().len();
                assert!(length < SCHEMA / 2 && tool.about.len() < 500, "{}: {length}", tool.name);
                assert_eq!(schema["type"], "object", "{}", tool.name);
                assert_eq!(schema["additionalProperties"], false, "{}", tool.name);
                assert!(!schema.to_string().contains("$ref"), "{}", tool.name);
                let fields = schema["properties"].as_object().cloned().unwrap_or_default();
                assert!(fields.values().all(|field| field["description"].is_string()), "{}: {schema}", tool.name);
            }
        }
    }
}
