//! The official SDK of the Tinker API against the real command.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::{Ran, Server, client, eventually, text, tiny_model};
use fulgurite_renderers::Tokenizer;
use serde_json::{Value, json};

/// Serves an untrained model as `tiny`.
fn start(directory: &Path) -> (Server, PathBuf) {
    start_with("", directory)
}

/// As [`start`], with these keys of `[tinker_server]`.
fn start_with(options: &str, directory: &Path) -> (Server, PathBuf) {
    let model = tiny_model(directory, 128);
    let config = directory.join("c.toml");
    let models = "[[models]]\nname = \"tiny\"\nbackend = \"embedded\"\npath = \"model\"\n";
    std::fs::write(&config, format!("[tinker_server]\n{options}\n{models}")).unwrap();
    (Server::start(directory, ["--config".as_ref(), config.as_os_str()]), model.canonicalize().unwrap())
}

/// The newest official SDK and one from before messages had to be binary; or the one of `TINKER_PYTHON`.
fn sdks() -> Vec<Sdk> {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("target");
    let made = ["tinker", "tinker-0.24"].map(|name| target.join(name).join("bin/python"));
    std::env::var_os("TINKER_PYTHON")
        .map_or_else(|| made.to_vec(), |python| vec![python.into()])
        .into_iter()
        .map(Sdk)
        .collect()
}

/// An official SDK, by its Python.
struct Sdk(PathBuf);

impl Sdk {
    /// What a script of `tests/tinker` finds out.
    fn run<S: AsRef<OsStr>>(&self, script: &str, server: &Server, arguments: impl IntoIterator<Item = S>) -> Value {
        assert!(self.0.exists(), "tests/setup makes {}", self.0.display());
        let mut client = Command::new(&self.0);
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tinker").join(script);
        client.arg(script).arg(&server.url).args(arguments).stdin(Stdio::null());
        client.env("PYTHONDONTWRITEBYTECODE", "1").env("TINKER_TELEMETRY", "0").env("HF_HUB_OFFLINE", "1");
        let ran = Ran::from(client.output().unwrap());
        assert_eq!(ran.code, Some(0), "{}: {}{}", self.0.display(), ran.stdout, ran.stderr);
        serde_json::from_str(ran.stdout.lines().last().unwrap()).unwrap()
    }
}

#[test]
fn official_sdks_train_and_sample_all_weights_and_adapters() {
    for (sdk, rank) in sdks().iter().flat_map(|sdk| [(sdk, "0"), (sdk, "8")]) {
        let directory = tempfile::tempdir().unwrap();
        let (server, model) = start_with("repeated_seeds = \"literal\"", directory.path());
        let found = sdk.run("every_call.py", &server, [model.as_os_str(), rank.as_ref()]);
        for (what, words) in [
            ("loss", "needs the datum's provenance"),
            ("step", "the gradient was dropped"),
            ("base", "no base model `other`"),
            ("prompt", "context length"),
        ] {
            assert!(found["refused"][what].as_str().unwrap().contains(words), "{found}");
        }
    }
}

#[test]
fn official_sdks_compute_every_loss() {
    for sdk in sdks() {
        let directory = tempfile::tempdir().unwrap();
        let (server, _) = start(directory.path());
        sdk.run::<&str>("losses.py", &server, []);
    }
}

#[test]
fn official_sdks_see_what_there_is_and_change_it() {
    for sdk in sdks() {
        let directory = tempfile::tempdir().unwrap();
        let (server, _) = start(directory.path());
        sdk.run::<&str>("management.py", &server, []);
    }
}

