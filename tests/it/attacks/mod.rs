//! Attacks that the built command withstands, a module each: seeded, bounded, and with a second client that is served.
mod connections;
mod foreign_pages;
mod forged_rewards;
mod locks;
mod mutated_requests;
mod orphans;
mod secrets;
mod sizes;
mod terminal_escapes;
