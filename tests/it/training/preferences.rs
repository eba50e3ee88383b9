//! Runs of the real command that learn from comparisons of answers (`objective = "dpo"` and its relatives).

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::common::data_project::{self, DataProject, write_table};
use crate::common::project::{Project, SMALL, UNEVEN, numbers, weights};
use crate::common::{Ran, fulgurite};

fn config() -> String {
    data_project::config("dpo", "comparisons = \"pairs.jsonl\"")
}

fn project() -> DataProject {
    DataProject::new(&config(), "pairs.jsonl", &pairs(30))
}

fn pair(n: usize) -> Value {
    json!({ "prompt": format!("Say you are {n}."), "chosen": format!("I am {n}."), "rejected": "No." })
}

fn pairs(count: usize) -> String {
    (0..count).map(|n| format!("{}\n", pair(n))).collect()
}

fn close(actual: f64, expected: f64) {
    assert!((actual - expected).abs() < 1e-4 * expected.abs().max(1.0), "{actual}, not {expected}");
}

#[test]
fn a_model_learns_to_prefer_and_is_scored_on_what_is_held_out() {
    let project = project();
    let (steps, summary) = project.train("run", &[]);
    // 24 of 30 are trained, in batches of 4, twice; then the last evaluation.
    assert_eq!((steps.len(), &summary["steps"]), (13, &json!(12)));
    assert_eq!(numbers(&steps, "num_pairs"), [4.0; 12]);
    assert_eq!(numbers(&steps, "num_sequences"), [8.0; 12]);
    let loss = numbers(&steps, "dpo_loss");
    close(loss[0], std::f64::consts::LN_2);
    assert_eq!(
        (numbers(&steps, "margin")[0], numbers(&steps, "accuracy")[0]),
        (0.0, 0.0),
        "the policy is its reference"
    );
    assert!(loss[11] < 0.4, "{loss:?}");
    let (chosen, rejected) = (numbers(&steps, "chosen_reward"), numbers(&steps, "rejected_reward"));
    close(numbers(&steps, "margin")[11], chosen[11] - rejected[11]);
    let accuracy = numbers(&steps, "test/accuracy");
    assert_eq!((accuracy.len(), accuracy[0], accuracy[3]), (4, 0.0, 1.0), "before updates 0, 4 and 8, and at the end");
    assert_eq!(summary["validation_nll_after"], steps[12]["test/nll"]);
    assert_eq!(summary["skipped_rows"], json!({}));
    let again = project.train("again", &[]).1;
    assert!(weights(&again) == weights(&summary), "the same seed is the same run");
}

#[test]
fn every_objective_learns_and_means_something_else() {
    let project = project();
    let mut seen = vec![weights(&project.train("dpo", &[]).1)];
    for objective in ["ipo", "orpo", "simpo", "kto"] {
        project.change("objective = \"dpo\"", &format!("objective = \"{objective}\""));
        let (steps, summary) = project.train(objective, &[]);
        let loss = numbers(&steps, &format!("{objective}_loss"));
        assert!(loss[11] < loss[0], "{objective}: {loss:?}");
        // Nothing is preferred yet: the square of the margin that is aimed at, and a half of either answer.
        match objective {
            "ipo" => close(loss[0], 25.0),
            "kto" => close(loss[0], 0.5),
            _ => {}
        }
        assert!(*numbers(&steps, "test/accuracy").last().unwrap() > 0.9, "{objective}: {:?}", steps.last());
        assert!(!seen.contains(&weights(&summary)), "{objective}");
        seen.push(weights(&summary));
        project.write("t.toml", config());
    }
    project.change("epochs = 2", "epochs = 2\npreference = { beta = 0.5, label_smoothing = 0.1 }");
    let (steps, summary) = project.train("smoothed", &[]);
    close(numbers(&steps, "dpo_loss")[0], std::f64::consts::LN_2);
    assert!(!seen.contains(&weights(&summary)));
}

