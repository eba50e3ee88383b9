//! Logprobs, losses, gradients and directories against the embedded learner's, in f32.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fulgurite_backends::{
    AdamParameters, BackendError, ComparedAnswer, Comparison, Comparisons, ForwardBackward, Learner, LossFunction,
    PreferenceLoss, RatioBounds, TorchAdapter, TorchLearner, TorchModel, TorchOptions,
};
use fulgurite_engine::{Engine, EngineOptions, LoraOptions, ModelConfig};
use fulgurite_types::{Chunk, Datum, LossInputs};
use safetensors::SafeTensors;
use serde_json::json;

use super::interpreter;

const VOCABULARY: u32 = 300;
const LENGTHS: [usize; 6] = [7, 12, 3, 21, 1, 5];
const BOUNDS: RatioBounds = RatioBounds { low: 0.8, high: 1.2 };

const LOSSES: [LossFunction; 8] = [
    LossFunction::CrossEntropy,
    LossFunction::ImportanceSampling,
    LossFunction::Ppo(BOUNDS),
    LossFunction::Cispo(BOUNDS),
    LossFunction::Dro { beta: 0.5 },
    LossFunction::Gspo(BOUNDS),
    LossFunction::DualClip { bounds: BOUNDS, ratio_limit: 1.4 },
    LossFunction::Sapo { positive: 1.0, negative: 1.05 },
];

const PREFERENCES: [PreferenceLoss; 10] = [
    PreferenceLoss::Dpo { beta: 0.1, label_smoothing: 0.0 },
    PreferenceLoss::Dpo { beta: 0.5, label_smoothing: 0.1 },
    PreferenceLoss::Ipo { beta: 0.1 },
    PreferenceLoss::Orpo { beta: 0.25 },
    PreferenceLoss::Kto { beta: 0.1, baseline: 0.5, desirable_weight: 1.0, undesirable_weight: 1.5 },
    PreferenceLoss::Hinge { beta: 0.1 },
    PreferenceLoss::Robust { beta: 0.5, label_smoothing: 0.1 },
    PreferenceLoss::ApoZero { beta: 0.25 },
    PreferenceLoss::ApoDown { beta: 0.25 },
    PreferenceLoss::Simpo { beta: 2.0, gamma: 0.5 },
];

/// Numbers that look random, the same each time: from 0 up to 1.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f32 / (1u64 << 24) as f32
    }

    fn token(&mut self) -> u32 {
        (self.next() * VOCABULARY as f32) as u32
    }
}

/// Datums of these lengths whose lists `inputs` makes, so many numbers in each.
fn data(inputs: impl Fn(&mut Draw, usize) -> LossInputs) -> Arc<[Datum]> {
    let mut draw = Draw(7);
    let datum = |&length: &usize| Datum {
        model_input: vec![Chunk::Tokens((0..length).map(|_| draw.token()).collect())],
        target_tokens: (0..length).map(|_| draw.token()).collect(),
        loss_inputs: inputs(&mut draw, length),
    };
    LENGTHS.iter().map(datum).collect()
}

fn weights(draw: &mut Draw, count: usize) -> Vec<f32> {
    (0..count).map(|_| if draw.next() < 0.3 { 0.0 } else { 2.0 * draw.next() }).collect()
}

fn supervised() -> Arc<[Datum]> {
    data(|draw, count| LossInputs::Supervised { weights: weights(draw, count) })
}

fn soft() -> Arc<[Datum]> {
    data(|draw, count| LossInputs::SoftTargets {
        width: 3,
        tokens: (0..3 * count).map(|_| draw.token()).collect(),
        weights: weights(draw, 3 * count),
    })
}

/// Datums that were sampled under other weights than those that are trained, so that ratios are on either side of the bounds.
fn sampled(logprobs: &[Vec<f32>]) -> Arc<[Datum]> {
    let inputs = |draw: &mut Draw, count: usize| {
        let mask: Vec<f32> = (0..count).map(|_| if draw.next() < 0.3 { 0.0 } else { 1.0 }).collect();
        let advantages = (0..count).map(|_| 4.0 * draw.next() - 2.0).collect();
        LossInputs::Policy { logprobs: (0..count).map(|_| draw.next() - 0.5).collect(), advantages, mask }
    };
    let mut data = data(inputs).to_vec();
    for (datum, known) in data.iter_mut().zip(logprobs) {
        let LossInputs::Policy { logprobs, .. } = &mut datum.loss_inputs else { continue };
        logprobs.iter_mut().zip(known).for_each(|(number, known)| *number += known);
    }
    data.into()
}

