use axum::Json;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use fulgurite_api::conventions::error::RestError;
use fulgurite_api::conventions::input::{Body, Paging, Path, parameters};
use fulgurite_api::conventions::lists;
use fulgurite_api::conventions::serving::{Created, Reply};
use fulgurite_api::conventions::shape::{Field, Shape, Shaped};
use fulgurite_api::paged;
use fulgurite_store::Store;
use fulgurite_types::{ResourcesUpdate, TextFilter};
use serde::Deserialize;

const MODEL: &[Field] = &[
    Field::required("endpoint", Shape::Text),
    Field::required("model", Shape::Text),
    Field::nullable("api_key", Shape::Text),
    Field::optional("sampling_parameters", Shape::Map(&Shape::Any)),
];

const PROMPT_TEMPLATE: &[Field] =
    &[Field::required("template", Shape::Text), Field::required("engine", Shape::Word(&["jinja", "f-string", "poml"]))];

/// Resources by name.
const RESOURCES: Shape = Shape::Map(&Shape::Tagged(
    "resource_type",
    &[("llm", MODEL), ("proxy_llm", MODEL), ("prompt_template", PROMPT_TEMPLATE)],
));

#[derive(Deserialize)]
struct ResourcesSearch {
    resources_id: Option<String>,
    resources_id_contains: Option<String>,
    #[serde(flatten)]
    paging: Paging,
}

impl Shaped for ResourcesSearch {
    const SHAPE: Shape =
        paged![Field::nullable("resources_id", Shape::Text), Field::nullable("resources_id_contains", Shape::Text)];
}

pub(super) async fn list(
    State(store): State<Store>,
    pairs: Query<Vec<(String, String)>>,
) -> Result<Response, RestError> {
    let search: ResourcesSearch = parameters(pairs)?;
    let resources_id = TextFilter { equals: search.resources_id, contains: search.resources_id_contains };
    let page = search.paging.page()?;
    match lists::is_short(&page) {
        true => lists::whole(store.resources().query(&resources_id, &page).await),
        false => lists::in_parts(store.resources().pages(&resources_id, &page).await?, &page),
    }
}

pub(super) async fn add(State(store): State<Store>, body: Body) -> Created<ResourcesUpdate> {
    Ok((StatusCode::CREATED, Json(store.resources().update(None, body.object(&RESOURCES)?).await?)))
}

pub(super) async fn latest(State(store): State<Store>) -> Reply<Option<ResourcesUpdate>> {
    Ok(Json(store.resources().latest().await?))
}

pub(super) async fn find(
    State(store): State<Store>,
    Path(resources_id): Path<String>,
) -> Reply<Option<ResourcesUpdate>> {
    Ok(Json(store.resources().get(&resources_id).await?))
}

pub(super) async fn update(
    State(store): State<Store>,
    Path(resources_id): Path<String>,
    body: Body,
) -> Reply<ResourcesUpdate> {
    Ok(Json(store.resources().update(Some(&resources_id), body.object(&RESOURCES)?).await?))
}
