//! The loop over a real store, with a worker that records what an honest sampler never would: each row that must not
//! be trained is counted under its cause, and the rest is trained once.
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use fulgurite_agentlightning::Overdue;
use fulgurite_api::{RouteNeeds, Serving};
use fulgurite_backends::{AdamParameters, BackendError, ForwardBackward, Learner, LossFunction, OptimizerStep};
use fulgurite_client::{Server, ServerOptions};
use fulgurite_store::{Store, StoreOptions};
use fulgurite_trainer::{
    CommonOptions, EvaluationOptions, Grpo, PolicyEndpoint, Record, Reference, RemoteRecord, Reporter, RolloutPlan,
    RunIdentity, RunSummary, Tasks, TrainError, TrainEvent, TrainerOptions, TrainingPlan, WeightsAtStart,
};
use fulgurite_types::{
    AttemptStatus, AttemptUpdate, AttemptedRollout, Datum, LossInputs, NewGeneration, NewNamedWeights, NewRun,
    RecordedSampling, Reward, RolloutConfig, RolloutFilter, TokenFate, WeightsFrom, WeightsId, WeightsVersion,
    trained_tokens_file, unpack_trained_tokens,
};
use serde_json::json;
use tokio::sync::watch;

const TOKENIZER: &str = "the learner's tokenizer";

/// A learner that remembers what it was given.
#[derive(Default)]
pub struct Pupil {
    lessons: Mutex<Vec<Datum>>,
    optimizer_steps: Mutex<usize>,
}

#[async_trait]
impl Learner for Pupil {
    async fn forward(&self, _: Arc<[Datum]>) -> Result<Vec<Vec<f32>>, BackendError> {
        Ok(Vec::new())
    }

    async fn forward_backward(&self, data: Arc<[Datum]>, loss: LossFunction) -> Result<ForwardBackward, BackendError> {
        assert_eq!(loss, LossFunction::ImportanceSampling);
        self.lessons.lock().unwrap().extend(data.iter().cloned());
        let logprobs = data.iter().map(|datum| vec![-0.5; datum.target_tokens.len()]).collect();
        Ok(ForwardBackward { loss_sum: 1.0, logprobs, entropies: None })
    }

    async fn optimizer_step(&self, _: AdamParameters) -> Result<OptimizerStep, BackendError> {
        *self.optimizer_steps.lock().unwrap() += 1;
        Ok(OptimizerStep::default())
    }

    async fn save_checkpoint(&self, directory: &Path) -> Result<(), BackendError> {
        std::fs::create_dir_all(directory).unwrap();
        Ok(())
    }

    async fn load_checkpoint(&self, _: &Path) -> Result<(), BackendError> {
        Ok(())
    }

    async fn save_weights(&self, _: &Path) -> Result<(), BackendError> {
        Ok(())
    }

    async fn publish_weights(&self, _: WeightsVersion) -> Result<(), BackendError> {
        Ok(())
    }
}

struct Silent;

impl Reporter for Silent {
    fn report(&mut self, _: TrainEvent) {}
}

/// Works off the queue; each task says what is wrong with its record.
async fn work(store: Store) {
    let mut turn = 0u32;
    loop {
        for attempted in store.rollouts().dequeue(4, Some("worker"), Duration::from_secs(60)).await.unwrap() {
            turn += 1;
            play(&store, &attempted, turn).await;
        }
    }
}

