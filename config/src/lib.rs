//! The config: its keys, how its text is read, and what is shown of it.

pub mod admin_key;
pub mod agent_settings;
pub mod checks;
pub mod declarations;
pub mod layer_choice;
pub mod model_adapter;
pub mod model_roles;
pub mod models;
pub mod overrides;
pub mod redaction;
pub mod runner;
pub mod sampling_limits;
pub mod seconds;
pub mod setting_key;
pub mod text;
pub mod trackers;
