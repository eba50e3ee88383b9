use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use fulgurite_types::{Datum, WeightsVersion};
use serde_json::{Value, json};

use super::child::LearnerChild;
use super::datum_tensors::{CallTensors, PassTensors};
use super::frames::PROTOCOL;
use super::options::{TorchModel, TorchOptions};
use crate::{
    AdamParameters, BackendError, Comparisons, DamagedFiles, ForwardBackward, GpuLearner, GuardedStep, Learner,
    LossFunction, OptimizerStep, PreferenceLoss, WeightedLoss, check_temperature, find_listed_damage,
};

/// Trains a model in PyTorch, in a process of its own. Calls are made one at a time on blocking threads.
///
/// Its directories are those of the embedded learner, which goes on from them, and the other way round.
#[derive(Clone, Debug)]
pub struct TorchLearner {
    child: Arc<Mutex<LearnerChild>>,
    /// Ends the process while a call has it.
    connection: Arc<UnixStream>,
}

impl TorchLearner {
    /// Starts the process and has it open the model, which takes seconds.
    ///
    /// # Errors
    /// [`BackendError::Configuration`] says what is missing, and the command or key that helps.
    pub fn start(options: &TorchOptions, model: &TorchModel) -> Result<Self, BackendError> {
        options.check().map_err(|message| BackendError::Configuration { message })?;
        let mut child = LearnerChild::start(&options.python)?;
        let opened = child.call(
            &json!({
                "call": "open",
                "protocol": PROTOCOL,
                "model": absolute(&model.path)?,
                "lora": model.adapter,
                "head": model.head,
                // Torch takes seeds for signed numbers.
                "seed": model.seed & i64::MAX as u64,
                "device": options.device,
                "dtype": options.dtype,
                "max_tokens_per_pass": options.max_tokens_per_pass,
                "gradient_checkpointing": options.gradient_checkpointing,
                "processes": options.processes,
                "shares_gpu": options.shares_gpu,
            }),
            &[],
        )?;
        tracing::info!(opened = %opened.header, "the torch learner is ready");
        let connection = Arc::new(child.connection()?);
        Ok(Self { child: Arc::new(Mutex::new(child)), connection })
    }

    /// Whether the interpreter has the package, which takes a tenth of a second.
    ///
    /// # Errors
    /// [`BackendError::Configuration`] says what is missing, and the command or key that helps.
    pub fn find_package(options: &TorchOptions) -> Result<(), BackendError> {
        LearnerChild::start(&options.python).map(drop)
    }

    /// Runs `work` with the process, after the calls before it.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut LearnerChild) -> Result<T, BackendError> + Send + 'static,
    ) -> Result<T, BackendError> {
        let child = Arc::clone(&self.child);
        let failed = || BackendError::Internal { message: "a call of the torch learner has panicked".to_owned() };
        let worked = tokio::task::spawn_blocking(move || match child.lock() {
            Ok(mut child) => work(&mut child),
            Err(_) => Err(failed()),
        });
        worked.await.map_err(|_| failed())?
    }

    /// A call without tensors.
    async fn ask(&self, header: Value) -> Result<Value, BackendError> {
        self.run(move |child| Ok(child.call(&header, &[])?.header)).await
    }

    async fn score(
        &self,
        call: &'static str,
        list: &'static str,
        data: Arc<[Datum]>,
    ) -> Result<Vec<Vec<f32>>, BackendError> {
        self.run(move |child| {
            let body = CallTensors::of(&data)?.to_bytes()?;
            let reply = child.call(&json!({ "call": call }), &body)?;
            PassTensors::read(&data, &reply.body)?.of_targets(list)
        })
        .await
    }

    async fn on_directory(&self, call: &str, directory: &Path) -> Result<(), BackendError> {
        self.ask(json!({ "call": call, "directory": absolute(directory)? })).await.map(drop)
    }
}

/// The process has the working directory of this one, but is handed nothing that depends on it.
fn absolute(path: &Path) -> Result<PathBuf, BackendError> {
    std::path::absolute(path).map_err(|error| BackendError::Files { path: path.into(), message: error.to_string() })
}

