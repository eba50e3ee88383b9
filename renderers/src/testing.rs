//! Tokenizers that the tests of this crate share.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex};

use fulgurite_types::Message;

use crate::{
    Renderer, TemplateOptions, TemplateRenderer, Tokenizer, TrainOnWhat, WeightedTokens, train_byte_level_tokenizer,
    write_tokenizer_directory,
};

/// Tokenizers under `tests/vectors/tokenizers`.
pub(crate) const TOKENIZERS: [&str; 6] = ["deepseek", "glm", "gpt_oss", "kimi", "llama3", "qwen3"];

/// The directory of a tokenizer by its name.
pub(crate) fn vector_dir(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/tokenizers").join(name)
}

/// A tokenizer by its name.
pub(crate) fn vector_tokenizer(name: &str) -> Arc<Tokenizer> {
    static OPENED: LazyLock<Mutex<HashMap<String, Arc<Tokenizer>>>> = LazyLock::new(Mutex::default);
    let mut opened = OPENED.lock().unwrap();
    let open = || Arc::new(Tokenizer::open(&vector_dir(name)).unwrap());
    opened.entry(name.to_owned()).or_insert_with(open).clone()
}

/// A tokenizer directory as this crate's own trainer makes it.
pub(crate) fn tiny_directory() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let texts = ["The quick brown fox jumps over the lazy dog 1234 times.", "assistant user system\n\n"];
    let json = train_byte_level_tokenizer(texts, 320, &["<think>"]).unwrap();
    write_tokenizer_directory(dir.path(), &json).unwrap();
    dir
}

/// The tokenizer of [`tiny_directory`].
pub(crate) fn tiny_tokenizer() -> Arc<Tokenizer> {
    static TINY: LazyLock<Arc<Tokenizer>> =
        LazyLock::new(|| Arc::new(Tokenizer::open(tiny_directory().path()).unwrap()));
    TINY.clone()
}

/// A copy of the directory of a tokenizer, with a chat template and an end of message of its own.
pub(crate) fn directory_with_template(name: &str, template: &str, eos_token: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::copy(vector_dir(name).join("tokenizer.json"), dir.path().join("tokenizer.json")).unwrap();
    let config = serde_json::json!({"eos_token": eos_token, "chat_template": template});
    std::fs::write(dir.path().join("tokenizer_config.json"), config.to_string()).unwrap();
    dir
}

/// The one sequence that a conversation without tools makes.
pub(crate) fn supervised(renderer: &dyn Renderer, messages: &[Message], train_on: TrainOnWhat) -> WeightedTokens {
    let mut examples = renderer.render_supervised(messages, &[], &train_on).unwrap();
    assert_eq!(examples.len(), 1);
    examples.remove(0)
}

/// The text of the tokens that are to be learned.
pub(crate) fn trained_text(renderer: &dyn Renderer, weighted: &WeightedTokens) -> String {
    assert_eq!(weighted.tokens.len(), weighted.weights.len());
    let pairs = weighted.tokens.iter().zip(&weighted.weights);
    let trained: Vec<u32> = pairs.filter(|(_, weight)| **weight == 1.0).map(|(token, _)| *token).collect();
    renderer.tokenizer().decode(&trained)
}

/// The templates under `tests/vectors/templates`, each of the constructs of one family's own.
pub(crate) const FAMILY_TEMPLATES: [&str; 11] = [
    "deepseek_v3",
    "gemma",
    "gpt_oss",
    "kimi",
    "llama3_1",
    "mistral",
    "phi",
    "qwen2_5",
    "qwen3",
    "qwen3_2507",
    "qwen3_5",
];

/// A model directory with a family's template and a tokenizer that has its control tokens.
pub(crate) fn family_directory(name: &str) -> tempfile::TempDir {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/vectors/templates/{name}.jinja"));
    let template = std::fs::read_to_string(path).unwrap();
    let (tokenizer, eos) = match name {
        "deepseek_v3" => ("deepseek", "<｜end▁of▁sentence｜>"),
        "gpt_oss" => ("gpt_oss", "<|return|>"),
        "kimi" => ("kimi", "<|im_end|>"),
        "llama3_1" => ("llama3", "<|eot_id|>"),
        "gemma" => ("<bos> <start_of_turn> <end_of_turn>", "<end_of_turn>"),
        "mistral" => ("<s> </s> [INST] [/INST] [TOOL_CALLS] [AVAILABLE_TOOLS] [/AVAILABLE_TOOLS]", "</s>"),
        "phi" => ("<|system|> <|user|> <|assistant|> <|end|> <|endoftext|>", "<|end|>"),
        _ => ("qwen3", "<|im_end|>"),
    };
    let dir = directory_with_template("qwen3", &template, eos);
    match TOKENIZERS.contains(&tokenizer) {
        true => {
            std::fs::copy(vector_dir(tokenizer).join("tokenizer.json"), dir.path().join("tokenizer.json")).unwrap();
        }
        false => {
            let control: Vec<&str> = tokenizer.split(' ').collect();
            let json = train_byte_level_tokenizer(["user assistant\n\n"], 300, &control).unwrap();
            std::fs::write(dir.path().join("tokenizer.json"), json).unwrap();
        }
    }
    let mut config = serde_json::json!({"eos_token": eos, "chat_template": template});
    if tokenizer == "gpt_oss" {
        let ids = ["<|return|>", "<|call|>"].map(|token| vector_tokenizer("gpt_oss").token_to_id(token).unwrap());
        let generation = serde_json::json!({"eos_token_id": ids}).to_string();
        std::fs::write(dir.path().join("generation_config.json"), generation).unwrap();
    }
    config["bos_token"] = "<s>".into();
    std::fs::write(dir.path().join("tokenizer_config.json"), config.to_string()).unwrap();
    dir
}

/// The renderer of a family's template; its clock stands still.
pub(crate) fn family_renderer(name: &str) -> TemplateRenderer {
    let options = TemplateOptions { current_date: Some("2024-07-26".to_owned()), ..TemplateOptions::default() };
    let tokenizer = Arc::new(Tokenizer::open(family_directory(name).path()).unwrap());
    TemplateRenderer::open(tokenizer, options).unwrap().unwrap()
}
