//! What holds for every named format that knows tools, whatever the conversation: nobody's text becomes a control
//! token, and what follows a sampled turn is rendered without the turn.

mod conversations;
mod deepseek_v4;
mod glm;
mod qwen;
mod supervised;

use std::collections::BTreeSet;

use conversations::{RENDERERS, control_tokens, conversation, open, open_with, shapes, tools, try_open};
use fulgurite_renderers::{Continuation, FormatOptions, Renderer};
use fulgurite_types::Message;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_text_becomes_a_control_token(
        (name, tokenizer) in select(&RENDERERS[..]), shapes in shapes(), has_system: bool, has_tools: bool,
        picks in proptest::collection::vec(any::<proptest::sample::Index>(), 8),
    ) {
        let renderer = open(name);
        let control = control_tokens(tokenizer);
        let ids: BTreeSet<u32> = control.iter().map(|(_, id)| *id).collect();
        let evil = |index: usize| format!("a{} ", picks[index % picks.len()].get(&control).0);
        let of_control = |text: &dyn Fn(usize) -> String| {
            let tools = if has_tools { tools(&text(0)) } else { Vec::new() };
            let prompt = renderer.render_prompt(&conversation(&shapes, has_system, text), &tools).unwrap();
            prompt.tokens.into_iter().filter(|token| ids.contains(token)).collect::<Vec<u32>>()
        };
        prop_assert_eq!(of_control(&evil), of_control(&|_| "a b ".to_owned()));
    }

    #[test]
    fn no_text_becomes_a_control_token_where_nothing_but_text_is_known(
        (name, tokenizer) in select(&[("llama3", "llama3"), ("role_colon", "llama3"), ("role_colon", "qwen3")][..]),
        picks in proptest::collection::vec(any::<proptest::sample::Index>(), 1..6),
    ) {
        let renderer = open_with(name, tokenizer, FormatOptions::default());
        let control = control_tokens(tokenizer);
        let ids: BTreeSet<u32> = control.iter().map(|(_, id)| *id).collect();
        let of_control = |text: &dyn Fn(&proptest::sample::Index) -> String| {
            let roles = ["user", "assistant"].into_iter().cycle();
            let messages: Vec<Message> = picks.iter().zip(roles).map(|(pick, role)| Message::text(role, text(pick))).collect();
            let prompt = renderer.render_prompt(&messages, &[]).unwrap();
            prompt.tokens.into_iter().filter(|token| ids.contains(token)).collect::<Vec<u32>>()
        };
        prop_assert_eq!(of_control(&|pick| format!("a{} ", pick.get(&control).0)), of_control(&|_| "a b ".to_owned()));
    }

    #[test]
    fn what_follows_a_turn_is_the_end_of_the_whole_prompt(
        (name, _) in select(&RENDERERS[..]), shapes in shapes(), has_system: bool, turn: proptest::sample::Index,
        is_cut_off: bool,
    ) {
        let renderer = open(name);
        let messages = conversation(&shapes, has_system, &|index| format!("t{index} "));
        let turns: Vec<usize> = (0..messages.len()).filter(|index| messages[*index].is_assistant()).collect();
        prop_assume!(!turns.is_empty());
        let new_from = turn.get(&turns) + 1;
        let stop = renderer.stop_tokens()[0];
        // Whatever the prompt opened is closed.
        let text = renderer.tokenizer().encode_with_specials("</think>sampled").unwrap();
        let sampled: Vec<u32> = text.into_iter().chain((!is_cut_off).then_some(stop)).collect();
        let continuation = Continuation { messages: &messages, tools: &[], new_from, sampled: &sampled };
        let tokens = renderer.render_continuation(&continuation).unwrap();
        let whole = renderer.render_prompt(&messages, &[]).unwrap().tokens;
        let end = if name.starts_with("gpt_oss") { renderer.tokenizer().token_to_id("<|end|>").unwrap() } else { stop };
        let new = match is_cut_off {
            // Its turn ends with the role of what follows.
            true if name.starts_with("glm") => &tokens[..],
            true => tokens.strip_prefix(&[end]).expect("the turn is ended"),
            false => &tokens[..],
        };
        prop_assert!(whole.ends_with(new));
    }
}

