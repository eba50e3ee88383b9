//! Checks of an agent's own program: it plays scripted trials at a proxy, as its users start it, and what it did is judged.

mod agents;
mod check;
mod check_options;
mod evidence;
mod findings;
mod http_log;
mod script;
mod scripted_model;
mod stage;
mod trial;

pub use self::agents::{Agent, AgentError, KnownAgent};
pub use self::check::check_agent;
pub use self::check_options::CheckOptions;
pub use self::findings::{Check, Finding, Verdict};
