//! What a run's process does before it changes anything: it looks at what is behind the model, and gets the run for itself.

pub mod at_server;
pub mod commands;
pub mod held_run;
pub mod identity;
pub mod new_run;
pub mod own_run;
pub mod owner;
pub mod rules;
