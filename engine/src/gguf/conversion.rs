//! A GGUF file written as a model directory.

use std::cell::Cell;
use std::collections::{BTreeSet, HashMap};
use std::io::Read;
use std::path::Path;

use super::blocks::BlockType;
use super::config::{ROPE_FACTORS, model_config};
use super::header::{GgufFile, MAGIC, TensorEntry};
use super::tensor_names::gguf_name;
use super::tokenizer::tokenizer_files;
use crate::checkpoints::checkpoint::write_configuration;
use crate::checkpoints::new_directory::NewDirectory;
use crate::checkpoints::tensor_files::{Content, WEIGHTS, Written};
use crate::error::EngineError;
use crate::model::architecture::Architecture;
use crate::model::config::ModelConfig;
use crate::model::element_type::ElementType;
use crate::model::layout::{Layout, Tensor};

/// Whether a file begins as GGUF files do.
pub fn is_gguf(path: &Path) -> bool {
    let mut magic = [0; MAGIC.len()];
    // What is no file, as a pipe, could block the reader.
    if !path.is_file() {
        return false;
    }
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut magic));
    read.is_ok() && magic == MAGIC
}

/// Writes the model in a GGUF file, with its tokenizer and chat template, as a directory that must not exist yet.
/// Numbers become `elements`; unless configured otherwise bfloat16 where the file is quantised, and what loses nothing
/// elsewhere. `watch` is told how many of the model's numbers are written, and how many there are.
///
/// # Errors
///
/// Names what is wrong with the file, or what in it this engine cannot run. The directory appears whole or not at all.
pub fn convert_gguf(
    source: &Path,
    target: &Path,
    elements: Option<ElementType>,
    watch: &dyn Fn(u64, u64),
) -> Result<(), EngineError> {
    let file = GgufFile::open(source)?;
    let config = model_config(&file)?;
    let layout = Layout::new(&config);
    let sources = sources(&file, &config, &layout)?;
    let files = tokenizer_files(&file, config.vocab_size)?;
    let elements = elements.unwrap_or_else(|| lossless(&file));
    let (done, all) = (Cell::new(0), layout.length as u64);
    let count = |numbers: usize| {
        done.set(done.get() + numbers as u64);
        watch(done.get(), all);
    };
    let mut new = NewDirectory::begin(target)?;
    write_configuration(&mut new, &config, elements)?;
    for (name, content) in files {
        new.write(name, content.to_string().as_bytes())?;
    }
    let written = sources.iter().map(|source| source.written(&file, elements, &count)).collect();
    new.write_tensors(WEIGHTS, written)?;
    new.complete()
}

/// What the file's numbers become unless configured otherwise. What has been quantised has lost more than bfloat16
/// loses.
pub(super) fn lossless(file: &GgufFile) -> ElementType {
    let kinds: BTreeSet<BlockType> =
        file.tensors.iter().filter(|tensor| tensor.shape.len() > 1).map(|tensor| tensor.kind).collect();
    let all = |kind: BlockType| kinds.iter().all(|it| *it == kind);
    match kinds.iter().all(|kind| kind.numbers() == 1) {
        false => ElementType::Bf16,
        true if all(BlockType::Bf16) => ElementType::Bf16,
        true if all(BlockType::F16) => ElementType::F16,
        true => ElementType::F32,
    }
}

/// Where a tensor of the directory comes from.
pub(super) struct Source<'a> {
    tensor: &'a Tensor,
    entry: &'a TensorEntry,
    /// Heads whose rows the file has in the order of its rotary embedding, which turns neighbours.
    interleaved_heads: Option<usize>,
}

/// Every tensor that the model needs, and none beside them.
pub(super) fn sources<'a>(
    file: &'a GgufFile,
    config: &ModelConfig,
    layout: &'a Layout,
) -> Result<Vec<Source<'a>>, EngineError> {
    let refuse =
        |name: &str, message: String| EngineError::Tensor { path: file.path.clone(), name: name.into(), message };
    let entries: HashMap<&str, &TensorEntry> = file.tensors.iter().map(|entry| (entry.name.as_str(), entry)).collect();
    let mut sources = Vec::new();
    for tensor in &layout.tensors {
        let name = gguf_name(&tensor.name).ok_or_else(|| refuse(&tensor.name, "GGUF has no name for it".into()))?;
        let entry = *entries.get(name.as_str()).ok_or_else(|| refuse(&name, "it is missing".into()))?;
        if entry.shape != tensor.shape {
            return Err(refuse(&name, format!("its shape is {:?}, but must be {:?}", entry.shape, tensor.shape)));
        }
        sources.push(Source { tensor, entry, interleaved_heads: interleaved_heads(config, &tensor.name) });
    }
    let used: BTreeSet<&str> = sources.iter().map(|source| source.entry.name.as_str()).chain([ROPE_FACTORS]).collect();
    match file.tensors.iter().find(|entry| !used.contains(entry.name.as_str())) {
        Some(entry) => Err(refuse(&entry.name, "the model has no such tensor".into())),
        None => Ok(sources),
    }
}