#[test]
fn official_sdks_go_on_after_the_server_was_killed() {
    for (sdk, rank) in sdks().iter().flat_map(|sdk| [(sdk, "0"), (sdk, "4")]) {
        let directory = tempfile::tempdir().unwrap();
        let (mut server, _) = start(directory.path());
        let before = sdk.run("resume.py", &server, ["before", rank]);
        server.process.kill();
        server = start_again(directory.path());
        let saved = [text(&before["path"]), text(&before["sampler_path"])];
        let after = sdk.run("resume.py", &server, ["after", rank, &saved[0], &saved[1]]);
        for same in ["losses", "logprobs", "tokens"] {
            assert_eq!(after[same], before[same], "{same}");
        }
        assert_eq!(after["weights_alone"][0], before["losses"][0]);
        assert_ne!(after["weights_alone"], before["losses"], "an optimizer that begins anew steps differently");
    }
}

#[test]
fn what_cannot_be_done_is_refused_in_the_apis_words() {
    let directory = tempfile::tempdir().unwrap();
    let (server, _) = start(directory.path());
    let refused = |path: &str, body: Value, status: u16, words: &str| {
        let error = server.post(&format!("/api/v1/{path}"), &body).expect(status);
        assert!(error["detail"].as_str().unwrap().contains(words), "{path}: {error}");
    };
    refused("create_session", json!({ "tags": 3 }), 422, "cannot be read");
    refused("session_heartbeat", json!({ "session_id": "x" }), 404, "no session `x`");
    refused("get_info", json!({ "model_id": "x" }), 404, "no model `x`");
    refused("optim_step", json!({ "model_id": "x", "seq_id": 1, "adam_params": {} }), 404, "no model `x`");
    refused("retrieve_future", json!({ "request_id": "x" }), 410, "not known any more");
    assert!(!directory.path().join("fulgurite-tinker").exists(), "nothing is kept of what was refused");

    let session = server.post("/api/v1/create_session", &json!({ "sdk_version": "0.38.0" })).expect(200);
    let session = session["session_id"].as_str().unwrap();
    let opened = json!({ "session_id": session, "sampling_session_seq_id": 0, "base_model": "tiny" });
    let sampler = server.post("/api/v1/create_sampling_session", &opened).expect(200);
    let sampler = sampler["sampling_session_id"].as_str().unwrap();
    let request_with = |change: Value| {
        let mut body = json!({
            "sampling_session_id": sampler, "seq_id": 0, "sampling_params": { "max_tokens": 2, "seed": 1 },
            "prompt": { "chunks": [{ "type": "encoded_text", "tokens": [5, 6] }] },
        });
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        body
    };
    refused("asample", request_with(json!({ "num_samples": 0 })), 400, "num_samples is 0");
    refused("asample", request_with(json!({ "sampling_params": { "top_k": 0 } })), 400, "top_k is 0");
    refused("asample", request_with(json!({ "sampling_params": { "temperature": -1.0 } })), 400, "temperature is -1");
    refused("asample", request_with(json!({ "prompt": { "chunks": [] } })), 400, "prompt is empty");
    refused("asample", request_with(json!({ "prompt": { "chunks": [{ "type": "dmel", "dmel": "" }] } })), 400, "sound");
    refused("asample", request_with(json!({ "sampling_session_id": "x" })), 404, "no sampling session `x`");
    // A place that was refused is free; one that was taken is the same request again.
    let first = server.post("/api/v1/asample", &request_with(json!({ "num_samples": 2 }))).expect(200);
    assert_eq!(first["sample_sequence_ids"].as_array().unwrap().len(), 2);
    assert_eq!(server.post("/api/v1/asample", &request_with(json!({ "num_samples": 2 }))).expect(200), first);
    let result = server.post("/api/v1/retrieve_future", &json!({ "request_id": first["request_id"] })).expect(200);
    assert_eq!(result["sequences"].as_array().unwrap().len(), 2, "JSON for who asks for it: {result}");
    server.post(&format!("/api/v1/sessions/{session}/finish"), &json!({ "reason": { "type": "success" } }));
    refused("session_heartbeat", json!({ "session_id": session }), 410, "is over");
    refused("asample", request_with(json!({ "seq_id": 1 })), 404, "no sampling session");
}

