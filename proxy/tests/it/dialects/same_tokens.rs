//! A conversation is sampled from the same tokens in whichever dialect it is held.

use fulgurite_types::GenerationFilter;

use crate::common::families::{Family, GPT_OSS, KIMI, QWEN3, tools};
use crate::common::{Script, Setup, messages};
use fulgurite_backends::SamplingEnd;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde_json::{Value, json};

/// The JSON of a whole answer, or of a stream's events that hold something under `key`, the last of them.
fn last_with(text: &str, key: &str) -> Value {
    let value = |line: &str| serde_json::from_str::<Value>(line.strip_prefix("data: ").unwrap_or(line)).ok();
    let mut values = text.lines().filter_map(value).filter(|value| value[key].is_object());
    values.next_back().unwrap_or_else(|| panic!("{text}"))[key].clone()
}

#[tokio::test]
async fn what_a_host_had_cached_of_a_prompt_is_told_in_each_dialect_and_recorded() {
    let setup = Setup::new(vec![]).await;
    let messages = json!([{ "role": "user", "content": "Say you are 17." }]);
    let prompt = |fields: Value| {
        let mut body = json!({ "model": "tiny", "max_tokens": 8 });
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        body
    };
    let of_openai = |usage: &Value| usage["prompt_tokens_details"]["cached_tokens"].clone();
    for stream in [false, true] {
        let usage = json!({ "stream": stream, "stream_options": { "include_usage": true } });
        let options = if stream { usage } else { json!({}) };
        for (path, key, body) in [
            ("chat/completions", "usage", prompt(json!({ "messages": messages }))),
            ("completions", "usage", prompt(json!({ "prompt": "Say you are 17." }))),
            ("messages", "usage", prompt(json!({ "messages": messages }))),
            ("responses", "response", json!({ "model": "tiny", "input": "Say you are 17." })),
        ] {
            let mut body = body;
            match path {
                "chat/completions" | "completions" => {
                    body.as_object_mut().unwrap().extend(options.as_object().unwrap().clone())
                }
                _ => body["stream"] = json!(stream),
            }
            for cached in [Some(5), None] {
                let answer = [setup.tokens("17"), vec![setup.stop()]].concat();
                setup.play(match cached {
                    Some(cached) => Script::Cached(answer, cached),
                    None => Script::Answer(answer, SamplingEnd::StopToken),
                });
                let (rollout, base) = setup.attempt().await;
                let reply = setup.client.post(format!("{base}/{path}")).json(&body).send().await.unwrap();
                let text = reply.text().await.unwrap();
                let length = setup.generation_of(&rollout).await.prompt_tokens.len();
                let recorded = setup.attributes(&rollout).await["gen_ai.usage.cache_read.input_tokens"].clone();
                assert_eq!(recorded, json!(cached), "{path}");
                match path {
                    "messages" => {
                        let usage = last_with(&text, "usage");
                        let expected = (json!(cached.unwrap_or(0)), json!(length - cached.unwrap_or(0)));
                        assert_eq!(
                            (&usage["cache_read_input_tokens"], &usage["input_tokens"]),
                            (&expected.0, &expected.1)
                        );
                    }
                    "responses" if !stream => {
                        let usage = last_with(&text, "usage");
                        assert_eq!(usage["input_tokens_details"]["cached_tokens"], cached.unwrap_or(0), "{text}");
                        let id = serde_json::from_str::<Value>(&text).unwrap()["id"].as_str().unwrap().to_owned();
                        let kept = setup.client.get(format!("{base}/responses/{id}")).send().await.unwrap();
                        let kept = last_with(&kept.text().await.unwrap(), "usage");
                        assert_eq!(kept["input_tokens_details"], usage["input_tokens_details"]);
                    }
                    "responses" => {
                        let usage = last_with(&text, key)["usage"].clone();
                        assert_eq!(usage["input_tokens_details"]["cached_tokens"], cached.unwrap_or(0), "{text}");
                    }
                    _ => assert_eq!(of_openai(&last_with(&text, key)), json!(cached), "{text}"),
                }
            }
        }
    }
}

