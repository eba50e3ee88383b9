use fulgurite_types::Tool;
use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::json_schema::spell_types;
use crate::parsing::{Lexeme, Mark, MarkLexer};
use crate::tools::tool_declarations::read_tools;
use crate::{RenderError, ResponseFormat, Tokenizer};

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
pub(super) enum Reasoning {
    /// Nothing: the model may reason, if the format has marks for it.
    Possible,
    /// Its beginning.
    Started,
    /// All of it.
    Over,
}

impl GrammarWriter<'_> {
    /// The declared tools, whose names must be such that every format can write them.
    pub(super) fn tools<'t>(&self, tools: &'t [Value]) -> Result<Vec<CalledTool<'t>>, RenderError> {
        read_tools(tools)?.into_iter().map(|tool| self.tool(tool)).collect()
    }

    fn tool<'t>(&self, tool: Tool<'t>) -> Result<CalledTool<'t>, RenderError> {
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
        spell_types(&mut parameters);
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
    pub(super) fn mark(&self, text: &str) -> Result<String, RenderError> {
        self.optional_mark(text)
            .ok_or_else(|| RenderError::MissingToken { renderer: self.renderer.to_owned(), token: text.to_owned() })
    }

    /// The same, if the tokenizer has a token for it.
    pub(super) fn optional_mark(&self, text: &str) -> Option<String> {
        let token = self.tokenizer.token_to_id(text).filter(|token| self.tokenizer.is_control(*token))?;
        Some(format!("<[{token}]>"))
    }

    /// What the prompt has opened of the answer.
    pub(super) fn opened(&self, prompt: &[u32]) -> Vec<Lexeme> {
        MarkLexer::new(self.tokenizer.clone(), self.format, self.stop_string).opened_by(self.tokenizer, prompt)
    }

    pub(super) fn unsupported(&self, message: impl Into<String>) -> RenderError {
        RenderError::ShapeUnsupported { renderer: self.renderer.to_owned(), message: message.into() }
    }
}

/// A tool that may be called.
pub(super) struct CalledTool<'t> {
    pub(super) name: &'t str,
    /// The schema of its arguments, an object's.
    pub(super) parameters: Value,
}

impl CalledTool<'_> {
    pub(super) fn declaration(&self) -> Value {
        json!({ "name": self.name, "parameters": self.parameters })
    }
}

/// Which part of the reasoning a prompt has written.
pub(super) fn reasoning(opened: &[Lexeme]) -> Reasoning {
    let of_reasoning = |lexeme: &&Lexeme| matches!(lexeme, Lexeme::Mark(Mark::ThinkOpen | Mark::ThinkClose, _));
    match opened.iter().rfind(of_reasoning) {
        Some(Lexeme::Mark(Mark::ThinkOpen, _)) => Reasoning::Started,
        Some(_) => Reasoning::Over,
        None => Reasoning::Possible,
    }
}
