//! Tools and their calls as Qwen and Nemotron write them.

use fulgurite_types::{Tool, ToolCall};
use minijinja::value::ValueKind;
use serde_json::{Map, Value, json};

use crate::RenderError;
use crate::chat_message::ChatMessage;
use crate::formats::chunk::Chunk;
use crate::formats::python_strip::trimmed;
use crate::python::python_json::{JsonStyle, dumps, to_json};
use crate::python::python_repr::python_str;
use crate::python::python_text::{as_object, from_json, from_json_text, object};
use crate::tools::call_arguments::{arguments_text, is_null};

/// How values are written as text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ValueStyle {
    /// As tinker-cookbook writes them: JSON with `\u` for every character outside ASCII. Chat templates write characters
    /// as they are, and what came as JSON as it came.
    pub(crate) cookbook_exact: bool,
    /// An argument that is a boolean or null is written as Python writes it (`True`), not as JSON does.
    pub(crate) python_scalars: bool,
}

impl ValueStyle {
    pub(crate) fn json(self, value: &Value) -> String {
        dumps(value, &self.json_style())
    }

    fn json_style(self) -> JsonStyle {
        JsonStyle { ensure_ascii: self.cookbook_exact, ..JsonStyle::default() }
    }

    /// A value that was read from JSON, as JSON.
    fn json_of_read(self, value: &minijinja::Value) -> String {
        // What came as JSON can be written as JSON.
        to_json(value, &self.json_style()).unwrap_or_else(|_| value.to_string())
    }

    /// An argument or a schema's field: text as it is, lists and maps as JSON.
    pub(crate) fn argument(self, value: &minijinja::Value) -> String {
        match (value.as_str(), value.kind()) {
            (Some(text), _) => text.to_owned(),
            (None, ValueKind::Seq | ValueKind::Map) => self.json_of_read(value),
            _ if self.python_scalars => python_str(value).into_owned(),
            _ => self.json_of_read(value),
        }
    }
}

/// `<tool_call>\n{"name": ..., "arguments": {...}}\n</tool_call>` for each call, on lines of their own.
///
/// Arguments that came as text are written as they came, as the model's chat template does. The cookbook
/// reads them and writes them anew.
pub(crate) fn json_calls<'m>(
    message: &ChatMessage<'m>,
    message_index: usize,
    style: ValueStyle,
) -> Result<Chunk<'m>, RenderError> {
    let mut chunk = Chunk::default();
    for (place, call) in message.tool_calls.iter().enumerate() {
        let content = match &call.function.arguments {
            Value::String(text) if !style.cookbook_exact && !text.is_empty() && text.trim() != "null" => {
                let name = style.json(&Value::from(call.function.name.as_str()));
                format!("{{\"name\": {name}, \"arguments\": {text}}}")
            }
            _ => {
                let name = minijinja::Value::from(call.function.name.as_str());
                let arguments = arguments(call, message_index)?;
                style.json_of_read(&object(vec![("name".into(), name), ("arguments".into(), arguments)]))
            }
        };
        let separator = if place == 0 { "" } else { "\n" };
        chunk = chunk.format(separator).format("<tool_call>\n").content(content).format("\n</tool_call>");
    }
    Ok(chunk)
}

/// `<tool_call>\n<function=NAME>\n<parameter=KEY>\nVALUE\n</parameter>\n</function>\n</tool_call>` for each call.
///
/// Arguments that are no object stand in place of the parameters as they came. The cookbook refuses them.
pub(crate) fn xml_calls<'m>(
    message: &ChatMessage<'m>,
    message_index: usize,
    style: ValueStyle,
) -> Result<Vec<Chunk<'m>>, RenderError> {
    message.tool_calls.iter().map(|call| xml_call(call, message_index, style)).collect()
}

fn xml_call<'m>(call: &'m ToolCall, message_index: usize, style: ValueStyle) -> Result<Chunk<'m>, RenderError> {
    let chunk = Chunk::of_format("<tool_call>\n<function=").content(&*call.function.name).format(">\n");
    let arguments = match arguments(call, message_index) {
        Err(error) if style.cookbook_exact => return Err(error),
        read => read.unwrap_or_default(),
    };
    let chunk = match as_object(&arguments) {
        Some(arguments) => arguments.fields().iter().fold(chunk, |chunk, (key, value)| {
            let chunk = chunk.format("<parameter=").content(key.as_str().to_owned()).format(">\n");
            chunk.content(style.argument(value)).format("\n</parameter>\n")
        }),
        None if style.cookbook_exact => {
            let message = format!("the arguments of the call of `{}` are not a JSON object", call.function.name);
            return Err(RenderError::Message { message_index, message });
        }
        // There are no parameters to write, but the text can be.
        None => chunk.content(arguments_text(&call.function)).format("\n"),
    };
    Ok(chunk.format("</function>\n</tool_call>"))
}

/// The arguments of a call, read; no text is no arguments.
pub(crate) fn arguments(call: &ToolCall, message_index: usize) -> Result<minijinja::Value, RenderError> {
    let text = match &call.function.arguments {
        arguments if is_null(arguments) => return Ok(object(Vec::new())),
        Value::String(text) if text.is_empty() => return Ok(object(Vec::new())),
        Value::String(text) => text,
        value => return Ok(from_json(value)),
    };
    from_json_text(text, &|text| minijinja::Value::from(text)).ok_or_else(|| {
        let error = serde_json::from_str::<Value>(text).err().map_or_else(String::new, |error| error.to_string());
        let message = format!("the arguments of the call of `{}` are not JSON: {error}", call.function.name);
        RenderError::Message { message_index, message }
    })
}

