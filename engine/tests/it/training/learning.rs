//! What the learner does to the weights, seen from outside.

use std::path::Path;
use std::sync::Arc;

use fulgurite_types::{Chunk, Datum, LossInputs, WeightsVersion};

use crate::common::{answer, create, files, open, policy, request, rows, sequence, supervised, tiny_config, train};
use fulgurite_backends::{
    AdamParameters, BackendError, GuardedStep, Learner, LearningRateFactors, LossFunction, NewWeights, SampledToken,
    Sampler, TrainedParts, WeightsSource,
};
use fulgurite_engine::ModelConfig;

fn quick() -> AdamParameters {
    AdamParameters { learning_rate: 0.01, weight_decay: 0.01, ..AdamParameters::default() }
}

#[tokio::test]
async fn a_few_sequences_are_learnt_by_heart() {
    let (_home, directory) = create(&tiny_config(), 1);
    let engine = open(&directory, 2);
    let (learner, sampler) = (engine.learner(), engine.sampler());
    let sequences: Vec<Vec<u32>> = (0..3).map(|row| sequence(row + 20, 12, 41)).collect();
    let data: Arc<[_]> = sequences.iter().map(|sequence| supervised(sequence, 1.0)).collect();
    let first = learner.forward_backward(data.clone(), LossFunction::CrossEntropy).await.unwrap().loss_sum;
    // Fresh weights know nothing: each of the 33 tokens costs about ln 41.
    assert!((first / 33.0 - 41.0_f64.ln()).abs() < 0.1, "{first}");
    for _ in 0..150 {
        learner.optimizer_step(AdamParameters { learning_rate: 0.01, ..AdamParameters::default() }).await.unwrap();
        learner.forward_backward(data.clone(), LossFunction::CrossEntropy).await.unwrap();
    }
    let logprobs = learner.forward(data).await.unwrap();
    assert!(logprobs.iter().flatten().all(|&logprob| logprob > -0.1), "{logprobs:?}");

    learner.publish_weights(WeightsVersion(1)).await.unwrap();
    for sequence in sequences {
        let mut greedy = request(sequence[..3].to_vec(), 9, 0);
        greedy.sampling.temperature = 0.0;
        let (tokens, _) = answer(&sampler, greedy).await;
        assert_eq!(tokens.iter().map(|token| token.id).collect::<Vec<_>>(), sequence[3..]);
        assert!(tokens.iter().all(|token| token.logprob == 0.0 && token.weights_version == Some(WeightsVersion(1))));
    }
}

/// The norm of a gradient, and the weights that a step leaves.
async fn stepped(parts: &TrainedParts, calls: &[Arc<[Datum]>]) -> (f64, Vec<Vec<f32>>) {
    let (_home, directory) = create(&tiny_config(), 1);
    let engine = open(&directory, 2);
    let learner = engine.learner();
    learner.train_parts(parts).unwrap();
    for call in calls {
        learner.forward_backward(call.clone(), LossFunction::CrossEntropy).await.unwrap();
    }
    let norm = learner.optimizer_step(quick()).await.unwrap().gradient_norm;
    (norm, learner.forward(rows(40)).await.unwrap())
}

#[tokio::test]
async fn calls_before_a_step_add_up_to_one_gradient() {
    let all = rows(3);
    let parts: Vec<Arc<[Datum]>> = [&all[..2], &all[2..3], &all[3..]].map(Arc::from).into();
    let (norm, weights) = stepped(&TrainedParts::default(), &[all]).await;
    let (norm_of_parts, weights_of_parts) = stepped(&TrainedParts::default(), &parts).await;
    assert!((norm - norm_of_parts).abs() < 1e-5 * norm, "{norm} and {norm_of_parts}");
    for (one, other) in weights.iter().flatten().zip(weights_of_parts.iter().flatten()) {
        assert!((one - other).abs() < 1e-3, "{one} and {other}");
    }
}

