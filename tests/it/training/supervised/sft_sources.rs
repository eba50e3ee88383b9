//! Where `objective = "sft"` has its conversations from: rollouts of a store, Parquet, files of any size.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::common::data_project::write_table;
use crate::common::project::{Project, SMALL, UNEVEN, recorded_steps, weights};
use crate::common::{Ran, fulgurite, tiny_model};

/// A config that learns from `source`, with these lines before it.
fn config(lines: &str, model: &str, source: &str) -> String {
    format!(
        "[run]\nname = \"s\"\n{lines}\n[[models]]\nname = \"hello\"\nbackend = \"embedded\"\npath = \"{model}\"\n\n\
         [trainer]\nobjective = \"sft\"\nbatch_size = 4\nepochs = 2\nlearning_rate = 1e-2\nsource = {source}\n"
    )
}

fn command(directory: &Path, run: &str) -> Command {
    let mut command = fulgurite(["train", "--json"]);
    command.arg(directory.join("s.toml")).arg("--run-directory").arg(directory.join(run));
    command
}

fn train(directory: &Path, run: &str, arguments: &[&str]) -> (Vec<Value>, Value) {
    let mut lines = Ran::from(command(directory, run).args(arguments).output().unwrap()).json_lines();
    let summary = lines.pop().unwrap();
    (lines, summary)
}

fn refused(directory: &Path, run: &str) -> String {
    let ran = Ran::from(command(directory, run).output().unwrap());
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert_eq!(recorded_steps(&directory.join(run)), 0);
    ran.stderr
}

#[test]
fn rollouts_that_earned_enough_are_learnt_token_by_token() {
    let project = Project::new(UNEVEN, &SMALL.replace("max_steps = 5", "max_steps = 2"));
    project.train("grpo", &[]);
    let directory = project.directory.path();
    let write = |filter: &str| {
        let store = "[store]\nurl = \"sqlite://grpo/fulgurite.db\"\n";
        let source = format!("{{ rollouts = \"{filter}\" }}");
        std::fs::write(directory.join("s.toml"), config(store, "model-1", &source)).unwrap();
    };
    write("reward >= 1 and mode = train and run = grpo");
    let chosen =
        |rollout: &Value| rollout["reward"].as_f64().is_some_and(|reward| reward >= 1.0) && rollout["mode"] == "train";
    let rollouts: Vec<Value> = project.query("rollouts", "grpo").into_iter().filter(chosen).collect();
    let ids: Vec<&str> = rollouts.iter().map(|rollout| rollout["rollout_id"].as_str().unwrap()).collect();
    assert!(ids.len() > 4, "{ids:?}");
    let generations = project.query("generations", "grpo");
    let of_chosen = generations.iter().filter(|generation| ids.contains(&generation["rollout_id"].as_str().unwrap()));
    let sampled: usize = of_chosen.map(|generation| generation["sampled_tokens"].as_array().unwrap().len()).sum();

    let (steps, summary) = train(directory, "sft", &[]);
    let per_epoch = ids.len().div_ceil(4);
    assert_eq!(summary["steps"], json!(2 * per_epoch));
    let tokens: f64 = steps[..per_epoch].iter().map(|step| step["num_loss_tokens"].as_f64().unwrap()).sum();
    assert_eq!(tokens, sampled as f64, "what was sampled, and nothing else");
    assert_eq!(summary["trained_tokens"], json!(sampled), "each counts once in the account, however many epochs");
    assert_eq!(summary["untrained_tokens"]["other"], 0);

    // The same words choose the same rollouts on the command line.
    let exported = project.path("chosen.jsonl");
    let export = fulgurite(["export", "--what", "rollouts", "--where", "reward >= 1 and mode = train", "--run"])
        .arg(project.path("grpo"))
        .arg("--to")
        .arg(&exported)
        .output()
        .unwrap();
    assert_eq!(Ran::from(export).code, Some(0));
    let lines = std::fs::read_to_string(exported).unwrap();
    assert_eq!(lines.lines().filter(|line| line.contains("\"record\":\"rollout\"")).count(), ids.len());
    let mut unknown = fulgurite(["export", "--where", "rewrd = 1", "--to", "x.jsonl", "--run"]);
    let unknown = unknown.arg(project.path("grpo")).output().unwrap();
    let unknown = Ran::from(unknown);
    assert!(unknown.code == Some(2) && unknown.stderr.contains("`rewrd` is no field"), "{unknown:?}");

    // Resumed, it goes on with the rollouts that it began with.
    train(directory, "stopped", &["--max-steps", "1"]);
    let resumed = train(directory, "stopped", &["--resume"]).1;
    let undisturbed = train(directory, "again", &[]).1;
    assert!(weights(&undisturbed) == weights(&summary));
    assert_eq!(resumed["steps"], summary["steps"]);

    for (filter, expected) in [
        ("reward > 1000", "none of the store's"),
        ("rewrd >= 1", "`rewrd` is no field"),
        ("mode = train or (reward >= 1", "a `)` is missing"),
        ("reward >= 1; DELETE FROM rollouts", "`;` is nothing that a filter has"),
    ] {
        write(filter);
        let message = refused(directory, &format!("refused-{}", filter.len()));
        assert!(message.contains(expected), "{filter}: {message}");
    }
    let without_store = config("", "model-1", "{ rollouts = \"reward >= 1\" }");
    std::fs::write(directory.join("s.toml"), without_store).unwrap();
    assert!(refused(directory, "no-store").contains("[store] url, which is missing"));
}

