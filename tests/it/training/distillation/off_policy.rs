//! What a teacher would say in the places of conversations that are there.

use std::path::Path;

use serde_json::{Value, json};

use super::{mean, project, refused, with};
use crate::common::project::{EMBEDDED, Project, numbers, weights};
use crate::common::{Ran, Server, fulgurite};
use crate::vllm_over_engine::VllmOverEngine;

/// That project, whose student learns from what the teacher would say in thirty conversations.
fn off_policy() -> Project {
    let project = project();
    let config = std::fs::read_to_string(project.path("t.toml")).unwrap();
    let (models, _) = config.split_once("[tasks]").unwrap();
    let chat = |number: usize| {
        json!({ "messages": [
            { "role": "user", "content": format!("Let's play a game. Say you are {number}.") },
            { "role": "assistant", "content": format!("I am {number}.") },
        ] })
    };
    let rows: String = (0..30).map(|number| format!("{}\n", chat(number))).collect();
    std::fs::write(project.path("chats.jsonl"), rows).unwrap();
    let trainer = "[trainer]\nobjective = 'off_policy_distillation'\ndistillation = { teacher = 'teacher', top_k = 8 }\n\
                   source = { conversations = 'chats.jsonl', validation = 0.2 }\nbatch_size = 6\nepochs = 3\n\
                   learning_rate = 1e-2\nevaluation = { every = 4 }\n";
    std::fs::write(project.path("t.toml"), format!("{models}{trainer}")).unwrap();
    project
}

#[test]
fn a_model_learns_the_likeliest_tokens_of_a_teacher_and_survives_a_resume() {
    let project = off_policy();
    project.change_config("epochs = 3", "epochs = 3\nlearning_rate_schedule = 'constant'");
    let steps = project.train("whole", &[]);
    let away = numbers(&steps, "teacher_forward_kl");
    assert_eq!(away.len(), 12);
    assert!(away.iter().all(|away| *away > 0.0) && mean(&away[9..]) < 0.5 * mean(&away[..3]), "{away:?}");
    let whole = steps.last().unwrap();
    project.train("resumed", &["--max-steps", "5"]);
    let resumed = project.train("resumed", &["--resume"]).pop().unwrap();
    assert!(weights(&resumed) == weights(whole));
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/how-to/distillation.md");
    let docs = std::fs::read_to_string(docs).unwrap();
    for key in steps[0].as_object().unwrap().keys().filter(|key| key.starts_with("teacher")) {
        assert!(docs.contains(&format!("| `{key}` |")), "docs/how-to/distillation.md says nothing of {key}");
    }

    // A teacher that is the student has nothing to teach, however many of its tokens it tells.
    let itself = EMBEDDED.replace("model-{seed}", "model-1").replace("backend = \"embedded\"\n", "");
    with(&project, "path = \"teacher\"", &itself, || {
        project.change_config("top_k = 8", "top_k = 300");
        let steps = project.train("self", &["--max-steps", "1"]);
        let away = numbers(&steps, "teacher_forward_kl")[0];
        assert!(away.abs() < 1e-4, "{away}");
    });
}

#[test]
fn soft_targets_are_learnt_at_a_tinker_service_too_and_what_cannot_be_is_refused() {
    let project = off_policy();
    project.change_config("path = \"model-{seed}\"", "path = \"model-{seed}\"\nlora_rank = 4");
    let here = project.train("here", &["--max-steps", "3"]);
    let config = std::fs::read_to_string(project.path("t.toml")).unwrap();
    let served = project.path("served.toml");
    std::fs::write(&served, "[[models]]\nname = \"base\"\nbackend = \"embedded\"\npath = \"model-1\"\n").unwrap();
    let server = Server::start(project.directory.path(), ["--config".as_ref(), served.as_os_str()]);
    let service = format!("backend = \"tinker\"\nbase_model = \"base\"\nurls = [\"{}\"]\npath = \"model", server.url);
    std::fs::write(project.path("t.toml"), config.replace("backend = \"embedded\"\npath = \"model", &service)).unwrap();
    let there = project.train("there", &["--max-steps", "3"]);
    for key in ["teacher_cross_entropy", "teacher_entropy", "optim/gradient_norm"] {
        for (here, there) in numbers(&here, key).into_iter().zip(numbers(&there, key)) {
            assert!((here - there).abs() <= 1e-4 * here.abs(), "{key}: {here} and {there}");
        }
    }
    std::fs::write(project.path("t.toml"), config).unwrap();

    let message = refused(&project, "top_k = 8", "top_k = 8, discount = 0.5");
    assert!(
        message.contains("distillation.discount is no key of objective = \"off_policy_distillation\""),
        "{message}"
    );
    let message = refused(&project, "top_k = 8", "top_k = 0");
    assert!(message.contains("[trainer] distillation.top_k is 0, but a place needs a token"), "{message}");
    let vllm = VllmOverEngine::start(&project.path("teacher"));
    let hosted = format!("backend = \"vllm\"\nurls = [\"{}\"]\npath = \"teacher\"", vllm.url);
    with(&project, "backend = \"embedded\"\npath = \"teacher\"", &hosted, || {
        let at_vllm = project.train("vllm", &["--max-steps", "3"]);
        assert_eq!(numbers(&at_vllm, "teacher_entropy"), numbers(&here, "teacher_entropy"));
        let message = refused(&project, "top_k = 8", "top_k = 21");
        assert!(message.contains("distillation.top_k is 21, but the teacher `teacher` tells 20"), "{message}");
    });
}

