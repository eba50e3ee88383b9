//! Jinja, as far as a template that stands alone can use it, with every step and byte counted.
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
