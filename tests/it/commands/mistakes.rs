//! What the real command says of mistakes that are often made: of the request or the file, in its own words, and never in
//! those of the language that the command is written in.

use crate::common::{Server, model_flag, run, text, tiny_model};
use serde_json::{Value, json};

/// Words of Rust and of its libraries for reading.
const NOT_FOR_USERS: [&str; 12] = [
    "variant",
    "usize",
    "u32",
    "u64",
    "i64",
    "i128",
    "f64",
    "untagged",
    "invalid type",
    "missing field",
    "struct ",
    "EOF",
];

fn is_for_users(words_shown: &str) {
    // A temporary directory's name may hold any letters.
    let words =
        words_shown.split_whitespace().filter(|word| !word.contains("/.tmp")).collect::<Vec<_>>().join(" ") + " ";
    let found = NOT_FOR_USERS.iter().find(|word| words.contains(**word));
    assert_eq!(found, None, "{words_shown}");
}

/// A body with these fields in place of its own.
fn with(body: &Value, fields: Value) -> Value {
    let mut body = body.clone();
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    body
}

#[test]
fn mistakes_in_requests_are_told_in_the_words_of_the_request() {
    let directory = tempfile::tempdir().unwrap();
    let model = tiny_model(directory.path(), 128);
    let server = Server::start(directory.path(), ["--model", &model_flag("tiny", &model)]);
    let rollout = text(&server.post("/v1/agl/rollouts", &json!({ "input": 1 })).expect(201)["rollout_id"]);
    let reward = format!("/rollout/{rollout}/reward");
    let user = json!([{ "role": "user", "content": "Hi" }]);
    let chat = json!({ "model": "tiny", "messages": user });
    let messages = json!({ "model": "tiny", "messages": user, "max_tokens": 3 });
    let responses = json!({ "model": "tiny", "input": "Hi" });
    let weights = "/v1/fulgurite/models/tiny/weights";
    for (path, body, expected) in [
        ("/v1/chat/completions", with(&chat, json!({ "max_tokens": "5" })), "max_tokens is \"5\", but must be a whole"),
        ("/v1/chat/completions", with(&chat, json!({ "temperature": "hot" })), "temperature is \"hot\", but must be a"),
        ("/v1/chat/completions", json!({ "model": "tiny" }), "`messages` is missing"),
        ("/v1/chat/completions", with(&chat, json!({ "messages": {} })), "messages is an object, but must be a list"),
        ("/v1/chat/completions", with(&chat, json!({ "stop": 5 })), "expected a string or an array of strings"),
        (
            "/v1/chat/completions",
            with(&chat, json!({ "tool_choice": "maybe" })),
            "tool_choice \"maybe\" is not supported",
        ),
        (
            "/v1/messages",
            with(&messages, json!({ "max_tokens": "5" })),
            "max_tokens is \"5\", but must be a whole number",
        ),
        ("/v1/messages", with(&messages, json!({ "messages": {} })), "messages is an object, but must be a list"),
        ("/v1/messages", with(&messages, json!({ "system": 5 })), "expected a string or an array of content blocks"),
        ("/v1/responses", with(&responses, json!({ "input": 5 })), "input must be a string or a list of items"),
        (
            "/v1/responses",
            with(&responses, json!({ "max_output_tokens": [] })),
            "max_output_tokens is a list, but must be",
        ),
        (&reward, json!({ "value": "good" }), "Input should be a valid number"),
        (&reward, json!({}), "Field required"),
        (&reward, json!([1]), "Input should be a valid dictionary"),
        ("/v1/agl/rollouts", json!({ "input": 1, "mode": "trian" }), "Input should be 'train', 'val' or 'test'"),
        (
            "/v1/agl/rollouts",
            json!({ "input": 1, "config": { "max_attempts": 8589934592_u64 } }),
            "8589934592 is too large",
        ),
        ("/v1/agl/waits/rollouts", json!({ "rollout_ids": [], "timeout": 1e300 }), "seconds that a clock can count"),
        ("/v1/traces", json!({ "resourceSpans": 5 }), "integer `5` where a list should be"),
        (weights, json!({ "version": 4 }), "one of `model`, `adapter` and `kept` must say where the weights are"),
        (weights, json!({ "version": 4, "model": 5 }), "model is 5, but must be a string"),
        ("/api/v1/asample", json!({ "prompt": 5 }), "prompt is 5, but must be an object"),
        (
            "/api/v1/asample",
            json!({ "prompt": { "chunks": [] }, "sampling_params": { "temperature": "hot" } }),
            "sampling_params.temperature is \"hot\", but must be a number",
        ),
        (
            "/api/v1/create_model",
            json!({ "session_id": "s", "model_seq_id": 0, "lora_config": { "rank": -1 } }),
            "lora_config.rank is -1, but must be a whole number, 0 or more",
        ),
    ] {
        let answer = server.post(path, &body);
        assert!((400..500).contains(&answer.status), "{path} {body}: {} {}", answer.status, answer.text);
        let shown: Value = serde_json::from_str(&answer.text).unwrap();
        let places = [&shown["error"]["message"], &shown["message"], &shown["detail"][0]["msg"], &shown["detail"]];
        let shown = text(places.into_iter().find(|place| place.is_string()).unwrap());
        assert!(shown.contains(expected), "{path} {body}: {shown}");
        is_for_users(&shown);
    }
    for (body, expected) in
        [("", "the request body is empty"), ("{", "is not JSON: it ends too early at line 1 column 1")]
    {
        let answer = server.post_text("/v1/chat/completions", body);
        assert!(answer.text.contains(expected), "{}", answer.text);
        is_for_users(&answer.text);
    }
    let answer = server.get("/api/v1/sessions?limit=ten");
    assert_eq!(answer.expect(400), json!({ "detail": "the request cannot be read: limit must be a whole number" }));
}

