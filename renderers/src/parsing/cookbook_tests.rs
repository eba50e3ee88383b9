//! The parsers against tinker-cookbook's own results (`tests/vectors/cookbook`).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fulgurite_types::Content;
use serde_json::{Value, json};

use super::cookbook::parse_as_cookbook;
use crate::parsing::parsed_message::{ParsedMessage, PartContent};
use crate::parsing::stream_parser::{StreamParser, TurnEnds};
use crate::testing::vector_tokenizer;
use crate::{ResponseFormat, Tokenizer};

struct File {
    name: String,
    tokenizer: Arc<Tokenizer>,
    cases: Vec<Case>,
}

struct Case {
    text: String,
    sampled: Vec<u32>,
    /// The cookbook's result, or its error's message.
    expected: Result<Value, String>,
}

fn files() -> Vec<File> {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/cookbook");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let files: Vec<File> = paths.iter().filter_map(|path| file(path)).collect();
    assert_eq!(files.len(), 38);
    files
}

/// Files of `cookbook_tools` that say what was read.
fn tool_files() -> Vec<File> {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/cookbook_tools");
    let names = [
        "deepseekv4_1",
        "deepseekv4_1_disable_thinking",
        "deepseekv4_1_preserve_thinking",
        "glm5_3_high_reasoning",
        "glm5_3_low_reasoning",
        "glm5_3_max_reasoning",
    ];
    names.iter().map(|name| file(&dir.join(format!("{name}.json"))).unwrap()).collect()
}

fn file(path: &Path) -> Option<File> {
    let vectors: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let cases = vectors.get("parse_response")?.as_array().unwrap().iter().map(case).collect();
    let tokenizer = vector_tokenizer(vectors["tokenizer"].as_str().unwrap().trim_start_matches("tok_"));
    // What follows `@` names the tokenizer.
    let name = vectors["renderer"].as_str().unwrap().split('@').next().unwrap().to_owned();
    Some(File { name, tokenizer, cases })
}

fn case(case: &Value) -> Case {
    let result = &case["result"];
    let expected = match result["message"].as_str() {
        Some(message) => Err(message.to_owned()),
        None => Ok(result.clone()),
    };
    let sampled = serde_json::from_value(case["ids"].clone()).unwrap();
    Case { text: case["text"].as_str().unwrap().to_owned(), sampled, expected }
}

