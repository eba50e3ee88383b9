//! The page, in a real browser: over what a run recorded, behind a key, with hostile answers, and when there is nothing.

mod by_hand;
mod following;
mod partners;
mod renderings;
mod weights;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::common::project::{Project, SMALL, UNEVEN};
use crate::common::{Process, Ran, Server, client, fulgurite, model_flag, text, tiny_model, wait_until_ready};

const ADMIN: &str = "the-key-to-everything";

/// A script of `tests/page` in a browser; `None` says why there is none, on a machine that has not what it takes.
fn browser(scene: &str, url: &str, values: &[&str]) -> Option<Child> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let modules = root.join("target/node/node_modules");
    let Some(chromium) = ["chromium", "chromium-browser"].iter().find_map(|name| on_path(name)) else {
        eprintln!("NOT RUN: there is no chromium, which tests/setup installs where it can");
        return None;
    };
    assert!(modules.join("playwright-core").exists(), "tests/setup puts playwright-core and axe-core into target/node");
    let mut command = Command::new("node");
    command.arg(root.join("tests/page/walk.mjs")).args([scene, url]).args(values);
    command.env("NODE_MODULES", modules).env("CHROMIUM", chromium);
    if let Ok(pictures) = std::env::var("PAGE_PICTURES") {
        command.env("PICTURES", pictures);
    }
    Some(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
}

fn on_path(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?).map(|folder| folder.join(name)).find(|path| path.exists())
}

/// What a scene saw in the end.
fn seen(browser: Child) -> Value {
    let ended = browser.wait_with_output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let printed = String::from_utf8(ended.stdout).unwrap();
    serde_json::from_str(printed.lines().last().unwrap()).unwrap()
}

/// The page over a run that nobody serves, and where it is.
fn dashboard(project: &Project, run: &str) -> (Process, String) {
    let ready = project.path("ready.json");
    let mut page = fulgurite(["dashboard", "--listen", "127.0.0.1:0", "--ready-file"]);
    page.arg(&ready).arg(project.path(run)).stdout(Stdio::null());
    let mut page = Process::spawn(page);
    let url = wait_until_ready(&mut page, &ready, &ready);
    (page, url)
}

#[test]
fn from_the_list_of_runs_to_the_tokens_of_a_rollout() {
    let project = Project::new("command = [\"hello-agent\", \"{task}\"]\ngrade = [\"hello-grader\"]", SMALL);
    let summary = project.train("r", &["--max-steps", "2"]).pop().unwrap();
    let (_page, url) = dashboard(&project, "r");
    let refused = client().post(format!("{url}/v1/fulgurite/runs")).json(&json!({})).send().unwrap();
    assert_eq!(refused.status(), 405, "it only reads");
    let Some(browser) = browser("run", &url, &[]) else { return };
    let seen = seen(browser);
    assert!(seen["charts"].as_u64().unwrap() >= 6 && seen["ledger"].as_u64().unwrap() >= 2, "{seen}");
    assert_eq!(seen["rollouts"], project.query("rollouts", "r").len(), "{summary}");
    // The tokens are the conversation, with the template around it. What a model says that has hardly learnt is no text.
    let tokens = text(&seen["tokens"]);
    assert!(tokens.contains("<|im_start|>user↵\nLet's play a game. Say you are"), "{seen}");
    assert!(tokens.contains("<|im_end|>↵\n<|im_start|>assistant↵\n"), "{seen}");
    assert_eq!(seen["members"], 3, "{seen}");
    assert!(text(&seen["difference"]).starts_with("They part at token ") && seen["marked"][1].is_string(), "{seen}");
    assert!(seen["sampled"].as_u64().unwrap() > 0 && text(&seen["text"]).contains("of the prompt"), "{seen}");
}

