//! `learner = "prime-rl"`: the embedded engine as the trainer, in a process that reads and writes the files of prime-rl's.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use fulgurite_backends::{AdamParameters, Learner, LossFunction};
use fulgurite_engine::{Engine, EngineOptions};
use fulgurite_types::{Chunk, Datum, LossInputs};
use serde_json::Value;

use crate::common::project::{Project, SMALL, UNEVEN, recorded_steps, saved};
use crate::common::{Process, Ran, eventually, fulgurite};
use crate::vllm_over_engine::VllmOverEngine;

/// In the environment of the trainer: its directory, its model, and how many ranks it has.
const TRAINER: [&str; 3] =
    ["FULGURITE_TEST_PRIME_RL", "FULGURITE_TEST_PRIME_RL_MODEL", "FULGURITE_TEST_PRIME_RL_RANKS"];

/// A run that is over in one process, and what it takes to make it by files.
struct Setup {
    project: Project,
    host: VllmOverEngine,
    ranks: usize,
    here: Value,
}

impl Setup {
    fn new(ranks: usize) -> Self {
        let project = Project::new(UNEVEN, SMALL);
        let here = project.train("here", &[]).pop().unwrap();
        let host = VllmOverEngine::start(&project.path("model-1"));
        let vllm = format!("backend = \"vllm\"\nurls = [\"{}\"]\nlearner = \"prime-rl\"", host.url);
        project.change_config("backend = \"embedded\"", &vllm);
        let table = format!("[prime_rl]\ndirectory = \"prime\"\nranks = {ranks}\ntimeout_seconds = 60.0\n\n[runner]");
        project.change_config("[runner]", &table);
        std::fs::create_dir(project.path("prime")).unwrap();
        Self { project, host, ranks, here }
    }

    /// This program again, as the trainer.
    fn trainer(&self) -> Process {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["training::prime_rl::the_trainer_of_the_other_tests", "--exact", "--ignored", "--nocapture"]);
        let values = [self.project.path("prime"), self.project.path("model-1"), self.ranks.to_string().into()];
        command.envs(TRAINER.into_iter().zip(values)).stdout(Stdio::null());
        Process::spawn(command)
    }
}

#[test]
fn a_run_by_files_ends_in_the_bytes_of_one_process() {
    let setup = Setup::new(1);
    let _trainer = setup.trainer();
    let there = setup.project.train("there", &[]).pop().unwrap();
    assert_eq!(there["steps"], 5, "{there}");
    assert!(saved(&setup.here, "model.safetensors") == saved(&there, "model.safetensors"));
    let published = setup.project.path("there/published");
    let directories: Vec<PathBuf> = (0..=5).map(|version| published.join(format!("{version:06}"))).collect();
    assert_eq!(setup.host.loaded(), directories, "each version once");
    setup.project.account("there", &there);
    // What was not measured is not told of.
    let steps = std::fs::read_to_string(setup.project.path("there/metrics.jsonl")).unwrap();
    assert!(steps.contains("optim/trained_tokens") && !steps.contains("kl_sample_train"), "{steps}");
    assert_eq!(there["max_logprob_difference"], Value::Null, "{there}");
    // The trainer has this run's steps: neither another run nor a trial of one takes weights from them.
    let refused = Ran::from(setup.project.command("again").args(["--seed", "2"]).output().unwrap());
    assert!(refused.code == Some(1) && refused.stderr.contains("has step 5 of another run"), "{refused:?}");
    let mut tried = fulgurite(["train", "--dry-run"]);
    let refused = Ran::from(tried.arg(setup.project.path("t.toml")).output().unwrap());
    assert!(refused.code == Some(1) && refused.stderr.contains("which prime-rl's trainer would keep"), "{refused:?}");
}

#[test]
fn either_side_goes_on_after_a_kill() {
    let setup = Setup::new(1);
    let mut trainer = setup.trainer();
    let run = setup.project.path("killed");
    let mut train = setup.project.command("killed").stdout(Stdio::null()).spawn().unwrap();
    eventually("a step", || (recorded_steps(&run) >= 1).then_some(()));
    trainer.kill();
    let mut trainer = setup.trainer();
    eventually("another step", || (recorded_steps(&run) >= 3).then_some(()));
    train.kill().unwrap();
    train.wait().unwrap();
    // Both at once.
    trainer.kill();
    let _trainer = setup.trainer();
    let there = setup.project.train("killed", &["--resume"]).pop().unwrap();
    assert_eq!(there["steps"], 5, "{there}");
    assert!(saved(&setup.here, "model.safetensors") == saved(&there, "model.safetensors"));
    setup.project.account("killed", &there);
}

