//! A run drawn on a terminal, while it goes on or after.

mod chart;
mod grid;
mod keys;
mod screen;
mod view;

pub use self::keys::{Key, pressed};
pub use self::screen::Screen;
pub use self::view::draw;
