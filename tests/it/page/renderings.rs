//! One recorded conversation under several renderers.

use std::path::Path;
use std::process::Stdio;

use fulgurite_renderers::open_renderer;
use fulgurite_types::Message;
use serde_json::{Value, json};

use super::by_hand::{serving, started_attempt, user};
use super::{browser, seen, words};
use crate::common::{Process, Server, client, fulgurite, text, wait_until_ready};

const MODEL: &str = "model";

fn messages() -> Value {
    json!([{ "role": "system", "content": "Be brief." }, user("Hi")])
}

/// The tokens that a renderer makes of the messages.
fn expected(directory: &Path, renderer: &str) -> Vec<u32> {
    let messages: Vec<Message> = serde_json::from_value(messages()).unwrap();
    open_renderer(&directory.join(MODEL), renderer).unwrap().render_prompt(&messages, &[]).unwrap().tokens
}

/// What stands in columns of tokens: the header, and the ids.
fn columns(url: &str, path: &str) -> (Value, Vec<u32>) {
    let reply = client().get(format!("{url}{path}")).send().unwrap();
    let (status, bytes) = (reply.status(), reply.bytes().unwrap());
    assert_eq!(status, 200, "{path}: {}", String::from_utf8_lossy(&bytes));
    let length = u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize;
    let header: Value = serde_json::from_slice(&bytes[4..4 + length]).unwrap();
    let count = header["tokens"].as_u64().unwrap() as usize;
    let ids = words(&bytes[4 + length..4 + length + 4 * count]).into_iter().map(u32::from_le_bytes).collect();
    (header, ids)
}

/// A server with a rollout that has called a model once; the rollout, and the call.
fn called(directory: &Path) -> (Server, String, String) {
    let server = serving(directory, 256, None);
    let (rollout, url) = started_attempt(&server);
    let call = json!({ "model": "tiny", "max_tokens": 2, "messages": messages() });
    let answer = server.post(&url, &call).expect(200);
    (server, rollout, text(&answer["id"]))
}

/// The page over a store that another process serves.
fn page_over(store: &str, directory: &Path, name: &str, arguments: &[&str]) -> (Process, String) {
    let ready = directory.join(name);
    let mut page = fulgurite(["dashboard", "--listen", "127.0.0.1:0", "--ready-file"]);
    page.arg(&ready).arg(store).args(arguments).stdout(Stdio::null());
    let mut page = Process::spawn(page);
    let url = wait_until_ready(&mut page, &ready, &ready);
    (page, url)
}