#[tokio::test]
async fn frozen_tensors_stay_and_others_learn_at_rates_of_their_own() {
    let (home, directory) = create(&tiny_config(), 1);
    let engine = open(&directory, 2);
    let learner = engine.learner();
    let frozen = |patterns: &[&str]| TrainedParts {
        frozen: patterns.iter().map(|pattern| (*pattern).to_owned()).collect(),
        ..TrainedParts::default()
    };
    let parts = TrainedParts {
        factors: LearningRateFactors { norms: 0.5, ..LearningRateFactors::default() },
        ..frozen(&["embed_tokens", "layers.0"])
    };
    learner.train_parts(&parts).unwrap();
    let tensors = |name: &str| {
        let directory = home.path().join(name);
        let bytes = std::fs::read(directory.join("model.safetensors")).unwrap();
        let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        file.tensors().into_iter().map(|(name, tensor)| (name, tensor.data().to_vec())).collect::<Vec<_>>()
    };
    let saved = |name: &str| home.path().join(name);
    learner.save_weights(&saved("before")).await.unwrap();
    train(&learner, 0..2, quick()).await;
    learner.save_checkpoint(&saved("after")).await.unwrap();
    for ((name, before), (_, after)) in tensors("before").into_iter().zip(tensors("after")) {
        let stays = name.contains("layers.0.") || name.contains("embed_tokens");
        assert_eq!(before == after, stays, "{name}");
    }
    // The same again, from the checkpoint.
    let resumed = engine.learner();
    resumed.load_checkpoint(&saved("after")).await.unwrap();
    let other = open(&directory, 1).learner();
    other.train_parts(&parts).unwrap();
    other.load_checkpoint(&saved("after")).await.unwrap();
    train(&resumed, 2..4, quick()).await;
    train(&other, 2..4, quick()).await;
    assert_eq!(resumed.forward(rows(9)).await.unwrap(), other.forward(rows(9)).await.unwrap());

    let whole = stepped(&TrainedParts::default(), &[rows(3)]).await.0;
    let part = stepped(&frozen(&["layers.0"]), &[rows(3)]).await.0;
    let rest = stepped(&frozen(&["layers.1", "norm", "embed_tokens"]), &[rows(3)]).await.0;
    assert!((whole.powi(2) - part.powi(2) - rest.powi(2)).abs() < 1e-4 * whole.powi(2), "{whole}, {part}, {rest}");
    let error = other.train_parts(&frozen(&["layers.7"])).unwrap_err().to_string();
    assert!(error.contains("[[models]] frozen has \"layers.7\""), "{error}");
}

#[tokio::test]
async fn a_reward_makes_its_answer_likelier_and_a_penalty_rarer() {
    for advantage in [1.0, -1.0] {
        let (_home, directory) = create(&tiny_config(), 4);
        let engine = open(&directory, 2);
        let prompt = sequence(1, 6, 41);
        let (tokens, _) = answer(&engine.sampler(), request(prompt.clone(), 8, 3)).await;
        let data: Arc<[_]> = [policy(&prompt, &tokens, advantage)].into();
        let learner = engine.learner();
        let before = learner.forward_backward(data.clone(), LossFunction::ImportanceSampling).await.unwrap();
        assert_eq!(before.loss_sum, f64::from(-advantage) * 8.0);
        learner.optimizer_step(quick()).await.unwrap();
        let sum = |logprobs: &[Vec<f32>]| logprobs[0][prompt.len() - 1..].iter().sum::<f32>();
        let after = learner.forward(data).await.unwrap();
        assert!((sum(&after) - sum(&before.logprobs)) * advantage > 0.1);
    }
}

