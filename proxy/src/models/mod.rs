//! The models that are served: each with the gate that holds its calls, and new weights behind it; and what the gateway
//! has of them.

pub(crate) mod caller_key;
pub(crate) mod caller_preferences;
pub(crate) mod gate;
pub(crate) mod loaded_adapters;
pub(crate) mod named_weights;
pub(crate) mod pause_state;
pub(crate) mod registered_models;
pub(crate) mod served_model;
pub(crate) mod served_models;
pub(crate) mod template_arguments;
pub(crate) mod template_work;
pub(crate) mod weights;