#[test]
fn answers_that_are_good_or_bad_by_themselves_are_learnt() {
    let project = project();
    project.change("\"dpo\"", "\"kto\"");
    let row = |n: usize| {
        let (completion, label) =
            if n.is_multiple_of(2) { (format!("I am {n}."), true) } else { ("No.".to_owned(), false) };
        format!("{}\n", json!({ "prompt": format!("Say you are {n}."), "completion": completion, "label": label }))
    };
    project.write("pairs.jsonl", (0..30).map(row).collect::<String>());
    let (steps, _) = project.train("run", &[]);
    assert_eq!(numbers(&steps, "num_pairs"), [0.0; 12]);
    assert_eq!(numbers(&steps, "kto_kl").len(), 12);
    let (good, bad) = (numbers(&steps, "test/chosen_reward"), numbers(&steps, "test/rejected_reward"));
    assert!(good[3] > bad[3] + 0.3, "{good:?} {bad:?}");
    assert!(numbers(&steps, "test/accuracy").is_empty(), "no two answers are compared");
}

#[test]
fn a_run_that_is_killed_ends_in_the_bytes_of_one_that_was_not_and_keeps_its_reference() {
    let project = project();
    let summary = project.killed_and_resumed(4, &["step", "dpo_loss", "margin", "test/margin"]);

    // Other weights in the place of those that the run began with are no reference to go on with.
    project.change("epochs = 2", "epochs = 3");
    std::fs::rename(project.path("model"), project.path("old")).unwrap();
    let checkpoint = PathBuf::from(summary["checkpoint"].as_str().unwrap());
    copy(&checkpoint, &project.path("model"));
    let ran = Ran::from(project.command("killed").arg("--resume").output().unwrap());
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("and that of the run's checkpoint was `tiny` with the weights "), "{}", ran.stderr);
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

#[test]
fn an_adapter_learns_here_and_at_a_tinker_service_alike() {
    let project = project();
    project.change("path = \"model\"", "path = \"model\"\nlora_rank = 4");
    let (_server, service) = project.tinker_service();
    for objective in ["dpo", "ipo", "orpo", "simpo", "kto"] {
        project.write("t.toml", config().replace("path = \"model\"", "path = \"model\"\nlora_rank = 4"));
        project.change("\"dpo\"", &format!("\"{objective}\""));
        let (here, _) = project.train(&format!("{objective}-here"), &[]);
        project.change("backend = \"embedded\"", &service);
        let run = format!("{objective}-there");
        let (there, _) = project.train(&run, &["--max-steps", "7"]);
        let key = format!("{objective}_loss");
        close(numbers(&there, &key)[0], numbers(&here, &key)[0]);
        close(numbers(&there, "test/nll")[0], numbers(&here, "test/nll")[0]);
        let (resumed, summary) = project.train(&run, &["--resume"]);
        assert_eq!((resumed.len(), &summary["steps"]), (6, &json!(12)));
        assert!(*numbers(&resumed, "test/accuracy").last().unwrap() > 0.9, "{objective}: {:?}", resumed.last());
    }
}

