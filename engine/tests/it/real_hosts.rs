//! What the tests beside real model hosts share: answers with the weights behind them, and new weights to put there.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fulgurite_backends::{
    AdamParameters, BackendError, Changeover, Learner, LossFunction, NewWeights, RemoteOptions, SampleEvent,
    SampleRequest, SampledToken, Sampler, SamplingEnd, WeightsSource,
};
use fulgurite_types::{Constraint, SamplingParameters, WeightsVersion};
use serde_json::{Value, json};

use crate::common::{open, request, supervised};

/// How far apart the same weights' logprobs may be when two programs compute them in f32.
pub const TOLERANCE: f32 = 1e-3;

pub const VOCABULARY: u32 = 291;

/// A host that a script of `tests/backends` has started, the model that it serves, and a sampler there.
pub struct RealHost<S> {
    pub url: String,
    pub key: Option<String>,
    pub model: PathBuf,
    pub sampler: S,
    open: Open<S>,
}

type Open<S> = fn(&RemoteOptions) -> Result<S, BackendError>;

impl<S> RealHost<S> {
    /// The host that the environment names; without one there is nothing to compare with.
    pub fn find(script: &str, open: Open<S>) -> Option<Self> {
        let name = format!("FULGURITE_TEST_{}", script.replace('-', "_").to_uppercase());
        let variable = |end: &str| std::env::var(format!("{name}{end}")).ok();
        let (Some(url), Some(model)) = (variable(""), variable("_MODEL")) else {
            eprintln!("{name} is not set: nothing is compared with it (tests/backends/{script} starts one)");
            return None;
        };
        let key = variable("_KEY");
        let sampler = open(&options(&url, key.as_deref(), Changeover::Drain)).unwrap();
        Some(Self { url, key, model: model.into(), sampler, open })
    }

    /// A sampler at the host, whose model is replaced in that way.
    pub fn sampler(&self, changeover: Changeover) -> S {
        (self.open)(&options(&self.url, self.key.as_deref(), changeover)).unwrap()
    }

    /// A sampler that comes with another key.
    pub fn sampler_with_key(&self, key: Option<&str>) -> S {
        (self.open)(&options(&self.url, key, Changeover::Drain)).unwrap()
    }

    pub async fn post(&self, path: &str, body: Value) {
        let request = reqwest::Client::new().post(format!("{}/{path}", self.url)).json(&body);
        let request = request.bearer_auth(self.key.as_deref().unwrap());
        request.send().await.unwrap().error_for_status().unwrap();
    }
}

pub fn options(url: &str, key: Option<&str>, changeover: Changeover) -> RemoteOptions {
    RemoteOptions {
        url: url.to_owned(),
        model: "whatever".into(),
        vocabulary_size: VOCABULARY as usize,
        api_key: key.map(str::to_owned),
        silence_limit: Duration::from_secs(120),
        changeover,
    }
}

/// Tokens of an answer with the weights' versions in force at its end, and why it ended.
pub async fn answer(sampler: &dyn Sampler, request: SampleRequest) -> (Vec<SampledToken>, SamplingEnd) {
    answer_across(sampler, request, async || {}).await
}

/// As [`answer`], with what is done to the host once ten tokens have come.
pub async fn answer_across(
    sampler: &dyn Sampler,
    request: SampleRequest,
    change: impl AsyncFnOnce(),
) -> (Vec<SampledToken>, SamplingEnd) {
    let mut stream = sampler.sample(request).await.unwrap();
    let mut tokens: Vec<SampledToken> = Vec::new();
    let mut change = Some(change);
    loop {
        match stream.next().await.unwrap() {
            SampleEvent::Token(token) => tokens.push(token),
            SampleEvent::WeightsVersions(versions) => {
                assert_eq!(versions.len(), tokens.len());
                tokens.iter_mut().zip(versions).for_each(|(token, version)| token.weights_version = version);
            }
            SampleEvent::CachedPrompt(_) => {}
            SampleEvent::Finished(reason) => return (tokens, reason),
        }
        if tokens.len() == 10
            && let Some(change) = change.take()
        {
            change().await;
        }
    }
}