fn comparisons(loss: PreferenceLoss) -> Arc<Comparisons> {
    let answer = |data, reference| Some(ComparedAnswer { data, reference });
    // The second has two datums a side.
    let list = vec![
        Comparison { chosen: answer(0..1, -20.0), rejected: answer(1..2, -40.0) },
        Comparison { chosen: answer(2..4, -90.0), rejected: answer(4..6, -20.0) },
    ];
    Arc::new(Comparisons { loss, others: Vec::new(), scale: 0.5, likelihood_scale: 0.01, list })
}

/// The same model trained by both, and a checkpoint that both go on from.
struct Both {
    home: tempfile::TempDir,
    embedded: Arc<dyn Learner>,
    torch: TorchLearner,
    _engine: Engine,
}

impl Both {
    async fn new(rank: usize, processes: usize) -> Self {
        let home = tempfile::tempdir().unwrap();
        let shape = ModelConfig {
            architecture: Default::default(),
            vocab_size: VOCABULARY as usize,
            hidden_size: 32,
            intermediate_size: 64,
            num_hidden_layers: 2,
            num_attention_heads: 4,
            num_key_value_heads: 2,
            head_dim: 8,
            max_position_embeddings: 64,
            rms_norm_eps: 1e-6,
            rope_theta: 10_000.0,
            rope_scaling: Default::default(),
            tie_word_embeddings: true,
            head: Default::default(),
            other: json!({}).as_object().unwrap().clone(),
        };
        let path = home.path().join("model");
        fulgurite_engine::create_model(&path, &shape, 1).unwrap();
        let engine = Engine::open(&path, EngineOptions { threads: 1, ..EngineOptions::default() }).unwrap();
        let embedded: Arc<dyn Learner> = match rank {
            0 => engine.learner(),
            _ => engine.lora_learner(&LoraOptions::new(rank, 3)).unwrap(),
        };
        let adapter = (rank > 0).then_some(TorchAdapter { rank, alpha: LoraOptions::ALPHA, modules: None });
        // Several passes for a call.
        let python = interpreter(home.path());
        let options = TorchOptions { python, processes, max_tokens_per_pass: 24, ..TorchOptions::default() };
        let torch =
            TorchLearner::start(&options, &TorchModel { path, adapter, head: Default::default(), seed: 5 }).unwrap();
        let both = Self { home, embedded, torch, _engine: engine };
        // Numbers that matter in every matrix, and moments.
        for _ in 0..3 {
            both.embedded.forward_backward(supervised(), LossFunction::CrossEntropy).await.unwrap();
            let parameters = AdamParameters { learning_rate: 2e-2, ..AdamParameters::default() };
            both.embedded.optimizer_step(parameters).await.unwrap();
        }
        both.embedded.save_checkpoint(&both.start()).await.unwrap();
        both
    }

    fn start(&self) -> PathBuf {
        self.home.path().join("start")
    }

    fn learners(&self) -> [&dyn Learner; 2] {
        [&*self.embedded, &self.torch]
    }

    /// Holds what a call gives, and the step that follows it, against each other.
    async fn agree<F>(&self, what: &str, call: impl Fn(usize) -> F)
    where
        F: Future<Output = Result<ForwardBackward, BackendError>>,
    {
        let mut found = Vec::new();
        for (index, learner) in self.learners().into_iter().enumerate() {
            learner.load_checkpoint(&self.start()).await.unwrap();
            let before = tensors(&self.start());
            let pass = call(index).await.unwrap();
            // Where epsilon is all of the root, the step is the gradient.
            let plain = AdamParameters {
                learning_rate: 1e4,
                epsilon: 1e4,
                gradient_clip_norm: 0.0,
                beta1: 0.0,
                beta2: 0.999_999_999,
                ..AdamParameters::default()
            };
            let step = learner.optimizer_step(plain).await.unwrap();
            let written = self.home.path().join(format!("{index}"));
            learner.save_weights(&written).await.unwrap();
            let after = tensors(&written);
            std::fs::remove_dir_all(&written).unwrap();
            let update: Vec<f64> = before.iter().zip(&after).map(|(before, after)| after - before).collect();
            found.push((pass, step.gradient_norm, update));
        }
        let [(own, own_norm, own_update), (torch, torch_norm, torch_update)] = &found[..] else { panic!("two") };
        near(&own.logprobs, &torch.logprobs, what);
        near(own.entropies.as_ref().unwrap(), torch.entropies.as_ref().unwrap(), what);
        let loss = (own.loss_sum - torch.loss_sum).abs();
        assert!(loss < 1e-4 * own.loss_sum.abs().max(1.0), "{what}: {} and {}", own.loss_sum, torch.loss_sum);
        assert!((own_norm - torch_norm).abs() < 1e-4 * own_norm, "{what}: {own_norm} and {torch_norm}");
        let norm = |numbers: &mut dyn Iterator<Item = f64>| numbers.map(|x| x * x).sum::<f64>().sqrt();
        let apart = norm(&mut own_update.iter().zip(torch_update).map(|(one, other)| one - other));
        let whole = norm(&mut own_update.iter().copied());
        assert!(*own_norm > 0.0 && whole > 0.1 * own_norm, "{what}: {whole} of {own_norm}");
        assert!(apart < 1e-4 * whole, "{what}: {apart} of {whole} apart");
    }
}