#[test]
fn every_loss_of_dpo_learns_and_means_something_else() {
    let project = project();
    let mut seen = Vec::new();
    for (name, keys, at_start) in [
        ("hinge", "loss = \"hinge\"", 1.0),
        ("robust", "loss = \"robust\", label_smoothing = 0.1", std::f64::consts::LN_2),
        ("apo_zero", "loss = \"apo_zero\"", 1.0),
        ("apo_down", "loss = \"apo_down\"", 1.0),
        ("length", "length_alpha = 0.25", std::f64::consts::LN_2),
    ] {
        project.change("epochs = 2", &format!("epochs = 2\npreference = {{ {keys} }}"));
        let (steps, summary) = project.train(name, &[]);
        let loss = numbers(&steps, "dpo_loss");
        close(loss[0], at_start);
        assert!(loss[11] < loss[0], "{name}: {loss:?}");
        assert!(!seen.contains(&weights(&summary)), "{name}");
        seen.push(weights(&summary));
        project.write("t.toml", config());
    }
    let plain = project.train("plain", &[]).0;
    project.change("epochs = 2", "epochs = 2\npreference = { sft_weight = 0.5 }");
    let kept = project.train("kept", &[]).0;
    let nll = |steps: &[Value]| *numbers(steps, "chosen_nll").last().unwrap();
    close(numbers(&kept, "dpo_loss")[0], std::f64::consts::LN_2 + 0.5 * numbers(&kept, "chosen_nll")[0]);
    assert!(nll(&kept) < nll(&plain), "{} {}", nll(&kept), nll(&plain));
}

#[test]
fn keys_of_another_objective_and_numbers_that_cannot_be_are_refused_by_name() {
    let project = project();
    for (from, to, expected) in [
        (
            "epochs = 2",
            "train_on = \"all_tokens\"",
            "[trainer] train_on is no key of objective = \"dpo\", but of \"sft\"",
        ),
        ("epochs = 2", "kl = { coefficient = 0.1 }", "[trainer] kl.coefficient is no key of objective = \"dpo\""),
        ("epochs = 2", "preference = { undesirable_weight = 2.0 }", "but of \"kto\""),
        ("\"dpo\"", "\"orpo\"\npreference = { reference = \"x\" }", "[trainer] preference.reference is no key of"),
        ("\"dpo\"", "\"dop\"", "dop"),
        ("comparisons", "conversations", "[trainer] source.conversations is no key of objective = \"dpo\""),
        ("\"dpo\"", "\"sft\"", "[trainer] source.comparisons is no key of objective = \"sft\""),
        ("comparisons = \"pairs.jsonl\", ", "", "[trainer] source is one of { comparisons"),
        ("pairs.jsonl", "none.jsonl", "none.jsonl"),
        ("epochs = 2", "preference = { beta = 0.0 }", "[trainer] preference.beta is 0, but must be"),
        ("epochs = 2", "preference = { label_smoothing = 0.5 }", "[trainer] preference.label_smoothing is 0.5"),
        (
            "epochs = 2",
            "preference = { loss = \"hinge\", label_smoothing = 0.1 }",
            "[trainer] preference.label_smoothing is of preference.loss = \"sigmoid\" and \"robust\"",
        ),
        (
            "epochs = 2",
            "preference = { length_alpha = 1.5 }",
            "[trainer] preference.length_alpha is 1.5, but must be from 0 to 1",
        ),
        (
            "epochs = 2",
            "preference = { sft_weight = 1.0, length_alpha = 0.5 }",
            "[trainer] preference.sft_weight is not for",
        ),
        ("\"dpo\"", "\"simpo\"\npreference = { reference = \"x\" }", "[trainer] preference.reference is no key of"),
        ("epochs = 2", "preference = { gamma = 0.5 }", "but of \"simpo\""),
        (
            "epochs = 2",
            "preference = { reference = \"x\" }",
            "preference.reference = \"x\": there is no such [[models]]",
        ),
        ("\"dpo\"", "\"kto\"\npreference = { desirable_weight = -1.0 }", "[trainer] preference.desirable_weight is -1"),
        (
            "[trainer]",
            "[runner]\ncommand = [\"x\"]\n[trainer]",
            "learns from comparisons that are there, and nobody samples",
        ),
        (
            "backend = \"embedded\"",
            "backend = \"vllm\"\nurls = [\"http://h\"]",
            "objective = \"dpo\" trains an embedded model",
        ),
    ] {
        project.change(from, to);
        let message = project.refused("refused");
        assert!(message.contains(expected), "{to}: {message}");
        project.write("t.toml", config());
        let _ = std::fs::remove_dir_all(project.path("refused"));
    }
    project.change("\"dpo\"", "\"kto\"");
    project.change("batch_size = 4", "batch_size = 1");
    assert!(project.refused("refused").contains("[trainer] batch_size is 1, but must be at least 2"));
}

