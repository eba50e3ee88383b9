//! `fulgurite bench`: what things cost, two servers side by side in one run.

mod server;
mod store;
mod workload;

pub use store::bench_store;
