//! Checkpoints' files for whoever has a link: links are signed, so that they need no key, and are good for an hour.

use std::io::SeekFrom;
use std::path::PathBuf;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::header::{CONTENT_LENGTH, HOST, LOCATION};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use futures::stream::{self, Stream};
use serde_json::{Value, json};
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt};

use super::tar::TarPart;
use crate::server::error::run_blocking;
use crate::server::host::FileBeginning;
use crate::server::management::checkpoints::{CheckpointSegments, checkpoint_path};
use crate::server::management::tar;
use crate::server::refusals::Refusal;
use crate::server::tinker_server::{Server, TinkerServer};
use crate::wire::{CheckpointKind, CheckpointPath};
use fulgurite_types::time::{now, rfc3339};

/// Seconds that a link is good for.
const GOOD_FOR: f64 = 3600.0;

/// Bytes that are read at a time.
const PIECE: usize = 256 * 1024;

/// What an archive of all of a checkpoint's files is called.
const ARCHIVE: &str = "archive.tar";

/// The route of links that are good for a while and need no key: they are signed.
pub const SIGNED_LINK: &str = "/api/v1/downloads/{expires}/{signature}/{run_id}/{kind}/{name}/{file}";

pub(crate) fn routes() -> Router<Arc<TinkerServer>> {
    let one = "/api/v1/training_runs/{run_id}/checkpoints/{kind}/{name}";
    Router::new()
        .route(&format!("{one}/external_weights_urls"), get(external_weights_urls))
        .route(&format!("{one}/archive"), get(archive))
        .route(SIGNED_LINK, get(download))
}

impl TinkerServer {
    /// A checkpoint's files, by their names: where they are, and their bytes.
    async fn files(&self, path: &str) -> Result<Vec<(String, PathBuf, u64)>, Refusal> {
        let found = self.registry().checkpoints.get(path).map(|checkpoint| checkpoint.directory.clone());
        let directory = found.ok_or_else(|| Refusal::not_found("checkpoint", path))?;
        let state = self.state.clone();
        Ok(run_blocking(move || state.files(&directory)).await?)
    }

    /// What an archive has of a checkpoint's files, which begin there as clients' tools read them.
    async fn contents_for_tools(
        &self,
        path: &str,
        files: Vec<(String, PathBuf, u64)>,
    ) -> Result<Vec<(String, Vec<TarPart>)>, Refusal> {
        let found = self.registry().checkpoints.get(path).cloned();
        let checkpoint = found.ok_or_else(|| Refusal::not_found("checkpoint", path))?;
        let base = self.base(&checkpoint.base_model).map_err(Refusal::bad_request)?;
        let directory = self.state.resolve(&checkpoint.directory);
        let beginnings = run_blocking(move || base.model.beginnings_for_tools(&directory)).await?;
        let content = |(name, path, size): (String, PathBuf, u64)| {
            let parts = match beginnings.iter().find(|beginning| beginning.file == name) {
                None => vec![TarPart::File { path, from: 0, size }],
                Some(FileBeginning { bytes, replaces, .. }) => {
                    let size = size.saturating_sub(*replaces);
                    vec![TarPart::Bytes(bytes.clone()), TarPart::File { path, from: *replaces, size }]
                }
            };
            (name, parts)
        };
        Ok(files.into_iter().map(content).collect())
    }

    /// Where a file can be fetched, as this request has reached the server.
    fn link(&self, headers: &HeaderMap, expires: u64, path: &CheckpointPath, file: &str) -> String {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let (scheme, host) = (text("x-forwarded-proto").unwrap_or("http"), text(HOST.as_str()).unwrap_or_default());
        let signature = self.links.signature(expires, &path.to_string(), file);
        let CheckpointPath { run, kind, name } = path;
        format!("{scheme}://{host}/api/v1/downloads/{expires}/{signature}/{run}/{}/{name}/{file}", kind.segment())
    }
}

async fn external_weights_urls(
    State(server): Server,
    Path(segments): CheckpointSegments,
    headers: HeaderMap,
) -> Result<Json<Value>, Refusal> {
    let path = parsed(&checkpoint_path(segments))?;
    if path.kind != CheckpointKind::ExternalWeights {
        return Err(Refusal::bad_request(format!(
            "{path} holds no external weights: save_weights_external makes them"
        )));
    }
    let expires = (now() + GOOD_FOR) as u64;
    let files = server.files(&path.to_string()).await?;
    let links = files.iter().map(|(name, ..)| (name.clone(), json!(server.link(&headers, expires, &path, name))));
    Ok(Json(json!({ "urls": links.collect::<serde_json::Map<_, _>>(), "expires": rfc3339(expires as f64) })))
}

/// Sends older clients to an archive of all files.
async fn archive(
    State(server): Server,
    Path(segments): CheckpointSegments,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let path = parsed(&checkpoint_path(segments))?;
    server.files(&path.to_string()).await?;
    let link = server.link(&headers, (now() + GOOD_FOR) as u64, &path, ARCHIVE);
    Ok((StatusCode::FOUND, [(LOCATION, link)]).into_response())
}

fn parsed(path: &str) -> Result<CheckpointPath, Refusal> {
    path.parse().map_err(|error| Refusal::bad_request(format!("{error}")))
}

type SignedFile = Path<(u64, String, String, String, String, String)>;

async fn download(
    State(server): Server,
    Path((expires, signature, run, kind, name, file)): SignedFile,
) -> Result<Response, Refusal> {
    let path = checkpoint_path((run, kind, name));
    if !server.links.is_good(expires, &path, &file, &signature, now()) {
        let detail = "this link was not made here, or is not good any more: ask for another".to_owned();
        return Err(Refusal { status: StatusCode::FORBIDDEN, detail });
    }
    let files = server.files(&path).await?;
    let parts = match file.as_str() {
        ARCHIVE => tar::parts(server.contents_for_tools(&path, files).await?),
        _ => {
            let found = files.into_iter().find(|(name, ..)| *name == file);
            let (_, path, size) = found.ok_or_else(|| Refusal::not_found("file", &file))?;
            vec![TarPart::File { path, from: 0, size }]
        }
    };
    let size: u64 = parts.iter().map(TarPart::size).sum();
    Ok(([(CONTENT_LENGTH, size)], Body::from_stream(pieces(parts))).into_response())
}

/// The bytes of parts, one after another, a piece at a time.
fn pieces(parts: Vec<TarPart>) -> impl Stream<Item = std::io::Result<Vec<u8>>> {
    stream::try_unfold((parts.into_iter(), None::<File>), async |(mut parts, mut open)| {
        loop {
            if let Some(file) = &mut open {
                let mut piece = vec![0; PIECE];
                let length = file.read(&mut piece).await?;
                if length > 0 {
                    piece.truncate(length);
                    return Ok(Some((piece, (parts, open))));
                }
            }
            match parts.next() {
                None => return Ok(None),
                Some(TarPart::Bytes(bytes)) => return Ok(Some((bytes, (parts, None)))),
                Some(TarPart::File { path, from, .. }) => {
                    open.insert(File::open(path).await?).seek(SeekFrom::Start(from)).await?;
                }
            }
        }
    })
}