/// Claude Code sends what it has to say as the system both beside the messages and among them.
#[tokio::test]
async fn what_the_system_says_late_reaches_a_model_that_hears_it_only_first_in_each_dialect() {
    let setup = Setup::of_family("deepseekv3", "deepseek").await;
    let message_of = |role: &str, text: &str| json!({ "role": role, "content": text });
    let late = vec![
        message_of("user", "Hi"),
        message_of("assistant", "Hello."),
        message_of("system", "Be kind."),
        message_of("user", "Bye"),
    ];
    let mut with_system = late.clone();
    with_system.insert(0, message_of("system", "Be brief."));
    for (path, body) in [
        ("chat/completions", json!({ "model": "tiny", "messages": with_system })),
        ("messages", json!({ "model": "tiny", "max_tokens": 8, "system": "Be brief.", "messages": late })),
        ("responses", json!({ "model": "tiny", "instructions": "Be brief.", "input": late })),
    ] {
        let answer = setup.sampled("So long.<｜end▁of▁sentence｜>");
        setup.play(Script::Answer(answer, SamplingEnd::StopToken));
        let (rollout, base) = setup.attempt().await;
        let response = setup.client.post(format!("{base}/{path}")).json(&body).send().await.unwrap();
        assert_eq!(response.status(), 200, "{path}: {}", response.text().await.unwrap());
        let prompt = setup.generation_of(&rollout).await.prompt_tokens;
        assert_eq!(
            setup.renderer.tokenizer().decode(&prompt),
            "<｜begin▁of▁sentence｜>Be brief.<｜User｜>Hi<｜Assistant｜></think>Hello.<｜end▁of▁sentence｜>\
             <｜User｜><system-reminder>\nBe kind.\n</system-reminder><｜User｜>Bye<｜Assistant｜></think>",
            "{path}"
        );
    }
}

/// What the model samples, and what its agent says then.
#[derive(Clone, Debug)]
struct Step {
    reasoning: String,
    text: String,
    /// The arguments of its calls.
    calls: Vec<Value>,
    /// What each call gives.
    result: String,
    /// Said by the user after the answer; always, where nothing was called.
    user: Option<String>,
}

fn words() -> impl Strategy<Value = String> {
    // Nothing at the ends that a format would strip.
    "(a|ä|🧮|<|\\{\"x\": 1\\}|\\\\n)(a|ä|🧮| |<|\n){0,4}(b|✓)"
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let argument =
        prop_oneof![words().prop_map(Value::from), any::<i32>().prop_map(Value::from), Just(json!([1, null]))];
    let call = vec(argument, 1..3).prop_map(|values| {
        json!(["city", "days"].into_iter().map(str::to_owned).zip(values).collect::<serde_json::Map<_, _>>())
    });
    let text = prop_oneof![Just(String::new()), words()];
    let step = (words(), text, vec(call, 0..3), words(), option::of(words()));
    let step = step.prop_map(|(reasoning, text, calls, result, user)| Step { reasoning, text, calls, result, user });
    vec(step, 1..4)
}

/// Families that write calls in ways that have nothing in common.
const FAMILIES: [Family; 3] = [QWEN3, KIMI, GPT_OSS];