/// Pages that show usage ask for it, and take a 404 for a fault.
#[test]
fn what_is_billed_and_audited_is_nothing_and_said_to_be() {
    let directory = tempfile::tempdir().unwrap();
    let (server, _) = start(directory.path());
    for (path, expected) in [
        ("audit?starting_on=2026-11-01", json!({ "entries": [] })),
        ("billing/usage/events", json!({ "data": [], "sessions": {}, "cost_data_through": null })),
        ("billing/usage/checkpoints/current", json!({ "data": [], "effective_rate_usd_per_gigabyte_month": null })),
    ] {
        assert_eq!(server.get(&format!("/api/v1/{path}")).expect(200), expected, "{path}");
    }
    server.get("/api/v1/billing/usage").expect(404);
}

#[test]
fn official_sdks_wait_for_a_server_that_is_busy() {
    let directory = tempfile::tempdir().unwrap();
    // A pass and a step at a time.
    let (server, _) = start_with("requests_ahead = 2", directory.path());
    for sdk in sdks() {
        sdk.run::<&str>("many_at_once.py", &server, []);
    }
}

#[test]
fn a_place_far_ahead_is_refused_until_those_before_it_are_done() {
    let directory = tempfile::tempdir().unwrap();
    let (server, _) = start_with("requests_ahead = 2", directory.path());
    let session = server.post("/api/v1/create_session", &json!({})).expect(200)["session_id"].clone();
    let create =
        json!({ "session_id": session, "model_seq_id": 0, "base_model": "tiny", "lora_config": { "rank": 0 } });
    let model = result(&server, "create_model", &create)["model_id"].clone();
    let step = |place: u64| json!({ "model_id": model, "seq_id": place, "adam_params": {} });
    // Place 1 is waited for.
    let third = server.post("/api/v1/optim_step", &step(3)).expect(200);
    let refused = server.post("/api/v1/optim_step", &step(4)).expect(429);
    assert!(refused["detail"].as_str().unwrap().contains("send this one later"), "{refused}");
    assert_eq!(server.post("/api/v1/optim_step", &step(3)).expect(200), third);
    for place in [2, 1] {
        server.post("/api/v1/optim_step", &step(place)).expect(200);
    }
    server.post("/api/v1/retrieve_future", &third).expect(200);
    assert_eq!(result(&server, "optim_step", &step(4))["metrics"]["grad_norm"], 0.0);
    let cancel = |request: Value| server.post("/api/v1/cancel_future", &json!({ "request_id": request })).status;
    assert_eq!((cancel(third["request_id"].clone()), cancel(json!("x"))), (400, 204));
}

#[test]
fn samples_of_a_copy_of_a_client_are_asked_after_together() {
    let directory = tempfile::tempdir().unwrap();
    let (server, _) = start(directory.path());
    let session = server.post("/api/v1/create_session", &json!({})).expect(200)["session_id"].clone();
    let opened = json!({ "session_id": session, "sampling_session_seq_id": 0, "base_model": "tiny" });
    let sampler = server.post("/api/v1/create_sampling_session", &opened).expect(200)["sampling_session_id"].clone();
    let join = || server.post("/api/v1/join_sampling_session", &json!({ "sampling_session_id": sampler })).expect(200);
    assert_eq!((join()["client_counter"].clone(), join()["client_counter"].clone()), (json!(1), json!(2)));
    server.post("/api/v1/join_sampling_session", &json!({ "sampling_session_id": "x" })).expect(404);
    assert_eq!(server.post("/api/v1/create_sampling_session", &opened).expect(200)["sampling_session_id"], sampler);
    let ask = |place: u64| {
        let body = json!({
            "sampling_session_id": sampler, "seq_id": place, "sampling_params": { "max_tokens": 2, "seed": 1 },
            "prompt": { "chunks": [{ "type": "encoded_text", "tokens": [5, 6] }] },
        });
        server.post("/api/v1/asample", &body).expect(200)["request_id"].clone()
    };
    let done = |copy: u64, cursor: &Value, timeout: Option<u64>| {
        let target = json!({ "type": "sampling_session", "sampling_session_id": sampler, "cloned_sampler_id": copy });
        let body = json!({ "target": target, "prev_cursor": cursor, "timeout": timeout });
        server.post("/api/v1/retrieve_futures", &body).expect(200)
    };
    let request_id = ask(2_000_000_000);
    let done_page = done(2, &json!(0), None);
    assert_eq!(done_page["completions"][0]["request_id"], request_id, "{done_page}");
    assert_eq!(done_page["completions"][0]["state"], "finished", "{done_page}");
    for (copy, cursor) in [(0, &json!(0)), (2, &done_page["cursor"])] {
        assert_eq!(done(copy, cursor, Some(0))["completions"], json!([]));
    }
}