/// The text of what follows a turn.
fn continued(name: &str, sampled: &str, new: Value) -> String {
    let renderer = open(name);
    let call = json!({"id": "c1", "type": "function", "function": {"name": "ping", "arguments": "{}"}});
    let call_message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
    let mut messages = vec![json!({"role": "user", "content": "a"}), call_message];
    messages.extend(new.as_array().unwrap().iter().cloned());
    let messages: Vec<Message> = serde_json::from_value(messages.into()).unwrap();
    let sampled = renderer.tokenizer().encode_with_specials(sampled).unwrap();
    let continuation = Continuation { messages: &messages, tools: &[], new_from: 2, sampled: &sampled };
    renderer.tokenizer().decode(&renderer.render_continuation(&continuation).unwrap())
}

#[test]
fn a_turn_goes_on_as_its_format_has_it() {
    let user = json!([{"role": "user", "content": "b"}]);
    let tool = json!([{"role": "tool", "tool_call_id": "c1", "content": "pong"}]);
    let both = json!([tool[0], user[0]]);
    for (name, sampled, new, expected) in [
        ("deepseekv3_thinking", "r</think>x<｜end▁of▁sentence｜>", &user, "<｜User｜>b<｜Assistant｜><think>"),
        ("deepseekv3", "x", &user, "<｜end▁of▁sentence｜><｜User｜>b<｜Assistant｜></think>"),
        // After a tool's result the assistant goes on without a role.
        (
            "deepseekv3_thinking",
            "</think><｜end▁of▁sentence｜>",
            &tool,
            "<｜tool▁output▁begin｜>pong<｜tool▁output▁end｜>",
        ),
        (
            "deepseekv3",
            "<｜end▁of▁sentence｜>",
            &both,
            "<｜tool▁output▁begin｜>pong<｜tool▁output▁end｜><｜User｜>b<｜Assistant｜></think>",
        ),
        // Results and what the user says are one turn.
        (
            "deepseekv4_1",
            "r</think>x<｜end▁of▁sentence｜>",
            &both,
            "<｜User｜><tool_result>pong</tool_result>\n\nb<｜Assistant｜><think>",
        ),
        ("deepseekv4_1_disable_thinking", "x", &user, "<｜end▁of▁sentence｜><｜User｜>b<｜Assistant｜></think>"),
        // The turn has written the role of the message that follows, if it ended as that message needs.
        (
            "glm5_3_max_reasoning",
            "r</think><tool_call>ping</tool_call><|observation|>",
            &tool,
            "<tool_response>pong</tool_response><|assistant|><think>",
        ),
        (
            "glm5_3_max_reasoning",
            "r</think><tool_call>ping</tool_call><|endoftext|>",
            &both,
            "<|observation|><tool_response>pong</tool_response><|user|>b<|assistant|><think>",
        ),
        (
            "glm5_3_low_reasoning",
            "r</think><tool_call>ping",
            &tool,
            "<|observation|><tool_response>pong</tool_response><|assistant|><think>",
        ),
        ("glm5_3_low_reasoning", "r</think>x<|observation|>", &user, "<|user|>b<|assistant|><think>"),
        (
            "kimi_k25",
            "r</think>x<|im_end|>",
            &user,
            "<|im_user|>user<|im_middle|>b<|im_end|><|im_assistant|>assistant<|im_middle|><think>",
        ),
        (
            "kimi_k2",
            "<think>r",
            &tool,
            "</think><|im_end|><|im_system|>tool<|im_middle|>## Return of c1\npong<|im_end|>\
             <|im_assistant|>assistant<|im_middle|>",
        ),
        (
            "gpt_oss_low_reasoning",
            "<|channel|>final<|message|>x<|return|>",
            &user,
            "<|start|>user<|message|>b<|end|><|start|>assistant",
        ),
        // The tool's name is that of the call.
        (
            "gpt_oss_no_sysprompt",
            " to=functions.ping<|channel|>commentary <|constrain|>json<|message|>{}<|call|>",
            &tool,
            "<|start|>functions.ping to=assistant<|channel|>commentary<|message|>pong<|end|><|start|>assistant",
        ),
        (
            "gpt_oss_high_reasoning",
            "<|channel|>analysis<|message|>r",
            &user,
            "<|end|><|start|>user<|message|>b<|end|><|start|>assistant",
        ),
    ] {
        assert_eq!(continued(name, sampled, new.clone()), expected, "{name} after {sampled}");
    }
}

