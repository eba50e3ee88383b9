//! Requests to the store's routes.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fulgurite_agentlightning::fuzzing::fuzz_rest(bytes));
