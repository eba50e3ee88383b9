//! LoRA adapters, seen from outside: what is trained, kept, served and merged.

use std::path::Path;
use std::sync::Arc;

use fulgurite_types::WeightsVersion;

use crate::common::{
    answer, create, files, open, options, policy, request, rows, sequence, supervised, tiny_config, train,
};
use fulgurite_backends::{
    AdamParameters, BackendError, Learner, LossFunction, NewWeights, SampledToken, Sampler, WeightsSource,
};
use fulgurite_engine::{ElementType, Engine, LoraModule, LoraOptions, ModelConfig, merge_adapter};

fn quick() -> AdamParameters {
    AdamParameters { learning_rate: 0.02, weight_decay: 0.01, ..AdamParameters::default() }
}

fn bits(tokens: &[SampledToken]) -> Vec<(u32, u32)> {
    tokens.iter().map(|token| (token.id, token.logprob.to_bits())).collect()
}

fn adapter(directory: &Path, version: u64) -> NewWeights {
    NewWeights { version: WeightsVersion(version), source: WeightsSource::Adapter(directory.to_owned()) }
}

#[tokio::test]
async fn a_fresh_adapter_changes_nothing_and_a_trained_one_learns_by_heart() {
    let (home, directory) = create(&tiny_config(), 1);
    let engine = open(&directory, 2);
    let learner = engine.lora_learner(&LoraOptions::new(4, 7)).unwrap();
    let data: Arc<[_]> = (0..3).map(|row| supervised(&sequence(row + 20, 12, 41), 1.0)).collect();
    let before = engine.learner().forward(data.clone()).await.unwrap();
    assert_eq!(learner.forward(data.clone()).await.unwrap(), before);
    for _ in 0..200 {
        learner.forward_backward(data.clone(), LossFunction::CrossEntropy).await.unwrap();
        learner.optimizer_step(quick()).await.unwrap();
    }
    let after = learner.forward(data.clone()).await.unwrap();
    assert!(after.iter().flatten().all(|&logprob| logprob > -0.2), "{after:?}");
    // The base is as it was.
    assert_eq!(engine.learner().forward(data).await.unwrap(), before);
    let saved = home.path().join("saved");
    learner.save_weights(&saved).await.unwrap();
    let names: Vec<String> = files(&saved).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["adapter_config.json", "adapter_model.safetensors", "fulgurite.sha256"]);
}

#[tokio::test]
async fn only_the_modules_that_were_chosen_are_trained() {
    let (home, directory) = create(&tiny_config(), 1);
    let engine = open(&directory, 2);
    let modules = [LoraModule::Value, LoraModule::Up].into();
    let learner = engine.lora_learner(&LoraOptions { modules, ..LoraOptions::new(2, 7) }).unwrap();
    train(&learner, 0..2, quick()).await;
    let saved = home.path().join("saved");
    learner.save_weights(&saved).await.unwrap();
    let bytes = std::fs::read(saved.join("adapter_model.safetensors")).unwrap();
    let text = String::from_utf8_lossy(&bytes);
    assert_eq!(text.matches("lora_A.weight").count(), 4, "{text}");
    assert!(text.contains("model.layers.1.mlp.up_proj.lora_B.weight"), "{text}");
    let none = LoraOptions { rank: 0, ..LoraOptions::new(1, 7) };
    let error = engine.lora_learner(&none).unwrap_err().to_string();
    assert_eq!(error, "the adapter cannot be used: its rank is 0, but must be at least 1");
}

#[tokio::test]
async fn adapters_do_not_depend_on_the_number_of_threads_nor_on_the_run() {
    let mut seen: Option<Vec<(String, Vec<u8>)>> = None;
    let (home, directory) = create(&tiny_config(), 8);
    for (run, threads) in [1, 2, 3, 2].into_iter().enumerate() {
        let learner = open(&directory, threads).lora_learner(&LoraOptions::new(3, 5)).unwrap();
        train(&learner, 0..4, quick()).await;
        let saved = home.path().join(run.to_string());
        learner.save_checkpoint(&saved).await.unwrap();
        let found = files(&saved);
        assert_eq!(seen.get_or_insert_with(|| found.clone()), &found, "{threads} threads");
    }
}

