//! Whose a call is, what it may take, and how it goes on from the record.

mod attribution;
mod budgets;
mod continuation;
mod side_requests;
