//! Model hosts that speak the Tinker API: the hosted service, SkyRL's server, and ours.
//!
//! - [`wire`]: its messages, for client and server.

pub mod wire;
