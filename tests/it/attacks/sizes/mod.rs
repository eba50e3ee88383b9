//! Things that are too large, too long or too many.

mod large_prompts;
mod long_ids;
mod long_lists;
mod schema_bombs;
mod unbounded_counts;
