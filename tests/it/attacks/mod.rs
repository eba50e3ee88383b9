//! Attacks that the built command withstands, a module each: seeded, bounded, and with a second client that is served.
mod cancelled_streams;
mod foreign_pages;
mod forged_rewards;
mod half_closed;
mod idle_connections;
mod large_prompts;
mod locks;
mod long_ids;
mod long_lists;
mod mutated_requests;
mod orphans;
mod raw_http;
mod schema_bombs;
mod secrets;
mod terminal_escapes;
mod unbounded_counts;
