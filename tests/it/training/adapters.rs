//! Runs of the real command that go on from an adapter, or that train some parts of a model.

use crate::common::Ran;
use crate::common::project::{EMBEDDED, Project, SMALL, UNEVEN, saved};

const ADAPTER: [&str; 3] = ["adapter_model.safetensors", "adapter_config.json", "optimizer.state"];

#[test]
fn a_run_goes_on_from_a_former_runs_adapter() {
    let project = Project::new(UNEVEN, SMALL);
    project.train_adapters(4);
    let first = project.train("first", &["--max-steps", "2"]).pop().unwrap();
    let checkpoint = first["checkpoint"].as_str().unwrap().to_owned();
    let start = project.path("start");
    copy(checkpoint.as_ref(), &start);
    let adapter = format!("{EMBEDDED}\nadapter = {start:?}");
    project.change_config(&format!("{EMBEDDED}\nlora_rank = 4"), &adapter);
    let ran = Ran::from(project.command("on").output().unwrap());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let line = format!("an adapter of rank 4 is trained, from {}, lora_alpha 32", start.display());
    assert!(ran.stderr.contains(&line), "{}", ran.stderr);
    let on = ran.json_lines().pop().unwrap();
    // What was sampled before the first update was sampled from the adapter.
    assert_eq!(on["max_logprob_difference"], 0.0, "{on}");
    let kept = project.path("on/start-adapter/adapter_model.safetensors");
    let began = std::fs::read(start.join("adapter_model.safetensors")).unwrap();
    assert!(std::fs::read(kept).unwrap() == began && saved(&on, "adapter_model.safetensors") != began);
    let record = std::fs::read_to_string(project.path("on/config.json")).unwrap();
    let record: serde_json::Value = serde_json::from_str(&record).unwrap();
    assert_eq!(record["models"][0]["lora_rank"], 4);
    assert_eq!(record["models"][0]["adapter_sha256"].as_str().unwrap().len(), 64);

    // A run that goes on keeps what it began with, whatever has become of the directory.
    project.train("cut", &["--max-steps", "2"]);
    std::fs::remove_dir_all(&start).unwrap();
    let resumed = project.train("cut", &["--resume"]).pop().unwrap();
    for file in ADAPTER {
        assert!(saved(&resumed, file) == saved(&on, file), "{file}");
    }
    let ran = Ran::from(project.command("missing").output().unwrap());
    assert!(ran.stderr.contains("[[models]] adapter of `"), "{}", ran.stderr);
}

#[test]
fn keys_of_adapters_and_parts_are_refused_by_name() {
    let project = Project::new(UNEVEN, SMALL);
    let refused = |keys: &str, words: &str| {
        project.change_config(EMBEDDED, &format!("{EMBEDDED}\n{keys}"));
        let ran = Ran::from(project.command("refused").output().unwrap());
        assert!(ran.code == Some(1) && ran.stderr.contains(words), "{keys}: {ran:?}");
        project.change_config(&format!("{EMBEDDED}\n{keys}"), EMBEDDED);
    };
    refused("lora_rank = 4\nlora_layers = \"0-99\"", "layer 1, but the model's layers are 0 to 0");
    refused("lora_rank = 4\nlora_dropout = 0.1", "set learner = \"torch\"");
    refused("lora_rank = 4\nlora_dropout = 0.1\nlearner = \"torch\"", "another than the one that sampled");
    refused("frozen = [\"layers.9\"]", "frozen has \"layers.9\"");
    project.change_config("[trainer]\n", "[trainer]\nlearning_rate_factors = { lora_b = 16.0 }\n");
    refused("frozen = [\"layers.0\"]", "learning_rate_factors.lora_b is of no tensor");
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let is_adapters = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("adapter"));
        if is_adapters {
            std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
        }
    }
}
