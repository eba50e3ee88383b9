//! Jinja, as far as a template that stands alone can use it, with every step and byte counted.
//!
//! minijinja runs templates otherwise than Python in 1,874 of the 10,730 cases of `tests/vectors`, even with methods and
//! `tojson` as Python has them: in 54 of 1,232 renderings of families' templates. Speed is no reason for an interpreter of our
//! own: rendering three messages is 3 % of a call by either (`docs/reference/costs.md`).
//!
//! - [`limits`], [`escapes`], [`compiler`], [`program`]: a template's text, bounded, parsed and taken in.
//! - [`run`], [`values`], [`calls`]: how it runs.

mod calls;
mod compiler;
mod escapes;
#[cfg(test)]
mod hostile;
mod limits;
pub(crate) mod program;
pub(crate) mod run;
mod values;
