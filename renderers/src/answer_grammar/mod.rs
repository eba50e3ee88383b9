//! What keeps an answer to a shape while it is sampled: a grammar of what the model's format may say.
//!
//! A grammar holds from the first token on, so it has to allow what a format puts before the answer proper (reasoning,
//! channels), and to spell calls as the format's parser reads them. What it spells is written here, format by format;
//! grammars are in llguidance's dialect of Lark, in which `<[ID]>` is a token and `%json` stands before a JSON schema.

mod calls;
mod harmony;
mod lark;
mod tagged;
#[cfg(test)]
mod tests;
mod xml_call;

use std::borrow::Cow;
use std::sync::Arc;

use lark::Rules;
use serde_json::{Value, json};

use crate::formats::format::ToolDeclaration;
use crate::parsing::{Lexeme, Mark, MarkLexer};
use crate::{RenderError, ResponseFormat, Tokenizer};

/// What an answer is to be, whatever reasoning precedes it.
#[derive(Clone, Copy, Debug)]
pub enum AnswerShape<'r> {
    /// JSON text that meets the schema, or calls of the tools if there are any.
    Json {
        /// The schema.
        schema: &'r Value,
        /// OpenAI declarations of the tools that may be called instead.
        tools: &'r [Value],
    },
    /// Calls and nothing else.
    Calls {
        /// OpenAI declarations of the tools that may be called; at least one.
        tools: &'r [Value],
        /// Whether there is one call and no more.
        single: bool,
    },
}

/// What an answer is kept to.
#[derive(Clone, Debug, PartialEq)]
pub enum AnswerGrammar {
    /// JSON text that meets this schema, from the first token to the last.
    JsonSchema(Value),
    /// What this grammar derives.
    Lark {
        /// The grammar.
        grammar: String,
        /// A schema that the whole answer meets if the model does not reason, which it need not: for hosts that know no
        /// grammars.
        without_reasoning: Option<Value>,
    },
}

/// What writes grammars for one model's answer to one prompt.
pub(crate) struct GrammarWriter<'r> {
    /// The renderer's name, for errors.
    pub(crate) renderer: &'r str,
    pub(crate) tokenizer: &'r Arc<Tokenizer>,
    pub(crate) format: ResponseFormat,
    /// A text that ends the turn.
    pub(crate) stop_string: Option<&'r str>,
}

