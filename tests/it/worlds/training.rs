//! Worlds of a run: where they are, and that the members of a group begin in one state.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::{Value, json};

use crate::common::project::{Project, SMALL, UNEVEN};
use crate::common::{Ran, fulgurite};

/// A run of one update whose worlds hold what `draws` prints.
fn run(draws: &str) -> Project {
    let setup = format!(
        "setup = [\"sh\", \"-c\", \"{draws} > $FULGURITE_WORLD/drawn; echo $FULGURITE_WORLD >> made\"]\n{UNEVEN}"
    );
    let project = Project::new(&setup, SMALL);
    let events = project.train("r", &["--max-steps", "1"]);
    assert!(events.last().unwrap()["trained_tokens"].is_number(), "{events:?}");
    project
}

/// The states that the members of each training group began in.
fn states(project: &Project) -> Vec<BTreeSet<String>> {
    let mut groups: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for rollout in project.query("rollouts", "r").iter().filter(|rollout| rollout["mode"] == "train") {
        let digest = rollout["attempt"]["metadata"]["world_digest"].as_str().unwrap().to_owned();
        groups.entry(rollout["metadata"]["group"].to_string()).or_default().insert(digest);
    }
    groups.into_values().collect()
}

fn findings(project: &Project) -> Vec<Value> {
    let output = fulgurite(["doctor", "--json"]).arg(project.path("r")).output().unwrap();
    Ran::from(output).json_lines().into_iter().map(|finding| finding["name"].clone()).collect()
}

#[test]
fn a_run_makes_its_worlds_in_its_own_directory_and_a_group_begins_in_one_state() {
    let project = run("echo $FULGURITE_WORLD_SEED");
    let made = fs::read_to_string(project.path("made")).unwrap();
    let worlds = project.path("r/worlds");
    assert!(made.lines().all(|world| world.starts_with(worlds.to_str().unwrap())), "{made}");
    let left = fs::read_dir(worlds).unwrap().filter(|entry| entry.as_ref().unwrap().path().is_dir()).count();
    assert_eq!(left, 0);
    let states = states(&project);
    assert_eq!(states.len(), 3);
    assert!(states.iter().all(|states| states.len() == 1), "{states:?}");
    assert_eq!(states.iter().flatten().collect::<BTreeSet<_>>().len(), 3, "another group, another seed");
    assert!(!findings(&project).contains(&json!("different_worlds")));
}

#[test]
fn a_setup_that_draws_lots_of_its_own_is_found() {
    let project = run("cat /proc/sys/kernel/random/uuid");
    assert!(states(&project).iter().all(|states| states.len() == 3));
    assert!(findings(&project).contains(&json!("different_worlds")), "{:?}", findings(&project));
}
