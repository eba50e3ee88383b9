use std::time::{SystemTime, UNIX_EPOCH};

use fulgurite_backends::{
    BackendError, SampleEvent, SampleRequest, SampleStream, SampledToken, SamplingParameters, StopReason,
};
use fulgurite_renderers::{StopStrings, StreamDecoder};
use fulgurite_store::model::{NewGeneration, WeightsFrom};
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};

use crate::attribution::{self, Attribution};
use crate::error::ProxyError;
use crate::gateway::InFlight;
use crate::response_body::Delivered;
use crate::{Proxy, ServedModel};

/// One model call, in no dialect: everything that is needed to sample it and to record it.
pub(crate) struct Call {
    /// `None`: the call said nothing of whose it is, and gets a session of its own once there is something to record.
    pub(crate) attribution: Option<Attribution>,
    pub(crate) model: ServedModel,
    /// Also the reply's id on the wire.
    pub(crate) generation_id: String,
    pub(crate) prompt: Vec<u32>,
    pub(crate) sampling: SamplingParameters,
    pub(crate) max_tokens: usize,
    pub(crate) top_logprobs: usize,
    pub(crate) stop_strings: Vec<String>,
    pub(crate) seed: u64,
    pub(crate) request_digest: String,
    pub(crate) span_name: &'static str,
    /// Attributes of the span that come from the request.
    pub(crate) attributes: Map<String, Value>,
    /// Held until the call is over, if somebody counts those under way.
    pub(crate) in_flight: Option<InFlight>,
}

/// Why an answer ended, as every dialect tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FinishReason {
    /// By itself, or at a stop string.
    Stop,
    /// At a limit of tokens.
    Length,
}

impl FinishReason {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            FinishReason::Stop => "stop",
            FinishReason::Length => "length",
        }
    }
}

/// What a call says while it runs: pieces, then exactly one `Finished` or `Failed`.
pub(crate) enum CallEvent {
    /// A sampled token, and the text that can be shown since the last one (often none, sometimes of several tokens).
    Token { token: SampledToken, text: String, is_text: bool },
    /// The end, durably recorded.
    Finished(Finished),
    /// The end, with nothing to answer. What had been sampled is recorded, and will not be trained.
    Failed(ProxyError),
}

/// The end of an answer.
pub(crate) struct Finished {
    /// Text that was held back until the end was known.
    pub(crate) text: String,
    pub(crate) reason: FinishReason,
    pub(crate) prompt_tokens: usize,
    pub(crate) sampled_tokens: usize,
    /// To be used once the answer is wholly handed over.
    pub(crate) delivered: Delivered,
}

/// Seconds since the epoch.
pub(crate) fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |elapsed| elapsed.as_secs_f64())
}

/// Starts a call. It runs to its record whether or not anybody still listens; dropping the receiver stops its
/// sampling. Fails before anything is sampled or stored when the model host refuses the request.
pub(crate) async fn start(proxy: &Proxy, call: Call) -> Result<mpsc::Receiver<CallEvent>, ProxyError> {
    let start_time = now();
    let stream = call
        .model
        .sampler
        .sample(SampleRequest {
            prompt: call.prompt.clone(),
            max_tokens: call.max_tokens,
            sampling: call.sampling.clone(),
            stop_tokens: call.model.renderer.stop_tokens().to_vec(),
            seed: call.seed,
            top_logprobs: call.top_logprobs,
        })
        .await?;
    let (sender, events) = mpsc::channel(64);
    tokio::spawn(run(proxy.clone(), call, stream, sender, start_time));
    Ok(events)
}

/// How sampling ended.
enum End {
    Finished(FinishReason),
    ClientGone,
    Broken(BackendError),
}

impl End {
    /// As the record has it.
    fn stop_reason(&self) -> &'static str {
        match self {
            End::Finished(reason) => reason.as_str(),
            End::ClientGone => "client_gone",
            End::Broken(_) => "error",
        }
    }
}

async fn run(proxy: Proxy, mut call: Call, stream: SampleStream, events: mpsc::Sender<CallEvent>, start_time: f64) {
    let _in_flight = call.in_flight.take();
    let mut answer = Answer::new(&call);
    let end = answer.sample(stream, &events).await;
    let held_back = answer.text.finish();
    answer.content.push_str(&held_back);

    let generation_id = call.generation_id.clone();
    let prompt_tokens = call.prompt.len();
    let sampled_tokens = answer.tokens.len();
    let recorded = record(&proxy, call, answer, &end, start_time).await;
    let event = match (recorded, end) {
        // Nobody is left to be told; the log is.
        (Err(error), End::ClientGone) => {
            tracing::error!(%generation_id, %error, "an answer that its client left could not be recorded");
            return;
        }
        (Ok(()), End::ClientGone) => return,
        (Err(error), _) => CallEvent::Failed(error),
        (Ok(()), End::Broken(error)) => CallEvent::Failed(error.into()),
        (Ok(()), End::Finished(reason)) => {
            let (delivered, answered) = oneshot::channel();
            let finished = Finished { text: held_back, reason, prompt_tokens, sampled_tokens, delivered };
            // Whether it was not taken, or taken and then dropped, `answered` says so.
            let _ = events.send(CallEvent::Finished(finished)).await;
            drop(events);
            if answered.await.is_err()
                && let Err(error) = proxy.shared.store.mark_client_gone(&generation_id).await
            {
                tracing::error!(%generation_id, %error, "could not mark an answer that its client did not take");
            }
            return;
        }
    };
    let _ = events.send(event).await;
}

/// What has been sampled so far, and the text of it.
struct Answer {
    stop_tokens: Vec<u32>,
    tokens: Vec<SampledToken>,
    text: AnswerText,
    content: String,
}

