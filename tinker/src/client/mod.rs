//! Model hosts that speak the Tinker API: the hosted service, SkyRL's server, and ours.
//!
//! Every request that changes something has a place in a sequence, so that it may be sent again until it is answered; a
//! request that takes time is answered by the id of a result, which is requested until it is there.
//!
//! What a service can do it says when the session begins. One that knows nothing of `client/dynamic_config` (SkyRL's,
//! which answers 404) speaks the wire of 2025: no alternatives to sampled tokens, no cancellation. All else is done so
//! that both take it: ids and counts are taken as they come, each submission is acknowledged before the next is sent,
//! and results are waited for as long as either holds a request.
//!
//! - [`http`], [`credentials`]: requests out, whole answers in; the key, or the token that stands for it.
//! - [`patience`]: which troubles are waited out, and for how long.
//! - [`service`], [`session`]: submissions and their results; the session that they belong to.
//! - [`sampler`], [`sampling`], [`sampled`]: a service as a `Sampler`; which weights it samples from; a request's wire form.
//! - [`learner`], [`model`], [`datums`], [`checkpoint`]: a service as a `Learner`; the order of a model's requests; datums as the
//!   wire has them; where a checkpoint is.
//! - [`check`]: what a service takes of the API, and whether its numbers are right.

mod check;
mod checkpoint;
mod credentials;
mod datums;
mod http;
mod learner;
mod model;
mod patience;
mod sampled;
mod sampler;
mod sampling;
mod service;
mod session;
mod wire_pass;

pub use check::{
    CheckFinding, CheckNumbers, CheckRemains, CheckVerdict, FreshLearner, LearnerCheck, Need, UnmetNeed,
    find_unmet_need,
};
pub use learner::{TinkerLearner, TinkerLearnerOptions};
pub use patience::Patience;
pub use sampler::{TinkerSampler, TinkerSamplerOptions};
pub use service::{TinkerOptions, TinkerService};
