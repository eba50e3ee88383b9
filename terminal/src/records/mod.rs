//! What a store holds, as rows of tables: a kind of record each.

mod attempts;
mod drift;
mod generations;
mod resources;
mod rewards;
mod rollouts;
mod spans;
mod table_record;
pub mod triplets;
mod workers;

pub(crate) use self::generations::{logprob, weights};
pub use self::resources::resources_table;
pub(crate) use self::rewards::components;
pub use self::table_record::TableRecord;
pub use self::workers::workers_table;
