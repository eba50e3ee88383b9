//! `fulgurite chat` with a model directory, a run and a server, through a pipe.

use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::common::project::{Project, SMALL, UNEVEN};
use crate::common::{Ran, Server, fulgurite, run, tiny_model};

/// Says `lines`, one after the other, and gives what comes back.
fn chat(directory: &Path, arguments: &[&str], lines: &str) -> Ran {
    let mut command = fulgurite(["chat"]);
    command.args(arguments).current_dir(directory).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    child.wait_with_output().unwrap().into()
}

#[test]
fn a_model_directory_answers_line_by_line() {
    let directory = tempfile::tempdir().unwrap();
    tiny_model(directory.path(), 256);
    let arguments = ["model", "--temperature", "0", "--max-tokens", "4"];
    let with_json: Vec<&str> = arguments.iter().copied().chain(["--json"]).collect();
    let replies = chat(directory.path(), &with_json, "Say 7\nSay 8\n/reset\nSay 7\n").json_lines();
    assert_eq!(replies.len(), 3);
    for reply in &replies {
        assert_eq!((reply["token_ids"].as_array().unwrap().len(), &reply["finish_reason"]), (4, &json!("length")));
        assert!(reply["logprobs"].as_array().unwrap().iter().all(|logprob| logprob.as_f64().unwrap() <= 0.0));
    }
    assert_eq!(replies[0], replies[2], "forgotten, the conversation begins anew");

    // Without JSON the text alone, and token by token what was said last.
    let plain = chat(directory.path(), &arguments, "Say 7\n/tokens\n/tokesn\n/quit\nSay 8\n");
    assert_eq!(plain.code, Some(0));
    assert_eq!(plain.stderr, "there is no /tokesn: there are /reset, /tokens and /quit\n");
    let first = replies[0]["reply"].as_str().unwrap();
    let tokens = plain.stdout.strip_prefix(&format!("{first}\n")).unwrap();
    let ids: Vec<Value> =
        tokens.lines().map(|line| json!(line.split_whitespace().next().unwrap().parse::<u64>().unwrap())).collect();
    assert_eq!(&json!(ids), &replies[0]["token_ids"]);

    // The same over a server that has it, and a system message changes what is said.
    let model = directory.path().join("model");
    let server = Server::start(directory.path(), ["--model", &format!("tiny=embedded:{}", model.display())]);
    let over_http: Vec<&str> = [server.url.as_str()].into_iter().chain(with_json[1..].iter().copied()).collect();
    assert_eq!(chat(directory.path(), &over_http, "Say 7\n").json_lines()[0], replies[0]);
    let with_system: Vec<&str> = over_http.iter().copied().chain(["--system", "You are 17."]).collect();
    chat(directory.path(), &with_system, "Say 7\n").json_lines();
    let generations = server.query("generations");
    assert_ne!(generations[0]["prompt_tokens"], generations[1]["prompt_tokens"]);
}

#[test]
fn a_run_answers_by_its_last_checkpoint() {
    let project = Project::new(UNEVEN, SMALL);
    let summary = project.train("runs/one", &["--max-steps", "1"]).pop().unwrap();
    let arguments = ["--temperature", "0", "--max-tokens", "4", "--json"];
    let say = |target: &str| {
        let arguments: Vec<&str> = [target].into_iter().chain(arguments).collect();
        chat(project.directory.path(), &arguments, "Say 7\n").json_lines().remove(0)
    };
    let by_run = say("one");
    assert_eq!(say(summary["checkpoint"].as_str().unwrap()), by_run);
    assert_eq!(project.query("rollouts", "runs/one").len(), project.query("generations", "runs/one").len());
}

#[test]
fn an_adapter_answers_over_the_model_that_it_is_of() {
    let project = Project::new(UNEVEN, &SMALL.replace("learning_rate = 1e-3", "learning_rate = 1.0"));
    project.train_adapters(4);
    let summary = project.train("runs/one", &["--max-steps", "2"]).pop().unwrap();
    let checkpoint = summary["checkpoint"].as_str().unwrap();
    assert!(Path::new(checkpoint).join("adapter_model.safetensors").exists());
    let say = |target: &str| {
        let arguments = [target, "--temperature", "0", "--max-tokens", "24", "--json"];
        chat(project.directory.path(), &arguments, "Say 7\n").json_lines().remove(0)
    };
    let by_checkpoint = say(checkpoint);
    assert_eq!(say("one"), by_checkpoint, "its last checkpoint");
    assert_ne!(say("model-1")["token_ids"], by_checkpoint["token_ids"], "the model without it");
}