#[test]
fn one_run_at_a_time_has_the_trainers_directory() {
    let setup = Setup::new(1);
    // Without a trainer it waits for the first weights.
    let mut first = setup.project.command("first").stdout(Stdio::null()).spawn().unwrap();
    let lock = setup.project.path("prime/fulgurite.lock");
    eventually("a lock", || std::fs::read_to_string(&lock).is_ok_and(|text| text.contains("pid")).then_some(()));
    let second = setup.project.command("second").args(["--seed", "2"]).output().unwrap();
    let refused = Ran::from(second).failure(setup.project.directory.path());
    let words = format!("prime, is in use by `fulgurite train` (process {}, since ", first.id());
    assert!(refused.contains(&words) && refused.contains("([prime_rl] directory)"), "{refused}");
    first.kill().unwrap();
    first.wait().unwrap();
    // What a process that was killed has left locks nothing.
    assert!(lock.exists());
    let _trainer = setup.trainer();
    let there = setup.project.train("third", &["--max-steps", "1"]).pop().unwrap();
    assert_eq!(there["steps"], 1, "{there}");
}

#[test]
fn several_ranks_share_a_batch() {
    let setup = Setup::new(3);
    let _trainer = setup.trainer();
    let there = setup.project.train("there", &["--max-steps", "1"]).pop().unwrap();
    assert_eq!(there["steps"], 1, "{there}");
    let sizes: Vec<usize> =
        (0..3).map(|rank| sequences(&setup.project.path("prime"), 1, rank).unwrap().len()).collect();
    assert!(sizes[0] > 0 && sizes.iter().all(|size| *size == sizes[0]), "{sizes:?}");
    setup.project.account("there", &there);
}

