//! Weights that are taken away from the Tinker API, as its clients' tools read them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::age_identity::Identity;
use crate::common::{Ran, Server, client, model_flag, text, tiny_model};

/// A server whose head is its embedding, and a training run over it, after one step.
struct Trained {
    server: Server,
    session: Value,
    model: Value,
    base: PathBuf,
    directory: tempfile::TempDir,
}

impl Trained {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let base = tiny_model(directory.path(), 64);
        let server = Server::start(directory.path(), ["--model", &model_flag("tiny", &base)]);
        let session = server.post("/api/v1/create_session", &json!({})).expect(200)["session_id"].clone();
        let mut trained = Self { server, session, model: Value::Null, base, directory };
        let create = json!({
            "session_id": trained.session, "model_seq_id": 0, "base_model": "tiny", "lora_config": { "rank": 4 },
        });
        trained.model = trained.result("create_model", &create)["model_id"].clone();
        let values = |data: Value, dtype: &str| json!({ "data": data, "dtype": dtype });
        let inputs =
            json!({ "target_tokens": values(json!([6, 7]), "int64"), "weights": values(json!([1, 1]), "float32") });
        let datum = json!({
            "model_input": { "chunks": [{ "type": "encoded_text", "tokens": [5, 6] }] }, "loss_fn_inputs": inputs,
        });
        let pass = json!({ "data": [datum], "loss_fn": "cross_entropy" });
        trained.at("forward_backward", 1, json!({ "forward_backward_input": pass }));
        trained.at("optim_step", 2, json!({ "adam_params": { "learning_rate": 0.1 } }));
        trained
    }

    /// A request of the run in its place.
    fn request(&self, place: u64, fields: Value) -> Value {
        let mut body = json!({ "model_id": self.model, "seq_id": place });
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        body
    }

    /// What a request of the run in its place comes to.
    fn at(&self, path: &str, place: u64, fields: Value) -> Value {
        self.result(path, &self.request(place, fields))
    }

    fn result(&self, path: &str, body: &Value) -> Value {
        let submitted = self.server.post(&format!("/api/v1/{path}"), body).expect(200);
        self.server.post("/api/v1/retrieve_future", &json!({ "request_id": submitted["request_id"] })).expect(200)
    }

    /// The files of what was saved, as whoever has its path fetches them.
    fn files(&self, saved: &Value) -> BTreeMap<String, Vec<u8>> {
        let path = text(&saved["path"]);
        let (run, name) = path.strip_prefix("tinker://").unwrap().split_once('/').unwrap();
        let urls = format!("/api/v1/training_runs/{run}/checkpoints/{name}/external_weights_urls");
        let urls = self.server.get(&urls).expect(200)["urls"].clone();
        let fetch = |(name, url): (&String, &Value)| {
            let fetched = client().get(text(url)).send().unwrap();
            assert_eq!(fetched.status(), 200, "{name}");
            (name.clone(), fetched.bytes().unwrap().to_vec())
        };
        urls.as_object().unwrap().iter().map(fetch).collect()
    }

    /// The files in the archive of a checkpoint, as older SDKs fetch it.
    fn archived(&self, checkpoint: &str) -> BTreeMap<String, Vec<u8>> {
        let run = text(&self.model);
        let link = format!("{}/api/v1/training_runs/{run}/checkpoints/{checkpoint}/archive", self.server.url);
        let fetched = client().get(link).send().unwrap();
        assert_eq!(fetched.status(), 200);
        let length = fetched.content_length();
        let mut rest: &[u8] = &fetched.bytes().unwrap();
        assert_eq!(length, Some(rest.len() as u64));
        let mut files = BTreeMap::new();
        // Its blocks have 512 bytes: a header for each file, the file, and nothing at the end.
        while rest[0] != 0 {
            let (header, after) = rest.split_at(512);
            let field = |range: std::ops::Range<usize>| {
                String::from_utf8(header[range].iter().copied().take_while(|byte| *byte != 0).collect()).unwrap()
            };
            let size = usize::from_str_radix(&field(124..136), 8).unwrap();
            files.insert(field(0..100), after[..size].to_vec());
            rest = &after[size.next_multiple_of(512)..];
        }
        files
    }

    /// Names of directories below a directory of the server's.
    fn below(&self, place: &str) -> Vec<String> {
        let path = self.directory.path().join("fulgurite-tinker").join(place);
        let Ok(entries) = std::fs::read_dir(path) else { return Vec::new() };
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

const WEIGHTS: &str = "adapter_model.safetensors";

/// The tensors in a safetensors file, by their names.
fn numbers(file: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let (length, rest) = file.split_at(8);
    let (header, numbers) = rest.split_at(u64::from_le_bytes(length.try_into().unwrap()) as usize);
    let header: BTreeMap<String, Value> = serde_json::from_slice(header).unwrap();
    let place = |offset: &Value| offset.as_u64().unwrap() as usize;
    let named = header.iter().filter(|(name, _)| *name != "__metadata__").map(|(name, tensor)| {
        let [start, end] = [0, 1].map(|at| place(&tensor["data_offsets"][at]));
        (name.clone(), numbers[start..end].to_vec())
    });
    named.collect()
}

/// Their names.
fn tensors(file: &[u8]) -> BTreeSet<String> {
    numbers(file).into_keys().collect()
}

fn names_of_head(module: &str) -> [String; 2] {
    ["A", "B"].map(|part| format!("base_model.model.{module}.lora_{part}.weight"))
}

#[test]
fn an_exported_adapter_of_a_tied_head_has_the_names_that_tinkers_tools_merge() {
    let trained = Trained::start();
    let files = trained.files(&trained.at("save_weights_external", 3, json!({ "path": "a" })));
    let names = tensors(&files[WEIGHTS]);
    assert!(names_of_head("model.unembed_tokens").iter().all(|name| names.contains(name)), "{names:?}");
    assert!(names.iter().all(|name| !name.contains("lm_head")), "{names:?}");
    let config: Value = serde_json::from_slice(&files["adapter_config.json"]).unwrap();
    assert!(config["target_modules"].as_array().unwrap().contains(&json!("unembed_tokens")), "{config}");
    // What is kept to be sampled from has the model's own names, as vLLM and PEFT read them.
    let saved = trained.at("save_weights_for_sampler", 4, json!({ "path": "a" }));
    let run = text(&trained.model);
    let kept = trained.directory.path().join("fulgurite-tinker/weights").join(run).join("sampler_weights/a");
    let names = tensors(&std::fs::read(kept.join(WEIGHTS)).unwrap());
    assert!(names_of_head("lm_head").iter().all(|name| names.contains(name)), "{saved} {names:?}");

    // Older SDKs take these away as an archive, for the same tools as what is exported: the names and the numbers are the same.
    let archived = trained.archived("sampler_weights/a");
    let config = "adapter_config.json";
    assert_eq!(archived.keys().collect::<Vec<_>>(), files.keys().collect::<Vec<_>>());
    assert_eq!((&archived[config], numbers(&archived[WEIGHTS])), (&files[config], numbers(&files[WEIGHTS])));

    let place = |name: &str| trained.directory.path().join(name);
    for (name, files) in [("adapter", &files), ("archived", &archived)] {
        std::fs::create_dir(place(name)).unwrap();
        files.iter().for_each(|(file, bytes)| std::fs::write(place(name).join(file), bytes).unwrap());
        // This program reads those names too, and finds the digests right.
        let mut merge = crate::common::fulgurite(["model", "merge"]);
        let merged = place(&format!("merged-{name}"));
        let ran = Ran::from(merge.args([&trained.base, &place(name), &merged]).output().unwrap());
        assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    }
    let adapter = place("adapter");
    let merged = trained.directory.path().join("merged-by-cookbook");
    let arguments = [trained.base.as_os_str(), adapter.as_os_str(), merged.as_os_str()];
    if let Some(found) = by_the_cookbook("merge_export.py", &arguments) {
        assert!(found["moved"].as_f64().unwrap() > 0.0, "the head was trained: {found}");
    }
}

/// What a script of `tests/tinker` finds out, run where `tests/tinker/cookbook.sh` has made tinker-cookbook an environment.
fn by_the_cookbook(script: &str, arguments: &[&OsStr]) -> Option<Value> {
    let house = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = house.join("target/cookbook/bin/python");
    if !python.exists() {
        eprintln!("{script} was not run: there is no {} (tests/tinker/cookbook.sh)", python.display());
        return None;
    }
    let mut command = Command::new(python);
    command.arg(house.join("tests/tinker").join(script)).args(arguments).stdin(Stdio::null());
    command.env("PYTHONDONTWRITEBYTECODE", "1").env("HF_HUB_OFFLINE", "1").env("TRANSFORMERS_OFFLINE", "1");
    let ran = Ran::from(command.output().unwrap());
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    Some(serde_json::from_str(ran.stdout.lines().last().unwrap()).unwrap())
}

#[test]
fn an_encrypted_export_is_read_by_its_recipients_and_leaves_nothing_readable() {
    let trained = Trained::start();
    let plain = trained.files(&trained.at("save_weights_external", 3, json!({ "path": "plain" })));
    let identities = [(); 2].map(|()| Identity::generate());
    let recipients = identities.each_ref().map(|identity| identity.recipient());
    let save = json!({ "path": "a", "age_encryption_recipients": recipients, "ttl_seconds": 3600 });
    let saved = trained.at("save_weights_external", 4, save);
    let encrypted = trained.files(&saved);
    let expected: Vec<String> = plain.keys().map(|name| format!("{name}.age")).collect();
    assert_eq!(encrypted.keys().cloned().collect::<Vec<_>>(), expected);
    for (name, bytes) in &encrypted {
        assert!(bytes.starts_with(b"age-encryption.org/v1\n"), "{name}");
        for identity in &identities {
            assert_eq!(identity.decrypt(bytes).as_ref(), plain.get(name.strip_suffix(".age").unwrap()), "{name}");
        }
        assert_eq!(Identity::generate().decrypt(bytes), None, "{name}");
    }
    assert_eq!(trained.below("weights/plaintext"), Vec::<String>::new());
}

#[test]
fn the_cookbooks_download_takes_a_training_checkpoint_away() {
    let trained = Trained::start();
    let plain = trained.files(&trained.at("save_weights_external", 3, json!({ "path": "plain" })));
    let saved = text(&trained.at("save_weights", 4, json!({ "path": "a" }))["path"]);
    let to = trained.directory.path().join("downloaded");
    let arguments = [OsStr::new(&trained.server.url), OsStr::new(&saved), to.as_os_str()];
    let Some(names) = by_the_cookbook("download.py", &arguments) else { return };
    assert_eq!(names, json!(plain.keys().collect::<Vec<_>>()));
    for (name, bytes) in &plain {
        assert_eq!(&std::fs::read(to.join(name)).unwrap(), bytes, "{name}");
    }
    let listed = trained.server.get("/api/v1/checkpoints").expect(200);
    assert_eq!(listed["checkpoints"].as_array().unwrap().len(), 2, "its export is deleted: {listed}");
}

#[test]
fn recipients_that_are_none_are_refused_by_name_and_those_behind_them_do_not_wait() {
    let trained = Trained::start();
    let good = Identity::generate().recipient();
    for (place, recipients, words) in [
        (3, json!([good, "age1x"]), "age_encryption_recipients[1] is `age1x`"),
        (4, json!(["ssh-ed25519 AAAAC3"]), "age_encryption_recipients[0] is an SSH key"),
        (5, json!(vec![good.as_str(); 11]), "age_encryption_recipients names 11 recipients"),
    ] {
        let save = trained.request(place, json!({ "path": "a", "age_encryption_recipients": recipients }));
        let refused = trained.server.post("/api/v1/save_weights_external", &save).expect(422);
        assert!(text(&refused["detail"]).contains(words), "{refused}");
    }
    let save = trained.request(6, json!({ "path": "a", "age_encryption_recipients": "age1" }));
    let refused = trained.server.post("/api/v1/save_weights_external", &save).expect(422);
    assert!(text(&refused["detail"]).contains("age_encryption_recipients"), "{refused}");
    let saved = trained.at("save_weights_external", 6, json!({ "path": "a", "age_encryption_recipients": [] }));
    assert!(trained.files(&saved).contains_key(WEIGHTS), "no recipients are as none: {saved}");
}
