//! `GET /metrics`: what the rooms count and measure, as Prometheus reads it.

use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum::http::header;
use axum::routing::get;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

/// Prometheus' text format.
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
/// How often what was measured goes into its buckets; until then each value takes memory of its own. Calls wait while
/// that is done.
const UPKEEP_INTERVAL: Duration = Duration::from_millis(500);

/// The proxy's counter of sampled tokens.
const SAMPLED_TOKENS: &str = "fulgurite_sampled_tokens_total";

/// Upper bounds of the buckets of every room's histograms.
const HISTOGRAM_BUCKETS: [&[(&str, &[f64])]; 4] = [
    fulgurite_backends::HISTOGRAM_BUCKETS,
    fulgurite_engine::HISTOGRAM_BUCKETS,
    fulgurite_proxy::HISTOGRAM_BUCKETS,
    fulgurite_store::HISTOGRAM_BUCKETS,
];

/// The process's recorder of metrics.
#[derive(Clone)]
pub struct MetricsPage {
    recorder: PrometheusHandle,
}

impl MetricsPage {
    /// Begins to record, once in a process. What was opened before is not measured, so this comes first.
    pub fn install() -> Result<Self> {
        let mut builder = PrometheusBuilder::new();
        for (name, bounds) in HISTOGRAM_BUCKETS.concat() {
            let metric = Matcher::Full(name.to_owned());
            builder = builder.set_buckets_for_metric(metric, bounds).context("a histogram has no buckets")?;
        }
        let recorder = builder.install_recorder().context("metrics are recorded already")?;
        fulgurite_backends::describe_metrics();
        fulgurite_engine::describe_metrics();
        fulgurite_proxy::describe_metrics();
        fulgurite_store::describe_metrics();
        crate::trace_export::describe_metrics();
        Ok(Self { recorder })
    }

    /// `GET /metrics`.
    pub fn routes(&self) -> Router {
        let recorder = self.recorder.clone();
        Router::new().route("/metrics", get(async move || ([(header::CONTENT_TYPE, CONTENT_TYPE)], recorder.render())))
    }

    /// Tokens that were sampled in this process so far, of all models.
    pub fn sampled_tokens(&self) -> u64 {
        let page = self.recorder.render();
        let counts = page.lines().filter(|line| line.starts_with(SAMPLED_TOKENS));
        counts.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    }

    /// Keeps what is measured from piling up while nobody reads it.
    #[expect(clippy::disallowed_methods, reason = "who asks for it holds it")]
    pub fn spawn_upkeep(&self) -> JoinHandle<()> {
        let recorder = self.recorder.clone();
        let mut ticks = tokio::time::interval(UPKEEP_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        tokio::spawn(async move {
            loop {
                ticks.tick().await;
                recorder.run_upkeep();
            }
        })
    }
}