fn row(n: usize) -> Value {
    let message = |role: &str, text: String| json!({ "role": role, "content": text });
    json!([message("user", format!("Say you are {n}.")), message("assistant", format!("I am {n}."))])
}

#[test]
fn a_parquet_file_trains_as_the_same_lines_do() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    tiny_model(directory, 256);
    let lines: String = (0..12).map(|n| format!("{}\n", json!({ "messages": row(n) }))).collect();
    std::fs::write(directory.join("chats.jsonl"), lines).unwrap();
    let write = |name: &str, rows: &[Value]| {
        write_table(&directory.join(name), &[("messages", rows.iter().map(Value::to_string).collect())]);
    };
    write("chats.parquet", &(0..12).map(row).collect::<Vec<_>>());
    write("bad.parquet", &[row(1), json!([{ "role": "usr", "content": "a" }])]);
    let with = |file: &str| {
        std::fs::write(directory.join("s.toml"), config("", "model", &format!("{{ conversations = \"{file}\" }}")))
            .unwrap();
    };
    with("chats.jsonl");
    let lines = train(directory, "lines", &[]).1;
    with("chats.parquet");
    let table = train(directory, "table", &[]).1;
    assert!(weights(&table) == weights(&lines));
    with("bad.parquet");
    let message = refused(directory, "bad");
    assert!(message.contains("bad.parquet row 2: message 0 has the role `usr`; did you mean `user`?"), "{message}");
}

#[test]
fn calls_that_others_logged_train_as_the_conversations_that_they_are() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    tiny_model(directory, 256);
    // Each call's prompt holds an answer before it, which is not this row's to train.
    let conversation = |n: usize| json!([row(n)[0], row(n)[1], { "role": "user", "content": "And now?" }]);
    let answer = |n: usize| json!({ "role": "assistant", "content": format!("Still {n}.") });
    let chat = |n: usize| {
        let mut messages = conversation(n);
        messages.as_array_mut().unwrap().push(answer(n));
        json!({ "messages": messages })
    };
    let litellm = |n: usize| {
        let response = json!({ "choices": [{ "index": 0, "finish_reason": "stop", "message": answer(n) }] });
        json!({ "id": n, "call_type": "acompletion", "status": "success", "messages": conversation(n),
            "model_parameters": { "temperature": 1.0 }, "response": response })
    };
    let langfuse = |n: usize| {
        json!({ "id": n, "type": "GENERATION", "level": "DEFAULT", "input": conversation(n).to_string(),
            "output": answer(n).to_string() })
    };
    let write = |file: &str, rows: &[Value], more: &[Value]| {
        let lines: String = rows.iter().chain(more).map(|row| format!("{row}\n")).collect();
        std::fs::write(directory.join(file), lines).unwrap();
    };
    write("chats.jsonl", &(0..8).map(chat).collect::<Vec<_>>(), &[]);
    let mut failed = litellm(9);
    failed["status"] = "failure".into();
    write("litellm.jsonl", &(0..8).map(litellm).collect::<Vec<_>>(), &[failed]);
    let span = json!({ "type": "SPAN", "name": "agent" });
    write("langfuse.jsonl", &(0..8).map(langfuse).collect::<Vec<_>>(), &[span.clone(), span]);
    let with = |source: &str, more: &str| {
        std::fs::write(directory.join("s.toml"), config("", "model", source) + more).unwrap();
    };
    with("{ conversations = \"chats.jsonl\" }", "train_on = \"last_assistant_message\"\n");
    let (_, chats) = train(directory, "chats", &[]);
    for (form, left_out) in [("litellm", 1), ("langfuse", 2)] {
        with(&format!("{{ conversations = \"{form}.jsonl\", form = \"{form}\" }}"), "");
        let (steps, logged) = train(directory, form, &[]);
        assert!(weights(&logged) == weights(&chats), "{form}");
        assert_eq!(steps[0]["data/skipped/no_answer"], left_out, "{form}: {}", steps[0]);
    }

    let refusals = [
        ("{ conversations = \"litellm.jsonl\" }", "", "line 1: looks like a call that was logged: form = \"litellm\""),
        (
            "{ conversations = \"langfuse.jsonl\" }",
            "",
            "line 1: looks like a call that was logged: form = \"langfuse\"",
        ),
        ("{ conversations = \"chats.jsonl\", form = \"langfuse\" }", "", "line 1: has no `type`"),
        (
            "{ conversations = \"litellm.jsonl\", form = \"litellm\" }",
            "train_on = \"all_tokens\"\n",
            "of a log the answer of each call is trained",
        ),
        ("{ rollouts = \"reward >= 1\", form = \"litellm\" }", "", "[trainer] source.form is of source.conversations"),
    ];
    for (index, (source, more, expected)) in refusals.into_iter().enumerate() {
        with(source, more);
        let message = refused(directory, &format!("refused-{index}"));
        assert!(message.contains(expected), "{source}: {message}");
    }
}

