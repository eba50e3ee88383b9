//! The toolbelt example: its own tests, in Python, with the command that was built.

use super::python_tests;

/// Runs tests of the example by their names.
fn passes(tests: &[&str]) {
    python_tests("toolbelt", tests);
}

#[test]
fn a_toolbelt_tells_of_whatever_servers_and_models_do_wrong() {
    passes(&["tests.test_belt", "tests.test_faults", "tests.test_loop", "tests.test_wire"]);
}

#[test]
fn the_world_of_twelve_tools_can_be_learnt_and_its_held_out_values_are_seen_nowhere() {
    passes(&["tests.test_small"]);
}

#[test]
fn a_scripted_model_walks_all_sixty_tools() {
    passes(&["tests.test_stages.Stages.test_a_scripted_model_walks_all_sixty_tools"]);
}

#[test]
fn nothing_of_a_toolbelts_world_survives_a_runner_that_is_killed_at_any_stage() {
    passes(&["tests.test_stages.Stages.test_nothing_is_left_of_a_runner_that_is_killed_at_any_stage"]);
}

#[test]
fn a_judge_grades_the_mails_of_the_office() {
    passes(&["tests.test_judged"]);
}
