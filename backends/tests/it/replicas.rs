//! Several hosts as one.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use fulgurite_backends::{
    AnswerFault, BackendError, Capabilities, ReplicaOptions, Replicas, SampleEvent, SampleRequest, SampleStream,
    SampledToken, Sampler, SamplerInfo, SamplingEnd,
};
use fulgurite_types::WeightsVersion;
use tokio::sync::{Notify, mpsc};

type Sender = mpsc::UnboundedSender<Result<SampleEvent, BackendError>>;

/// What a host does with a request.
enum Does {
    /// A token and the end.
    Answer,
    /// Fails at once.
    Fail,
    /// Refuses the request.
    Refuse,
    /// A token, then a failure.
    Break,
    /// Gives the other end of the stream to the test.
    Hold,
}

/// A host that answers with its own number, by weights of that version.
struct Host {
    number: u32,
    script: Mutex<VecDeque<Does>>,
    held: mpsc::UnboundedSender<Sender>,
    is_well: Mutex<bool>,
    requests: Mutex<usize>,
    health_checks: Notify,
}

fn token(id: u32) -> SampleEvent {
    let weights_version = Some(WeightsVersion(u64::from(id)));
    SampleEvent::Token(SampledToken { id, logprob: -0.5, weights_version, top_logprobs: vec![] })
}

fn down() -> BackendError {
    BackendError::Unavailable { message: "down".into() }
}

#[async_trait]
impl Sampler for Host {
    async fn info(&self) -> Result<SamplerInfo, BackendError> {
        match *self.is_well.lock().unwrap() {
            true => Ok(SamplerInfo { context_length: 10, vocabulary_size: 10, capabilities: Capabilities::default() }),
            false => Err(down()),
        }
    }

    fn weights_version(&self) -> Option<WeightsVersion> {
        Some(WeightsVersion(u64::from(self.number)))
    }

    async fn sample(&self, _: SampleRequest) -> Result<SampleStream, BackendError> {
        *self.requests.lock().unwrap() += 1;
        let does = self.script.lock().unwrap().pop_front().unwrap_or(Does::Answer);
        let (sender, stream) = SampleStream::channel();
        match does {
            Does::Fail => return Err(down()),
            Does::Refuse => return Err(BackendError::InvalidRequest { message: "no".into() }),
            Does::Answer => {
                sender.send(Ok(token(self.number))).unwrap();
                sender.send(Ok(SampleEvent::Finished(SamplingEnd::Length))).unwrap();
            }
            Does::Break => {
                sender.send(Ok(token(self.number))).unwrap();
                let fault = AnswerFault::NoTokenIds;
                sender.send(Err(BackendError::BrokenAnswer { host: "h".into(), fault })).unwrap();
            }
            Does::Hold => self.held.send(sender).unwrap(),
        }
        Ok(stream)
    }

    async fn check_health(&self) -> Result<(), BackendError> {
        self.health_checks.notify_one();
        match *self.is_well.lock().unwrap() {
            true => Ok(()),
            false => Err(down()),
        }
    }
}

struct Setup {
    replicas: Arc<Replicas>,
    hosts: Vec<Arc<Host>>,
    held: mpsc::UnboundedReceiver<Sender>,
}

fn options() -> ReplicaOptions {
    ReplicaOptions { health_interval: None, ..ReplicaOptions::default() }
}

fn setup(count: u32, options: &ReplicaOptions) -> Setup {
    let (sender, held) = mpsc::unbounded_channel();
    let host = |number| {
        Arc::new(Host {
            number,
            script: Mutex::default(),
            held: sender.clone(),
            is_well: Mutex::new(true),
            requests: Mutex::new(0),
            health_checks: Notify::new(),
        })
    };
    let hosts: Vec<Arc<Host>> = (0..count).map(host).collect();
    let named = hosts.iter().map(|host| (format!("h{}", host.number), host.clone() as Arc<dyn Sampler>)).collect();
    Setup { replicas: Arc::new(Replicas::new(named, options)), hosts, held }
}