#[tokio::test]
async fn training_of_an_adapter_goes_on_from_a_checkpoint_as_if_it_had_not_stopped() {
    for steps in [0, 3] {
        let (home, directory) = create(&tiny_config(), 8);
        let path = |name: &str| home.path().join(name);
        let lora = LoraOptions::new(3, 5);
        let learner = open(&directory, 2).lora_learner(&lora).unwrap();
        train(&learner, 0..steps, quick()).await;
        learner.save_checkpoint(&path("middle")).await.unwrap();
        train(&learner, steps..6, quick()).await;
        learner.save_checkpoint(&path("straight")).await.unwrap();

        // In a new process, whose fresh adapter is another one.
        let learner = open(&directory, 1).lora_learner(&LoraOptions { seed: 6, ..lora.clone() }).unwrap();
        learner.forward_backward(rows(50), LossFunction::CrossEntropy).await.unwrap();
        learner.load_checkpoint(&path("middle")).await.unwrap();
        train(&learner, steps..6, quick()).await;
        learner.save_checkpoint(&path("resumed")).await.unwrap();
        assert_eq!(files(&path("resumed")), files(&path("straight")));
        let names: Vec<String> = files(&path("straight")).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["adapter_config.json", "adapter_model.safetensors", "fulgurite.sha256", "optimizer.state"]);

        // An adapter of another form is refused, and so are a whole model's weights.
        let other = open(&directory, 1).lora_learner(&LoraOptions::new(2, 5)).unwrap();
        let error = other.load_checkpoint(&path("middle")).await.unwrap_err();
        assert!(matches!(error, BackendError::Files { .. }), "{error}");
        assert!(other.load_checkpoint(&directory).await.is_err());
    }
}

#[tokio::test]
async fn adapters_of_one_base_are_sampled_together_and_each_as_if_alone() {
    let (home, directory) = create(&tiny_config(), 3);
    let engine = Engine::open(&directory, options(2)).unwrap();
    let sampler = engine.sampler();
    let mut expected = vec![answer(&sampler, request(sequence(1, 9, 41), 30, 0)).await.0];
    for number in 1..4 {
        let learner = engine.lora_learner(&LoraOptions::new(number, number as u64)).unwrap();
        train(&learner, 0..3 + number as u64, quick()).await;
        let saved = home.path().join(number.to_string());
        learner.save_weights(&saved).await.unwrap();
        let alone = Engine::open(&directory, options(1)).unwrap().sampler();
        alone.load_weights(&adapter(&saved, number as u64)).await.unwrap();
        expected.push(answer(&alone, request(sequence(1, 9, 41), 30, 0)).await.0);
        assert_ne!(bits(&expected[number]), bits(&expected[0]));
    }

    // Each is started under the adapter that is there then, and keeps it while the next ones come.
    let mut running = Vec::new();
    for round in 0..8 {
        let number = round % 4;
        if number > 0 {
            let saved = home.path().join(number.to_string());
            sampler.load_weights(&adapter(&saved, number as u64)).await.unwrap();
        } else {
            let source = WeightsSource::Model(directory.clone());
            sampler.load_weights(&NewWeights { version: WeightsVersion(0), source }).await.unwrap();
        }
        let stream = sampler.sample(request(sequence(1, 9, 41), 30, 0)).await.unwrap();
        running.push((number, stream));
    }
    for (number, mut stream) in running {
        let mut tokens = Vec::new();
        while let fulgurite_backends::SampleEvent::Token(token) = stream.next().await.unwrap() {
            assert_eq!(token.weights_version, Some(WeightsVersion(number as u64)));
            tokens.push(token);
        }
        assert_eq!(bits(&tokens), bits(&expected[number]), "adapter {number}");
    }
}

#[tokio::test]
async fn an_adapter_after_whole_weights_is_over_the_model_that_was_opened() {
    let (home, directory) = create(&tiny_config(), 1);
    let (_other_home, whole) = create(&tiny_config(), 2);
    let engine = open(&directory, 2);
    let learner = engine.lora_learner(&LoraOptions::new(4, 7)).unwrap();
    train(&learner, 0..3, quick()).await;
    let saved = home.path().join("saved");
    learner.save_weights(&saved).await.unwrap();
    let prompted = request(sequence(3, 6, 41), 9, 5);
    let late = open(&directory, 1);
    late.sampler().load_weights(&adapter(&saved, 7)).await.unwrap();
    let (expected, _) = answer(&late.sampler(), prompted.clone()).await;

    let sampler = engine.sampler();
    let whole = NewWeights { version: WeightsVersion(5), source: WeightsSource::Model(whole) };
    sampler.load_weights(&whole).await.unwrap();
    let (before, _) = answer(&sampler, prompted.clone()).await;
    assert_ne!(bits(&before), bits(&expected));
    sampler.load_weights(&adapter(&saved, 7)).await.unwrap();
    let (sampled, _) = answer(&sampler, prompted.clone()).await;
    assert_eq!(bits(&sampled), bits(&expected), "as at a server that was started later");
    sampler.load_weights(&whole).await.unwrap();
    assert_eq!(bits(&answer(&sampler, prompted).await.0), bits(&before));
}

