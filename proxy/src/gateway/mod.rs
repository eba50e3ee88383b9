//! Agent-lightning's gateway (1.0): model calls below `/proxy`, the list of models, and the pause.
//!
//! Models and the pause are of this process alone, as in Agent-lightning's own gateway: they are gone when it ends.

mod called_model;
mod calls;
mod error;
mod failed_call;
mod json_body;
mod model_list;
mod pause;
pub(crate) mod routes;
