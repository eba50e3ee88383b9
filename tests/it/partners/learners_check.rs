//! `fulgurite learners check`, and what a run asks of its service before it begins.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{Ran, Server, fulgurite, tiny_model, tiny_weights};
use crate::tinker_host::{Fault, TinkerKind};
use serde_json::{Value, json};

use super::tinker_models::{CONFIG, Host};

/// All findings of a check, by what was tried; and how it ended.
fn check(url: &str, arguments: &[&str]) -> (BTreeMap<String, Value>, Ran) {
    let mut command = fulgurite(["learners", "check", url, "--json"]);
    let ran = Ran::from(command.args(arguments).output().unwrap());
    let found = object(&ran);
    let findings = found["findings"].as_array().unwrap().iter();
    (findings.map(|finding| (finding["check"].as_str().unwrap().to_owned(), finding.clone())).collect(), ran)
}

/// The one object that a check prints.
fn object(ran: &Ran) -> Value {
    serde_json::from_str(ran.stdout.trim()).unwrap_or_else(|_| panic!("{}{}", ran.stdout, ran.stderr))
}

fn verdicts(findings: &BTreeMap<String, Value>) -> BTreeMap<&str, &str> {
    findings.iter().map(|(check, finding)| (check.as_str(), finding["verdict"].as_str().unwrap())).collect()
}

