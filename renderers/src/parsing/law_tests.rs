use proptest::prelude::*;

use crate::fuzzing::fuzz_parse;

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// The laws themselves stand in [`fuzz_parse`].
    #[test]
    fn tokens_of_any_kind_keep_the_laws(bytes in proptest::collection::vec(any::<u8>(), 2..40)) {
        fuzz_parse(&bytes);
    }

    /// Mostly marks and what stands between them.
    #[test]
    fn markup_of_any_kind_keeps_the_laws(
        setting in any::<u8>(), prompt in any::<u8>(), bytes in proptest::collection::vec(0u8..160, 0..24),
    ) {
        fuzz_parse(&[&[setting, prompt], &bytes[..]].concat());
    }
}
