//! `fulgurite data`: what a run would learn from.

use serde_json::{Value, json};

use crate::common::data_project::{self, DataProject};
use crate::common::project::numbers;
use crate::common::{Ran, fulgurite};

fn row(user: &str, assistant: &str) -> Value {
    let message = |role: &str, text: &str| json!({ "role": role, "content": text });
    json!({ "messages": [message("user", user), message("assistant", assistant)] })
}

fn lines(rows: &[Value]) -> String {
    rows.iter().map(|row| format!("{row}\n")).collect()
}

fn data(project: &DataProject, arguments: &[&str]) -> Ran {
    Ran::from(fulgurite(["data"]).arg(project.path("t.toml")).args(arguments).output().unwrap())
}

fn report(project: &DataProject) -> Value {
    data(project, &["--json"]).json_lines().pop().unwrap()
}

#[test]
fn conversations_are_counted_measured_and_shown_by_what_is_trained_of_them() {
    let long = row("Say it.", &"17 ".repeat(400));
    let mut rows: Vec<Value> = (0..6).map(|n| row(&format!("Say {n}."), &format!("It is {n}."))).collect();
    rows.push(rows[0].clone());
    rows.push(long);
    let config = data_project::config("sft", "conversations = \"chats.jsonl\"")
        .replace("validation = 0.2", "validation = \"held_out.jsonl\"");
    let project = DataProject::new(&config, "chats.jsonl", &lines(&rows));
    project.write("held_out.jsonl", lines(&[rows[1].clone(), row("Say 2.", "No."), row("Say 9.", "It is 9.")]));
    let report = report(&project);
    let (training, validation) = (&report["training"], &report["validation"][0]);
    assert_eq!(
        (&training["rows"], &training["duplicates"], &training["form"]),
        (&json!(7), &json!(1), &json!("messages"))
    );
    assert_eq!(validation["rows"], 3);
    assert_eq!((&report["shared_rows"], &report["shared_prompts"]), (&json!(1), &json!(2)));
    let left_out = &report["left_out"][0];
    assert_eq!((&left_out["cause"], &left_out["first"], &left_out["rows"]), (&json!("too_long"), &json!(8), &json!(1)));
    assert_eq!(left_out["ends_run"], true);
    let (tokens, trained) = (training["tokens"].as_u64().unwrap(), training["trained_tokens"].as_u64().unwrap());
    assert!(0 < trained && trained < tokens, "{report}");
    assert_eq!(report["rows"].as_array().unwrap().len(), 3);
    let parts = report["rows"][0]["sequences"][0]["parts"].as_array().unwrap();
    let text = |weight: f64| -> String {
        let of_weight = parts.iter().filter(|part| part["weight"] == weight);
        of_weight.map(|part| part["text"].as_str().unwrap()).collect()
    };
    assert!(text(1.0).starts_with("It is ") && !text(1.0).contains("Say"), "{parts:?}");
    assert!(text(0.0).contains("Say "), "{parts:?}");

    // For people, and with the long row cut.
    project.change("epochs = 2", "epochs = 2\ntruncate = \"left\"");
    let shown = data(&project, &[]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    for expected in
        ["training", "cut: 1 sequences to 256 tokens", "duplicates: 1 rows", "«It is ", "####", "tokens of a row"]
    {
        assert!(shown.stdout.contains(expected), "{expected}: {}", shown.stdout);
    }
    // Nothing is written of a run.
    assert!(!project.path("runs").exists());
    project.write("chats.jsonl", "{\n");
    let refused = data(&project, &[]);
    assert!(refused.code == Some(1) && refused.stderr.contains("chats.jsonl line 1: is not JSON"), "{refused:?}");
}

#[test]
fn comparisons_are_shown_with_both_of_their_answers() {
    let pair = |n: usize| json!({ "prompt": format!("Say {n}."), "chosen": format!("It is {n}."), "rejected": "No." });
    let rows: Vec<Value> = (0..10).map(pair).collect();
    let config = data_project::config("dpo", "comparisons = \"pairs.jsonl\"");
    let project = DataProject::new(&config, "pairs.jsonl", &lines(&rows));
    let report = report(&project);
    assert_eq!((&report["training"]["rows"], &report["validation"][0]["rows"]), (&json!(8), &json!(2)));
    assert_eq!((&report["training"]["sequences"], &report["training"]["form"]), (&json!(16), &json!("pairs")));
    let answers: Vec<&str> = report["rows"][0]["sequences"]
        .as_array()
        .unwrap()
        .iter()
        .map(|sequence| sequence["answer"].as_str().unwrap())
        .collect();
    assert_eq!(answers, ["chosen", "rejected"]);
    let grpo = Ran::from(
        fulgurite(["data"]).arg(project.path("t.toml")).args(["--set", "trainer.objective=sft"]).output().unwrap(),
    );
    assert_eq!(grpo.code, Some(1), "{grpo:?}");
}

#[test]
fn rows_of_one_prompt_or_one_group_are_on_one_side_of_a_share() {
    let grouped = |n: usize| {
        let mut row = row(&format!("Say {}.", n / 4), &format!("Answer {n}."));
        row["problem"] = json!(n / 8);
        row
    };
    let rows: Vec<Value> = (0..40).map(grouped).collect();
    let project =
        DataProject::new(&data_project::config("sft", "conversations = \"chats.jsonl\""), "chats.jsonl", &lines(&rows));
    let by_prompt = report(&project);
    assert_eq!((&by_prompt["training"]["rows"], &by_prompt["validation"][0]["rows"]), (&json!(32), &json!(8)));
    assert_eq!(by_prompt["shared_prompts"], 0);
    project.change("validation = 0.2", "validation = 0.3, validation_group = \"problem\"");
    let by_field = report(&project);
    assert_eq!((&by_field["training"]["rows"], &by_field["validation"][0]["rows"]), (&json!(24), &json!(16)));
    assert_eq!(by_field["shared_prompts"], 0);
    project.change("validation = 0.3", "max_rows = 16, validation = 0.3");
    assert_eq!(report(&project)["training"]["rows"], 8);
    project.change("\"problem\"", "\"theme\"");
    let message = project.refused("missing");
    assert!(message.contains("chats.jsonl line 1: has no `theme`, by which source.validation_group"), "{message}");
    project.change("validation_group = \"theme\"", "max_tokens = 1");
    assert!(project.refused("unknown").contains("max_tokens"));
}

#[test]
fn held_out_files_by_name_have_scores_of_their_own_and_together() {
    let rows = |word: &str, count: usize| -> String {
        lines(&(0..count).map(|n| row(&format!("Say {n}."), &format!("{word} {n}."))).collect::<Vec<_>>())
    };
    let config = data_project::config("sft", "conversations = \"chats.jsonl\"")
        .replace("validation = 0.2", "validation = { plain = \"plain.jsonl\", odd = \"odd.jsonl\" }");
    let project = DataProject::new(&config, "chats.jsonl", &rows("It is", 24));
    project.write("plain.jsonl", rows("It is", 3));
    project.write("odd.jsonl", rows("Zebra", 1));
    let (steps, summary) = project.train("run", &[]);
    let last = steps.last().unwrap();
    let nll = |name: &str| last[name].as_f64().unwrap();
    assert!(nll("test/plain/nll") < nll("test/odd/nll"), "{last}");
    let mean = (3.0 * nll("test/plain/nll") + nll("test/odd/nll")) / 4.0;
    assert!((nll("test/nll") - mean).abs() < 1e-6, "{last}");
    assert_eq!(summary["validation_nll_after"], last["test/nll"]);
    let names: Vec<Value> =
        report(&project)["validation"].as_array().unwrap().iter().map(|part| part["name"].clone()).collect();
    assert_eq!(names, ["odd", "plain"]);
    project.change("plain = ", "\"a b\" = ");
    assert!(project.refused("name").contains("other characters than letters, digits, _ and -"));
}

#[test]
fn a_mixture_reads_of_each_file_what_its_weight_says_and_trains() {
    let rows = |word: &str, count: usize| -> Vec<Value> {
        (0..count).map(|n| row(&format!("{word} {n}?"), &format!("{word} {n}."))).collect()
    };
    let config = data_project::config("sft", "mixture = [FILES]").replace(", validation = 0.2", "");
    let project = DataProject::new(&config, "a.jsonl", &lines(&rows("One", 12)));
    let alpaca = |n: usize| json!({ "instruction": format!("Two {n}?"), "output": format!("Two {n}.") });
    project.write("b.json", json!((0..4).map(alpaca).collect::<Vec<_>>()).to_string());
    project.change("FILES", "{ file = \"a.jsonl\", weight = 1 }, { file = \"b.json\", weight = 3 }");
    let weighed = report(&project);
    let reads = |report: &Value| -> Vec<u64> {
        report["mixture"].as_array().unwrap().iter().map(|file| file["rows"].as_u64().unwrap()).collect()
    };
    assert_eq!((reads(&weighed), &weighed["training"]["rows"]), (vec![4, 12], &json!(16)));
    let (steps, summary) = project.train("weighed", &[]);
    // Four of sixteen a batch, twice.
    assert_eq!(summary["steps"], 8);
    assert!(numbers(&steps, "train_mean_nll")[7] < numbers(&steps, "train_mean_nll")[0]);
    project.change(
        "{ file = \"a.jsonl\", weight = 1 }, { file = \"b.json\", weight = 3 }",
        "{ file = \"a.jsonl\", epochs = 0.5 }, { file = \"b.json\", epochs = 2 }",
    );
    assert_eq!(reads(&report(&project)), [6, 8]);
    for (from, to, expected) in [
        ("epochs = 0.5", "weight = 1", "source.mixture[1].weight is of every file or of none"),
        ("epochs = 0.5", "epochs = 0", "source.mixture[0].epochs is 0, but must be a finite number above 0"),
        (
            "epochs = 0.5",
            "form = \"pairs\"",
            "source.mixture[0].form is \"pairs\", which objective = \"sft\" does not read",
        ),
        ("a.jsonl", "none.jsonl", "none.jsonl"),
        ("mixture = [", "mixture_unit = \"tokens\", mixture = [", "source.mixture_unit is what weights are shares of"),
    ] {
        project.change(from, to);
        let message = project.refused("refused");
        assert!(message.contains(expected), "{to}: {message}");
        project.change(to, from);
        let _ = std::fs::remove_dir_all(project.path("refused"));
    }
}

#[test]
fn weights_of_a_mixture_are_shares_of_tokens_if_they_say_so() {
    let of = |count: usize, words: usize| -> String {
        lines(&(0..count).map(|n| row(&format!("{n}?"), &"17 ".repeat(words))).collect::<Vec<_>>())
    };
    let config =
        data_project::config("sft", "mixture_unit = \"tokens\", mixture = [FILES]").replace(", validation = 0.2", "");
    let project = DataProject::new(&config, "long.jsonl", &of(10, 40));
    project.write("short.jsonl", of(10, 2));
    project.change("FILES", "{ file = \"long.jsonl\", weight = 1 }, { file = \"short.jsonl\", weight = 1 }");
    let report = report(&project);
    let rows = |index: usize| report["mixture"][index]["rows"].as_u64().unwrap();
    assert!(rows(0) < 10 && rows(1) > 10, "{report}");
}