#[test]
fn what_prime_rl_cannot_do_is_refused_at_the_start() {
    let project = Project::new(UNEVEN, SMALL);
    let config = std::fs::read_to_string(project.path("t.toml")).unwrap();
    let refused = |model: &str, table: &str, trainer: &str| {
        let text = config.replace("backend = \"embedded\"", model).replace("[runner]", &format!("{table}\n[runner]"));
        std::fs::write(project.path("t.toml"), text.replace("[trainer]", &format!("[trainer]\n{trainer}"))).unwrap();
        let message = Ran::from(project.command("refused").output().unwrap()).failure(project.directory.path());
        message.lines().last().unwrap().trim_start_matches("  caused by: ").to_owned()
    };
    let vllm = "backend = \"vllm\"\nurls = [\"http://127.0.0.1:9\"]\nlearner = \"prime-rl\"";
    let table = "[prime_rl]\ndirectory = \"prime\"";
    insta::assert_snapshot!(refused("backend = \"embedded\"\nlearner = \"prime-rl\"", "", ""), @r#"learner = "prime-rl" goes with backend = "vllm", not with "embedded""#);
    insta::assert_snapshot!(refused(vllm, "", ""), @r#"learner = "prime-rl" needs [prime_rl] directory, the output directory of its trainer"#);
    insta::assert_snapshot!(refused(vllm, "[prime_rl]\ndirectory = \"prime\"\nranks = 0", ""), @"[prime_rl] ranks is 0, but somebody has to read the batches");
    insta::assert_snapshot!(refused(vllm, table, "loss = \"ppo\""), @r#"[trainer] loss is of prime-rl's own config, where learner = "prime-rl": leave it out"#);
    insta::assert_snapshot!(refused(vllm, table, "kl = { coefficient = 0.1 }"), @r#"[trainer] kl needs logprobs of the weights that train, which learner = "prime-rl" does not report: leave it out"#);
    insta::assert_snapshot!(refused(vllm, table, "weight_decay = 0.1"), @r#"[trainer] weight_decay is of prime-rl's own config, where learner = "prime-rl": leave it out"#);
    for set in ["gradient_clip_norm = 0.5", "beta1 = 0.8", "beta2 = 0.99"] {
        let (key, message) = (set.split(' ').next().unwrap(), refused(vllm, table, set));
        assert!(message.starts_with(&format!("[trainer] {key} is of prime-rl's own config")), "{message}");
    }
    insta::assert_snapshot!(refused(vllm, table, "warmup = 0.1"), @r#"[trainer] warmup is of prime-rl's own config, where learner = "prime-rl": leave it out"#);
    insta::assert_snapshot!(refused(vllm, table, ""), @"[directory]/prime: is no directory ([prime_rl] directory): it is the trainer's output directory");
    assert!(!project.path("refused").exists(), "no run was begun");
    insta::assert_snapshot!(refused(vllm, table, "substeps = 2"), @"[trainer] substeps is more than 1, and prime-rl makes one step of an update: leave it out");
}

/// Not a test by itself: the others start it as a process of its own, and end it.
#[test]
#[ignore = "the trainer of the other tests"]
fn the_trainer_of_the_other_tests() {
    let [Ok(directory), Ok(model), Ok(ranks)] = TRAINER.map(std::env::var) else { return };
    let (directory, ranks): (&Path, usize) = (Path::new(&directory), ranks.parse().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(train(directory, Path::new(&model), ranks));
}

/// Trains as prime-rl's trainer does, from its newest checkpoint on, without an end.
async fn train(directory: &Path, model: &Path, ranks: usize) {
    let engine = Engine::open(model, EngineOptions::default()).unwrap();
    let learner = engine.learner();
    let checkpoint = |step: u64| directory.join(format!("checkpoints/step_{step}"));
    let mut step = steps_in(&directory.join("checkpoints")).into_iter().max().unwrap_or(0);
    if step > 0 {
        learner.load_checkpoint(&checkpoint(step)).await.unwrap();
    }
    // What comes after is of a run that has ended.
    for folder in ["rollouts", "broadcasts"].map(|name| directory.join(name)) {
        for later in steps_in(&folder).into_iter().filter(|later| *later > step) {
            std::fs::remove_dir_all(folder.join(format!("step_{later}"))).unwrap();
        }
    }
    loop {
        let weights = directory.join(format!("broadcasts/step_{step}"));
        let _ = std::fs::remove_dir_all(&weights);
        learner.save_weights(&weights).await.unwrap();
        std::fs::write(weights.join("STABLE"), "").unwrap();
        step += 1;
        let mut data = Vec::new();
        for rank in 0..ranks {
            data.extend(loop {
                match sequences(directory, step, rank) {
                    Some(read) => break read,
                    None => tokio::time::sleep(Duration::from_millis(5)).await,
                }
            });
        }
        learner.forward_backward(data.into(), LossFunction::ImportanceSampling).await.unwrap();
        let parameters = AdamParameters { learning_rate: 1e-3, ..AdamParameters::default() };
        learner.optimizer_step(parameters).await.unwrap();
        let unfinished = directory.join("checkpoints/unfinished");
        let _ = std::fs::remove_dir_all(&unfinished);
        learner.save_checkpoint(&unfinished).await.unwrap();
        std::fs::rename(&unfinished, checkpoint(step)).unwrap();
    }
}

fn steps_in(folder: &Path) -> Vec<u64> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.strip_prefix("step_")?.parse().ok()).collect()
}

/// The sequences of a rank's file, if it is there: msgspec's `list[MicroBatch]`, whose structs are arrays.
fn sequences(directory: &Path, step: u64, rank: usize) -> Option<Vec<Datum>> {
    let bytes = std::fs::read(directory.join(format!("rollouts/step_{step}/rank_{rank}.bin"))).ok()?;
    let Value::Array(batches) = unpack(&mut bytes.as_slice()) else { panic!("no list") };
    let floats = |value: &Value| -> Vec<f32> {
        value.as_array().unwrap().iter().skip(1).map(|number| number.as_f64().unwrap() as f32).collect()
    };
    let datum = |batch: Value| {
        let fields = batch.as_array().unwrap();
        assert_eq!(fields.len(), 9);
        let ids: Vec<u32> = fields[0].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect();
        let mask = fields[1].as_array().unwrap().iter().skip(1).map(|is| if is == true { 1.0 } else { 0.0 }).collect();
        assert!(fields[6].as_array().unwrap().iter().all(|temperature| *temperature == 1.0));
        assert_eq!((&fields[5], &fields[8]), (&serde_json::json!([ids.len()]), &serde_json::json!([ids.len()])));
        Datum {
            model_input: vec![Chunk::Tokens(ids[..ids.len() - 1].to_vec())],
            target_tokens: ids[1..].to_vec(),
            loss_inputs: LossInputs::Policy { advantages: floats(&fields[2]), logprobs: floats(&fields[3]), mask },
        }
    };
    Some(batches.into_iter().map(datum).collect())
}

/// A value of MessagePack, of the kinds that batches are made of.
fn unpack(bytes: &mut &[u8]) -> Value {
    fn take(bytes: &mut &[u8], count: usize) -> u64 {
        let (part, rest) = bytes.split_at(count);
        *bytes = rest;
        part.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }
    let list = |length: u64, bytes: &mut &[u8]| (0..length).map(|_| unpack(bytes)).collect();
    let text = |length: u64, bytes: &mut &[u8]| {
        let (part, rest) = bytes.split_at(length as usize);
        *bytes = rest;
        std::str::from_utf8(part).unwrap().into()
    };
    match take(bytes, 1) {
        number @ 0..=0x7f => number.into(),
        tag @ 0x90..=0x9f => list(tag & 0xf, bytes),
        tag @ 0xa0..=0xbf => text(tag & 0x1f, bytes),
        0xc2 => false.into(),
        0xc3 => true.into(),
        0xca => f32::from_bits(take(bytes, 4) as u32).into(),
        0xcc => take(bytes, 1).into(),
        0xcd => take(bytes, 2).into(),
        0xce => take(bytes, 4).into(),
        0xdc => {
            let length = take(bytes, 2);
            list(length, bytes)
        }
        0xdd => {
            let length = take(bytes, 4);
            list(length, bytes)
        }
        tag => panic!("{tag:#x}"),
    }
}