fn learnt(
    child: &mut LearnerChild,
    header: &Value,
    body: &[u8],
    data: &[Datum],
) -> Result<ForwardBackward, BackendError> {
    let reply = child.call(header, body)?;
    let found = PassTensors::read(data, &reply.body)?;
    Ok(ForwardBackward {
        loss_sum: found.loss_sum()?,
        logprobs: found.of_targets("logprobs")?,
        entropies: Some(found.of_targets("entropies")?),
    })
}

fn preference_loss(loss: PreferenceLoss) -> Value {
    match loss {
        PreferenceLoss::Dpo { beta, label_smoothing } => {
            json!({ "name": "dpo", "beta": beta, "label_smoothing": label_smoothing })
        }
        PreferenceLoss::Hinge { beta } => json!({ "name": "hinge", "beta": beta }),
        PreferenceLoss::Robust { beta, label_smoothing } => {
            json!({ "name": "robust", "beta": beta, "label_smoothing": label_smoothing })
        }
        PreferenceLoss::ApoZero { beta } => json!({ "name": "apo_zero", "beta": beta }),
        PreferenceLoss::ApoDown { beta } => json!({ "name": "apo_down", "beta": beta }),
        PreferenceLoss::Simpo { beta, gamma } => json!({ "name": "simpo", "beta": beta, "gamma": gamma }),
        PreferenceLoss::Ipo { beta } => json!({ "name": "ipo", "beta": beta }),
        PreferenceLoss::Orpo { beta } => json!({ "name": "orpo", "beta": beta }),
        PreferenceLoss::BradleyTerry { centering } => json!({ "name": "bradley_terry", "centering": centering }),
        PreferenceLoss::Kto { beta, baseline, desirable_weight, undesirable_weight } => json!({
            "name": "kto",
            "beta": beta,
            "baseline": baseline,
            "desirable_weight": desirable_weight,
            "undesirable_weight": undesirable_weight,
        }),
    }
}

#[async_trait]
impl Learner for TorchLearner {
    async fn forward(&self, data: Arc<[Datum]>) -> Result<Vec<Vec<f32>>, BackendError> {
        self.score("forward", "logprobs", data).await
    }

    async fn entropies(&self, data: Arc<[Datum]>) -> Result<Vec<Vec<f32>>, BackendError> {
        self.score("entropies", "entropies", data).await
    }

    async fn keep_reference(&self) -> Result<(), BackendError> {
        self.ask(json!({ "call": "keep_reference" })).await.map(drop)
    }

    /// As the trait says; the logprob of a target whose weight or mask is 0 is not computed, and stands as 0.
    async fn forward_reference(&self, data: Arc<[Datum]>) -> Result<Vec<Vec<f32>>, BackendError> {
        self.score("forward_reference", "logprobs", data).await
    }

    /// As the trait says; the logprob of a target whose weight or mask is 0 is not computed, and stands as 0.
    async fn forward_backward(&self, data: Arc<[Datum]>, loss: LossFunction) -> Result<ForwardBackward, BackendError> {
        self.run(move |child| {
            let body = CallTensors::of(&data)?.to_bytes()?;
            let loss = json!({ "name": loss.name(), "configuration": loss.configuration() });
            learnt(child, &json!({ "call": "forward_backward", "loss": loss }), &body, &data)
        })
        .await
    }

    async fn forward_backward_with_entropy(
        &self,
        data: Arc<[Datum]>,
        loss: LossFunction,
        entropy_weight: f32,
    ) -> Result<ForwardBackward, BackendError> {
        self.run(move |child| {
            let body = CallTensors::of(&data)?.to_bytes()?;
            let loss = json!({ "name": loss.name(), "configuration": loss.configuration() });
            let call = "forward_backward_with_entropy";
            learnt(child, &json!({ "call": call, "loss": loss, "entropy_weight": entropy_weight }), &body, &data)
        })
        .await
    }

