use std::path::Path;

use serde_json::json;
use tokenizers::models::TrainerWrapper;
use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::{AddedToken, PreTokenizerWrapper};

use crate::RenderError;
use crate::tokenizer::tokenizer_errors::{file_error, tokenizer_error};

/// The template that [`write_tokenizer_directory`] gives a model: ChatML and nothing else.
pub const CHATML_TEMPLATE: &str = "\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\\n' }}
{%- endif %}";

/// Pads and ends a text that is no conversation.
const END_OF_TEXT: &str = "<|endoftext|>";
/// Begins a message.
pub(crate) const MESSAGE_START: &str = "<|im_start|>";
/// Ends a message.
pub(crate) const MESSAGE_END: &str = "<|im_end|>";

/// Trains a byte-level BPE tokenizer and gives its `tokenizer.json`. Same texts, same bytes.
///
/// The vocabulary holds the control tokens of ChatML, `special_tokens`, the 256 bytes and as many merges as fit into
/// `vocabulary_size` (fewer where the texts have no more pairs). Every digit is a token of its own, so that numbers
/// are spelled alike wherever they stand. Any text can be encoded, and decodes to itself.
pub fn train_byte_level_tokenizer<T: AsRef<str> + Send>(
    texts: impl IntoIterator<Item = T, IntoIter: Send>,
    vocabulary_size: usize,
    special_tokens: &[&str],
) -> Result<Vec<u8>, RenderError> {
    let mut specials = vec![END_OF_TEXT, MESSAGE_START, MESSAGE_END];
    specials.extend(special_tokens.iter().filter(|token| ![END_OF_TEXT, MESSAGE_START, MESSAGE_END].contains(token)));
    let smallest = 256 + specials.len();
    if vocabulary_size < smallest {
        let message =
            format!("a vocabulary of {vocabulary_size} is too small: bytes and control tokens are {smallest}");
        return Err(RenderError::Tokenizer { message });
    }
    let trainer = BpeTrainer::builder()
        .vocab_size(vocabulary_size)
        .min_frequency(2)
        .show_progress(false)
        .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
        .special_tokens(specials.into_iter().map(|token| AddedToken::from(token, true).normalized(false)).collect())
        .build();
    let byte_level = ByteLevel::new(false, false, true);
    let pre_tokenizers: Vec<PreTokenizerWrapper> = vec![Digits::new(true).into(), byte_level.into()];
    let mut trainer = TrainerWrapper::from(trainer);
    let mut tokenizer = tokenizers::Tokenizer::new(BPE::default());
    tokenizer.with_pre_tokenizer(Some(Sequence::new(pre_tokenizers))).with_decoder(Some(byte_level));
    tokenizer.train(&mut trainer, texts.into_iter()).map_err(|error| tokenizer_error(&error))?;
    let json = tokenizer.to_string(true).map_err(|error| tokenizer_error(&error))?;
    Ok(json.into_bytes())
}

/// Writes what makes a directory a tokenizer directory: `tokenizer.json`, and `tokenizer_config.json` with the ChatML
/// template, `<|im_end|>` as the end of a message and `<|endoftext|>` as padding.
pub fn write_tokenizer_directory(dir: &Path, tokenizer_json: &[u8]) -> Result<(), RenderError> {
    let config = json!({
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": null,
        "eos_token": MESSAGE_END,
        "pad_token": END_OF_TEXT,
        "clean_up_tokenization_spaces": false,
        "chat_template": CHATML_TEMPLATE,
    });
    std::fs::create_dir_all(dir).map_err(|error| file_error(dir, &error))?;
    for (name, bytes) in
        [("tokenizer.json", tokenizer_json), ("tokenizer_config.json", format!("{config:#}\n").as_bytes())]
    {
        let path = dir.join(name);
        std::fs::write(&path, bytes).map_err(|error| file_error(&path, &error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tokenizer;
    use crate::tokenizer::fingerprint::hex_sha256;

    const TEXTS: [&str; 3] =
        ["What is 12 plus 30? It is 42.", "What is 7 times 8? It is 56.", "What is the capital? It is the capital."];

    #[test]
    fn two_trainings_give_the_same_bytes() {
        let first = train_byte_level_tokenizer(TEXTS, 275, &["<think>"]).unwrap();
        assert!(first == train_byte_level_tokenizer(TEXTS, 275, &["<think>"]).unwrap());
        assert!(first != train_byte_level_tokenizer(TEXTS, 270, &["<think>"]).unwrap());
    }

    /// Also from one process to the next, whatever seeds its hash maps have.
    #[test]
    fn a_training_gives_the_bytes_that_it_always_gave() {
        let json = train_byte_level_tokenizer(TEXTS, 275, &["<think>"]).unwrap();
        assert_eq!(hex_sha256(&[&json]), "838fd84468af90051acc99a421501ff5fa616cd00d61cb35b20ad7e852ea0b15");
    }

    #[test]
    fn a_trained_directory_opens_as_what_it_was_trained_to_be() {
        let dir = tempfile::tempdir().unwrap();
        let json = train_byte_level_tokenizer(TEXTS, 270, &["<think>", MESSAGE_END]).unwrap();
        write_tokenizer_directory(dir.path(), &json).unwrap();
        let tokenizer = Tokenizer::open(dir.path()).unwrap();
        assert_eq!(tokenizer.vocabulary_size(), 270);
        assert_eq!(tokenizer.eos_ids(), [tokenizer.token_to_id("<|im_end|>").unwrap()]);
        assert_eq!(tokenizer.fingerprint().len(), 64);
        let tokens = tokenizer.encode_ordinary("It is 42, <think> é").unwrap();
        assert_eq!(tokenizer.decode(&tokens), "It is 42, <think> é");
        for digit in ["4", "2"] {
            assert!(tokens.contains(&tokenizer.token_to_id(digit).unwrap()));
        }
    }

    #[test]
    fn a_vocabulary_without_room_for_the_bytes_is_refused() {
        let error = train_byte_level_tokenizer(TEXTS, 258, &[]).unwrap_err();
        assert!(error.to_string().contains("bytes and control tokens are 259"), "{error}");
    }
}