#[test]
fn a_person_is_asked_line_by_line_and_leaves_by_a_word() {
    let directory = tempfile::tempdir().unwrap();
    tiny_model(directory.path(), 256);
    // Each line is written once the prompt stands there again; what is said last ends the program.
    let script = "import os, pty, sys\n\
        pid, terminal = pty.fork()\n\
        if pid == 0:\n    os.execv(sys.argv[1], sys.argv[1:])\n\
        seen, shown, lines = b'', b'', [b'Say 7\\n', b'/tokesn\\n', b'/tokens\\n', b'/reset\\n', b'/quit\\n']\n\
        while True:\n\
        \x20   try:\n        data = os.read(terminal, 65536)\n\
        \x20   except OSError:\n        break\n\
        \x20   if not data: break\n\
        \x20   seen += data\n\
        \x20   shown += data\n\
        \x20   if lines and b'> ' in seen:\n        os.write(terminal, lines.pop(0)); seen = b''\n\
        sys.stdout.buffer.write(shown)\n\
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n";
    let command = fulgurite(["chat", "model", "--temperature", "0", "--max-tokens", "4"]);
    let mut terminal = std::process::Command::new("python3");
    terminal.args(["-c", script]).arg(command.get_program()).args(command.get_args());
    let ran = terminal.current_dir(directory.path()).env("NO_COLOR", "1").env("TERM", "dumb").output().unwrap();
    let shown = String::from_utf8_lossy(&ran.stdout).replace('\r', "");
    assert!(ran.status.success(), "{shown}");
    let answered = chat(directory.path(), &["model", "--temperature", "0", "--max-tokens", "4", "--json"], "Say 7\n");
    let reply = &answered.json_lines()[0];
    let description = format!("{}; /reset, /tokens, /quit\n", directory.path().join("model").display());
    assert!(shown.starts_with(&format!("{description}> ")), "{shown}");
    assert!(shown.contains("there is no /tokesn: there are /reset, /tokens and /quit"), "{shown}");
    let first = reply["token_ids"][0].as_u64().unwrap();
    assert!(shown.lines().any(|line| line.split_whitespace().next() == Some(&first.to_string())), "{shown}");
    // The prompt stands there once for each line; the reply's own text may hold one.
    let prompts = shown.matches("> ").count() - reply["reply"].as_str().unwrap().matches("> ").count();
    assert!(prompts >= 5, "{shown}");
}

#[test]
fn what_cannot_be_talked_to_is_told_with_what_can() {
    let nothing = run(["chat", "nowhere"]).failure(Path::new("/no"));
    insta::assert_snapshot!(nothing, @"error: nowhere is no model directory, GGUF file, checkpoint or run, and there is no run of that name in runs/");
    let of_hub = run(["chat", "Qwen/Qwen3-0.6B"]).failure(Path::new("/no"));
    assert!(of_hub.contains("`fulgurite model fetch hf:Qwen/Qwen3-0.6B` fetches it"), "{of_hub}");
    let before = run(["chat", "http://127.0.0.1:1", "--before"]).failure(Path::new("/no"));
    assert!(before.contains("--before is of a run, and http://127.0.0.1:1 is a server"), "{before}");
    let named = run(["chat", "nowhere", "--model", "x"]).failure(Path::new("/no"));
    insta::assert_snapshot!(named, @"error: --model and --api-key-env are of a server, and nowhere is no URL");
    let directory = tempfile::tempdir().unwrap();
    let watched = fulgurite(["watch", "nowhere"]).current_dir(directory.path()).output().unwrap();
    insta::assert_snapshot!(Ran::from(watched).failure(directory.path()), @"error: nowhere is the directory of no run, and there is none of that name in runs/");
}
