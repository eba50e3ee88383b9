//! Answers that must meet a schema, or be calls of tools, from models that know nothing: whatever random weights say,
//! clients get what they asked for, in the syntax of every family.

mod clients;
mod schemas;

use std::path::{Path, PathBuf};

use self::schemas::{is_met, objects};
use crate::common::Server;
use fulgurite_engine::ModelConfig;
use fulgurite_renderers::Tokenizer;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Map, Value, json};

/// A format and its tokenizer.
type Family = (&'static str, &'static str);

/// Those that know tools, and one that does not.
const FAMILIES: [Family; 11] = [
    ("llama3", "llama3"),
    ("qwen3", "qwen3"),
    ("qwen3_disable_thinking", "qwen3"),
    ("qwen3_5", "qwen3"),
    ("nemotron3", "qwen3"),
    ("deepseekv3", "deepseek"),
    ("deepseekv3_thinking", "deepseek"),
    ("deepseekv4_1", "deepseek"),
    ("kimi_k25", "kimi"),
    ("gpt_oss_low_reasoning", "gpt_oss"),
    ("template", "llama3"),
];

/// A model directory of random weights on a family's tokenizer.
fn random_model(home: &Path, tokenizer: &str) -> PathBuf {
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("renderers/tests/vectors/tokenizers").join(tokenizer);
    let path = home.join(tokenizer);
    if !path.exists() {
        let shape = ModelConfig {
            architecture: Default::default(),
            vocab_size: Tokenizer::open(&files).unwrap().vocabulary_size() + 5,
            hidden_size: 16,
            intermediate_size: 32,
            num_hidden_layers: 1,
            num_attention_heads: 2,
            num_key_value_heads: 1,
            head_dim: 8,
            max_position_embeddings: 1 << 14,
            rms_norm_eps: 1e-6,
            rope_theta: 10_000.0,
            rope_scaling: Default::default(),
            tie_word_embeddings: true,
            head: Default::default(),
            other: Map::new(),
        };
        fulgurite_engine::create_model(&path, &shape, 1).unwrap();
        for file in ["tokenizer.json", "tokenizer_config.json"] {
            std::fs::copy(files.join(file), path.join(file)).unwrap();
        }
        let template = files.join("../../templates/llama3_1.jinja");
        std::fs::copy(template, path.join("chat_template.jinja")).unwrap();
    }
    path
}

fn serve(home: &Path) -> Server {
    let flags = FAMILIES.iter().flat_map(|(format, tokenizer)| {
        let path = random_model(home, tokenizer);
        ["--model".to_owned(), format!("{format}=embedded:{},renderer={format}", path.display())]
    });
    Server::start(home, flags.collect::<Vec<_>>())
}

/// Makes the ends of what has no bound likely: reasoning, and white space between JSON's values. A model that knows
/// nothing would go on for long.
fn hurry(tokenizer: &str) -> Value {
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("renderers/tests/vectors/tokenizers").join(tokenizer);
    let tokenizer = Tokenizer::open(&files).unwrap();
    let ends = ["</think>", "<|end|>"].into_iter().filter_map(|mark| tokenizer.token_to_id(mark));
    let is_space = |token: &u32| tokenizer.id_to_bytes(*token).is_some_and(|bytes| bytes.trim_ascii().is_empty());
    let spaces = (0..tokenizer.vocabulary_size() as u32).filter(is_space);
    let biases = ends.map(|token| (token, 8)).chain(spaces.map(|token| (token, -4)));
    biases.map(|(token, bias)| (token.to_string(), json!(bias))).collect::<Map<String, Value>>().into()
}

fn tool(name: &str, parameters: &Value) -> Value {
    json!({ "type": "function", "function": { "name": name, "parameters": parameters } })
}

/// The only choice of an answer.
fn choice(server: &Server, format: &str, tokenizer: &str, seed: u64, fields: Value) -> Value {
    let mut body = json!({
        "model": format, "seed": seed, "messages": [{ "role": "user", "content": "Go." }], "logit_bias": hurry(tokenizer),
    });
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    server.post("/v1/chat/completions", &body).expect(200)["choices"][0].clone()
}

/// The calls of an answer: names and arguments.
fn calls(choice: &Value) -> Vec<(String, Value)> {
    assert_eq!(choice["finish_reason"], "tool_calls", "{choice}");
    assert_eq!(choice["message"]["content"], Value::Null, "{choice}");
    let call = |call: &Value| {
        let arguments = call["function"]["arguments"].as_str().unwrap();
        (call["function"]["name"].as_str().unwrap().to_owned(), serde_json::from_str(arguments).unwrap())
    };
    choice["message"]["tool_calls"].as_array().unwrap().iter().map(call).collect()
}

/// JSON that may be a schema, often with the words of one.
fn anything() -> impl Strategy<Value = Value> {
    let word = proptest::sample::select(vec![
        "type",
        "object",
        "string",
        "integer",
        "array",
        "properties",
        "items",
        "enum",
        "const",
        "anyOf",
        "oneOf",
        "allOf",
        "$ref",
        "#",
        "#/$defs/a",
        "$defs",
        "a",
        "pattern",
        "(",
        "[a-z]+",
        "maxLength",
        "minimum",
        "required",
        "format",
        "date",
        "additionalProperties",
        "minItems",
        "x-guidance",
        "\u{7f}\"<think>",
    ]);
    let leaf = prop_oneof![
        4 => word.clone().prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => prop_oneof![Just(json!(-1)), Just(json!(3)), Just(json!(1e300)), Just(Value::Null)],
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((word.clone(), inner), 0..5).prop_map(|fields| {
                fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Map<String, Value>>().into()
            }),
        ]
    })
}

