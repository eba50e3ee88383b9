//! Weights that the servers of one PostgreSQL database have in common. Without one, as `tests/postgres` starts it, there is
//! nothing to test.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::project::{Project, SMALL, UNEVEN};
use crate::common::{HttpAnswer, Ran, Server, eventually, fulgurite, model_flag, tiny_model, tiny_weights};
use crate::test_database::TestDatabase;
use serde_json::{Value, json};
use tempfile::TempDir;

const WEIGHTS: &str = "/v1/fulgurite/models/tiny/weights";

/// Servers of one database with one model.
struct Shared {
    database: TestDatabase,
    home: TempDir,
    model: String,
    _runtime: tokio::runtime::Runtime,
}

impl Shared {
    /// `None` where there is no PostgreSQL.
    fn new() -> Option<Self> {
        let _runtime = tokio::runtime::Runtime::new().unwrap();
        let database = _runtime.block_on(TestDatabase::new());
        let home = TempDir::new().unwrap();
        let model = model_flag("tiny", &tiny_model(home.path(), 64));
        database.is_postgres().then_some(Self { database, home, model, _runtime })
    }

    /// A server with files of its own, and this in its config.
    fn serve(&self, name: &str, config: &str) -> Server {
        let directory = self.home.path().join(name);
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("serve.toml"), config).unwrap();
        Server::start_on(&self.database.url, &directory, ["--config", "serve.toml", "--model", &self.model])
    }

    fn weights(&self, seed: u64) -> PathBuf {
        tiny_weights(self.home.path(), 64, &format!("weights-{seed}"), seed)
    }
}

fn call(server: &Server) -> HttpAnswer {
    let request =
        json!({ "model": "tiny", "prompt": "Say", "temperature": 1, "seed": 7, "max_tokens": 4, "logprobs": 1 });
    server.post("/v1/completions", &request)
}

/// What a server answers, and the version that the answer is recorded with.
fn answer(server: &Server) -> (Value, Value) {
    let answer = call(server).expect(200);
    let calls = server.query("generations");
    let recorded = calls.iter().find(|call| call["generation_id"] == answer["id"]).unwrap();
    (answer["choices"][0]["logprobs"].clone(), recorded["weights_versions"][0]["version"].clone())
}

/// Version, state and message of the model at a server, as all servers know it.
fn known_of(server: &Server, observer: &Server) -> Value {
    let servers = observer.get("/v1/fulgurite/servers").expect(200);
    let found = servers.as_array().unwrap().iter().find(|known| known["url"] == json!(server.url)).cloned();
    found.unwrap_or_default()
}

fn until_it_has(server: &Server, version: u64) {
    eventually("the newest weights", || {
        let state = server.get("/v1/fulgurite/models/tiny").expect(200);
        (state["weights_version"] == version && state["weights_state"] == "serving").then_some(())
    });
}

