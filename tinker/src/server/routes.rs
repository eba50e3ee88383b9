use std::sync::Arc;
use std::time::Instant;

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::middleware::from_fn;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use prost::Message;

use crate::server::futures::{Fingerprint, Outcome, Polled};
use crate::server::input::{read, unless_small, with_warnings};
use crate::server::management::{checkpoints, downloads, runs_and_sessions};
use crate::server::refusals::{Refusal, servers_fault};
use crate::server::sampling::repeated_seeds::RepeatedSeeds;
use crate::server::sampling::sample_answer::json_response;
use crate::server::state::records::SampledWeights;
use crate::server::tinker_server::{Server, TinkerServer};
use crate::server::training::model::Work;
use crate::server::training::training_request::{TrainingRequest, json_output};
use crate::wire::protobuf::ForwardBackwardRequest;
use crate::wire::{
    CancelFutureRequest, ClientConfig, CreateModelRequest, CreateSamplingSessionRequest, CreateSamplingSessionResponse,
    CreateSessionRequest, CreateSessionResponse, DynamicConfig, FinishSessionRequest, FuturesRetrieveRequest,
    FuturesRetrieveResponse, GetInfoRequest, GetInfoResponse, GetSamplerResponse, HealthResponse,
    JoinSamplingSessionRequest, JoinSamplingSessionResponse, JsonForwardBackwardRequest, JsonForwardRequest,
    LoadWeightsRequest, OWN_SEED, OptimStepRequest, QueueState, RetrieveFutureRequest, SampleRequest,
    SaveWeightsExternalRequest, SaveWeightsForSamplerRequest, SaveWeightsRequest, ServerCapabilities,
    SessionHeartbeatRequest, SessionHeartbeatResponse, SubmittedRequest, SupportedModel, TelemetryResponse, TryAgain,
    UnloadModelRequest,
};

const PROTOBUF: &str = "application/x-protobuf";

type Submitted = Result<Json<SubmittedRequest>, Refusal>;

/// The API's routes, all below `/api/v1/`.
pub fn routes(server: Arc<TinkerServer>) -> Router {
    let body_limit = DefaultBodyLimit::max(server.options.body_limit);
    Router::new()
        .route("/api/v1/healthz", get(async || Json(HealthResponse { status: "ok".to_owned() })))
        .route("/api/v1/get_server_capabilities", get(capabilities))
        .route("/api/v1/client/config", post(async || Json(client_config())))
        .route("/api/v1/client/dynamic_config", post(async || Json(dynamic_config())))
        .route("/api/v1/telemetry", post(async || Json(TelemetryResponse { status: "accepted".to_owned() })))
        .route("/api/v1/create_session", post(create_session))
        .route("/api/v1/session_heartbeat", post(heartbeat))
        .route("/api/v1/sessions/{session_id}/finish", post(finish_session))
        .route("/api/v1/create_model", post(create_model))
        .route("/api/v1/get_info", post(get_info))
        .route("/api/v1/unload_model", post(unload_model))
        .route("/api/v1/forward_backward", post(forward_backward))
        .route("/api/v1/forward", post(forward))
        .route("/api/v1/optim_step", post(optim_step))
        .route("/api/v1/save_weights", post(save_weights))
        .route("/api/v1/save_weights_for_sampler", post(save_weights_for_sampler))
        .route("/api/v1/save_weights_external", post(save_weights_external))
        .route("/api/v1/load_weights", post(load_weights))
        .route("/api/v1/create_sampling_session", post(create_sampling_session))
        .route("/api/v1/join_sampling_session", post(join_sampling_session))
        .route("/api/v1/samplers/{sampler_id}", get(sampler))
        .route("/api/v1/asample", post(sample))
        .route("/api/v1/retrieve_future", post(retrieve_future))
        .route("/api/v1/retrieve_futures", post(retrieve_futures))
        .route("/api/v1/cancel_future", post(cancel_future))
        .merge(checkpoints::routes())
        .merge(downloads::routes())
        .merge(runs_and_sessions::routes())
        .layer(body_limit)
        .layer(from_fn(with_warnings))
        .with_state(server)
}

/// What clients are told of how to speak to this server.
fn client_config() -> ClientConfig {
    // SDKs of before 0.25 take the paths of today.
    ClientConfig {
        proto_write_fwdbwd: true,
        fwd_via_fwdbwd: true,
        create_model_via_load_weights: true,
        ..ClientConfig::default()
    }
}

/// What clients are told that may be otherwise the next time.
fn dynamic_config() -> DynamicConfig {
    DynamicConfig { sample_cancel_enabled: true, ..DynamicConfig::default() }
}

fn header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

