//! Training at a service that speaks the Tinker API, over real sockets, and all that can go wrong there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fulgurite_types::{Chunk, Datum, LossInputs, WeightsVersion};

use crate::scripted::{ScriptedReply, ScriptedServer, Step};
use crate::tinker_host::{Fault, PATIENCE, Tinker, TinkerKind};
use fulgurite_backends::{
    AdamParameters, AnswerFault, BackendError, Learner, LossFunction, RatioBounds, SampleEvent, SampleRequest, Sampler,
    WeightsSource,
};
use fulgurite_tinker::wire::LoraConfig;
use fulgurite_tinker::wire::protobuf::{ForwardBackwardOutput, ForwardBackwardRequest, LossConfigValue};
use fulgurite_tinker::{
    TinkerLearner, TinkerLearnerOptions, TinkerOptions, TinkerSampler, TinkerSamplerOptions, TinkerService,
};
use prost::Message;
use serde_json::{Value, json};
use tokio::sync::Notify;

const LORA: LoraConfig = LoraConfig { rank: 8, seed: Some(1), train_unembed: true, train_mlp: true, train_attn: true };

struct Setup {
    tinker: Arc<Tinker>,
    server: ScriptedServer,
    sampler: Arc<TinkerSampler>,
    learner: TinkerLearner,
}

impl Setup {
    async fn new() -> Self {
        Self::with(TinkerKind::default()).await
    }

    async fn with(kind: TinkerKind) -> Self {
        let tinker = Tinker::new(kind);
        let server = tinker.serve().await;
        let (sampler, learner) = client(&server.url, LORA);
        Self { tinker, server, sampler, learner }
    }

    fn posts(&self, path: &str) -> Vec<Value> {
        self.server.posts(&format!("/api/v1/{path}"))
    }

    /// Training requests so far: their place, their datums, and whether they are forward passes.
    fn passes(&self) -> Vec<(i32, usize, bool)> {
        let requests = self.server.requests.lock().unwrap();
        let sent = requests.iter().filter(|request| request.path == "/api/v1/forward_backward");
        let read = sent.map(|request| ForwardBackwardRequest::decode(request.bytes.as_slice()).unwrap());
        read.map(|pass| (pass.seq_id, pass.data.len(), pass.forward_only)).collect()
    }

    async fn sampled_logprob(&self) -> (f32, Option<WeightsVersion>) {
        let request = SampleRequest::new(vec![5], 1, 1);
        match self.sampler.sample(request).await.unwrap().next().await.unwrap() {
            SampleEvent::Token(token) => (token.logprob, token.weights_version),
            event => panic!("{event:?}"),
        }
    }
}

/// A process of its own at a service.
fn client(url: &str, lora_config: LoraConfig) -> (Arc<TinkerSampler>, TinkerLearner) {
    let options = TinkerOptions { url: url.to_owned(), api_key: None, patience: PATIENCE };
    let service = Arc::new(TinkerService::new(&options).unwrap());
    let options = TinkerSamplerOptions { base_model: "base".into(), vocabulary_size: 100, context_length: None };
    let sampler = Arc::new(TinkerSampler::new(service.clone(), options));
    let options = TinkerLearnerOptions { base_model: "base".into(), lora_config };
    (sampler.clone(), TinkerLearner::new(service, options, sampler))
}

fn policy(count: usize) -> Arc<[Datum]> {
    let datum = Datum {
        model_input: vec![Chunk::Tokens(vec![5, 6])],
        target_tokens: vec![0, 7],
        loss_inputs: LossInputs::Policy { logprobs: vec![0.0, -2.0], advantages: vec![0.0, 3.0], mask: vec![0.0, 1.0] },
    };
    vec![datum; count].into()
}

async fn pass(learner: &TinkerLearner, count: usize) -> Result<(f64, usize), BackendError> {
    let pass = learner.forward_backward(policy(count), LossFunction::ImportanceSampling).await?;
    Ok((pass.loss_sum, pass.logprobs.len()))
}

