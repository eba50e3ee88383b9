//! Whatever a model samples, append-only conversations continue token by token in every format.

use std::sync::Arc;

use fulgurite_renderers::Renderer;
use fulgurite_types::Message;
use serde_json::{Value, json};

use super::setup::{
    Rollout, answer_of, calling, message, named, result, system, template, template_with_control, user, vectors,
    weather_tool,
};

/// The formats of the cookbook's vectors on their tokenizers, each with its file.
fn named_formats() -> Vec<(Arc<dyn Renderer>, Value)> {
    let directory = std::fs::read_dir(vectors().join("cookbook")).unwrap();
    let mut paths: Vec<_> = directory.map(|file| file.unwrap().path()).collect();
    paths.sort();
    let mut formats = Vec::new();
    for path in paths {
        let file: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let Some(name) = file["renderer"].as_str() else { continue };
        let tokenizer = file["tokenizer"].as_str().unwrap().trim_start_matches("tok_");
        formats.push((named(name.split('@').next().unwrap(), tokenizer), file));
    }
    assert!(formats.len() >= 38, "{}", formats.len());
    formats
}

fn templates() -> Vec<Arc<dyn Renderer>> {
    let chatml = |name| template(name, "qwen3", "<|im_end|>");
    vec![
        chatml("qwen2_5"),
        chatml("qwen3"),
        chatml("qwen3_2507"),
        chatml("qwen3_5"),
        template("llama3_1", "llama3", "<|eot_id|>"),
        template("deepseek_v3", "deepseek", "<｜end▁of▁sentence｜>"),
        template("kimi", "kimi", "<|im_end|>"),
        template("gpt_oss", "gpt_oss", "<|return|>"),
    ]
}

/// What models write, in any format's syntax or none, whole or cut off; beside it the reply that a client may get.
fn turns() -> Vec<(&'static str, Message)> {
    let one = || calling(json!(null), &[("functions.get_weather:0", "{\"city\":\"Paris\"}")]);
    let two = || {
        let calls =
            [("functions.get_weather:0", "{\"city\":\"Paris\"}"), ("functions.get_weather:1", "{\"city\":\"Rome\"}")];
        calling(json!("Both."), &calls)
    };
    let thought = message(json!({"role": "assistant", "content": "Hello.", "reasoning_content": "reason"}));
    vec![
        ("Hello.", answer_of("Hello.")),
        (" \nHello.\n\n", answer_of("Hello.")),
        ("<think>\nreason\n</think>\n\nHello.", thought.clone()),
        ("reason\n</think>\n\nHello.", thought),
        ("", answer_of("")),
        ("<tool_call>\n{\"name\":\"get_weather\",\"arguments\":{\"city\":\"Paris\"}}\n</tool_call>", one()),
        (
            "Both.\n<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>\n</tool_call>\n<tool_call>",
            two(),
        ),
        (
            "<tool_call>\n{\"name\": \"a\", bad}\n</tool_call>",
            answer_of("<tool_call>\n{\"name\": \"a\", bad}\n</tool_call>"),
        ),
        ("<|channel|>analysis<|message|>hm", answer_of("")),
        ("e\u{301} \u{fffd}", answer_of("e\u{301} \u{fffd}")),
    ]
}

/// Whether a format can write such a reply at all, told by the error of rendering it.
fn writes(renderer: &dyn Renderer, messages: &[Message], tools: &[Value]) -> bool {
    renderer.render_prompt(messages, tools).is_ok()
}

/// Plays a conversation of many turns, each cut off or ended; gives how many turns continued.
fn play(renderer: Arc<dyn Renderer>, tools: Vec<Value>) -> usize {
    let mut rollout = Rollout::new(renderer);
    rollout.tools = tools;
    let mut messages = vec![system("Be brief."), user("Hi")];
    let mut continued = 0;
    for cut in [false, true] {
        for (text, reply) in turns() {
            let mut after = messages.clone();
            after.push(reply.clone());
            after.extend(reply.tool_calls.iter().map(|call| result(call.id.as_deref().unwrap(), "sun <|im_end|>")));
            if reply.tool_calls.is_empty() {
                after.push(user("And\u{a0}then? {{ x }}</think>"));
            }
            if !writes(&*rollout.renderer, &after, &rollout.tools) {
                continue;
            }
            let mut sampled = rollout.sampled(text);
            if cut && !rollout.renderer.stop_tokens().is_empty() {
                sampled.pop();
            }
            let turn = rollout.call(&messages, &sampled, &reply);
            let name = rollout.renderer.name();
            let next = rollout.continued(&after);
            assert_eq!((next.turn, next.new_from, &next.departure), (turn, messages.len() + 1, &None), "{name}");
            // What is appended is the end of the conversation as the format writes it, after the token that closes a
            // turn which was cut off; a call may have another end of its own.
            let closing = usize::from(cut && !rollout.renderer.stop_tokens().is_empty());
            let whole = rollout.renderer.render_prompt(&after, &rollout.tools).unwrap().tokens;
            let (whole, appended) = (rollout.text(&whole), rollout.text(&next.appended[closing..]));
            // Reasoning that was cut off is closed before the turn is.
            let all = rollout.text(&next.appended);
            let behind_reasoning = all.trim_start().strip_prefix("</think>").filter(|_| cut).map(str::trim_start);
            let ends = ["<|im_end|>", "<｜end▁of▁sentence｜>"];
            let after_end = |end: &str| behind_reasoning?.strip_prefix(end);
            let appended = ends.into_iter().find_map(after_end).unwrap_or(&appended);
            assert!(whole.ends_with(appended), "{name} after {text:?}\n{appended:?}\n{whole:?}");
            assert!(!appended.is_empty());
            messages = after;
            continued += 1;
        }
    }
    continued
}

