//! What is looked at before anything is made or run, so that a mistake costs seconds and not a night.

use std::path::Path;

use anyhow::{Context, Result, bail};
use fulgurite_backends::Changeover;
use fulgurite_runner::{LabelledAnswer, Program, RubricOptions, check_arguments};
use fulgurite_trainer::{ObjectiveOptions, PublishRule, RolloutOptions, TrainerOptions};
use serde_json::Value;

use crate::declarations::{Config, LoadedConfig, RunConfig, Shape};
use crate::models::{Backend, LearnerKind, ModelEntry};
use crate::runner::RunnerConfig;

/// Looks at the numbers and names of the config.
pub fn check_config(loaded: &LoadedConfig) -> Result<()> {
    let config = &loaded.config;
    config.trainer.check()?;
    check_run(&config.run)?;
    config.runner.check()?;
    config.torch.check().map_err(anyhow::Error::msg)?;
    check_shared_gpu(config)?;
    check_prime_rl(config)?;
    check_tinker(config)?;
    check_tinker_steps(config)?;
    if let Some(RubricOptions { criteria, labelled: Some(labelled), .. }) = &config.runner.rubric {
        LabelledAnswer::read(&loaded.resolve(&labelled.file), criteria)?;
    }
    if let Some(base) = &config.base {
        base.training.check()?;
        check_shape(&base.shape)?;
    }
    Ok(())
}

/// Refuses hosts that cannot sleep while the learner has their GPU.
fn check_shared_gpu(config: &Config) -> Result<()> {
    if !config.torch.shares_gpu {
        return Ok(());
    }
    if config.trainer.harvest().is_some() {
        bail!(
            "[torch] shares_gpu = true: a run that learns from others' calls cannot hold them; give it a GPU of its own"
        );
    }
    for model in config.models.iter().filter(|model| model.learner == LearnerKind::Torch) {
        let (name, backend) = (&model.name, model.backend.name());
        if model.backend != Backend::Vllm {
            bail!("[torch] shares_gpu = true goes with backend = \"vllm\", and model `{name}` has \"{backend}\"");
        }
        if model.changeover != Changeover::Drain {
            bail!(
                "[torch] shares_gpu = true: no answer goes on while the model's host sleeps; set changeover = \"drain\" \
                 for model `{name}`"
            );
        }
    }
    Ok(())
}

/// Refuses what the Tinker API's wire cannot say.
fn check_tinker(config: &Config) -> Result<()> {
    let Some(rollouts) = config.trainer.rollouts() else { return Ok(()) };
    let temperature = rollouts.temperature();
    let at_service = |model: &&ModelEntry| model.trained && model.backend == Backend::Tinker;
    match config.models.iter().find(at_service) {
        Some(model) if rollouts.entropy_bonus.is_set() => bail!(
            "[trainer] entropy_bonus is set, but model `{}` is trained over the Tinker API, whose losses have no entropy: leave \
             it out",
            model.name
        ),
        Some(model) if rollouts.top_entropy.is_some() => bail!(
            "[trainer] top_entropy: model `{}` is trained over the Tinker API, which tells no entropies: leave it out",
            model.name
        ),
        Some(model) if temperature != 1.0 => bail!(
            "[trainer] sampling_parameters.temperature is {temperature}, but model `{}` is trained over the Tinker API, whose \
             losses are at temperature 1: leave it out",
            model.name
        ),
        _ => Ok(()),
    }
}

/// Refuses what prime-rl's trainer cannot do: it takes one file for an update, has its own loss, and reports no logprobs.
fn check_prime_rl(config: &Config) -> Result<()> {
    if !config.models.iter().any(|model| model.learner == LearnerKind::PrimeRl && model.trained) {
        return Ok(());
    }
    config.prime_rl.check().map_err(anyhow::Error::msg)?;
    if config.prime_rl.directory.as_os_str().is_empty() {
        bail!("learner = \"prime-rl\" needs [prime_rl] directory, the output directory of its trainer");
    }
    let ObjectiveOptions::Grpo(options) = &config.trainer.objective else {
        bail!("learner = \"prime-rl\" learns from rollouts and their rewards alone: objective = \"grpo\"");
    };
    if options.publish_rule() != PublishRule::Always {
        bail!(
            "[trainer] publish_if is not \"always\", and learner = \"prime-rl\" reports no logprobs to judge weights by"
        );
    }
    let rollouts = &options.rollouts;
    let (plain, usual) = (RolloutOptions::default(), TrainerOptions::default().common);
    let course = &config.trainer.common;
    let of_trainer = "is of prime-rl's own config, where learner = \"prime-rl\"";
    let needs_logprobs = "needs logprobs of the weights that train, which learner = \"prime-rl\" does not report";
    for (key, is_set, why) in [
        ("loss", rollouts.loss != plain.loss, of_trainer),
        ("loss_aggregation", rollouts.loss_aggregation != plain.loss_aggregation, of_trainer),
        ("weight_decay", course.weight_decay != usual.weight_decay, of_trainer),
        ("epsilon", course.epsilon != usual.epsilon, of_trainer),
        ("learning_rate_schedule", course.learning_rate_schedule != usual.learning_rate_schedule, of_trainer),
        ("warmup", course.warmup != usual.warmup, of_trainer),
        ("rollout_length", rollouts.rollout_length.is_some(), of_trainer),
        (
            "spike_factor",
            course.spike_factor.is_some(),
            "needs the gradient's norm, which learner = \"prime-rl\" does not report",
        ),
        (
            "final_weights",
            course.final_weights != usual.final_weights,
            "is \"best\", and learner = \"prime-rl\" goes back to no earlier weights",
        ),
        ("kl", rollouts.kl.is_some(), needs_logprobs),
        ("importance_mask", rollouts.importance_mask.is_some(), needs_logprobs),
        ("entropy_bonus", rollouts.entropy_bonus.is_set(), of_trainer),
        ("top_entropy", rollouts.top_entropy.is_some(), of_trainer),
        ("substeps", rollouts.substeps != plain.substeps, "is more than 1, and prime-rl makes one step of an update"),
        (
            "conversations",
            rollouts.conversations.is_some(),
            "is not for learner = \"prime-rl\", which learns from rollouts",
        ),
        (
            "schedule",
            rollouts.schedule != plain.schedule,
            "is not for learner = \"prime-rl\" yet, whose steps are one by one",
        ),
    ] {
        if is_set {
            bail!("[trainer] {key} {why}: leave it out");
        }
    }
    Ok(())
}