/// llama.cpp turns neighbouring numbers of a Llama head, and Hugging Face's code those half a head apart.
pub(super) fn interleaved_heads(config: &ModelConfig, name: &str) -> Option<usize> {
    let of_llama = config.architecture == Architecture::Llama;
    match name {
        name if of_llama && name.ends_with("q_proj.weight") => Some(config.num_attention_heads),
        name if of_llama && name.ends_with("k_proj.weight") => Some(config.num_key_value_heads),
        _ => None,
    }
}

impl<'a> Source<'a> {
    /// As it is written; `count` is called with how many numbers have been read.
    fn written(&'a self, file: &'a GgufFile, elements: ElementType, count: &'a dyn Fn(usize)) -> (String, Written<'a>) {
        let read = move |start, numbers: &mut [f32]| {
            self.read(file, start, numbers)?;
            count(numbers.len());
            Ok(())
        };
        let content = Content::Read(Box::new(read));
        (self.tensor.name.clone(), Written { dtype: elements.dtype(), shape: self.tensor.shape.clone(), content })
    }

    /// Whole rows of the directory's tensor, from a number on.
    fn read(&self, file: &GgufFile, start: usize, numbers: &mut [f32]) -> std::io::Result<()> {
        let row = self.entry.row();
        let Some(heads) = self.interleaved_heads else { return file.read_rows(self.entry, start / row, numbers) };
        let width = self.entry.count() / row / heads;
        for (index, numbers) in numbers.chunks_exact_mut(row).enumerate() {
            file.read_rows(self.entry, interleaved_row(start / row + index, width), numbers)?;
        }
        Ok(())
    }
}

