//! `fulgurite model fetch`, from a hub of the test's own that breaks off, lies and refuses.
mod hub;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use self::hub::{Fault, Hub};
use crate::common::{Process, Ran, Server, eventually, fulgurite, model_flag, tiny_model};
use serde_json::json;
use tempfile::{TempDir, tempdir};

/// The command, told of this hub and of no token.
fn fetch(hub: &Hub, directory: &Path, more: &[&str]) -> Command {
    let mut command = fulgurite(["model", "fetch", "hf:someone/tiny"]);
    command.arg(directory).args(more).env("HF_ENDPOINT", hub.url()).env("NO_PROXY", "127.0.0.1").env_remove("HF_TOKEN");
    command
}

fn fetched(hub: &Hub, directory: &Path, more: &[&str]) -> Ran {
    fetch(hub, directory, more).output().unwrap().into()
}

/// Bytes that look like nothing in particular, of which no part is like another.
fn weights(length: usize) -> Vec<u8> {
    let numbers = (1_u64..).map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29));
    numbers.flat_map(u64::to_le_bytes).take(length).collect()
}

/// A hub with one large file, and where it is to go.
fn one_file(length: usize) -> (Hub, Vec<u8>, TempDir) {
    let bytes = weights(length);
    (Hub::start([("q.gguf", bytes.clone())]), bytes, tempdir().unwrap())
}

const ONE_FILE: [&str; 3] = ["--file", "q.gguf", "--json"];

/// The parts that a command left.
fn parts(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory.join(".fetch")) else { return vec![] };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|end| end == "part")).collect()
}

/// Starts to fetch, and kills the command when so many bytes have been written.
fn kill_after(hub: &Hub, directory: &Path, bytes: usize) {
    hub.order([Fault::StallAfter(bytes + 10_000)]);
    let mut command = fetch(hub, directory, &ONE_FILE);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut process = Process::spawn(command);
    eventually("a part", || {
        parts(directory).iter().any(|part| part.metadata().unwrap().len() >= bytes as u64).then_some(())
    });
    process.kill();
}