/// A step as the family's model samples it. `called` counts the calls of earlier steps.
fn sampled(family: &Family, step: &Step, called: usize) -> String {
    let Step { reasoning, text, .. } = step;
    let calls: Vec<String> = step.calls.iter().map(spelled).collect();
    match family.format {
        "qwen3" => {
            let call = |arguments| {
                format!("\n<tool_call>\n{{\"name\": \"weather\", \"arguments\": {arguments}}}\n</tool_call>")
            };
            let calls: String = calls.iter().map(call).collect();
            format!("<think>\n{reasoning}\n</think>\n\n{text}{calls}<|im_end|>")
        }
        "kimi_k25" => {
            let call = |(number, arguments)| {
                let id = called + number;
                format!(
                    "<|tool_call_begin|>functions.weather:{id}<|tool_call_argument_begin|>{arguments}<|tool_call_end|>"
                )
            };
            let calls: String = calls.iter().enumerate().map(call).collect();
            let section = if calls.is_empty() {
                calls
            } else {
                format!("<|tool_calls_section_begin|>{calls}<|tool_calls_section_end|>")
            };
            format!("{reasoning}</think>{text}{section}<|im_end|>")
        }
        _ => {
            // It calls one at a time, and has a channel for what is said before it.
            let thought = format!("<|channel|>analysis<|message|>{reasoning}<|end|><|start|>assistant");
            match calls.first() {
                None => format!("{thought}<|channel|>final<|message|>{text}<|return|>"),
                Some(arguments) => format!(
                    "{thought}<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{arguments}<|call|>"
                ),
            }
        }
    }
}

/// Arguments as no format writes them, and as only the sampled tokens have them: without spaces.
fn spelled(arguments: &Value) -> String {
    arguments.to_string()
}

/// How an agent holds a conversation.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Dialect {
    Chat,
    /// From the items of all responses, whole or as a stream's last event has them.
    Items {
        streamed: bool,
    },
    /// From the previous response's id.
    Previous {
        streamed: bool,
    },
    /// In Anthropic's blocks.
    Messages {
        streamed: bool,
    },
}

const DIALECTS: [Dialect; 7] = [
    Dialect::Chat,
    Dialect::Items { streamed: false },
    Dialect::Items { streamed: true },
    Dialect::Previous { streamed: false },
    Dialect::Previous { streamed: true },
    Dialect::Messages { streamed: false },
    Dialect::Messages { streamed: true },
];

/// An agent in the middle of a conversation.
struct Agent<'s> {
    setup: &'s Setup,
    base: String,
    dialect: Dialect,
    /// Messages or items that are sent next.
    input: Vec<Value>,
    previous: Value,
}

impl Agent<'_> {
    fn user(&mut self, text: &str) {
        self.input.push(json!({ "role": "user", "content": text }));
    }

    fn result(&mut self, call_id: &Value, text: &str) {
        self.input.push(match self.dialect {
            Dialect::Chat => json!({ "role": "tool", "tool_call_id": call_id, "content": text }),
            Dialect::Messages { .. } => {
                let block = json!({ "type": "tool_result", "tool_use_id": call_id, "content": text });
                json!({ "role": "user", "content": [block] })
            }
            Dialect::Items { .. } | Dialect::Previous { .. } => {
                json!({ "type": "function_call_output", "call_id": call_id, "output": text })
            }
        });
    }

    /// Asks for the next answer, keeps what it has to send again, and gives the ids of its calls.
    async fn ask(&mut self) -> Vec<Value> {
        match self.dialect {
            Dialect::Chat => self.ask_chat().await,
            Dialect::Items { streamed } => {
                let response = self.ask_for_response(streamed).await;
                self.input.extend(response["output"].as_array().unwrap().clone());
                calls_of(&response)
            }
            Dialect::Previous { streamed } => {
                let response = self.ask_for_response(streamed).await;
                self.input.clear();
                self.previous = response["id"].clone();
                calls_of(&response)
            }
            Dialect::Messages { streamed } => self.ask_for_message(streamed).await,
        }
    }

    async fn ask_chat(&mut self) -> Vec<Value> {
        let system = json!({ "role": "system", "content": "Be brief." });
        let messages: Vec<Value> = [system].into_iter().chain(self.input.clone()).collect();
        let body = json!({ "model": "tiny", "messages": messages, "tools": tools() });
        let answer: Value = self.setup.post(&self.base, &body).await.json().await.unwrap();
        let message = answer["choices"][0]["message"].clone();
        let ids = message["tool_calls"].as_array().into_iter().flatten().map(|call| call["id"].clone()).collect();
        self.input.push(message);
        ids
    }

    async fn ask_for_message(&mut self, streamed: bool) -> Vec<Value> {
        let function = &tools()[0]["function"];
        let tool = json!({
            "name": function["name"], "description": function["description"], "input_schema": function["parameters"],
        });
        let body = json!({
            "model": "tiny", "max_tokens": 64000, "system": "Be brief.", "messages": self.input, "tools": [tool],
            "thinking": { "type": "adaptive" }, "stream": streamed,
        });
        let url = format!("{}/messages", self.base);
        let text = self.setup.client.post(url).json(&body).send().await.unwrap().text().await.unwrap();
        let message = match streamed {
            true => messages::assembled(&messages::events(&text)),
            false => serde_json::from_str(&text).unwrap(),
        };
        let blocks = message["content"].as_array().unwrap_or_else(|| panic!("{message}")).iter();
        let ids = blocks.filter(|block| block["type"] == "tool_use").map(|block| block["id"].clone()).collect();
        self.input.push(json!({ "role": "assistant", "content": message["content"] }));
        ids
    }

    async fn ask_for_response(&self, streamed: bool) -> Value {
        let mut tool = tools()[0]["function"].clone();
        tool["type"] = json!("function");
        let body = json!({
            "model": "tiny", "instructions": "Be brief.", "input": self.input, "tools": [tool], "stream": streamed,
            "previous_response_id": self.previous,
        });
        let url = format!("{}/responses", self.base);
        let text = self.setup.client.post(url).json(&body).send().await.unwrap().text().await.unwrap();
        let last = text.trim_end().rsplit("data: ").next().unwrap();
        let value: Value = serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {text}"));
        if streamed { value["response"].clone() } else { value }
    }
}

