//! The page of runs that stands alone.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::Request;
use fulgurite_dashboard::{Report, Tokenizers, report_page};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use tower::ServiceExt;

use super::reading_routes::reading_routes;
use crate::report::summary::summary_of;
use crate::runs::registry;

/// Where the page reads its list of runs.
const RUNS: &str = "/ui/data/runs";
/// What the page reads of a run, below the run's address.
const PARTS: [&str; 5] = ["", "/steps", "/findings", "/ledger", "/changed"];

/// The page of the runs in `directories`, with what a server would answer about them.
///
/// # Errors
///
/// A run that cannot be read.
pub async fn page_of(directories: &[PathBuf]) -> Result<String> {
    let (mut report, mut rows) = (Report::default(), Vec::new());
    for directory in directories {
        rows.push(add_run(&mut report, directory).await?);
    }
    rows.sort_by(|one, other| start_time(other).total_cmp(&start_time(one)));
    report.answers.insert(RUNS.to_owned(), json!(rows));
    Ok(report_page(&report)?)
}

fn start_time(row: &Value) -> f64 {
    row["start_time"].as_f64().unwrap_or_default()
}

/// Adds what is known of a run; its row in the list of runs.
async fn add_run(report: &mut Report, directory: &Path) -> Result<Value> {
    let (store, run) = registry::open(directory).await?;
    let routes = reading_routes(&store, Tokenizers::new());
    let id = utf8_percent_encode(&run.run_id, NON_ALPHANUMERIC);
    let shown = unused_id(report, &run.run_id);
    for part in PARTS {
        let answer = answer(&routes, &format!("/v1/fulgurite/runs/{id}{part}")).await?;
        report.answers.insert(format!("/v1/fulgurite/runs/{shown}{part}"), answer);
    }
    let mut row = answer(&routes, &format!("{RUNS}?run_id={id}")).await?[0].take();
    row["run_id"] = json!(shown);
    report.answers.insert(format!("{RUNS}?run_id={shown}"), json!([row]));
    report.summaries.insert(shown, json!(summary_of(&store, &run, directory).await?));
    store.close().await;
    Ok(row)
}

/// The run's id, with a number behind it if a run of another directory has the same.
fn unused_id(report: &Report, id: &str) -> String {
    let numbered = (2..).map(|number| format!("{id} ({number})"));
    let mut names = std::iter::once(id.to_owned()).chain(numbered);
    names.find(|name| !report.summaries.contains_key(name)).unwrap_or_default()
}

/// What the routes answer to a GET.
async fn answer(routes: &Router, path: &str) -> Result<Value> {
    let request = Request::get(path).body(Body::empty())?;
    let Ok(response) = routes.clone().oneshot(request).await;
    let status = response.status();
    let body = to_bytes(response.into_body(), usize::MAX).await?;
    ensure!(status.is_success(), "{path}: {status}: {}", String::from_utf8_lossy(&body));
    serde_json::from_slice(&body).with_context(|| path.to_owned())
}
