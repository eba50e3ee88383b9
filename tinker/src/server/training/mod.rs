//! Training runs: what is asked of them, and one at work.
//!
//! - [`training_runs`]: requests, each taken for its place.
//! - [`adapters`]: what a run trains beside its base.
//! - [`model`]: a run in memory, as everybody but its worker sees it; [`worker`]: who carries its requests out.
//! - [`encrypted_export`]: weights to be taken away that only those read who are named.
//! - [`stable_reinforce`]: what stands in for a loss that is not public.
//! - [`training_request`]: what a pass computes over, from either form of the wire.

pub(crate) mod adapters;
pub(crate) mod encrypted_export;
pub(crate) mod model;
pub(crate) mod stable_reinforce;
pub(crate) mod training_request;
pub(crate) mod training_runs;
pub(crate) mod worker;