#[tokio::test]
async fn entropies_are_those_of_the_whole_distributions_that_the_sampler_tells() {
    let (_home, directory) = create(&tiny_config(), 4);
    let engine = open(&directory, 2);
    let learner = engine.learner();
    // Fresh weights find every token about as likely; a few steps tell the distributions apart.
    train(&learner, 0..10, quick()).await;
    learner.publish_weights(WeightsVersion(1)).await.unwrap();
    let sequences = [(21, 30), (22, 12)].map(|(seed, length)| sequence(seed, length, 41));
    let datum = |sequence: &Vec<u32>| {
        let mut datum = supervised(sequence, 1.0);
        if let LossInputs::Supervised { weights } = &mut datum.loss_inputs {
            weights[..4].fill(0.0);
        }
        datum
    };
    let data: Arc<[_]> = sequences.iter().map(datum).collect();
    let update = learner.forward_backward(data, LossFunction::CrossEntropy).await.unwrap();
    let of_data = update.entropies.unwrap();
    assert_eq!(of_data.len(), 2);
    let (mut least, mut most) = (f64::INFINITY, 0.0f64);
    for (sequence, entropies) in sequences.iter().zip(&of_data) {
        let scores = engine.sampler().score_prompt(sequence, 41).await.unwrap();
        assert_eq!((entropies.len(), scores.likeliest.len()), (sequence.len() - 1, sequence.len() - 1));
        assert_eq!(entropies[..4], [0.0; 4], "those that take no part in the loss");
        for (entropy, row) in entropies.iter().zip(&scores.likeliest).skip(4) {
            let exact: f64 = row.iter().map(|(_, logprob)| f64::from(*logprob)).map(|l| -l * l.exp()).sum();
            assert_eq!(row.len(), 41);
            assert!((f64::from(*entropy) - exact).abs() < 1e-4, "{entropy} {exact}");
            (least, most) = (least.min(exact), most.max(exact));
        }
    }
    assert!(most < 41f64.ln() && most - least > 1e-2, "{least} {most}");
}

/// Norms tell it: with the inner product that one sum's norm has, those of all other sums follow.
#[tokio::test]
async fn the_gradient_of_two_losses_is_the_sum_of_theirs() {
    let (_home, directory) = create(&tiny_config(), 4);
    let engine = open(&directory, 2);
    let prompt = sequence(1, 6, 41);
    let (tokens, _) = answer(&engine.sampler(), request(prompt.clone(), 8, 3)).await;
    let rewarded: Arc<[_]> = [policy(&prompt, &tokens, 0.7)].into();
    let learner = engine.learner();
    let still = AdamParameters { learning_rate: 0.0, gradient_clip_norm: 0.0, ..AdamParameters::default() };
    let norm = async |of_policy: bool, weight: f32| {
        if of_policy {
            learner.forward_backward(rewarded.clone(), LossFunction::ImportanceSampling).await.unwrap();
        }
        if weight != 0.0 {
            let shorter: Arc<[_]> = [supervised(&sequence(20, 12, 41), weight)].into();
            learner.forward_backward(shorter, LossFunction::CrossEntropy).await.unwrap();
        }
        learner.optimizer_step(still).await.unwrap().gradient_norm
    };
    let (one, other, both) = (norm(true, 0.0).await, norm(false, 1.0).await, norm(true, 1.0).await);
    let product = (both * both - one * one - other * other) / 2.0;
    assert!(product.abs() > 1e-3 * one * other, "they have something to do with each other");
    for weight in [-1.0, 0.5, 3.0] {
        let scale = f64::from(weight);
        let expected = (one * one + scale * scale * other * other + 2.0 * scale * product).sqrt();
        let sum = norm(true, weight).await;
        assert!((sum / expected - 1.0).abs() <= 1e-6, "{weight}: {sum}, and not {expected}");
    }
}

#[tokio::test]
async fn weights_do_not_depend_on_the_number_of_threads_nor_on_the_run() {
    let mut seen: Option<Vec<(String, Vec<u8>)>> = None;
    for threads in [1, 2, 3, 2] {
        let (home, directory) = create(&tiny_config(), 8);
        let engine = open(&directory, threads);
        train(&engine.learner(), 0..5, quick()).await;
        let saved = home.path().join("saved");
        engine.learner().save_checkpoint(&saved).await.unwrap();
        let found = files(&saved);
        assert_eq!(seen.get_or_insert_with(|| found.clone()), &found, "{threads} threads");
    }
}

