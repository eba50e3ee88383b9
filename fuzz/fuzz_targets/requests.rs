//! Bodies of model requests, in every dialect.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fulgurite_proxy::fuzzing::fuzz_requests(bytes));