#[test]
fn a_key_is_asked_for_and_its_cookie_only_reads() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start_in(&[("FULGURITE_ADMIN_KEY", ADMIN)], directory.path(), [] as [&str; 0]);
    let printed =
        fulgurite(["reader-key", "--server", &server.url]).env("FULGURITE_ADMIN_KEY", ADMIN).output().unwrap();
    let reader = String::from_utf8(printed.stdout).unwrap();
    let http = client();
    let runs = format!("{}/v1/fulgurite/runs", server.url);
    assert_eq!(http.get(&runs).bearer_auth(reader.trim()).send().unwrap().status(), 200);
    assert_eq!(http.post(&runs).bearer_auth(reader.trim()).send().unwrap().status(), 403);
    let entered = http.post(format!("{}/v1/fulgurite/login", server.url)).json(&json!({ "key": reader.trim() })).send();
    assert_eq!(entered.unwrap().json::<Value>().unwrap(), json!({ "changes": false }));
    // A client whose base URL is wrong is told so in its own dialect, and not by the page.
    let astray = http.post(&server.url).json(&json!({})).send().unwrap();
    let (status, reply) = (astray.status().as_u16(), astray.json::<Value>().unwrap());
    assert_eq!((status, &reply["error"]["code"]), (404, &json!("unknown_url")));
    let Some(browser) = browser("login", &server.url, &["wrong", ADMIN]) else { return };
    let seen = seen(browser);
    assert_eq!(seen["refused"], "this is neither the admin key nor a reader's");
    assert_eq!(seen["cookie"], json!({ "httpOnly": true, "sameSite": "Strict", "name": "fulgurite_reader" }));
    assert_eq!((&seen["post"]["status"], &seen["post"]["cookie"]), (&json!(403), &json!("")), "{seen}");
    assert!(text(&seen["post"]["text"]).contains("the API key of a reader changes nothing"), "{seen}");
}

/// Columns of four bytes.
fn words(bytes: &[u8]) -> Vec<[u8; 4]> {
    bytes.chunks_exact(4).map(|word| word.try_into().unwrap()).collect()
}

#[test]
fn the_weights_that_sampled_tokens_score_them_alike() {
    let directory = tempfile::tempdir().unwrap();
    let model = tiny_model(directory.path(), 256);
    let server = Server::start(directory.path(), ["--model", &model_flag("tiny", &model)]);
    let started = server.post("/v1/agl/rollouts", &json!({ "input": "x" })).expect(201);
    let (rollout, attempt) = (text(&started["rollout_id"]), text(&started["attempt"]["attempt_id"]));
    let mut messages = vec![json!({ "role": "user", "content": "Say something." })];
    for _ in 0..2 {
        let call = json!({ "model": "tiny", "max_tokens": 8, "messages": messages });
        let path = format!("/rollout/{rollout}/attempt/{attempt}/v1/chat/completions");
        let answer = server.post(&path, &call).expect(200);
        messages.push(answer["choices"][0]["message"].clone());
        messages.push(json!({ "role": "user", "content": "And more." }));
    }
    let bytes = |path: &str| {
        let reply = client().get(format!("{}/ui/data/rollouts/{rollout}/{path}", server.url)).send().unwrap();
        assert_eq!(reply.status(), 200, "{path}");
        reply.bytes().unwrap().to_vec()
    };
    let tokens = bytes("tokens");
    let length = u32::from_le_bytes(tokens[..4].try_into().unwrap()) as usize;
    let header: Value = serde_json::from_slice(&tokens[4..4 + length]).unwrap();
    let count = header["tokens"].as_u64().unwrap() as usize;
    assert_eq!(header["calls"].as_array().unwrap().len(), 2, "{header}");
    let columns = words(&tokens[4 + length..4 + length + 8 * count]);
    let recorded = columns[count..].iter().map(|word| f32::from_le_bytes(*word));
    let scores = words(&bytes("scores?model=tiny"));
    let scored: Vec<f32> = scores[..count].iter().map(|word| f32::from_le_bytes(*word)).collect();
    let sampled: Vec<(f32, f32)> =
        recorded.zip(scored.iter().copied()).filter(|(recorded, _)| !recorded.is_nan()).collect();
    assert!(sampled.len() > 8 && sampled.iter().all(|(recorded, scored)| recorded == scored), "{sampled:?}");
    assert_eq!(scored.iter().filter(|score| score.is_nan()).count(), 1, "all but the first token");
    let unknown = server.get(&format!("/ui/data/rollouts/{rollout}/scores?model=other")).expect(404);
    assert!(text(&unknown["detail"]).contains("samples no model \"other\""), "{unknown}");
}

