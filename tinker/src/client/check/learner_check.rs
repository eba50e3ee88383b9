use std::sync::Arc;
use std::time::Duration;

use fulgurite_backends::BackendError;

use super::batch;
use super::checkpoints::{check_saving, check_weights_for_sampler};
use super::expectation::{is_close, mean_difference};
use super::finding::{CheckFinding, CheckNumbers, CheckVerdict};
use super::forms::{
    RANKS, RankUpdate, SWITCHES, check_clipping, check_learning_rate, check_modules, check_rank, moved,
};
use super::fresh_learner::FreshLearner;
use super::loss_options::{LOSS_OPTIONS, check_loss_options};
use super::losses::{NEGATIVE_WEIGHTS, OwnCrossEntropy, check_loss, check_unknown_loss, loss_probes, reference_update};
use super::probe_model::Workbench;
use super::remains::CheckRemains;
use super::sampling::{
    check_likeliest, check_prompt_logprobs, check_provenance, check_sampling, check_stable_reinforce,
};
use super::update::optimizer;
use crate::client::patience::Patience;
use crate::client::service::{TinkerOptions, TinkerService};
use crate::wire::LoraConfig;

/// Seed of the adapters of a check.
const SEED: u64 = 1;
/// How long a service may fail a request before the probe fails.
const FAILING: Duration = Duration::from_secs(5);
/// After as many probes in a row that were not answered, no other is made.
const UNANSWERED: usize = 2;

/// Finds out what a service takes of what the API has, and whether its numbers are right, with one small batch.
///
/// Every probe has models of its own, which are removed after it, and its time is limited.
pub struct LearnerCheck {
    bench: Workbench,
    lora: LoraConfig,
    timeout: Duration,
    reference: Option<Box<FreshLearner>>,
}

impl std::fmt::Debug for LearnerCheck {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("LearnerCheck").field("bench", &self.bench).finish_non_exhaustive()
    }
}

impl LearnerCheck {
    /// A check of the service at `url`, which has `timeout` for each probe. Without `base_model` it is the only one that the
    /// service trains. `reference` has the same weights.
    ///
    /// # Errors
    /// If the service is not there, or if it is not plain which model is meant.
    pub async fn begin(
        url: &str,
        api_key: Option<String>,
        base_model: Option<String>,
        rank: u32,
        timeout: Duration,
        reference: Option<Box<FreshLearner>>,
    ) -> Result<Self, BackendError> {
        let options = TinkerOptions { url: url.to_owned(), api_key, patience: patience(timeout) };
        let service = Arc::new(TinkerService::new(&options)?);
        let silent = |_| BackendError::Unavailable {
            message: format!("{} did not answer within {} s", service.name(), timeout.as_secs_f64()),
        };
        tokio::time::timeout(timeout, service.session()).await.map_err(silent)??;
        let base_model = match base_model {
            Some(name) => name,
            None => tokio::time::timeout(timeout, only_model(&service)).await.map_err(silent)??,
        };
        let lora = LoraConfig { rank, seed: Some(SEED), train_unembed: true, train_mlp: true, train_attn: true };
        Ok(Self { bench: Workbench::new(service.clone(), base_model), lora, timeout, reference })
    }

    /// The model that is adapted, by the service's name.
    pub fn base_model(&self) -> &str {
        &self.bench.base_model
    }

    /// Makes every probe, and reports each as it ends.
    ///
    /// # Errors
    /// If the reference cannot learn, or the service is there no more: no other probe is made then.
    pub async fn run(&self, report: impl FnMut(&CheckFinding)) -> Result<(), BackendError> {
        let mut course = Course {
            bench: &self.bench,
            timeout: self.timeout,
            unanswered: 0,
            removed: None,
            findings: Vec::new(),
            report,
        };
        let logprobs = self.check_forward(&mut course).await?;
        if !logprobs.is_empty() {
            self.check_losses(&mut course, &logprobs).await?;
            self.check_updates(&mut course).await;
            self.check_sampling_and_checkpoints(&mut course, &logprobs).await;
        } else if course.removed.is_none() {
            let message = "nothing was checked: no logprobs came, with which all else is compared";
            course.found(CheckFinding::new("all else", CheckVerdict::Failed, message));
        }
        match course.removed {
            None => Ok(()),
            Some(error) => Err(error),
        }
    }

    /// Removes what probes have made, and reports what stays at the service. To be called after [`LearnerCheck::run`], also
    /// after one that was given up.
    pub async fn clear(&self) -> CheckRemains {
        self.bench.clear_all().await
    }