#[test]
fn a_session_that_nobody_keeps_alive_is_over_and_its_checkpoints_stay() {
    let directory = tempfile::tempdir().unwrap();
    let (server, _) = start_with("session_seconds = 1.0", directory.path());
    let session = server.post("/api/v1/create_session", &json!({})).expect(200)["session_id"].clone();
    let create =
        json!({ "session_id": session, "model_seq_id": 0, "base_model": "tiny", "lora_config": { "rank": 0 } });
    let model = result(&server, "create_model", &create)["model_id"].clone();
    let path = result(&server, "save_weights", &json!({ "model_id": model, "path": "a", "seq_id": 1 }))["path"].clone();
    let status = || {
        let found = server.post("/api/v1/sessions/search", &json!({ "session_id": session })).expect(200);
        found["sessions"][0]["status"]["type"].clone()
    };
    eventually("the session to be over", || (status() == "cancelled").then_some(()));
    server.post("/api/v1/session_heartbeat", &json!({ "session_id": session })).expect(410);
    server.post("/api/v1/get_info", &json!({ "model_id": model })).expect(404);
    let next = server.post("/api/v1/create_session", &json!({})).expect(200)["session_id"].clone();
    let load = json!({ "session_id": next, "model_seq_id": 0, "path": path, "optimizer": true });
    assert_eq!(result(&server, "load_weights", &load)["path"], path);
}

#[test]
fn what_cannot_be_done_has_its_place_and_those_after_it_do_not_wait() {
    let directory = tempfile::tempdir().unwrap();
    let (server, _) = start(directory.path());
    let session = server.post("/api/v1/create_session", &json!({})).expect(200)["session_id"].clone();
    let create =
        json!({ "session_id": session, "model_seq_id": 0, "base_model": "tiny", "lora_config": { "rank": 0 } });
    let model = result(&server, "create_model", &create)["model_id"].clone();
    let image = json!({ "chunks": [{ "type": "image", "data": "", "format": "png" }] });
    let datum = json!({ "model_input": image, "loss_fn_inputs": {} });
    for (place, path, words, fields) in [
        (1, "optim_step", "the optimizer `dimuon`", json!({ "optimizer_params": { "type": "dimuon" } })),
        (2, "optim_step", "adam_params is missing", json!({})),
        (3, "save_weights", "no name for a checkpoint", json!({ "path": "../x" })),
        (4, "load_weights", "no checkpoint", json!({ "path": "tinker://x/weights/y", "optimizer": false })),
        (5, "forward", "an image", json!({ "forward_input": { "data": [datum], "loss_fn": "cross_entropy" } })),
    ] {
        let mut body = json!({ "model_id": model, "seq_id": place });
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let failed = result(&server, path, &body);
        assert_eq!(failed["category"], "user", "{path}: {failed}");
        assert!(failed["error"].as_str().unwrap().contains(words), "{path}: {failed}");
    }
    let step = json!({ "model_id": model, "seq_id": 6, "adam_params": {} });
    assert_eq!(result(&server, "optim_step", &step)["metrics"]["grad_norm"], 0.0);
}

