//! Runs of the real command whose groups are rewarded by comparing their answers, and the model that compares them.

use serde_json::json;

use crate::common::project::{Project, numbers, weights};
use crate::common::{Ran, fulgurite};

/// An agent that asks once, and a grade that is the same for all.
const SAME: &str = "command = [\"hello-agent\", \"{task}\"]\n\
                    grade = [\"python3\", \"-c\", \"print('{\\\"reward\\\": 0}')\"]";

const STEPS: &str = "groups_per_batch = 4\ngroup_size = 4\nmax_steps = 8\nlearning_rate = 1e-2\n";

fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len() as f64
}

#[test]
fn the_shorter_answer_wins_and_answers_become_shorter() {
    let project = Project::new(SAME, STEPS);
    project.change_config("max_steps = 5, cooldown_steps = 2", "max_steps = 60, cooldown_steps = 10");
    let plain = project.train("plain", &["--max-steps", "2"]);
    assert_eq!(numbers(&plain, "sampling/groups_without_signal"), [4.0; 2], "all earn the same");
    project.change_config("group_size = 4", "group_size = 4\npairwise = { judge = \"shorter\" }");
    let mut steps = project.train("shorter", &[]);
    let summary = steps.pop().unwrap();
    project.account("shorter", &summary);
    assert!(numbers(&steps, "env/all/reward/total").iter().all(|reward| (reward - 0.5).abs() < 1e-9), "{steps:?}");
    let lengths = numbers(&steps, "env/all/ac_tokens_per_turn");
    assert!(mean(&lengths[6..]) < mean(&lengths[..2]) - 1.0, "{lengths:?}");
    assert_eq!(numbers(&steps, "test/env/all/reward/total").last(), Some(&0.0), "what the grader says");
    // What was learnt from is what the record says that they earned, and whose word it was.
    let rollouts = project.query("rollouts", "shorter");
    let trained = rollouts.iter().filter(|rollout| rollout["mode"] == "train" && rollout["metadata"]["step"] == 0);
    let earned: Vec<f64> = trained.map(|rollout| rollout["reward"].as_f64().unwrap()).collect();
    assert!((mean(&earned) - 0.5).abs() < 1e-9 && earned.iter().any(|reward| *reward > 0.5), "{earned:?}");
    let judged = project.query("rewards", "shorter").into_iter().filter(|reward| reward["giver"] == "judge").count();
    assert_eq!(judged, 8 * 16);
}

#[test]
fn a_judge_of_another_kind_and_numbers_that_cannot_be_are_refused_by_name() {
    let project = Project::new(SAME, STEPS);
    let config = std::fs::read_to_string(project.path("t.toml")).unwrap();
    for (lines, expected) in [
        ("pairwise = { judge = \"nobody\" }", "pairwise.judge = \"nobody\": there is no such [[models]]"),
        ("pairwise = { jugde = \"shorter\" }", "jugde"),
        ("pairwise = { judge = \"shorter\", reward = \"score\" }", "`shorter` has no score"),
        ("pairwise = { judge = \"shorter\", undecided_limit = 1.5 }", "[trainer] pairwise.undecided_limit is 1.5"),
        (
            "objective = \"reward_model\"\nsource = { comparisons = \"pairs.jsonl\" }\npreference = { centering = 0.1 }",
            "[trainer] preference.centering is of preference.head = \"score\"",
        ),
        (
            "objective = \"dpo\"\nsource = { comparisons = \"pairs.jsonl\" }\npreference = { losses = [{ loss = \"sft\" }] }",
            "[trainer] preference.losses has \"sft\" alone",
        ),
        (
            "objective = \"dpo\"\nsource = { comparisons = \"pairs.jsonl\" }\n\
             preference = { sft_weight = 0.5, losses = [{ loss = \"sigmoid\" }] }",
            "[trainer] preference.losses is in place of preference.loss",
        ),
        ("pairwise = { judge = \"shorter\" }\nharvest = {}", "[trainer] pairwise compares the rollouts of a group"),
        (
            "objective = \"reward_model\"\nsource = { rollouts = \"reward > 0\" }",
            "is no key of objective = \"reward_model\"",
        ),
    ] {
        std::fs::write(project.path("t.toml"), format!("{config}{lines}\n")).unwrap();
        let ran = Ran::from(project.command("refused").output().unwrap());
        assert!(ran.code == Some(1) && ran.stderr.contains(expected), "{lines}: {ran:?}");
    }
}

