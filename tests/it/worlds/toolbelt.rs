//! The toolbelt example: its own tests, in Python, with the command that was built.

use std::path::Path;
use std::process::Command;

/// Runs tests of the example by their names.
fn passes(tests: &[&str]) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let environment = root.join("target/python/bin");
    let python = environment.join("python3");
    assert!(python.exists(), "tests/run makes {}", python.display());
    let mut command = Command::new(python);
    command.args(["-m", "unittest"]).args(tests).current_dir(root.join("examples/toolbelt"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("FULGURITE_")) {
        command.env_remove(name);
    }
    let path = format!("{}:{}", environment.display(), std::env::var("PATH").unwrap());
    let ran = command.env("PATH", path).env("FULGURITE", env!("CARGO_BIN_EXE_fulgurite")).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && !said.contains("skipped"), "{said}\n{}", String::from_utf8_lossy(&ran.stdout));
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