/// The place of the first token of the weights `after`, where all before it are of the weights `before`, and none behind.
pub fn place_of_the_swap(tokens: &[SampledToken], before: u64, after: u64) -> usize {
    let is_of = |version| move |token: &SampledToken| token.weights_version == Some(WeightsVersion(version));
    let swapped = tokens.iter().position(is_of(after)).unwrap();
    assert!(swapped >= 10);
    assert!(tokens[..swapped].iter().all(is_of(before)));
    assert!(tokens[swapped..].iter().all(is_of(after)));
    swapped
}

/// Has an answer held to a schema of one word; gives its tokens.
pub async fn hold_to_a_schema(sampler: &dyn Sampler) -> Vec<SampledToken> {
    let constraint = Some(Constraint::JsonSchema(json!({ "type": "boolean" })));
    let sampling = SamplingParameters { constraint, ..SamplingParameters::default() };
    let (tokens, reason) = answer(sampler, SampleRequest { sampling, ..request(vec![5, 6], 40, 3) }).await;
    assert_eq!(reason, SamplingEnd::StopToken, "{tokens:?}");
    tokens
}

/// Has an answer written as forced calls are: by a grammar with control tokens.
pub async fn hold_to_a_grammar(sampler: &dyn Sampler) {
    let grammar = r#"start: body
body: call
call: <|im_start|> "\n" "{\"name\": " %json {"const":"f"} "}" <|im_start|>
"#;
    let constraint = Some(Constraint::Lark(grammar.into()));
    let sampling = SamplingParameters { constraint, ..SamplingParameters::default() };
    let (tokens, reason) = answer(sampler, SampleRequest { sampling, ..request(vec![5, 6], 60, 3) }).await;
    assert_eq!(reason, SamplingEnd::StopToken, "{tokens:?}");
    let control: Vec<usize> = tokens.iter().enumerate().filter(|(_, t)| t.id == 289).map(|(place, _)| place).collect();
    assert_eq!(control, [0, tokens.len() - 2], "{tokens:?}");
}

pub fn replaced_by(directory: &Path, version: u64) -> NewWeights {
    NewWeights { version: WeightsVersion(version), source: WeightsSource::Model(directory.to_owned()) }
}

/// The greatest difference of these tokens' logprobs from those of a model that follows `prompt` with all of them.
pub async fn greatest_difference(model: &Path, prompt: &[u32], tokens: &[SampledToken], from: usize) -> f32 {
    greatest(tokens, &logprobs(model, prompt, tokens, None).await, from)
}

/// As [`greatest_difference`], where `excluded` could not be sampled, so that the others shared its probability.
pub async fn greatest_difference_without(
    excluded: u32,
    model: &Path,
    prompt: &[u32],
    tokens: &[SampledToken],
    from: usize,
) -> f32 {
    let excluded = logprobs(model, prompt, tokens, Some(excluded)).await;
    let all = logprobs(model, prompt, tokens, None).await;
    let others: Vec<f32> = all.iter().zip(excluded).map(|(all, excluded)| all - (-excluded.exp()).ln_1p()).collect();
    greatest(tokens, &others, from)
}

fn greatest(tokens: &[SampledToken], ours: &[f32], from: usize) -> f32 {
    assert_eq!(tokens.len(), ours.len());
    tokens.iter().zip(ours).skip(from).map(|(token, ours)| (token.logprob - ours).abs()).fold(0.0, f32::max)
}

