//! Runs that end early by their held-out score, with the weights that it names, and optimizer steps that are left out.

use serde_json::{Value, json};

use crate::common::data_project::{self, DataProject};
use crate::common::project::{Project, SMALL, UNEVEN, numbers, weights};
use crate::common::{Ran, fulgurite};

fn project(trainer: &str) -> Project {
    let project = Project::new(UNEVEN, &SMALL.replace("max_steps = 5", "max_steps = 12"));
    project.change_config("every = 2", "every = 1");
    project.change_config("[trainer]\n", &format!("[trainer]\n{trainer}\n"));
    project
}

/// The held-out rewards of a run, by the updates before them.
fn rewards(lines: &[Value]) -> Vec<f64> {
    numbers(lines, "test/env/all/reward/total")
}

fn chats(count: usize) -> String {
    let message = |role: &str, text: &str| json!({ "role": role, "content": text });
    let row = |n| json!({ "messages": [message("user", &format!("Say you are {n}.")), message("assistant", &format!("I am {n}."))] });
    (0..count).map(|n| format!("{}\n", row(n))).collect()
}

#[test]
fn a_policy_that_improves_no_more_stops_and_ends_with_its_best_weights() {
    let project = project("stop = { patience = 2 }\nfinal_weights = 'best'\nlearning_rate = 3e-2");
    project.change_config("learning_rate = 1e-3\n", "");
    let lines = project.train("run", &[]);
    let (summary, steps) = lines.split_last().unwrap();
    let rewards = rewards(steps);
    let best = |upto: usize| rewards[..upto].iter().copied().fold(f64::MIN, f64::max);
    let is_no_better = |step: &usize| rewards[*step] <= best(*step);
    let end = (2..rewards.len()).find(|step| is_no_better(step) && is_no_better(&(step - 1))).expect("twelve updates");
    assert_eq!((summary["steps"].as_u64().unwrap() as usize, rewards.len()), (end, end + 1), "{rewards:?}");
    assert_eq!(summary["evaluations_without_improvement"], json!(2), "{summary}");
    let of_updates = rewards.iter().enumerate().skip(1);
    let first_best = of_updates.clone().find(|(_, reward)| of_updates.clone().all(|(_, other)| *other <= **reward));
    let (step, reward) = first_best.unwrap();
    assert_eq!(summary["best"]["steps"], json!(step), "{rewards:?}");
    assert_eq!(
        (&summary["best"]["metric"], &summary["best"]["score"]),
        (&json!("test/env/all/reward/total"), &json!(reward))
    );
    let checkpoint = summary["checkpoint"].as_str().unwrap();
    assert!(checkpoint.ends_with(&format!("checkpoints/{step:06}")), "{checkpoint}");
    project.account("run", summary);

    let exported = project.path("exported");
    let mut export = fulgurite(["model", "export", "--format", "merged"]);
    let ran = Ran::from(export.arg(project.path("run")).arg("-o").arg(&exported).output().unwrap());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let written = std::fs::read(exported.join("model.safetensors")).unwrap();
    assert!(written == weights(summary), "an export has the run's final weights");

    project.train("cut", &["--max-steps", "1"]);
    let resumed = project.train("cut", &["--resume"]).pop().unwrap();
    assert_eq!((&resumed["steps"], &resumed["best"]["steps"]), (&summary["steps"], &summary["best"]["steps"]));
    assert!(weights(&resumed) == weights(summary));
    let recalled = project.train("run", &["--resume"]).pop().unwrap();
    assert_eq!((&recalled["checkpoint"], &recalled["best"]), (&summary["checkpoint"], &summary["best"]));
}

#[test]
fn conversations_and_comparisons_stop_by_what_is_held_out_of_them() {
    let pairs: String = (0..30)
        .map(|n| {
            format!("{}\n", json!({ "prompt": format!("Say {n}."), "chosen": format!("I am {n}."), "rejected": "No." }))
        })
        .collect();
    for (objective, source, file, rows, metric) in [
        ("sft", "conversations = \"chats.jsonl\"", "chats.jsonl", chats(30), "test/nll"),
        ("dpo", "comparisons = \"pairs.jsonl\"", "pairs.jsonl", pairs, "test/loss"),
    ] {
        let config = data_project::config(objective, source);
        let project = DataProject::new(&config, file, &rows);
        // No gain is ever as large: the second evaluation ends it.
        project.change(
            "[trainer]\n",
            "[trainer]\nstop = { patience = 1, least_improvement = 1e6 }\nfinal_weights = 'best'\n",
        );
        let (steps, summary) = project.train("run", &[]);
        let scores = numbers(&steps, metric);
        assert_eq!(scores.len(), 2, "{summary}");
        let last = steps.last().unwrap()["step"].clone();
        assert_eq!((&summary["steps"], &summary["stopped_by_rule"]), (&last, &json!(true)), "{objective}");
        let best = &summary["best"];
        assert_eq!((&best["metric"], &best["steps"], &best["score"]), (&json!(metric), &last, &json!(scores[1])));
        project.change("least_improvement = 1e6", "least_improvement = -1.0");
        let refused = Ran::from(project.command("refused").output().unwrap());
        assert!(refused.stderr.contains("[trainer] stop.least_improvement is -1"), "{refused:?}");
    }
}

