//! On-policy distillation through runs of the real command: what a teacher says is learnt, recorded, and asked of every host.

mod following;
mod off_policy;

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

use crate::common::project::{EMBEDDED, Project, UNEVEN, numbers, saved, weights};
use crate::common::{Ran, Server};
use crate::vllm_over_engine::VllmOverEngine;

const STUDENT: &str = "objective = 'on_policy_distillation'\ngroups_per_batch = 3\ngroup_size = 1\nmax_steps = 4\n\
                       learning_rate = 1e-2\n";

fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len() as f64
}

/// A project whose student is the base, and another model of the same tokenizer, `teacher`, that has learnt something.
fn project() -> Project {
    let project = Project::new(UNEVEN, "objective = 'grpo'\ngroups_per_batch = 3\ngroup_size = 3\nmax_steps = 3\n");
    project.change_config("[trainer]\n", "[trainer]\nlearning_rate = 3e-2\n");
    let learnt = project.train("learnt", &[]).pop().unwrap();
    std::fs::rename(Path::new(learnt["checkpoint"].as_str().unwrap()), project.path("teacher")).unwrap();
    let config = std::fs::read_to_string(project.path("t.toml")).unwrap();
    let (kept, _) = config.split_once("[trainer]").unwrap();
    let teacher = "[[models]]\nname = \"teacher\"\nbackend = \"embedded\"\npath = \"teacher\"\n\n[base]";
    let evaluation = "evaluation = { every = 2, samples_per_task = 2 }\n";
    let config = format!("{}[trainer]\n{evaluation}{STUDENT}", kept.replace("[base]", teacher));
    std::fs::write(project.path("t.toml"), config + "distillation = { teacher = 'teacher' }\n").unwrap();
    project
}

fn with(project: &Project, from: &str, to: &str, then: impl FnOnce()) {
    let config = std::fs::read_to_string(project.path("t.toml")).unwrap();
    project.change_config(from, to);
    then();
    std::fs::write(project.path("t.toml"), config).unwrap();
}

fn refused(project: &Project, from: &str, to: &str) -> String {
    let mut message = String::new();
    with(project, from, to, || {
        let ran = Ran::from(project.command("refused").output().unwrap());
        assert_eq!(ran.code, Some(1), "{ran:?}");
        message = ran.stderr;
    });
    message
}

/// What the teachers of a run said, by the generations' places, beside what the sampler had said.
fn recorded(project: &Project, run: &str) -> Vec<(Value, Value)> {
    let of = |table: &str| {
        let select = format!(
            "SELECT {table}.logprobs FROM teacher_logprobs t JOIN generations g USING (generation_id) ORDER BY g.position"
        );
        project.sql(run, &select).into_iter().map(|row| row["logprobs"].clone()).collect::<Vec<Value>>()
    };
    of("g").into_iter().zip(of("t")).collect()
}

