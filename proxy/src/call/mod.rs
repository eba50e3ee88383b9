//! One model call, stage by stage: each takes what the one before gives.
//!
//! - [`answer_request`]: all of them, one after the other.
//! - [`admit`]: the model that answers, and whether it can.
//! - [`place`]: the attempt, and whether the request came before.
//! - [`plan`]: the prompt, and a [`model_call`] for each answer, by [`planning`].
//! - [`sample`]: each call to its end, by [`sampling`]; [`sampled_answer`], [`call_end`]: what it gave, and how it ended.
//! - [`record`]: what the store keeps of it.
//! - [`respond`]: the answers to the client.

pub(crate) mod admit;
pub(crate) mod answer_request;
pub(crate) mod call_end;
pub(crate) mod model_call;
pub(crate) mod place;
pub(crate) mod plan;
pub(crate) mod planning;
pub(crate) mod record;
pub(crate) mod respond;
pub(crate) mod sample;
pub(crate) mod sampled_answer;
pub(crate) mod sampling;
