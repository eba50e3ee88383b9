//! `fulgurite bench`: what things cost, what is compared side by side in one run.

mod render;
mod server;
mod store;
mod workload;

pub use render::bench_render;
pub use store::bench_store;
