//! The config: its keys, how its text is read, and what is shown of it.

pub mod admin_key;
pub mod agent_settings;
pub mod declarations;
mod learning_rate_rule;
pub mod models;
pub mod overrides;
pub mod redaction;
pub mod runner;
pub mod seconds;
pub mod setting_key;
pub mod show;
pub mod text;
pub mod trackers;