/// The logprobs of these tokens behind `prompt`, or of another in the place of each.
async fn logprobs(model: &Path, prompt: &[u32], tokens: &[SampledToken], instead: Option<u32>) -> Vec<f32> {
    let sequence: Vec<u32> = prompt.iter().copied().chain(tokens.iter().map(|token| token.id)).collect();
    let mut datum = supervised(&sequence, 1.0);
    if let Some(token) = instead {
        datum.target_tokens.fill(token);
    }
    let mut logprobs = open(&model.to_path_buf(), 2).learner().forward(Arc::new([datum])).await.unwrap();
    logprobs.remove(0).split_off(prompt.len() - 1)
}

/// Weights some large steps away, as a directory.
pub async fn trained(model: &Path, home: &Path, steps: u64) -> PathBuf {
    let learner = open(&model.to_path_buf(), 2).learner();
    for step in 0..steps {
        let row: Vec<u32> = (0..40).map(|at| (at * 7 + step as u32 * 13) % 290).collect();
        learner.forward_backward(Arc::new([supervised(&row, 1.0)]), LossFunction::CrossEntropy).await.unwrap();
        learner.optimizer_step(AdamParameters { learning_rate: 0.02, ..AdamParameters::default() }).await.unwrap();
    }
    let directory = home.join(format!("after-{steps}"));
    learner.save_weights(&directory).await.unwrap();
    directory
}

/// An adapter of rank 2 on one matrix, in PEFT's format, and a model with that product added.
pub fn adapter_and_merged(model: &Path, home: &Path) -> (PathBuf, PathBuf) {
    const NAME: &str = "model.layers.0.mlp.down_proj";
    let (rank, scale) = (2, 2.0);
    let bytes = std::fs::read(model.join("model.safetensors")).unwrap();
    let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let weight = tensors.tensor(&format!("{NAME}.weight")).unwrap();
    let [rows, columns] = *weight.shape() else { panic!("no matrix") };
    let noise = |count: usize, step: f32| (0..count).map(|at| ((at as f32 * step).sin()) * 0.3).collect::<Vec<f32>>();
    let (a, b) = (noise(rank * columns, 1.7), noise(rows * rank, 2.3));
    let little_endian = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();

    let adapter = home.join("adapter");
    std::fs::create_dir(&adapter).unwrap();
    let config = json!({
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "r": rank, "lora_alpha": rank as f64 * scale, "bias": "none",
        "target_modules": ["down_proj"], "layers_to_transform": [0], "lora_dropout": 0.0, "inference_mode": true,
    });
    std::fs::write(adapter.join("adapter_config.json"), config.to_string()).unwrap();
    let (a_bytes, b_bytes) = (little_endian(&a), little_endian(&b));
    let view = |shape, bytes| safetensors::tensor::TensorView::new(safetensors::Dtype::F32, shape, bytes).unwrap();
    let file = [
        (format!("base_model.model.{NAME}.lora_A.weight"), view(vec![rank, columns], &a_bytes)),
        (format!("base_model.model.{NAME}.lora_B.weight"), view(vec![rows, rank], &b_bytes)),
    ];
    safetensors::serialize_to_file(file, None, &adapter.join("adapter_model.safetensors")).unwrap();

    let merged = home.join("merged");
    std::fs::create_dir(&merged).unwrap();
    for entry in std::fs::read_dir(model).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, merged.join(path.file_name().unwrap())).unwrap();
    }
    let (floats, _) = weight.data().as_chunks::<4>();
    let mut values: Vec<f32> = floats.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    for row in 0..rows {
        for column in 0..columns {
            let product: f32 = (0..rank).map(|at| b[row * rank + at] * a[at * columns + column]).sum();
            values[row * columns + column] += scale as f32 * product;
        }
    }
    let changed = little_endian(&values);
    let all = tensors.iter().map(|(name, tensor)| match name == format!("{NAME}.weight") {
        true => (name.to_owned(), view(vec![rows, columns], &changed)),
        false => (name.to_owned(), tensor),
    });
    safetensors::serialize_to_file(all, None, &merged.join("model.safetensors")).unwrap();
    (adapter, merged)
}
