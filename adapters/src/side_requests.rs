use std::collections::HashSet;

use fulgurite_types::{BranchReason, DepartureReason, Generation};

/// Ids of those of an attempt's generations that their shape tells to be requests beside the task, such as a commit
/// message: the model was shown no tools, though an earlier call of the attempt showed it some; the prompt begins a
/// conversation; and no generation goes on from it. They are not trained ([`Auxiliary`](fulgurite_types::UntrainedCause::Auxiliary)).
///
/// A model all of whose calls are like that has no other task, and none of them is one. `generations` may hold several
/// attempts of a rollout: nothing goes on from one to another.
pub fn side_requests(generations: &[Generation]) -> HashSet<&str> {
    let continued: HashSet<&str> =
        generations.iter().filter_map(|generation| generation.parent_id.as_deref()).collect();
    let stands_apart = |generation: &&Generation| {
        let begins = generation.branch_reason == Some(BranchReason::Departure(DepartureReason::NextToTools));
        begins && generation.parent_id.is_none() && !continued.contains(generation.generation_id.as_str())
    };
    let of_a_task: HashSet<(&str, &str)> =
        generations.iter().filter(|generation| !stands_apart(generation)).map(model_in_attempt).collect();
    let apart = generations.iter().filter(stands_apart);
    let apart = apart.filter(|generation| of_a_task.contains(&model_in_attempt(generation)));
    apart.map(|generation| generation.generation_id.as_str()).collect()
}

fn model_in_attempt(generation: &Generation) -> (&str, &str) {
    (&generation.attempt_id, &generation.model)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorded::generation;

    fn call(id: &str, parent: Option<&str>, reason: Option<&str>) -> Generation {
        Generation {
            parent_id: parent.map(str::to_owned),
            branch_reason: reason.map(|word| BranchReason::from(word.to_owned())),
            ..generation(id, &[1], &[2])
        }
    }

    fn found(calls: &[Generation]) -> Vec<&str> {
        let mut found: Vec<&str> = side_requests(calls).into_iter().collect();
        found.sort_unstable();
        found
    }

    /// The task, with tools: a call and one that goes on from it.
    fn task() -> Vec<Generation> {
        vec![call("a", None, Some("first_turn")), call("b", Some("a"), None)]
    }

    #[test]
    fn what_begins_beside_calls_with_tools_and_ends_at_once_is_a_side_request() {
        let mut calls = task();
        calls.push(call("commit", None, Some("beside_tools")));
        assert_eq!(found(&calls), ["commit"]);
        assert_eq!(found(&task()), [""; 0]);
    }

    #[test]
    fn what_is_continued_is_part_of_the_task() {
        let mut calls = task();
        calls.extend([call("s1", None, Some("beside_tools")), call("s2", Some("s1"), None)]);
        assert_eq!(found(&calls), [""; 0]);
    }

    #[test]
    fn single_calls_without_tools_alone_are_the_task() {
        let calls = [call("a", None, Some("first_turn")), call("b", None, Some("first_turn"))];
        assert_eq!(found(&calls), [""; 0]);
    }

    #[test]
    fn another_model_that_is_shown_no_tools_anywhere_has_no_side_requests() {
        let mut calls = task();
        let judged =
            ["x", "y"].map(|id| Generation { model: "judge".to_owned(), ..call(id, None, Some("beside_tools")) });
        calls.extend(judged);
        assert_eq!(found(&calls), [""; 0]);
        let other = Generation { attempt_id: "at-2".to_owned(), ..call("z", None, Some("beside_tools")) };
        calls.push(other);
        assert_eq!(found(&calls), [""; 0], "nor has an attempt that holds nothing else");
    }
}