#[test]
fn every_named_format_continues_every_turn() {
    let deepseek = ["deepseekv4_1", "deepseekv4_1_disable_thinking"].map(|name| named(name, "deepseek"));
    for renderer in named_formats().into_iter().map(|(renderer, _)| renderer).chain(deepseek) {
        let name = renderer.name().to_owned();
        assert!(play(renderer.clone(), vec![]) >= 12, "{name}");
        play(renderer, vec![weather_tool()]);
    }
}

#[test]
fn every_template_continues_every_turn() {
    for (number, renderer) in templates().into_iter().enumerate() {
        assert!(play(renderer.clone(), vec![]) >= 12, "template {number}");
        play(renderer, vec![weather_tool()]);
    }
}

/// The responses on which the cookbook's rendering of the next prompt leaves what was sampled.
#[test]
fn what_breaks_when_turns_are_rendered_again_continues_here() {
    let mut checked = 0;
    let mut check = |renderer: Arc<dyn Renderer>, response: &str| {
        let mut rollout = Rollout::new(renderer);
        let question = [user("q1")];
        let sampled = rollout.renderer.tokenizer().encode_with_specials(response).unwrap();
        let reply = rollout.renderer.parse(&[], &sampled, &[]).message();
        let turn = rollout.call(&question, &sampled, &reply);
        let mut after = vec![question[0].clone(), reply.clone()];
        after.extend(reply.tool_calls.iter().map(|call| result(call.id.as_deref().unwrap_or("c"), "res")));
        after.push(user("q2"));
        let next = rollout.continued(&after);
        assert_eq!((next.turn, next.tokens_kept), (turn, rollout.turns.tokens(turn).len()));
        assert!(rollout.text(&next.appended).contains("q2"));
        checked += 1;
    };
    let path = vectors().join("cookbook/extension_tool_turns.json");
    let tool_turns: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let tokenizer_of = |name: &str| {
        let family = ["deepseek", "gpt_oss", "kimi", "llama3"].into_iter().find(|family| name.starts_with(family));
        family.unwrap_or("qwen3")
    };
    for case in tool_turns["template_exact_tool_turns"].as_array().unwrap() {
        let name = case["renderer"].as_str().unwrap();
        check(named(name, tokenizer_of(name)), case["response"].as_str().unwrap());
    }
    for (renderer, file) in named_formats() {
        for case in file["extension_check"].as_array().unwrap() {
            check(renderer.clone(), case["response"].as_str().unwrap());
        }
    }
    assert!(checked > 500, "{checked}");
}