/// Qwen3's explanation of tools, each declared as OpenAI does.
pub(crate) fn json_tools(tools: &[Tool<'_>], style: ValueStyle) -> Chunk<'static> {
    let declaration = |tool: &Tool<'_>| match tool.is_wrapped() && !style.cookbook_exact {
        true => style.json(tool.given),
        false => style.json(&json!({"type": "function", "function": tool.function})),
    };
    let lines: Vec<String> = tools.iter().map(declaration).collect();
    Chunk::of_format(
        "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n\
         You are provided with function signatures within <tools></tools> XML tags:\n<tools>\n",
    )
    .content(lines.join("\n"))
    .format(
        "\n</tools>\n\nFor each function call, return a json object with function name and arguments within \
         <tool_call></tool_call> XML tags:\n\
         <tool_call>\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call>",
    )
}

/// The explanation of tools whose calls are XML; `declarations` stands between `<tools>` and `</tools>`.
pub(crate) fn xml_tools(declarations: Chunk<'static>) -> Chunk<'static> {
    Chunk::of_format("# Tools\n\nYou have access to the following functions:\n\n<tools>\n").join(declarations).format(
        "\n</tools>\n\n\
         If you choose to call a function ONLY reply in the following format with NO suffix:\n\n\
         <tool_call>\n<function=example_function_name>\n<parameter=example_parameter_1>\nvalue_1\n</parameter>\n\
         <parameter=example_parameter_2>\nThis is the value for the second parameter\nthat can span\nmultiple lines\n\
         </parameter>\n</function>\n</tool_call>\n\n\
         <IMPORTANT>\nReminder:\n\
         - Function calls MUST follow the specified format: an inner <function=...></function> block must be nested \
         within <tool_call></tool_call> XML tags\n\
         - Required parameters MUST be specified\n\
         - You may provide optional reasoning for your function call in natural language BEFORE the function call, \
         but NOT after\n\
         - If there is no function call available, answer the question like normal with your current knowledge and do \
         not tell the user about function calls\n\
         </IMPORTANT>",
    )
}

/// Tools one to a line, as the caller declared them. The cookbook writes the function alone.
pub(crate) fn json_lines(tools: &[Tool<'_>], style: ValueStyle) -> Chunk<'static> {
    let line = |tool: &Tool<'_>| match style.cookbook_exact {
        true => style.json(&Value::Object(tool.function.clone())),
        false => style.json(tool.given),
    };
    Chunk::default().content(tools.iter().map(line).collect::<Vec<_>>().join("\n"))
}

/// Tools as Nemotron declares them: the schema's fields as XML, one to a line.
pub(crate) fn xml_declarations(tools: &[Tool<'_>], style: ValueStyle) -> Chunk<'static> {
    let declarations: Vec<String> = tools.iter().map(|tool| xml_declaration(tool, style).join("\n")).collect();
    Chunk::default().content(declarations.join("\n"))
}

fn xml_declaration(tool: &Tool<'_>, style: ValueStyle) -> Vec<String> {
    let mut lines = vec!["<function>".to_owned(), format!("<name>{}</name>", tool.name)];
    let description = tool.function.get("description").map(|_| trimmed(tool.description()));
    let is_written = |description: &&str| !(style.cookbook_exact && description.is_empty());
    lines.extend(description.filter(is_written).map(|text| format!("<description>{text}</description>")));
    lines.push("<parameters>".to_owned());
    let parameters = tool.function.get("parameters").and_then(Value::as_object);
    let properties = parameters.and_then(|schema| schema.get("properties")).and_then(Value::as_object);
    for (name, field) in properties.into_iter().flatten() {
        lines.push("<parameter>".to_owned());
        lines.push(format!("<name>{name}</name>"));
        lines.extend(field.as_object().into_iter().flat_map(|field| xml_field(field, style)));
        lines.push("</parameter>".to_owned());
    }
    if let Some(schema) = parameters {
        lines.extend(other_fields(schema, &["type", "properties", "required"], style));
        lines.extend(schema.get("required").map(|names| format!("<required>{}</required>", style.json(names))));
    }
    lines.push("</parameters>".to_owned());
    lines.extend(other_fields(tool.function, &["type", "name", "description", "parameters"], style));
    lines.push("</function>".to_owned());
    lines
}

/// The fields of one parameter's schema.
fn xml_field(field: &Map<String, Value>, style: ValueStyle) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(field.get("type").map(|kind| format!("<type>{}</type>", python_str(&from_json(kind)))));
    lines.extend(
        field
            .get("description")
            .map(|text| format!("<description>{}</description>", trimmed(&python_str(&from_json(text))))),
    );
    lines.extend(field.get("enum").map(|values| format!("<enum>{}</enum>", style.json(values))));
    lines.extend(other_fields(field, &["name", "type", "description", "enum"], style));
    lines
}

fn other_fields<'f>(
    fields: &'f Map<String, Value>,
    written: &'f [&str],
    style: ValueStyle,
) -> impl Iterator<Item = String> + 'f {
    fields
        .iter()
        .filter(|(key, _)| !written.contains(&key.as_str()))
        .map(move |(key, value)| format!("<{key}>{}</{key}>", style.argument(&from_json(value))))
}
