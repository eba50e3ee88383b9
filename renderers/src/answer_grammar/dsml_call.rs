use serde_json::Value;

use super::grammar_writer::{CalledTool, GrammarWriter};
use super::lark::{self, Rules};
use super::parameters::{listed_values, text_length};
use crate::RenderError;
use crate::json_schema::SchemaDocument;

/// The token that stands in every mark; what stands before it and behind it is text.
const DSML: &str = "｜DSML｜";

impl GrammarWriter<'_> {
    /// A section of `calls`. The line breaks before it are the model's to write.
    pub(super) fn dsml_section(&self, calls: &str) -> Result<String, RenderError> {
        let (open, close) = (self.dsml_mark("<", " calls>\n")?, self.dsml_mark("</", " calls>")?);
        Ok(format!("{}? {open} {calls} {close}", lark::text("\n\n")))
    }

    /// `<｜DSML｜ invoke name="NAME">` with the parameters.
    pub(super) fn dsml_call(&self, tool: &CalledTool<'_>, rules: &mut Rules) -> Result<String, RenderError> {
        let name = tool.name;
        let document = SchemaDocument::new(&tool.parameters);
        let parameters =
            self.parameters(tool, |key, property| self.dsml_parameter(name, key, property, document, rules))?;
        let head = self.dsml_mark("<", &format!(" invoke name=\"{name}\">\n"))?;
        Ok(format!("{head}{parameters} {}", self.dsml_mark("</", " invoke>\n")?))
    }

    /// A parameter whose value is text as it stands if it can be kept to that, else JSON. The first character of the mark
    /// that ends it goes with the value, so that no value is taken for the beginning of another.
    fn dsml_parameter(
        &self,
        tool: &str,
        key: &str,
        property: &Value,
        document: SchemaDocument<'_>,
        rules: &mut Rules,
    ) -> Result<String, RenderError> {
        if key.trim().is_empty() || key.contains(['"', '\n']) {
            return Err(self.unsupported_in(tool, &format!("the name `{key}` cannot be written")));
        }
        let flat = document.flattened(property);
        let (is_text, value) = match flat.and_then(|flat| text_value(&flat, rules)) {
            Some(text) => (true, text),
            None => (false, format!("{} {}", lark::json(property), lark::text("</"))),
        };
        let head = self.dsml_mark("<", &format!(" parameter name=\"{key}\" string=\"{is_text}\">"))?;
        Ok(format!("{head} {value} {} {}", self.mark(DSML)?, lark::text(" parameter>\n")))
    }

    /// The token with text before it and behind it.
    fn dsml_mark(&self, before: &str, after: &str) -> Result<String, RenderError> {
        Ok(format!("{} {} {}", lark::text(before), self.mark(DSML)?, lark::text(after)))
    }
}

/// Text up to `</`, of a property that is nothing else and asks no more of it than its length or to be one of some.
fn text_value(property: &Value, rules: &mut Rules) -> Option<String> {
    let fields = property.as_object()?;
    let is_other = fields.get("type").is_some_and(|kind| kind != "string");
    if is_other || ["anyOf", "oneOf"].iter().any(|key| fields.contains_key(*key)) {
        return None;
    }
    let Some(values) = listed_values(property) else {
        fields.get("type")?;
        let length = text_length(property).ok()?;
        return Some(rules.terminal(format!("/(?s:.){length}<\\//")));
    };
    let mut others = fields.clone();
    others.remove(if others.contains_key("enum") { "enum" } else { "const" });
    let texts: Vec<&str> = values.into_iter().map(Value::as_str).collect::<Option<_>>()?;
    if texts.is_empty() || text_length(&Value::Object(others)).as_deref() != Ok("*") {
        return None;
    }
    let texts: Vec<String> = texts.iter().map(|text| lark::text(&format!("{text}</"))).collect();
    Some(format!("({})", texts.join(" | ")))
}