#[tokio::test]
async fn a_step_is_a_pass_and_an_update_in_their_places() {
    let setup = Setup::new().await;
    let forward = setup.learner.forward(policy(2)).await.unwrap();
    assert_eq!(forward, [[-2.0, -2.0], [-2.0, -2.0]]);
    assert_eq!(pass(&setup.learner, 2).await.unwrap(), (200.0, 2));
    assert_eq!(setup.tinker.model("s1:train:0"), (0, 2));
    let parameters = AdamParameters { learning_rate: 0.5, ..AdamParameters::default() };
    let step = setup.learner.optimizer_step(parameters).await.unwrap();
    assert_eq!((step.gradient_norm, step.metrics["lr"]), (1.5, 0.5));
    assert_eq!(setup.tinker.model("s1:train:0"), (1, 0));
    assert_eq!(setup.passes(), [(1, 2, true), (2, 2, false)]);
    let adam = &setup.posts("optim_step")[0];
    assert_eq!(
        *adam,
        json!({ "type": "optim_step", "model_id": "s1:train:0", "seq_id": 3, "adam_params": {
            "learning_rate": 0.5, "beta1": 0.9, "beta2": 0.95, "eps": 1e-8, "weight_decay": 0.0, "grad_clip_norm": 1.0,
        } })
    );
    assert_eq!(setup.posts("create_model")[0]["lora_config"]["rank"], 8);
    assert_eq!(pass(&setup.learner, 0).await.unwrap(), (0.0, 0));
    assert_eq!(setup.tinker.violations(), Vec::<String>::new());
}

#[tokio::test]
async fn a_large_pass_is_split_as_the_service_wants_and_put_together_in_order() {
    let config = json!({ "fwdbwd_max_chunk_len": 3 });
    let setup = Setup::with(TinkerKind { config, ..TinkerKind::default() }).await;
    assert_eq!(pass(&setup.learner, 7).await.unwrap(), (700.0, 7));
    assert_eq!(setup.passes(), [(1, 3, false), (2, 3, false), (3, 1, false)]);
    assert_eq!((setup.tinker.model("s1:train:0"), setup.tinker.violations()), ((0, 7), vec![]));
}

#[tokio::test]
async fn an_update_is_submitted_before_the_result_of_its_pass_is_there() {
    let setup = Setup::new().await;
    pass(&setup.learner, 1).await.unwrap();
    // The result of the pass is held until the update has come.
    let update_came = Arc::new(Notify::new());
    let held = ScriptedReply::Raw(vec![Step::Wait(update_came.clone()), Step::Reset]);
    setup.tinker.fail("retrieve_future", Fault { takes_effect: false, reply: held });
    let until_the_update = async {
        while setup.posts("optim_step").is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        update_came.notify_one();
    };
    let update = setup.learner.optimizer_step(AdamParameters::default());
    let (passed, updated, ()) = tokio::join!(pass(&setup.learner, 1), update, until_the_update);
    assert_eq!((passed.unwrap().1, updated.unwrap().gradient_norm), (1, 1.5));
    assert_eq!((setup.tinker.model("s1:train:0"), setup.tinker.violations()), ((1, 0), vec![]));
}

#[tokio::test]
async fn submissions_that_fail_or_lose_their_answer_count_once() {
    let setup = Setup::new().await;
    for path in ["create_model", "forward_backward", "optim_step", "save_weights_for_sampler"] {
        setup.tinker.fail(path, Fault::lost_answer());
        setup.tinker.fail(path, Fault::status(503, json!({})));
        setup.tinker.fail(path, Fault::reset());
        setup.tinker.fail(path, Fault::bytes("text/html", b"<html>"));
    }
    pass(&setup.learner, 2).await.unwrap();
    setup.learner.optimizer_step(AdamParameters::default()).await.unwrap();
    setup.learner.publish_weights(WeightsVersion(1)).await.unwrap();
    assert_eq!(setup.tinker.model("s1:train:0"), (1, 0));
    assert_eq!((setup.tinker.duplicates(), setup.tinker.violations()), (8, vec![]));
}

