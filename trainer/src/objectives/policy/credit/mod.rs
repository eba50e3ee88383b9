//! What each sampled token answers for: advantages of rollouts and of calls, and how the losses of tokens add up.

mod advantages;
mod aggregation;
mod call_advantages;

pub use self::advantages::batch_advantages;
pub(crate) use self::aggregation::trained_tokens;
pub(crate) use self::call_advantages::call_advantages;