async fn play(store: &Store, attempted: &AttemptedRollout, turn: u32) {
    let (rollout, attempt) = (&attempted.rollout.rollout_id, &attempted.attempt.attempt_id);
    let task = attempted.rollout.input.as_str().unwrap();
    let mut generation = honest(attempted, turn);
    if let Some(fault) = fault_of(attempted) {
        store.recording().record(generation).await.unwrap();
        let metadata = json!({ "reason": "it did not work", "fault": fault }).as_object().cloned();
        let update = AttemptUpdate { metadata, ..AttemptUpdate::status(AttemptStatus::Failed) };
        store.attempts().report(rollout, attempt, update).await.unwrap();
        return;
    }
    match task {
        "no_logprobs" => generation.logprobs = None,
        "defective" => generation.logprobs = Some(vec![f32::NAN, -0.5, -0.5]),
        "stale_weights" => generation.weights_versions[0].version = 77,
        "unknown_weights" => match turn % 2 {
            0 => generation.weights_versions.clear(),
            // As of another run of the store.
            _ => generation.weights_versions[0].version = 78,
        },
        "other_model" => generation.model = "another model".into(),
        "unknown_tokenizer" => generation.tokenizer = "another tokenizer".into(),
        "modified_distribution" => {
            generation.sampling = RecordedSampling(json!({ "temperature": 0.7, "top_p": 1.0, "top_k": null }))
        }
        // As by a host whose weights were swapped in the middle of the call.
        "swapped_weights" if attempted.rollout.metadata.as_ref().unwrap()["step"] == 1 => {
            generation.weights_versions.push(WeightsFrom { version: 1, first_token: 1 });
            generation.logprobs = Some(vec![-0.75, -0.5, -0.5]);
        }
        "broken_off" => generation.stop_reason = "error".into(),
        "client_gone" => generation.client_disconnected = true,
        "empty_prompt" => generation.prompt_tokens.clear(),
        // As a server that tells token ids is recorded.
        "upstream" => generation.defect = Some("upstream".into()),
        // Its agent asked a judge too, whose tokens nobody knows.
        "honest" => store.recording().record(passed_on(attempted, turn)).await.map(drop).unwrap(),
        _ => {}
    }
    store.recording().record(generation).await.unwrap();
    if task == "two_calls" {
        two_calls(store, attempted, turn).await;
    }
    let reward = match task {
        "two_calls" => 0.0,
        "constant_group" => 1.0,
        "reward_out_of_bounds" => 3000.0 + f64::from(turn),
        "reward_too_large" => 1e308,
        _ => f64::from(turn % 7),
    };
    store.rewards().add(rollout, attempt, None, Reward::new(reward)).await.unwrap();
    store.attempts().report(rollout, attempt, AttemptUpdate::status(AttemptStatus::Succeeded)).await.unwrap();
}

/// Who fails an attempt at a task, if anybody does.
fn fault_of(attempted: &AttemptedRollout) -> Option<&'static str> {
    let metadata = attempted.rollout.metadata.as_ref().unwrap();
    let member = metadata["member"].as_u64().unwrap();
    match attempted.rollout.input.as_str().unwrap() {
        "agent crashes" if member == 0 => Some("agent"),
        "grader fails once" if member < 2 && !metadata.contains_key("rerun") => Some("grader"),
        "grader fails" if member == 0 => Some("grader"),
        _ => None,
    }
}

/// A second call after the first, and a reward for each.
async fn two_calls(store: &Store, attempted: &AttemptedRollout, turn: u32) {
    let (rollout, attempt) = (&attempted.rollout.rollout_id, &attempted.attempt.attempt_id);
    let second = NewGeneration {
        generation_id: format!("second-{turn}"),
        span_id: format!("second-{turn:09x}"),
        prompt_tokens: vec![1, 2, turn, 3, 4, 5, 6],
        sampled_tokens: vec![7, 8],
        logprobs: Some(vec![-0.5; 2]),
        ..honest(attempted, turn)
    };
    store.recording().record(second).await.unwrap();
    // Who is better in the first turn is worse in the second.
    let member = attempted.rollout.metadata.as_ref().unwrap()["member"].as_f64().unwrap();
    for (generation_id, value) in [(format!("generation-{turn}"), member), (format!("second-{turn}"), -member)] {
        store.rewards().add(rollout, attempt, Some(&generation_id), Reward::new(value)).await.unwrap();
    }
}