#[tokio::test]
async fn published_weights_are_what_is_sampled_from() {
    let setup = Setup::new().await;
    assert_eq!(setup.sampled_logprob().await, (-2.0, Some(WeightsVersion(0))));
    for version in 1..=2 {
        pass(&setup.learner, 1).await.unwrap();
        setup.learner.optimizer_step(AdamParameters::default()).await.unwrap();
        setup.learner.publish_weights(WeightsVersion(version)).await.unwrap();
        let expected = -2.0 + version as f32 / 8.0;
        assert_eq!(setup.sampled_logprob().await, (expected, Some(WeightsVersion(version))));
    }
    let weights = setup.learner.save_weights_for_sampler(WeightsVersion(3)).await.unwrap();
    let path = "tinker://s1:train:0/sampler_weights/v3-7".to_owned();
    assert_eq!((weights.version, weights.source), (WeightsVersion(3), WeightsSource::Kept(path)));
    assert_eq!(setup.posts("save_weights_for_sampler")[0]["ttl_seconds"], 604800);
    assert_eq!(setup.tinker.violations(), Vec::<String>::new());
}

#[tokio::test]
async fn weights_are_sampled_from_where_their_path_does_not_say_what_for() {
    let setup = Setup::with(TinkerKind { dynamic: None, ..TinkerKind::default() }).await;
    pass(&setup.learner, 1).await.unwrap();
    setup.learner.optimizer_step(AdamParameters::default()).await.unwrap();
    setup.learner.publish_weights(WeightsVersion(1)).await.unwrap();
    assert_eq!(setup.sampled_logprob().await, (-1.875, Some(WeightsVersion(1))));
}

#[tokio::test]
async fn a_checkpoint_is_restored_into_a_new_model_in_another_session() {
    let setup = Setup::new().await;
    pass(&setup.learner, 1).await.unwrap();
    setup.learner.optimizer_step(AdamParameters::default()).await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let checkpoint = directory.path().join("checkpoints/000001");
    setup.learner.save_checkpoint(&checkpoint).await.unwrap();
    assert_eq!(setup.posts("save_weights")[0]["path"], "000001-3");
    let again = setup.learner.save_checkpoint(&checkpoint).await.unwrap_err();
    assert!(matches!(&again, BackendError::Files { path, .. } if *path == checkpoint), "{again}");

    let (_, resumed) = client(&setup.server.url, LORA);
    resumed.load_checkpoint(&checkpoint).await.unwrap();
    assert_eq!(setup.tinker.model("s2:train:0"), (1, 0));
    assert_eq!(resumed.forward(policy(1)).await.unwrap(), [[-1.875, -1.875]]);
    let loaded = &setup.posts("load_weights")[0];
    assert_eq!(
        (&loaded["model_id"], &loaded["seq_id"], &loaded["optimizer"]),
        (&json!("s2:train:0"), &json!(1), &json!(true))
    );
    resumed.load_checkpoint(&checkpoint).await.unwrap();
    assert_eq!(setup.posts("unload_model")[0]["model_id"], "s2:train:0");
    assert_eq!(setup.tinker.model("s2:train:1"), (1, 0));

    let (_, other) = client(&setup.server.url, LoraConfig { rank: 16, ..LORA });
    let error = other.load_checkpoint(&checkpoint).await.unwrap_err();
    assert!(error.to_string().contains("another LoRA configuration"), "{error}");
    assert_eq!(setup.tinker.violations(), Vec::<String>::new());
}

#[tokio::test]
async fn a_pass_that_is_refused_changes_nothing() {
    let setup = Setup::new().await;
    setup.tinker.fail("forward_backward", Fault::status(422, json!({ "detail": "no such loss" })));
    let error = pass(&setup.learner, 1).await.unwrap_err();
    assert!(matches!(&error, BackendError::InvalidRequest { message } if message.contains("no such loss")), "{error}");
    let wrong = setup.learner.forward_backward(policy(1), LossFunction::CrossEntropy).await.unwrap_err();
    assert!(matches!(wrong, BackendError::InvalidRequest { .. }), "{wrong}");
    pass(&setup.learner, 1).await.unwrap();
    assert_eq!(setup.passes().last(), Some(&(1, 1, false)));
}