#[test]
fn whatever_is_sent_as_a_schema_is_answered_or_refused_with_a_reason() {
    let home = tempfile::tempdir().unwrap();
    let server = serve(home.path());
    let mut runner = TestRunner::new(Config { cases: 150, failure_persistence: None, ..Config::default() });
    let strategy = (proptest::sample::select(&FAMILIES[1..]), anything(), any::<bool>());
    runner
        .run(&strategy, |((format, _), schema, is_tool)| {
            let fields = match is_tool {
                true => json!({ "tools": [tool("f", &schema)], "tool_choice": "required" }),
                false => {
                    json!({ "response_format": { "type": "json_schema", "json_schema": { "name": "n", "schema": schema } } })
                }
            };
            let mut body = json!({ "model": format, "max_tokens": 4, "messages": [{ "role": "user", "content": "Go." }] });
            body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            let answer = server.post("/v1/chat/completions", &body);
            prop_assert!([200, 400].contains(&answer.status), "{body}: {}", answer.text);
            Ok(())
        })
        .unwrap();
}

fn check(cases: u32, families: &[Family], law: impl Fn(&Server, Family, u64, Value, Value)) {
    let home = tempfile::tempdir().unwrap();
    let server = serve(home.path());
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let strategy = (proptest::sample::select(families.to_vec()), any::<u32>(), objects(), objects());
    runner
        .run(&strategy, |(family, seed, first, second)| {
            law(&server, family, u64::from(seed), first, second);
            Ok(())
        })
        .unwrap();
}

#[test]
fn text_meets_the_schema_in_every_format() {
    check(100, &FAMILIES, |server, (format, tokenizer), seed, mut schema, _| {
        // What tells an answer from a call where calls are JSON too.
        schema["properties"]["answer"] = json!({ "type": "boolean" });
        schema["required"].as_array_mut().unwrap().push(json!("answer"));
        let form = json!({ "type": "json_schema", "json_schema": { "name": "answer", "schema": schema } });
        let choice = choice(server, format, tokenizer, seed, json!({ "response_format": form }));
        assert_eq!(choice["finish_reason"], "stop", "{format}: {choice}");
        let content: Value = serde_json::from_str(choice["message"]["content"].as_str().unwrap()).unwrap();
        assert!(is_met(&schema, &content), "{format}: {schema}: {content}");
        assert_eq!(choice["message"]["tool_calls"], Value::Null);
    });
}

#[test]
fn a_call_that_is_required_is_made_with_arguments_that_meet_the_tools_schema() {
    check(100, &FAMILIES[1..], |server, (format, tokenizer), seed, first, second| {
        let tools = json!([tool("look_up", &first), tool("mcp__write.file-2", &second)]);
        let fields = json!({ "tools": tools, "tool_choice": "required" });
        for (name, arguments) in calls(&choice(server, format, tokenizer, seed, fields)) {
            let schema = if name == "look_up" { &first } else { &second };
            assert!(["look_up", "mcp__write.file-2"].contains(&name.as_str()));
            assert!(is_met(schema, &arguments), "{format}: {schema}: {arguments}");
        }
        let named = json!({ "type": "function", "function": { "name": "mcp__write.file-2" } });
        let fields = json!({ "tools": tools, "tool_choice": named, "parallel_tool_calls": false });
        let called = calls(&choice(server, format, tokenizer, seed, fields));
        assert_eq!(called.len(), 1, "{format}: {called:?}");
        assert_eq!(called[0].0, "mcp__write.file-2");
        assert!(is_met(&second, &called[0].1), "{format}: {second}: {called:?}");
    });
}

#[test]
fn an_answer_or_a_call_and_both_are_recorded_with_what_they_were_kept_to() {
    let home = tempfile::tempdir().unwrap();
    let server = serve(home.path());
    let parameters = json!({ "type": "object", "properties": { "flag": { "type": "boolean" } }, "required": ["flag"] });
    let mut parameters = parameters;
    parameters["additionalProperties"] = json!(false);
    let schema = json!({ "type": "object", "properties": { "answer": { "enum": [1, 2] } }, "required": ["answer"],
                         "additionalProperties": false });
    let form = json!({ "type": "json_schema", "json_schema": { "name": "answer", "schema": schema } });
    for (format, tokenizer) in FAMILIES.into_iter().skip(1) {
        let mut seen = [false; 2];
        for seed in 0..40 {
            let fields = json!({ "response_format": form, "tools": [tool("look", &parameters)] });
            let choice = choice(&server, format, tokenizer, seed, fields);
            let has_called = choice["finish_reason"] == "tool_calls";
            match has_called {
                true => assert!(
                    calls(&choice).iter().all(|(name, arguments)| name == "look" && arguments["flag"].is_boolean())
                ),
                false => {
                    let content: Value = serde_json::from_str(choice["message"]["content"].as_str().unwrap()).unwrap();
                    assert!(content == json!({ "answer": 1 }) || content == json!({ "answer": 2 }), "{content}");
                }
            }
            seen[usize::from(has_called)] = true;
            if seen == [true; 2] {
                break;
            }
        }
        assert_eq!(seen, [true; 2], "{format}");
    }
    for generation in server.query("generations") {
        let grammar = generation["sampling"]["constraint"]["lark"].as_str().unwrap();
        assert!(grammar.contains("%json"), "{generation}");
    }
}