fn passed_on(attempted: &AttemptedRollout, turn: u32) -> NewGeneration {
    NewGeneration {
        generation_id: format!("judge-{turn}"),
        span_id: format!("judge-{turn:010x}"),
        prompt_tokens: Vec::new(),
        sampled_tokens: Vec::new(),
        logprobs: None,
        weights_versions: Vec::new(),
        sampling: RecordedSampling(json!({})),
        renderer: String::new(),
        tokenizer: String::new(),
        branch_reason: Some("upstream".into()),
        defect: Some("upstream".into()),
        ..honest(attempted, turn)
    }
}

fn honest(attempted: &AttemptedRollout, turn: u32) -> NewGeneration {
    NewGeneration {
        generation_id: format!("generation-{turn}"),
        rollout_id: attempted.rollout.rollout_id.clone(),
        attempt_id: attempted.attempt.attempt_id.clone(),
        name: "openai.chat.completion".into(),
        trace_id: "0af7651916cd43dd8448eb211c80319c".into(),
        span_id: format!("{turn:016x}"),
        start_time: 1.0,
        end_time: 2.0,
        attributes: serde_json::Map::new(),
        model: "tiny".into(),
        prompt_tokens: vec![1, 2, turn],
        sampled_tokens: vec![3, 4, 5],
        logprobs: Some(vec![-0.5; 3]),
        stop_reason: "stop".into(),
        weights_versions: vec![WeightsFrom { version: 0, first_token: 0 }],
        sampling: RecordedSampling(json!({ "temperature": 1.0, "top_p": 1.0, "top_k": null })),
        seed: 1,
        renderer: "chatml".into(),
        tokenizer: TOKENIZER.into(),
        request_digest: String::new(),
        branch_reason: None,
        client_disconnected: false,
        defect: None,
    }
}

/// The weights that the run starts from.
fn start() -> WeightsId {
    WeightsId::of_digest([1; 32])
}

fn identity(directory: &Path) -> RunIdentity {
    let (run_id, instance) = ("run".into(), "instance".into());
    RunIdentity { run_id, instance, seed: 1, directory: directory.to_owned(), archive: None }
}

fn endpoint() -> PolicyEndpoint {
    PolicyEndpoint { url: "http://127.0.0.1:4747/v1".into(), model: "tiny".into(), api_key: None }
}

/// How a run reaches the store.
#[derive(Clone, Copy, Debug)]
pub enum Reached {
    InProcess,
    OverHttp,
}

impl Reached {
    async fn record(self, store: &Store) -> Arc<dyn Record> {
        if let Reached::InProcess = self {
            return Arc::new(store.clone());
        }
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let routes = all_routes(store);
        tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        let options = ServerOptions { url, admin_key: None, patience: Duration::from_secs(60), reply_limit: 1 << 24 };
        Arc::new(RemoteRecord::new(Server::new(options).unwrap()))
    }
}

async fn train(tasks: &[&str], pupil: &Arc<Pupil>) -> Result<RunSummary, TrainError> {
    train_over(Reached::InProcess, tasks, pupil).await
}

async fn train_over(reached: Reached, tasks: &[&str], pupil: &Arc<Pupil>) -> Result<RunSummary, TrainError> {
    train_with(reached, tasks, pupil, json!({})).await
}

/// With these keys of `[trainer]` beside the usual ones.
async fn train_with(
    reached: Reached,
    tasks: &[&str],
    pupil: &Arc<Pupil>,
    keys: serde_json::Value,
) -> Result<RunSummary, TrainError> {
    let keys: TrainerOptions = serde_json::from_value(keys).unwrap();
    let options = TrainerOptions { common: CommonOptions { max_steps: Some(1), ..keys.common.clone() }, ..keys };
    let records = options.rollouts().unwrap().record_tokens;
    let directory = tempfile::tempdir().unwrap();
    let (store, summary) = run_in(directory.path(), reached, tasks, pupil, options).await;
    if let Ok(summary) = &summary {
        // What the run's directory has of each token is what the account has of calls.
        let file = std::fs::read(directory.path().join(trained_tokens_file(1))).ok();
        let calls = file.map(|bytes| unpack_trained_tokens(&bytes, "run", |_| true).unwrap()).unwrap_or_default();
        let fates: Vec<TokenFate> = calls.into_iter().flat_map(|call| call.fates).collect();
        let expected = if records { summary.trained_tokens as usize } else { 0 };
        assert_eq!(fates, vec![TokenFate::Trained; expected], "{summary:?}");
    }
    every_rollout_names_its_policy(&store).await;
    summary
}

