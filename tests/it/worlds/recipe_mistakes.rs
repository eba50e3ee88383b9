//! What recipes say where something is not there yet, or wrong: which model, package or line, and how it comes to be there.

use std::fs;
use std::path::Path;

use super::in_python;
use super::recipes::{done, script, written_out};
use crate::common::{Ran, fulgurite};

/// How a training that cannot begin, or go on, ends.
fn failed(here: &Path, config: &str) -> String {
    let command = fulgurite(["train", config, "--max-steps", "1", "--run-directory", "runs/r"]);
    let ran = Ran::from(in_python(command).current_dir(here).output().unwrap());
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    ran.stderr
}

#[test]
fn a_model_that_is_not_there_is_named_with_how_to_get_it() {
    for (name, config) in [("guess_number", "smollm2.toml"), ("chat_sft", "chat_sft.toml"), ("distill", "heed.toml")] {
        let directory = tempfile::tempdir().unwrap();
        let here = written_out(name, config, directory.path());
        fs::remove_dir_all(here.join("models")).unwrap();
        if here.join("make_data.py").exists() {
            let printed = script("make_data.py").current_dir(&here).output().unwrap();
            let printed = String::from_utf8(printed.stdout).unwrap();
            let model = fs::canonicalize(&here).unwrap().join("models/SmolLM2-135M-Instruct");
            assert!(printed.contains(&format!("{} is not there: python3 ", model.display())), "{name}: {printed}");
        }
        let message = failed(&here, config);
        let wanted = "models/SmolLM2-135M-Instruct does not exist, and there is no [base] to make it from";
        assert!(message.contains(wanted), "{name}: {message}");
        assert!(message.contains("an example's README says how its own is made"), "{name}: {message}");
        let readme = fs::read_to_string(here.join("README.md")).unwrap();
        assert!(readme.contains("smollm2.py"), "{name}: its README does say so");
        assert!(!here.join("runs").exists(), "{name}: nothing was begun");
    }
}

#[test]
fn a_package_that_is_not_there_ends_a_run_and_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let here = written_out("guess_number", "smollm2.toml", directory.path());
    let config = here.join("smollm2.toml");
    let mut table: toml::Table = fs::read_to_string(&config).unwrap().parse().unwrap();
    // A Python without what is installed for it.
    table["runner"]["command"] = toml::Value::from(vec!["python3", "-S", "agent.py"]);
    // More attempts than runners that give up before it is clear that they all do.
    table["tasks"]["held_out"]["range"] = toml::Value::from(vec![0, 512]);
    fs::write(&config, table.to_string()).unwrap();
    let message = failed(&here, "smollm2.toml");
    assert!(message.contains("ModuleNotFoundError: No module named 'httpx'"), "{message}");
    assert!(message.contains("the runner is gone: it died 5 times in a row soon after its start"), "{message}");
}

#[test]
fn a_wrong_line_of_a_recipes_data_is_named_and_data_that_are_not_there_with_how_to_make_them() {
    let directory = tempfile::tempdir().unwrap();
    let here = written_out("distill", "heed.toml", directory.path());
    let made_how = "an example's README says how its own is made";
    for (config, file) in [("distill.toml", "train.jsonl"), ("heed.toml", "heed.jsonl")] {
        let message = failed(&here, config);
        assert!(message.contains(&format!("/{file}")) && message.contains(made_how), "{message}");
    }
    let readme = fs::read_to_string(here.join("README.md")).unwrap();
    assert!(readme.contains("make_data.py"), "its README does say so");
    done(&here, script("make_data.py"));
    for (config, file, expected) in [
        ("distill.toml", "train.jsonl", "/train.jsonl: line 2, column 7 is not JSON: it ends too early"),
        ("heed.toml", "heed.jsonl", "/heed.jsonl line 2: is not JSON: it ends too early"),
    ] {
        let text = fs::read_to_string(here.join(file)).unwrap();
        let lines = text.lines().enumerate().map(|(index, line)| if index == 1 { "{\"name\"" } else { line });
        fs::write(here.join(file), lines.collect::<Vec<_>>().join("\n")).unwrap();
        let message = failed(&here, config);
        assert!(message.contains(expected), "{message}");
    }
}
