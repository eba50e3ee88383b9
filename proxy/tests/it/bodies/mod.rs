//! What bodies hold that no reader of JSON keeps by itself.

mod lone_surrogates;
mod long_integers;