#[test]
fn a_row_that_cannot_be_trained_on_is_named_and_nothing_is_trained() {
    let project = project();
    let good = pair(1).to_string();
    let long = json!({ "prompt": "a", "chosen": "17 ".repeat(400), "rejected": "b" }).to_string();
    let same = json!({ "prompt": "a", "chosen": "b", "rejected": "b" }).to_string();
    for (name, bad, expected) in [
        ("broken", "{\"prompt\": ".to_owned(), "pairs.jsonl line 3: is not JSON"),
        ("half", json!({ "prompt": "a", "chosen": "b" }).to_string(), "pairs.jsonl line 3: has no `rejected`"),
        ("role", good.replace("\"No.\"", r#"{"role":"asistant","content":"b"}"#), "begin with `asistant`"),
        ("label", json!({ "prompt": "a", "completion": "b", "label": true }).to_string(), "line 3: has a `label`"),
        (
            "weight",
            good.replace("\"No.\"", r#"{"role":"assistant","content":"b","weight":2}"#),
            "line 3: with `rejected`: message 1 says what it counts",
        ),
        ("same", same.clone(), "pairs.jsonl line 3: has the same answer"),
        ("long", long.clone(), "pairs.jsonl line 3: with `chosen`: has a sequence of "),
        ("huge", format!("\"{}\"", "x".repeat(17 << 20)), "pairs.jsonl line 3: is longer than 16 MiB"),
    ] {
        project.write("pairs.jsonl", format!("{good}\n\n{bad}\n{good}\n"));
        let message = project.refused(name);
        assert!(message.contains(expected), "{name}: {message}");
    }
    project.write("pairs.jsonl", format!("\u{feff}{good}\n"));
    assert!(project.refused("mark").contains("pairs.jsonl line 1: begins with a byte order mark"));
    project.write("pairs.jsonl", "\n \n");
    assert!(project.refused("none").contains("has no comparison to train on"));

    project.change("epochs = 2", "unusable_rows = \"skip\"");
    project.write("pairs.jsonl", format!("{long}\n{}{same}\n", pairs(10)));
    let (steps, summary) = project.train("skipped", &[]);
    assert_eq!(summary["skipped_rows"], json!({ "too_long": 1, "no_difference": 1 }));
    assert_eq!(numbers(&steps, "num_pairs"), [4.0; 2], "eight of ten");

    // Lines that end as on Windows train the same.
    let plain = weights(&summary);
    project.write("pairs.jsonl", format!("{long}\n{}{same}\n", pairs(10)).replace('\n', "\r\n"));
    assert!(weights(&project.train("windows", &[]).1) == plain);
}

#[test]
fn a_table_trains_as_the_same_lines_do_and_ties_are_passed_over_by_name() {
    let project = project();
    let lines = project.train("lines", &[]).1;
    let text = |key: &'static str| move |n: usize| pair(n)[key].as_str().unwrap().to_owned();
    let column = |key: &'static str| (0..30).map(text(key)).collect::<Vec<String>>();
    let names = ["prompt", "chosen", "rejected"];
    write_table(&project.path("pairs.parquet"), &names.map(|name| (name, column(name))));
    project.change("pairs.jsonl", "pairs.parquet");
    assert!(weights(&project.train("table", &[]).1) == weights(&lines));

    // The better one stands where it stands, and the label says so.
    let is_first = |n: usize| n.is_multiple_of(3);
    let placed = |first: bool| {
        let answer = |n: usize| if is_first(n) == first { text("chosen")(n) } else { text("rejected")(n) };
        (0..30).map(answer).collect::<Vec<String>>()
    };
    let label = |n: usize| if is_first(n) { "A" } else { "B" }.to_owned();
    let labels: Vec<String> = (0..30).map(label).collect();
    let columns = [
        ("prompt", column("prompt")),
        ("completion_A", placed(true)),
        ("completion_B", placed(false)),
        ("label", labels.clone()),
    ];
    write_table(&project.path("pairs.parquet"), &columns);
    assert!(weights(&project.train("judged", &[]).1) == weights(&lines));

    // Ties are no mistake: nobody has to say that they are passed over, of which no loss makes anything.
    let row = |n: usize| {
        json!({ "prompt": columns[0].1[n], "completion_A": columns[1].1[n], "completion_B": columns[2].1[n],
            "label": labels[n] })
    };
    let tie = json!({ "prompt": "Say it.", "completion_A": "No.", "completion_B": "Not I.", "label": "Tie" });
    let rows: String = (0..30).map(|n| format!("{}\n{tie}\n", row(n))).collect();
    project.change("pairs.parquet", "pairs.jsonl");
    project.write("pairs.jsonl", rows);
    for (objective, run) in [("dpo", "tied"), ("kto", "tied-kto")] {
        project.change("objective = \"dpo\"", &format!("objective = \"{objective}\""));
        let (steps, summary) = project.train(run, &[]);
        assert_eq!((&summary["skipped_rows"], &summary["steps"]), (&json!({ "tie": 30 }), &json!(12)));
        assert_eq!(steps[0]["data/skipped/tie"], 30);
        assert!((weights(&summary) == weights(&lines)) == (objective == "dpo"), "{objective}");
        project.write("t.toml", config());
    }
    project.write("pairs.jsonl", format!("{tie}\n"));
    let message = project.refused("ties");
    assert!(message.contains("has no comparison to train on: of its rows 1 are tie"), "{message}");
}

#[test]
fn a_reference_of_its_own_name_is_the_one_that_answers_are_held_against() {
    let project = project();
    let start = project.train("start", &["--max-steps", "3"]).1;
    let model = "[[models]]\nname = \"old\"\nbackend = \"embedded\"\npath = \"OLD\"\n\n[trainer]";
    project.change("[trainer]", &model.replace("OLD", "model"));
    project.change("epochs = 2", "epochs = 2\npreference = { reference = \"old\" }");
    let same = project.train("same", &["--max-steps", "3"]).1;
    assert!(weights(&same) == weights(&start), "the weights that it began with, by a name");
    let old = start["checkpoint"].as_str().unwrap();
    project.change("path = \"model\"\n\n[trainer]", &format!("path = \"{old}\"\n\n[trainer]"));
    let (steps, other) = project.train("other", &["--max-steps", "3"]);
    assert!(weights(&other) != weights(&start));
    assert!(numbers(&steps, "margin")[0] < -0.01, "the reference prefers more than the policy: {steps:?}");
}

#[test]
fn the_best_rollout_of_a_group_is_compared_with_its_worst() {
    let project = Project::new(UNEVEN, &SMALL.replace("max_steps = 5", "max_steps = 2"));
    project.train("grpo", &[]);
    let directory = project.directory.path();
    let write = |lines: &str| {
        let config = format!(
            "[run]\nname = \"s\"\n[store]\nurl = \"sqlite://grpo/fulgurite.db\"\n[[models]]\nname = \"hello\"\n\
             backend = \"embedded\"\npath = \"model-1\"\n\n[trainer]\nobjective = \"dpo\"\nbatch_size = 4\n\
             learning_rate = 1e-3\n{lines}\n"
        );
        std::fs::write(directory.join("s.toml"), config).unwrap();
    };
    let train = |run: &str, arguments: &[&str]| {
        let mut command = fulgurite(["train", "--json"]);
        command.arg(directory.join("s.toml")).arg("--run-directory").arg(directory.join(run)).args(arguments);
        Ran::from(command.output().unwrap())
    };
    write("epochs = 2\nsource = { rollouts = \"mode = train and run = grpo\" }\nunusable_rows = \"skip\"");
    let of_group = |rollout: &Value| {
        rollout["metadata"]["group"].as_u64().map(|group| (rollout["metadata"]["step"].as_u64(), group))
    };
    let mut groups: std::collections::BTreeMap<_, Vec<f64>> = Default::default();
    for rollout in project.query("rollouts", "grpo").iter().filter(|rollout| rollout["mode"] == "train") {
        if let (Some(group), Some(reward)) = (of_group(rollout), rollout["reward"].as_f64()) {
            groups.entry(group).or_default().push(reward);
        }
    }
    let differ = |rewards: &&Vec<f64>| rewards.iter().any(|reward| *reward != rewards[0]);
    let pairs = groups.values().filter(differ).count();
    assert!(pairs > 1, "{groups:?}");
    let mut lines = train("dpo", &[]).json_lines();
    let summary = lines.pop().unwrap();
    let per_epoch = pairs.div_ceil(4);
    assert_eq!(summary["steps"], json!(2 * per_epoch));
    assert_eq!(numbers(&lines[..per_epoch], "num_pairs").iter().sum::<f64>(), pairs as f64);
    assert_eq!(summary["untrained_tokens"]["other"], 0);
    let margin = numbers(&lines, "margin");
    assert!(margin[0] == 0.0 && margin[margin.len() - 1] > 0.0, "{margin:?}");

    let equal = format!("reward = {} and mode = train", groups.values().flatten().next().unwrap());
    for (filter, expected) in [
        ("reward > 1000", "none of the store's"),
        ("rewrd >= 1", "`rewrd` is no field"),
        (equal.as_str(), "and earned differently"),
    ] {
        write(&format!("source = {{ rollouts = \"{filter}\" }}\nunusable_rows = \"skip\""));
        let ran = train(&format!("refused-{}", filter.len()), &[]);
        assert!(ran.code == Some(1) && ran.stderr.contains(expected), "{filter}: {ran:?}");
    }
}

/// The keys that a document has in its tables below a heading.
fn documented(document: &str, heading: &str) -> Vec<String> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(document);
    let text = std::fs::read_to_string(path).unwrap();
    let (_, table) = text.split_once(heading).unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.map(|row| row.split_once('`').unwrap().0.to_owned()).collect()
}

#[test]
fn every_key_of_its_metrics_is_documented() {
    let project = project();
    project.change("epochs = 2", "unusable_rows = \"skip\"");
    let same = json!({ "prompt": "a", "chosen": "b", "rejected": "b" });
    project.write("pairs.jsonl", format!("{}{same}\n", pairs(20)));
    let mut keys = std::collections::BTreeSet::new();
    for objective in ["dpo", "ipo", "orpo", "simpo", "kto"] {
        let config = std::fs::read_to_string(project.path("t.toml")).unwrap();
        project.change("\"dpo\"", &format!("\"{objective}\""));
        let (steps, _) = project.train(objective, &[]);
        keys.extend(
            steps.iter().flat_map(|step| step.as_object().unwrap().keys()).map(|key| {
                if key.starts_with("data/skipped/") { "data/skipped/CAUSE".to_owned() } else { key.clone() }
            }),
        );
        project.write("t.toml", config);
    }
    let (own, common) =
        (documented("how-to/preferences.md", "## Metrics"), documented("reference/config.md", "## metrics.jsonl"));
    let missing: Vec<&String> =
        keys.iter().filter(|key| !own.contains(key) && !common.contains(key) && *key != "event").collect();
    assert!(missing.is_empty(), "docs/how-to/preferences.md says nothing of {missing:?}");
    let stale: Vec<&String> = own.iter().filter(|key| !keys.contains(*key)).collect();
    assert!(stale.is_empty(), "docs/how-to/preferences.md tells of {stale:?}, which no line has");
}
