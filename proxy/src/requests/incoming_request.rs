use axum::extract::Request;
use axum::http::HeaderMap;
use bytes::Bytes;
use fulgurite_backends::FairShare;
use fulgurite_types::MendedJson;
use serde_json::{Map, Value};

use crate::error::ProxyError;
use crate::models::served_models::ServedModels;
use crate::requests::call_target::CallPath;
use crate::requests::caller::Caller;
use crate::requests::exact_json::object_text;
use crate::requests::large_requests::{RequestSize, check_against_context};
use crate::requests::request_body::{parse, read_body};

/// What requests are read with.
#[derive(Clone, Copy)]
pub(crate) struct Intake<'p> {
    /// Greatest body, in bytes.
    pub(crate) body_limit: usize,
    pub(crate) models: &'p ServedModels,
    /// Places in which large requests are worked at.
    pub(crate) large_requests: &'p FairShare,
}

/// A request with a JSON object as its body, of which nothing is checked but which attempt it names.
pub(crate) struct IncomingRequest {
    pub(crate) caller: Caller,
    pub(crate) headers: HeaderMap,
    pub(crate) query: Option<String>,
    pub(crate) body: Bytes,
    /// The same, read.
    pub(crate) fields: Map<String, Value>,
}

impl IncomingRequest {
    pub(crate) async fn read(intake: Intake<'_>, path: CallPath, request: Request) -> Result<Self, ProxyError> {
        let caller = Caller::new(path, &request)?;
        Self::of(intake, caller, request).await
    }

    /// The request of a caller who is known.
    pub(crate) async fn of(intake: Intake<'_>, caller: Caller, request: Request) -> Result<Self, ProxyError> {
        Self::read_body_of(intake, caller, request, None).await
    }

    /// The same, whose path names the model.
    pub(crate) async fn of_model(
        intake: Intake<'_>,
        caller: Caller,
        request: Request,
        model: &str,
    ) -> Result<Self, ProxyError> {
        Self::read_body_of(intake, caller, request, Some(model)).await
    }

    async fn read_body_of(
        intake: Intake<'_>,
        caller: Caller,
        request: Request,
        model: Option<&str>,
    ) -> Result<Self, ProxyError> {
        let Intake { body_limit, models, large_requests: turns } = intake;
        let (parts, body) = request.into_parts();
        let body = read_body(body, body_limit).await?;
        let size = RequestSize::of(body.len(), &caller.target);
        check_against_context(models, turns, &size, &body, model).await?;
        let (body, mended) = size.work(turns, || mended(body)).await?;
        if let Some(mended) = mended {
            caller.facts.is_mended(mended);
        }
        let fields = size.work(turns, || parse(&body)).await??;
        let caller = Caller { size, ..caller };
        Ok(Self { caller, headers: parts.headers, query: parts.uri.query().map(str::to_owned), body, fields })
    }

    /// Puts values in the place of the client's.
    pub(crate) fn set<const N: usize>(&mut self, values: [(&str, Value); N]) {
        self.fields.extend(values.map(|(key, value)| (key.to_owned(), value)));
        self.body = Bytes::from(object_text(&self.fields, &self.body));
    }
}

/// A body that readers of Unicode take, and what was replaced for that.
fn mended(body: Bytes) -> (Bytes, Option<MendedJson>) {
    match MendedJson::of(&body) {
        Some(mut mended) => (Bytes::from(std::mem::take(&mut mended.text)), Some(mended)),
        None => (body, None),
    }
}