/// What a run is told with these options.
fn rollout_plan(options: &TrainerOptions) -> RolloutPlan {
    match options.plan().unwrap() {
        TrainingPlan::Rollouts(plan) => *plan,
        _ => panic!("not a plan of rollouts"),
    }
}

/// The store in this directory, and how the run ended that has groups of three and a held-out task.
pub async fn run_in(
    directory: &Path,
    reached: Reached,
    tasks: &[&str],
    pupil: &Arc<Pupil>,
    options: TrainerOptions,
) -> (Store, Result<RunSummary, TrainError>) {
    run_with(|_| Silent, directory, reached, tasks, pupil, options).await
}

/// The same, told to what is made of the store.
pub async fn run_with<R: Reporter>(
    reporter: impl FnOnce(&Store) -> R,
    directory: &Path,
    reached: Reached,
    tasks: &[&str],
    pupil: &Arc<Pupil>,
    options: TrainerOptions,
) -> (Store, Result<RunSummary, TrainError>) {
    let url = format!("sqlite://{}", directory.join("t.db").display());
    let store = Store::open(&url, StoreOptions::default()).await.unwrap();
    let run = NewRun { run_id: "run".into(), name: "run".into(), config: json!({}), seed: 1 };
    store.runs().create(run).await.unwrap();
    // An update of the same run that is undone.
    let undone = NewNamedWeights {
        model: "tiny".into(),
        weights_id: WeightsId::of_digest([77; 32]),
        parent_id: Some(start()),
        run_id: Some("run".into()),
        step: Some(1),
        preferred_version: 77,
    };
    store.weights().name(undone).await.unwrap();
    let (_runner_lives, runner) = watch::channel(None);
    let mut options = options;
    let rollouts = options.rollouts_mut().unwrap();
    (rollouts.groups_per_batch, rollouts.group_size) = (tasks.len(), 3);
    rollouts.reward_bounds = Some([0.0, 100.0]);
    rollouts.evaluation = EvaluationOptions { every: 1, samples_per_task: 1 };
    let grpo = Grpo {
        record: reached.record(&store).await,
        learner: Arc::clone(pupil) as Arc<dyn Learner>,
        plan: rollout_plan(&options),
        reference: Reference::Start,
        teachers: None,
        judge: None,
        conversations: None,
        validation: None,
        tasks: Tasks {
            train: tasks.iter().map(|task| json!(task)).collect(),
            held_out: vec![json!("held out")],
            last: Vec::new(),
        },
        identity: identity(directory),
        rollout_config: RolloutConfig::default(),
        tokenizer: TOKENIZER.into(),
        decode: Arc::new(|tokens| format!("{tokens:?}")),
        endpoint: endpoint(),
        start: start(),
        at_start: WeightsAtStart::Publish,
        runner,
    };
    let worker = tokio::spawn(work(store.clone()));
    let summary = grpo.run(false, &mut reporter(&store)).await;
    worker.abort();
    (store, summary)
}

/// All routes over a store, as a server has them.
fn all_routes(store: &Store) -> axum::Router {
    let serving = Serving::default();
    let agentlightning = fulgurite_agentlightning::routes(store.clone(), &serving, Overdue::ByTimer);
    fulgurite_api::routes(store.clone(), &serving, &mut RouteNeeds::default()).merge(agentlightning)
}

#[tokio::test]
async fn each_row_that_must_not_be_trained_is_counted_under_its_cause() {
    for reached in [Reached::InProcess, Reached::OverHttp] {
        every_cause_is_counted(reached).await;
    }
}

