//! Lists of what a store holds, a kind of record each.

mod attempts;
mod drift;
pub mod generations;
mod list;
mod resources;
pub mod rewards;
mod rollouts;
mod spans;
mod triplets;
mod workers;

pub use self::attempts::attempts;
pub use self::drift::drift;
pub use self::generations::generations;
pub use self::resources::resources;
pub use self::rewards::rewards;
pub use self::rollouts::rollouts;
pub use self::spans::spans;
pub use self::triplets::triplets;
pub use self::workers::workers;