fn calls_of(response: &Value) -> Vec<Value> {
    let calls = response["output"].as_array().unwrap_or_else(|| panic!("{response}")).iter();
    calls.filter(|item| item["type"] == "function_call").map(|item| item["call_id"].clone()).collect()
}

/// All that is trained of a conversation: prompts, what was sampled, logprobs.
type Tokens = Vec<(Vec<u32>, Vec<u32>, Option<Vec<f32>>)>;

async fn tokens_of(setup: &Setup, dialect: Dialect, family: &Family, steps: &[Step]) -> Tokens {
    let (rollout, base) = setup.seeded_attempt(5).await;
    let mut agent = Agent { setup, base, dialect, input: Vec::new(), previous: Value::Null };
    agent.user("Rain in Paris?");
    let mut called = 0;
    for step in steps {
        let tokens = setup.sampled(&sampled(family, step, called));
        setup.play(Script::Answer(tokens, SamplingEnd::StopToken));
        let calls = agent.ask().await;
        called += calls.len();
        for id in &calls {
            agent.result(id, &step.result);
        }
        match &step.user {
            Some(text) => agent.user(text),
            None if calls.is_empty() => agent.user("And then?"),
            None => {}
        }
    }
    let filter = GenerationFilter { rollout_id: Some(rollout), ..GenerationFilter::default() };
    let generations = setup.store.generations().matching(&filter).await.unwrap();
    assert_eq!(generations.len(), steps.len());
    for turns in generations.windows(2) {
        let goes_on_from = Some(&turns[0].generation_id);
        assert_eq!((turns[1].parent_id.as_ref(), &turns[1].branch_reason), (goes_on_from, &None), "{dialect:?}");
    }
    let tokens = generations.into_iter().map(|found| (found.prompt_tokens, found.sampled_tokens, found.logprobs));
    tokens.collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn tokens_are_the_same_in_every_dialect(steps in steps(), family in 0..FAMILIES.len()) {
        let family = &FAMILIES[family];
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let setup = family.setup().await;
            let chat = tokens_of(&setup, Dialect::Chat, family, &steps).await;
            for dialect in &DIALECTS[1..] {
                let tokens = tokens_of(&setup, *dialect, family, &steps).await;
                assert_eq!(tokens, chat, "{} {dialect:?}", family.format);
            }
        });
    }
}