#[tokio::test]
async fn training_goes_on_from_a_checkpoint_as_if_it_had_not_stopped() {
    for steps in [0, 3] {
        let (home, directory) = create(&tiny_config(), 8);
        std::fs::write(directory.join("tokenizer.json"), "{}").unwrap();
        std::fs::write(directory.join("notes.txt"), "not part of the model").unwrap();
        let (middle, straight, resumed) =
            (home.path().join("a/middle"), home.path().join("straight"), home.path().join("resumed"));
        let learner = open(&directory, 2).learner();
        train(&learner, 0..steps, quick()).await;
        learner.save_checkpoint(&middle).await.unwrap();
        train(&learner, steps..6, quick()).await;
        learner.save_checkpoint(&straight).await.unwrap();

        // In the same process, over other weights and a gradient that is to be dropped.
        learner.forward_backward(rows(50), LossFunction::CrossEntropy).await.unwrap();
        learner.load_checkpoint(&middle).await.unwrap();
        train(&learner, steps..6, quick()).await;
        learner.save_checkpoint(&resumed).await.unwrap();
        assert_eq!(files(&resumed), files(&straight));
        std::fs::remove_dir_all(&resumed).unwrap();

        // In a new process, which opens the checkpoint itself.
        let learner = open(&middle, 1).learner();
        learner.load_checkpoint(&middle).await.unwrap();
        train(&learner, steps..6, quick()).await;
        learner.save_checkpoint(&resumed).await.unwrap();
        assert_eq!(files(&resumed), files(&straight));

        let names: Vec<String> = files(&straight).into_iter().map(|(name, _)| name).collect();
        let expected = [
            "config.json",
            "fulgurite.sha256",
            "generation_config.json",
            "model.safetensors",
            "optimizer.state",
            "tokenizer.json",
        ];
        assert_eq!(names, expected);
    }
}

#[tokio::test]
async fn a_checkpoint_holds_no_weights_but_the_models_for_whoever_serves_it() {
    let (home, directory) = create(&tiny_config(), 8);
    let learner = open(&directory, 2).learner();
    train(&learner, 0..2, quick()).await;
    let saved = home.path().join("saved");
    learner.save_checkpoint(&saved).await.unwrap();
    // Model servers read all files of that name.
    let weights: Vec<String> =
        files(&saved).into_iter().map(|(name, _)| name).filter(|name| name.ends_with(".safetensors")).collect();
    assert_eq!(weights, ["model.safetensors"]);

    // By its former name the optimizer's state is read all the same; nobody listed digests then.
    let again = home.path().join("again");
    std::fs::remove_file(saved.join("fulgurite.sha256")).unwrap();
    std::fs::rename(saved.join("optimizer.state"), saved.join("optimizer.safetensors")).unwrap();
    let reopened = open(&saved, 2).learner();
    reopened.load_checkpoint(&saved).await.unwrap();
    train(&reopened, 2..3, quick()).await;
    reopened.save_checkpoint(&again).await.unwrap();
    train(&learner, 2..3, quick()).await;
    let straight = home.path().join("straight");
    learner.save_checkpoint(&straight).await.unwrap();
    assert_eq!(files(&again), files(&straight));
}

#[tokio::test]
async fn a_checkpoint_is_never_overwritten_and_another_models_is_refused() {
    let (home, directory) = create(&tiny_config(), 8);
    let learner = open(&directory, 2).learner();
    let saved = home.path().join("saved");
    learner.save_checkpoint(&saved).await.unwrap();
    let before = files(&saved);
    assert!(matches!(learner.save_checkpoint(&saved).await, Err(BackendError::Files { .. })));
    assert_eq!(files(&saved), before);

    let (_home, other) = create(&fulgurite_engine::ModelConfig { num_hidden_layers: 1, ..tiny_config() }, 8);
    let learner = open(&other, 2).learner();
    let error = learner.load_checkpoint(&saved).await.unwrap_err();
    assert!(error.to_string().ends_with("it describes another model than the one that is open"), "{error}");
}