/// The row at which llama.cpp has what Hugging Face has at `row`, of heads `width` rows high.
fn interleaved_row(row: usize, width: usize) -> usize {
    let (head, within) = (row / width, row % width);
    let (half, pair) = (within / (width / 2), within % (width / 2));
    head * width + pair * 2 + half
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use serde_json::{Value, json};
    use tempfile::TempDir;

    use super::*;
    use crate::checkpoints::tensor_files::{CONFIG, find_weights, read_weights};

    fn vector(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors").join(name)
    }

    type Change = dyn Fn(&mut Vec<u8>);

    /// A file of the vectors with some of its bytes changed, converted.
    fn converted(name: &str, change: impl Fn(&mut Vec<u8>)) -> (TempDir, Result<PathBuf, String>) {
        let home = tempfile::tempdir().unwrap();
        let mut bytes = std::fs::read(vector("gguf").join(name)).unwrap();
        change(&mut bytes);
        let (source, target) = (home.path().join("model.gguf"), home.path().join("model"));
        std::fs::write(&source, bytes).unwrap();
        let result = convert_gguf(&source, &target, None, &|_, _| ()).map_err(|error| error.to_string());
        if result.is_err() {
            assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 1, "nothing is left of a refused file");
        }
        let without_home = |error: String| error.replace(home.path().to_str().unwrap(), "[home]");
        let result = result.map(|()| target).map_err(without_home);
        (home, result)
    }

    #[test]
    fn a_converted_file_is_the_model_that_it_was_made_from() {
        for (name, kind) in [("llama", "F16"), ("qwen2-yarn", "F32"), ("qwen3-tied", "F32")] {
            let (_home, directory) = converted(&format!("{name}.gguf"), |_| ());
            let directory = directory.unwrap();
            let read = |directory: &Path| ModelConfig::read(&directory.join(CONFIG)).unwrap();
            let (original, config) = (read(&vector(name)), read(&directory));
            assert_eq!(config.to_shape(), original.to_shape(), "{name}");
            let layout = Layout::new(&config);
            assert!(
                read_weights(&directory, &layout).unwrap() == read_weights(&vector(name), &layout).unwrap(),
                "{name}"
            );
            let kinds = find_weights(&directory, &layout).unwrap().element_types();
            assert_eq!(kinds.into_keys().collect::<Vec<_>>(), [kind], "{name}");
        }
    }

    #[test]
    fn a_converted_tokenizer_reads_and_writes_as_the_file_says() {
        for (name, text, expected) in [
            // Digits one by one, and spaces in their place.
            ("qwen3-tied", "ab a 12", vec!["ab", "Ġa", "Ġ", "1", "2"]),
            // A control token and one that users have defined are whole wherever they stand.
            ("llama", "a<tool>b<|end|>", vec!["a", "<tool>", "b", "<|end|>"]),
            ("qwen2-yarn", "a  ab", vec!["a", "Ġ", "Ġ", "ab"]),
        ] {
            let (_home, directory) = converted(&format!("{name}.gguf"), |_| ());
            let tokenizer = tokenizers::Tokenizer::from_file(directory.unwrap().join("tokenizer.json")).unwrap();
            let encoding = tokenizer.encode(text, false).unwrap();
            assert_eq!(encoding.get_tokens(), expected, "{name}");
            assert_eq!(tokenizer.decode(encoding.get_ids(), false).unwrap(), text, "{name}");
        }
    }

    #[test]
    fn template_and_special_tokens_stand_where_readers_look_for_them() {
        let (_home, directory) = converted("llama.gguf", |_| ());
        let directory = directory.unwrap();
        let file = |name: &str| -> Value {
            serde_json::from_str(&std::fs::read_to_string(directory.join(name)).unwrap()).unwrap()
        };
        let config = file("tokenizer_config.json");
        assert_eq!((&config["bos_token"], &config["eos_token"]), (&json!("<|begin|>"), &json!("<|end|>")));
        assert!(config["chat_template"].as_str().unwrap().starts_with("{% for message in messages %}"));
        assert_eq!(file("generation_config.json"), json!({"eos_token_id": [1], "bos_token_id": 0}));
        assert_eq!(file("tokenizer.json")["post_processor"]["special_tokens"]["<|begin|>"]["ids"], json!([0]));
    }

    /// Puts `new` in place of `old`, which must be as long and be there.
    fn replaced(old: &'static [u8], new: &'static [u8]) -> impl Fn(&mut Vec<u8>) {
        move |bytes| {
            let at = bytes.windows(old.len()).position(|window| window == old).unwrap();
            bytes[at..at + old.len()].copy_from_slice(new);
        }
    }

    /// Changes the bytes that stand `behind` so many after the end of `name`.
    fn behind(name: &'static str, behind: usize, new: &'static [u8]) -> impl Fn(&mut Vec<u8>) {
        move |bytes| {
            let at =
                bytes.windows(name.len()).position(|window| window == name.as_bytes()).unwrap() + name.len() + behind;
            bytes[at..at + new.len()].copy_from_slice(new);
        }
    }

    const HUGE: &[u8] = &(1_u64 << 60).to_le_bytes();

    #[test]
    fn a_file_that_lies_is_refused_by_name() {
        let refused = |change: &dyn Fn(&mut Vec<u8>)| converted("llama.gguf", change).1.unwrap_err();
        let table: Vec<(&str, Box<Change>)> = vec![
            ("it does not begin as a GGUF file does", Box::new(|bytes| bytes[0] = b'g')),
            ("its version is 1; versions 2 and 3 are read", Box::new(|bytes| bytes[4] = 1)),
            ("it is for big-endian machines", Box::new(|bytes| bytes[4..8].copy_from_slice(&[0, 0, 0, 3]))),
            ("it claims 1152921504606846976 tensors", Box::new(|bytes| bytes[8..16].copy_from_slice(HUGE))),
            ("it claims 1152921504606846976 metadata entries", Box::new(|bytes| bytes[16..24].copy_from_slice(HUGE))),
            ("a metadata key claims 1152921504606846976 bytes", Box::new(|bytes| bytes[24..32].copy_from_slice(HUGE))),
            (
                "general.architecture claims 1152921504606846976 bytes",
                Box::new(behind("general.architecture", 4, HUGE)),
            ),
            ("tokenizer.ggml.tokens claims 1152921504606846976 elements", Box::new(behind("ggml.tokens", 8, HUGE))),
            ("tokenizer.ggml.tokens is a list of lists", Box::new(behind("ggml.tokens", 4, &[9]))),
            ("tokenizer.ggml.tokens is a list of the unknown type 99", Box::new(behind("ggml.tokens", 4, &[99]))),
            ("llama.block_count is a value of the unknown type 13", Box::new(behind("llama.block_count", 0, &[13]))),
            (
                "llama.block_count is 4294967295, which no model has",
                Box::new(behind("llama.block_count", 4, &[255; 4])),
            ),
            ("it claims 25 layers and has 21 tensors", Box::new(behind("llama.block_count", 4, &[25]))),
            (
                "llama.embedding_length is 4294967295, which no model has",
                Box::new(behind("embedding_length", 4, &[255; 4])),
            ),
            (
                "general.architecture is gemma",
                Box::new(replaced(b"\x05\0\0\0\0\0\0\0llama", b"\x05\0\0\0\0\0\0\0gemma")),
            ),
            (
                "tokenizer.ggml.pre is llama-bpq; known are smollm, qwen2,",
                Box::new(replaced(b"llama-bpe", b"llama-bpq")),
            ),
            ("tokenizer.ggml.model is gpt3; only gpt2", Box::new(replaced(b"gpt2", b"gpt3"))),
            ("the token \"a\" is there twice", Box::new(replaced(b"\x01\0\0\0\0\0\0\0b", b"\x01\0\0\0\0\0\0\0a"))),
            ("tokenizer.ggml.bos_token_id is 200, and there are", Box::new(behind("ggml.bos_token_id", 4, &[200]))),
            ("tensor blk.0.attn_q.weight: it has 9 dimensions", Box::new(behind("blk.0.attn_q.weight", 0, &[9]))),
            (
                "tensor blk.0.attn_q.weight: elements of type 10 (Q2_K)",
                Box::new(behind("blk.0.attn_q.weight", 20, &[10])),
            ),
            (
                "tensor blk.0.attn_q.weight: [1152921504606846976, 16] numbers",
                Box::new(behind("blk.0.attn_q.weight", 12, HUGE)),
            ),
            (
                "tensor blk.0.attn_q.weight: [16, 16] numbers of type Q8_0 cannot be",
                Box::new(behind("blk.0.attn_q.weight", 20, &[8])),
            ),
            (
                "tensor blk.0.attn_q.weight: it begins at 1, which is no multiple",
                Box::new(behind("blk.0.attn_q.weight", 24, &[1, 0])),
            ),
            (
                "tensor blk.0.attn_q.weight: it reaches beyond the file's end",
                Box::new(behind("blk.0.attn_q.weight", 24, HUGE)),
            ),
            ("it overlaps", Box::new(behind("blk.0.attn_q.weight", 24, &[0, 0]))),
            (
                "tensor blk.0.attn_q.weight: its shape is [8, 32], but must be [16, 16]",
                Box::new(|bytes| {
                    behind("blk.0.attn_q.weight", 4, &[32])(bytes);
                    behind("blk.0.attn_q.weight", 12, &[8])(bytes);
                }),
            ),
            (
                "tensor blk.0.attn_q.weight: it is missing",
                Box::new(replaced(b"blk.0.attn_q.weight", b"blk.9.attn_q.weight")),
            ),
        ];
        for (expected, change) in table {
            let error = refused(&change);
            assert!(error.contains(expected), "expected {expected:?}: {error}");
        }
    }

    #[test]
    fn a_file_that_is_cut_off_anywhere_is_refused() {
        let whole = std::fs::read(vector("gguf/llama.gguf")).unwrap();
        for length in
            (0..2500).step_by(7).chain((2500..whole.len()).step_by(509)).filter(|length| *length < whole.len())
        {
            let (_, result) = converted("llama.gguf", |bytes| bytes.truncate(length));
            assert!(result.is_err(), "{length} of {} bytes are taken for a model", whole.len());
        }
    }

    proptest::proptest! {
        /// Whatever is changed, there is an answer: a model or a refusal.
        #[test]
        fn a_file_with_changed_bytes_is_converted_or_refused(changes in proptest::collection::vec((0_usize..4000, 0_u8..), 1..6)) {
            let _either = converted("qwen3-tied.gguf", |bytes| changes.iter().for_each(|(at, byte)| bytes[*at] = *byte));
        }
    }
}
