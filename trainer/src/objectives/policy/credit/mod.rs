//! What each sampled token answers for: advantages of rollouts and of calls, and how the losses of tokens add up.

mod advantages;
mod aggregation;
mod call_advantages;

pub use self::advantages::{AdvantageOptions, Baseline, STANDARD_DEVIATION_FLOOR, Spread, batch_advantages};
pub use self::aggregation::LossAggregation;
pub(crate) use self::call_advantages::call_advantages;
pub use self::call_advantages::{ComparedCalls, PerCall};
