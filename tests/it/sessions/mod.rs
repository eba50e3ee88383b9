//! Agents that name neither a rollout nor a session: their conversations are recognised by content.

mod by_content;
mod host;
mod wires;