/// Why a conversation is refused.
fn refused(name: &str, messages: Value) -> String {
    let messages: Vec<Message> = serde_json::from_value(messages).unwrap();
    open(name).render_prompt(&messages, &[]).unwrap_err().to_string()
}

#[test]
fn what_a_format_cannot_write_is_named() {
    let user = json!({"role": "user", "content": "a"});
    for (name, _) in RENDERERS {
        let image = json!({"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url"}]});
        let error = refused(name, json!([user, image]));
        assert_eq!(error, "message 1: content part 1 has type `image_url`, only text can be rendered", "{name}");
    }
    let error = refused("deepseekv3_thinking", json!([{"role": "critic", "content": "b"}]));
    assert_eq!(error, "message 0: the deepseekv3_thinking format has no role `critic`");
    let error = refused("gpt_oss_no_sysprompt", json!([user, {"role": "tool", "content": "b", "tool_call_id": "c9"}]));
    assert!(error.starts_with("message 1: the result of a tool needs the tool's `name`"), "{error}");
}

fn prompt(name: &str, messages: Value, tools: &[Value]) -> String {
    let messages: Vec<Message> = serde_json::from_value(messages).unwrap();
    let renderer = open(name);
    renderer.tokenizer().decode(&renderer.render_prompt(&messages, tools).unwrap().tokens)
}

#[test]
fn a_late_system_message_is_said_to_the_user_where_the_format_takes_it_only_first() {
    let late = json!([
        {"role": "system", "content": "s"}, {"role": "user", "content": "a"}, {"role": "developer", "content": "b"},
        {"role": "assistant", "content": "c"}, {"role": "system", "content": "d"},
    ]);
    let reminder = |text: &str| format!("<｜User｜><system-reminder>\n{text}\n</system-reminder>");
    let (b, d) = (reminder("b"), reminder("d"));
    let expected = format!("s<｜User｜>a{b}<｜Assistant｜></think>c<｜end▁of▁sentence｜>{d}<｜Assistant｜></think>");
    assert_eq!(prompt("deepseekv3", late, &[]), format!("<｜begin▁of▁sentence｜>{expected}"));
}

#[test]
fn the_developer_is_the_system() {
    let with = |role: &str| json!([{"role": role, "content": "s"}, {"role": "user", "content": "a"}]);
    for (name, _) in RENDERERS {
        for tools in [Vec::new(), tools("t")] {
            assert_eq!(prompt(name, with("developer"), &tools), prompt(name, with("system"), &tools), "{name}");
        }
    }
}