#[test]
fn a_policy_comes_nearer_to_its_teacher_which_is_recorded_and_survives_a_resume() {
    let project = project();
    let long = "max_steps = 24\nsubsteps = 1";
    with(&project, "max_steps = 4", long, || {
        let steps = project.train("long", &[]);
        let away = numbers(&steps, "teacher_kl");
        assert_eq!(away.len(), 24);
        assert!(mean(&away[18..]) < 0.6 * mean(&away[..4]), "{away:?}");
        project.account("long", steps.last().unwrap());
    });

    let steps = project.train("whole", &[]);
    let whole = steps.last().unwrap();
    assert_eq!(whole["max_logprob_difference"], json!(0.0));
    // Of every generation that was trained: the mean over a step's tokens is what its metrics say.
    let pairs = recorded(&project, "whole");
    assert_eq!(pairs.len(), 4 * 3);
    let difference = |(sampler, teacher): &(Value, Value)| -> (f64, usize) {
        let pairs = sampler.as_array().unwrap().iter().zip(teacher.as_array().unwrap());
        let pairs: Vec<f64> = pairs.map(|(s, t)| s.as_f64().unwrap() - t.as_f64().unwrap()).collect();
        assert_eq!(sampler.as_array().unwrap().len(), teacher.as_array().unwrap().len());
        (pairs.iter().sum(), pairs.len())
    };
    let (sum, tokens) =
        pairs[..3].iter().map(difference).fold((0.0, 0), |(sum, count), (more, of)| (sum + more, count + of));
    let first = numbers(&steps, "teacher_kl")[0];
    assert!((sum / tokens as f64 - first).abs() < 1e-4 * first.abs(), "{} is not {first}", sum / tokens as f64);
    project.train("resumed", &["--max-steps", "2"]);
    let resumed = project.train("resumed", &["--resume"]).pop().unwrap();
    assert!(weights(&resumed) == weights(whole));

    // What is recorded is shown, and goes where a store goes.
    let rollout =
        project.sql("whole", "SELECT rollout_id FROM teacher_logprobs JOIN generations USING (generation_id) LIMIT 1");
    let show = |flag: &str| {
        let mut command = crate::common::fulgurite(["show", rollout[0]["rollout_id"].as_str().unwrap(), flag, "--run"]);
        Ran::from(command.arg(project.path("whole")).output().unwrap()).stdout
    };
    assert!(show("--tokens").contains("    sampler    teacher\n"), "{}", show("--tokens"));
    let shown: Value = serde_json::from_str(&show("--json")).unwrap();
    let events = shown["attempts"][0]["events"].as_array().unwrap();
    let call = events.iter().find(|event| event["teacher_logprobs"].is_array()).unwrap();
    let logprobs = call["teacher_logprobs"][0]["logprobs"].as_array().unwrap();
    assert_eq!(logprobs.len(), call["generation"]["sampled_tokens"].as_array().unwrap().len());
}

#[test]
fn a_teacher_that_is_the_student_teaches_nothing_and_every_host_says_the_same() {
    let project = project();
    with(
        &project,
        "path = \"teacher\"",
        &EMBEDDED.replace("model-{seed}", "model-1").replace("backend = \"embedded\"\n", ""),
        || {
            let steps = project.train("self", &["--max-steps", "1"]);
            assert_eq!(numbers(&steps, "teacher_kl"), [0.0]);
            assert!(recorded(&project, "self").iter().all(|(sampler, teacher)| sampler == teacher), "to the bit");
        },
    );
    let here = project.train("here", &["--max-steps", "2"]);
    let same = |run: &str, steps: &[Value]| {
        for key in ["teacher_kl", "optim/gradient_norm"] {
            assert_eq!(numbers(steps, key), numbers(&here, key), "{run}: {key}");
        }
    };
    // vLLM's wire tells logprobs in decimals that are read back to the bit.
    let vllm = VllmOverEngine::start(&project.path("teacher"));
    let hosted = format!("backend = \"vllm\"\nurls = [\"{}\"]\npath = \"teacher\"", vllm.url);
    with(&project, "backend = \"embedded\"\npath = \"teacher\"", &hosted, || {
        same("vllm", &project.train("vllm", &["--max-steps", "2"]));
    });
    // Another server of ours, by its Tinker service.
    let served = project.path("served.toml");
    std::fs::write(&served, "[[models]]\nname = \"large\"\nbackend = \"embedded\"\npath = \"teacher\"\n").unwrap();
    let server = Server::start(project.directory.path(), ["--config".as_ref(), served.as_os_str()]);
    let hosted =
        format!("backend = \"tinker\"\nbase_model = \"large\"\nurls = [\"{}\"]\npath = \"teacher\"", server.url);
    with(&project, "backend = \"embedded\"\npath = \"teacher\"", &hosted, || {
        same("tinker", &project.train("tinker", &["--max-steps", "2"]));
    });
}

