use serde_json::Value;

use super::answer_shape::{AnswerGrammar, AnswerShape};
use super::grammar_writer::GrammarWriter;
use super::lark::Rules;
use crate::{RenderError, ResponseFormat};

impl GrammarWriter<'_> {
    /// The grammar of an answer to `prompt`.
    pub(crate) fn write(&self, prompt: &[u32], shape: &AnswerShape<'_>) -> Result<AnswerGrammar, RenderError> {
        match self.format {
            ResponseFormat::Text => self.plain(shape),
            ResponseFormat::RoleColon => {
                Err(self.unsupported("a text ends its turns, which no grammar can tell from JSON"))
            }
            ResponseFormat::Harmony => self.harmony(prompt, shape),
            ResponseFormat::LlamaJson => self.llama(shape),
            ResponseFormat::Mistral | ResponseFormat::Phi | ResponseFormat::Gemma => self.marked(shape),
            ResponseFormat::QwenJson
            | ResponseFormat::QwenXml
            | ResponseFormat::Glm
            | ResponseFormat::DeepSeek
            | ResponseFormat::Dsml
            | ResponseFormat::Kimi => self.tagged(prompt, shape),
        }
    }

    /// Text without any marks. Calls are not read in it, so there are none.
    fn plain(&self, shape: &AnswerShape<'_>) -> Result<AnswerGrammar, RenderError> {
        match shape {
            AnswerShape::Json { schema, .. } => Ok(AnswerGrammar::JsonSchema((*schema).clone())),
            AnswerShape::Calls { .. } => self.lark("", Rules::default(), shape, None),
        }
    }

    /// Text, or calls behind a mark.
    fn marked(&self, shape: &AnswerShape<'_>) -> Result<AnswerGrammar, RenderError> {
        match shape {
            AnswerShape::Json { schema, tools: [] } => Ok(AnswerGrammar::JsonSchema((*schema).clone())),
            _ => self.lark("", Rules::default(), shape, None),
        }
    }

    /// Llama's calls are JSON too, and nothing but their keys tells them from an answer.
    fn llama(&self, shape: &AnswerShape<'_>) -> Result<AnswerGrammar, RenderError> {
        if let AnswerShape::Json { schema, .. } = shape
            && !is_never_a_llama_call(schema)
        {
            return Err(self.unsupported(
                "JSON with a name and parameters is a call in it, so the schema must be of an object that requires a \
                 property of another name",
            ));
        }
        match shape {
            AnswerShape::Json { schema, tools: [] } => Ok(AnswerGrammar::JsonSchema((*schema).clone())),
            _ => self.lark("", Rules::default(), shape, None),
        }
    }
}

/// Whether no JSON of a schema can be read as a call of Llama's.
fn is_never_a_llama_call(schema: &Value) -> bool {
    let keys_of_calls = ["name", "parameters", "arguments", "type", "id"];
    let required = schema.get("required").and_then(Value::as_array);
    let tells = |key: &Value| key.as_str().is_some_and(|key| !keys_of_calls.contains(&key));
    schema.get("type").is_some_and(|kind| kind == "object") && required.is_some_and(|keys| keys.iter().any(tells))
}
