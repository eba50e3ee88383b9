//! What a model says, in every format.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fulgurite_renderers::fuzzing::fuzz_parse(bytes));
