//! What is trained is what the model would sample.

use fulgurite_renderers::{FormatOptions, NamedRenderer, Renderer, TrainOnWhat, WeightedTokens};
use fulgurite_types::Message;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::conversations::{RENDERERS, Shape, conversation, open, open_with, shapes};

/// The same conversation where every turn reasons or none does.
fn reasoning(shapes: &[Shape], thinks: bool) -> Vec<Shape> {
    let with = |shape: &Shape| match shape {
        Shape::Assistant { calls, .. } => Shape::Assistant { thinks, calls: *calls },
        Shape::User => Shape::User,
    };
    shapes.iter().map(with).collect()
}

/// Runs of trained tokens, as where they begin and end.
fn trained_runs(example: &WeightedTokens) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for at in (0..example.weights.len()).filter(|at| example.weights[*at] == 1.0) {
        match runs.last_mut() {
            Some((_, end)) if *end == at => *end += 1,
            _ => runs.push((at, at + 1)),
        }
    }
    runs
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn every_turn_is_trained_once_after_the_prompt_that_it_answers(
        (name, _) in select(&RENDERERS[..]), shapes in shapes(), has_system: bool,
    ) {
        let renderer = open(name);
        let shapes = if name.contains("disable_thinking") { reasoning(&shapes, false) } else { shapes };
        let messages = conversation(&shapes, has_system, &|index| format!("t{index} "));
        let turns: Vec<usize> = (0..messages.len()).filter(|index| messages[*index].is_assistant()).collect();
        prop_assume!(!turns.is_empty());
        let examples = renderer.render_supervised(&messages, &[], &TrainOnWhat::AllAssistantMessages).unwrap();
        let runs: Vec<(&WeightedTokens, (usize, usize))> = examples
            .iter()
            .flat_map(|example| trained_runs(example).into_iter().map(move |run| (example, run)))
            .collect();
        prop_assert_eq!(runs.len(), turns.len());
        for (turn, (example, (start, end))) in turns.into_iter().zip(runs) {
            let prompt = renderer.render_prompt(&messages[..turn], &[]).unwrap().tokens;
            prop_assert_eq!(&example.tokens[..start], &prompt[..], "{}", turn);
            prop_assert!(renderer.stop_tokens().contains(&example.tokens[end - 1]));
        }
        // A sequence begins only where the one before it could not go on.
        for pair in examples.windows(2) {
            prop_assert!(!pair[1].tokens.starts_with(&pair[0].tokens));
        }
    }

    #[test]
    fn a_sequence_that_trains_everything_holds_what_a_sequence_of_the_turns_holds(
        (name, _) in select(&RENDERERS[..]), shapes in shapes(), has_system: bool,
    ) {
        let renderer = open(name);
        let shapes = if name.contains("disable_thinking") { reasoning(&shapes, false) } else { shapes };
        let mut messages = conversation(&shapes, has_system, &|index| format!("t{index} "));
        messages.push(Message::text("user", "bye"));
        messages.push(Message::text("assistant", "-bye"));
        let turns = renderer.render_supervised(&messages, &[], &TrainOnWhat::AllAssistantMessages).unwrap();
        match renderer.render_supervised(&messages, &[], &TrainOnWhat::AllTokens) {
            Ok(everything) => {
                prop_assert_eq!(turns.len(), 1);
                prop_assert_eq!(&everything[0].tokens, &turns[0].tokens);
                // What stands before the first message is nobody's.
                let mut weights = everything[0].weights.iter().skip_while(|weight| **weight == 0.0);
                prop_assert!(weights.all(|weight| *weight == 1.0));
                let marks = messages.iter().map(Message::is_assistant).collect();
                let marked = renderer.render_supervised(&messages, &[], &TrainOnWhat::Customized(marks)).unwrap();
                prop_assert_eq!(marked, turns);
            }
            Err(_) => prop_assert!(turns.len() > 1),
        }
    }
}

fn messages(value: Value) -> Vec<Message> {
    serde_json::from_value(value).unwrap()
}

/// A sequence as text, what is trained in brackets.
fn marked(renderer: &NamedRenderer, example: &WeightedTokens) -> String {
    let mut text = String::new();
    let mut end = 0;
    for (start, run_end) in trained_runs(example) {
        text += &renderer.tokenizer().decode(&example.tokens[end..start]);
        text += &format!("[{}]", renderer.tokenizer().decode(&example.tokens[start..run_end]));
        end = run_end;
    }
    text + &renderer.tokenizer().decode(&example.tokens[end..])
}

fn trained(renderer: &NamedRenderer, conversation: Value, train_on: &TrainOnWhat) -> Vec<String> {
    let examples = renderer.render_supervised(&messages(conversation), &[], train_on).unwrap();
    examples.iter().map(|example| marked(renderer, example)).collect()
}

fn chat() -> Value {
    json!([
        {"role": "system", "content": "s"},
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": "c"},
        {"role": "assistant", "content": "d"},
    ])
}

