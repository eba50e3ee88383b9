//! Agents that are written with the APIs' own packages and with frameworks, unchanged.

mod anthropic;
mod frameworks;
mod google;
mod openai;
