//! Everything for the Tinker API, by which models elsewhere are sampled from and trained.
//!
//! - [`wire`]: its messages, for client and server.
//! - [`TinkerService`]: a service with that API, behind [`TinkerSampler`] and [`TinkerLearner`].
//! - [`LearnerCheck`]: what such a service takes, and whether its numbers are right; [`find_unmet_need`]: what a run needs of it.
//! - [`server`]: models of a host that is handed in, for clients that speak it.

mod age;
mod client;
pub mod server;
pub mod wire;

pub use client::{
    CheckFinding, CheckNumbers, CheckRemains, CheckVerdict, FreshLearner, LearnerCheck, Need, Patience, TinkerLearner,
    TinkerLearnerOptions, TinkerOptions, TinkerSampler, TinkerSamplerOptions, TinkerService, UnmetNeed,
    find_unmet_need,
};

#[cfg(test)]
#[path = "../tests/age_identity/mod.rs"]
mod age_identity;
