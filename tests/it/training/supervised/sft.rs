//! Runs of the real command that learn from conversations (`objective = "sft"`).

use serde_json::{Value, json};

use crate::common::Ran;
use crate::common::data_project::{self, DataProject};
use crate::common::project::{numbers, saved, weights};

fn config() -> String {
    data_project::config("sft", "conversations = \"chats.jsonl\"")
}

fn project() -> DataProject {
    DataProject::new(&config(), "chats.jsonl", &chats(30))
}

fn row(user: &str, assistant: &str) -> Value {
    let message = |role: &str, text: &str| json!({ "role": role, "content": text });
    json!({ "messages": [message("user", user), message("assistant", assistant)] })
}

fn chats(count: usize) -> String {
    (0..count).map(|n| format!("{}\n", row(&format!("Say you are {n}."), &format!("I am {n}.")))).collect()
}

#[test]
fn a_model_learns_from_conversations_and_is_scored_on_those_held_out() {
    let project = project();
    let (steps, summary) = project.train("run", &[]);
    // 24 of 30 are trained, in batches of 4, twice; then the last evaluation.
    assert_eq!((steps.len(), &summary["steps"]), (13, &json!(12)));
    assert_eq!(numbers(&steps, "epoch"), [[0.0; 6], [1.0; 6]].concat());
    assert_eq!(numbers(&steps, "num_conversations"), [4.0; 12]);
    let rates = numbers(&steps, "optim/lr");
    assert!((rates[0], rates[6]) == (1e-2, 5e-3), "linear unless told otherwise: {rates:?}");
    let nll = numbers(&steps, "train_mean_nll");
    assert!(nll[11] < nll[0] - 1.0, "{nll:?}");
    assert_eq!(numbers(&steps, "test/nll").len(), 4, "before updates 0, 4 and 8, and at the end");
    let bits = numbers(&steps, "test/bpb");
    assert!(bits[3] < bits[0], "{bits:?}");
    assert_eq!(summary["validation_nll_after"], steps[12]["test/nll"]);
    assert_eq!(summary["validation_bits_per_byte_before"], json!(bits[0]));
    assert_eq!(summary["skipped_rows"], json!({}));
    let again = project.train("again", &[]).1;
    assert!(weights(&again) == weights(&summary), "the same seed is the same run");
    let other = project.train("other", &["--seed", "2"]).1;
    assert!(weights(&other) != weights(&summary));
}

#[test]
fn a_run_that_is_killed_or_stopped_ends_in_the_bytes_of_one_that_was_not() {
    let project = project();
    project.killed_and_resumed(2, &["step", "train_mean_nll", "test/nll"]);

    // Other data than the checkpoint was made with are no data to go on with.
    project.change("epochs = 2", "epochs = 3");
    project.write("chats.jsonl", chats(31));
    let ran = Ran::from(project.command("killed").arg("--resume").output().unwrap());
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("not those that the run's checkpoint was made with"), "{}", ran.stderr);
}

#[test]
fn an_adapter_learns_here_and_at_a_tinker_service_alike() {
    let project = project();
    project.change("path = \"model\"", "path = \"model\"\nlora_rank = 4");
    let (here, summary) = project.train("here", &[]);
    assert!(!saved(&summary, "adapter_model.safetensors").is_empty());
    let (_server, service) = project.tinker_service();
    project.change("backend = \"embedded\"", &service);
    let (there, _) = project.train("there", &["--max-steps", "7"]);
    let same = numbers(&there, "train_mean_nll");
    assert_eq!(same.len(), 7);
    // The step size follows the limit of updates, which is another: the first update is the same.
    assert_eq!(
        (same[0], numbers(&there, "test/nll")[0]),
        (numbers(&here, "train_mean_nll")[0], numbers(&here, "test/nll")[0])
    );
    let (resumed, summary) = project.train("there", &["--resume"]);
    assert_eq!((resumed.len(), &summary["steps"]), (6, &json!(12)));
}