async fn every_cause_is_counted(reached: Reached) {
    let causes = [
        "no_logprobs",
        "stale_weights",
        "unknown_weights",
        "unknown_tokenizer",
        "other_model",
        "modified_distribution",
        "broken_off",
        "client_gone",
        "empty_prompt",
        "upstream",
        "constant_group",
        "reward_out_of_bounds",
        "reward_too_large",
    ];
    let tasks: Vec<&str> = causes.iter().copied().chain(["honest"]).collect();
    let pupil = Arc::default();
    let summary = train_over(reached, &tasks, &pupil).await.unwrap();
    for cause in causes {
        assert_eq!(summary.untrained_tokens.get(cause), Some(&9), "{cause}: {summary:?}");
    }
    // Two evaluations of one held-out task.
    assert_eq!(summary.untrained_tokens["evaluation"], 6);
    assert_eq!(summary.untrained_tokens["other"], 0);
    assert_eq!(summary.trained_tokens, 9);
    assert_eq!(summary.sampled_tokens, 9 * 14 + 6);

    let lessons = pupil.lessons.lock().unwrap();
    let trained: f32 = lessons
        .iter()
        .map(|datum| match &datum.loss_inputs {
            LossInputs::Policy { mask, .. } => mask.iter().sum::<f32>(),
            LossInputs::Supervised { .. } | LossInputs::SoftTargets { .. } => panic!("not a policy datum"),
        })
        .sum();
    assert_eq!(trained, 9.0, "what the account calls trained is what the learner got");
    assert_eq!(*pupil.optimizer_steps.lock().unwrap(), 1);
}

/// The advantages of the trained tokens of each datum.
fn advantages(pupil: &Pupil) -> Vec<Vec<f32>> {
    let of_datum = |datum: &Datum| match &datum.loss_inputs {
        LossInputs::Policy { advantages, mask, .. } => {
            advantages.iter().zip(mask).filter(|(_, mask)| **mask > 0.0).map(|(advantage, _)| *advantage).collect()
        }
        _ => panic!("not a policy datum"),
    };
    let mut all: Vec<Vec<f32>> = pupil.lessons.lock().unwrap().iter().map(of_datum).collect();
    all.sort_by(|a, b| a.partial_cmp(b).unwrap());
    all
}

#[tokio::test]
async fn each_call_is_measured_against_the_calls_of_its_turn() {
    let pupil = Arc::default();
    let whole = train(&["two_calls"], &pupil).await.unwrap();
    assert_eq!(whole.trained_tokens, 0, "in all every rollout earned the same");
    let keys = json!({ "advantages": { "per_call": { "discount": 0.0 } } });
    let summary = train_with(Reached::InProcess, &["two_calls"], &pupil, keys).await.unwrap();
    assert_eq!(summary.trained_tokens, 15);
    let of_member = |first: f32| vec![first, first, first, -first, -first];
    assert_eq!(advantages(&pupil), [of_member(-1.0), of_member(0.0), of_member(1.0)]);
}

#[tokio::test]
async fn what_became_of_tokens_is_not_kept_if_the_run_is_told_so() {
    for records in [true, false] {
        let keys = json!({ "record_tokens": records });
        let summary = train_with(Reached::InProcess, &["honest"], &Arc::default(), keys).await.unwrap();
        assert_eq!(summary.trained_tokens, 9);
    }
}

#[tokio::test]
async fn a_policy_cannot_learn_to_crash_its_way_out() {
    let pupil: Arc<Pupil> = Arc::default();
    let summary = train(&["agent crashes"], &pupil).await.unwrap();
    assert_eq!(summary.untrained_tokens["failed_attempt"], 3, "what led to a crash is not taught");
    assert_eq!(advantages(&pupil).len(), 2);

    let pupil: Arc<Pupil> = Arc::default();
    let keys = json!({ "failures": { "agent_reward": 0.0 } });
    let summary = train_with(Reached::InProcess, &["agent crashes"], &pupil, keys).await.unwrap();
    assert_eq!(summary.trained_tokens, 9, "{summary:?}");
    assert_eq!(summary.failed_rollouts, [("agent".to_owned(), 1), ("total".to_owned(), 1)].into());
    // The crash, which earned the least, is the first of all.
    let lessons = advantages(&pupil);
    let mean = lessons.iter().map(|datum| datum[0]).sum::<f32>();
    assert!(lessons[0][0] < 0.0 && lessons[2][0] > 0.0 && mean.abs() < 1e-5, "{lessons:?}");
}