#[test]
fn a_conversation_is_rendered_by_whatever_its_tokenizer_has_the_tokens_for() {
    let directory = tempfile::tempdir().unwrap();
    let (server, rollout, call) = called(directory.path());
    let at = |path: &str| format!("/ui/data/rollouts/{rollout}/{path}");
    let found = server.get(&at("renderers")).expect(200);
    let [of_call] = found["calls"].as_array().unwrap().as_slice() else { panic!("one call: {found}") };
    assert_eq!((text(&of_call["generation_id"]), text(&of_call["model"])), (call.clone(), "tiny".to_owned()));
    let names = &found["renderers"][text(&of_call["tokenizer"])];
    for (name, is_there) in [("auto", true), ("chatml", true), ("qwen3_disable_thinking", true), ("llama3", false)] {
        assert_eq!(names.as_array().unwrap().contains(&json!(name)), is_there, "{name}: {names}");
    }
    // By the renderer that the call went through it is the prompt that the model was given.
    let (header, recorded) = columns(&server.url, &at("tokens"));
    let given = header["calls"][0]["prompt"].as_u64().unwrap() as usize;
    let (header, as_called) = columns(&server.url, &at(&format!("rendering?renderer={}", text(&of_call["renderer"]))));
    assert_eq!(as_called, recorded[..given]);
    let place = ["first", "continued", "prompt", "sampled"].map(|place| header["calls"][0][place].as_u64().unwrap());
    assert_eq!((place, &header["trained"]), ([0, 0, given as u64, 0], &json!(false)), "{header}");
    for name in ["chatml", "qwen3_disable_thinking", "template"] {
        let (_, rendered) = columns(&server.url, &at(&format!("rendering?renderer={name}&generation_id={call}")));
        assert_eq!(rendered, expected(directory.path(), name), "{name}");
    }
    assert_ne!(expected(directory.path(), "qwen3_disable_thinking"), as_called);

    let detail = |path: &str, status: u16| text(&server.get(path).expect(status)["detail"]);
    let unknown = detail(&at("rendering?renderer=nobody"), 400);
    assert!(unknown.starts_with("there is no renderer `nobody`; there are auto, template, chatml, "), "{unknown}");
    let lacking = detail(&at("rendering?renderer=llama3"), 400);
    assert!(lacking.contains("the llama3 format needs the token `<|eot_id|>`"), "{lacking}");
    assert!(lacking.contains("it has the tokens of auto, template, chatml"), "{lacking}");
    let elsewhere = detail(&at("rendering?renderer=chatml&generation_id=none"), 404);
    assert_eq!(elsewhere, format!("the rollout {rollout} has no model call none"));
    assert!(detail("/ui/data/rollouts/none/renderers", 404).contains("Rollout not found: none"));
    assert!(detail("/ui/data/rollouts/none/rendering?renderer=chatml", 404).contains("Rollout not found: none"));

    // Another rollout: first nothing, then a call whose prompt is a text.
    let (rollout, url) = started_attempt(&server);
    let rendering = format!("/ui/data/rollouts/{rollout}/rendering?renderer=chatml");
    let none = detail(&rendering, 404);
    assert!(none.contains(&format!("no model call of the rollout {rollout} is recorded")), "{none}");
    let completion = json!({ "model": "tiny", "max_tokens": 1, "prompt": "Hi" });
    server.post(&url.replace("chat/completions", "completions"), &completion).expect(200);
    let of_text = detail(&rendering, 404);
    assert!(of_text.contains("was given a text or tokens: no messages are recorded"), "{of_text}");
}

#[test]
fn two_renderers_of_a_conversation_stand_side_by_side() {
    let directory = tempfile::tempdir().unwrap();
    let (server, rollout, _) = called(directory.path());
    // A page that has the store alone says what it lacks.
    let (_alone, alone) = page_over(&server.store, directory.path(), "alone.json", &[]);
    let refused = client().get(format!("{alone}/ui/data/rollouts/{rollout}/rendering?renderer=chatml")).send().unwrap();
    let (status, reply) = (refused.status().as_u16(), refused.json::<Value>().unwrap());
    assert_eq!(status, 501, "{reply}");
    assert!(text(&reply["detail"]).starts_with("this server has no tokenizer of the model \"tiny\""), "{reply}");
    let found = client().get(format!("{alone}/ui/data/rollouts/{rollout}/renderers")).send().unwrap();
    assert_eq!(found.json::<Value>().unwrap()["renderers"], json!({}));
    let model = directory.path().join(MODEL);
    let (_with, with) =
        page_over(&server.store, directory.path(), "with.json", &["--model", &model.display().to_string()]);
    let (_, rendered) = columns(&with, &format!("/ui/data/rollouts/{rollout}/rendering?renderer=chatml"));
    let (chatml, qwen) = (expected(directory.path(), "chatml"), expected(directory.path(), "qwen3_disable_thinking"));
    assert_eq!(rendered, chatml);

    let Some(walk) = browser("renderings", &server.url, &[&rollout, "qwen3_disable_thinking"]) else { return };
    let found = seen(walk);
    let shared = chatml.iter().zip(&qwen).take_while(|(one, other)| one == other).count();
    let difference = text(&found["difference"]);
    assert!(difference.starts_with(&format!("They part at token {shared}: ")), "{found}");
    assert_eq!(found["marked"], json!([shared.to_string()]), "{found}");
    assert!(found["differing"].as_u64().unwrap() >= 1, "{found}");
    let offered = found["offered"].as_array().unwrap();
    assert!(offered.contains(&json!("qwen3")) && !offered.contains(&json!("llama3")), "{found}");
    assert!(text(&found["refused"]).contains("there is no renderer `nobody`"), "{found}");

    let walk = browser("renderings_alone", &alone, &[&rollout]).unwrap();
    let found = seen(walk);
    assert!(text(&found["text"]).contains("This server has no tokenizer of the model tiny"), "{found}");
    assert_eq!(found["disabled"], 2, "{found}");
}