fn near(own: &[Vec<f32>], torch: &[Vec<f32>], what: &str) {
    assert_eq!(own.len(), torch.len(), "{what}");
    for (index, (own, torch)) in own.iter().zip(torch).enumerate() {
        assert_eq!(own.len(), torch.len(), "{what}, datum {index}");
        for (own, torch) in own.iter().zip(torch) {
            assert!((own - torch).abs() < 1e-4, "{what}, datum {index}: {own} and {torch}");
        }
    }
}

/// All numbers of a directory's weights, in the order of their names.
fn tensors(directory: &Path) -> Vec<f64> {
    let file = ["model.safetensors", "adapter_model.safetensors"].map(|name| directory.join(name));
    let bytes = std::fs::read(file.iter().find(|path| path.exists()).unwrap()).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let mut names = file.names();
    names.sort();
    let numbers = |name: &&str| -> Vec<f64> {
        let (quads, _) = file.tensor(name).unwrap().data().as_chunks::<4>();
        quads.iter().map(|bytes| f64::from(f32::from_le_bytes(*bytes))).collect()
    };
    names.iter().flat_map(numbers).collect()
}

async fn every_loss(rank: usize, processes: usize) {
    let both = Both::new(rank, processes).await;
    let [own, torch] = both.learners();
    torch.load_checkpoint(&both.start()).await.unwrap();
    for data in [supervised(), soft()] {
        near(&own.forward(data.clone()).await.unwrap(), &torch.forward(data).await.unwrap(), "forward");
    }
    let known = own.forward(supervised()).await.unwrap();
    for loss in LOSSES {
        let data = if loss == LossFunction::CrossEntropy { supervised() } else { sampled(&known) };
        both.agree(loss.name(), |index| both.learners()[index].forward_backward(data.clone(), loss)).await;
    }
    let data = soft();
    both.agree("soft", |index| both.learners()[index].forward_backward(data.clone(), LossFunction::CrossEntropy)).await;
    for loss in PREFERENCES {
        let (data, list) = (supervised(), comparisons(loss));
        let call = |index: usize| both.learners()[index].forward_backward_comparisons(data.clone(), list.clone());
        both.agree(&format!("{loss:?}"), call).await;
    }
    // What was kept stays what it is, and each goes on from the other's directory with the moments in it.
    for learner in both.learners() {
        learner.load_checkpoint(&both.start()).await.unwrap();
        learner.keep_reference().await.unwrap();
        learner.forward_backward(supervised(), LossFunction::CrossEntropy).await.unwrap();
        learner.optimizer_step(AdamParameters::default()).await.unwrap();
    }
    let data = supervised();
    let kept =
        [own.forward_reference(data.clone()).await.unwrap(), torch.forward_reference(data.clone()).await.unwrap()];
    near(&kept[0], &kept[1], "reference");
    let saved = both.home.path().join("torch");
    torch.save_checkpoint(&saved).await.unwrap();
    own.load_checkpoint(&saved).await.unwrap();
    near(
        &own.forward(data.clone()).await.unwrap(),
        &torch.forward(data.clone()).await.unwrap(),
        "the other's checkpoint",
    );
    for learner in both.learners() {
        learner.forward_backward(data.clone(), LossFunction::CrossEntropy).await.unwrap();
        learner.optimizer_step(AdamParameters::default()).await.unwrap();
    }
    near(&own.forward(data.clone()).await.unwrap(), &torch.forward(data.clone()).await.unwrap(), "a step behind it");
    let error = torch.forward_backward(data, LossFunction::Ppo(BOUNDS)).await.unwrap_err();
    assert!(matches!(error, BackendError::InvalidRequest { .. }), "{error}");
    // A directory that somebody has changed is refused before anything is read of it.
    let file = std::fs::read_dir(&saved).unwrap().map(|entry| entry.unwrap().path());
    let state = file.into_iter().find(|path| path.ends_with("optimizer.state")).unwrap();
    let mut bytes = std::fs::read(&state).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&state, bytes).unwrap();
    let error = torch.load_checkpoint(&saved).await.unwrap_err();
    assert!(matches!(error, BackendError::Damaged(_)), "{error}");
}

#[tokio::test]
async fn every_loss_of_an_adapter_has_the_embedded_learners_gradient() {
    every_loss(4, 1).await;
}

#[tokio::test]
async fn every_loss_of_all_weights_has_the_embedded_learners_gradient() {
    every_loss(0, 1).await;
}

#[tokio::test]
async fn every_loss_has_the_same_gradient_where_two_processes_train() {
    every_loss(0, 2).await;
}
