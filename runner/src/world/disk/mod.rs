//! Files that an agent has had to itself: what reads, opens, measures or removes them goes from descriptor to descriptor, so
//! that no link leads elsewhere, and is kept from nothing by their modes.

mod closed;
mod measuring;
mod opening;
mod regular_file;
mod removal;

pub(super) use measuring::{Measured, measure};
pub(super) use opening::open_world;
pub(super) use regular_file::{ReadFault, open, open_directory, open_in, read_text};
pub(super) use removal::{disconnected, open_up, remove_all, remove_below, remove_in};