    async fn forward_backward_comparisons(
        &self,
        data: Arc<[Datum]>,
        comparisons: Arc<Comparisons>,
    ) -> Result<ForwardBackward, BackendError> {
        comparisons.check(&data)?;
        self.run(move |child| {
            let body = CallTensors::of(&data)?.with_comparisons(&comparisons).to_bytes()?;
            let mut loss = preference_loss(comparisons.loss);
            if !comparisons.others.is_empty() {
                let other =
                    |other: &WeightedLoss| json!({ "weight": other.weight, "loss": preference_loss(other.loss) });
                let list: Vec<Value> = comparisons.others.iter().map(other).collect();
                // Names that a package which does not know of them refuses.
                loss["others"] = json!({ "of": loss["name"], "list": list });
                loss["name"] = json!("with_others");
            }
            if comparisons.likelihood_scale != 0.0 {
                loss["likelihood"] = json!({ "of": loss["name"], "scale": comparisons.likelihood_scale });
                loss["name"] = json!("with_likelihood");
            }
            let header = json!({ "call": "forward_backward_comparisons", "loss": loss, "scale": comparisons.scale });
            learnt(child, &header, &body, &data)
        })
        .await
    }

    async fn set_sampling_temperature(&self, temperature: f32) -> Result<(), BackendError> {
        check_temperature(temperature)?;
        self.ask(json!({ "call": "set_sampling_temperature", "temperature": temperature })).await.map(drop)
    }

    async fn optimizer_step(&self, parameters: AdamParameters) -> Result<OptimizerStep, BackendError> {
        let mut reply = self.ask(json!({ "call": "optimizer_step", "parameters": parameters })).await?;
        made(&mut reply)
    }

    async fn optimizer_step_within(&self, parameters: AdamParameters, most: f64) -> Result<GuardedStep, BackendError> {
        let most = most.is_finite().then_some(most);
        let header = json!({ "call": "optimizer_step", "parameters": parameters, "guard": { "greatest_norm": most } });
        let mut reply = self.ask(header).await?;
        if reply["skipped"] == true {
            return Ok(GuardedStep::Skipped { gradient_norm: reply["gradient_norm"].as_f64().unwrap_or(f64::NAN) });
        }
        Ok(GuardedStep::Made(made(&mut reply)?))
    }

    async fn save_checkpoint(&self, directory: &Path) -> Result<(), BackendError> {
        self.on_directory("save_checkpoint", directory).await
    }

    async fn load_checkpoint(&self, directory: &Path) -> Result<(), BackendError> {
        let path = directory.to_path_buf();
        self.run(move |_| verify(&path)).await?;
        self.on_directory("load_checkpoint", directory).await
    }

    async fn save_weights(&self, directory: &Path) -> Result<(), BackendError> {
        self.on_directory("save_weights", directory).await
    }

    async fn publish_weights(&self, _: WeightsVersion) -> Result<(), BackendError> {
        Err(BackendError::Configuration { message: "no sampler belongs to this learner".to_owned() })
    }
}

/// What a reply says of an optimizer step that was made.
fn made(reply: &mut Value) -> Result<OptimizerStep, BackendError> {
    let unreadable = |error| BackendError::Internal {
        message: format!("the torch learner's answer to a step cannot be read: {error}"),
    };
    Ok(OptimizerStep {
        gradient_norm: serde_json::from_value(reply["gradient_norm"].take()).map_err(unreadable)?,
        metrics: serde_json::from_value(reply["metrics"].take()).map_err(unreadable)?,
    })
}

#[async_trait]
impl GpuLearner for TorchLearner {
    async fn release_gpu(&self) -> Result<(), BackendError> {
        self.ask(json!({ "call": "release_gpu" })).await.map(drop)
    }

    fn end(&self) {
        // The process ends with its socket.
        let _ = self.connection.shutdown(Shutdown::Both);
    }
}

/// Refuses a directory whose files are not those that were written.
fn verify(directory: &Path) -> Result<(), BackendError> {
    match find_listed_damage(directory) {
        Some(damage) => Err(BackendError::Damaged(DamagedFiles { directory: directory.to_owned(), damage })),
        None => Ok(()),
    }
}
