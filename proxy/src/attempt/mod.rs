//! What is known of a running attempt: which attempt a call belongs to, its remaining budget, and its conversation so far.

pub(crate) mod attempt_memories;
pub(crate) mod attempt_memory;
pub(crate) mod attribution;
pub(crate) mod budget;
pub(crate) mod joined_session;
pub(crate) mod notes;
pub(crate) mod owner;
pub(crate) mod restored_memory;
