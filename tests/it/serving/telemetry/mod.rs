//! What a server tells of itself: `/metrics`, the log of requests, and spans for a collector.
mod access_log;
mod metrics;
mod otlp;
mod page;
