//! Recipes: their own tests, in Python.

use super::python_tests;

#[test]
fn rewards_of_recipes_cannot_be_forged_and_what_is_held_out_is_in_no_corpus() {
    for example in ["arithmetic", "guess_number", "wordle", "local_search", "two_players"] {
        python_tests(example, &["discover", "-q"]);
    }
}

#[test]
fn the_answerer_of_twenty_questions_reads_what_is_asked_and_its_game_cannot_be_forged() {
    python_tests(
        "twenty_questions",
        &["tests.test_corpus", "tests.test_facts", "tests.test_game", "tests.test_grammar"],
    );
    eprintln!("NOT RUN: tests.test_flow of twenty_questions, which needs the package crewai");
}
