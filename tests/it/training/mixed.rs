//! Runs that learn from conversations beside their rollouts.

use serde_json::json;

use super::objectives::{numbers, refused};
use crate::common::project::{Project, SMALL, UNEVEN, weights};

#[test]
fn conversations_are_learnt_beside_rewards_also_in_minibatches_and_after_a_resume() {
    let project = Project::new(UNEVEN, SMALL);
    let alone = project.train("alone", &[]).pop().unwrap();
    let chat = |n: usize| {
        json!({ "messages": [
            { "role": "user", "content": format!("Say {n}") }, { "role": "assistant", "content": format!("I am {n}.") },
        ] })
    };
    let chats: String = (0..10).map(|n| format!("{}\n", chat(n))).collect();
    std::fs::write(project.path("chats.jsonl"), chats).unwrap();
    project.change_config(
        "[trainer]\n",
        "[trainer]\nconversations = { file = 'chats.jsonl', weight = 50.0, batch_size = 4 }\n",
    );
    let lines = project.train("mixed", &[]);
    let (mixed, steps) = lines.split_last().unwrap();
    assert!(weights(mixed) != weights(&alone));
    let nll = numbers(steps, "conversations/train_mean_nll");
    assert!(nll.len() == 5 && nll[4] < nll[0], "{nll:?}");
    assert_eq!(numbers(steps, "conversations/epoch"), [0.0, 0.0, 0.0, 1.0, 1.0], "4, 4 and 2 of them");
    assert_eq!(numbers(steps, "env/all/total_episodes"), [9.0; 5]);
    assert_eq!(mixed["max_logprob_difference"], json!(0.0));
    project.account("mixed", mixed);
    project.train("resumed", &["--max-steps", "2"]);
    let resumed = project.train("resumed", &["--resume"]).pop().unwrap();
    assert!(weights(&resumed) == weights(mixed), "the place in the conversations is in the checkpoint");

    project.change_config("[trainer]\n", "[trainer]\nschedule = { minibatches = 1 }\n");
    let parts = project.train("parts", &[]).pop().unwrap();
    assert!(weights(&parts) == weights(mixed));
    project.change_config("schedule = { minibatches = 1 }\n", "substeps = 2\n");
    project.train("substeps", &[]);
    project.train_adapters(4);
    let _server = project.train_at_our_tinker_server();
    let there = project.train("there", &[]);
    let nll = numbers(&there, "conversations/train_mean_nll");
    assert!(nll.len() == 5 && nll[0].is_finite(), "{there:?}");
}

#[test]
fn conversations_that_cannot_be_learnt_are_refused_before_anything_is_sampled() {
    let project = Project::new(UNEVEN, SMALL);
    let told = |lines: &str, expected: &str| {
        let said = refused(&project, &format!("conversations = {lines}"));
        assert!(said.contains(expected), "{said}");
    };
    told("{ file = 'none.jsonl' }", "[trainer] conversations.file: cannot read");
    std::fs::write(project.path("chats.jsonl"), "{\"messages\": [{\"role\": \"king\", \"content\": \"\"}]}\n").unwrap();
    told("{ file = 'chats.jsonl' }", "chats.jsonl");
    told("{ file = 'chats.jsonl', weight = 0.0 }", "[trainer] conversations.weight is 0, but must be");
    told("{ file = 'chats.jsonl', batch_size = 0 }", "[trainer] conversations.batch_size is 0, but must be at least 1");
}