#[test]
fn a_server_of_ours_agrees_with_the_engine_on_every_loss() {
    let directory = tempfile::tempdir().unwrap();
    let model = tiny_model(directory.path(), 128);
    let flag = format!("tiny=embedded:{}", model.display());
    let server = Server::start(directory.path(), ["--model", &flag]);
    let (findings, ran) = check(&server.url, &["--path", model.to_str().unwrap()]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    for (check, verdict) in verdicts(&findings) {
        assert_eq!(verdict, "ok", "{check}: {}", findings[check]);
    }
    for check in ["cross_entropy", "importance_sampling", "ppo", "cispo", "gspo", "dro"] {
        let finding = &findings[&format!("loss {check}")];
        assert_eq!(finding["logprob_difference"], 0.0, "{finding}");
        assert!(finding["update_cosine"].as_f64().unwrap() > 0.999, "{finding}");
        // One gradient, but for rounding.
        let has_slopes = !["cross_entropy", "gspo"].contains(&check);
        assert_eq!(finding["slope_cosine"].as_f64().is_some_and(|cosine| cosine > 0.99), has_slopes, "{finding}");
    }
    for check in ["learning rate", "ppo clip thresholds", "cispo clip thresholds", "gspo clip thresholds", "dro beta"] {
        assert!(findings.contains_key(check), "{check}");
    }
    assert_eq!(findings["weights for the sampler"]["logprob_difference"], 0.0);
    // Nothing is left there.
    let runs = server.get("/api/v1/checkpoints").expect(200);
    assert_eq!(runs["checkpoints"], json!([]), "{runs}");
}

#[test]
fn other_weights_than_the_servers_are_found() {
    let directory = tempfile::tempdir().unwrap();
    let model = tiny_model(directory.path(), 128);
    let other = tiny_weights(directory.path(), 128, "other", 2);
    let flag = format!("tiny=embedded:{}", model.display());
    let server = Server::start(directory.path(), ["--model", &flag]);
    let (findings, ran) = check(&server.url, &["--path", other.to_str().unwrap()]);
    assert_eq!(ran.code, Some(1));
    let verdicts = verdicts(&findings);
    assert_eq!((verdicts["forward"], verdicts["loss ppo"], verdicts["rank 1"]), ("wrong", "wrong", "ok"));
    assert!(ran.stderr.contains("loss cross_entropy"), "{}", ran.stderr);
}

#[test]
fn a_server_that_refuses_some_things_and_has_nonsense_losses_is_told_of_by_name() {
    let kind = TinkerKind { refused_losses: vec!["ppo", "dro"], greatest_rank: 32, ..TinkerKind::default() };
    let host = Host::start(kind);
    let (findings, ran) = check(&host.server.url, &[]);
    assert_eq!(ran.code, Some(1));
    let verdicts = verdicts(&findings);
    assert_eq!((verdicts["loss ppo"], verdicts["loss dro"]), ("refused", "refused"));
    // Its updates are the same at every rank, and with every learning rate.
    assert_eq!((verdicts["rank 32"], verdicts["rank 64"]), ("ignored", "refused"));
    assert_eq!((verdicts["learning rate"], verdicts["cispo clip thresholds"]), ("wrong", "wrong"));
    for check in ["learning rate", "cispo clip thresholds"] {
        assert!(findings[check]["message"].as_str().unwrap().ends_with("is ignored"), "{}", findings[check]);
    }
    assert_eq!(object(&ran)["remains"]["models"], json!([]), "{}", ran.stdout);
    // It has no way to delete checkpoints.
    let kept = object(&ran)["remains"]["checkpoints"].as_array().unwrap().len();
    assert_eq!(kept, 2, "{}", ran.stdout);
    let message = findings["loss ppo"]["message"].as_str().unwrap();
    assert!(message.contains("the loss ppo is not supported"), "{message}");
    // It says 100 for each datum, whatever the logprobs are.
    let loss = &findings["loss importance_sampling"];
    assert_eq!((verdicts["loss importance_sampling"], &loss["loss"]), ("wrong", &json!(400.0)), "{loss}");
    assert_eq!((verdicts["unknown loss"], verdicts["gradient clipping"]), ("wrong", "ignored"));
    assert_eq!(verdicts["train_mlp = false"], "ignored");
    assert_eq!(verdicts["save and load"], "ok");
    assert_eq!(host.tinker.violations(), Vec::<String>::new());
}

#[test]
fn a_server_that_does_not_answer_ends_a_check_in_time() {
    let host = Host::start(TinkerKind { hangs: true, ..TinkerKind::default() });
    let started = Instant::now();
    let (findings, ran) = check(&host.server.url, &["--timeout", "1"]);
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    assert_eq!((ran.code, verdicts(&findings)["forward"]), (Some(1), "failed"), "{findings:?}");
}

/// Unloads that a service was asked for.
fn unloads(host: &Host) -> usize {
    host.server.posts("/api/v1/unload_model").len()
}

#[test]
fn a_model_of_a_probe_that_was_not_answered_is_removed_and_what_stays_is_named() {
    let host = Host::start(TinkerKind { hangs: true, ..TinkerKind::default() });
    let (_, ran) = check(&host.server.url, &["--timeout", "1"]);
    assert_eq!((unloads(&host), &object(&ran)["remains"]["models"]), (1, &json!([])));

    let host = Host::start(TinkerKind { hangs: true, ..TinkerKind::default() });
    for _ in 0..2 {
        host.tinker.fail("unload_model", Fault::status(403, json!({ "detail": "not yours" })));
    }
    let ran = Ran::from(fulgurite(["learners", "check", host.server.url.as_str(), "--timeout", "1"]).output().unwrap());
    assert_eq!(ran.code, Some(1));
    assert!(ran.stdout.contains("left at the server, which did not remove it: model s1:train:0"), "{}", ran.stdout);
}

#[test]
fn an_interrupted_check_removes_its_model() {
    let host = Host::start(TinkerKind { hangs: true, ..TinkerKind::default() });
    let mut command = fulgurite(["learners", "check", host.server.url.as_str(), "--json"]);
    let running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while host.server.posts("/api/v1/forward_backward").is_empty() {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(Command::new("kill").args(["-INT", &running.id().to_string()]).status().unwrap().success());
    let ran = Ran::from(running.wait_with_output().unwrap());
    assert_eq!((ran.code, object(&ran)["error"].as_str()), (Some(1), Some("interrupted")), "{}", ran.stderr);
    assert_eq!((unloads(&host), &object(&ran)["remains"]["models"]), (1, &json!([])));
}

#[test]
fn a_server_that_ends_ends_the_check_with_one_error() {
    let host = Host::start(TinkerKind { passes: 4, ..TinkerKind::default() });
    let (findings, ran) = check(&host.server.url, &["--timeout", "10"]);
    assert_eq!(ran.code, Some(1));
    // The first pass is the forward probe's, the others of a loss each are a pass and one after its update.
    assert_eq!(verdicts(&findings).into_keys().collect::<Vec<_>>(), ["forward", "loss cross_entropy"]);
    let error = object(&ran)["error"].as_str().unwrap().to_owned();
    assert!(error.starts_with("the check has ended early: the model host is not available: "), "{error}");
    assert!(ran.stderr.contains("error: the check has ended early"), "{}", ran.stderr);
}

#[test]
fn a_check_that_cannot_begin_prints_an_object_too() {
    let command = fulgurite(["learners", "check", "http://127.0.0.1:9", "--timeout", "2", "--json"]).output();
    let ran = Ran::from(command.unwrap());
    let found = object(&ran);
    assert_eq!((ran.code, &found["url"]), (Some(1), &json!("http://127.0.0.1:9")), "{found}");
    let error = found["error"].as_str().unwrap();
    assert!(error.starts_with("the service cannot be checked: ") && error.contains("127.0.0.1:9"), "{error}");
}

#[test]
fn a_check_of_what_is_no_server_says_so() {
    let ran = Ran::from(fulgurite(["learners", "check", "http://127.0.0.1:9", "--timeout", "2"]).output().unwrap());
    let message = ran.failure(Path::new("/nowhere"));
    assert!(message.starts_with("error: the service cannot be checked\n  caused by: "), "{message}");
}

/// How a start ends that the service of such a kind does not suit; no run is begun.
fn refused_start(kind: TinkerKind, from: &str, to: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    tiny_model(directory.path(), 64);
    let host = Host::start(kind);
    let config = CONFIG.replace("URL", &format!("{}/prefix", host.server.url));
    assert!(config.contains(from), "{from}");
    std::fs::write(directory.path().join("t.toml"), config.replace(from, to)).unwrap();
    let mut command = fulgurite(["train", "--json"]);
    command.arg(directory.path().join("t.toml")).arg("--run-directory").arg(directory.path().join("run"));
    let message = Ran::from(command.output().unwrap()).failure(directory.path());
    assert!(!directory.path().join("run").exists(), "{message}");
    message.replace(&host.server.url, "[service]")
}

#[test]
fn a_key_that_a_service_refuses_is_named_with_its_variable() {
    let with_key = || TinkerKind { key: Some("tml-other".into()), ..TinkerKind::default() };
    let named = "lora_rank = 8\napi_key_env = \"CARGO_PKG_NAME\"";
    let refused = refused_start(with_key(), "lora_rank = 8", named);
    let words =
        "model `hello`: the service at [service]/prefix refuses the key of the environment variable CARGO_PKG_NAME";
    assert!(refused.contains(words) && !refused.contains("loss"), "{refused}");
    let refused = refused_start(with_key(), "lora_rank = 8", "lora_rank = 8");
    assert!(refused.contains("needs a key: name the environment variable that holds it (api_key_env)"), "{refused}");
}

#[test]
fn what_a_service_does_not_take_is_said_before_a_run_begins() {
    let without_ppo = || TinkerKind { refused_losses: vec!["ppo"], ..TinkerKind::default() };
    insta::assert_snapshot!(refused_start(without_ppo(), "[trainer]", "[trainer]\nloss = \"ppo\""), @r#"
    error: [directory]/t.toml
      caused by: [trainer] loss = "ppo": the service at [service]/prefix does not take it: the model host refuses the request: the loss ppo is not supported; `fulgurite learners check [service]/prefix` shows what it takes
    "#);
    let small = || TinkerKind { greatest_rank: 4, ..TinkerKind::default() };
    insta::assert_snapshot!(refused_start(small(), "lora_rank = 8", "lora_rank = 8"), @r#"
    error: [directory]/t.toml
      caused by: model `hello`: lora_rank = 8 (rank 1 is taken): the service at [service]/prefix does not take it: the model host refuses the request: ranks above 4 are not supported; `fulgurite learners check [service]/prefix` shows what it takes
    "#);
    let dro = "[trainer]\nloss = \"dro\"\nloss_parameters = { beta = 0.1 }";
    insta::assert_snapshot!(refused_start(TinkerKind::default(), "[trainer]", dro), @r#"
    error: [directory]/t.toml
      caused by: [trainer] loss = "dro": the service at [service]/prefix does not take it: the Tinker API has no mask, and DRO's loss is not 0 where nothing was sampled; `fulgurite learners check [service]/prefix` shows what it takes
    "#);
}