#[test]
fn a_student_at_a_tinker_service_is_taught_as_one_in_this_process() {
    let project = project();
    project.change_config("path = \"model-{seed}\"", "path = \"model-{seed}\"\nlora_rank = 4");
    let here = project.train("here", &[]);
    let config = std::fs::read_to_string(project.path("t.toml")).unwrap();
    let served = project.path("served.toml");
    std::fs::write(&served, "[[models]]\nname = \"base\"\nbackend = \"embedded\"\npath = \"model-1\"\n").unwrap();
    let server = Server::start(project.directory.path(), ["--config".as_ref(), served.as_os_str()]);
    let service = format!("backend = \"tinker\"\nbase_model = \"base\"\nurls = [\"{}\"]\npath = \"model", server.url);
    let config = config.replace("backend = \"embedded\"\npath = \"model", &service);
    std::fs::write(project.path("t.toml"), config).unwrap();
    let there = project.train("there", &[]);
    for key in ["teacher_kl", "optim/gradient_norm", "optim/loss:sum"] {
        assert_eq!(numbers(&there, key), numbers(&here, key), "{key}");
    }
    assert!(saved(here.last().unwrap(), "adapter_model.safetensors").len() > 100);
}

#[test]
fn whole_distributions_are_learnt_at_a_tinker_service_as_in_this_process() {
    let project = project();
    project.train_adapters(4);
    let losses = ["forward_kl", "reverse_kl"];
    let with_loss = |loss: &str, then: &dyn Fn()| {
        let options = format!("{{ teacher = 'teacher', loss = '{loss}', top_k = 8 }}");
        with(&project, "{ teacher = 'teacher' }", &options, then);
    };
    for loss in losses {
        with_loss(loss, &|| _ = project.train(&format!("{loss}-here"), &[]));
    }
    let config = std::fs::read_to_string(project.path("t.toml")).unwrap();
    let served = project.path("served.toml");
    std::fs::write(&served, "[[models]]\nname = \"base\"\nbackend = \"embedded\"\npath = \"model-1\"\n").unwrap();
    let server = Server::start(project.directory.path(), ["--config".as_ref(), served.as_os_str()]);
    let service =
        format!("backend = \"tinker\"\nbase_model = \"base\"\nurls = [\"{}\"]\npath = \"model-{{", server.url);
    std::fs::write(project.path("t.toml"), config.replace("backend = \"embedded\"\npath = \"model-{", &service))
        .unwrap();
    for loss in losses {
        with_loss(loss, &|| _ = project.train(&format!("{loss}-there"), &[]));
        let steps = |place: &str| -> Vec<Value> {
            let text = std::fs::read_to_string(project.path(&format!("{loss}-{place}/metrics.jsonl"))).unwrap();
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
        };
        let (here, there) = (steps("here"), steps("there"));
        for key in [&format!("teacher_{loss}"), "teacher_kl", "optim/gradient_norm"] {
            let (here, there) = (numbers(&here, key), numbers(&there, key));
            assert_eq!((here.len(), there.len()), (4, 4), "{loss}: {key}");
            // The service adds up in another order, after which others are sampled: the first update is the same.
            assert!((here[0] - there[0]).abs() <= 1e-4 * here[0].abs(), "{loss}: {key}: {here:?} and {there:?}");
        }
    }

    // A teacher that tells fewer likely tokens than are to be learnt is refused before anything is sampled.
    let vllm = VllmOverEngine::start(&project.path("teacher"));
    let hosted = format!("backend = \"vllm\"\nurls = [\"{}\"]\npath = \"teacher\"", vllm.url);
    with(&project, "backend = \"embedded\"\npath = \"teacher\"", &hosted, || {
        for loss in losses {
            let options = format!("{{ teacher = 'teacher', loss = '{loss}', top_k = 21 }}");
            let message = refused(&project, "{ teacher = 'teacher' }", &options);
            assert!(message.contains("distillation.top_k is 21, but the teacher `teacher` tells 20"), "{message}");
            assert_eq!(project.query("rollouts", "refused"), [] as [Value; 0], "before the first sample");
            std::fs::remove_dir_all(project.path("refused")).unwrap();
        }
    });
}

