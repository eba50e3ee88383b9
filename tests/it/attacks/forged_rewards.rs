//! Rewards that somebody else than the judge gives.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};

use crate::common::project::{EMBEDDED, UNEVEN_GRADE, small_run};
use crate::common::{Ran, Server, client, fulgurite, program, text};

/// A small run; whoever plays is graded by how long the answer is.
fn config(agent: &[String]) -> String {
    let runner = format!("command = {}\n{UNEVEN_GRADE}", json!(agent));
    let trainer = "groups_per_batch = 2\ngroup_size = 3\nmax_steps = 2\nlearning_rate = 1e-3\nreward_bounds = [0, 2]\n";
    small_run(EMBEDDED, &runner, trainer)
}

/// The lines of a run's JSON, without what depends on the clock or on where the run is.
fn train(directory: &Path, name: &str, agent: &[String]) -> (Vec<Value>, Vec<u8>) {
    let path = directory.join(format!("{name}.toml"));
    std::fs::write(&path, config(agent)).unwrap();
    let mut command = fulgurite(["train", "--json"]);
    command.arg(&path).arg("--run-directory").arg(directory.join(name));
    let mut lines = Ran::from(command.output().unwrap()).json_lines();
    let checkpoint = text(&lines.last().unwrap()["checkpoint"]);
    let weights = std::fs::read(Path::new(&checkpoint).join("model.safetensors")).unwrap();
    lines.pop();
    for line in &mut lines {
        line.as_object_mut().unwrap().retain(|key, _| !key.starts_with("time/"));
    }
    (lines, weights)
}

/// What the doors answered, by their names.
fn notes(folder: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let mut answers: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "notes") {
            for line in std::fs::read_to_string(&path).unwrap().lines() {
                let (way, status) = line.split_once(' ').unwrap();
                answers.entry(way.to_owned()).or_default().insert(status.to_owned());
            }
        }
    }
    answers
}

#[test]
fn an_agent_that_tries_every_door_trains_the_same_weights_as_an_honest_one() {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path().join("notes");
    std::fs::create_dir(&folder).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/attacks/forge_rewards.py");
    let agent = program("hello-agent");
    let honest = [agent.clone(), "{task}".to_owned()];
    let forging = ["python3", script, folder.to_str().unwrap(), &agent, "{task}"].map(str::to_owned);

    let (expected, honest_weights) = train(directory.path(), "honest", &honest);
    let (metrics, weights) = train(directory.path(), "forging", &forging);
    assert_eq!(metrics, expected);
    assert!(weights == honest_weights, "the forged rewards moved the weights");

    let answers = notes(&folder);
    let refused = BTreeSet::from(["403".to_owned()]);
    for way in ["own_key", "no_key", "claim", "forged_key", "rollout", "event", "others_key"] {
        assert_eq!(answers[way], refused, "{way}");
    }
    // A child that outlives its agent is killed with the attempt, mostly before it says anything.
    assert!(answers.get("late").is_none_or(|answers| *answers == refused), "{answers:?}");
    // Spans are kept whatever they say; their rewards do not count.
    assert_eq!((&answers["span"], &answers["trace"]), (&["201".to_owned()].into(), &["200".to_owned()].into()));

    let rewards = fulgurite(["rewards", "--all", "--json", "--run"]).arg(directory.path().join("forging")).output();
    let rewards = Ran::from(rewards.unwrap()).json_lines();
    let givers: BTreeSet<String> = rewards.iter().map(|reward| text(&reward["giver"])).collect();
    assert_eq!(givers, BTreeSet::from(["grader".to_owned()]));
    assert!(rewards.iter().all(|reward| reward["reward"]["value"].as_f64().unwrap() <= 2.0), "{rewards:?}");
}

/// Starts a rollout, and gives its path and its agent's key.
fn start(server: &Server) -> (String, String) {
    let started = client().post(format!("{}/v1/agl/rollouts", server.url)).json(&json!({ "input": 1 })).send().unwrap();
    let key = started.headers()["x-fulgurite-key"].to_str().unwrap().to_owned();
    let started: Value = serde_json::from_str(&started.text().unwrap()).unwrap();
    let (rollout, attempt) = (text(&started["rollout_id"]), text(&started["attempt"]["attempt_id"]));
    (format!("/rollout/{rollout}/attempt/{attempt}"), key)
}

fn reward(server: &Server, path: &str, key: Option<&str>, value: f64) -> (u16, String) {
    let request = client().post(format!("{}{path}/reward", server.url)).json(&json!({ "value": value }));
    let request = key.iter().fold(request, |request, key| request.bearer_auth(key));
    let reply = request.send().unwrap();
    (reply.status().as_u16(), reply.text().unwrap())
}

#[test]
fn a_key_rewards_its_own_attempt_alone_and_only_until_that_ends() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), [] as [&str; 0]);
    let ((path, key), (_, others)) = (start(&server), start(&server));
    let (status, refused) = reward(&server, &path, Some(&others), 3000.0);
    assert_eq!(status, 403, "{refused}");
    assert!(refused.contains("the API key is of the rollout"), "{refused}");
    assert_eq!(reward(&server, &path, Some(&key), 1.0).0, 201);
    let of_api = path.replace("/rollout/", "/v1/agl/rollouts/").replace("/attempt/", "/attempts/");
    server.post(&of_api, &json!({ "status": "succeeded" })).expect(200);
    let (status, refused) = reward(&server, &path, Some(&key), 3000.0);
    assert_eq!(status, 403, "{refused}");
    assert!(refused.contains("has ended (succeeded)"), "{refused}");
    // Whoever judges what others did later brings no agent's key.
    assert_eq!(reward(&server, &path, None, 0.5).0, 201);
    let rewards = server.query("rewards");
    let given: Vec<_> = rewards.iter().map(|reward| (&reward["reward"]["value"], &reward["giver"])).collect();
    assert_eq!(given, [(&json!(1.0), &json!("agent")), (&json!(0.5), &json!("unknown"))]);
}