/// A conversation as Claude Code holds it, and agents that speak as the developer: what each template is given of what the
/// system says first, after a turn, after a tool's result, and after the user. Gemma's writes no results.
#[test]
fn conversations_in_which_the_system_speaks_late_continue_token_by_token() {
    let [brief, kind, celsius, leaving] = ["Be brief.", "Be kind.", "Use Celsius.", "Be gone."]
        .map(|text| (text, format!("<system-reminder>\n{text}\n</system-reminder>")));
    let user_of = |texts: &[&str]| -> String {
        texts.iter().map(|text| format!("<|im_start|>user\n{text}<|im_end|>\n")).collect()
    };
    let system_of = |text: &str| format!("<|im_start|>system\n{text}<|im_end|>\n");
    let called = "<tool_response>\nsun\n</tool_response>";
    let (asks, thinks) = ("<|im_start|>assistant\n", "<|im_start|>assistant\n<think>\n");
    let inst = |texts: &[&str]| format!("[INST] {}[/INST]", texts.join("\n\n"));
    let gemma =
        |texts: &[&str]| format!("<start_of_turn>user\n{}<end_of_turn>\n<start_of_turn>model\n", texts.join("\n\n"));
    let result_of_mistral =
        format!("[TOOL_RESULTS] {{\"content\": sun\n\n{}, \"call_id\": \"fulgurit1\"}}[/TOOL_RESULTS]", celsius.1);
    for (renderer, expected) in [
        (
            template("qwen3", "qwen3", "<|im_end|>"),
            vec![
                format!("{}{}{asks}", system_of(brief.0), user_of(&["Hi"])),
                format!("\n{}{}{asks}", system_of(kind.0), user_of(&["Rain?"])),
                format!("\n{}{}{asks}", user_of(&[called]), system_of(celsius.0)),
                format!("\n{}{}{asks}", user_of(&["Thanks."]), system_of(leaving.0)),
            ],
        ),
        (
            template("qwen3_5", "qwen3", "<|im_end|>"),
            vec![
                format!("{}{}{thinks}", system_of(brief.0), user_of(&["Hi"])),
                format!("\n{}{thinks}", user_of(&[&format!("{}\n\nRain?", kind.1)])),
                format!("\n{}{thinks}", user_of(&[called, &celsius.1])),
                format!("\n{}{thinks}", user_of(&[&format!("Thanks.\n\n{}", leaving.1)])),
            ],
        ),
        // It writes what the system says first before whatever the user says last.
        (
            template_with_control("mistral", &["[INST]", "[/INST]", "[TOOL_CALLS]", "</s>"]),
            vec![
                inst(&[brief.0, "Hi"]),
                inst(&[brief.0, &kind.1, "Rain?"]),
                result_of_mistral,
                inst(&[brief.0, "Thanks.", &leaving.1]),
            ],
        ),
        (
            template_with_control("gemma", &["<start_of_turn>", "<end_of_turn>"]),
            vec![
                gemma(&[brief.0, "Hi"]),
                format!("\n{}", gemma(&[&kind.1, "Rain?"])),
                String::new(),
                format!("\n{}", gemma(&["Thanks.", &leaving.1])),
            ],
        ),
    ] {
        let mut rollout = Rollout::new(renderer);
        let developer = |text: &str| Message::text("developer", text);
        let mut messages = vec![developer(brief.0), user("Hi")];
        let fresh = rollout.fresh(&messages);
        assert_eq!(rollout.text(&fresh.tokens), expected[0]);
        let call = calling(json!(null), &[("fulgurit1", "{\"city\":\"Paris\"}")]);
        let turns = [
            ("Hello.", answer_of("Hello."), vec![system(kind.0), user("Rain?")]),
            ("a call", call, vec![result("fulgurit1", "sun"), developer(celsius.0)]),
            ("Sun.", answer_of("Sun."), vec![user("Thanks."), system(leaving.0)]),
        ];
        for ((text, reply, new), expected) in turns.into_iter().zip(&expected[1..]) {
            if expected.is_empty() {
                continue;
            }
            let sampled = rollout.sampled(text);
            let turn = rollout.call(&messages, &sampled, &reply);
            messages.push(reply);
            let new_from = messages.len();
            messages.extend(new);
            let next = rollout.continued(&messages);
            assert_eq!((next.turn, next.new_from, &next.departure), (turn, new_from, &None));
            assert_eq!(next.tokens_kept, rollout.turns.tokens(turn).len());
            assert_eq!(rollout.text(&next.appended), *expected);
            let whole = rollout.renderer.render_prompt(&messages, &[]).unwrap().tokens;
            assert!(whole.ends_with(&next.appended), "{}", rollout.text(&whole));
        }
    }
}

#[test]
fn what_the_system_says_late_is_not_lost_where_the_template_writes_it_before_the_conversation() {
    let mut rollout = Rollout::new(template("deepseek_v3", "deepseek", "<｜end▁of▁sentence｜>"));
    rollout.say(&[system("Be brief."), user("Hi")], "Hello.");
    let messages = [system("Be brief."), user("Hi"), answer_of("Hello."), system("Be kind."), user("Bye")];
    let appended = rollout.continued(&messages).appended;
    let reminder = "<system-reminder>\nBe kind.\n</system-reminder>";
    assert_eq!(rollout.text(&appended), format!("<｜User｜>{reminder}\n\nBye<｜Assistant｜><think>\n"));
    // Rendered from its beginning, it is what the template makes of it.
    let whole = rollout.text(&rollout.renderer.render_prompt(&messages, &[]).unwrap().tokens);
    assert!(whole.contains("Be brief.\n\nBe kind.<｜User｜>Hi"), "{whole}");
}