#[tokio::test]
async fn an_adapter_over_a_model_that_was_trained_in_its_place_is_refused() {
    let (home, directory) = create(&tiny_config(), 1);
    let engine = open(&directory, 2);
    let saved = home.path().join("saved");
    engine.lora_learner(&LoraOptions::new(4, 7)).unwrap().save_weights(&saved).await.unwrap();
    let learner = engine.learner();
    train(&learner, 0..2, quick()).await;
    learner.publish_weights(WeightsVersion(2)).await.unwrap();
    let error = engine.sampler().load_weights(&adapter(&saved, 3)).await.unwrap_err().to_string();
    assert!(error.contains("no longer in memory"), "{error}");
    assert_eq!(engine.sampler().weights_version(), Some(WeightsVersion(2)));
}

#[tokio::test]
async fn an_adapter_is_put_behind_the_sampler_and_a_wrong_one_changes_nothing() {
    let (home, directory) = create(&tiny_config(), 1);
    let engine = open(&directory, 2);
    let learner = engine.lora_learner(&LoraOptions::new(4, 7)).unwrap();
    train(&learner, 0..3, quick()).await;
    let saved = home.path().join("saved");
    learner.save_weights(&saved).await.unwrap();
    learner.publish_weights(WeightsVersion(3)).await.unwrap();
    let prompted = request(sequence(3, 6, 41), 9, 5);
    let (expected, _) = answer(&engine.sampler(), prompted.clone()).await;
    assert!(expected.iter().all(|token| token.weights_version == Some(WeightsVersion(3))));
    let data: Arc<[_]> = [policy(&sequence(3, 6, 41), &expected, 1.0)].into();
    let scored = learner.forward(data).await.unwrap();
    assert!(scored[0][5..].iter().zip(&expected).all(|(scored, token)| scored.to_bits() == token.logprob.to_bits()));

    let other = open(&directory, 1);
    other.sampler().load_weights(&adapter(&saved, 7)).await.unwrap();
    let (sampled, _) = answer(&other.sampler(), prompted).await;
    assert_eq!(bits(&sampled), bits(&expected));
    for wrong in [directory.as_path(), Path::new("/nowhere")] {
        other.sampler().load_weights(&adapter(wrong, 8)).await.unwrap_err();
        assert_eq!(other.sampler().weights_version(), Some(WeightsVersion(7)), "an error changes nothing");
    }
    let (_home, deeper) = create(&ModelConfig { num_hidden_layers: 3, ..tiny_config() }, 1);
    let error = open(&deeper, 1).sampler().load_weights(&adapter(&saved, 8)).await.unwrap_err().to_string();
    assert!(error.contains("model.layers.2.") && error.contains("missing"), "{error}");
}

#[tokio::test]
async fn a_merged_model_scores_as_the_adapter_over_its_base_does() {
    for tie_word_embeddings in [true, false] {
        let (home, directory) = create(&ModelConfig { tie_word_embeddings, ..tiny_config() }, 1);
        let learner = open(&directory, 2).lora_learner(&LoraOptions::new(4, 7)).unwrap();
        train(&learner, 0..5, quick()).await;
        let (saved, merged) = (home.path().join("saved"), home.path().join("merged"));
        learner.save_weights(&saved).await.unwrap();
        merge_adapter(&directory, &saved, &merged, ElementType::F32).unwrap();
        let adapted = learner.forward(rows(9)).await.unwrap();
        let whole = open(&merged, 2).learner().forward(rows(9)).await.unwrap();
        for (adapted, whole) in adapted.iter().flatten().zip(whole.iter().flatten()) {
            assert!((adapted - whole).abs() < 1e-4, "{adapted} and {whole}");
        }
    }
}