/// Refuses what no message of the Tinker API says.
fn check_tinker_steps(config: &Config) -> Result<()> {
    let is_trained_there = |model: &ModelEntry| model.backend == Backend::Tinker && model.trained;
    if config.models.iter().any(is_trained_there) && config.trainer.common.spike_factor.is_some() {
        bail!(
            "[trainer] spike_factor is not for backend = \"tinker\", whose service makes every optimizer step that it is asked \
             for: leave it out"
        );
    }
    Ok(())
}

/// Looks for the programs of the agent, the grader and the worlds, and whether every task fills in their arguments. `agent` is what the
/// command line says in place of the config.
pub fn check_commands(loaded: &LoadedConfig, agent: &[String], tasks: &[&Vec<Value>]) -> Result<()> {
    let runner = &loaded.config.runner;
    let directory = loaded.resolve(runner.directory.as_deref().unwrap_or(Path::new("")));
    if !directory.is_dir() {
        bail!("[runner] directory is {}, which is no directory", directory.display());
    }
    let command = if agent.is_empty() { "[runner] command" } else { "the agent after --" };
    let written =
        [(command.to_owned(), "agent", &runner.command), ("[runner] grade".to_owned(), "grader", &runner.grade)];
    let hooks = runner.hooks().map(|(name, words)| (format!("[runner] {name}"), name, words));
    for (key, role, words) in written.into_iter().chain(hooks).filter(|(_, _, words)| !words.is_empty()) {
        if role != "agent" || !runner.sandbox.has_own_programs() {
            Program::find(words, role, Some(&directory)).with_context(|| key.clone())?;
        }
        check_arguments(&words[1..], tasks.iter().copied().flatten()).context(key)?;
    }
    check_harbor(runner, tasks)?;
    runner.check_paths(&directory)
}

/// Looks whether tasks of Harbor's can be run here.
fn check_harbor(runner: &RunnerConfig, tasks: &[&Vec<Value>]) -> Result<()> {
    for harbor in tasks.iter().copied().flatten().filter_map(|task| task.get("harbor")) {
        let name = harbor["name"].as_str().unwrap_or_default();
        if let Some(image) = harbor["image"].as_str().filter(|_| !runner.sandbox.has_own_programs()) {
            bail!(
                "Harbor's task {name:?} runs in an image ({image}), which needs [runner] sandbox = {{ kind = \"docker\" }} or \
                 \"podman\": where this machine's programs are enough, take its Dockerfile (environment.docker_image) away, or \
                 leave the task out"
            );
        }
        if runner.grade.is_empty() && !runner.harbor_tests {
            bail!("Harbor's task {name:?} has tests: [runner] harbor_tests = true has them find the reward");
        }
    }
    Ok(())
}

fn check_run(run: &RunConfig) -> Result<()> {
    if run.name.is_empty() || run.name.contains(['/', '\0']) || run.name.starts_with('.') {
        bail!(
            "[run] name is {:?}, but names a directory: it must not be empty, begin with a dot or hold a slash",
            run.name
        );
    }
    Ok(())
}

fn check_shape(shape: &Shape) -> Result<()> {
    let Shape { hidden_size, layers, heads, key_value_heads, head_size, intermediate_size, context_length } = *shape;
    let numbers = [
        ("hidden_size", hidden_size),
        ("layers", layers),
        ("heads", heads),
        ("key_value_heads", key_value_heads),
        ("head_size", head_size),
        ("intermediate_size", intermediate_size),
        ("context_length", context_length),
    ];
    if let Some((key, _)) = numbers.into_iter().find(|(_, number)| *number == 0) {
        bail!("[base.shape] {key} is 0, but must be at least 1");
    }
    if heads % key_value_heads != 0 {
        bail!("[base.shape] heads is {heads}, but must be a multiple of key_value_heads, which is {key_value_heads}");
    }
    if head_size % 2 != 0 {
        bail!("[base.shape] head_size is {head_size}, but must be even");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::parse;

    #[test]
    fn a_gpu_is_shared_with_hosts_whose_calls_can_be_held() {
        let check = |model: &str, trainer: &str| {
            let text = format!(
                "{trainer}\n[[models]]\nname = \"q\"\npath = \"p\"\nlearner = \"torch\"\n{model}\n[torch]\nshares_gpu = true\n"
            );
            check_shared_gpu(&parse::<Config>(&text).unwrap()).map_err(|error| error.to_string())
        };
        let vllm = "backend = \"vllm\"\nurls = [\"http://h\"]";
        check(vllm, "").unwrap();
        let in_flight = format!("{vllm}\nchangeover = \"in-flight\"");
        let sglang = vllm.replace("vllm", "sglang");
        for (model, trainer, words) in [
            ("backend = \"embedded\"", "", "goes with backend = \"vllm\""),
            (&sglang, "", "has \"sglang\""),
            (&in_flight, "", "changeover = \"drain\""),
            (vllm, "[trainer]\nharvest = {}\n", "learns from others' calls"),
        ] {
            let error = check(model, trainer).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