#[test]
fn a_model_learns_which_answer_is_better_and_judges_the_answers_of_a_group() {
    let project = Project::new(SAME, STEPS);
    project.change_config("max_steps = 8", "max_steps = 2");
    project.change_config("context_length = 128", "context_length = 512");
    project.train("base", &["--max-steps", "1"]);
    let row = |n: usize| json!({ "prompt": format!("{}", n % 9), "chosen": "aa", "rejected": "zz" });
    let rows: String = (0..60).map(|n| format!("{}\n", row(n))).collect();
    std::fs::write(project.path("pairs.jsonl"), rows).unwrap();
    let reward_model = "[run]\nname = \"rm\"\n[[models]]\nname = \"rm\"\nbackend = \"embedded\"\npath = \"model-1\"\n\
                        [trainer]\nobjective = \"reward_model\"\nbatch_size = 8\nepochs = 12\nlearning_rate = 1e-2\n\
                        source = { comparisons = \"pairs.jsonl\", validation = 0.2 }\n";
    std::fs::write(project.path("rm.toml"), reward_model).unwrap();
    let mut command = fulgurite(["train", "--json"]);
    command.arg(project.path("rm.toml")).arg("--run-directory").arg(project.path("rm"));
    let mut steps = Ran::from(command.output().unwrap()).json_lines();
    let summary = steps.pop().unwrap();
    assert_eq!(numbers(&steps, "num_conversations")[0], 8.0);
    assert_eq!(numbers(&steps, "num_sequences")[0], 16.0, "each in both orders");
    assert_eq!(numbers(&steps, "num_loss_tokens")[0], 16.0, "of each the letter");
    let accuracy = numbers(&steps, "test/accuracy");
    assert!(*accuracy.last().unwrap() > 0.9, "{accuracy:?}");

    // A tie is a question too, in both orders, whose answer is neither letter.
    let tie =
        |n: usize| json!({ "prompt": format!("{n}"), "completion_A": "aa", "completion_B": "ab", "label": "Tie" });
    // All rows of a file have one shape.
    let judged = |n: usize| {
        let (first, second, label) = if n % 2 == 0 { ("aa", "zz", "A") } else { ("zz", "aa", "B") };
        json!({ "prompt": format!("{}", n % 9), "completion_A": first, "completion_B": second, "label": label })
    };
    let mixed: String = (0..24).map(|n| format!("{}\n{}\n", judged(n), tie(n))).collect();
    std::fs::write(project.path("pairs.jsonl"), mixed).unwrap();
    let mut command = fulgurite(["train", "--json"]);
    command.arg(project.path("rm.toml")).arg("--run-directory").arg(project.path("ties"));
    let mut tied = Ran::from(command.output().unwrap()).json_lines();
    assert_eq!(tied.pop().unwrap()["skipped_rows"], json!({}));
    assert_eq!(numbers(&tied, "num_loss_tokens")[0], 16.0, "of each the first token");
    let accuracy = numbers(&tied, "test/accuracy");
    assert!(*accuracy.last().unwrap() > 0.9, "{accuracy:?}");

    let judge = summary["checkpoint"].as_str().unwrap();
    let model = format!("[[models]]\nname = \"judge\"\nbackend = \"embedded\"\npath = \"{judge}\"\n\n[base]");
    project.change_config("[base]", &model);
    project.change_config("group_size = 4", "group_size = 4\npairwise = { judge = \"judge\" }");
    let by_model = project.train("judged", &[]).pop().unwrap();
    project.account("judged", &by_model);
    project.change_config("judge = \"judge\"", "judge = \"shorter\"");
    project.change_config(&model, "[base]");
    let shorter = project.train("shorter", &[]).pop().unwrap();
    assert!(weights(&by_model) != weights(&shorter), "another judge is another run");
}

