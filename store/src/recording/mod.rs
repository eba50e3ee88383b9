//! Recording model calls: the way of every answer before its last byte leaves.
//!
//! A call is prepared where it comes from (`call_records::call_record`), and not where one write after the other is done.
//! On SQLite a call, or several that wait together, are one statement and one commit (`call_records::at_once`), in which
//! the calls that they continue are a guess (`call_records::latest_calls`) that the statement checks. Where the guess is
//! wrong, on PostgreSQL, and within a transaction with other writes that fails, it is done statement by statement
//! (`one_by_one`). Both leave the same rows.

mod call_notifications;
pub(crate) mod one_by_one;
mod record;

#[cfg(test)]
mod tests;
