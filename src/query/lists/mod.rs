//! Lists of what a store holds, a kind of record each.

mod list;
mod records;
mod resources;
mod triplets;
mod workers;

pub use self::records::{attempts, drift, generations, rewards, rollouts, spans};
pub use self::resources::resources;
pub use self::triplets::triplets;
pub use self::workers::workers;
