use fulgurite_backends::Capabilities;
use fulgurite_renderers::{AnswerGrammar, AnswerShape, RenderError, Renderer};
use fulgurite_types::{Constraint, Tool};
use serde_json::Value;

use crate::error::ProxyError;

/// The form that a request's fields require of an answer.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct StructuredOutput {
    /// Its text is JSON.
    pub(crate) json: Option<JsonForm>,
    /// It is a call.
    pub(crate) call: Option<ForcedCall>,
    /// At most one tool call; the name of the field that requires that.
    pub(crate) single_call: Option<&'static str>,
}

/// A form of text.
#[derive(Debug, PartialEq)]
pub(crate) struct JsonForm {
    pub(crate) field: &'static str,
    /// The JSON schema that it meets.
    pub(crate) schema: Value,
}

/// A call that must be made.
#[derive(Debug, PartialEq)]
pub(crate) struct ForcedCall {
    pub(crate) field: &'static str,
    /// Of this tool; else of any.
    pub(crate) tool: Option<String>,
}

impl StructuredOutput {
    /// What the answer to `prompt` must be kept to while it is sampled, in the model's format and as far as its host
    /// can. `tools` are those that the model is shown; all schemas together may take `schema_bytes`.
    pub(crate) fn constraint(
        &self,
        renderer: &dyn Renderer,
        host: &Capabilities,
        prompt: &[u32],
        tools: &[Value],
        schema_bytes: usize,
    ) -> Result<Option<Constraint>, ProxyError> {
        let single = self.single_call.is_some();
        if let Some(call) = &self.call {
            let tools = call.tools(tools)?;
            check_size(call.field, tools.iter(), schema_bytes)?;
            return constraint(call.field, renderer, host, prompt, &AnswerShape::Calls { tools: &tools, single });
        }
        if let Some(field) = self.single_call.filter(|_| !renderer.response_format().may_end_behind_a_call()) {
            return Err(ProxyError::invalid(
                field,
                format!(
                    "{field} is not supported with this model's format, in which calls stand in a section of their own"
                ),
            ));
        }
        match &self.json {
            Some(JsonForm { field, schema }) => {
                check_size(field, std::iter::once(schema).chain(tools), schema_bytes)?;
                constraint(field, renderer, host, prompt, &AnswerShape::Json { schema, tools })
            }
            None => Ok(None),
        }
    }
}

impl ForcedCall {
    /// The tools of which one must be called.
    fn tools(&self, declared: &[Value]) -> Result<Vec<Value>, ProxyError> {
        let field = self.field;
        let is_called = |tool: &&Value| match &self.tool {
            Some(name) => Tool::read(tool).is_ok_and(|tool| tool.name == name),
            None => true,
        };
        let called: Vec<Value> = declared.iter().filter(is_called).cloned().collect();
        match (called.is_empty(), &self.tool) {
            (false, _) => Ok(called),
            (true, Some(name)) => Err(ProxyError::invalid(
                field,
                format!("{field} names the tool `{name}`, which is not declared in tools"),
            )),
            (true, None) => Err(ProxyError::invalid(field, format!("{field} asks for a call, but there are no tools"))),
        }
    }
}

/// Refuses schemas that are too large together: what is made of them may take many times as much.
fn check_size<'v>(field: &str, schemas: impl Iterator<Item = &'v Value>, limit: usize) -> Result<(), ProxyError> {
    let bytes: usize = schemas.map(|schema| schema.to_string().len()).sum();
    match bytes > limit {
        true => Err(ProxyError::invalid(
            field,
            format!("{field} has schemas of {bytes} bytes, over the limit of {limit} (proxy.schema_bytes)"),
        )),
        false => Ok(()),
    }
}

/// The constraint for a form; errors name the field that requires it.
fn constraint(
    field: &str,
    renderer: &dyn Renderer,
    host: &Capabilities,
    prompt: &[u32],
    shape: &AnswerShape<'_>,
) -> Result<Option<Constraint>, ProxyError> {
    let refused =
        |error: RenderError| ProxyError::invalid(field, format!("{field} is not supported with this model: {error}"));
    let constraint = match renderer.answer_grammar(prompt, shape).map_err(refused)? {
        AnswerGrammar::JsonSchema(schema) if host.json_schema => Constraint::JsonSchema(schema),
        AnswerGrammar::Lark { grammar, .. } if host.lark => Constraint::Lark(grammar),
        AnswerGrammar::Lark { without_reasoning: Some(schema), .. } if host.json_schema => {
            Constraint::JsonSchema(schema)
        }
        _ => return Err(ProxyError::invalid(field, format!("{field} is not supported by this model's host"))),
    };
    Ok(Some(constraint))
}
