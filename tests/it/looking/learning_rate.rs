//! What `config show` says beside the learning rate.

use serde_json::Value;

use crate::common::{Ran, fulgurite, tiny_model};

#[test]
fn the_published_rule_stands_beside_the_learning_rate_where_the_model_is_here() {
    let directory = tempfile::tempdir().unwrap();
    let model = "[[models]]\nname = \"m\"\nbackend = \"embedded\"\npath = \"model\"\nlora_rank = 4\n";
    std::fs::write(directory.path().join("t.toml"), model).unwrap();
    let show = |arguments: &[&str]| {
        let mut command = fulgurite(["config", "show", "--config", "t.toml"]);
        Ran::from(command.args(arguments).current_dir(directory.path()).output().unwrap())
    };
    let notes_of =
        |shown: &[Value]| -> Vec<Value> { shown.iter().filter(|line| !line["note"].is_null()).cloned().collect() };
    assert!(notes_of(&show(&["--json"]).json_lines()).is_empty(), "the model is not here");
    tiny_model(directory.path(), 64);
    let notes = notes_of(&show(&["--json"]).json_lines());
    assert_eq!((notes.len(), &notes[0]["key"]), (1, &Value::from("trainer.learning_rate")));
    let plain = show(&[]).stdout;
    let line = plain.lines().find(|line| line.starts_with("# ")).unwrap();
    insta::assert_snapshot!(line, @"# trainer.learning_rate: tinker-cookbook's rule would say 7.3e-4: 5e-5 * (2000 / 16)^0.0775, ten times that for LoRA; an extrapolation, as the models that it is for are at least 2048 wide");
}