#[test]
fn a_score_that_nothing_is_held_out_for_is_refused_by_its_key() {
    let config = data_project::config("sft", "conversations = \"chats.jsonl\"");
    let project = DataProject::new(&config.replace(", validation = 0.2", ""), "chats.jsonl", &chats(30));
    let refused = |key: &str| {
        let ran = Ran::from(project.command("refused").output().unwrap());
        assert!(ran.stderr.contains(&format!("[trainer] {key} decides by a held-out score")), "{ran:?}");
    };
    project.change("[trainer]\n", "[trainer]\nfinal_weights = 'best'\n");
    refused("final_weights");
    project.change("final_weights = 'best'", "stop = { patience = 3 }");
    refused("stop.patience");
    project.change("stop = { patience = 3 }", "stop = { held_out_reward = 1.0 }");
    let ran = Ran::from(project.command("refused").output().unwrap());
    assert!(ran.stderr.contains("[trainer] stop.held_out_reward is no key of objective = \"sft\""), "{ran:?}");
}

#[test]
fn a_spike_is_left_out_counted_and_warned_of_also_in_a_resumed_run() {
    // Every second norm or so is above the one before it.
    let project = project("spike_factor = 1.0001\nspike_window = 1\nstop_after_spikes = 0\ncheckpoint_every = 1");
    let lines = project.train("run", &["--max-steps", "8"]);
    let summary = lines.last().unwrap();
    let skipped = numbers(&lines, "optim/skipped_steps");
    let warnings: Vec<&Value> = lines.iter().filter(|line| line["event"] == "steps_skipped").collect();
    assert!(skipped.contains(&1.0) && skipped.contains(&0.0), "{skipped:?}");
    assert_eq!(warnings.len(), skipped.iter().filter(|count| **count == 1.0).count());
    for warning in warnings {
        assert!(warning["gradient_norm"].as_f64() > warning["spike_bound"].as_f64(), "{warning}");
    }
    for cut in ["2", "4", "5"] {
        let run = format!("cut-{cut}");
        project.train(&run, &["--max-steps", cut]);
        let resumed = project.train(&run, &["--resume", "--max-steps", "8"]);
        let steps: Vec<Value> = std::fs::read_to_string(project.path(&format!("{run}/metrics.jsonl")))
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(numbers(&steps, "optim/skipped_steps"), skipped);
        assert_eq!(numbers(&steps, "optim/spike_bound"), numbers(&lines, "optim/spike_bound"));
        assert!(weights(resumed.last().unwrap()) == weights(summary), "{run}");
    }
    project.change_config("stop_after_spikes = 0", "stop_after_spikes = 1");
    let ended = Ran::from(project.command("ended").output().unwrap());
    assert!(ended.code == Some(1) && ended.stderr.contains("1 updates in a row left out a step"), "{ended:?}");
}

#[test]
fn what_a_learner_or_a_harvest_cannot_do_is_refused_by_its_key_before_a_run() {
    const TINKER: &str = "backend = \"tinker\"\nbase_model = \"base\"\nurls = [\"http://127.0.0.1:9\"]";
    const PRIME_RL: &str = "backend = \"vllm\"\nurls = [\"http://127.0.0.1:9\"]\nlearner = \"prime-rl\"";
    const EMBEDDED: &str = "backend = \"embedded\"";
    let project = Project::new(UNEVEN, SMALL);
    let config = std::fs::read_to_string(project.path("t.toml")).unwrap();
    for (model, keys, expected) in [
        (TINKER, "spike_factor = 10.0", "[trainer] spike_factor is not for backend = \"tinker\""),
        (
            TINKER,
            "entropy_bonus = { target = 1.0 }",
            "[trainer] entropy_bonus is set, but model `hello` is trained over",
        ),
        (PRIME_RL, "spike_factor = 10.0", "[trainer] spike_factor needs the gradient's norm"),
        (
            PRIME_RL,
            "final_weights = 'best'",
            "[trainer] final_weights is \"best\", and learner = \"prime-rl\" goes back to",
        ),
        (PRIME_RL, "entropy_bonus = { target = 1.0 }", "[trainer] entropy_bonus is of prime-rl's own config"),
        (PRIME_RL, "kl = { coefficient = 0.1, target = 0.1 }", "[trainer] kl needs logprobs of the weights that train"),
        (EMBEDDED, "harvest = {}\nfinal_weights = 'best'", "[trainer] final_weights is of a run that ends"),
        (EMBEDDED, "harvest = {}\ncurriculum = {}", "[trainer] curriculum a harvest has no tasks to draw"),
    ] {
        let table = if model == PRIME_RL { "[prime_rl]\ndirectory = \"prime\"\n" } else { "" };
        let text = config.replace(EMBEDDED, model).replace("[runner]", &format!("{table}[runner]"));
        std::fs::write(project.path("t.toml"), text.replace("[trainer]", &format!("[trainer]\n{keys}"))).unwrap();
        let ran = Ran::from(project.command("refused").output().unwrap());
        assert!(ran.code == Some(1) && ran.stderr.contains(expected), "{expected}: {ran:?}");
        assert!(!project.path("model-1").exists(), "nothing was made for it");
    }
}
