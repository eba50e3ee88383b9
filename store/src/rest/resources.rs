use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;

use super::input::{Body, Paging, parameters};
use super::{Created, Reply};
use crate::Store;
use crate::model::{Paginated, ResourcesUpdate};

pub(super) async fn list(
    State(store): State<Store>,
    pairs: Query<Vec<(String, String)>>,
) -> Reply<Paginated<ResourcesUpdate>> {
    let paging: Paging = parameters(pairs)?;
    Ok(Json(store.query_resources(&paging.page()?).await?))
}

pub(super) async fn add(State(store): State<Store>, body: Body) -> Created<ResourcesUpdate> {
    Ok((StatusCode::CREATED, Json(store.update_resources(None, body.object()?).await?)))
}

pub(super) async fn latest(State(store): State<Store>) -> Reply<Option<ResourcesUpdate>> {
    Ok(Json(store.latest_resources().await?))
}

pub(super) async fn find(
    State(store): State<Store>,
    Path(resources_id): Path<String>,
) -> Reply<Option<ResourcesUpdate>> {
    Ok(Json(store.resources(&resources_id).await?))
}

pub(super) async fn update(
    State(store): State<Store>,
    Path(resources_id): Path<String>,
    body: Body,
) -> Reply<ResourcesUpdate> {
    Ok(Json(store.update_resources(Some(&resources_id), body.object()?).await?))
}
