//! Every config of `examples/` is one that the command takes, and the three stages of RLHF fit each other.

use std::path::{Path, PathBuf};
use std::process::Command;

use fulgurite_trainer::{GrpoOptions, TrainerOptions};
use serde_json::Value;

use crate::common::{Ran, fulgurite, run};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples")
}

/// The configs below a directory; runs, models, data and environments that somebody made there are not looked at.
fn configs(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if name.starts_with('.') {
            continue;
        }
        if path.is_dir() && !["runs", "models", "curves", "target", "node_modules"].contains(&name) {
            found.extend(configs(&path));
        } else if name.ends_with(".toml") && !["Cargo.toml", "recipes.toml"].contains(&name) {
            found.push(path);
        }
    }
    found.sort();
    found
}

#[test]
fn every_config_of_the_examples_is_taken() {
    let configs = configs(&root());
    assert!(configs.len() > 10, "{configs:?}");
    for config in configs {
        let shown = run(["config", "show", "--json", "--config", config.to_str().unwrap()]);
        assert_eq!(shown.code, Some(0), "{}: {}", config.display(), shown.stderr);
        let text = std::fs::read_to_string(&config).unwrap();
        let table: toml::Table = toml::from_str(&text).unwrap();
        let Some(trainer) = table.get("trainer").and_then(toml::Value::as_table) else { continue };
        let mut options: TrainerOptions = trainer.clone().try_into().unwrap();
        let written: Vec<String> = trainer.keys().cloned().collect();
        options.set_defaults(&written);
        options.check().unwrap_or_else(|error| panic!("{}: {error}", config.display()));
    }
}

/// A copy of an example, whose base is hardly trained.
fn copied(from: &str, to: &Path) {
    let text = std::fs::read_to_string(root().join(from)).unwrap();
    let shortened = [
        ("cooldown_steps = 400", "cooldown_steps = 2"),
        ("max_steps = 2000", "max_steps = 5"),
        ("validation_accuracy = 0.97\n", ""),
        ("\"--count\", \"20000\"", "\"--count\", \"400\""),
    ];
    let text = shortened.iter().fold(text, |text, (from, to)| text.replace(from, to));
    std::fs::write(to.join(Path::new(from).file_name().unwrap()), text).unwrap();
}

#[test]
fn the_three_stages_of_rlhf_run_one_after_the_other() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path().join("examples/modes/rlhf");
    std::fs::create_dir_all(&here).unwrap();
    let script = root().join("modes/rlhf/make_data.py");
    let made = Command::new("python3").arg(script).arg("--directory").arg(&here).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let train = |config: &str, run: &str, more: &[&str]| -> Vec<Value> {
        copied(&format!("modes/rlhf/{config}"), &here);
        let mut command = fulgurite(["train", config, "--seed", "1", "--json", "--run-directory", run]);
        Ran::from(command.args(more).current_dir(&here).output().unwrap()).json_lines()
    };
    // The first two in full, since the third names their last checkpoints by their updates.
    let sft = train("1-sft.toml", "runs/sft-1", &[]).pop().unwrap();
    assert_eq!(sft["steps"], 25);
    let judge = train("2-reward-model.toml", "runs/reward-model-1", &[]);
    assert!(judge.iter().any(|line| line["test/accuracy"].is_number()), "{judge:?}");
    assert_eq!(judge.last().unwrap()["steps"], 138);
    let small = [
        "trainer.groups_per_batch=2",
        "trainer.group_size=3",
        "trainer.evaluation.samples_per_task=1",
        "tasks.held_out=[7000, 7001]",
    ];
    let small: Vec<&str> = small.iter().flat_map(|set| ["--set", *set]).chain(["--max-steps", "1"]).collect();
    let policy = train("3-policy.toml", "runs/policy-1", &small);
    assert_eq!(policy.last().unwrap()["steps"], 1);
    let earned = policy[0]["env/all/reward/total"].as_f64().unwrap();
    assert!((earned - 0.5).abs() < 1e-9, "a group is compared with itself: {}", policy[0]);
}