    /// The model's own logprobs of the known batch; none if they did not come.
    async fn check_forward(
        &self,
        course: &mut Course<'_, impl FnMut(&CheckFinding)>,
    ) -> Result<Vec<Vec<f32>>, BackendError> {
        let of_reference = match &self.reference {
            Some(reference) => Some(reference(&self.lora)?.forward(batch::supervised(&[1.0]).into()).await?),
            None => None,
        };
        let mut logprobs = Vec::new();
        course
            .probe("forward", async {
                logprobs = self.bench.model(self.lora).await?.forward(&batch::supervised(&[1.0])).await?;
                Ok(forward_finding(&logprobs, of_reference.as_deref()))
            })
            .await;
        Ok(logprobs)
    }

    async fn check_losses(
        &self,
        course: &mut Course<'_, impl FnMut(&CheckFinding)>,
        logprobs: &[Vec<f32>],
    ) -> Result<(), BackendError> {
        let (bench, lora, before) = (&self.bench, self.lora, course.findings.len());
        for probe in loss_probes(logprobs) {
            let expected = match &self.reference {
                Some(reference) => Some(reference_update(&probe, &lora, reference.as_ref()).await?),
                None => None,
            };
            let is_known = course.verdict(NEGATIVE_WEIGHTS) == Some(CheckVerdict::Ok);
            let own = if is_known { OwnCrossEntropy::Known } else { OwnCrossEntropy::Unknown };
            course.probe(probe.name, check_loss(bench, &probe, lora, expected.as_ref(), own)).await;
        }
        let losses = &course.findings[before..];
        if !losses.is_empty() && losses.iter().all(|finding| finding.verdict == CheckVerdict::Refused) {
            course.found(CheckFinding::new(
                "any loss",
                CheckVerdict::Failed,
                "nothing can be trained: every loss is refused",
            ));
        }
        for options in LOSS_OPTIONS {
            course.probe(options.name, check_loss_options(bench, lora, options, logprobs)).await;
        }
        course.probe("loss stable_reinforce", check_stable_reinforce(bench, lora)).await;
        course.probe("unknown loss", check_unknown_loss(bench, lora)).await;
        Ok(())
    }

    /// The optimizer and the adapter, by what one update does.
    async fn check_updates(&self, course: &mut Course<'_, impl FnMut(&CheckFinding)>) {
        let (bench, lora) = (&self.bench, self.lora);
        let (mut with_all, mut is_repeated) = (Vec::new(), false);
        course
            .probe("repeated update", async {
                with_all = moved(bench, lora, optimizer(0.0)).await?;
                is_repeated = with_all == moved(bench, lora, optimizer(0.0)).await?;
                let message = if is_repeated {
                    "the same seed gives the same update, to the bit"
                } else {
                    "the same seed gives another update"
                };
                Ok(CheckFinding::new("repeated update", CheckVerdict::Ok, message))
            })
            .await;
        if with_all.is_empty() {
            course.skip("learning rate", "no update is known to compare it with");
            course.skip("gradient clipping", "no update is known to compare it with");
        } else {
            course.probe("learning rate", check_learning_rate(bench, lora, &with_all)).await;
            course.probe("gradient clipping", check_clipping(bench, lora, &with_all)).await;
        }
        for switch in SWITCHES {
            if is_repeated {
                course.probe(switch.name, check_modules(bench, lora, switch, &with_all)).await;
            } else {
                course.skip(switch.name, "updates of one seed differ, so that this cannot be told apart");
            }
        }
        for rank in RANKS {
            let known = is_repeated.then_some(RankUpdate { rank: lora.rank, changes: &with_all });
            course.probe(&format!("rank {rank}"), check_rank(bench, LoraConfig { rank, ..lora }, known)).await;
        }
    }

    async fn check_sampling_and_checkpoints(
        &self,
        course: &mut Course<'_, impl FnMut(&CheckFinding)>,
        logprobs: &[Vec<f32>],
    ) {
        let (bench, lora) = (&self.bench, self.lora);
        course.probe("prompt logprobs", check_prompt_logprobs(bench, logprobs)).await;
        course.probe("top-k prompt logprobs", check_likeliest(bench)).await;
        course.probe("sampled logprobs", check_sampling(bench, lora)).await;
        course.probe("provenance", check_provenance(bench, lora)).await;
        // Checkpoints of an earlier check may still be there.
        let name = |kind: &str| format!("check-{kind}-{}", uuid::Uuid::now_v7().simple());
        course.probe("save and load", check_saving(bench, lora, &name("state"))).await;
        course.probe("weights for the sampler", check_weights_for_sampler(bench, lora, &name("sampler"))).await;
    }
}