/// The engine's own adapter, and one that PEFT has written (`engine/tests/vectors/make_models.py`).
#[tokio::test]
async fn training_goes_on_from_an_adapter_with_a_fresh_optimizer() {
    let (home, directory) = create(&tiny_config(), 1);
    let engine = open(&directory, 2);
    let learner = engine.lora_learner(&LoraOptions::new(4, 7)).unwrap();
    train(&learner, 0..3, quick()).await;
    let (saved, on, again) = (home.path().join("saved"), home.path().join("on"), home.path().join("again"));
    learner.save_weights(&saved).await.unwrap();
    let other = engine.adapter_learner(&saved).unwrap();
    assert_eq!(other.forward(rows(9)).await.unwrap(), learner.forward(rows(9)).await.unwrap());
    other.save_weights(&on).await.unwrap();
    assert_eq!(files(&on), files(&saved));
    // The moments of the first three steps are not gone on from: the next step is a first one.
    train(&other, 3..4, quick()).await;
    let third = engine.adapter_learner(&saved).unwrap();
    train(&third, 3..4, quick()).await;
    train(&learner, 3..4, quick()).await;
    assert_eq!(other.forward(rows(9)).await.unwrap(), third.forward(rows(9)).await.unwrap());
    assert_ne!(other.forward(rows(9)).await.unwrap(), learner.forward(rows(9)).await.unwrap());
    other.save_checkpoint(&again).await.unwrap();
    third.load_checkpoint(&again).await.unwrap();

    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    let small = engine;
    let engine = open(&vectors.join("qwen2-yarn"), 1);
    let of_peft = engine.adapter_learner(&vectors.join("qwen2-yarn-lora")).unwrap();
    engine.sampler().load_weights(&adapter(&vectors.join("qwen2-yarn-lora"), 1)).await.unwrap();
    let prompted = request(sequence(3, 6, 41), 9, 5);
    let (expected, _) = answer(&engine.sampler(), prompted).await;
    let data: Arc<[_]> = [policy(&sequence(3, 6, 41), &expected, 1.0)].into();
    let scored = of_peft.forward(data).await.unwrap();
    assert!(scored[0][5..].iter().zip(&expected).all(|(scored, token)| scored.to_bits() == token.logprob.to_bits()));
    let error = small.adapter_learner(&vectors.join("llama-lora")).unwrap_err().to_string();
    assert!(error.contains("shape") || error.contains("missing"), "{error}");
}

#[tokio::test]
async fn only_the_layers_that_were_chosen_are_trained() {
    let (home, directory) = create(&tiny_config(), 1);
    let engine = open(&directory, 2);
    let modules = LoraModule::FEED_FORWARD.into();
    let some = LoraOptions { modules, layers: Some([1].into()), ..LoraOptions::new(2, 7) };
    let learner = engine.lora_learner(&some).unwrap();
    let before = learner.forward(rows(9)).await.unwrap();
    train(&learner, 0..2, quick()).await;
    assert_ne!(learner.forward(rows(9)).await.unwrap(), before);
    let (saved, checkpoint) = (home.path().join("saved"), home.path().join("checkpoint"));
    learner.save_weights(&saved).await.unwrap();
    let weights = std::fs::read(saved.join("adapter_model.safetensors")).unwrap();
    let text = String::from_utf8_lossy(&weights);
    assert!(text.contains("layers.1.mlp.up_proj") && !text.contains("layers.0."), "{text}");
    let config: serde_json::Value =
        serde_json::from_slice(&std::fs::read(saved.join("adapter_config.json")).unwrap()).unwrap();
    assert_eq!(config["layers_to_transform"], serde_json::json!([1]));
    learner.save_checkpoint(&checkpoint).await.unwrap();
    let resumed = engine.lora_learner(&some).unwrap();
    resumed.load_checkpoint(&checkpoint).await.unwrap();
    train(&resumed, 2..4, quick()).await;
    train(&learner, 2..4, quick()).await;
    assert_eq!(resumed.forward(rows(9)).await.unwrap(), learner.forward(rows(9)).await.unwrap());
    let deeper = LoraOptions { layers: Some([2].into()), ..some };
    let error = engine.lora_learner(&deeper).unwrap_err().to_string();
    assert!(error.contains("layer 2, but the model's layers are 0 to 1"), "{error}");
}