/// What of the answer's reasoning stands at the prompt's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reasoning {
    /// Nothing: the model may reason, if the format has marks for it.
    Possible,
    /// Its beginning.
    Begun,
    /// All of it.
    Over,
}

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
            ResponseFormat::QwenJson | ResponseFormat::QwenXml | ResponseFormat::DeepSeek | ResponseFormat::Kimi => {
                self.tagged(prompt, shape)
            }
        }
    }

    /// Text without any marks. Calls are not read in it, so there are none.
    fn plain(&self, shape: &AnswerShape<'_>) -> Result<AnswerGrammar, RenderError> {
        match shape {
            AnswerShape::Json { schema, .. } => Ok(AnswerGrammar::JsonSchema((*schema).clone())),
            AnswerShape::Calls { .. } => self.lark("", Rules::default(), shape, None),
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

    /// `start` is what comes before the body, and `rules` what it needs.
    fn lark(
        &self,
        start: &str,
        mut rules: Rules,
        shape: &AnswerShape<'_>,
        without_reasoning: Option<Value>,
    ) -> Result<AnswerGrammar, RenderError> {
        let body = match shape {
            AnswerShape::Json { schema, tools: [] } => lark::json(schema),
            AnswerShape::Json { schema, tools } => {
                format!("{} | {}", lark::json(schema), self.calls(&self.tools(tools)?, false, &mut rules)?)
            }
            AnswerShape::Calls { tools, single } => self.calls(&self.tools(tools)?, *single, &mut rules)?,
        };
        rules.add("body", &body);
        rules.add("start", &format!("{start} body"));
        Ok(AnswerGrammar::Lark { grammar: rules.into_text(), without_reasoning })
    }

    /// The declared tools, whose names must be such that every format can write them.
    fn tools<'t>(&self, tools: &'t [Value]) -> Result<Vec<CalledTool<'t>>, RenderError> {
        ToolDeclaration::read_all(tools)?.into_iter().map(|tool| self.tool(tool)).collect()
    }

    fn tool<'t>(&self, tool: ToolDeclaration<'t>) -> Result<CalledTool<'t>, RenderError> {
        let name = tool.name;
        let breaks_marks =
            |character: char| character.is_whitespace() || character.is_control() || "<>\"\\".contains(character);
        if name.is_empty() || name.contains(breaks_marks) {
            return Err(self.unsupported(format!("a call of the tool `{name}` cannot be told by its name")));
        }
        let mut parameters = match tool.parameters() {
            // Clients write null for a tool without parameters.
            Cow::Borrowed(Value::Null) => json!({}),
            parameters => parameters.into_owned(),
        };
        let Some(schema) = parameters.as_object_mut() else {
            return Err(self.unsupported(format!("the parameters of the tool `{name}` are no schema of an object")));
        };
        // A call's arguments are an object, whether or not the schema says so.
        match schema.entry("type").or_insert_with(|| "object".into()) {
            Value::String(kind) if kind == "object" => Ok(CalledTool { name, parameters }),
            _ => Err(self.unsupported(format!("the parameters of the tool `{name}` are not an object's"))),
        }
    }

    /// A mark as grammars name it.
    fn mark(&self, text: &str) -> Result<String, RenderError> {
        self.optional_mark(text)
            .ok_or_else(|| RenderError::MissingToken { renderer: self.renderer.to_owned(), token: text.to_owned() })
    }

    /// The same, if the tokenizer has a token for it.
    fn optional_mark(&self, text: &str) -> Option<String> {
        let token = self.tokenizer.token_to_id(text).filter(|token| self.tokenizer.is_control(*token))?;
        Some(format!("<[{token}]>"))
    }

    /// What the prompt has opened of the answer.
    fn opened(&self, prompt: &[u32]) -> Vec<Lexeme> {
        MarkLexer::new(self.tokenizer.clone(), self.format, self.stop_string).opened_by(self.tokenizer, prompt)
    }

    fn unsupported(&self, message: impl Into<String>) -> RenderError {
        RenderError::ShapeUnsupported { renderer: self.renderer.to_owned(), message: message.into() }
    }
}

/// A tool that may be called.
struct CalledTool<'t> {
    name: &'t str,
    /// The schema of its arguments, an object's.
    parameters: Value,
}

impl CalledTool<'_> {
    fn declaration(&self) -> Value {
        json!({ "name": self.name, "parameters": self.parameters })
    }
}

/// Whether no JSON of a schema can be read as a call of Llama's.
fn is_never_a_llama_call(schema: &Value) -> bool {
    let keys_of_calls = ["name", "parameters", "arguments", "type", "id"];
    let required = schema.get("required").and_then(Value::as_array);
    let tells = |key: &Value| key.as_str().is_some_and(|key| !keys_of_calls.contains(&key));
    schema.get("type").is_some_and(|kind| kind == "object") && required.is_some_and(|keys| keys.iter().any(tells))
}

/// Which part of the reasoning a prompt has written.
fn reasoning(opened: &[Lexeme]) -> Reasoning {
    let of_reasoning = |lexeme: &&Lexeme| matches!(lexeme, Lexeme::Mark(Mark::ThinkOpen | Mark::ThinkClose, _));
    match opened.iter().rfind(of_reasoning) {
        Some(Lexeme::Mark(Mark::ThinkOpen, _)) => Reasoning::Begun,
        Some(_) => Reasoning::Over,
        None => Reasoning::Possible,
    }
}
