//! Integers that 64 bits do not hold keep their digits in every dialect: in calls, and where they come back.

use fulgurite_backends::SamplingEnd;
use fulgurite_types::{Generation, GenerationFilter};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::common::families::{QWEN3, tools};
use crate::common::{Script, Setup, google, messages};

const DIGITS: &str = "123456789012345678901234567890";
/// What the call gave, as a number.
const RESULT: &str = "-98765432109876543210";

/// Arguments without the spaces that formats write: only what was sampled has them so.
fn arguments() -> String {
    format!("{{\"city\":\"Paris\",\"days\":{DIGITS}}}")
}

fn call() -> String {
    let arguments = arguments();
    format!(
        "<think>\nhm\n</think>\n\n<tool_call>\n{{\"name\": \"weather\", \"arguments\": {arguments}}}\n</tool_call>\
         <|im_end|>"
    )
}

/// An agent's two calls of a dialect; the second's history has what the first was answered.
#[derive(Clone, Copy, Debug)]
enum Dialect {
    Chat,
    Responses,
    Messages,
    Google,
}

impl Dialect {
    fn path(self) -> &'static str {
        match self {
            Dialect::Chat => "v1/chat/completions",
            Dialect::Responses => "v1/responses",
            Dialect::Messages => "v1/messages",
            Dialect::Google => "v1beta/models/tiny:generateContent",
        }
    }

    /// A body, as text, whose conversation has these items behind the user's question.
    fn body(self, items: &[String]) -> String {
        let function = &tools()[0]["function"];
        let (name, description) = (&function["name"], &function["description"]);
        let schema = &function["parameters"];
        let user = match self {
            Dialect::Google => "{\"role\":\"user\",\"parts\":[{\"text\":\"Rain in Paris?\"}]}",
            Dialect::Chat | Dialect::Responses | Dialect::Messages => {
                "{\"role\":\"user\",\"content\":\"Rain in Paris?\"}"
            }
        };
        let items = [&[user.to_owned()], items].concat().join(",");
        match self {
            Dialect::Chat => format!("{{\"model\":\"tiny\",\"messages\":[{items}],\"tools\":{}}}", tools()),
            Dialect::Responses => {
                let mut tool = function.clone();
                tool["type"] = json!("function");
                format!("{{\"model\":\"tiny\",\"input\":[{items}],\"tools\":[{tool}]}}")
            }
            Dialect::Messages => {
                let tool = json!({ "name": name, "description": description, "input_schema": schema });
                format!(
                    "{{\"model\":\"tiny\",\"max_tokens\":99,\"thinking\":{{\"type\":\"adaptive\"}},\
                     \"messages\":[{items}],\"tools\":[{tool}]}}"
                )
            }
            Dialect::Google => {
                let declared = json!({ "name": name, "description": description, "parametersJsonSchema": schema });
                format!(
                    "{{\"contents\":[{items}],\"tools\":[{{\"functionDeclarations\":[{declared}]}}],\
                     \"generationConfig\":{{\"thinkingConfig\":{{\"includeThoughts\":true}}}}}}"
                )
            }
        }
    }

    /// What an agent sends again of an answer, and what its call gave.
    fn items(self, answer: &str) -> Vec<String> {
        match self {
            Dialect::Chat => {
                let answer: Value = serde_json::from_str(answer).unwrap();
                let message = &answer["choices"][0]["message"];
                let id = &message["tool_calls"][0]["id"];
                let result = json!({ "role": "tool", "tool_call_id": id, "content": RESULT });
                vec![message.to_string(), result.to_string()]
            }
            Dialect::Responses => {
                let answer: Value = serde_json::from_str(answer).unwrap();
                let output = answer["output"].as_array().unwrap();
                let id = &output.last().unwrap()["call_id"];
                let result = json!({ "type": "function_call_output", "call_id": id, "output": RESULT });
                output.iter().chain([&result]).map(Value::to_string).collect()
            }
            Dialect::Messages => {
                let message: RawMessage<'_> = serde_json::from_str(answer).unwrap();
                let blocks: Value = serde_json::from_str(message.content.get()).unwrap();
                let id = &blocks.as_array().unwrap().last().unwrap()["id"];
                let result = json!([{ "type": "tool_result", "tool_use_id": id, "content": RESULT }]);
                vec![
                    format!("{{\"role\":\"assistant\",\"content\":{}}}", message.content),
                    format!("{{\"role\":\"user\",\"content\":{result}}}"),
                ]
            }
            Dialect::Google => {
                let response: RawResponse<'_> = serde_json::from_str(answer).unwrap();
                let result = format!(
                    "{{\"role\":\"user\",\"parts\":[{{\"functionResponse\":{{\"name\":\"weather\",\"response\":\
                     {{\"output\":{RESULT}}}}}}}]}}"
                );
                vec![response.candidates[0].content.to_string(), result]
            }
        }
    }
}