async fn capabilities(State(server): Server) -> Json<ServerCapabilities> {
    let model = |name: &str, context_length: usize| SupportedModel {
        model_name: Some(name.to_owned()),
        max_context_length: Some(context_length),
        trainable: Some(true),
        sampleable: Some(true),
    };
    let models = server.bases.iter().map(|base| model(&base.name, base.facts().context_length));
    Json(ServerCapabilities { supported_models: models.collect() })
}

async fn create_session(State(server): Server, body: Bytes) -> Result<Json<CreateSessionResponse>, Refusal> {
    Ok(Json(server.create_session(read::<CreateSessionRequest>(&body)?).await?))
}

async fn heartbeat(State(server): Server, body: Bytes) -> Result<Json<SessionHeartbeatResponse>, Refusal> {
    server.record_heartbeat(&read::<SessionHeartbeatRequest>(&body)?.session_id)?;
    Ok(Json(SessionHeartbeatResponse {}))
}

async fn finish_session(
    State(server): Server,
    Path(session_id): Path<String>,
    body: Bytes,
) -> Result<StatusCode, Refusal> {
    let finish: FinishSessionRequest = read(&body)?;
    match server.registry().sessions.get(&session_id) {
        None => return Err(Refusal::not_found("session", &session_id)),
        // What was said first counts.
        Some(session) if session.is_over => return Ok(StatusCode::NO_CONTENT),
        Some(_) => {}
    }
    tracing::info!(session_id, reason = finish.reason.name(), "a session of the Tinker API has finished");
    server.end_session(&session_id, Some(finish)).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn create_model(State(server): Server, body: Bytes) -> Submitted {
    server.create_model(read::<CreateModelRequest>(&body)?).await.map(Json)
}

async fn get_info(State(server): Server, body: Bytes) -> Result<Json<GetInfoResponse>, Refusal> {
    server.model_info(&read::<GetInfoRequest>(&body)?.model_id).map(Json)
}

async fn unload_model(State(server): Server, body: Bytes) -> Submitted {
    server.unload_model(&read::<UnloadModelRequest>(&body)?.model_id).map(Json)
}

async fn forward_backward(State(server): Server, headers: HeaderMap, body: Bytes) -> Submitted {
    let encoding = header(&headers, &CONTENT_ENCODING);
    if !matches!(encoding, "" | "identity") {
        return Err(Refusal::bad_request(format!("bodies in {encoding} are not read: client/config asks for none")));
    }
    let is_binary = header(&headers, &CONTENT_TYPE).starts_with(PROTOBUF);
    unless_small(body.len(), || forward_backward_of(&server, body, is_binary))
}

/// Takes a pass in either form of the wire.
fn forward_backward_of(server: &TinkerServer, body: Bytes, is_binary: bool) -> Submitted {
    if !is_binary {
        let JsonForwardBackwardRequest { model_id, seq_id, forward_backward_input } = read(&body)?;
        let request = TrainingRequest::from_json(&forward_backward_input);
        return submit_pass(server, &model_id, seq_id, request, false);
    }
    let message = ForwardBackwardRequest::decode(body).map_err(Refusal::unreadable)?;
    let request = TrainingRequest::from_message(&message);
    let given = u64::try_from(message.seq_id).map_err(|_| Refusal::bad_request("seq_id is below 0"))?;
    let place = Some(given).filter(|&place| place > 0);
    submit_pass(server, &message.model_id, place, request, message.forward_only)
}

async fn forward(State(server): Server, body: Bytes) -> Submitted {
    let JsonForwardRequest { model_id, seq_id, forward_input } = read(&body)?;
    let request = TrainingRequest::from_json(&forward_input);
    submit_pass(&server, &model_id, seq_id, request, true)
}

/// What a pass asks for is the same in both forms of the wire.
fn submit_pass(
    server: &TinkerServer,
    model_id: &str,
    place: Option<u64>,
    request: Result<TrainingRequest, String>,
    forward_only: bool,
) -> Submitted {
    let session_id = server.model(model_id)?.session_id;
    let request = request.and_then(|request| request.standing_in(server.options.stable_reinforce, &session_id));
    // Before the age of its sequences is looked at: a request that comes again later is still the same.
    let fingerprint = Fingerprint::of(&(&request, forward_only));
    let request = request.and_then(|request| {
        let renewed = server.sampled.renew(&request.sequence_ids(), Instant::now());
        let refused = |sequence_id: &str| {
            format!(
                "the sequence `{sequence_id}` was sampled or trained on more than a day ago: stable_reinforce needs younger \
                 ones, so sample again"
            )
        };
        renewed.map_err(refused).map(|()| request)
    });
    server.submit(model_id, place, fingerprint, Work::Pass { request, forward_only }).map(Json)
}

async fn optim_step(State(server): Server, body: Bytes) -> Submitted {
    server.step(read::<OptimStepRequest>(&body)?).map(Json)
}

async fn save_weights(State(server): Server, body: Bytes) -> Submitted {
    server.save_weights(read::<SaveWeightsRequest>(&body)?).map(Json)
}

async fn save_weights_for_sampler(State(server): Server, body: Bytes) -> Submitted {
    server.save_weights_for_sampler(read::<SaveWeightsForSamplerRequest>(&body)?).map(Json)
}

async fn save_weights_external(State(server): Server, body: Bytes) -> Submitted {
    server.save_weights_external(read::<SaveWeightsExternalRequest>(&body)?).map(Json)
}

async fn load_weights(State(server): Server, body: Bytes) -> Submitted {
    server.load_weights(read::<LoadWeightsRequest>(&body)?).await.map(Json)
}

async fn create_sampling_session(
    State(server): Server,
    body: Bytes,
) -> Result<Json<CreateSamplingSessionResponse>, Refusal> {
    Ok(Json(server.create_sampling_session(read::<CreateSamplingSessionRequest>(&body)?).await?))
}

async fn sampler(State(server): Server, Path(sampler_id): Path<String>) -> Result<Json<GetSamplerResponse>, Refusal> {
    let found = server.registry().samplers.get(&sampler_id).cloned();
    let found = found.ok_or_else(|| Refusal::not_found("sampling session", &sampler_id))?;
    let model_path = match found.weights {
        SampledWeights::Checkpoint(path) => Some(path),
        SampledWeights::Base | SampledWeights::Own(_) | SampledWeights::Inflight(_) => None,
    };
    Ok(Json(GetSamplerResponse { sampler_id, base_model: found.base_model, model_path }))
}

async fn join_sampling_session(
    State(server): Server,
    body: Bytes,
) -> Result<Json<JoinSamplingSessionResponse>, Refusal> {
    let JoinSamplingSessionRequest { sampling_session_id } = read(&body)?;
    server.join_sampling_session(&sampling_session_id).await.map(Json)
}

async fn sample(State(server): Server, headers: HeaderMap, body: Bytes) -> Submitted {
    let repeated = if headers.contains_key(OWN_SEED) { RepeatedSeeds::Literal } else { server.options.repeated_seeds };
    server.sample(read::<SampleRequest>(&body)?, repeated).await.map(Json)
}

async fn retrieve_future(State(server): Server, headers: HeaderMap, body: Bytes) -> Result<Response, Refusal> {
    let RetrieveFutureRequest { request_id, .. } = read(&body)?;
    match server.futures.poll(&request_id, server.options.patience).await {
        Polled::Outcome(outcome) => Ok(answer(&outcome, header(&headers, &ACCEPT).contains(PROTOBUF))),
        Polled::NotYet => {
            let body = TryAgain { request_id, queue_state: QueueState::Active, queue_state_reason: None };
            Ok((StatusCode::REQUEST_TIMEOUT, Json(body)).into_response())
        }
        // Clients send a request for samples again.
        Polled::Unknown => {
            Err(Refusal { status: StatusCode::GONE, detail: format!("the request {request_id} is not known any more") })
        }
    }
}

/// Clients are not told to ask so: after a restart they would wait for ever for what was under way before it.
async fn retrieve_futures(State(server): Server, body: Bytes) -> Result<Json<FuturesRetrieveResponse>, Refusal> {
    Ok(Json(server.done_samples(read::<FuturesRetrieveRequest>(&body)?).await))
}

/// A request that is done or not known is as well as cancelled.
async fn cancel_future(State(server): Server, body: Bytes) -> Result<StatusCode, Refusal> {
    let CancelFutureRequest { request_id } = read(&body)?;
    match server.futures.stop(&request_id) {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(Refusal::bad_request(format!("{request_id} cannot be cancelled: only requests for samples can"))),
    }
}

fn answer(outcome: &Outcome, takes_protobuf: bool) -> Response {
    let message = |bytes: Vec<u8>| ([(CONTENT_TYPE, PROTOBUF)], bytes).into_response();
    let unwritable = |error: String| Json(servers_fault(error)).into_response();
    match outcome {
        Outcome::Json(value) => Json(value).into_response(),
        Outcome::Failed(failed) => Json(failed).into_response(),
        Outcome::Pass(output) if takes_protobuf => message(output.encode_to_vec()),
        Outcome::Sample(response) if takes_protobuf => message(response.encode_to_vec()),
        Outcome::Pass(output) => json_output(output).map_or_else(unwritable, |output| Json(output).into_response()),
        Outcome::Sample(response) => {
            json_response(response).map_or_else(unwritable, |response| Json(response).into_response())
        }
    }
}
