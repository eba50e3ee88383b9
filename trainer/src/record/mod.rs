//! Where a training loop reads and writes what happens: the store of its own process, or that of a server.

mod error;
mod local;
mod methods;
mod remote;
mod served_model;

pub use self::error::RecordError;
pub use self::methods::Record;
pub use self::remote::RemoteRecord;
pub use self::served_model::RemotelyServedModel;