#[test]
fn each_way_to_train_takes_its_messages() {
    let llama = open_with("llama3", "llama3", FormatOptions::default());
    let trained = |train_on: TrainOnWhat| {
        let examples = trained(&llama, chat(), &train_on);
        assert_eq!(examples.len(), 1, "{train_on:?}");
        let headers = examples[0].replace("<|start_header_id|>", "").replace("<|end_header_id|>\n\n", ":");
        headers.replace("<|begin_of_text|>", "^").replace("<|eot_id|>", "$")
    };
    let marks = vec![false, true, false, false, true];
    for (train_on, expected) in [
        (TrainOnWhat::LastAssistantMessage, "^system:s$user:a$assistant:b$user:c$assistant:[d$]"),
        (TrainOnWhat::LastAssistantTurn, "^system:s$user:a$assistant:b$user:c$assistant:[d$]"),
        (TrainOnWhat::AllAssistantMessages, "^system:s$user:a$assistant:[b$]user:c$assistant:[d$]"),
        (TrainOnWhat::AllMessages, "^system:[s$]user:[a$]assistant:[b$]user:[c$]assistant:[d$]"),
        (TrainOnWhat::AllTokens, "^[system:s$user:a$assistant:b$user:c$assistant:d$]"),
        (TrainOnWhat::AllUserAndSystemMessages, "^system:[s$]user:[a$]assistant:b$user:[c$]assistant:d$"),
        (TrainOnWhat::Customized(marks), "^system:s$user:[a$]assistant:b$user:c$assistant:[d$]"),
    ] {
        assert_eq!(trained(train_on), expected);
    }
}

#[test]
fn marks_stay_with_their_messages_where_the_format_adds_one() {
    let nemotron = open("nemotron3_disable_thinking");
    let conversation = json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]);
    let customized = trained(&nemotron, conversation.clone(), &TrainOnWhat::Customized(vec![true, false]));
    assert_eq!(
        customized,
        [
            "<|im_start|>system\n<|im_end|>\n<|im_start|>user\n[a<|im_end|>]\n<|im_start|>assistant\n<think></think>b<|im_end|>"
        ]
    );
}

#[test]
fn a_turn_without_reasoning_goes_on_from_the_block_that_the_prompt_opens() {
    for (name, expected) in [
        ("qwen3", "<|im_start|>assistant\n[<think>\n\n</think>\n\nd<|im_end|>]"),
        ("qwen3_disable_thinking", "<|im_start|>assistant\n<think>\n\n</think>\n\n[d<|im_end|>]"),
        ("qwen3_5", "<|im_start|>assistant\n<think>\n[\n</think>\n\nd<|im_end|>]"),
        ("nemotron3", "<|im_start|>assistant\n<think>\n[\n</think>\nd<|im_end|>]"),
        ("nemotron3_ultra", "<|im_start|>assistant\n<think>\n[</think>d<|im_end|>]"),
        ("nemotron3_disable_thinking", "<|im_start|>assistant\n<think></think>[d<|im_end|>]"),
    ] {
        let examples = trained(&open(name), chat(), &TrainOnWhat::LastAssistantMessage);
        assert!(examples[0].ends_with(expected), "{name}: {}", examples[0]);
    }
}

#[test]
fn reasoning_is_not_trained_where_the_prompt_forbids_it() {
    let reasoned = json!([{"role": "user", "content": "a"},
                          {"role": "assistant", "content": "b", "reasoning_content": "r"}]);
    for (name, _) in RENDERERS.iter().filter(|(name, _)| name.contains("disable_thinking")) {
        let error = open(name).render_supervised(&messages(reasoned.clone()), &[], &TrainOnWhat::LastAssistantMessage);
        let error = error.unwrap_err().to_string();
        assert!(error.starts_with("message 1: the turn reasons, but the "), "{name}: {error}");
    }
}

#[test]
fn role_colon_trains_the_stop_that_begins_the_next_message() {
    let role_colon = open_with("role_colon", "qwen3", FormatOptions::default());
    let expected = "System: s\n\nUser: a\n\nAssistant:[ b\n\nUser:] c\n\nAssistant:[ d\n\nUser:]";
    assert_eq!(trained(&role_colon, chat(), &TrainOnWhat::AllAssistantMessages), [expected]);
    // Where somebody else goes on, the stop is no part of what follows.
    let interrupted = json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
                             {"role": "system", "content": "c"}, {"role": "assistant", "content": "d"}]);
    assert_eq!(
        trained(&role_colon, interrupted, &TrainOnWhat::AllAssistantMessages),
        ["User: a\n\nAssistant:[ b\n\nUser:]", "User: a\n\nAssistant: b\n\nSystem: c\n\nAssistant:[ d\n\nUser:]"]
    );
}

#[test]
fn the_cookbook_trains_a_whole_conversation_in_one_sequence() {
    let options = FormatOptions { cookbook_exact: true, ..FormatOptions::default() };
    let qwen3 = open_with("qwen3", "qwen3", options);
    let example = qwen3.cookbook_example(&messages(chat()), &[], &TrainOnWhat::AllAssistantMessages).unwrap();
    assert_eq!(
        marked(&qwen3, &example),
        "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n[b<|im_end|>]\n\
         <|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n[<think>\n\n</think>\n\nd<|im_end|>]"
    );
}
