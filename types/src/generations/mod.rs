//! Model calls, token by token, and the words that decide what of them is trained.

pub(crate) mod defect;
pub(crate) mod departure;
pub(crate) mod drift;
pub(crate) mod generation;
pub(crate) mod packed_generation;
pub(crate) mod packing;
pub(crate) mod sampling;
pub(crate) mod stop_reason;
pub(crate) mod trained_tokens;
pub(crate) mod verdict;