/// What is recorded of a sampled token.
#[derive(Debug)]
struct TrainedToken {
    /// Logprobs when it was sampled and when it was trained.
    sampled: f32,
    trained: f32,
    entropy: f32,
    fate: u8,
}

/// Of a rollout's sampled tokens; none where nothing of that is recorded.
fn trained_tokens(url: &str, rollout: &str) -> Vec<TrainedToken> {
    let reply = client().get(format!("{url}/ui/data/rollouts/{rollout}/tokens")).send().unwrap();
    let bytes = reply.bytes().unwrap();
    let length = u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize;
    let header: Value = serde_json::from_slice(&bytes[4..4 + length]).unwrap();
    if header["trained"] != true {
        return Vec::new();
    }
    assert_eq!(header["entropies"], true, "the embedded engine tells them");
    let count = header["tokens"].as_u64().unwrap() as usize;
    let columns = &bytes[4 + length..];
    let floats: Vec<f32> = words(&columns[..24 * count]).iter().map(|word| f32::from_le_bytes(*word)).collect();
    let (fates, of) = (&columns[25 * count..26 * count], |column: usize, at: usize| floats[column * count + at]);
    let token =
        |at: usize| TrainedToken { sampled: of(1, at), trained: of(4, at), entropy: of(5, at), fate: fates[at] };
    (0..count).map(token).filter(|token| !token.sampled.is_nan()).collect()
}

#[test]
fn what_an_update_made_of_each_token_is_shown() {
    let project = Project::new(UNEVEN, SMALL);
    let mut lines = project.train("r", &["--max-steps", "2"]);
    let summary = lines.pop().unwrap();
    let (_page, url) = dashboard(&project, "r");
    let listed = client().get(format!("{url}/ui/data/rollouts?run_id=r&mode=train&limit=1000")).send().unwrap();
    let listed = listed.json::<Value>().unwrap();
    let (mut trained, mut last, mut entropies) = (0, None, 0.0);
    for row in listed["items"].as_array().unwrap() {
        let id = text(&row["rollout_id"]);
        let tokens = trained_tokens(&url, &id);
        // The embedded engine samples and trains with the same kernels.
        assert!(tokens.iter().all(|token| token.fate == 1 && token.sampled == token.trained), "{tokens:?}");
        // A vocabulary of 300 tokens.
        assert!(tokens.iter().all(|token| token.entropy > 0.0 && token.entropy < 300f32.ln()), "{tokens:?}");
        trained += tokens.len() as u64;
        entropies += tokens.iter().map(|token| f64::from(token.entropy)).sum::<f64>();
        last = if tokens.is_empty() { last } else { Some(id) };
    }
    assert_eq!(summary["trained_tokens"], trained, "{summary}");
    let of_step =
        |line: &Value| Some(line["optim/entropy_exact"].as_f64()? * line["optim/trained_tokens"].as_f64().unwrap());
    let logged: f64 = lines.iter().filter_map(of_step).sum();
    assert!((entropies - logged).abs() < 1e-6 * logged, "{entropies} of tokens, {logged} in the metrics");
    let last = last.unwrap();
    let Some(browser) = browser("trained", &url, &[&last]) else { return };
    let seen = seen(browser);
    assert_eq!(seen["legends"]["verdict"], json!(["trained"]), "{seen}");
    // The class of what is neither likelier nor less likely.
    assert!(text(&seen["ratio"]).contains(" d5"), "{seen}");
    // A model that has hardly learnt anything is as undecided as it can be: darkest is what is above three nats.
    assert!(text(&seen["entropy"]).contains(" p9"), "{seen}");
    assert_eq!(seen["legends"]["entropy"].as_array().unwrap().last(), Some(&json!("above 3 nats")), "{seen}");
    let shown = text(&seen["text"]);
    assert!(shown.contains("ratio 1.0000 when it was trained") && shown.contains("advantage "), "{seen}");
    assert!(shown.contains(" · entropy ") && shown.ends_with(" nats"), "{seen}");
}

