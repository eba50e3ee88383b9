//! What is known of a running attempt: whose a call is, what it may still take, and what was said in it before.

pub(crate) mod attempt_memories;
pub(crate) mod attempt_memory;
pub(crate) mod attribution;
pub(crate) mod budget;
pub(crate) mod owner;
pub(crate) mod placed_prompt;
pub(crate) mod restored_memory;