#[test]
fn checkpoints_and_samplers_outlive_the_process() {
    let directory = tempfile::tempdir().unwrap();
    let (mut server, _) = start(directory.path());
    let session = server.post("/api/v1/create_session", &json!({})).expect(200);
    let session = session["session_id"].clone();
    let create = json!({
        "session_id": session, "model_seq_id": 0, "base_model": "tiny", "lora_config": { "rank": 0 },
        "user_metadata": { "renderer_name": "chatml" },
    });
    let model = result(&server, "create_model", &create)["model_id"].clone();
    let values = |data: Value, dtype: &str| json!({ "data": data, "dtype": dtype });
    let inputs =
        json!({ "target_tokens": values(json!([6, 7]), "int64"), "weights": values(json!([1, 1]), "float32") });
    let input = json!({ "chunks": [{ "type": "encoded_text", "tokens": [5, 6] }] });
    let data = json!([{ "model_input": input, "loss_fn_inputs": inputs }]);
    let pass = |model: &Value, place: u64| {
        json!({
            "model_id": model, "seq_id": place,
            "forward_backward_input": { "data": data, "loss_fn": "cross_entropy" },
        })
    };
    // The step comes first, and waits for the gradient.
    let step = |model: &Value, place: u64| json!({ "model_id": model, "seq_id": place, "adam_params": {} });
    let stepped = server.post("/api/v1/optim_step", &step(&model, 2)).expect(200);
    let before = result(&server, "forward_backward", &pass(&model, 1));
    let retrieved = server.post("/api/v1/retrieve_future", &json!({ "request_id": stepped["request_id"] })).expect(200);
    assert!(retrieved["metrics"]["grad_norm"].as_f64().unwrap() > 0.0, "{retrieved}");

    let save = json!({ "model_id": model, "path": "final", "seq_id": 3 });
    let state = result(&server, "save_weights", &save)["path"].clone();
    let again = result(&server, "save_weights", &json!({ "model_id": model, "path": "final", "seq_id": 4 }));
    assert!(again["error"].as_str().unwrap().contains("already"), "{again}");
    let save = json!({ "model_id": model, "sampling_session_seq_id": 0, "seq_id": 5 });
    let sampler = result(&server, "save_weights_for_sampler", &save)["sampling_session_id"].clone();
    let expected = result(&server, "forward_backward", &pass(&model, 6));
    assert_ne!(before["loss_fn_outputs"], expected["loss_fn_outputs"]);
    let ask = |place: u64| {
        json!({
            "sampling_session_id": sampler, "seq_id": place, "prompt": input, "num_samples": 1,
            "sampling_params": { "max_tokens": 4, "seed": 1, "stop": [] },
        })
    };
    let sampled = result(&server, "asample", &ask(0));

    server.process.kill();
    server = start_again(directory.path());
    let missing = server.post("/api/v1/optim_step", &step(&model, 7)).expect(404);
    assert!(missing["detail"].as_str().unwrap().contains("load one of its checkpoints"), "{missing}");
    assert_eq!(result(&server, "asample", &ask(0)), sampled);
    let load = json!({ "session_id": session, "model_seq_id": 1, "path": state, "optimizer": true });
    let loaded = result(&server, "load_weights", &load)["model_id"].clone();
    assert_eq!(loaded, json!(format!("{}:train:1", session.as_str().unwrap())));
    assert_eq!(result(&server, "forward_backward", &pass(&loaded, 1)), expected);

    let run = format!("/api/v1/training_runs/{}", model.as_str().unwrap());
    let shown = server.get(&run).expect(200);
    assert_eq!(shown["user_metadata"]["renderer_name"], "chatml", "{shown}");
    assert_eq!(shown["last_checkpoint"]["checkpoint_id"], "weights/final", "{shown}");
    assert_eq!(server.get("/api/v1/training_runs?limit=1").expect(200)["cursor"]["total_count"], 2);
    let listed = server.get(&format!("{run}/checkpoints")).expect(200);
    assert_eq!(
        (listed["checkpoints"].as_array().unwrap().len(), &listed["checkpoints"][0]["tinker_path"]),
        (1, &state)
    );
    let deleted =
        crate::common::client().delete(format!("{}{run}/checkpoints/weights/final", server.url)).send().unwrap();
    assert_eq!(deleted.status(), 204);
    assert_eq!(server.get("/api/v1/checkpoints").expect(200)["checkpoints"], json!([]));
    let load = json!({ "session_id": session, "model_seq_id": 2, "path": state, "optimizer": true });
    assert!(result(&server, "load_weights", &load)["error"].as_str().unwrap().contains("no checkpoint"));
}

