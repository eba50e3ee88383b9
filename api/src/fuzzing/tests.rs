//! A short run of the fuzzer's function over exports that are nearly right.

use super::fuzz_otlp;
use super::mutation::{Random, export, mutated, protobuf};

#[test]
fn mutated_exports_are_read_or_refused() {
    let mut random = Random(1);
    for seed in [protobuf(), export().to_string().into_bytes()] {
        fuzz_otlp(&seed);
        for _ in 0..4000 {
            fuzz_otlp(&mutated(seed.clone(), &mut random));
        }
    }
}
