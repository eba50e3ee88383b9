//! Recording model calls: the way of every answer before its last byte leaves.
//!
//! A call is prepared where it comes from (`call_record`), and not where one write after the other is done. On SQLite a
//! call, or several that wait together, are one statement and one commit (`at_once`), in which the calls that they
//! continue are a guess (`latest_calls`) that the statement checks. Where the guess is wrong, on PostgreSQL, and within
//! a transaction with other writes that fails, it is done statement by statement (`one_by_one`). Both leave the same
//! rows.

pub(crate) mod at_once;
pub(crate) mod call_listener;
mod call_notifications;
pub(crate) mod call_record;
mod columns;
pub(crate) mod latest_calls;
pub(crate) mod new_call;
pub(crate) mod one_by_one;
mod record;
mod validation;

#[cfg(test)]
mod tests;