fn signal(server: &Server, name: &str) {
    let sent = Command::new("kill").args([name, &server.process.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

fn hide(weights: &Path) -> PathBuf {
    let hidden = weights.with_extension("hidden");
    std::fs::rename(weights, &hidden).unwrap();
    hidden
}

#[test]
fn weights_that_are_posted_to_one_server_are_behind_the_model_of_all() {
    let Some(shared) = Shared::new() else { return };
    let (here, mut there) = (shared.serve("here", ""), shared.serve("there", ""));
    let base = answer(&here);
    assert_eq!((&base, &base.1), (&answer(&there), &json!(0)));
    let (second, third) = (shared.weights(2), shared.weights(3));
    let posted = here.post(WEIGHTS, &json!({ "model": second })).expect(200);
    assert_eq!(posted["weights_version"], 1, "{posted}");
    until_it_has(&there, 1);
    let new = answer(&here);
    assert!(new == answer(&there) && new.0 != base.0 && new.1 == 1, "{new:?} and {base:?}");

    // A number that is taken, and an older one.
    let refused = there.post(WEIGHTS, &json!({ "version": 1, "model": third })).expect(409);
    assert_eq!(refused["error"]["code"], "version_names_other_weights", "{refused}");
    let refused = there.post(WEIGHTS, &json!({ "version": 0, "model": shared.home.path().join("model") })).expect(409);
    assert_eq!(refused["error"]["code"], "weights_in_place", "{refused}");
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(message.contains("has version 1, and version 0 may not") && message.contains("\"anything\""), "{message}");
    there.post(WEIGHTS, &json!({ "version": 5, "model": third, "replaces": 4 })).expect(409);
    assert_eq!((answer(&here), answer(&there)), (new.clone(), new.clone()));

    // One that was killed, and one that joins, answer with them from the first call on.
    there.process.kill();
    there = shared.serve("there", "");
    let mut late = shared.serve("late", "");
    assert_eq!((answer(&there), answer(&late)), (new.clone(), new.clone()));
    there.post(WEIGHTS, &json!({ "version": 5, "model": third, "replaces": 1 })).expect(200);
    for server in [&here, &late] {
        until_it_has(server, 5);
        assert_eq!(answer(server), answer(&there));
    }
    let back = json!({ "version": 1, "model": second, "replaces": "anything", "cause": "rollback" });
    late.post(WEIGHTS, &back).expect(200);
    [&here, &there].into_iter().for_each(|server| until_it_has(server, 1));
    assert_eq!((answer(&here), answer(&there)), (new.clone(), new.clone()));
    assert_eq!(here.get("/v1/fulgurite/publications").expect(200)[0]["cause"], "rollback");

    // Who leaves is forgotten.
    eventually("what the server that joined reports", || (known_of(&late, &here)["version"] == 1).then_some(()));
    assert_eq!(late.process.terminate(), Some(0));
    assert_eq!(known_of(&late, &here), Value::Null);
}

#[test]
fn a_server_that_cannot_load_the_newest_weights_says_so_and_takes_no_calls_if_told() {
    let Some(shared) = Shared::new() else { return };
    let here = shared.serve("here", "");
    let there = shared.serve("there", "");
    let mut strict = shared.serve("strict", "[server]\nwithout_new_weights = \"refuse\"\n");
    let base = answer(&there);
    let weights = shared.weights(2);
    [&there, &strict].into_iter().for_each(|server| signal(server, "-STOP"));
    here.post(WEIGHTS, &json!({ "version": 4, "model": weights })).expect(200);
    let hidden = hide(&weights);
    [&there, &strict].into_iter().for_each(|server| signal(server, "-CONT"));
    for (server, state) in [(&there, "behind"), (&strict, "refusing")] {
        let known = eventually("what the server says", || {
            Some(known_of(server, &here)).filter(|known| known["state"] == state)
        });
        let message = known["message"].as_str().unwrap();
        assert!(
            known["version"] == 0 && message.starts_with("version 4: ") && message.contains("weights-2"),
            "{known}"
        );
        let health = server.get("/healthz").expect(200);
        assert_eq!((&health["status"], &health["models"]["tiny"]["state"]), (&json!("ok"), &json!(state)));
        assert!(!health.to_string().contains("weights-2"), "who has no key is told no paths: {health}");
    }
    assert_eq!(answer(&there), base, "it goes on with those that it has");
    let refused = call(&strict).expect(503);
    assert_eq!(refused["error"]["code"], "without_new_weights", "{refused}");
    let message = json!({ "model": "tiny", "max_tokens": 4, "messages": [{ "role": "user", "content": "Say" }] });
    let refused = strict.post("/v1/messages", &message).expect(503);
    assert_eq!(refused["type"], "error", "in the dialect of the call: {refused}");
    // The same after a restart: it is not held for ever.
    strict.process.kill();
    strict = shared.serve("strict", "[server]\nwithout_new_weights = \"refuse\"\n");
    call(&strict).expect(503);

    std::fs::rename(hidden, &weights).unwrap();
    [&there, &strict].into_iter().for_each(|server| until_it_has(server, 4));
    let new = answer(&here);
    assert!(answer(&there) == new && answer(&strict) == new && new.1 == 4);
}

#[test]
fn a_rollback_reaches_every_server_and_says_which_have_followed() {
    let Some(shared) = Shared::new() else { return };
    let project = Project::new(UNEVEN, &SMALL.replace("max_steps = 5", "max_steps = 3\nkeep_checkpoints = 9"));
    project.train("run", &[]);
    let model = model_flag("hello", &project.path("model-1"));
    let servers = ["here", "there"].map(|name| {
        let directory = shared.home.path().join(name);
        std::fs::create_dir(&directory).unwrap();
        Server::start_on(&shared.database.url, &directory, ["--model", &model])
    });
    let [here, there] = &servers;
    let rollback = |checkpoint: &str| {
        let mut command = fulgurite(["model", "rollback", "run", "--checkpoint", checkpoint, "--server", &here.url]);
        let ran = Ran::from(command.current_dir(project.directory.path()).output().unwrap());
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
        ran.stdout
    };
    let version = |server: &Server| server.get("/v1/fulgurite/models/hello").expect(200)["weights_version"].clone();
    servers.iter().for_each(|server| {
        eventually("its first report", || (known_of(server, here)["version"] == 0).then_some(()));
    });
    for (checkpoint, expected) in [("3", "version 3 in place of version 0"), ("2", "version 2 in place of version 3")] {
        let stdout = rollback(checkpoint);
        assert!(stdout.starts_with(&format!("hello: {expected}\n")), "{stdout}");
        for server in &servers {
            let line = stdout.lines().find(|line| line.contains(&server.url)).unwrap_or_else(|| panic!("{stdout}"));
            let words: Vec<&str> = line.split_whitespace().collect();
            assert_eq!(words[1..], [checkpoint, "serving"], "{stdout}");
        }
        assert_eq!((version(here), version(there)), (checkpoint.parse().unwrap(), checkpoint.parse().unwrap()));
    }
    // One that does not follow is named; nobody waits for it for ever.
    signal(there, "-STOP");
    let stdout = rollback("1");
    signal(there, "-CONT");
    let line = stdout.lines().find(|line| line.contains(&there.url)).unwrap();
    assert_eq!(line.split_whitespace().nth(1), Some("2"), "{stdout}");
    eventually("the server that was asleep", || (version(there) == 1).then_some(()));
    let named = here.get("/v1/fulgurite/weights?model=hello").expect(200);
    let steps: Vec<_> = named.as_array().unwrap().iter().map(|named| named["step"].clone()).collect();
    assert_eq!(steps, [Value::Null, json!(1), json!(2), json!(3)], "{named}");
}

#[test]
fn models_of_one_name_with_other_weights_get_versions_of_their_own() {
    let Some(shared) = Shared::new() else { return };
    let here = shared.serve("here", "");
    let flag = model_flag("tiny", &shared.weights(9));
    let directory = shared.home.path().join("there");
    std::fs::create_dir(&directory).unwrap();
    let there = Server::start_on(&shared.database.url, &directory, ["--model", &flag]);
    let (here, there) = (answer(&here), answer(&there));
    assert!(here.0 != there.0 && (&here.1, &there.1) == (&json!(0), &json!(1)), "{here:?} {there:?}");
}

#[test]
fn a_rollback_through_a_server_that_lags_behind_goes_back_from_what_is_published() {
    let Some(shared) = Shared::new() else { return };
    let project = Project::new(UNEVEN, &SMALL.replace("max_steps = 5", "max_steps = 3\nkeep_checkpoints = 9"));
    project.train("run", &[]);
    let model = model_flag("hello", &project.path("model-1"));
    let [here, there] = ["here", "there"].map(|name| {
        let directory = shared.home.path().join(name);
        std::fs::create_dir(&directory).unwrap();
        Server::start_on(&shared.database.url, &directory, ["--model", &model])
    });
    let rollback = |server: &Server, arguments: &[&str]| {
        let mut command = fulgurite(["model", "rollback", "run", "--server", &server.url]);
        let ran = Ran::from(command.current_dir(project.directory.path()).args(arguments).output().unwrap());
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
        ran.stdout
    };
    signal(&there, "-STOP");
    rollback(&here, &["--checkpoint", "3"]);
    hide(&project.path("run/rolled-back/000003"));
    signal(&there, "-CONT");
    eventually("what the server says", || (known_of(&there, &here)["state"] == "behind").then_some(()));
    let stdout = rollback(&there, &[]);
    assert!(stdout.starts_with("hello: version 2 in place of version 3\n"), "{stdout}");
}

#[test]
fn an_adapter_after_whole_weights_has_one_base_at_every_server_or_is_refused() {
    let Some(shared) = Shared::new() else { return };
    let project = Project::new(UNEVEN, &SMALL.replace("max_steps = 5", "max_steps = 1"));
    project.train("whole", &[]);
    project.train_adapters(4);
    project.train("lora", &[]);
    let serve = |name: &str, model: &str| {
        let directory = shared.home.path().join(name);
        std::fs::create_dir(&directory).unwrap();
        let model = model_flag("hello", &project.path(model));
        Server::start_on(&shared.database.url, &directory, ["--model", &model])
    };
    let answers = |server: &Server| -> Vec<Value> {
        let ask = |seed: u64| {
            let request = json!({ "model": "hello", "prompt": "Say", "temperature": 1, "seed": seed, "max_tokens": 4, "logprobs": 1 });
            server.post("/v1/completions", &request).expect(200)["choices"][0]["logprobs"].clone()
        };
        (0..5).map(ask).collect()
    };
    let publish = |server: &Server, run: &str| {
        let mut command = fulgurite(["model", "rollback", run, "--checkpoint", "newest", "--server", &server.url]);
        let ran = Ran::from(command.current_dir(project.directory.path()).output().unwrap());
        assert_eq!(ran.code, Some(0), "{ran:?}");
    };
    let has_version = |server: &Server, version: &Value| {
        eventually("the newest weights", || {
            let state = server.get("/v1/fulgurite/models/hello").expect(200);
            (state["weights_version"] == *version && state["weights_state"] == "serving").then_some(())
        });
    };
    let published = |server: &Server| server.get("/v1/fulgurite/publications").expect(200)[0].clone();
    let (here, there) = (serve("here", "model-1"), serve("there", "model-1"));
    publish(&here, "whole");
    has_version(&there, &published(&here)["version"]);
    let whole = answers(&there);
    publish(&here, "lora");
    let adapter = published(&here);
    has_version(&there, &adapter["version"]);
    let late = serve("late", "model-1");
    assert!(answers(&here) == answers(&late) && answers(&there) == answers(&late) && answers(&late) != whole);

    // A server of another model has no such base.
    let other = serve("other", "whole/checkpoints/000001");
    let known =
        eventually("what the server says", || Some(known_of(&other, &here)).filter(|known| known["state"] == "behind"));
    let base = adapter["base_id"].as_str().unwrap();
    assert!(known["message"].as_str().unwrap().contains(base), "{known}");
    assert_eq!(other.get("/healthz").expect(200)["models"]["hello"]["state"], "behind");
    let path = "/v1/fulgurite/models/hello/weights";
    let posted = json!({ "adapter": adapter["source"]["adapter"], "base": base, "replaces": "anything" });
    assert_eq!(other.post(path, &posted).expect(422)["error"]["code"], "other_base");
    let whole = json!({ "model": project.path("model-1"), "base": base });
    here.post(path, &whole).expect(400);
    assert_eq!(published(&here), adapter);
}
