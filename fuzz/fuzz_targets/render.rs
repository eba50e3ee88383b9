//! Any conversation with any tools, and any reply to it, in every format.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fulgurite_renderers::fuzzing::fuzz_render(bytes));
