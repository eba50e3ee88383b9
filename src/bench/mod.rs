//! `fulgurite bench`: what things cost, what is compared side by side in one run.

pub mod arguments;
mod engine;
mod processors;
mod proxy;
mod render;
mod server;
mod store;
mod workload;

pub use engine::{Shape, bench_engine, bench_engine_host};
pub use proxy::{Traffic, bench_proxy, bench_proxy_host};
pub use render::bench_render;
pub use store::bench_store;
