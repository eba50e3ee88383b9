//! A server whose model says what tests write down.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::{Server, client};
use crate::scripted::{ScriptedReply, ScriptedServer, Step, Vllm, generated_by};

/// `fulgurite serve` in front of a scripted host with a model that thinks and calls tools.
pub struct Host {
    pub server: Server,
    pub vllm: Arc<Vllm>,
    pub model_flag: String,
    directory: TempDir,
    // The host goes away with the runtime.
    _host: ScriptedServer,
    _runtime: tokio::runtime::Runtime,
}

/// A whole HTTP answer with the rollout that its headers name.
pub struct Answered {
    pub status: u16,
    pub rollout: String,
    pub text: String,
}

impl Answered {
    pub fn json(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.text);
        serde_json::from_str(&self.text).unwrap()
    }
}

impl Host {
    /// With these lines in the config.
    pub fn start(config: &str) -> Self {
        Self::start_on(None, config)
    }

    /// As [`Host::start`], on a store that may be elsewhere.
    pub fn start_on(store: Option<&str>, config: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let vllm = Vllm { generates: true, processed_logprobs: true, max_model_len: 4096, scripts: Mutex::default() };
        let vllm = Arc::new(vllm);
        let host = runtime.block_on(vllm.serve());
        let model_flag = format!("tiny=vllm:{},path={},renderer=qwen3", host.url, tokenizer().display());
        std::fs::write(directory.path().join("serve.toml"), config).unwrap();
        let own = format!("sqlite://{}", directory.path().join("store.db").display());
        let server = start(store.unwrap_or(&own), directory.path(), &model_flag);
        Self { server, vllm, model_flag, directory, _host: host, _runtime: runtime }
    }

    /// `kill -9`, and the same server again.
    pub fn kill_and_restart(&mut self) {
        self.server.process.kill();
        let store = self.server.store.clone();
        self.server = start(&store, self.directory.path(), &self.model_flag);
    }

    /// The model's next answer.
    pub fn say(&self, text: &str) {
        let tokenizer = fulgurite_renderers::Tokenizer::open(&tokenizer()).unwrap();
        let tokens = tokenizer.encode_with_specials(&format!("<think>\nhm\n</think>\n\n{text}<|im_end|>")).unwrap();
        let tokens: Vec<(u32, f64)> = tokens.into_iter().map(|token| (token, -0.5)).collect();
        let mut steps = vec![Step::Event(generated_by(&tokens, "stop", &[("3", 0, tokens.len())]))];
        steps.extend(Step::done());
        self.vllm.play(ScriptedReply::Stream(steps));
    }

    pub fn post(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> Answered {
        post(&self.server, path, headers, body)
    }

    /// A chat's answer, and the rollout that it is in.
    pub fn chat(&self, headers: &[(&str, &str)], messages: &[Value]) -> (String, Value) {
        let answered = self.post("/v1/chat/completions", headers, &json!({ "model": "tiny", "messages": messages }));
        (answered.rollout.clone(), answered.json())
    }

    /// The next message of a user, and the model's answer to it, which both join the messages; the rollout that it is in.
    pub fn turn(&self, headers: &[(&str, &str)], messages: &mut Vec<Value>, user: &str, answer: &str) -> String {
        messages.push(json!({ "role": "user", "content": user }));
        self.say(answer);
        let (rollout, reply) = self.chat(headers, messages);
        assert_eq!(reply["choices"][0]["message"]["content"], answer);
        messages.push(json!({ "role": "assistant", "content": answer }));
        rollout
    }

    /// A rollout's calls, the first first: the ids of each and of the one that it continues.
    pub fn calls(&self, rollout: &str) -> Vec<(String, Option<String>)> {
        let calls = self.server.query("generations").into_iter().filter(|call| call["rollout_id"] == rollout);
        let id = |value: &Value| value.as_str().map(str::to_owned);
        calls.map(|call| (id(&call["generation_id"]).unwrap(), id(&call["parent_id"]))).collect()
    }

    /// Asserts that so many calls of a rollout go on token by token, each from the one before.
    pub fn assert_chain(&self, rollout: &str, calls: usize) {
        let found = self.calls(rollout);
        let parents: Vec<Option<&String>> = found.iter().map(|(_, parent)| parent.as_ref()).collect();
        let ids = found.iter().map(|(id, _)| Some(id));
        let expected: Vec<Option<&String>> = std::iter::once(None).chain(ids).take(calls).collect();
        assert_eq!(parents, expected);
    }
}

pub fn start(store: &str, directory: &Path, model_flag: &str) -> Server {
    Server::start_on(store, directory, ["--config", "serve.toml", "--model", model_flag])
}

pub fn post(server: &Server, path: &str, headers: &[(&str, &str)], body: &Value) -> Answered {
    let request = client().post(format!("{}{path}", server.url)).json(body);
    let response = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value)).send().unwrap();
    let rollout = response.headers().get("x-fulgurite-rollout-id").map(|id| id.to_str().unwrap().to_owned());
    Answered {
        status: response.status().as_u16(),
        rollout: rollout.unwrap_or_default(),
        text: response.text().unwrap(),
    }
}

fn tokenizer() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("renderers/tests/vectors/tokenizers/qwen3")
}
