//! Tokenizers from strangers: whatever their files claim, there is a tokenizer or a refusal that names the file, and a
//! text is encoded in bounded time or not at all.

use std::path::PathBuf;

use fulgurite_renderers::Tokenizer;
use serde_json::{Value, json};

fn vector() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors/tokenizers/qwen3/tokenizer.json"))
}

/// A tokenizer of the vectors with its `tokenizer.json` changed.
fn changed(change: impl FnOnce(&mut Value)) -> Result<(tempfile::TempDir, Tokenizer), String> {
    let home = tempfile::tempdir().unwrap();
    let path = vector();
    let mut fields: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    change(&mut fields);
    std::fs::write(home.path().join("tokenizer.json"), fields.to_string()).unwrap();
    let opened = Tokenizer::open(home.path()).map_err(|error| error.to_string())?;
    Ok((home, opened))
}

#[test]
fn a_models_own_pattern_is_bounded_and_gives_the_librarys_tokens() {
    let split = |pattern: &str| json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false});
    let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false});
    let with = |pattern: &str| {
        let steps = json!({"type": "Sequence", "pretokenizers": [split(pattern), bytes]});
        changed(|fields| fields["pre_tokenizer"] = steps).unwrap()
    };
    let (home, usual) = with(r"\w{1,3}(?=\w)|\w+|\s+(?!\S)|\W");
    let library = tokenizers::Tokenizer::from_file(home.path().join("tokenizer.json")).unwrap();
    for text in ["", "a few words  and 12345\n\n", "<|im_start|>user é<|im_end|>", "   "] {
        let expected = library.encode_fast(text, false).unwrap().get_ids().to_vec();
        assert_eq!(usual.encode_with_specials(text).unwrap(), expected, "{text:?}");
    }
    let (_home, hostile) = with(r"((a|aa)+)\1\1c");
    let text = "a".repeat(100);
    for error in [hostile.encode_ordinary(&text).unwrap_err(), hostile.encode_with_specials(&text).unwrap_err()] {
        assert!(error.to_string().contains("the model's pattern"), "{error}");
    }
}

#[test]
fn a_tokenizer_that_claims_too_much_is_refused_with_its_file() {
    let token = |id: u64| {
        json!({"id": id, "content": "<far>", "single_word": false, "lstrip": false, "rstrip": false,
                                  "normalized": false, "special": true})
    };
    let refused = |change: &dyn Fn(&mut Value)| changed(change).err().unwrap();
    for id in [u64::from(u32::MAX), 1 << 30, 1 << 22] {
        let error = refused(&|fields| fields["added_tokens"].as_array_mut().unwrap().push(token(id)));
        assert!(error.contains("tokenizer.json: its token \"<far>\" has the id"), "{error}");
    }
    let error = refused(&|fields| fields["model"]["vocab"]["far"] = json!(u32::MAX));
    assert!(error.contains("its token \"far\" has the id 4294967295"), "{error}");
    let error = refused(&|fields| fields["model"]["merges"] = json!([["no", "such"]]));
    assert!(error.contains("tokenizer.json: "), "{error}");
    let error = refused(&|fields| {
        fields["normalizer"] = json!({"type": "Replace", "pattern": {"Regex": r"(a+)+\1$"}, "content": ""});
    });
    assert!(error.contains("tokenizer.json: its normalizer has a pattern"), "{error}");
    let home = tempfile::tempdir().unwrap();
    let sparse = std::fs::File::create(home.path().join("tokenizer.json")).unwrap();
    sparse.set_len(3 << 30).unwrap();
    let error = Tokenizer::open(home.path()).unwrap_err().to_string();
    assert!(error.contains("tokenizer.json: it has 3221225472 bytes"), "{error}");
}

#[test]
fn a_panic_of_the_library_is_an_error() {
    // A normalizer's table that has no root, at which the library looks first.
    let empty = json!({"type": "Precompiled", "precompiled_charsmap": "AAAAAA=="});
    let (_home, tokenizer) = changed(|fields| fields["normalizer"] = empty).unwrap();
    let error = tokenizer.encode_ordinary("word").unwrap_err().to_string();
    assert!(error.contains("panic"), "{error}");
    assert!(tokenizer.encode_with_specials("word").is_err());
}

#[test]
fn changed_bytes_of_a_tokenizer_make_a_tokenizer_or_a_refusal() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("tokenizer.json");
    let whole = std::fs::read(vector()).unwrap();
    let mut state = 3_u64;
    let mut below = |limit: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % limit
    };
    for round in 0..150 {
        let mut bytes = whole.clone();
        for _ in 0..=below(3) {
            let at = below(bytes.len());
            bytes[at] = b"0129[]{}\",:-ae"[below(14)];
        }
        if round % 5 == 0 {
            bytes.truncate(below(bytes.len()));
        }
        std::fs::write(&path, bytes).unwrap();
        match Tokenizer::open(home.path()) {
            Ok(tokenizer) => drop(tokenizer.encode_ordinary("Some <think> words, 123 of them é\n")),
            Err(error) => assert!(error.to_string().contains("tokenizer.json"), "{error}"),
        }
    }
}