#[test]
fn mistakes_in_a_config_are_told_in_the_words_of_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("x.toml");
    let model = |line: &str| format!("[[models]]\nname = \"a\"\n{line}\n");
    for (lines, expected) in [
        (
            "[trainer]\nmax_steps = \"x\"\n".to_owned(),
            "trainer.max_steps is \"x\", but must be a whole number, 0 or more",
        ),
        ("[trainer]\nsampling_parameters = 5\n".to_owned(), "trainer.sampling_parameters is 5, but must be a table"),
        (
            "[trainer]\nreward_bounds = [1]\n".to_owned(),
            "trainer.reward_bounds has 1 elements, but must be a list of 2",
        ),
        ("[trainer]\nmax_step = 1\n".to_owned(), "trainer has no key `max_step`; did you mean `max_steps`?"),
        ("[tasks]\ntrain = 5\n".to_owned(), "tasks.train is 5, but must be a list of tasks"),
        ("[runner]\ncommand = \"agent\"\n".to_owned(), "runner.command is \"agent\", but must be a list"),
        ("[run]\nseed = 99999999999999999999\n".to_owned(), "run.seed is 99999999999999999999, which is too large"),
        ("[models]\nname = \"a\"\n".to_owned(), "models is a table, but must be a list"),
        (model(""), "models[0] needs `backend`, which is missing"),
        (model("backend = \"embeded\""), "models[0].backend cannot be `embeded`; did you mean `embedded`?"),
        (model("backend = 5"), "models[0].backend must be a string"),
    ] {
        std::fs::write(&config, &lines).unwrap();
        let ran = run(["config", "show", "--config", config.to_str().unwrap()]);
        assert_eq!(ran.code, Some(1), "{lines}");
        assert!(ran.stderr.contains(expected), "{lines}{}", ran.stderr);
        is_for_users(&ran.stderr);
    }
}

#[test]
fn a_path_that_is_no_text_is_refused_in_its_dialect() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), [] as [&str; 0]);
    for path in ["/v1/models/%ff", "/rollout/%ff/attempt/a/v1/chat/completions"] {
        let refused = server.get(path).expect(400);
        assert_eq!(refused["error"]["code"], "path_not_text", "{refused}");
    }
    for path in ["/v1/agl/rollouts/%c3%28", "/v1/fulgurite/runs/%ff"] {
        let refused = server.get(path).expect(400);
        assert_eq!(refused["detail"], format!("the path is no UTF-8 text: `{path}`"));
    }
    assert_eq!(server.get("/v1/agl/rollouts/%c3%bc").expect(200), Value::Null, "a text in another alphabet");
}

#[test]
fn numbers_that_are_none_are_told_in_words_of_the_option() {
    for (arguments, expected) in [
        (
            ["run", "--parallel", "x"],
            "error: invalid value 'x' for '--parallel <N>': it is no whole number, 0 or more\n",
        ),
        (["run", "--parallel", "-1"], "error: unexpected argument '-1' found\n"),
        (["run", "--parallel", "99999999999999999999"], "'--parallel <N>': it is too large\n"),
        (["run", "--parallel", ""], "'--parallel <N>': it is empty\n"),
        (["serve", "--json", "--watchdog-interval=fast"], "error: invalid value 'fast' for '--watchdog-interval"),
    ] {
        let ran = run(arguments);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
        assert!(ran.stderr.contains(expected), "{}", ran.stderr);
        is_for_users(&ran.stderr);
    }
}