#[tokio::test]
async fn gradients_add_up_over_calls() {
    let data = rows(30);
    let (_home, directory) = create(&tiny_config(), 8);
    let together = open(&directory, 2).learner();
    let both: Arc<[Datum]> = data.iter().chain(data.iter()).cloned().collect();
    together.forward_backward(both, LossFunction::CrossEntropy).await.unwrap();
    let apart = open(&directory, 2).learner();
    apart.forward_backward(data.clone(), LossFunction::CrossEntropy).await.unwrap();
    apart.forward_backward(data, LossFunction::CrossEntropy).await.unwrap();
    let (together, apart) =
        (together.optimizer_step(quick()).await.unwrap(), apart.optimizer_step(quick()).await.unwrap());
    assert!((together.gradient_norm / apart.gradient_norm - 1.0).abs() < 1e-5);
}

#[tokio::test]
async fn a_gradient_that_is_not_finite_changes_nothing_and_is_dropped() {
    let (home, directory) = create(&tiny_config(), 8);
    let learner = open(&directory, 2).learner();
    train(&learner, 0..2, quick()).await;
    let (before, after) = (home.path().join("before"), home.path().join("after"));
    learner.save_checkpoint(&before).await.unwrap();
    let mut overflowing = policy(&[1, 2, 3], &[], 0.0);
    overflowing.loss_inputs =
        LossInputs::Policy { logprobs: vec![-1e4, -1e4], advantages: vec![1.0, 1.0], mask: vec![0.0, 1.0] };
    let data: Arc<[Datum]> = [overflowing].into();
    learner.forward_backward(data, LossFunction::ImportanceSampling).await.unwrap();
    assert!(matches!(learner.optimizer_step(quick()).await, Err(BackendError::Internal { .. })));
    learner.save_checkpoint(&after).await.unwrap();
    assert_eq!(files(&before), files(&after));
    // The next step is a sound one.
    train(&learner, 2..3, quick()).await;
}

#[tokio::test]
async fn a_masked_target_contributes_nothing_whatever_it_carries() {
    let (_home, directory) = create(&tiny_config(), 8);
    let with = |logprob: f32, advantage: f32| Datum {
        loss_inputs: LossInputs::Policy {
            logprobs: vec![logprob, -3.0],
            advantages: vec![advantage, 1.0],
            mask: vec![0.0, 1.0],
        },
        ..supervised(&[1, 2, 3], 1.0)
    };
    let mut found = Vec::new();
    for datum in [with(0.0, 0.0), with(-1e30, 5.0)] {
        let learner = open(&directory, 2).learner();
        let pass = learner.forward_backward([datum].into(), LossFunction::ImportanceSampling).await.unwrap();
        assert_eq!(pass.logprobs[0][0], 0.0);
        found.push((pass, learner.optimizer_step(quick()).await.unwrap()));
    }
    assert_eq!(found[0], found[1]);
}

#[tokio::test]
async fn a_bad_datum_is_refused_by_its_place_and_leaves_no_gradient() {
    let (_home, directory) = create(&tiny_config(), 8);
    let learner = open(&directory, 2).learner();
    let good = supervised(&[1, 2, 3], 1.0);
    let image = Datum { model_input: vec![Chunk::Image { digest: "abc".into(), expected_tokens: 2 }], ..good.clone() };
    let long = supervised(&sequence(1, 98, 41), 1.0);
    let nothing =
        Datum { model_input: vec![], target_tokens: vec![], loss_inputs: LossInputs::Supervised { weights: vec![] } };
    for (bad, message) in [
        (supervised(&[1, 41, 3], 1.0), "datum 1: token 41 is not in the vocabulary of 41 tokens"),
        (supervised(&[1, 2, 99], 1.0), "datum 1: token 99 is not in the vocabulary of 41 tokens"),
        (supervised(&[1, 2, 3], f32::NAN), "datum 1: weights[0] is NaN, not a finite number"),
        (image, "datum 1: it holds the image abc, but the model sees no images"),
        (long, "datum 1: it has 97 positions, but the model's context length is 96"),
        (nothing, "datum 1: it has no positions"),
    ] {
        let data: Arc<[Datum]> = [good.clone(), bad].into();
        let error = learner.forward_backward(data.clone(), LossFunction::CrossEntropy).await.unwrap_err();
        assert!(matches!(&error, BackendError::InvalidRequest { message: found } if found == message), "{error}");
        assert!(learner.forward(data).await.is_err());
    }
    assert_eq!(learner.optimizer_step(quick()).await.unwrap().gradient_norm, 0.0);
    let error = learner.optimizer_step(AdamParameters { learning_rate: f64::NAN, ..quick() }).await.unwrap_err();
    assert_eq!(error.to_string(), "optimizer: learning_rate is NaN");
}