impl Setup {
    fn play(&self, host: usize, does: Does) {
        self.hosts[host].script.lock().unwrap().push_back(does);
    }

    async fn sample(&self, affinity: Option<&str>) -> Result<Vec<SampleEvent>, BackendError> {
        let mut stream = self.replicas.sample(request(affinity)).await?;
        let mut events = Vec::new();
        loop {
            events.push(stream.next().await?);
            if matches!(events.last(), Some(SampleEvent::Finished(_))) {
                return Ok(events);
            }
        }
    }

    /// Which host answers.
    async fn answering(&self, affinity: Option<&str>) -> usize {
        match &self.sample(affinity).await.unwrap()[0] {
            SampleEvent::Token(token) => {
                assert_eq!(token.weights_version, Some(WeightsVersion(u64::from(token.id))), "each tells its own");
                token.id as usize
            }
            other => panic!("{other:?}"),
        }
    }

    fn requests(&self) -> Vec<usize> {
        self.hosts.iter().map(|host| *host.requests.lock().unwrap()).collect()
    }
}

fn request(affinity: Option<&str>) -> SampleRequest {
    SampleRequest { affinity: affinity.map(str::to_owned), ..SampleRequest::new(vec![1], 1, 0) }
}

#[tokio::test]
async fn an_affinity_keeps_its_host_and_losing_a_host_moves_only_its_own() {
    let setup = setup(3, &options());
    let names: Vec<String> = (0..300).map(|index| format!("rollout-{index}")).collect();
    let mut home = BTreeMap::new();
    for name in &names {
        let host = setup.answering(Some(name)).await;
        assert_eq!(setup.answering(Some(name)).await, host);
        home.insert(name, host);
    }
    for host in 0..3 {
        let share = home.values().filter(|found| **found == host).count();
        assert!((60..=140).contains(&share), "host {host} has {share} of 300");
    }
    let three: Vec<&String> = names.iter().filter(|name| home[name] == 0).take(3).collect();
    for name in &three {
        setup.play(0, Does::Fail);
        assert_ne!(setup.answering(Some(name)).await, 0);
    }
    let requests = setup.requests()[0];
    for name in &names {
        let host = setup.answering(Some(name)).await;
        assert!(host == home[name] || home[name] == 0, "{name} moved from {} to {host}", home[name]);
        assert_ne!(host, 0);
    }
    assert_eq!(setup.requests()[0], requests, "a host that was given up is left alone");
}

/// An affinity whose host is this one.
async fn at_home(setup: &Setup, host: usize) -> String {
    for index in 0.. {
        let name = format!("rollout-{index}");
        if setup.answering(Some(&name)).await == host {
            return name;
        }
    }
    unreachable!()
}

#[tokio::test]
async fn a_host_that_was_given_up_is_left_alone_for_its_time_and_gets_its_own_back_after_a_probe() {
    for (reopen_after, is_probed) in [(Duration::from_secs(3600), false), (Duration::ZERO, true)] {
        let setup = setup(2, &ReplicaOptions { reopen_after, ..options() });
        let name = at_home(&setup, 0).await;
        for _ in 0..3 {
            setup.play(0, Does::Fail);
            assert_eq!(setup.answering(Some(&name)).await, 1);
        }
        let requests = setup.requests()[0];
        setup.play(0, Does::Fail);
        assert_eq!(setup.answering(Some(&name)).await, 1);
        assert_eq!(setup.requests()[0], requests + usize::from(is_probed));
        assert_eq!(setup.answering(Some(&name)).await, usize::from(!is_probed));
    }
}

#[tokio::test]
async fn nothing_is_tried_again_after_the_first_token_nor_for_a_bad_request() {
    let setup = setup(2, &options());
    setup.play(0, Does::Break);
    let broken = setup.sample(None).await;
    assert!(matches!(broken, Err(BackendError::BrokenAnswer { .. })), "{broken:?}");
    assert_eq!(setup.requests(), [1, 0]);
    setup.play(0, Does::Refuse);
    assert!(matches!(setup.sample(None).await, Err(BackendError::InvalidRequest { .. })));
    assert_eq!(setup.requests(), [2, 0]);
}