/// A README's table of seeds, each row beginning with the seed, by what its header's cells begin with.
fn table_of_seeds(readme: &str) -> Vec<Vec<(String, String)>> {
    let cells =
        |line: &str| -> Vec<String> { line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect() };
    let mut lines = readme.lines().skip_while(|line| !line.starts_with("| seed | updates |"));
    let header = cells(lines.next().unwrap_or_else(|| panic!("there is no table of seeds")));
    let rows = lines.skip(1).take_while(|line| line.starts_with('|'));
    rows.map(|line| header.iter().cloned().zip(cells(line)).collect()).collect()
}

/// The lines of a run's metrics.
fn steps_of(path: &Path) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn the_page_of_results_is_of_the_curves_that_are_committed() {
    let checked = Command::new("python3").arg(root().join("run-all")).arg("--check").output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

#[test]
fn the_curves_of_the_toolbelt_are_those_of_its_readme() {
    let directory = root().join("toolbelt");
    let readme = std::fs::read_to_string(directory.join("README.md")).unwrap();
    for seed in 1..=3 {
        let row = readme.lines().find_map(|line| line.strip_prefix(&format!("| seed {seed} |"))).unwrap();
        let steps = steps_of(&directory.join(format!("curves/small-seed-{seed}.jsonl")));
        let scores: Vec<(u64, f64)> = (steps.iter())
            .filter_map(|step| Some((step["step"].as_u64()?, step["test/env/all/reward/total"].as_f64()?)))
            .collect();
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        for (cell, wanted) in cells.iter().zip([0, 5, 10, 20, 30, 40, 50]) {
            let (_, score) = scores.iter().find(|(step, _)| *step == wanted).unwrap();
            assert_eq!(*cell, format!("{score:.3}"), "seed {seed}, {wanted} updates");
        }
        let (last, score) = scores.last().unwrap();
        assert_eq!(cells[7], format!("{score:.3} ({last})"), "seed {seed}");
        assert!(scores[0].1 < 0.2 && *score >= 0.5, "seed {seed} begins below 0.2 and ends above 0.5");
    }
}

#[test]
fn the_figures_of_readmes_are_those_of_their_curves() {
    // The part of the README, the curves, and which metric stands in which column: at the first scoring, at the best
    // one, or else at the last.
    let reward = "test/env/all/reward/total";
    let hello: &[(&str, &str)] =
        &[("watched: reward before", reward), ("reward after", reward), ("exact after", "test/env/all/exact")];
    let search: &[(&str, &str)] = &[
        ("reward before", reward),
        ("reward after", reward),
        ("first page before", "test/env/all/first_page"),
        ("first page after", "test/env/all/first_page"),
        ("second page before", "test/env/all/second_page"),
        ("second page after", "test/env/all/second_page"),
        ("searches before", "test/env/all/searches"),
        ("searches after", "test/env/all/searches"),
    ];
    let chat_sft: &[(&str, &str)] = &[("nats a token before", "test/nll"), ("nats a token after", "test/nll")];
    let dpo_shorter: &[(&str, &str)] =
        &[("accuracy before", "test/accuracy"), ("accuracy after", "test/accuracy"), ("margin after", "test/margin")];
    let simpo: &[(&str, &str)] = &[
        ("accuracy before", "test/accuracy"),
        ("accuracy after", "test/accuracy"),
        ("margin after", "test/margin"),
        ("nats a token before", "test/nll"),
        ("nats a token after", "test/nll"),
    ];
    let wordle: &[(&str, &str)] = &[
        ("won before", "test/env/all/won"),
        ("won after", "test/env/all/won"),
        ("fitting before", "test/env/all/fitting"),
        ("fitting after", "test/env/all/fitting"),
        ("asked once: won", "final/env/all/won"),
    ];
    let twenty: &[(&str, &str)] = &[
        ("won before", "test/env/all/won"),
        ("won after", "test/env/all/won"),
        ("turns before", "test/env/all/turns"),
        ("turns after", "test/env/all/turns"),
        ("not understood before", "test/env/all/not_understood"),
        ("not understood after", "test/env/all/not_understood"),
    ];
    let (random, perfect) = ("test/env/all/random/won_or_drawn", "test/env/all/perfect/won_or_drawn");
    let players: &[(&str, &str)] = &[
        ("random: before", random),
        ("random: best", random),
        ("random: after", random),
        ("perfect: before", perfect),
        ("perfect: best", perfect),
        ("perfect: after", perfect),
    ];
    let calculator: &[(&str, &str)] = &[
        ("held-out: reward before", reward),
        ("reward after", reward),
        ("solved after", "test/env/all/solved"),
        ("tool errors before", "test/env/all/tool_errors"),
        ("tool errors after", "test/env/all/tool_errors"),
    ];
    let arithmetic: &[(&str, &str)] = &[
        ("held-out before", reward),
        ("held-out after", reward),
        ("with a carry before", "test/env/all/with_carry"),
        ("with a carry after", "test/env/all/with_carry"),
        ("final", "final/env/all/reward/total"),
    ];
    for (example, part, curve, seeds, columns) in [
        ("hello", "## A real model", "smollm2-seed-", 3, hello),
        ("local_search", "### What was measured", "search-seed-", 3, search),
        ("chat_sft", "## What to expect", "style-seed-", 3, chat_sft),
        ("dpo_shorter", "## What to expect", "dpo-seed-", 3, dpo_shorter),
        ("dpo_shorter", "### SimPO", "simpo-seed-", 3, simpo),
        ("wordle", "## What is learnt", "wordle-seed-", 3, wordle),
        ("two_players", "## The score", "two-players-seed-", 3, players),
        ("twenty_questions", "## The run", "twenty-seed-", 3, twenty),
        ("calculator", "### LangGraph", "langgraph-seed-", 3, calculator),
        ("calculator", "### OpenAI Agents SDK", "openai-agents-seed-", 3, calculator),
        ("arithmetic", "## What to expect", "seed-", 3, arithmetic),
    ] {
        let directory = root().join(example);
        let readme = std::fs::read_to_string(directory.join("README.md")).unwrap();
        let rows = table_of_seeds(&readme[readme.find(part).unwrap()..]);
        assert_eq!(rows.len(), seeds, "{example}");
        for row in rows {
            let of = |column: &str| row.iter().find(|(name, _)| name == column).map(|(_, cell)| cell.clone()).unwrap();
            let steps = steps_of(&directory.join(format!("curves/{curve}{}.jsonl", of("seed"))));
            for (column, metric) in columns {
                let mut scores = steps.iter().filter_map(|step| step[*metric].as_f64());
                let score = match column.rsplit(' ').next() {
                    Some("before") => scores.next(),
                    Some("best") => scores.reduce(f64::max),
                    _ => scores.next_back(),
                };
                let score = score.unwrap();
                let digits = of(column).split('.').nth(1).unwrap().len();
                assert_eq!(of(column), format!("{score:.digits$}"), "{example}, seed {}: {column}", of("seed"));
            }
            assert_eq!(of("updates"), steps.last().unwrap()["step"].to_string(), "{example}, seed {}", of("seed"));
        }
    }
}

/// The greatest of a metric in the committed curves of the examples, and where it stands.
fn greatest_in_curves(directory: &Path, metric: &str) -> Option<(f64, PathBuf)> {
    let paths = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let of = |path: PathBuf| -> Option<(f64, PathBuf)> {
        if path.is_dir() {
            return greatest_in_curves(&path, metric);
        }
        let is_curve = path.extension().is_some_and(|kind| kind == "jsonl")
            && path.parent().is_some_and(|parent| parent.ends_with("curves"));
        let text = is_curve.then(|| std::fs::read_to_string(&path).unwrap())?;
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).unwrap()[metric].as_f64());
        lines.max_by(f64::total_cmp).map(|greatest| (greatest, path))
    };
    paths.filter_map(of).max_by(|one, other| one.0.total_cmp(&other.0))
}

#[test]
fn the_default_bound_of_published_weights_lies_beyond_what_committed_curves_move() {
    let (greatest, curve) = greatest_in_curves(&root(), "optim/kl_sample_train_v2").unwrap();
    let bound = GrpoOptions::default().publish_max_kl;
    assert!(3.0 * greatest < bound, "{greatest} in {}", curve.display());
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/how-to/training.md");
    let docs = std::fs::read_to_string(docs).unwrap();
    assert!(docs.contains(&format!("at most {greatest:.2} nats a token")), "docs/how-to/training.md: {greatest}");
}