#[derive(Deserialize)]
struct RawMessage<'a> {
    #[serde(borrow)]
    content: &'a RawValue,
}

#[derive(Deserialize)]
struct RawResponse<'a> {
    #[serde(borrow)]
    candidates: Vec<RawMessage<'a>>,
}

/// A tool whose schema has long numbers, by each dialect.
fn tool(dialect: Dialect, schema: &str) -> String {
    match dialect {
        Dialect::Chat => format!(r#"{{"type":"function","function":{{"name":"f","parameters":{schema}}}}}"#),
        Dialect::Responses => format!(r#"{{"type":"function","name":"f","parameters":{schema}}}"#),
        Dialect::Messages => format!(r#"{{"name":"f","input_schema":{schema}}}"#),
        Dialect::Google => format!(r#"{{"functionDeclarations":[{{"name":"f","parametersJsonSchema":{schema}}}]}}"#),
    }
}

#[tokio::test]
async fn integers_beyond_64_bits_in_tool_schemas_keep_their_digits_cold_warm_and_after_a_restart() {
    let mut setup = QWEN3.setup().await;
    let answered = setup.sampled(&(QWEN3.plain_turn)("It rains."));
    let numbers =
        ["18446744073709551616", "100000000000000000000001", "-9223372036854775809", "0.12345678901234567890"];
    let [maximum, default, minimum, step] = numbers;
    let schema = format!(
        r#"{{"type":"object","properties":{{"a":{{"type":"integer","maximum":{maximum},"default":{default},"minimum":{minimum},"multipleOf":{step}}}}}}}"#
    );
    for dialect in [Dialect::Chat, Dialect::Responses, Dialect::Messages, Dialect::Google] {
        let (rollout, base) = setup.attempt().await;
        let path = base.strip_prefix(&setup.url).unwrap().to_owned();
        let mut items: Vec<String> = Vec::new();
        for turn in 0..2 {
            let body = dialect.body(&items);
            let at = body.find("\"tools\":").unwrap();
            let rest = &body[at + "\"tools\":".len()..];
            // The tools are the last field but for Google's, which has its config behind.
            let end = rest.rfind("],\"generationConfig\"").unwrap_or(rest.len() - 2);
            let body = format!("{}\"tools\":[{}{}", &body[..at], tool(dialect, &schema), &rest[end..]);
            setup.play(Script::Answer(answered.clone(), SamplingEnd::StopToken));
            let answer = post(&setup, &format!("{}{path}", setup.url), dialect, body).await;
            assert!(!answer.contains("$number"), "{dialect:?}: {answer}");
            if matches!(dialect, Dialect::Responses) {
                assert!(answer.contains(&schema), "{answer}");
            }
            if turn == 0 {
                items = vec![match dialect {
                    Dialect::Google => r#"{"role":"model","parts":[{"text":"It rains."}]}"#.to_owned(),
                    _ => r#"{"role":"assistant","content":"It rains."}"#.to_owned(),
                }];
                items.push(match dialect {
                    Dialect::Google => r#"{"role":"user","parts":[{"text":"And now?"}]}"#.to_owned(),
                    _ => r#"{"role":"user","content":"And now?"}"#.to_owned(),
                });
                setup.restart().await;
            }
        }
        let attributes = setup.attributes(&rollout).await;
        let recorded = attributes["gen_ai.request.functions.0.parameters"].as_str().unwrap();
        assert_eq!(recorded, schema, "{dialect:?}");
        let [first, second] = generations(&setup, rollout).await.try_into().unwrap();
        let prompt = setup.renderer.tokenizer().decode(&first.prompt_tokens);
        for number in numbers {
            assert!(prompt.contains(number), "{dialect:?}: {number} in {prompt}");
        }
        assert_eq!(second.branch_reason, None, "{dialect:?}");
        let before = [first.prompt_tokens.as_slice(), &first.sampled_tokens].concat();
        assert!(second.prompt_tokens.starts_with(&before), "{dialect:?}");
    }
}

async fn post(setup: &Setup, base: &str, dialect: Dialect, body: String) -> String {
    let url = format!("{}/{}", base.strip_suffix("/v1").unwrap(), dialect.path());
    let reply = setup.client.post(url).header("content-type", "application/json").body(body).send().await.unwrap();
    let status = reply.status();
    let text = reply.text().await.unwrap();
    assert_eq!(status, 200, "{dialect:?}: {text}");
    text
}

async fn generations(setup: &Setup, rollout: String) -> Vec<Generation> {
    let filter = GenerationFilter { rollout_id: Some(rollout), ..GenerationFilter::default() };
    setup.store.generations().matching(&filter).await.unwrap()
}

#[tokio::test]
async fn a_call_with_a_long_integer_comes_back_and_is_gone_on_from_token_by_token() {
    let setup = QWEN3.setup().await;
    let answered = setup.sampled(&(QWEN3.plain_turn)("It rains."));
    let (mut continued, mut rendered): (Vec<Vec<u32>>, Vec<Vec<u32>>) = (Vec::new(), Vec::new());
    for dialect in [Dialect::Chat, Dialect::Responses, Dialect::Messages, Dialect::Google] {
        setup.play(Script::Answer(setup.sampled(&call()), SamplingEnd::StopToken));
        let (rollout, base) = setup.seeded_attempt(5).await;
        let answer = post(&setup, &base, dialect, dialect.body(&[])).await;
        assert!(answer.contains(DIGITS), "{dialect:?}: {answer}");
        let arguments = setup.attributes(&rollout).await["gen_ai.completion.0.tool_calls.0.arguments"].clone();
        assert!(arguments.as_str().unwrap().contains(DIGITS), "{dialect:?}: {arguments}");

        let body = dialect.body(&dialect.items(&answer));
        assert!(body.contains(DIGITS) && body.contains(RESULT), "{dialect:?}: {body}");
        setup.play(Script::Answer(answered.clone(), SamplingEnd::StopToken));
        post(&setup, &base, dialect, body.clone()).await;
        let [first, second] = generations(&setup, rollout).await.try_into().unwrap();
        assert_eq!((second.parent_id.as_ref(), &second.branch_reason), (Some(&first.generation_id), &None));
        let before = [first.prompt_tokens.as_slice(), &first.sampled_tokens].concat();
        assert!(second.prompt_tokens.starts_with(&before), "{dialect:?}");
        let new = setup.renderer.tokenizer().decode(&second.prompt_tokens[before.len()..]);
        assert!(new.contains(RESULT), "{dialect:?}: {new}");
        continued.push(second.prompt_tokens);

        // Where nothing was recorded, the call is rendered from what came back.
        setup.play(Script::Answer(answered.clone(), SamplingEnd::StopToken));
        let (rollout, base) = setup.attempt().await;
        post(&setup, &base, dialect, body).await;
        let [only] = generations(&setup, rollout).await.try_into().unwrap();
        let prompt = setup.renderer.tokenizer().decode(&only.prompt_tokens);
        assert!(prompt.contains(DIGITS), "{dialect:?}: {prompt}");
        rendered.push(only.prompt_tokens);
    }
    assert!(continued.iter().all(|prompt| *prompt == continued[0]), "all dialects go on with the same tokens");
    assert_eq!(rendered[2], rendered[3], "blocks and parts are spelled alike");
}

#[tokio::test]
async fn a_streamed_call_has_all_digits_too() {
    let setup = QWEN3.setup().await;
    let play = async || {
        setup.play(Script::Answer(setup.sampled(&call()), SamplingEnd::StopToken));
        setup.attempt().await.1
    };
    let base = play().await;
    let body = Dialect::Messages.body(&[]).replacen('{', "{\"stream\":true,", 1);
    let events = messages::events(&post(&setup, &base, Dialect::Messages, body).await);
    let json: String = events.iter().filter_map(|event| event["delta"]["partial_json"].as_str()).collect();
    assert_eq!(json, arguments());

    let base = play().await;
    let url = format!("{}/v1beta/models/tiny:streamGenerateContent?alt=sse", base.strip_suffix("/v1").unwrap());
    let call = setup.client.post(url).header("content-type", "application/json").body(Dialect::Google.body(&[]));
    let text = call.send().await.unwrap().text().await.unwrap();
    assert!(text.contains(&format!("\"days\": {DIGITS}")), "{text}");
    assert!(!google::events(&text).is_empty());
}

#[tokio::test]
async fn histories_that_differ_in_the_last_digits_alone_are_not_retries_of_each_other() {
    let setup = QWEN3.setup().await;
    for dialect in [Dialect::Messages, Dialect::Google] {
        let (rollout, base) = setup.attempt().await;
        setup.play(Script::Answer(setup.sampled(&call()), SamplingEnd::StopToken));
        let answer = post(&setup, &base, dialect, dialect.body(&[])).await;
        let body = dialect.body(&dialect.items(&answer));
        let other = body.replace(DIGITS, &format!("{}1", &DIGITS[..DIGITS.len() - 1]));
        for body in [body, other] {
            setup.play(Script::Answer(setup.sampled(&(QWEN3.plain_turn)("It rains.")), SamplingEnd::StopToken));
            post(&setup, &base, dialect, body).await;
        }
        let [_, second, third] = generations(&setup, rollout).await.try_into().unwrap();
        assert_ne!(second.request_digest, third.request_digest, "{dialect:?}");
    }
}