#[test]
fn what_an_agent_or_a_model_says_is_text() {
    let directory = tempfile::tempdir().unwrap();
    let model = tiny_model(directory.path(), 256);
    let server = Server::start(directory.path(), ["--model", &model_flag("tiny", &model)]);
    let script = "<script>globalThis.hacked = 1</script><img src=x onerror='globalThis.hacked = 1'>";
    let started = server.post("/v1/agl/rollouts", &json!({ "input": script })).expect(201);
    let (rollout, attempt) = (text(&started["rollout_id"]), text(&started["attempt"]["attempt_id"]));
    let call = json!({ "model": "tiny", "max_tokens": 4, "messages": [{ "role": "user", "content": script }] });
    server.post(&format!("/rollout/{rollout}/attempt/{attempt}/v1/chat/completions"), &call).expect(200);
    let Some(browser) = browser("hostile", &server.url, &[&rollout]) else { return };
    let seen = seen(browser);
    assert_eq!(seen["isRun"], false, "{seen}");
    assert_eq!(text(&seen["text"]).matches(script).count(), 2, "the task and the message: {seen}");
}

#[test]
fn a_report_is_read_from_its_file_alone() {
    let project = Project::new(UNEVEN, SMALL);
    project.train("runs/one", &["--max-steps", "2"]);
    project.change_config("learning_rate = 1e-3", "learning_rate = 2e-3");
    project.train("runs/two", &["--max-steps", "1"]);
    let mut report = fulgurite(["report", "one", "two", "-o", "report.html"]);
    assert_eq!(Ran::from(report.current_dir(project.directory.path()).output().unwrap()).code, Some(0));
    let url = format!("file://{}", project.path("report.html").display());
    let Some(browser) = browser("report", &url, &["one"]) else { return };
    let seen = seen(browser);
    assert_eq!((&seen["runs"], &seen["lines"], &seen["links"]), (&json!(2), &json!(2), &json!(1)), "{seen}");
    assert!(seen["curves"].as_array().unwrap().contains(&json!("optim/entropy")), "{seen}");
    assert!(seen["charts"].as_u64().unwrap() >= 6 && seen["changed"].as_u64().unwrap() > 0, "{seen}");
    for heading in ["Summary", "Best answers", "Worst answers", "Config", "What changed"] {
        assert!(text(&seen["text"]).contains(heading), "{heading}: {seen}");
    }
    assert!(text(&seen["text"]).contains("learning_rate") && seen["isRun"] == false, "{seen}");
}

#[test]
fn what_is_not_there_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::start(directory.path(), [] as [&str; 0]);
    let Some(mut browser) = browser("missing", &server.url, &[]) else { return };
    let mut output = BufReader::new(browser.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert!(line.contains("ready"), "{line}");
    server.process.terminate();
    browser.stdin.take().unwrap().write_all(b"gone\n").unwrap();
    line.clear();
    output.read_line(&mut line).unwrap();
    let ended = browser.wait_with_output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let seen: Value = serde_json::from_str(&line).unwrap();
    let shown = seen["pages"].as_array().unwrap();
    assert!(text(&shown[0]).to_lowercase().contains("run not found: none"), "{seen}");
    assert!(text(&shown[1]).contains("Rollout not found: none"), "{seen}");
    assert!(text(&seen["offline"]).contains("The server does not answer."), "{seen}");
}