#[test]
fn the_cookbooks_results_are_reproduced() {
    let mut wrong = String::new();
    for file in files().into_iter().chain(tool_files()) {
        for case in file.cases {
            let ours = parse_as_cookbook(&file.name, &file.tokenizer, &case.sampled)
                .map(|parsed| json!({"message": parsed.message, "termination": parsed.termination}))
                .map_err(|error| error.to_string());
            if ours != case.expected {
                wrong += &format!("\n{}: {:?}\n  ours   {ours:?}\n  theirs {:?}", file.name, case.text, case.expected);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// How ours reads what a renderer of the cookbook samples, and what the renderer's prompts end with.
fn ours(file: &File, sampled: &[u32]) -> ParsedMessage {
    let name = file.name.split('#').next().unwrap();
    let (format, stops, prompt): (_, &[&str], _) = match name {
        "role_colon" => (ResponseFormat::RoleColon, &[], "Assistant:"),
        "llama3" => (ResponseFormat::Text, &["<|eot_id|>"], "<|end_header_id|>\n\n"),
        "kimi_k2" => (ResponseFormat::Kimi, &["<|im_end|>"], "<|im_middle|>"),
        "deepseekv3_thinking" => (ResponseFormat::DeepSeek, &["<｜end▁of▁sentence｜>"], "<｜Assistant｜><think>"),
        _ if name.starts_with("deepseek") => {
            (ResponseFormat::DeepSeek, &["<｜end▁of▁sentence｜>"], "<｜Assistant｜></think>")
        }
        _ if name.starts_with("gpt_oss") => {
            (ResponseFormat::Harmony, &["<|return|>", "<|call|>"], "<|start|>assistant")
        }
        _ if name.starts_with("kimi") && name.ends_with("disable_thinking") => {
            (ResponseFormat::Kimi, &["<|im_end|>"], "<|im_middle|><think></think>")
        }
        _ if name.starts_with("kimi") => (ResponseFormat::Kimi, &["<|im_end|>"], "<|im_middle|><think>"),
        "qwen3" | "qwen3_instruct" | "qwen3_vl" | "qwen3_vl_instruct" => {
            (ResponseFormat::QwenJson, &["<|im_end|>"], "<|im_start|>assistant\n")
        }
        "qwen3_disable_thinking" => {
            (ResponseFormat::QwenJson, &["<|im_end|>"], "<|im_start|>assistant\n<think>\n\n</think>\n\n")
        }
        _ if name.ends_with("disable_thinking") => {
            (ResponseFormat::QwenXml, &["<|im_end|>"], "<|im_start|>assistant\n<think>\n\n</think>\n\n")
        }
        _ => (ResponseFormat::QwenXml, &["<|im_end|>"], "<|im_start|>assistant\n<think>\n"),
    };
    let tokenizer = &file.tokenizer;
    let tokens: Vec<u32> = stops.iter().map(|stop| tokenizer.token_to_id(stop).unwrap()).collect();
    let text = (format == ResponseFormat::RoleColon).then_some("\n\nUser:");
    let prompt = tokenizer.encode_with_specials(prompt).unwrap();
    let mut parser = StreamParser::new(tokenizer, format, TurnEnds { tokens: &tokens, text }, &prompt, &[]);
    parser.feed(sampled);
    parser.finish().1
}

/// What both say, in a form in which they can be compared: text and reasoning joined, arguments parsed.
fn our_summary(parsed: &ParsedMessage) -> Value {
    let message = parsed.message();
    let mut calls = Vec::new();
    let mut broken = Vec::new();
    for part in &parsed.parts {
        match &part.content {
            PartContent::ToolCall { id, name, arguments, .. } => calls.push(json!([id, name, arguments])),
            PartContent::BrokenToolCall { .. } => broken.push(parsed.text_of(part).trim()),
            _ => {}
        }
    }
    let text = match message.content {
        Some(Content::Text(text)) => broken.iter().fold(text, |text, broken| text.replace(broken, "")),
        _ => String::new(),
    };
    let reasoning = message.extra.get("reasoning_content").cloned().unwrap_or("".into());
    json!({"text": text, "reasoning": reasoning, "calls": calls, "broken": broken, "termination": parsed.termination})
}

fn their_summary(result: &Value) -> Value {
    let message = &result["message"];
    let (mut text, mut reasoning) = (String::new(), String::new());
    match &message["content"] {
        Value::String(content) => text.push_str(content),
        parts => {
            for part in parts.as_array().unwrap() {
                text += part["text"].as_str().unwrap_or_default();
                reasoning += part["thinking"].as_str().unwrap_or_default();
            }
        }
    }
    let calls = message["tool_calls"].as_array().into_iter().flatten().map(|call| {
        let arguments: Value = serde_json::from_str(call["function"]["arguments"].as_str().unwrap()).unwrap();
        json!([call["id"], call["function"]["name"], arguments])
    });
    let calls: Vec<Value> = calls.collect();
    let broken = message["unparsed_tool_calls"].as_array().into_iter().flatten().map(|call| call["raw_text"].clone());
    let broken: Vec<Value> = broken.collect();
    let termination = &result["termination"];
    json!({"text": text, "reasoning": reasoning, "calls": calls, "broken": broken, "termination": termination})
}

/// Where ours is right and the cookbook is not.
struct Departure {
    /// The files, by the beginnings of their names.
    files: &'static [&'static str],
    /// Files among them that do not depart, by parts of their names.
    but: &'static [&'static str],
    /// The cases, by what was sampled.
    sampled: &'static [&'static str],
    reason: &'static str,
}

const DEPARTURES: &[Departure] = &[
    Departure {
        files: &["deepseekv3_thinking", "kimi_k25", "kimi_k26", "qwen3_5", "qwen3_8", "nemotron3"],
        but: &["disable_thinking"],
        sampled: &[
            "Hello.<|im_end|>",
            "Hello.<｜end▁of▁sentence｜>",
            "Hello truncated",
            "é 你好 🙂<|im_end|>",
            "ok\n\n<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n<parameter=days>\n2\n\
             </parameter>\n</function>\n</tool_call><|im_end|>",
        ],
        reason: "the prompt ends with `<think>`, so what is said before `</think>` is reasoning, even if none follows",
    },
    Departure {
        files: &["kimi_k25_disable", "kimi_k26_disable", "qwen3_5_disable", "qwen3_8_disable", "nemotron3"],
        but: &["nemotron3_low", "nemotron3_pre", "ultra_medium", "ultra_pre", "nemotron3.", "nemotron3_ultra."],
        sampled: &[
            "reason</think>Hello.<|im_end|>",
            "reason\n</think>\nHello.<|im_end|>",
            "reason\n</think>\n\nHello.<|im_end|>",
            "reason\n</think>\n\n<tool_call>\n<function=a>\n<parameter=x>\n1\n</parameter>\n</function>\n</tool_call>\
             <|im_end|>",
        ],
        reason: "the prompt has closed the reasoning, so a `</think>` closes nothing",
    },
    Departure {
        files: &["qwen3_5", "qwen3_8", "nemotron3"],
        but: &[],
        sampled: &["<think>\n\n</think>\n\nHello.<|im_end|>", "<think>\nnever closed<|im_end|>"],
        reason: "a `<think>` at the beginning opens reasoning, whichever tokens follow it, and whether it ends or not",
    },
    Departure {
        files: &["qwen3", "nemotron3"],
        but: &[],
        sampled: &[
            "<think>\nr\n</think>\n\nLet me.\n<tool_call>\n{\"name\": \"a\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n\
             {\"name\": \"b\", \"arguments\": {\"x\": [1, 2]}}\n</tool_call><|im_end|>",
            "reason\n</think>\n<tool_call>\n<function=a>\n<parameter=x>\n1\n</parameter>\n</function>\n</tool_call>\n\
             <|im_end|>",
            "reason</think>\n<tool_call>\n<function=a>\n<parameter=x>\n1\n</parameter>\n</function>\n</tool_call>\n\
             <|im_end|>",
        ],
        reason: "the newlines before and between calls are the format's: as text they would be written twice",
    },
    Departure {
        files: &["qwen3_5_disable", "qwen3_8_disable", "nemotron3_disable", "nemotron3_ultra_disable"],
        but: &[],
        sampled: &[
            "ok\n\n<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n<parameter=days>\n2\n\
             </parameter>\n</function>\n</tool_call><|im_end|>",
        ],
        reason: "as above; where calls are XML, the format strips what it writes before them",
    },
    Departure {
        files: &["qwen3_instruct", "qwen3_vl_instruct"],
        but: &[],
        sampled: &["<think>\nreason\n</think>\n\nHello.<|im_end|>", "<think>\n\n</think>\n\nHello.<|im_end|>"],
        reason: "the newlines beside `<think>` and `</think>` are their frame in every variant",
    },
    Departure {
        files: &["qwen3", "kimi", "deepseek", "gpt_oss"],
        but: &[],
        sampled: &[
            "<tool_call>\n{\"name\": \"a\", \"arguments\": {}}<|im_end|>",
            "<|tool_calls_section_begin|><|tool_call_begin|>functions.a:0<|tool_call_argument_begin|>{}<|im_end|>",
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{}<｜end▁of▁sentence｜>",
            " to=functions.a<|channel|>commentary <|constrain|>json<|message|>{bad<|call|>",
            " to=functions.a<|channel|>commentary<|return|>",
        ],
        reason: "what is broken is there once, not as text and as a broken call",
    },
    Departure {
        files: &["kimi", "deepseek"],
        but: &[],
        sampled: &[
            "<|tool_calls_section_begin|><|tool_call_begin|>badid<|tool_call_argument_begin|>{}<|tool_call_end|>\
             <|tool_calls_section_end|><|im_end|>",
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get-weather<｜tool▁sep｜>{}<｜tool▁call▁end｜>\
             <｜tool▁calls▁end｜><｜end▁of▁sentence｜>",
        ],
        reason: "a call with an odd name is a call, and one with an odd id is broken; neither is lost",
    },
    Departure {
        files: &["gpt_oss"],
        but: &[],
        sampled: &["<|channel|>final<|message|>truncated", "<|channel|>final<|message|><|return|>"],
        reason: "markup is no text, even of a message that was cut off or that says nothing",
    },
    Departure {
        files: &["gpt_oss", "llama3", "qwen3", "role_colon"],
        but: &[],
        sampled: &[
            "<|channel|>final<|message|>a<|return|><|return|>",
            "a<|eot_id|>b<|eot_id|>",
            "Hello.<|im_end|>more<|im_end|>",
            " a\n\nUser: b\n\nUser:",
        ],
        reason: "the first stop ends the message; what follows is counted and is no error",
    },
];

fn departure(file: &str, sampled: &str) -> Option<&'static Departure> {
    let file = format!("{file}.");
    DEPARTURES.iter().find(|departure| {
        departure.files.iter().any(|prefix| file.starts_with(prefix))
            && !departure.but.iter().any(|part| file.contains(part))
            && departure.sampled.contains(&sampled)
    })
}

#[test]
fn ours_are_the_cookbooks_results_but_for_named_departures() {
    let mut wrong = String::new();
    for file in files() {
        for case in &file.cases {
            let parsed = ours(&file, &case.sampled);
            let summary = our_summary(&parsed);
            let same = matches!(&case.expected, Ok(theirs) if their_summary(theirs) == summary);
            match (same, departure(&file.name, &case.text)) {
                (true, Some(Departure { reason, .. })) => {
                    wrong += &format!("\n{}: {:?} does not depart, though {reason}", file.name, case.text);
                }
                (false, None) => {
                    let theirs = case.expected.as_ref().map(their_summary);
                    wrong += &format!("\n{}: {:?}\n  ours   {summary}\n  theirs {theirs:?}", file.name, case.text);
                }
                _ => {}
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