impl Answer {
    fn new(call: &Call) -> Self {
        Self {
            stop_tokens: call.model.renderer.stop_tokens().to_vec(),
            tokens: Vec::new(),
            text: AnswerText {
                decoder: StreamDecoder::new(call.model.renderer.tokenizer().clone()),
                stop_strings: StopStrings::new(call.stop_strings.clone()),
                stopped: false,
            },
            content: String::new(),
        }
    }

    /// Takes tokens until the end, passing each on with the text that it completes.
    async fn sample(&mut self, mut stream: SampleStream, events: &mpsc::Sender<CallEvent>) -> End {
        loop {
            let event = tokio::select! {
                biased;
                () = events.closed() => return self.client_gone(stream).await,
                event = stream.next() => event,
            };
            let token = match event {
                Ok(SampleEvent::Token(token)) => token,
                Ok(SampleEvent::Finished(StopReason::StopToken)) => return End::Finished(FinishReason::Stop),
                Ok(SampleEvent::Finished(StopReason::Length)) => return End::Finished(FinishReason::Length),
                Err(error) => return End::Broken(error),
            };
            let event = self.take(token);
            if events.send(event).await.is_err() {
                return self.client_gone(stream).await;
            }
            if self.text.stopped {
                return End::Finished(FinishReason::Stop);
            }
        }
    }

    /// Adds a token, and the text that it completes.
    fn take(&mut self, token: SampledToken) -> CallEvent {
        self.tokens.push(token.clone());
        let is_text = !self.stop_tokens.contains(&token.id);
        let text = if is_text { self.text.feed(token.id) } else { String::new() };
        self.content.push_str(&text);
        CallEvent::Token { token, text, is_text }
    }

    /// Stops the sampling, and keeps what had been sampled by then.
    async fn client_gone(&mut self, mut stream: SampleStream) -> End {
        stream.stop();
        while let Ok(SampleEvent::Token(token)) = stream.next().await {
            self.take(token);
        }
        End::ClientGone
    }
}

/// Tokens to the text that a client may see: whole characters, nothing of a stop string.
struct AnswerText {
    decoder: StreamDecoder,
    stop_strings: StopStrings,
    stopped: bool,
}

impl AnswerText {
    fn feed(&mut self, token: u32) -> String {
        let text = self.decoder.feed(token);
        self.through_stop_strings(&text)
    }

    fn finish(&mut self) -> String {
        let rest = self.decoder.finish();
        let mut text = self.through_stop_strings(&rest);
        if !self.stopped {
            text.push_str(&self.stop_strings.finish());
        }
        text
    }

    fn through_stop_strings(&mut self, text: &str) -> String {
        if self.stopped {
            return String::new();
        }
        let passed = self.stop_strings.feed(text);
        self.stopped = passed.matched.is_some();
        passed.text
    }
}

/// Writes span and generation in one transaction; durable on return.
async fn record(proxy: &Proxy, call: Call, answer: Answer, end: &End, start_time: f64) -> Result<(), ProxyError> {
    if answer.tokens.is_empty() && !matches!(end, End::Finished(_)) {
        return Ok(());
    }
    let mut attributes = call.attributes;
    for (key, value) in [
        ("gen_ai.response.id", json!(call.generation_id)),
        ("gen_ai.response.model", json!(call.model.name)),
        ("gen_ai.usage.input_tokens", json!(call.prompt.len())),
        ("gen_ai.usage.output_tokens", json!(answer.tokens.len())),
        ("gen_ai.completion.0.role", json!("assistant")),
        ("gen_ai.completion.0.content", json!(answer.content)),
        ("gen_ai.completion.0.finish_reason", json!(end.stop_reason())),
    ] {
        attributes.insert(key.to_owned(), value);
    }
    let weights_versions = weights_by_run_length(&answer.tokens);
    let trace = uuid::Uuid::now_v7().simple().to_string();
    // The random half of a version 7 UUID; its first half is the time.
    let span = uuid::Uuid::now_v7().simple().to_string().split_off(16);
    let session = call.attribution.is_none();
    let (rollout_id, attempt_id) = match call.attribution {
        Some(attribution) => (attribution.rollout_id, attribution.attempt_id),
        None => attribution::open_session(proxy).await?,
    };
    let generation = NewGeneration {
        generation_id: call.generation_id,
        rollout_id: rollout_id.clone(),
        attempt_id: attempt_id.clone(),
        name: call.span_name.to_owned(),
        trace_id: trace,
        span_id: span,
        start_time,
        end_time: now(),
        attributes,
        model: call.model.name,
        prompt_tokens: call.prompt,
        sampled_tokens: answer.tokens.iter().map(|token| token.id).collect(),
        logprobs: Some(answer.tokens.iter().map(|token| token.logprob).collect()),
        stop_reason: end.stop_reason().to_owned(),
        weights_versions,
        sampling: json!(call.sampling),
        seed: call.seed,
        renderer: call.model.renderer.name().to_owned(),
        tokenizer: call.model.renderer.tokenizer().fingerprint().to_owned(),
        request_digest: call.request_digest,
        branch_reason: None,
        client_gone: matches!(end, End::ClientGone),
    };
    proxy.shared.store.record_generation(generation).await?;
    if session {
        attribution::end_session(proxy, &rollout_id, &attempt_id).await?;
    }
    Ok(())
}

/// Which weights sampled which tokens: an entry where they change.
fn weights_by_run_length(tokens: &[SampledToken]) -> Vec<WeightsFrom> {
    let mut weights: Vec<WeightsFrom> = Vec::new();
    for (first_token, token) in tokens.iter().enumerate() {
        let version = token.weights_version.0;
        if weights.last().is_none_or(|last| last.version != version) {
            weights.push(WeightsFrom { version, first_token });
        }
    }
    weights
}