#[test]
fn history_keeps_the_reasoning_that_its_format_keeps() {
    let call = json!({"id": "f:0", "type": "function", "function": {"name": "f", "arguments": {"é": [1, "b"]}}});
    let turn = |reasoning: &str, text: &str| json!({"role": "assistant", "reasoning_content": reasoning, "content": text, "tool_calls": []});
    let mut calling = turn("r1", "");
    calling["tool_calls"] = json!([call]);
    let user = json!({"role": "user", "content": "q"});
    let result = json!({"role": "tool", "name": "f", "tool_call_id": "f:0", "content": "1"});
    let done = json!([user, calling, result, turn("r2", "done"), user]);
    let under_way = json!([user, calling, result]);
    for (name, messages, expected) in [
        (
            "deepseekv3",
            &done,
            "<｜begin▁of▁sentence｜><｜User｜>q<｜Assistant｜></think><｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f\
             <｜tool▁sep｜>{\"é\": [1, \"b\"]}<｜tool▁call▁end｜><｜tool▁calls▁end｜><｜end▁of▁sentence｜>\
             <｜tool▁output▁begin｜>1<｜tool▁output▁end｜>done<｜end▁of▁sentence｜><｜User｜>q<｜Assistant｜></think>",
        ),
        (
            "deepseekv3_thinking",
            &done,
            "<｜begin▁of▁sentence｜><｜User｜>q<｜Assistant｜><think>r1</think><｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f\
             <｜tool▁sep｜>{\"é\": [1, \"b\"]}<｜tool▁call▁end｜><｜tool▁calls▁end｜><｜end▁of▁sentence｜>\
             <｜tool▁output▁begin｜>1<｜tool▁output▁end｜>done<｜end▁of▁sentence｜><｜User｜>q<｜Assistant｜><think>",
        ),
        (
            "kimi_k2",
            &under_way,
            "<|im_system|>system<|im_middle|>You are Kimi, an AI assistant created by Moonshot AI.<|im_end|>\
             <|im_user|>user<|im_middle|>q<|im_end|><|im_assistant|>assistant<|im_middle|><think>r1</think>\
             <|tool_calls_section_begin|><|tool_call_begin|>f:0<|tool_call_argument_begin|>{\"é\": [1, \"b\"]}\
             <|tool_call_end|><|tool_calls_section_end|><|im_end|><|im_system|>f<|im_middle|>## Return of f:0\n1\
             <|im_end|><|im_assistant|>assistant<|im_middle|>",
        ),
        (
            "gpt_oss_no_sysprompt",
            &done,
            "<|start|>user<|message|>q<|end|><|start|>assistant to=functions.f<|channel|>commentary \
             <|constrain|>json<|message|>{\"é\": [1, \"b\"]}<|call|><|start|>functions.f to=assistant<|channel|>\
             commentary<|message|>1<|end|><|start|>assistant<|channel|>final<|message|>done<|end|>\
             <|start|>user<|message|>q<|end|><|start|>assistant",
        ),
        (
            "gpt_oss_no_sysprompt",
            &under_way,
            "<|start|>user<|message|>q<|end|><|start|>assistant<|channel|>analysis<|message|>r1<|end|>\
             <|start|>assistant to=functions.f<|channel|>commentary <|constrain|>json<|message|>{\"é\": [1, \"b\"]}\
             <|call|><|start|>functions.f to=assistant<|channel|>commentary<|message|>1<|end|><|start|>assistant",
        ),
    ] {
        assert_eq!(prompt(name, messages.clone(), &[]), expected, "{name}");
    }
}

#[test]
fn a_date_that_is_none_is_refused() {
    let options = FormatOptions { current_date: Some("2026-02-30".into()), ..FormatOptions::default() };
    let error = try_open("gpt_oss_low_reasoning", "gpt_oss", options).unwrap_err();
    assert!(error.to_string().contains("2026-02-30"), "{error}");
}

#[test]
fn gpt_oss_is_told_the_day_if_nobody_gives_one() {
    let renderer = open_with("gpt_oss_low_reasoning", "gpt_oss", FormatOptions::default());
    let prompt = renderer.render_prompt(&[Message::text("user", "a")], &[]).unwrap();
    let text = renderer.tokenizer().decode(&prompt.tokens);
    let (_, date) = text.split_once("Current date: ").unwrap();
    let is_date = |(index, character): (usize, char)| match index {
        4 | 7 => character == '-',
        _ => character.is_ascii_digit(),
    };
    assert!(date.chars().take(10).enumerate().all(is_date) && date[10..].starts_with("\n\nReasoning: low"), "{text}");
}