#[test]
fn keys_and_sections_of_another_objective_are_refused_by_name() {
    let project = project();
    for (from, to, expected) in [
        ("epochs = 2", "epochs = 2\ngroup_size = 4", "[trainer] group_size is no key of objective = \"sft\""),
        ("{ every = 4 }", "{ samples_per_task = 4 }", "[trainer] evaluation.samples_per_task is no key of"),
        ("objective = \"sft\"\n", "", "[trainer] batch_size is no key of objective = \"grpo\", but of \"sft\""),
        ("\"sft\"", "\"sfd\"", "sfd"),
        ("epochs = 2", "epochs = 0", "[trainer] epochs is 0, but must be at least 1"),
        ("epochs = 2", "train_on = \"all\"", "trainer.train_on cannot be `all`"),
        (
            "validation = 0.2",
            "validation = 1",
            "[trainer] source.validation is 1, but must be a share above 0 and below 1",
        ),
        ("conversations = \"chats.jsonl\", ", "", "[trainer] source is one of { conversations"),
        ("chats.jsonl", "none.jsonl", "none.jsonl"),
        ("[trainer]", "[runner]\ncommand = [\"x\"]\n[trainer]", "leave out [tasks], [runner] command"),
        ("backend = \"embedded\"", "backend = \"vllm\"\nurls = [\"http://h\"]", "samples and does not learn"),
        ("epochs = 2", "max_tokens = 512", "[trainer] max_tokens is 512, but the model's context is 256"),
    ] {
        project.change(from, to);
        let message = project.refused("refused");
        assert!(message.contains(expected), "{to}: {message}");
        project.write("t.toml", config());
        let _ = std::fs::remove_dir_all(project.path("refused"));
    }
}

#[test]
fn a_row_that_cannot_be_trained_on_is_named_and_nothing_is_trained() {
    let project = project();
    let long = row("Say it.", &"17 ".repeat(400)).to_string();
    let good = row("a", "b").to_string();
    let user_only = json!({ "messages": [{ "role": "user", "content": "a" }] }).to_string();
    for (name, bad, expected) in [
        ("broken", "{\"messages\": [".to_owned(), "chats.jsonl line 3: is not JSON"),
        ("role", good.replace("assistant", "asistant"), "chats.jsonl line 3: message 1 has the role `asistant`"),
        ("long", long.clone(), "chats.jsonl line 3: has a sequence of "),
        ("untrained", user_only.clone(), "chats.jsonl line 3: "),
        ("huge", format!("\"{}\"", "x".repeat(17 << 20)), "chats.jsonl line 3: is longer than 16 MiB"),
        ("tools", good.replace("}]", "}], \"tools\": [{}]"), "chats.jsonl line 3: declares a tool 0"),
        (
            "trainable",
            good.replace("\"content\":\"b\"", "\"content\":\"b\",\"trainable\":true"),
            "line 3: message 1 says `trainable`",
        ),
    ] {
        project.write("chats.jsonl", format!("{good}\n\n{bad}\n{good}\n"));
        let message = project.refused(name);
        assert!(message.contains(expected), "{name}: {message}");
    }
    project.write("chats.jsonl", format!("\u{feff}{good}\n"));
    assert!(project.refused("mark").contains("chats.jsonl line 1: begins with a byte order mark"));
    project.write("chats.jsonl", "\n \n");
    assert!(project.refused("none").contains("has no conversation to train on"));

    // Left out if the config says so, and counted; a row that is wrong is refused all the same.
    project.change("epochs = 2", "epochs = 2\nunusable_rows = \"skip\"");
    project.write("chats.jsonl", format!("{long}\n{}{user_only}\n{user_only}\n", chats(10)));
    let (steps, summary) = project.train("skipped", &[]);
    assert_eq!(summary["skipped_rows"], json!({ "too_long": 1, "nothing_to_train": 2 }));
    assert_eq!(steps[0]["data/skipped/too_long"], 1);
    assert_eq!(numbers(&steps, "num_conversations"), [4.0; 4], "eight of ten, twice");
    project.write("chats.jsonl", format!("{{\n{good}\n"));
    assert!(project.refused("wrong").contains("chats.jsonl line 1: is not JSON"));

    // What is too long can be cut.
    project.change("unusable_rows = \"skip\"", "truncate = true");
    project.write("chats.jsonl", format!("{long}\n{good}\n"));
    let (steps, _) = project.train("cut", &[]);
    assert!(numbers(&steps, "num_tokens").iter().all(|tokens| *tokens <= 255.0));
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
    project.write(
        "chats.jsonl",
        format!("{}{}\n", chats(20), json!({ "messages": [{ "role": "user", "content": "a" }] })),
    );
    let (steps, _) = project.train("run", &[]);
    let keys: std::collections::BTreeSet<String> = steps
        .iter()
        .flat_map(|step| step.as_object().unwrap().keys())
        .map(|key| if key.starts_with("data/skipped/") { "data/skipped/CAUSE".to_owned() } else { key.clone() })
        .collect();
    let (own, common) =
        (documented("how-to/sft.md", "## Metrics"), documented("reference/config.md", "## metrics.jsonl"));
    let missing: Vec<&String> =
        keys.iter().filter(|key| !own.contains(key) && !common.contains(key) && *key != "event").collect();
    assert!(missing.is_empty(), "docs/how-to/sft.md says nothing of {missing:?}");
    let stale: Vec<&String> = own.iter().filter(|key| !keys.contains(*key)).collect();
    assert!(stale.is_empty(), "docs/how-to/sft.md tells of {stale:?}, which no line has");
}

