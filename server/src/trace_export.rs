//! Spans of model calls to a collector of OpenTelemetry's, by OTLP over HTTP. A collector that is slow or down slows no
//! call: its spans wait in a queue of limited length, and what finds no room there is dropped and counted.
//!
//! `opentelemetry-otlp` 0.33 would be some 170 lines less and two crates more. It knows no attributes that are objects, null
//! or mixed lists, does not count spans that find no room, and hears of no stop while it waits to send again.
//! `docs/reference/costs.md` compares the processor time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use fulgurite_api::{rejected_spans, spans_to_protobuf};
use fulgurite_store::Store;
use fulgurite_types::{Backoff, Span, SpanResource};
use metrics::{Counter, Unit, counter, describe_counter};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Client, StatusCode, Url};
use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use fulgurite_config::declarations::TelemetryConfig;

/// Spans that may wait.
const QUEUE_LENGTH: usize = 2048;
/// Spans that are sent together at most.
const BATCH_LENGTH: usize = 512;
/// How long spans gather before they are sent: a request takes more processor time than a span.
const GATHERING: Duration = Duration::from_millis(200);
/// How long a collector may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// The same when the server stops, also of the store.
const LAST_ANSWER_LIMIT: Duration = Duration::from_secs(2);
/// Before the first and before every later time that a batch is sent again.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

const SENT: &str = "fulgurite_otlp_spans_sent_total";
const DROPPED: &str = "fulgurite_otlp_spans_dropped_total";

/// Tells the process's recorder of metrics what those of the export are.
pub(crate) fn describe_metrics() {
    describe_counter!(SENT, Unit::Count, "Spans of calls that the OpenTelemetry collector took.");
    describe_counter!(DROPPED, Unit::Count, "Spans of calls that the OpenTelemetry collector did not get, by reason.");
}

/// Where spans go.
pub(crate) struct Collector {
    url: Url,
    headers: HeaderMap,
}

impl Collector {
    /// What the config says, or else the environment, by the variables that every program with OpenTelemetry reads. None
    /// if neither names a collector.
    pub(crate) fn find(config: &TelemetryConfig, variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>> {
        let of_traces_or_all = |rest: &str| {
            [format!("OTEL_EXPORTER_OTLP_TRACES_{rest}"), format!("OTEL_EXPORTER_OTLP_{rest}")]
                .into_iter()
                .find_map(|name| Some((variable(&name).filter(|value| !value.is_empty())?, name)))
        };
        let (base, name) = match &config.otlp_endpoint {
            Some(endpoint) => (endpoint.clone(), "telemetry.otlp_endpoint".to_owned()),
            None => match of_traces_or_all("ENDPOINT") {
                Some(found) => found,
                None => return Ok(None),
            },
        };
        let mut url = Url::parse(&base).with_context(|| format!("{name} is no URL"))?;
        if !matches!(url.scheme(), "http" | "https") {
            bail!("{name} must begin with http:// or https://");
        }
        // The variable that is about traces alone names the whole path.
        if !name.contains("TRACES") {
            let path = format!("{}/v1/traces", url.path().trim_end_matches('/'));
            url.set_path(&path);
        }
        let headers = match of_traces_or_all("HEADERS") {
            Some((text, name)) => headers(&text).with_context(|| format!("{name} is no list of NAME=VALUE,..."))?,
            None => HeaderMap::new(),
        };
        Ok(Some(Self { url, headers }))
    }

    /// Its URL as it may be shown.
    fn name(&self) -> String {
        let mut url = self.url.clone();
        // Neither fails for http.
        let _ = url.set_username("").and_then(|()| url.set_password(None));
        url.set_query(None);
        url.to_string()
    }
}

/// Values are percent-encoded, and perhaps keys: no error shows them.
fn headers(text: &str) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').context("a part has no `=`")?;
        let name: HeaderName = name.trim().parse().context("a name cannot be a header's")?;
        let value = percent_decoded(value.trim()).context("a value is not percent-encoded")?;
        let mut value = HeaderValue::from_bytes(&value).context("a value cannot be a header's")?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

fn percent_decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                (digit()? << 4 | digit()?) as u8
            }
            other => other,
        });
    }
    Some(decoded)
}