#[test]
fn a_model_scores_answers_and_its_score_is_a_judge_and_a_reward() {
    let project = Project::new(SAME, STEPS);
    project.change_config("max_steps = 8", "max_steps = 2");
    project.train("base", &["--max-steps", "1"]);
    let row = |n: usize| json!({ "prompt": format!("{n}"), "chosen": "aa", "rejected": "zz" });
    let rows: String = (0..60).map(|n| format!("{}\n", row(n))).collect();
    std::fs::write(project.path("pairs.jsonl"), rows).unwrap();
    let reward_model = "[run]\nname = \"rm\"\n[[models]]\nname = \"rm\"\nbackend = \"embedded\"\npath = \"model-1\"\n\
                        [trainer]\nobjective = \"reward_model\"\nbatch_size = 8\nepochs = 4\nlearning_rate = 1e-2\n\
                        preference = { head = \"score\", centering = 0.01 }\n\
                        source = { comparisons = \"pairs.jsonl\", validation = 0.2 }\n";
    std::fs::write(project.path("rm.toml"), reward_model).unwrap();
    let mut command = fulgurite(["train", "--json"]);
    command.arg(project.path("rm.toml")).arg("--run-directory").arg(project.path("rm"));
    let mut steps = Ran::from(command.output().unwrap()).json_lines();
    let summary = steps.pop().unwrap();
    assert_eq!(numbers(&steps, "num_loss_tokens")[0], 16.0, "of each answer the last token");
    assert!((numbers(&steps, "bradley_terry_loss")[0] - std::f64::consts::LN_2).abs() < 1e-12, "a score begins at 0");
    let accuracy = *numbers(&steps, "test/accuracy").last().unwrap();
    assert!(accuracy > 0.9, "{steps:?}");
    let pairs: f64 = ["below_0.5", "0.5_to_1", "1_to_2", "from_2"]
        .iter()
        .filter_map(|bucket| numbers(&steps, &format!("test/pairs_by_margin/{bucket}")).last().copied())
        .sum();
    assert!(pairs >= 12.0, "{steps:?}");
    let judge = summary["checkpoint"].as_str().unwrap();
    let config = std::fs::read_to_string(std::path::Path::new(judge).join("config.json")).unwrap();
    assert!(config.contains("ForSequenceClassification") && config.contains("LABEL_0"), "{config}");

    // It is no policy.
    let model = format!("[[models]]\nname = \"judge\"\nbackend = \"embedded\"\npath = \"{judge}\"\n\n[base]");
    project.change_config("[base]", &model);
    project.change_config("group_size = 4", "group_size = 4\npairwise = { judge = \"judge\" }");
    let wins = project.train("wins", &[]);
    let shares = numbers(&wins[..wins.len() - 1], "env/all/reward/total");
    assert!(shares.iter().all(|share| (share - 0.5).abs() < 1e-9), "{shares:?}");
    project.change_config("judge = \"judge\" }", "judge = \"judge\", reward = \"score\" }");
    let mut scored = project.train("scored", &[]);
    let end = scored.pop().unwrap();
    project.account("scored", &end);
    let rewards = numbers(&scored, "env/all/reward/total");
    assert!(rewards.iter().all(|reward| reward.is_finite() && (reward - 0.5).abs() > 1e-6), "{rewards:?}");
    assert!(weights(wins.last().unwrap()) != weights(&end), "another reward is another run");
}