#[test]
fn tasks_have_the_teacher_of_their_tag_and_rewards_count_if_they_are_to() {
    let project = project();
    project.change_config(
        "{ range = [0, 100] }",
        "[{ n = 1, domain = 'odd' }, { n = 2, domain = 'even' }, { n = 3, domain = 'odd' }]",
    );
    project.change_config("{ range = [100, 102] }", "[{ n = 100 }]");
    project.change_config("{ range = [102, 104] }", "[{ n = 102 }]");
    project.change_config("\"{task}\"", "\"{task.n}\"");
    let itself = "[[models]]\nname = \"itself\"\nbackend = \"embedded\"\npath = \"model-1\"\n\n[base]";
    project.change_config("[base]", itself);
    let teachers = "{ task_tag = 'domain', teachers = { odd = 'teacher', even = 'itself' } }";
    project.change_config("{ teacher = 'teacher' }", teachers);
    let steps = project.train("tagged", &["--max-steps", "1"]);
    assert_eq!(numbers(&steps, "teacher_kl/even"), [0.0]);
    assert!(numbers(&steps, "teacher_kl/odd")[0] > numbers(&steps, "teacher_kl")[0]);
    let teachers: BTreeSet<String> = project
        .sql("tagged", "SELECT DISTINCT teacher FROM teacher_logprobs")
        .iter()
        .map(|row| row["teacher"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(teachers, BTreeSet::from(["itself".to_owned(), "teacher".to_owned()]));
    let keys: BTreeSet<&str> =
        steps.iter().flat_map(|step| step.as_object().unwrap().keys()).map(String::as_str).collect();
    for (key, documented) in [("teacher_kl", "teacher_kl"), ("teacher_kl/odd", "teacher_kl/TAG")] {
        assert!(keys.contains(key));
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/how-to/distillation.md");
        assert!(std::fs::read_to_string(docs).unwrap().contains(&format!("| `{documented}` |")), "{documented}");
    }
    // The others by their rewards, in the same update.
    let gradient = |run: &str| {
        let steps = project.train(run, &["--max-steps", "1"]);
        assert_eq!(numbers(&steps, "optim/gradient_norm").len(), 1);
        steps[0].clone()
    };
    with(
        &project,
        "teachers = { odd = 'teacher', even = 'itself' }",
        "teachers = { odd = 'teacher', law = 'itself' }, untaught = 'rewards'",
        || {
            project.change_config("group_size = 1", "group_size = 3");
            let mixed = gradient("mixed");
            assert!(mixed["teacher_kl/odd"].is_number() && mixed["teacher_kl/even"].is_null(), "{mixed}");
            assert_eq!(mixed["teacher_kl"], mixed["teacher_kl/odd"], "of those that have a teacher");
            let taught: Vec<String> = project
                .sql(
                    "mixed",
                    "SELECT DISTINCT r.input FROM teacher_logprobs t JOIN generations g USING (generation_id) \
                 JOIN rollouts r USING (rollout_id)",
                )
                .iter()
                .map(|row| row["input"].to_string())
                .collect();
            assert!(!taught.is_empty() && taught.iter().all(|input| input.contains("odd")), "{taught:?}");
        },
    );
    with(&project, "even = 'itself'", "law = 'itself'", || {
        let ran = Ran::from(project.command("untaught").output().unwrap());
        assert_eq!(ran.code, Some(1));
        let expected =
            "[trainer] distillation.teachers has no teacher for a task whose `domain` decides and that has \"even\"";
        assert!(ran.stderr.contains(expected), "{}", ran.stderr);
        assert_eq!(project.query("rollouts", "untaught"), [] as [Value; 0], "before the first sample");
    });
    // Rewards beside it: with a coefficient they change what is learnt.
    with(&project, "group_size = 1", "group_size = 3", || {
        let alone = project.train("alone", &["--max-steps", "1"]).pop().unwrap();
        project.change_config("{ task_tag", "{ reward_coefficient = 0.5, task_tag");
        let with_rewards = project.train("beside", &["--max-steps", "1"]).pop().unwrap();
        assert!(weights(&alone) != weights(&with_rewards));
        project.change_config("group_size = 3", "group_size = 1");
        let ran = Ran::from(project.command("ungrouped").output().unwrap());
        assert!(ran.stderr.contains("[trainer] group_size is 1"), "{}", ran.stderr);
    });
}

#[test]
fn what_cannot_teach_is_refused_by_name_before_the_first_sample() {
    let project = project();
    let embedded = "backend = \"embedded\"\npath = \"teacher\"";
    let message = refused(&project, "teacher = 'teacher'", "teacher = 'nobody'");
    assert!(message.contains("[trainer] distillation, teacher \"nobody\": there is no such [[models]]"), "{message}");
    let message = refused(&project, embedded, "backend = \"openai\"\nurls = [\"http://127.0.0.1:9\"]");
    assert!(
        message.contains("teacher \"teacher\": its backend is openai, which passes calls on and tells no logprobs"),
        "{message}"
    );
    let message = refused(&project, "distillation = { teacher = 'teacher' }\n", "");
    assert!(message.contains("[trainer] distillation is missing"), "{message}");
    let message = refused(&project, "{ teacher = 'teacher' }", "{ teacher = 'teacher', coefficient = 0.0 }");
    assert!(message.contains("[trainer] distillation.coefficient is 0, but must be"), "{message}");
    assert!(!project.path("refused").exists());

    // llama.cpp samples, and says nothing of a prompt.
    let message =
        refused(&project, embedded, "backend = \"llama-cpp\"\nurls = [\"http://127.0.0.1:9\"]\npath = \"teacher\"");
    assert!(message.contains("the teacher `teacher` ([trainer] distillation)"), "{message}");
    assert!(message.contains("tells no logprobs of a prompt"), "{message}");
    assert_eq!(project.query("rollouts", "refused"), [] as [Value; 0]);

    // A teacher with a tokenizer of its own.
    let tokenizer = std::fs::read_to_string(project.path("teacher/tokenizer.json")).unwrap();
    let mut tokenizer: Value = serde_json::from_str(&tokenizer).unwrap();
    let merges = tokenizer["model"]["merges"].as_array_mut().unwrap();
    let last = merges.len() - 1;
    merges.swap(last, last - 1);
    std::fs::write(project.path("teacher/tokenizer.json"), tokenizer.to_string()).unwrap();
    std::fs::remove_file(project.path("teacher/fulgurite.sha256")).unwrap();
    std::fs::remove_dir_all(project.path("refused")).unwrap();
    let message = refused(&project, "max_steps = 4", "max_steps = 5");
    let expected = "teacher \"teacher\": its tokenizer is not that of the model that is trained";
    assert!(message.contains(expected), "{message}");
}

#[test]
fn a_teacher_may_read_a_system_message_that_the_policy_does_not_get() {
    let project = project();
    project.change_config("{ range = [0, 100] }", "[{ n = 1, how = 'kindly' }, { n = 2, how = 'rudely' }]");
    project.change_config("{ range = [100, 102] }", "[{ n = 100 }]");
    project.change_config("{ range = [102, 104] }", "[{ n = 102 }]");
    project.change_config("\"{task}\"", "\"{task.n}\"");
    let itself = EMBEDDED.replace("model-{seed}", "model-1").replace("backend = \"embedded\"\n", "");
    project.change_config("path = \"teacher\"", &itself);
    let unprompted = project.train("unprompted", &["--max-steps", "1"]);
    assert_eq!(numbers(&unprompted, "teacher_kl"), [0.0]);
    project.change_config("{ teacher = 'teacher' }", "{ teacher = 'teacher', teacher_system = 'Answer {task.how}.' }");
    let steps = project.train("prompted", &[]);
    assert!(numbers(&steps, "teacher_kl").iter().all(|away| *away != 0.0), "the same weights, told otherwise");
    let pairs = recorded(&project, "prompted");
    assert!(!pairs.is_empty());
    let lengths = |pairs: &Value| pairs.as_array().unwrap().len();
    assert!(pairs.iter().all(|(sampler, teacher)| lengths(sampler) == lengths(teacher) && sampler != teacher));
    project.train("resumed", &["--max-steps", "2"]);
    let resumed = project.train("resumed", &["--resume"]).pop().unwrap();
    assert!(weights(&resumed) == weights(steps.last().unwrap()));

    let message = refused(&project, "{task.how}", "{task.tone}");
    assert!(message.contains("distillation.teacher_system asks for the field `tone`, which the task"), "{message}");
    assert_eq!(project.query("rollouts", "refused"), [] as [Value; 0], "before the first sample");
    let agent = "import json, os, urllib.request; \
        body = json.dumps({'model': 'hello', 'max_tokens': 9, 'messages': [{'role': 'system', 'content': 'x'}, {'role': 'user', 'content': 'Say 7'}]}); \
        urllib.request.urlopen(urllib.request.Request(os.environ['OPENAI_BASE_URL'] + '/chat/completions', body.encode(), \
        {'content-type': 'application/json', 'authorization': 'Bearer ' + os.environ['OPENAI_API_KEY']})).read()";
    std::fs::remove_dir_all(project.path("refused")).unwrap();
    let message = refused(&project, "[\"hello-agent\", \"{task.n}\"]", &format!("[\"python3\", \"-c\", \"{agent}\"]"));
    assert!(
        message.contains("is put before conversations that have no system message, and the agent writes one"),
        "{message}"
    );
}

#[test]
fn whole_distributions_of_what_was_sampled_are_learnt_forward_and_in_reverse() {
    let project = project();
    for (loss, key) in [("forward_kl", "teacher_forward_kl"), ("reverse_kl", "teacher_reverse_kl")] {
        let options = format!("{{ teacher = 'teacher', loss = '{loss}', top_k = 8 }}");
        with(&project, "{ teacher = 'teacher' }", &options, || {
            project.change_config("max_steps = 4", "max_steps = 12");
            let steps = project.train(loss, &[]);
            let away = numbers(&steps, key);
            assert_eq!(away.len(), 12);
            assert!(
                away.iter().all(|away| *away > 0.0) && mean(&away[9..]) < 0.6 * mean(&away[..2]),
                "{loss}: {away:?}"
            );
            let whole = steps.last().unwrap();
            project.account(loss, whole);
            let resumed = format!("{loss}-resumed");
            project.train(&resumed, &["--max-steps", "3"]);
            let resumed = project.train(&resumed, &["--resume"]).pop().unwrap();
            assert!(weights(&resumed) == weights(whole), "{loss}");
            assert_eq!(recorded(&project, loss).len(), 12 * 3);
            for (line, key) in [
                ("loss = 'ppo'", "[trainer] loss"),
                ("kl = { coefficient = 1.0 }", "[trainer] kl"),
                ("loss_aggregation = 'token_mean'", "[trainer] loss_aggregation"),
            ] {
                let message = refused(&project, "max_steps = 12", &format!("max_steps = 12\n{line}"));
                let expected = format!("{key} is nothing that distillation.loss = \"{loss}\" takes: leave it out");
                assert!(message.contains(&expected), "{message}");
            }
            let message = refused(&project, "top_k = 8", "top_k = 8, discount = 0.5");
            assert!(message.contains("distillation.discount is of loss = \"policy_gradient\""), "{message}");
        });
    }
    // The teacher's own distribution has nothing to teach, in either direction.
    let itself = EMBEDDED.replace("model-{seed}", "model-1").replace("backend = \"embedded\"\n", "");
    project.change_config("path = \"teacher\"", &itself);
    project.change_config("{ teacher = 'teacher' }", "{ teacher = 'teacher', loss = 'reverse_kl', top_k = 8 }");
    let steps = project.train("self", &["--max-steps", "1"]);
    assert!(numbers(&steps, "teacher_reverse_kl")[0].abs() < 1e-6 && numbers(&steps, "optim/gradient_norm")[0] < 1e-3);
}
