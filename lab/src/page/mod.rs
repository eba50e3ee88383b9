//! The web page over runs that nobody serves: its routes, and runs as a page that stands alone.

mod reading_routes;
mod report;

pub use self::reading_routes::reading_routes;
pub use self::report::page_of;