#[test]
fn packing_makes_fewer_sequences_of_the_same_tokens() {
    let project = project();
    let (apart, _) = project.train("apart", &["--max-steps", "2"]);
    project.change("epochs = 2", "packing = \"concatenate\"\nmax_tokens = 120");
    let (packed, _) = project.train("packed", &["--max-steps", "2"]);
    assert_eq!(numbers(&packed, "num_loss_tokens"), numbers(&apart, "num_loss_tokens"));
    assert_eq!(numbers(&packed, "num_conversations"), numbers(&apart, "num_conversations"));
    let (fewer, more) = (numbers(&packed, "num_sequences")[0], numbers(&apart, "num_sequences")[0]);
    assert!(fewer < more && numbers(&packed, "num_tokens")[0] <= 119.0 * fewer, "{fewer} of {more}");
    assert_eq!(numbers(&packed, "test/nll")[0], numbers(&apart, "test/nll")[0], "what is scored is scored alone");
}

#[test]
fn packed_documents_do_not_see_each_other_and_cost_what_they_cost_alone() {
    let project = project();
    let (apart, alone) = project.train("apart", &["--max-steps", "3"]);
    project.change("epochs = 2", "epochs = 2\npacking = true");
    let (packed, together) = project.train("packed", &["--max-steps", "3"]);
    assert_eq!(numbers(&packed, "train_mean_nll"), numbers(&apart, "train_mean_nll"));
    assert!(weights(&together) == weights(&alone));
    // In one sequence they see each other, which costs something else.
    project.change("packing = true", "packing = \"concatenate\"");
    let (joined, _) = project.train("joined", &["--max-steps", "3"]);
    assert_ne!(numbers(&joined, "train_mean_nll"), numbers(&apart, "train_mean_nll"));
    project.change("packing = \"concatenate\"", "packing = \"documents\"");
    let (_server, service) = project.tinker_service();
    project.change("backend = \"embedded\"", &service);
    project.change("path = \"model\"", "path = \"model\"\nlora_rank = 4");
    let message = project.refused("service");
    assert!(message.contains("[trainer] packing = true keeps the conversations of a pass apart"), "{message}");
}

#[test]
fn lines_that_end_as_on_windows_train_the_same() {
    let project = project();
    let plain = project.train("plain", &[]).1;
    project.write("chats.jsonl", chats(30).replace('\n', "\r\n"));
    let windows = project.train("windows", &[]).1;
    assert!(weights(&windows) == weights(&plain));
}

#[test]
fn weights_of_messages_count_in_the_loss() {
    let project = project();
    project.change(", validation = 0.2", "");
    project.change("epochs = 2", "epochs = 1\nreduction = \"per_token\"");
    let two_turns = |first: Value, second: Value| {
        let mut row = row("a", "one");
        let messages = row["messages"].as_array_mut().unwrap();
        messages.push(json!({ "role": "user", "content": "b" }));
        messages.push(json!({ "role": "assistant", "content": "two" }));
        for (index, weight) in [(1, first), (3, second)] {
            if !weight.is_null() {
                messages[index]["weight"] = weight;
            }
        }
        format!("{row}\n").repeat(4)
    };
    let loss_tokens = |name: &str, first: Value, second: Value| {
        project.write("chats.jsonl", two_turns(first, second));
        let (steps, summary) = project.train(name, &[]);
        (numbers(&steps, "num_loss_tokens")[0], weights(&summary))
    };
    let (all, plain) = loss_tokens("plain", Value::Null, Value::Null);
    let (ones, same) = loss_tokens("ones", json!(1), json!(1.0));
    assert!(all == ones && plain == same);
    let (last, _) = loss_tokens("last", json!(0), json!(1));
    let (first, _) = loss_tokens("first", json!(1), json!(0));
    assert_eq!(first + last, all);
    let (half, _) = loss_tokens("half", json!(0.5), Value::Null);
    assert_eq!(half, 0.5 * first + last);
    let scaled = loss_tokens("scaled", json!(3), json!(3));
    assert!(scaled == (3.0 * all, plain), "only what they are beside each other counts");
}