#[test]
fn a_flipped_bit_in_kept_weights_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let (mut server, _) = start(directory.path());
    let session = server.post("/api/v1/create_session", &json!({})).expect(200)["session_id"].clone();
    let create =
        json!({ "session_id": session, "model_seq_id": 0, "base_model": "tiny", "lora_config": { "rank": 0 } });
    let model = result(&server, "create_model", &create)["model_id"].clone();
    let saved = |path: &str, place: u64| {
        result(&server, path, &json!({ "model_id": model, "path": "a", "seq_id": place }))["path"].clone()
    };
    let (state, sampled) = (saved("save_weights", 1), saved("save_weights_for_sampler", 2));
    // What was saved last is in memory.
    server.process.kill();
    server = start_again(directory.path());

    let load = |place: u64| {
        let request = json!({ "session_id": session, "model_seq_id": place, "path": state, "optimizer": true });
        result(&server, "load_weights", &request)
    };
    let sampler = |place: u64| {
        let opened = json!({ "session_id": session, "sampling_session_seq_id": place, "model_path": sampled });
        let opened = server.post("/api/v1/create_sampling_session", &opened).expect(200);
        let request = json!({
            "sampling_session_id": opened["sampling_session_id"], "seq_id": 0,
            "sampling_params": { "max_tokens": 2, "seed": 1 },
            "prompt": { "chunks": [{ "type": "encoded_text", "tokens": [5, 6] }] },
        });
        server.post("/api/v1/asample", &request)
    };
    let put_behind = || {
        let body = json!({ "version": 1, "kept": sampled });
        server.post("/v1/fulgurite/models/tiny/weights", &body)
    };
    let weights = weight_files(&directory.path().join("fulgurite-tinker"));
    assert_eq!(weights.len(), 2, "{weights:?}");
    weights.iter().for_each(|path| flip(path));
    let names_the_damage = |answer: &Value| {
        let text = answer.to_string();
        assert!(text.contains("model.safetensors is not what was saved: its SHA-256 is"), "{text}");
    };
    names_the_damage(&load(1));
    names_the_damage(&sampler(0).expect(400));
    names_the_damage(&put_behind().expect(422));
    weights.iter().for_each(|path| flip(path));
    assert_eq!(load(2)["path"], state);
    sampler(1).expect(200);
    put_behind().expect(200);
}

/// The weights that are kept below a directory.
fn weight_files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let below = |path: PathBuf| match path.is_dir() {
        true => weight_files(&path),
        false if path.ends_with("model.safetensors") => vec![path],
        false => Vec::new(),
    };
    entries.flat_map(below).collect()
}

fn flip(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(path, bytes).unwrap();
}