#[tokio::test]
async fn a_gradient_above_its_bound_changes_nothing_and_is_dropped() {
    let (home, directory) = create(&tiny_config(), 1);
    let (guarded, plain) = (open(&directory, 2).learner(), open(&directory, 2).learner());
    let data: Arc<[Datum]> = [supervised(&[1, 2, 3], 1.0)].into();
    for learner in [&guarded, &plain] {
        learner.forward_backward(data.clone(), LossFunction::CrossEntropy).await.unwrap();
    }
    let norm = plain.optimizer_step(quick()).await.unwrap().gradient_norm;
    let skipped = guarded.optimizer_step_within(quick(), norm * 0.99).await.unwrap();
    assert_eq!(skipped, GuardedStep::Skipped { gradient_norm: norm });
    let written = |name: &str| home.path().join(name);
    guarded.forward_backward(data, LossFunction::CrossEntropy).await.unwrap();
    let made = guarded.optimizer_step_within(quick(), norm * 1.01).await.unwrap();
    assert!(matches!(made, GuardedStep::Made(_)), "{made:?}");
    guarded.save_weights(&written("guarded")).await.unwrap();
    plain.save_weights(&written("plain")).await.unwrap();
    let bytes = |name: &str| std::fs::read(written(name).join("model.safetensors")).unwrap();
    assert!(bytes("guarded") == bytes("plain"), "the dropped gradient left nothing behind");
}

#[tokio::test]
async fn weights_of_another_learner_are_put_behind_the_sampler_from_their_directory() {
    let (home, directory) = create(&tiny_config(), 1);
    let (teacher, pupil) = (open(&directory, 2), open(&directory, 2));
    train(&teacher.learner(), 0..2, quick()).await;
    let trained = home.path().join("trained");
    teacher.learner().save_weights(&trained).await.unwrap();
    assert!(!trained.join("optimizer.state").exists(), "weights alone");
    teacher.learner().publish_weights(WeightsVersion(2)).await.unwrap();

    let source = |path: &Path| NewWeights { version: WeightsVersion(7), source: WeightsSource::Model(path.to_owned()) };
    pupil.sampler().load_weights(&source(&trained)).await.unwrap();
    let sent = request(sequence(3, 6, 41), 9, 5);
    let (expected, _) = answer(&teacher.sampler(), sent.clone()).await;
    let (sampled, _) = answer(&pupil.sampler(), sent).await;
    let bits = |tokens: &[SampledToken]| tokens.iter().map(|it| (it.id, it.logprob.to_bits())).collect::<Vec<_>>();
    assert_eq!(bits(&sampled), bits(&expected));
    assert!(sampled.iter().all(|token| token.weights_version == Some(WeightsVersion(7))));

    let (_other_home, other) = create(&ModelConfig { num_hidden_layers: 1, ..tiny_config() }, 1);
    for wrong in [other.as_path(), Path::new("/nowhere")] {
        pupil.sampler().load_weights(&source(wrong)).await.unwrap_err();
        assert_eq!(pupil.sampler().weights_version(), Some(WeightsVersion(7)), "an error changes nothing");
    }
}