#[tokio::test]
async fn what_the_policy_cannot_bring_about_is_run_again_and_no_zero() {
    let pupil: Arc<Pupil> = Arc::default();
    let summary = train(&["grader fails once"], &pupil).await.unwrap();
    assert_eq!(summary.trained_tokens, 9, "the group is whole");
    assert_eq!(summary.untrained_tokens["failed_attempt"], 6, "{summary:?}");
    assert_eq!(summary.failed_rollouts, [("grader".to_owned(), 2), ("total".to_owned(), 2)].into());

    // Once, and once more for each of two reruns; then the group is too small.
    let pupil: Arc<Pupil> = Arc::default();
    let summary = train(&["grader fails", "honest"], &pupil).await.unwrap();
    assert_eq!(summary.failed_rollouts["grader"], 3);
    assert_eq!((summary.untrained_tokens["failed_attempt"], summary.untrained_tokens["too_few_members"]), (9, 6));
    assert_eq!((summary.trained_tokens, summary.untrained_tokens["other"]), (9, 0));

    let pupil: Arc<Pupil> = Arc::default();
    let keys = json!({ "failures": { "reruns": 0, "least_members": 0.5 } });
    let summary = train_with(Reached::InProcess, &["grader fails", "honest"], &pupil, keys).await.unwrap();
    assert_eq!((summary.trained_tokens, summary.untrained_tokens["failed_attempt"]), (15, 3), "{summary:?}");
}

#[tokio::test]
async fn a_logprob_that_is_not_a_number_is_never_trained() {
    let pupil = Arc::default();
    let summary = train(&["defective", "honest"], &pupil).await.unwrap();
    assert_eq!(summary.trained_tokens, 9);
    let refused: u64 =
        summary.untrained_tokens.iter().filter(|(cause, _)| *cause != "evaluation").map(|(_, n)| n).sum();
    assert_eq!(refused, 9, "{summary:?}");
    assert_eq!(summary.untrained_tokens["other"], 0);
}

#[tokio::test]
async fn nothing_to_learn_means_no_step_of_the_optimizer() {
    let pupil = Arc::default();
    let summary = train(&["constant_group"], &pupil).await.unwrap();
    assert_eq!((summary.trained_tokens, *pupil.optimizer_steps.lock().unwrap()), (0, 0));
}

async fn every_rollout_names_its_policy(store: &Store) {
    let rollouts = store.rollouts().query(&RolloutFilter::default()).await.unwrap().items;
    assert!(!rollouts.is_empty());
    for (rollout, _) in rollouts {
        let step = &rollout.metadata.as_ref().unwrap()["step"];
        let resources_id = rollout.resources_id.unwrap();
        assert_eq!(resources_id, format!("run-weights-{step}"));
        let resources = store.resources().get(&resources_id).await.unwrap().unwrap();
        let expected = json!({
            "main_llm": {
                "resource_type": "proxy_llm",
                "endpoint": "http://127.0.0.1:4747/v1",
                "model": "tiny",
                "api_key": null,
                "sampling_parameters": { "temperature": 1.0 },
            },
        });
        assert_eq!((resources.version, json!(resources.resources)), (1, expected));
    }
}

#[test]
fn a_group_of_one_is_refused_by_the_name_of_the_option() {
    let options: TrainerOptions = serde_json::from_value(json!({ "group_size": 1 })).unwrap();
    let error = options.plan().unwrap_err();
    let expected = "[trainer] group_size is 1, but must be at least 2: its mean is what each is measured against";
    assert_eq!(error.to_string(), expected);
}
