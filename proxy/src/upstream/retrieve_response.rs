use axum::body::Body;
use axum::http::{HeaderMap, Method};
use axum::response::Response;
use bytes::Bytes;
use fulgurite_backends::UpstreamRequest;
use tokio::time::timeout_at;

use super::forwarded_request::{request_headers, response_headers, without_key};
use super::relay::BODY_LIMIT;
use super::route::Route;
use crate::error::ProxyError;
use crate::models::served_model::UpstreamModel;
use crate::state::deadlines::{Deadlines, SamplingLimits};

/// Asks the upstream for a response that it keeps under an id, or to delete it. No model answers, so that nothing is
/// recorded.
pub(crate) async fn retrieve(
    limits: SamplingLimits,
    model: &UpstreamModel,
    method: Method,
    response_id: &str,
    headers: &HeaderMap,
    query: Option<&str>,
) -> Result<Response, ProxyError> {
    let request = UpstreamRequest {
        method,
        path: format!("{}/{response_id}", Route::Responses.path()),
        query: query.map(str::to_owned),
        headers: request_headers(headers),
        body: Bytes::new(),
        affinity: None,
    };
    let exchange = async {
        let mut reply = model.upstream.send(&request).await?;
        let body = reply.body(BODY_LIMIT).await?;
        Ok::<_, ProxyError>((reply, body))
    };
    let until = Deadlines::new(limits, None).whole;
    let (reply, body) = timeout_at(until.at, exchange).await.map_err(|_| until.error())??;
    let key = model.upstream.api_key();
    let mut response = Response::new(Body::from(without_key(body, key)));
    *response.status_mut() = reply.status;
    *response.headers_mut() = response_headers(&reply.headers, key);
    Ok(response)
}
