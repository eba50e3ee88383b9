//! Models of other programs.

mod remote_models;
mod upstream;
