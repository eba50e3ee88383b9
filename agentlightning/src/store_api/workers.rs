use axum::Json;
use axum::extract::{Query, State};
use axum::response::Response;
use fulgurite_api::conventions::error::RestError;
use fulgurite_api::conventions::input::{Body, Paging, Path, parameters, value_field};
use fulgurite_api::conventions::lists;
use fulgurite_api::conventions::serving::Reply;
use fulgurite_api::conventions::shape::{Field, Shape, Shaped};
use fulgurite_api::paged;
use fulgurite_store::Store;
use fulgurite_types::{FilterLogic, Worker, WorkerFilter, WorkerStatus};
use serde::Deserialize;

#[derive(Deserialize)]
pub(super) struct WorkerSearch {
    status_in: Option<Vec<WorkerStatus>>,
    worker_id_contains: Option<String>,
    filter_logic: Option<FilterLogic>,
    #[serde(flatten)]
    paging: Paging,
}

impl Shaped for WorkerSearch {
    const SHAPE: Shape = paged![
        Field::nullable("status_in", Shape::List(&Shape::Word(WorkerStatus::WORDS))),
        Field::nullable("worker_id_contains", Shape::Text),
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

async fn query(store: &Store, search: WorkerSearch) -> Result<Response, RestError> {
    let filter = WorkerFilter {
        status_in: search.status_in,
        worker_id_contains: search.worker_id_contains,
        filter_logic: search.filter_logic,
        page: search.paging.page()?,
    };
    match lists::is_short(&filter.page) {
        true => lists::whole(store.workers().query(&filter).await),
        false => lists::in_parts(store.workers().pages(&filter).await?, &filter.page),
    }
}

pub(super) async fn find(State(store): State<Store>, Path(worker_id): Path<String>) -> Reply<Option<Worker>> {
    Ok(Json(store.workers().get(&worker_id).await?))
}

const WORKER_UPDATE: Shape = Shape::Record(&[Field::nullable("heartbeat_stats", Shape::Map(&Shape::Any))]);

pub(super) async fn update(State(store): State<Store>, Path(worker_id): Path<String>, body: Body) -> Reply<Worker> {
    let stats = value_field(&mut body.or_empty().object(&WORKER_UPDATE)?, "heartbeat_stats")?;
    Ok(Json(store.workers().update(&worker_id, stats).await?))
}