#[tokio::test]
async fn with_every_host_given_up_they_are_asked_all_the_same() {
    let setup = setup(2, &options());
    for _ in 0..4 {
        setup.play(0, Does::Fail);
        setup.play(1, Does::Fail);
        assert!(matches!(setup.sample(None).await, Err(BackendError::Unavailable { .. })));
    }
    assert_eq!(setup.requests(), [4, 4]);
    assert_eq!(setup.sample(None).await.unwrap().len(), 2);
}

#[tokio::test]
async fn requests_beyond_the_limit_wait_and_the_least_loaded_host_is_taken() {
    let mut setup = setup(2, &ReplicaOptions { max_concurrency: 1, ..options() });
    let mut running = Vec::new();
    let mut held = Vec::new();
    for host in [0, 1, 0, 1] {
        setup.play(host, Does::Hold);
    }
    for _ in 0..4 {
        let replicas = setup.replicas.clone();
        running.push(tokio::spawn(async move { replicas.sample(request(None)).await.map(drop) }));
        // Lets it choose before the next one does.
        tokio::task::yield_now().await;
    }
    for _ in 0..2 {
        held.push(setup.held.recv().await.unwrap());
    }
    assert_eq!(setup.requests(), [1, 1], "one at each host, and two wait");
    assert!(setup.held.try_recv().is_err());
    held.remove(0).send(Ok(SampleEvent::Finished(SamplingEnd::Length))).unwrap();
    let third = setup.held.recv().await.unwrap();
    assert_eq!(setup.requests(), [2, 1]);
    for sender in held.into_iter().chain([third]) {
        sender.send(Ok(SampleEvent::Finished(SamplingEnd::Length))).unwrap();
    }
    setup.held.recv().await.unwrap().send(Ok(SampleEvent::Finished(SamplingEnd::Length))).unwrap();
    for task in running {
        task.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn whoever_leaves_gives_the_place_back_and_is_no_failure() {
    let mut setup = setup(1, &ReplicaOptions { max_concurrency: 1, failures_to_open: 1, ..options() });
    setup.play(0, Does::Hold);
    let replicas = setup.replicas.clone();
    let before_the_first_token = tokio::spawn(async move { replicas.sample(request(None)).await.map(drop) });
    let sender = setup.held.recv().await.unwrap();
    before_the_first_token.abort();
    sender.closed().await;
    setup.play(0, Does::Hold);
    let replicas = setup.replicas.clone();
    let started = tokio::spawn(async move { replicas.sample(request(None)).await });
    let sender = setup.held.recv().await.unwrap();
    sender.send(Ok(token(0))).unwrap();
    let mut stream = started.await.unwrap().unwrap();
    stream.next().await.unwrap();
    drop(stream);
    sender.closed().await;
    assert_eq!(setup.answering(None).await, 0);
}

#[tokio::test]
async fn health_gives_a_host_up_before_a_request_does() {
    let interval = Duration::from_millis(5);
    let setup = setup(2, &ReplicaOptions { health_interval: Some(interval), ..options() });
    *setup.hosts[0].is_well.lock().unwrap() = false;
    setup.hosts[0].health_checks.notified().await;
    tokio::task::yield_now().await;
    for _ in 0..5 {
        assert_eq!(setup.answering(None).await, 1);
    }
    assert_eq!(setup.requests()[0], 0);
    assert_eq!(setup.replicas.info().await.unwrap().context_length, 10, "the other one tells it");
    *setup.hosts[0].is_well.lock().unwrap() = true;
    setup.hosts[0].health_checks.notified().await;
    setup.hosts[0].health_checks.notified().await;
    tokio::task::yield_now().await;
    assert_eq!(setup.answering(None).await, 0);
}