/// Nothing is waited for beyond the time of a probe.
fn patience(timeout: Duration) -> Patience {
    Patience {
        first_wait: Duration::from_millis(100),
        longest_wait: Duration::from_secs(1),
        failing: FAILING.min(timeout / 2),
        busy: timeout,
        unpaid: Duration::ZERO,
        silence: timeout,
        poll: timeout,
        ..Patience::default()
    }
}

/// The only model that the service trains.
async fn only_model(service: &TinkerService) -> Result<String, BackendError> {
    let configuration = |message: String| Err(BackendError::Configuration { message });
    let Some(capabilities) = service.capabilities().await? else {
        return configuration(format!("{} does not say which models it has: name one (--base-model)", service.name()));
    };
    let trained = capabilities.supported_models.into_iter().filter(|model| model.trainable != Some(false));
    let names: Vec<String> = trained.filter_map(|model| model.model_name).collect();
    match names.as_slice() {
        [only] => Ok(only.clone()),
        [] => configuration(format!("{} names no model that it trains: name one (--base-model)", service.name())),
        several => configuration(format!(
            "{} trains {} models: name one (--base-model {})",
            service.name(),
            several.len(),
            several.join(" | ")
        )),
    }
}

fn forward_finding(logprobs: &[Vec<f32>], of_reference: Option<&[Vec<f32>]>) -> CheckFinding {
    const CHECK: &str = "forward";
    let Some(of_reference) = of_reference else {
        return CheckFinding::new(CHECK, CheckVerdict::Ok, "logprobs of every target");
    };
    let difference = mean_difference(logprobs, of_reference);
    let numbers = CheckNumbers { logprob_difference: Some(difference), ..CheckNumbers::default() };
    let finding = if is_close(difference) {
        CheckFinding::new(CHECK, CheckVerdict::Ok, format!("logprobs differ from the engine's by {difference:.1e}"))
    } else {
        let message = format!("logprobs differ from the engine's by {difference:.3} on average: other weights?");
        CheckFinding::new(CHECK, CheckVerdict::Wrong, message)
    };
    finding.with(numbers)
}

/// Probes one after another.
struct Course<'b, F> {
    bench: &'b Workbench,
    timeout: Duration,
    /// Probes in a row that were not answered.
    unanswered: usize,
    /// Why nothing more is asked: the service is there no more.
    removed: Option<BackendError>,
    findings: Vec<CheckFinding>,
    report: F,
}

impl<F: FnMut(&CheckFinding)> Course<'_, F> {
    async fn probe(&mut self, check: &str, work: impl Future<Output = Result<CheckFinding, BackendError>>) {
        if self.removed.is_some() {
            return;
        }
        if self.unanswered >= UNANSWERED {
            return self.skip(check, "the service has not answered the probes before");
        }
        let ended = tokio::time::timeout(self.timeout, work).await;
        self.unanswered = if ended.is_err() { self.unanswered + 1 } else { 0 };
        let is_removed = match &ended {
            Ok(Err(error)) => self.is_removed(error).await,
            Ok(Ok(_)) | Err(_) => false,
        };
        let finding = match ended {
            Ok(Ok(finding)) => finding,
            Ok(Err(error)) if is_removed => {
                self.removed = Some(error);
                return;
            }
            Ok(Err(error)) => CheckFinding::of_error(check, &error),
            Err(_) => {
                let message = format!("no answer within {} s", self.timeout.as_secs_f64());
                CheckFinding::new(check, CheckVerdict::Failed, message)
            }
        };
        self.bench.clear().await;
        self.found(finding);
    }

    /// Whether a failure is that nothing answers at the service's address any more.
    async fn is_removed(&self, error: &BackendError) -> bool {
        let is_unavailable = |error: &BackendError| matches!(error, BackendError::Unavailable { .. });
        is_unavailable(error) && self.bench.service.check_health().await.is_err_and(|error| is_unavailable(&error))
    }

    /// What was found of a check.
    fn verdict(&self, check: &str) -> Option<CheckVerdict> {
        self.findings.iter().find(|finding| finding.check == check).map(|finding| finding.verdict)
    }

    fn skip(&mut self, check: &str, why: &str) {
        if self.removed.is_none() {
            self.found(CheckFinding::new(check, CheckVerdict::Skipped, why));
        }
    }

    fn found(&mut self, finding: CheckFinding) {
        (self.report)(&finding);
        self.findings.push(finding);
    }
}
