use serde::Serialize;

use crate::model::element_type::ElementType;

/// What is true of a GGUF file, and of no model directory.
#[derive(Clone, Debug, Serialize)]
pub struct GgufFacts {
    /// What the model is called in it.
    pub name: Option<String>,
    /// How text is cut into words, as llama.cpp names it.
    pub pre_tokenizer: String,
    /// Tokens that its tokenizer knows.
    pub tokens: usize,
    /// Whether it has a chat template.
    pub chat_template: bool,
    /// What its numbers become unless configured otherwise.
    pub converted_to: ElementType,
}