#[tokio::test]
async fn a_losss_numbers_are_sent_for_old_and_new_servers() {
    let setup = Setup::new().await;
    let loss = LossFunction::Ppo(RatioBounds { low: 0.5, high: 2.0 });
    setup.learner.forward_backward(policy(1), loss).await.unwrap();
    let requests = setup.server.requests.lock().unwrap();
    let sent = requests.iter().find(|request| request.path == "/api/v1/forward_backward").unwrap();
    let sent = ForwardBackwardRequest::decode(sent.bytes.as_slice()).unwrap();
    assert_eq!((sent.loss_fn.as_str(), sent.loss_fn_config["clip_high_threshold"]), ("ppo", 2.0));
    assert_eq!(sent.loss_fn_config_v2["clip_low_threshold"], LossConfigValue::number(0.5));
}

#[tokio::test]
async fn a_gradient_in_doubt_is_not_trained_on_until_a_checkpoint_is_loaded() {
    let setup = Setup::new().await;
    pass(&setup.learner, 1).await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let checkpoint = directory.path().join("a");
    setup.learner.save_checkpoint(&checkpoint).await.unwrap();
    let lost = || Fault::status(410, json!({ "detail": "gone" }));
    let failed = || Fault::status(200, json!({ "error": "out of memory", "category": "server" }));
    for (fault, word) in [(lost(), "has lost a training request"), (failed(), "out of memory")] {
        setup.tinker.fail("retrieve_future", fault);
        let error = pass(&setup.learner, 1).await.unwrap_err();
        assert!(error.is_hosts_fault() && error.to_string().contains(word), "{error}");
        let error = setup.learner.optimizer_step(AdamParameters::default()).await.unwrap_err();
        assert!(error.to_string().contains("in doubt") && error.to_string().contains(word), "{error}");
        setup.learner.load_checkpoint(&checkpoint).await.unwrap();
        setup.learner.optimizer_step(AdamParameters::default()).await.unwrap();
    }
    assert_eq!(setup.posts("optim_step").len(), 2);
}

#[tokio::test]
async fn logprobs_that_do_not_fit_are_refused() {
    let setup = Setup::new().await;
    let directory = tempfile::tempdir().unwrap();
    let checkpoint = directory.path().join("a");
    setup.learner.save_checkpoint(&checkpoint).await.unwrap();
    for (logprobs, fault) in [
        (vec![vec![-1.0; 3]], AnswerFault::CountsDiffer { tokens: 2, logprobs: 3 }),
        (vec![vec![-1.0, f32::INFINITY]], AnswerFault::Logprob { token: 7, logprob: f64::INFINITY }),
        (
            vec![vec![-1.0; 2]; 2],
            AnswerFault::Unreadable { message: "1 datums were sent, and logprobs of 2 came".into() },
        ),
    ] {
        let output = ForwardBackwardOutput::new(&logprobs, BTreeMap::new()).encode_to_vec();
        setup.tinker.fail("retrieve_future", Fault::bytes("application/x-protobuf", &output));
        match pass(&setup.learner, 1).await.unwrap_err() {
            BackendError::BrokenAnswer { fault: found, .. } => assert_eq!(found, fault),
            error => panic!("{error}"),
        }
        setup.learner.load_checkpoint(&checkpoint).await.unwrap();
    }
}

#[tokio::test]
async fn a_service_of_2025_is_trained_at_too() {
    let setup = Setup::with(TinkerKind { dynamic: None, ..TinkerKind::default() }).await;
    let (loss, _) = pass(&setup.learner, 2).await.unwrap();
    assert_eq!(loss, -6.0, "it tells no loss: the sum of -exp(-2 + 2) * 3 is computed here");
    setup.learner.publish_weights(WeightsVersion(1)).await.unwrap();
    assert_eq!(setup.posts("save_weights_for_sampler")[0].get("ttl_seconds"), None);
}
