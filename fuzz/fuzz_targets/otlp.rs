//! OpenTelemetry's exports, in both encodings.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fulgurite_api::fuzzing::fuzz_otlp(bytes));
