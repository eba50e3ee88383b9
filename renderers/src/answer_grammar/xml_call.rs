use serde_json::Value;

use super::grammar_writer::{CalledTool, GrammarWriter};
use super::lark::{self, Rules};
use super::parameters::text_length;
use crate::RenderError;
use crate::json_schema::{SchemaDocument, Types};
use crate::parsing::ParameterTypes;

const PARAMETER_END: &str = "</parameter>";

impl GrammarWriter<'_> {
    /// `<function=NAME>` with the parameters.
    pub(super) fn xml_call(&self, tool: &CalledTool<'_>, rules: &mut Rules) -> Result<String, RenderError> {
        let name = tool.name;
        let types = ParameterTypes::of(&[tool.declaration()]);
        let parameters =
            self.parameters(tool, |key, property| self.xml_parameter(tool, key, property, &types, rules))?;
        let head = lark::text(&format!("\n<function={name}>\n"));
        Ok(format!("{head}{parameters} {}", lark::text("</function>\n")))
    }

    /// A parameter whose value is JSON or, where it may be a string, text as it stands. (Where JSON itself holds the text
    /// that ends a parameter, the call cannot be read, whoever writes it.)
    fn xml_parameter(
        &self,
        called: &CalledTool<'_>,
        key: &str,
        property: &Value,
        types: &ParameterTypes,
        rules: &mut Rules,
    ) -> Result<String, RenderError> {
        let (tool, document) = (called.name, SchemaDocument::new(&called.parameters));
        if key.trim() != key || key.is_empty() || key.contains(['<', '>', '\n']) {
            return Err(self.unsupported_in(tool, &format!("the name `{key}` cannot be written")));
        }
        let head = lark::text(&format!("<parameter={key}>\n"));
        let end = format!("\n{PARAMETER_END}\n");
        let allowed = document.types(property);
        if allowed == Types::ANY || !allowed.has(Types::STRING) {
            return Ok(format!("{head} {} {}", lark::json(property), lark::text(&end)));
        }
        if let Some(values) = document.listed(property) {
            let value = self.one_of(tool, key, &values, types)?;
            return Ok(format!("{head} {value} {}", lark::text(&end)));
        }
        let unsupported = |why: String| self.unsupported_in(tool, &format!("`{key}`: {why}"));
        let flat =
            document.flattened(property).ok_or_else(|| unsupported("it refers to too many others".to_owned()))?;
        let length = text_length(&flat).map_err(unsupported)?;
        let text = rules.terminal(lark::up_to(&length, "\n", PARAMETER_END, "\n"));
        Ok(format!("{head} {text}"))
    }

    /// Values that are listed, each as it must be written to be read as itself.
    fn one_of(&self, tool: &str, key: &str, values: &[Value], types: &ParameterTypes) -> Result<String, RenderError> {
        let mut written = Vec::new();
        for value in values {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let read: Option<Value> = serde_json::from_str(&types.json_text(tool, key, &text)).ok();
            if read.as_ref() != Some(value) || text.contains(PARAMETER_END) {
                return Err(self.unsupported_in(tool, &format!("`{key}`: its value {value} cannot be written")));
            }
            written.push(lark::text(&text));
        }
        Ok(format!("({})", written.join(" | ")))
    }
}