#[test]
fn conversations_of_a_store_are_written_as_a_file_that_trains() {
    let project = Project::new(UNEVEN, &SMALL.replace("max_steps = 5", "max_steps = 1"));
    project.train("grpo", &[]);
    let export = |file: &str| {
        let mut export = fulgurite(["export", "--what", "conversations", "--where", "reward >= 1", "--run"]);
        Ran::from(export.arg(project.path("grpo")).arg("--to").arg(project.path(file)).output().unwrap())
    };
    assert_eq!(export("chats.jsonl").code, Some(0));
    let lines = std::fs::read_to_string(project.path("chats.jsonl")).unwrap();
    let rewarded = project.query("rollouts", "grpo");
    let rewarded = rewarded.iter().filter(|rollout| rollout["reward"].as_f64().is_some_and(|reward| reward >= 1.0));
    assert_eq!(lines.lines().count(), rewarded.count());
    let first: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    let roles: Vec<&str> = first["messages"].as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!((roles.first(), roles.last()), (Some(&"user"), Some(&"assistant")), "{first}");
    let directory = project.directory.path();
    std::fs::write(directory.join("s.toml"), config("", "model-1", "{ conversations = \"chats.jsonl\" }")).unwrap();
    let (events, summary) = train(directory, "sft", &[]);
    // Before the first step it may be said that answers of this model spell marks.
    let step = events.iter().find(|event| event["event"] == "step").unwrap();
    assert!(summary["steps"].as_u64() >= Some(2) && step["num_loss_tokens"].as_f64() > Some(0.0), "{summary}");
    let table = export("chats.parquet");
    assert!(table.code == Some(1) && table.stderr.contains("ends in .jsonl"), "{table:?}");
}

#[test]
fn a_file_ten_times_as_large_takes_the_memory_of_the_small_one() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    tiny_model(directory, 256);
    // What a row has beside its conversation is not rendered, and makes the file large.
    let note = "x".repeat(20_000);
    let peak = |rows: usize| -> u64 {
        let lines: String =
            (0..rows).map(|n| format!("{}\n", json!({ "messages": row(n % 100), "note": note }))).collect();
        std::fs::write(directory.join("chats.jsonl"), lines).unwrap();
        std::fs::write(
            directory.join("s.toml"),
            config("", "model", "{ conversations = \"chats.jsonl\", validation = 0.1 }"),
        )
        .unwrap();
        let run = format!("run-{rows}");
        let mut command = command(directory, &run);
        command.args(["--max-steps", "2"]);
        let measure = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); \
                       print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)";
        let mut measured = Command::new("python3");
        measured.args(["-c", measure]).arg(command.get_program()).args(command.get_args());
        let output = measured.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
    };
    let (small, large) = (peak(300), peak(3000));
    assert!(large as f64 <= 1.2 * small as f64, "{small} kB for 6 MB, {large} kB for 60 MB");
}