#[test]
fn targets_that_were_written_before_train_as_the_teacher_that_wrote_them() {
    let project = off_policy();
    project.change_config("epochs = 3", "epochs = 3\nlearning_rate_schedule = 'constant'");
    let live = project.train("asked", &[]);
    let export = |to: &str| {
        let mut export = fulgurite(["export", "--what", "soft-targets", "--config"]);
        Ran::from(export.arg(project.path("t.toml")).arg("--to").arg(project.path(to)).output().unwrap())
    };
    let table = export("targets.parquet");
    assert!(table.code == Some(1) && table.stderr.contains("soft targets are written as JSON lines"), "{table:?}");
    let written = export("targets.jsonl");
    assert!(written.code == Some(0) && written.stdout.contains("exported 30 records to"), "{written:?}");
    // A run has a config of its own, and is named as for everything else that is exported.
    let mut of_run = fulgurite(["export", "asked", "--what", "soft-targets", "--to", "of_run.jsonl"]);
    let of_run = Ran::from(of_run.current_dir(project.directory.path()).output().unwrap());
    assert_eq!(of_run.code, Some(0), "{of_run:?}");
    let file = |name: &str| std::fs::read_to_string(project.path(name)).unwrap();
    assert!(file("of_run.jsonl") == file("targets.jsonl"));

    // The teacher is not needed any more.
    std::fs::remove_dir_all(project.path("teacher")).unwrap();
    project.change_config("[[models]]\nname = \"teacher\"\nbackend = \"embedded\"\npath = \"teacher\"\n\n", "");
    project.change_config("teacher = 'teacher', ", "");
    project.change_config("'chats.jsonl'", "'targets.jsonl', form = 'soft_targets'");
    let read = project.train("read", &[]);
    for key in ["teacher_cross_entropy", "teacher_entropy", "optim/gradient_norm", "test/nll"] {
        assert_eq!(numbers(&read, key), numbers(&live, key), "{key}");
    }
    let whole = weights(read.last().unwrap());
    assert!(whole == weights(live.last().unwrap()));
    project.train("stopped", &["--max-steps", "5"]);
    assert!(weights(project.train("stopped", &["--resume"]).last().unwrap()) == whole);
    let again = export("again.jsonl");
    assert!(again.code == Some(1) && again.stderr.contains("these targets are written already"), "{again:?}");

    let lines = std::fs::read_to_string(project.path("targets.jsonl")).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let targets = lines[2]["sequences"][0]["targets"].as_array().unwrap();
    let place = targets.iter().position(|targets| targets.as_array().unwrap().len() == 8).unwrap();
    let at = |rest: &str| format!("/sequences/0/targets/{place}{rest}");
    for (at, value, expected) in [
        (
            "/tokenizer".to_owned(),
            json!("another"),
            "is of the tokenizer another, and that of the model that is trained is",
        ),
        ("/top_k".to_owned(), json!(7), "has targets of top_k = 7, and [trainer] distillation.top_k is 8"),
        (at("/0/0"), json!(1_000_000), "has the token 1000000, and the vocabulary of the model has"),
        (at("/0/1"), json!(1e300), "number out of range"),
        (at("/0/1"), json!("x"), "but must be"),
        (at("/0/1"), json!(0.1), "has probabilities that add up to 1."),
        (at(""), json!([]), "is trained and has no target"),
    ] {
        let mut bad = lines.clone();
        *bad[2].pointer_mut(&at).unwrap() = value;
        let text: String = bad.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(project.path("bad.jsonl"), text).unwrap();
        let message = refused(&project, "'targets.jsonl'", "'bad.jsonl'");
        assert!(message.contains("bad.jsonl line 3: ") && message.contains(expected), "{at}: {message}");
        let _ = std::fs::remove_dir_all(project.path("refused"));
    }
    let of_all_tokens = "objective = 'off_policy_distillation'\ntrain_on = 'all_tokens'";
    for (from, to, expected) in [
        ("{ top_k = 8 }", "{ top_k = 7 }", "targets.jsonl line 1: has targets of top_k = 8"),
        ("{ top_k = 8 }", "{ teacher = 'hello', top_k = 8 }", "[trainer] distillation.teacher is not asked"),
        ("objective = 'off_policy_distillation'", of_all_tokens, "soft targets say themselves what each place counts"),
        (
            "objective = 'off_policy_distillation'\ndistillation = { top_k = 8 }",
            "objective = 'sft'",
            "[trainer] source.form is \"soft_targets\", from which objective = \"off_policy_distillation\" learns",
        ),
    ] {
        let message = refused(&project, from, to);
        assert!(message.contains(expected), "{to}: {message}");
        let _ = std::fs::remove_dir_all(project.path("refused"));
    }
}
