//! Learners in PyTorch that cannot be started, and configs that make no sense.

use std::os::unix::fs::PermissionsExt;

use crate::common::project::{EMBEDDED, Project, SMALL, UNEVEN};
use crate::common::{Ran, fulgurite};

/// What the command says of a run whose `[torch]` has this line.
fn refused(torch: &str) -> String {
    let project = Project::new(UNEVEN, SMALL);
    project.change_config(EMBEDDED, &format!("{EMBEDDED}\nlearner = \"torch\""));
    project.change_config("[runner]", &format!("[torch]\n{torch}\n\n[runner]"));
    let ran = Ran::from(project.command("run").output().unwrap());
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let made = ["model-1", "model-1.training", "run"].map(|name| project.path(name));
    assert!(made.iter().all(|path| !path.exists()), "a base model was made for a learner that cannot start");
    ran.stderr
}

#[test]
fn an_interpreter_that_is_not_there_is_named_before_a_base_model_is_made() {
    let error = refused("python = \"no/such/python\"");
    assert!(error.contains("cannot start ") && error.contains("no/such/python ([torch] python)"), "{error}");
}

#[test]
fn an_interpreter_without_the_package_is_told_how_to_get_it() {
    let home = tempfile::tempdir().unwrap();
    let python = home.path().join("python");
    std::fs::write(&python, "#!/bin/sh\nunset PYTHONPATH\nexec python3 -I \"$@\"\n").unwrap();
    std::fs::set_permissions(&python, std::fs::Permissions::from_mode(0o755)).unwrap();
    let error = refused(&format!("python = {python:?}"));
    assert!(error.contains("has no package fulgurite.learner"), "{error}");
    assert!(error.contains(&format!("{} -m pip install 'fulgurite[torch]'", python.display())), "{error}");
}

#[test]
fn a_dry_run_has_its_plan_where_the_package_is_missing() {
    let project = Project::new(UNEVEN, SMALL);
    project.train("here", &[]);
    project.change_config("backend = \"embedded\"", "backend = \"embedded\"\nlearner = \"torch\"");
    project.change_config("[runner]", "[torch]\npython = \"no/such/python\"\n\n[runner]");
    let mut command = fulgurite(["train", "t.toml", "--dry-run", "--json"]);
    let ran = Ran::from(command.current_dir(project.directory.path()).output().unwrap());
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let planned: serde_json::Value = serde_json::from_str(ran.stdout.trim()).unwrap();
    assert!(planned["plan"]["host"]["torch"]["weights"].as_u64().unwrap() > 0, "{planned}");
    assert!(planned["error"].as_str().unwrap().contains("no/such/python ([torch] python)"), "{planned}");
}

#[test]
fn keys_that_make_no_sense_are_refused_before_anything_is_made() {
    for (line, words) in [
        ("processes = 0", "[torch] processes is 0, but must be 1 to 64"),
        ("max_tokens_per_pass = 0", "[torch] max_tokens_per_pass is 0, but must be at least 1"),
        ("shares_gpu = true", "[torch] shares_gpu = true goes with backend = \"vllm\", and model `"),
        ("shares_gpu = true\ndevice = \"cpu\"", "a learner on the CPU has no GPU to share"),
        ("device = \"tpu\"", "torch.device cannot be `tpu`"),
        ("dtype = \"float16\"", "torch.dtype cannot be `float16`"),
    ] {
        let error = refused(line);
        assert!(error.contains(words), "{error}");
    }
}