#[test]
fn a_model_is_fetched_checked_and_served() {
    let home = tempdir().unwrap();
    let hub = Hub::of_directory(&tiny_model(home.path(), 256));
    hub.change("pytorch_model.bin", b"a pickle".to_vec());
    hub.change("README.md", b"read me".to_vec());
    let target = home.path().join("fetched");
    let ran: Ran = fetch(&hub, &target, &["--json"]).env("HF_TOKEN", "hf_of_the_test").output().unwrap().into();
    let lines = ran.json_lines();
    let (summary, files) = lines.split_last().unwrap();
    assert_eq!((&summary["commit"], &summary["files_fetched"]), (&json!(hub::COMMIT), &json!(files.len())));
    let weights = files.iter().find(|file| file["file"] == "model.safetensors").unwrap();
    assert_eq!((&weights["checked_by"], &weights["outcome"]), (&json!("sha256"), &json!("fetched")));
    let config = files.iter().find(|file| file["file"] == "config.json").unwrap();
    assert_eq!(config["checked_by"], "git_blob");
    for name in ["pytorch_model.bin", "README.md", ".fetch"] {
        assert!(!target.join(name).exists(), "{name}");
    }
    // The token is for the hub alone.
    for request in hub.take_requests() {
        assert_eq!(request.authorization, request.at_hub.then(|| "Bearer hf_of_the_test".to_owned()), "{request:?}");
    }
    let server = Server::start(home.path(), ["--model", &model_flag("tiny", &target)]);
    let request = json!({ "model": "tiny", "messages": [{ "role": "user", "content": "17" }], "max_tokens": 2 });
    server.post("/v1/chat/completions", &request).expect(200);

    let again: Ran = fetched(&hub, &target, &[]);
    let text = again.stdout.replace(target.to_str().unwrap(), "[target]");
    let last: Vec<&str> = text.lines().rev().take(2).collect();
    insta::assert_snapshot!(last.join("\n"), @"
    to serve it: fulgurite serve --model tiny=embedded:[target]
    someone/tiny at 0123456789ab is in [target]: nothing was missing
    ");
}

#[test]
fn a_repository_that_was_renamed_is_found() {
    let (hub, bytes, directory) = one_file(1000);
    let mut command = fulgurite(["model", "fetch", "hf:someone/formerly", "--file", "q.gguf"]);
    command.arg(directory.path()).env("HF_ENDPOINT", hub.url()).env("NO_PROXY", "127.0.0.1").env_remove("HF_TOKEN");
    let ran: Ran = command.output().unwrap().into();
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(std::fs::read(directory.path().join("q.gguf")).unwrap(), bytes);
    insta::assert_snapshot!(ran.stdout.replace(directory.path().to_str().unwrap(), "[directory]"), @"
    fetched      1 KiB  q.gguf
    someone/formerly at 0123456789ab is in [directory]: 1 file, 1 KiB fetched
    to make a model directory of it: fulgurite model convert [directory]/q.gguf DIR
    ");
}

#[test]
fn weights_in_parts_are_fetched_as_their_index_names_them() {
    let index = json!({ "metadata": {}, "weight_map": { "a": "model-1.safetensors", "b": "model-2.safetensors" } });
    let hub = Hub::start([
        ("config.json", b"{}".to_vec()),
        ("model.safetensors.index.json", index.to_string().into_bytes()),
        ("model-1.safetensors", weights(1000)),
        ("model-2.safetensors", weights(2000)),
        ("consolidated.safetensors", weights(3000)),
    ]);
    let directory = tempdir().unwrap();
    let ran = fetched(&hub, directory.path(), &[]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.contains("the embedded engine cannot run it"), "{}", ran.stdout);
    assert_eq!(std::fs::read(directory.path().join("model-2.safetensors")).unwrap(), weights(2000));
    assert!(!directory.path().join("consolidated.safetensors").exists());
    // An index that names what is not there, or what is elsewhere.
    for name in ["model-3.safetensors", "../model-1.safetensors"] {
        hub.change("model.safetensors.index.json", json!({ "weight_map": { "a": name } }).to_string().into_bytes());
        let directory = tempdir().unwrap();
        let ran = fetched(&hub, directory.path(), &[]);
        assert!(ran.code == Some(1) && ran.stderr.contains(&format!("it has no file {name:?}")), "{}", ran.stderr);
        assert!(!directory.path().join("config.json").exists());
    }
}

#[test]
fn a_connection_that_breaks_is_gone_on_with_where_it_broke() {
    let (hub, bytes, directory) = one_file(5_000_000);
    hub.order([Fault::BreakAfter(1_500_000), Fault::BreakAfter(1_500_000), Fault::Status(503), Fault::WrongRange]);
    let ran = fetched(&hub, directory.path(), &ONE_FILE);
    assert_eq!(ran.json_lines()[0]["outcome"], "fetched");
    assert_eq!(std::fs::read(directory.path().join("q.gguf")).unwrap(), bytes);
    let ranges = hub.take_ranges();
    // The part that was wrong is not trusted, nor is what was before it.
    assert!(ranges.len() == 5 && ranges[0].is_none() && ranges[1].is_some() && ranges[4].is_none(), "{ranges:?}");
}

#[test]
fn a_killed_command_is_gone_on_with() {
    let (hub, bytes, directory) = one_file(3_000_000);
    kill_after(&hub, directory.path(), 1_000_000);
    assert!(!directory.path().join("q.gguf").exists());
    hub.take_requests();
    let lines = fetched(&hub, directory.path(), &ONE_FILE).json_lines();
    assert_eq!(lines[0]["outcome"], "resumed");
    assert!(lines[0]["bytes_fetched"].as_u64().unwrap() <= 2_000_000, "{lines:?}");
    assert_eq!(std::fs::read(directory.path().join("q.gguf")).unwrap(), bytes);
    let ranges = hub.take_ranges();
    assert!(ranges.len() == 1 && ranges[0].is_some(), "{ranges:?}");
    assert!(!directory.path().join(".fetch").exists());
}

#[test]
fn a_server_without_ranges_is_asked_from_the_beginning() {
    let (hub, bytes, directory) = one_file(3_000_000);
    kill_after(&hub, directory.path(), 1_000_000);
    hub.order([Fault::IgnoreRange]);
    fetched(&hub, directory.path(), &ONE_FILE).json_lines();
    assert_eq!(std::fs::read(directory.path().join("q.gguf")).unwrap(), bytes);
}

#[test]
fn a_part_that_was_damaged_is_fetched_anew() {
    let (hub, bytes, directory) = one_file(3_000_000);
    kill_after(&hub, directory.path(), 1_000_000);
    let part = parts(directory.path()).remove(0);
    let mut damaged = std::fs::read(&part).unwrap();
    damaged[500_000] ^= 1;
    std::fs::write(&part, damaged).unwrap();
    fetched(&hub, directory.path(), &ONE_FILE).json_lines();
    assert_eq!(std::fs::read(directory.path().join("q.gguf")).unwrap(), bytes);
}

#[test]
fn another_revision_s_part_is_not_gone_on_with() {
    let (hub, _, directory) = one_file(3_000_000);
    kill_after(&hub, directory.path(), 1_000_000);
    hub.take_requests();
    let newer = weights(2_500_000);
    hub.change("q.gguf", newer.clone());
    assert_eq!(fetched(&hub, directory.path(), &ONE_FILE).json_lines()[0]["outcome"], "fetched");
    assert_eq!(std::fs::read(directory.path().join("q.gguf")).unwrap(), newer);
    assert_eq!(hub.take_ranges(), [None]);
}

#[test]
fn two_commands_do_not_write_into_one_directory() {
    let (hub, _, directory) = one_file(3_000_000);
    hub.order([Fault::StallAfter(1000)]);
    let mut command = fetch(&hub, directory.path(), &ONE_FILE);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let first = Process::spawn(command);
    eventually("a part", || (!parts(directory.path()).is_empty()).then_some(()));
    let second = fetched(&hub, directory.path(), &ONE_FILE).failure(directory.path());
    insta::assert_snapshot!(second, @"error: another command is fetching into [directory]");
    drop(first);
}

#[test]
fn a_hub_that_lists_no_digests_tells_them_with_the_files() {
    let (hub, bytes, directory) = one_file(3_000_000);
    hub.list_no_digests();
    hub.order([Fault::BreakAfter(1_000_000)]);
    let lines = fetched(&hub, directory.path(), &ONE_FILE).json_lines();
    assert_eq!((&lines[0]["checked_by"], &lines[0]["digest"]), (&json!("sha256"), &json!(hub::sha256(&bytes))));
}

#[test]
fn what_arrives_is_believed_only_if_it_is_what_was_listed() {
    let cases = [
        (Fault::OtherBytes, "its digest is another"),
        (Fault::Longer, "more arrived than the 200000 bytes that the hub lists"),
        (Fault::Page, "17 bytes are sent where the hub lists 200000: another file, or a proxy's page"),
    ];
    let (hub, bytes, directory) = one_file(200_000);
    for (fault, expected) in cases {
        hub.order([fault]);
        let failure = fetched(&hub, directory.path(), &ONE_FILE).failure(directory.path());
        assert!(failure.contains("q.gguf") && failure.contains(expected), "{failure}");
        assert!(!directory.path().join("q.gguf").exists());
    }
    // None of it is in the way of the file itself.
    fetched(&hub, directory.path(), &ONE_FILE).json_lines();
    assert_eq!(std::fs::read(directory.path().join("q.gguf")).unwrap(), bytes);
}

#[test]
fn a_hub_that_stays_busy_is_given_up() {
    let (hub, _, directory) = one_file(1000);
    hub.refuse(Some((429, "")));
    let failure = fetched(&hub, directory.path(), &ONE_FILE).failure(directory.path());
    insta::assert_snapshot!(failure, @r#"
    error: cannot fetch someone/tiny
      caused by: given up after 8 tries; what is there is kept
      caused by: 127.0.0.1 answers 429 Too Many Requests
    "#);
    assert_eq!(hub.take_requests().len(), 8);
}

#[test]
fn a_hub_that_refuses_is_understood() {
    let (hub, _, directory) = one_file(1000);
    let target = directory.path().join("model");
    let refused = |status, code, token: Option<&str>| {
        hub.refuse(Some((status, code)));
        let mut command = fetch(&hub, &target, &[]);
        if let Some(token) = token {
            command.env("HF_TOKEN", token);
        }
        let ran: Ran = command.output().unwrap().into();
        ran.failure(directory.path()).replace(&hub.url(), "[hub]")
    };
    insta::assert_snapshot!(refused(401, "RepoNotFound", None), @r#"
    error: cannot fetch someone/tiny
      caused by: [hub]/ shows no someone/tiny to strangers: either the name is wrong, or the model is gated or private. Then accept its terms at [hub]/someone/tiny and set HF_TOKEN to a token from [hub]/settings/tokens (it says: In its 31mwords)
    "#);
    insta::assert_snapshot!(refused(401, "RepoNotFound", Some("hf_wrong")), @r#"
    error: cannot fetch someone/tiny
      caused by: [hub]/ does not take HF_TOKEN for someone/tiny: is it right, of [hub]/settings/tokens, and the name too? (it says: In its 31mwords)
    "#);
    insta::assert_snapshot!(refused(403, "GatedRepo", Some("hf_right")), @r#"
    error: cannot fetch someone/tiny
      caused by: [hub]/ does not let the owner of HF_TOKEN have someone/tiny: accept the model's terms at [hub]/someone/tiny, and see that the token may read gated repositories ([hub]/settings/tokens) (it says: In its 31mwords)
    "#);
    insta::assert_snapshot!(refused(404, "RevisionNotFound", Some("hf_right")), @r#"
    error: cannot fetch someone/tiny
      caused by: someone/tiny has no revision "main" (it says: In its 31mwords)
    "#);
    insta::assert_snapshot!(refused(404, "RepoNotFound", Some("hf_right")), @r#"
    error: cannot fetch someone/tiny
      caused by: [hub]/ has no someone/tiny at "main" (/api/models/someone/tiny/revision/main) (it says: In its 31mwords)
    "#);
    hub.refuse(None);
    hub.redirect_in_a_circle();
    let failure = fetched(&hub, &target, &[]).failure(directory.path());
    insta::assert_snapshot!(failure, @r#"
    error: cannot fetch someone/tiny
      caused by: 127.0.0.1 redirects in a circle: 10 were followed
    "#);
    // A refusal leaves nothing behind.
    assert!(!target.exists());
}

#[test]
fn a_name_that_leads_out_of_the_directory_is_refused() {
    let home = tempdir().unwrap();
    let hub = Hub::start([("config.json", b"{}".to_vec()), ("model.safetensors", weights(100))]);
    let target = home.path().join("model");
    hub.list_too(json!({ "rfilename": "../outside.json", "size": 1 }));
    // It lies in a folder, so that nobody asks for it.
    assert_eq!(fetched(&hub, &target, &[]).code, Some(0));
    let ran = fetched(&hub, &target, &["--file", "../outside.json"]);
    insta::assert_snapshot!(ran.failure(home.path()), @r#"
    error: cannot fetch someone/tiny
      caused by: the hub names a file "../outside.json", which cannot be written below a directory of one's own; nothing was fetched
    "#);
    hub.list_too(json!({ "rfilename": "a\u{1b}b.json", "size": 1 }));
    assert!(fetched(&hub, &target, &[]).failure(home.path()).contains("cannot be written below"));
    assert!(!home.path().join("outside.json").exists());
}

#[test]
fn what_somebody_else_wrote_is_never_overwritten() {
    let (hub, bytes, directory) = one_file(1000);
    let path = directory.path().join("q.gguf");
    std::fs::write(&path, "mine").unwrap();
    let failure = fetched(&hub, directory.path(), &ONE_FILE).failure(directory.path());
    insta::assert_snapshot!(failure, @r#"
    error: cannot fetch someone/tiny
      caused by: [directory]/q.gguf is there and is another file than the hub's; delete it, or name another directory
    "#);
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!(fetched(&hub, directory.path(), &ONE_FILE).json_lines()[0]["outcome"], "present");
}

/// A file that may not grow stands for a disk without room.
#[test]
fn a_full_disk_is_said_and_what_is_there_is_gone_on_with() {
    let (hub, bytes, directory) = one_file(3_000_000);
    let mut command = Command::new("sh");
    command.args(["-c", r#"trap "" XFSZ; ulimit -f 2000; exec "$0" "$@""#, env!("CARGO_BIN_EXE_fulgurite")]);
    let usual = fetch(&hub, directory.path(), &ONE_FILE);
    command.args(usual.get_args()).env("HF_ENDPOINT", hub.url()).env("NO_PROXY", "127.0.0.1").env_remove("HF_TOKEN");
    let ran: Ran = command.output().unwrap().into();
    let failure = ran.failure(directory.path());
    assert!(failure.contains("the same command goes on from here later"), "{failure}");
    assert!(failure.contains("File too large"), "{failure}");
    assert!(!directory.path().join("q.gguf").exists());
    assert_eq!(fetched(&hub, directory.path(), &ONE_FILE).json_lines()[0]["outcome"], "resumed");
    assert_eq!(std::fs::read(directory.path().join("q.gguf")).unwrap(), bytes);

    // What can be known before is said before.
    hub.list_too(json!({ "rfilename": "huge.gguf", "size": 1_u64 << 60, "blobId": "0".repeat(40) }));
    hub.take_requests();
    let failure = fetched(&hub, directory.path(), &["--file", "huge.gguf"]).failure(directory.path());
    assert!(failure.contains("1073741824.0 GiB more are to come"), "{failure}");
    assert_eq!(hub.take_requests().len(), 1);
}

#[test]
fn a_token_never_goes_out_in_the_clear_and_what_the_environment_says_is_checked() {
    let directory = tempdir().unwrap();
    let mut command = fulgurite(["model", "fetch", "hf:someone/tiny"]);
    command.arg(directory.path()).env("HF_ENDPOINT", "http://hub.invalid").env("HF_TOKEN", "hf_secret");
    let ran: Ran = command.output().unwrap().into();
    let failure = ran.failure(directory.path());
    assert!(failure.contains("in the clear") && !failure.contains("hf_secret"), "{failure}");
    let without = directory.path().join("without.pem");
    std::fs::write(&without, "none").unwrap();
    for file in [without, directory.path().join("missing.pem")] {
        let mut command = fulgurite(["model", "fetch", "hf:someone/tiny"]);
        let ran: Ran = command.env("SSL_CERT_FILE", &file).env_remove("HF_TOKEN").output().unwrap().into();
        assert!(ran.failure(directory.path()).contains("SSL_CERT_FILE is [directory]/"), "{}", ran.stderr);
    }
    for (endpoint, expected) in [("hub", "which is no address"), ("ftp://hub.invalid", "must be like https://")] {
        let mut command = fulgurite(["model", "fetch", "hf:someone/tiny"]);
        let ran: Ran = command.env("HF_ENDPOINT", endpoint).env_remove("HF_TOKEN").output().unwrap().into();
        assert!(ran.failure(directory.path()).contains(expected), "{}", ran.stderr);
    }
}
