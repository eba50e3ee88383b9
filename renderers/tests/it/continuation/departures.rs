//! Where a request leaves what is recorded, and the name that is given to it.

use fulgurite_renderers::{ContinuationPolicy, NextPrompt};
use fulgurite_types::{DepartureReason, Message};
use proptest::prelude::*;
use serde_json::json;

use super::setup::{Rollout, answer_of, message, named, plain, system, template, template_of, user, weather_tool};

/// A conversation of three turns, each of a question and its answer, behind a system message.
fn three_turns() -> (Rollout, Vec<Message>) {
    let mut rollout = Rollout::new(plain());
    let mut messages = vec![system("Be brief.")];
    for turn in 0..3 {
        messages.push(user(&format!("question {turn}")));
        rollout.say(&messages, &format!("answer {turn}"));
        messages.push(answer_of(&format!("answer {turn}")));
    }
    messages.push(user("question 3"));
    (rollout, messages)
}

fn reason(next: &NextPrompt) -> Option<(DepartureReason, Option<usize>)> {
    let departure = match next {
        NextPrompt::Continued(continued) => continued.departure.as_ref()?,
        NextPrompt::Fresh(fresh) => &fresh.departure,
    };
    Some((departure.reason, departure.message_index))
}

#[test]
fn the_first_turn_is_rendered() {
    let rollout = Rollout::new(plain());
    let fresh = rollout.fresh(&[user("Hi")]);
    assert_eq!(fresh.departure.reason, DepartureReason::FirstTurn);
    assert_eq!(rollout.text(&fresh.tokens), "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
}

#[test]
fn the_latest_turn_is_continued_without_a_departure() {
    let (rollout, messages) = three_turns();
    let next = rollout.next(&messages);
    assert_eq!(reason(&next), None);
    let continued = rollout.continued(&messages);
    assert_eq!((continued.turn, continued.new_from, continued.tokens_kept), (2, 7, rollout.turns.tokens(2).len()));
    assert!(rollout.turns.prompt_tokens(&next).starts_with(&rollout.turns.tokens(2)));
    assert_eq!(rollout.text(&continued.appended), "\n<|im_start|>user\nquestion 3<|im_end|>\n<|im_start|>assistant\n");
}

#[test]
fn a_turn_that_was_cut_off_is_closed_first() {
    let mut rollout = Rollout::new(plain());
    rollout.call(&[user("a")], &[100, 101], &answer_of("b"));
    let appended = rollout.continued(&[user("a"), answer_of("b"), user("c")]).appended;
    assert_eq!(rollout.text(&appended), "<|im_end|>\n<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n");
}

#[test]
fn a_template_that_shows_no_end_of_a_turn_cannot_continue_it() {
    let counting = template_of("{{ messages | length }}", "qwen3", "<|im_end|>");
    let mut rollout = Rollout::new(counting);
    rollout.call(&[user("a")], &[100, 101], &answer_of("b"));
    let fresh = rollout.fresh(&[user("a"), answer_of("b"), user("c")]);
    assert_eq!(fresh.departure.reason, DepartureReason::RendererCannotContinue);
    assert_eq!((fresh.departure.turn, fresh.departure.message_index), (Some(0), Some(1)));
    assert!(fresh.departure.detail.is_some_and(|detail| !detail.is_empty()));
    assert_eq!(rollout.text(&fresh.tokens), "3");
}

#[test]
fn an_earlier_turn_is_continued_by_another_branch() {
    let (mut rollout, messages) = three_turns();
    let branch = [&messages[..5], &[user("something else")]].concat();
    let continued = rollout.continued(&branch);
    assert_eq!((continued.turn, continued.new_from), (1, 5));
    assert_eq!(reason(&rollout.next(&branch)), Some((DepartureReason::OtherBranch, Some(5))));
    // Both branches go on from there.
    let turn = rollout.say(&branch, "other answer");
    assert_eq!(rollout.continued(&[&branch[..], &[answer_of("other answer"), user("?")]].concat()).turn, turn);
    assert_eq!(rollout.continued(&messages).turn, 2);
}

#[test]
fn the_same_request_again_has_the_same_prompt() {
    let (rollout, messages) = three_turns();
    let again = rollout.next(&messages[..6]);
    assert_eq!(reason(&again), Some((DepartureReason::RequestRepeated, None)));
    let length = rollout.turns.prompt_tokens(&again).len();
    assert_eq!(rollout.turns.prompt_tokens(&again), rollout.turns.tokens(2)[..length]);
    assert_eq!(reason(&rollout.next(&messages[..2])), Some((DepartureReason::RequestRepeated, None)));
    assert_eq!(reason(&rollout.next(&messages[..1])), Some((DepartureReason::Truncated, None)));
}

#[test]
fn each_change_of_the_history_is_named() {
    let (rollout, messages) = three_turns();
    let changed = |change: &dyn Fn(&mut Vec<Message>)| {
        let mut messages = messages.clone();
        change(&mut messages);
        reason(&rollout.next(&messages))
    };
    let rewritten = DepartureReason::HistoryRewritten;
    assert_eq!(changed(&|messages| messages[0] = system("Be long.")), Some((DepartureReason::SystemChanged, Some(0))));
    assert_eq!(changed(&|messages| drop(messages.remove(0))), Some((DepartureReason::SystemChanged, Some(0))));
    assert_eq!(changed(&|messages| messages[1] = user("another")), Some((rewritten, Some(1))));
    assert_eq!(changed(&|messages| messages[2] = answer_of("edited")), Some((rewritten, Some(2))));
    // The turns before the change are continued.
    assert_eq!(changed(&|messages| messages[4] = answer_of("edited")), Some((rewritten, Some(4))));
    assert_eq!(changed(&|messages| drop(messages.drain(1..3))), Some((DepartureReason::Truncated, Some(1))));
    assert_eq!(
        changed(&|messages| drop(messages.splice(1..6, [user("what was said before, in short"), answer_of("I see.")]))),
        Some((DepartureReason::Truncated, Some(1)))
    );
    // A conversation in which nobody has answered yet begins, whatever it shares with another.
    let begins = [system("Be brief."), user("of its own")];
    assert_eq!(reason(&rollout.next(&begins)), Some((DepartureReason::FirstTurn, Some(1))));
}

#[test]
fn other_tools_are_another_conversation() {
    let (mut rollout, messages) = three_turns();
    rollout.tools = vec![weather_tool()];
    let fresh = rollout.fresh(&messages);
    assert_eq!((fresh.departure.reason, fresh.departure.turn), (DepartureReason::ToolsChanged, Some(2)));
}

#[test]
fn changed_reasoning_is_a_rewritten_history() {
    let mut rollout = Rollout::new(plain());
    let reply = message(json!({"role": "assistant", "content": "b", "reasoning_content": "hm"}));
    rollout.call(&[user("a")], &[100], &reply);
    let forged = message(json!({"role": "assistant", "content": "b", "reasoning_content": "ha"}));
    let departure = rollout.fresh(&[user("a"), forged, user("c")]).departure;
    assert_eq!((departure.reason, departure.message_index), (DepartureReason::HistoryRewritten, Some(1)));
}

#[test]
fn the_first_token_that_differs_is_told() {
    let (rollout, mut messages) = three_turns();
    messages[1] = user("question X");
    let fresh = rollout.fresh(&messages);
    let (turn, token) = (fresh.departure.turn.unwrap(), fresh.departure.token_index.unwrap());
    let recorded = rollout.turns.tokens(turn);
    assert_eq!(fresh.tokens[..token], recorded[..token]);
    assert_ne!(fresh.tokens[token], recorded[token]);
    assert!(rollout.text(&recorded[..token]).ends_with("question "));
}

#[test]
fn of_two_samples_of_one_request_the_one_with_its_reasoning_or_else_the_latest_is_continued() {
    let mut rollout = Rollout::new(plain());
    let thought = |text: &str| message(json!({"role": "assistant", "content": "b", "reasoning_content": text}));
    let first = rollout.call(&[user("a")], &[100], &thought("one"));
    let second = rollout.call(&[user("a")], &[101], &thought("two"));
    assert_eq!(rollout.continued(&[user("a"), thought("one"), user("c")]).turn, first);
    assert_eq!(rollout.continued(&[user("a"), thought("two"), user("c")]).turn, second);
    assert_eq!(rollout.continued(&[user("a"), answer_of("b"), user("c")]).turn, second);
}

#[test]
fn a_faithful_rendering_continues_where_it_can_and_says_why_not() {
    let faithful = |renderer, text: &str, reply: Message| {
        let mut rollout = Rollout::new(renderer);
        rollout.policy = ContinuationPolicy::TemplateFaithful;
        let sampled = rollout.sampled(text);
        rollout.call(&[user("a")], &sampled, &reply);
        let next = rollout.next(&[user("a"), reply, user("c")]);
        if let NextPrompt::Fresh(fresh) = &next {
            let recorded = rollout.turns.tokens(0);
            let token = fresh.departure.token_index.unwrap();
            assert_ne!(fresh.tokens[token], recorded[token]);
        }
        (rollout.turns.prompt_tokens(&next), reason(&next), rollout)
    };
    let qwen3 = || template("qwen3", "qwen3", "<|im_end|>");
    let (tokens, reason, rollout) = faithful(qwen3(), "b", answer_of("b"));
    assert_eq!(reason, None);
    assert_eq!(tokens, rollout.renderer.render_prompt(&[user("a"), answer_of("b"), user("c")], &[]).unwrap().tokens);

    let thought = message(json!({"role": "assistant", "content": "b", "reasoning_content": "hm"}));
    let (_, reason, _) = faithful(qwen3(), "<think>\nhm\n</think>\n\nb", thought);
    assert_eq!(reason, Some((DepartureReason::ReasoningDropped, Some(1))));

    let call = super::setup::calling(json!(null), &[("c1", "{\"city\":\"P\"}")]);
    let compact = "<tool_call>\n{\"name\":\"get_weather\",\"arguments\":{\"city\":\"P\"}}\n</tool_call>";
    let (_, reason, _) = faithful(qwen3(), compact, call);
    assert_eq!(reason, Some((DepartureReason::CallsRespelled, Some(1))));

    let (_, reason, _) = faithful(named("llama3", "llama3"), "b", answer_of("B"));
    assert_eq!(reason, Some((DepartureReason::RenderedOtherwise, Some(1))));
}

#[test]
fn text_that_was_cut_into_other_tokens_is_named() {
    let mut rollout = Rollout::new(plain());
    rollout.policy = ContinuationPolicy::TemplateFaithful;
    let whole = rollout.sampled("the answer");
    let spelled: Vec<u32> = "the answer"
        .bytes()
        .flat_map(|byte| rollout.renderer.tokenizer().encode_ordinary(&(byte as char).to_string()).unwrap())
        .chain(whole.last().copied())
        .collect();
    assert_ne!(whole, spelled);
    rollout.call(&[user("a")], &spelled, &answer_of("the answer"));
    let next = rollout.next(&[user("a"), answer_of("the answer"), user("c")]);
    assert_eq!(reason(&next), Some((DepartureReason::Retokenised, Some(1))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Random conversations that branch at random turns: every request continues the turn that it grew from, and
    /// recorded tokens come back as they were.
    #[test]
    fn every_branch_of_a_tree_continues_its_own_turn(
        choices in prop::collection::vec((any::<prop::sample::Index>(), prop::collection::vec(0..500u32, 1..5), 0..3u8), 1..24),
    ) {
        let mut rollout = Rollout::new(plain());
        let mut conversations: Vec<(Vec<Message>, Option<usize>)> = vec![(vec![system("s")], None)];
        let mut recorded: Vec<Vec<u32>> = Vec::new();
        for (number, (from, sampled, word)) in choices.into_iter().enumerate() {
            let (mut messages, turn) = conversations[from.index(conversations.len())].clone();
            messages.push(user(&format!("question {word}")));
            let next = rollout.next(&messages);
            match (&next, turn) {
                (NextPrompt::Continued(continued), Some(turn)) => {
                    prop_assert_eq!(continued.turn, turn);
                    prop_assert_eq!(continued.tokens_kept, recorded[turn].len());
                }
                (NextPrompt::Fresh(_), None) => {}
                other => prop_assert!(false, "{other:?}"),
            }
            let prompt = rollout.turns.prompt_tokens(&next);
            if let Some(turn) = turn {
                prop_assert!(prompt.starts_with(&recorded[turn]));
            }
            let reply = answer_of(&format!("answer {number}"));
            let turn = rollout.call(&messages, &sampled, &reply);
            recorded.push([prompt, sampled].concat());
            messages.push(reply);
            conversations.push((messages, Some(turn)));
            for (turn, tokens) in recorded.iter().enumerate() {
                prop_assert_eq!(&rollout.turns.tokens(turn), tokens);
            }
        }
    }
}
