use axum::Json;
use axum::extract::{Query, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use fulgurite_api::conventions::error::RestError;
use fulgurite_api::conventions::input::{Body, Paging, SentBy, parameters};
use fulgurite_api::conventions::lists;
use fulgurite_api::conventions::serving::Reply;
use fulgurite_api::conventions::shape::{Field, Shape, Shaped};
use fulgurite_api::paged;
use fulgurite_store::Store;
use fulgurite_types::{AttemptRef, FilterLogic, Span, SpanFilter, StatusCode as SpanStatusCode, TextFilter};
use futures::TryStreamExt;
use serde::Deserialize;
use serde_json::{Value, json};

const CONTEXT: Shape = Shape::Record(&[
    Field::required("trace_id", Shape::Text),
    Field::required("span_id", Shape::Text),
    Field::required("is_remote", Shape::Flag),
    Field::required("trace_state", Shape::Map(&Shape::Text)),
]);

/// A span as clients send it.
#[derive(Deserialize)]
#[serde(transparent)]
struct SentSpan(Span);

impl Shaped for SentSpan {
    const SHAPE: Shape = Shape::Record(&[
        Field::required("rollout_id", Shape::Text),
        Field::required("attempt_id", Shape::Text),
        Field::required("sequence_id", Shape::Integer(0)),
        Field::required("trace_id", Shape::Text),
        Field::required("span_id", Shape::Text),
        Field::required_or_null("parent_id", Shape::Text),
        Field::required("name", Shape::Text),
        Field::required(
            "status",
            Shape::Record(&[
                Field::required("status_code", Shape::Word(SpanStatusCode::WORDS)),
                Field::nullable("description", Shape::Text),
            ]),
        ),
        Field::required("attributes", Shape::Map(&Shape::Any)),
        Field::required(
            "events",
            Shape::List(&Shape::Record(&[
                Field::required("name", Shape::Text),
                Field::required("attributes", Shape::Map(&Shape::Any)),
                Field::nullable("timestamp", Shape::Number),
            ])),
        ),
        Field::required(
            "links",
            Shape::List(&Shape::Record(&[
                Field::required("context", CONTEXT),
                Field::nullable("attributes", Shape::Map(&Shape::Any)),
            ])),
        ),
        Field::required_or_null("start_time", Shape::Number),
        Field::required_or_null("end_time", Shape::Number),
        Field::required_or_null("context", CONTEXT),
        Field::required_or_null("parent", CONTEXT),
        Field::required(
            "resource",
            Shape::Record(&[
                Field::required("attributes", Shape::Map(&Shape::Any)),
                Field::required("schema_url", Shape::Text),
            ]),
        ),
    ]);
}

/// A span that is there already is answered with null.
pub(super) async fn add(
    State(store): State<Store>,
    SentBy(sender): SentBy,
    body: Body,
) -> Result<(StatusCode, JsonText), RestError> {
    let stored = store.spans().add_of(sender, vec![span(body)?]).await?;
    let text = stored.into_iter().next().flatten().unwrap_or_else(|| "null".to_owned());
    Ok((StatusCode::CREATED, json_text(text)))
}

/// The span that a body holds. Most are as they should be and large, and are read at once; only of what cannot be, every
/// mistake is looked for.
fn span(body: Body) -> Result<Span, RestError> {
    match body.parse_at_once::<Span>() {
        // The type has no upper bound.
        Some(span) if i64::try_from(span.sequence_id).is_ok() => Ok(span),
        _ => body.parse().map(|SentSpan(span)| span),
    }
}

#[derive(Deserialize)]
pub(super) struct SpanSearch {
    rollout_id: String,
    attempt_id: Option<String>,
    trace_id: Option<String>,
    trace_id_contains: Option<String>,
    span_id: Option<String>,
    span_id_contains: Option<String>,
    parent_id: Option<String>,
    parent_id_contains: Option<String>,
    name: Option<String>,
    name_contains: Option<String>,
    filter_logic: Option<FilterLogic>,
    #[serde(flatten)]
    paging: Paging,
}

impl Shaped for SpanSearch {
    const SHAPE: Shape = paged![
        Field::required("rollout_id", Shape::Text),
        Field::nullable("attempt_id", Shape::Text),
        Field::nullable("trace_id", Shape::Text),
        Field::nullable("trace_id_contains", Shape::Text),
        Field::nullable("span_id", Shape::Text),
        Field::nullable("span_id_contains", Shape::Text),
        Field::nullable("parent_id", Shape::Text),
        Field::nullable("parent_id_contains", Shape::Text),
        Field::nullable("name", Shape::Text),
        Field::nullable("name_contains", Shape::Text),
        Field::nullable("filter_logic", Shape::Word(FilterLogic::WORDS)),
    ];
}

pub(super) async fn list(
    State(store): State<Store>,
    pairs: Query<Vec<(String, String)>>,
) -> Result<Response, RestError> {
    query(&store, parameters(pairs)?).await
}

pub(super) async fn search(State(store): State<Store>, body: Body) -> Result<Response, RestError> {
    query(&store, body.or_empty().parse()?).await
}

/// A reply that is JSON text already.
type JsonText = ([(HeaderName, &'static str); 1], String);

fn json_text(text: String) -> JsonText {
    ([(CONTENT_TYPE, "application/json")], text)
}

async fn query(store: &Store, search: SpanSearch) -> Result<Response, RestError> {
    let text = |equals, contains| TextFilter { equals, contains };
    let filter = SpanFilter {
        rollout_id: store.rollouts().id_of(&search.rollout_id).await?,
        attempt: search.attempt_id.map(AttemptRef::from),
        trace_id: text(search.trace_id, search.trace_id_contains),
        span_id: text(search.span_id, search.span_id_contains),
        parent_id: text(search.parent_id, search.parent_id_contains),
        name: text(search.name, search.name_contains),
        filter_logic: search.filter_logic,
        page: search.paging.page()?,
    };
    if lists::is_short(&filter.page) {
        return Ok(json_text(store.spans().query_as_json(&filter).await?).into_response());
    }
    let pieces = Box::pin(store.spans().pages_as_json(&filter).await?);
    let body = axum::body::Body::from_stream(pieces.inspect_err(|error| tracing::warn!(%error, "a list broke off")));
    Ok(([(CONTENT_TYPE, "application/json")], body).into_response())
}

#[derive(Deserialize)]
struct NextRequest {
    rollout_id: String,
}

impl Shaped for NextRequest {
    const SHAPE: Shape = Shape::Record(&[
        Field::required("rollout_id", Shape::Text),
        // The original asks for it, and does not use it either.
        Field::required("attempt_id", Shape::Text),
    ]);
}

pub(super) async fn next_sequence_id(State(store): State<Store>, body: Body) -> Reply<Value> {
    let request: NextRequest = body.parse()?;
    Ok(Json(json!({"sequence_id": store.spans().next_sequence_id(&request.rollout_id).await?})))
}