/// Sends what is recorded until it is stopped.
pub(crate) struct TraceExport {
    closing: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl TraceExport {
    /// Begins to send each call that is recorded in `store` from now on.
    #[expect(clippy::disallowed_methods, reason = "who is returned holds it")]
    pub(crate) fn start(collector: Collector, store: &Store, with_content: bool) -> Result<Self> {
        let client = Client::builder()
            .default_headers(collector.headers.clone())
            .user_agent(concat!("fulgurite/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .context("there is no HTTP client for the OpenTelemetry collector")?;
        let (spans, receiver) = mpsc::channel(QUEUE_LENGTH);
        let (closing, is_closing) = watch::channel(false);
        let queue_trouble = Arc::new(Trouble::default());
        let name = collector.name();
        let sender = Sender {
            client,
            store: store.clone(),
            url: collector.url,
            name,
            is_closing,
            gathering: GATHERING,
            trouble: Trouble::default(),
            queue_trouble: queue_trouble.clone(),
            sent: counter!(SENT),
        };
        let resource = Arc::new(resource());
        let queue_full = dropped("queue_full");
        store.recording().notify_of_calls(with_content, move |span| {
            if spans.try_send(Span { resource: resource.clone(), ..span }).is_err() {
                queue_full.increment(1);
                queue_trouble
                    .warn("spans of calls find no room in the queue to the OpenTelemetry collector, and are dropped");
            }
        });
        Ok(Self { closing, task: tokio::spawn(sender.run(receiver)) })
    }

    /// Sends what waits, if the collector takes it at once, and stops.
    pub(crate) async fn stop(self) {
        // Nobody is there to be told if the task broke, which the next line says.
        let _ = self.closing.send(true);
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the export to the OpenTelemetry collector broke");
        }
    }
}

/// What the spans come from.
fn resource() -> SpanResource {
    let attributes = [("service.name", "fulgurite"), ("service.version", env!("CARGO_PKG_VERSION"))];
    let attributes = attributes.into_iter().map(|(key, value)| (key.to_owned(), json!(value))).collect();
    SpanResource { attributes, ..SpanResource::default() }
}

fn dropped(reason: &'static str) -> Counter {
    counter!(DROPPED, "reason" => reason)
}

/// Whether something is wrong that has been logged: it is logged once, until it is over.
#[derive(Default)]
struct Trouble(AtomicBool);

impl Trouble {
    fn warn(&self, what: &str) {
        if !self.0.swap(true, Ordering::Relaxed) {
            tracing::warn!("{what}");
        }
    }

    /// Tells whether there was any.
    fn is_over(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

/// The task that sends.
struct Sender {
    client: Client,
    store: Store,
    url: Url,
    name: String,
    is_closing: watch::Receiver<bool>,
    /// How long spans gather behind the first.
    gathering: Duration,
    trouble: Trouble,
    queue_trouble: Arc<Trouble>,
    sent: Counter,
}

/// What the collector refused of a batch that it took, or why it did not.
type PostOutcome = Result<Option<(u64, String)>, Refusal>;

/// Why a batch was not taken.
enum Refusal {
    /// It may be taken later, not before that if the collector says so.
    Later { why: String, after: Option<Duration> },
    /// It never will.
    Never { why: String },
}

impl Sender {
    async fn run(mut self, mut spans: mpsc::Receiver<Span>) {
        let mut batch = Vec::with_capacity(BATCH_LENGTH);
        loop {
            tokio::select! {
                biased;
                _ = self.is_closing.wait_for(|is_closing| *is_closing) => break,
                count = spans.recv_many(&mut batch, BATCH_LENGTH) => if count == 0 { break },
            }
            self.gather(&mut spans, &mut batch).await;
            // What comes meanwhile is the next batch.
            if !self.deliver(&mut batch).await {
                break;
            }
            batch.clear();
        }
        spans.close();
        while batch.len() < BATCH_LENGTH + QUEUE_LENGTH
            && let Ok(span) = spans.try_recv()
        {
            batch.push(span);
        }
        self.deliver_last(&mut batch).await;
    }

    /// Adds the spans to a batch that come within the time for it, until the batch is full or the server stops. Then the
    /// batch is delivered as any other: a collector that fails once has it before the end.
    async fn gather(&self, spans: &mut mpsc::Receiver<Span>, batch: &mut Vec<Span>) {
        let mut is_closing = self.is_closing.clone();
        let mut time = std::pin::pin!(sleep(self.gathering));
        while batch.len() < BATCH_LENGTH {
            let room = BATCH_LENGTH - batch.len();
            tokio::select! {
                biased;
                _ = is_closing.wait_for(|is_closing| *is_closing) => break,
                () = &mut time => break,
                count = spans.recv_many(batch, room) => if count == 0 { break },
            }
        }
        while batch.len() < BATCH_LENGTH
            && let Ok(span) = spans.try_recv()
        {
            batch.push(span);
        }
    }

    /// Sends a batch until it is taken or refused for good; false if that is not so and the server stops.
    async fn deliver(&mut self, batch: &mut [Span]) -> bool {
        self.number(batch).await;
        let body = spans_to_protobuf(batch);
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        loop {
            // A collector that has it already would be sent it twice if it were broken off.
            let posted = self.post(body.clone(), ANSWER_LIMIT);
            let Some(outcome) = self.until_closed(posted).await else { return false };
            match outcome {
                Ok(rejected) => {
                    self.count(batch.len() as u64, rejected);
                    return true;
                }
                Err(Refusal::Never { why }) => {
                    dropped("rejected").increment(batch.len() as u64);
                    self.trouble.warn(&format!("{} refuses spans, which are dropped: {why}", self.name));
                    return true;
                }
                Err(Refusal::Later { why, after }) => {
                    self.trouble.warn(&format!("{} takes no spans, which wait: {why}", self.name));
                    let doubled = backoff.pause();
                    let pause = after.unwrap_or(doubled).min(LONGEST_PAUSE);
                    let closed = timeout(pause, self.is_closing.wait_for(|is_closing| *is_closing));
                    if closed.await.is_ok() {
                        return false;
                    }
                }
            }
        }
    }

    /// What comes of it; none if the server stops and it is not done soon after.
    async fn until_closed<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut is_closing = self.is_closing.clone();
        let mut work = std::pin::pin!(work);
        tokio::select! {
            biased;
            done = &mut work => return Some(done),
            _ = is_closing.wait_for(|is_closing| *is_closing) => {}
        }
        timeout(LAST_ANSWER_LIMIT, work).await.ok()
    }

    /// Reads what was not known of spans when their calls were recorded.
    async fn number(&self, spans: &mut [Span]) {
        let why = match self.until_closed(self.store.recording().number_spans(spans)).await {
            Some(Ok(())) => return,
            Some(Err(error)) => error.to_string(),
            None => "the store does not answer".to_owned(),
        };
        tracing::warn!("spans go to the OpenTelemetry collector without their places in their rollouts: {why}");
    }

    async fn deliver_last(&mut self, spans: &mut [Span]) {
        self.number(spans).await;
        let mut batches = spans.chunks(BATCH_LENGTH);
        while let Some(batch) = batches.next() {
            match self.post(spans_to_protobuf(batch), LAST_ANSWER_LIMIT).await {
                Ok(rejected) => self.count(batch.len() as u64, rejected),
                Err(Refusal::Later { why, .. } | Refusal::Never { why }) => {
                    let left = batch.len() + batches.by_ref().map(<[Span]>::len).sum::<usize>();
                    dropped("shutdown").increment(left as u64);
                    tracing::warn!("{} did not take the last {left} spans of calls: {why}", self.name);
                }
            }
        }
    }

    fn count(&self, spans: u64, rejected: Option<(u64, String)>) {
        let rejected_count = rejected.as_ref().map_or(0, |(count, _)| spans.min(*count));
        self.sent.increment(spans - rejected_count);
        match rejected {
            Some((_, why)) => {
                dropped("rejected").increment(rejected_count);
                self.trouble.warn(&format!("{} refuses spans, which are dropped: {why}", self.name));
            }
            None => {
                if self.trouble.is_over() | self.queue_trouble.is_over() {
                    tracing::info!("{} takes spans again", self.name);
                }
            }
        }
    }

    /// Posts an export; tells what the collector refused of it.
    async fn post(&self, body: Vec<u8>, limit: Duration) -> PostOutcome {
        // An error of the client may show the URL, and with it a password.
        let later = |error: reqwest::Error| {
            let error = anyhow::Error::new(error.without_url());
            Refusal::Later { why: format!("{error:#}"), after: None }
        };
        let request = self.client.post(self.url.clone()).header(CONTENT_TYPE, "application/x-protobuf");
        let response = request.timeout(limit).body(body).send().await.map_err(later)?;
        let status = response.status();
        let why = format!("it answers {status}");
        if status.is_success() {
            return Ok(rejected_spans(&response.bytes().await.map_err(later)?));
        }
        match status {
            StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => {
                let after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
                Err(Refusal::Later { why, after: after.map(Duration::from_secs) })
            }
            _ => Err(Refusal::Never { why }),
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::routing::post;
    use fulgurite_store::StoreOptions;
    use tokio::sync::Semaphore;

    use super::*;

    fn found(endpoint: Option<&str>, variables: &[(&str, &str)]) -> Result<Option<Collector>, String> {
        let config = TelemetryConfig { otlp_endpoint: endpoint.map(str::to_owned), ..TelemetryConfig::default() };
        let variable =
            |name: &str| variables.iter().find(|(own, _)| *own == name).map(|(_, value)| (*value).to_owned());
        Collector::find(&config, variable).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn the_config_comes_before_the_environment_and_traces_before_all() {
        const ALL: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://all:4318/");
        const TRACES: (&str, &str) = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://traces/here");
        let url = |endpoint, variables: &[_]| found(endpoint, variables).unwrap().map(|found| found.url.to_string());
        assert_eq!(url(None, &[]), None);
        assert_eq!(url(None, &[("OTEL_EXPORTER_OTLP_ENDPOINT", "")]), None);
        assert_eq!(url(None, &[ALL]).as_deref(), Some("http://all:4318/v1/traces"));
        assert_eq!(url(None, &[ALL, TRACES]).as_deref(), Some("http://traces/here"));
        assert_eq!(url(Some("https://own/base"), &[ALL, TRACES]).as_deref(), Some("https://own/base/v1/traces"));
        let collector = found(Some("http://me:secret@own?key=secret"), &[]).unwrap().unwrap();
        assert_eq!(collector.name(), "http://own/v1/traces");
    }

    #[test]
    fn headers_are_decoded_and_never_shown() {
        const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://all");
        let with = |headers| found(None, &[ENDPOINT, ("OTEL_EXPORTER_OTLP_HEADERS", headers)]);
        let headers = with("authorization=Bearer%20secret, x-tenant=a=b,").unwrap().unwrap().headers;
        assert_eq!(headers["authorization"], "Bearer secret");
        assert_eq!(headers["x-tenant"], "a=b");
        for wrong in ["secret", "se cret=1", "a=secret%2", "a=secret%0a"] {
            let Err(error) = with(wrong) else { panic!("{wrong} is taken") };
            assert!(error.starts_with("OTEL_EXPORTER_OTLP_HEADERS is no list"), "{error}");
            assert!(!error.contains("cret"), "{error}");
        }
        for wrong in ["collector:4318", "nowhere"] {
            assert!(found(Some(wrong), &[]).is_err_and(|error| error.starts_with("telemetry.otlp_endpoint")));
        }
    }

    /// A sender to this collector, with a store of its own.
    async fn sender(
        collector: Router,
        directory: &std::path::Path,
        gathering: Duration,
        is_closing: watch::Receiver<bool>,
    ) -> Sender {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        #[expect(clippy::disallowed_methods, reason = "it ends with the test")]
        tokio::spawn(axum::serve(listener, collector).into_future());
        let file = directory.join("store.db");
        Sender {
            client: Client::new(),
            store: Store::open(file.to_str().unwrap(), StoreOptions::default()).await.unwrap(),
            url,
            name: "the collector".to_owned(),
            is_closing,
            gathering,
            trouble: Trouble::default(),
            queue_trouble: Arc::default(),
            sent: dropped("nothing"),
        }
    }

    fn span() -> Span {
        let span = json!({ "rollout_id": "r", "attempt_id": "a", "sequence_id": 1, "trace_id": "1", "span_id": "2",
            "parent_id": null, "name": "chat", "status": { "status_code": "OK", "description": null }, "attributes": {},
            "events": [], "links": [], "start_time": 1.0, "end_time": 2.0, "context": null, "parent": null,
            "resource": { "attributes": {}, "schema_url": "" } });
        serde_json::from_value(span).unwrap()
    }

    /// The server stops while the collector, which has a span, has not answered.
    #[tokio::test]
    async fn spans_that_are_on_their_way_at_the_end_are_not_sent_twice() {
        let [got, may_answer] = [0, 0].map(|permits| Arc::new(Semaphore::new(permits)));
        let (permits, answer) = (got.clone(), may_answer.clone());
        let take = async move || {
            permits.add_permits(1);
            answer.acquire().await.unwrap().forget();
        };
        let (closing, is_closing) = watch::channel(false);
        let directory = tempfile::tempdir().unwrap();
        let collector = Router::new().route("/", post(take));
        let sender = sender(collector, directory.path(), Duration::ZERO, is_closing).await;
        let (spans, receiver) = mpsc::channel(1);
        #[expect(clippy::disallowed_methods, reason = "the test stops it")]
        let export = TraceExport { closing, task: tokio::spawn(sender.run(receiver)) };
        spans.send(span()).await.unwrap();
        got.acquire().await.unwrap().forget();
        let (_, ()) = tokio::join!(export.stop(), async {
            // The sender learns first that it is to stop.
            tokio::task::yield_now().await;
            may_answer.add_permits(2);
        });
        assert_eq!(got.available_permits(), 0);
    }

    #[tokio::test]
    async fn spans_that_come_one_by_one_are_sent_together_and_the_last_at_the_end() {
        let sizes = Arc::new(std::sync::Mutex::new(Vec::new()));
        let received = sizes.clone();
        let take = async move |body: axum::body::Bytes| {
            let spans = body.windows(b"chat".len()).filter(|name| name == b"chat").count();
            received.lock().unwrap().push(spans);
        };
        let (closing, is_closing) = watch::channel(false);
        let directory = tempfile::tempdir().unwrap();
        // They gather for ever, but for a full batch and for the end.
        let gathering = Duration::from_secs(1 << 30);
        let collector = Router::new().route("/", post(take));
        let sender = sender(collector, directory.path(), gathering, is_closing).await;
        let (spans, receiver) = mpsc::channel(1);
        #[expect(clippy::disallowed_methods, reason = "the test stops it")]
        let export = TraceExport { closing, task: tokio::spawn(sender.run(receiver)) };
        for _ in 0..BATCH_LENGTH + 3 {
            spans.send(span()).await.unwrap();
        }
        export.stop().await;
        assert_eq!(*sizes.lock().unwrap(), [BATCH_LENGTH, 3]);
    }
}