/// As where a client sends one seed with every call, such as Agent-lightning's for Tinker: a group that differs in nothing would
/// teach nothing.
#[test]
fn calls_that_repeat_a_seed_get_seeds_of_their_own_which_are_the_same_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let (server, _) = start(directory.path());
    let sampled = |server: &Server, own_seed: bool| {
        let session = server.post("/api/v1/create_session", &json!({ "sdk_version": "0.38.0" })).expect(200);
        let opened = json!({ "session_id": session["session_id"], "sampling_session_seq_id": 0, "base_model": "tiny" });
        let sampler =
            server.post("/api/v1/create_sampling_session", &opened).expect(200)["sampling_session_id"].clone();
        let sample = |place: u64| {
            let request = json!({
                "sampling_session_id": sampler, "seq_id": place, "num_samples": 1,
                "prompt": { "chunks": [{ "type": "encoded_text", "tokens": [5, 6] }] },
                "sampling_params": { "max_tokens": 20, "seed": 42 },
            });
            let post = client().post(format!("{}/api/v1/asample", server.url)).json(&request);
            let post = if own_seed { post.header("x-fulgurite-own-seed", "1") } else { post };
            let submitted: Value = post.send().unwrap().json().unwrap();
            let future = json!({ "request_id": submitted["request_id"] });
            server.post("/api/v1/retrieve_future", &future).expect(200)["sequences"][0]["tokens"].clone()
        };
        [sample(0), sample(1), sample(2)]
    };
    let first = sampled(&server, false);
    assert!(first[0] != first[1] && first[1] != first[2] && first[0] != first[2], "{first:?}");
    // Ours, which come again where they were lost on their way.
    assert_eq!(sampled(&server, true), [(); 3].map(|()| first[0].clone()));
    drop(server);
    assert_eq!(sampled(&start_again(directory.path()), false), first);
}

#[test]
fn an_answer_ends_with_the_token_that_completes_a_stop_text() {
    let directory = tempfile::tempdir().unwrap();
    let (server, model) = start_with("repeated_seeds = \"literal\"", directory.path());
    let session = server.post("/api/v1/create_session", &json!({ "sdk_version": "0.38.0" })).expect(200);
    let opened = json!({ "session_id": session["session_id"], "sampling_session_seq_id": 0, "base_model": "tiny" });
    let sampler = server.post("/api/v1/create_sampling_session", &opened).expect(200)["sampling_session_id"].clone();
    let sample = |place: u64, stop: Value| {
        let request = json!({
            "sampling_session_id": sampler, "seq_id": place, "num_samples": 2,
            "prompt": { "chunks": [{ "type": "encoded_text", "tokens": [5, 6] }] },
            "sampling_params": { "max_tokens": 60, "seed": 1, "stop": stop },
        });
        result(&server, "asample", &request)["sequences"].clone()
    };
    let endless = sample(0, json!([]));
    let tokenizer = Tokenizer::open(&model).unwrap();
    let spelt = |sequence: &Value| -> Vec<Vec<u8>> {
        let tokens = sequence["tokens"].as_array().unwrap().iter();
        tokens.map(|token| tokenizer.id_to_bytes(token.as_u64().unwrap() as u32).unwrap().to_vec()).collect()
    };
    // Two tokens of the second answer, some way in, that spell text together.
    let words = spelt(&endless[1]);
    let text = words[20..].windows(2).find_map(|pair| String::from_utf8(pair.concat()).ok()).unwrap();
    let ended = sample(1, json!(["never said", text]));
    for (ended, endless) in ended.as_array().unwrap().iter().zip(endless.as_array().unwrap()) {
        let holds =
            |sequences: &[Vec<u8>]| sequences.concat().windows(text.len()).any(|window| window == text.as_bytes());
        let words = spelt(endless);
        let length = (1..=words.len()).find(|&length| holds(&words[..length]));
        let expected = &endless["tokens"].as_array().unwrap()[..length.unwrap_or(words.len())];
        assert_eq!(ended["tokens"].as_array().unwrap(), expected);
        assert_eq!(ended["stop_reason"], if length.is_some() { "stop" } else { "length" });
    }
    assert_eq!(ended[1]["stop_reason"], "stop");
}

/// Serves what was served before.
fn start_again(directory: &Path) -> Server {
    Server::start(directory, ["--config".as_ref(), directory.join("c.toml").as_os_str()])
}

/// What a request comes to.
fn result(server: &Server, path: &str, body: &Value) -> Value {
    let submitted = server.post(&format!("/api/v1/{path}"), body).expect(200);
    server.post("/api/v1/retrieve_future", &json!({ "request_id": submitted["request_id"] })).expect(200)
}
