use serde_json::{Map, Value, json};

use super::fields::{Fields, must};
use super::schema::json_schema;
use crate::dialects::field_checks::{check_tool_count, refuse};
use crate::error::ProxyError;
use crate::requests::structured_output::ForcedCall;

const MODE: &str = "toolConfig.functionCallingConfig.mode";
const ALLOWED: &str = "toolConfig.functionCallingConfig.allowedFunctionNames";

/// The tools of a request.
#[derive(Debug, Default)]
pub(super) struct Tools {
    /// Those that the model may call, as OpenAI declares them. With the mode `NONE` there are none.
    pub(super) shown: Vec<Value>,
    pub(super) call: Option<ForcedCall>,
}

/// Reads the declarations of a request's functions, and which of them are to be called. Every other tool is one that
/// Google's servers would run, which is refused by name.
pub(super) fn read(body: &mut Fields, unknown: &mut Vec<String>) -> Result<Tools, ProxyError> {
    let mut declared = Vec::new();
    for mut tool in body.objects("tools")? {
        for declaration in tool.objects("functionDeclarations")? {
            declared.push(declared_function(declaration, unknown)?);
        }
        if let Some(name) = tool.any_left() {
            let why = "is not supported: nothing here runs it; declare a function of your own (functionDeclarations)";
            refuse(&tool.place_of(name), why)?;
        }
    }
    check_tool_count(&declared)?;
    let tools = Tools { shown: declared, call: None };
    let Some(mut config) = body.object("toolConfig")? else { return Ok(tools) };
    let calling = config.object("functionCallingConfig")?;
    // About places on maps, which no model here looks for.
    config.take("retrievalConfig");
    config.tell_left(unknown);
    match calling {
        Some(calling) => chosen(tools, calling, unknown),
        None => Ok(tools),
    }
}

/// A declaration as OpenAI has it. What the function returns is the client's own affair.
fn declared_function(mut declaration: Fields, unknown: &mut Vec<String>) -> Result<Value, ProxyError> {
    let mut function = Map::new();
    match declaration.string("name")? {
        Some(name) if !name.is_empty() => function.insert("name".to_owned(), name.into()),
        _ => return Err(must(&declaration.place_of("name"), "must be the function's name")),
    };
    if let Some(description) = declaration.string("description")? {
        function.insert("description".to_owned(), description.into());
    }
    let place = declaration.place_of("parameters");
    let googles = declaration.take("parameters").map(|schema| json_schema(schema, &place)).transpose()?;
    let place = declaration.place_of("parametersJsonSchema");
    let parameters = match (googles, declaration.take("parametersJsonSchema")) {
        (Some(_), Some(_)) => return Err(must(&place, "cannot stand beside parameters: leave one of them out")),
        (None, Some(schema)) if !schema.is_object() => return Err(must(&place, "must be a JSON schema")),
        (googles, schema) => googles.or(schema),
    };
    if let Some(parameters) = parameters {
        function.insert("parameters".to_owned(), parameters);
    }
    for neutral in ["response", "responseJsonSchema", "behavior"] {
        declaration.take(neutral);
    }
    declaration.tell_left(unknown);
    Ok(json!({ "type": "function", "function": function }))
}

/// The tools as the request chooses among them.
fn chosen(mut tools: Tools, mut calling: Fields, unknown: &mut Vec<String>) -> Result<Tools, ProxyError> {
    let mode = calling.string("mode")?.unwrap_or_default();
    let allowed = calling.strings("allowedFunctionNames")?;
    // The arguments of calls stream whole.
    if calling.boolean("streamFunctionCallArguments")? == Some(true) {
        refuse(&calling.place_of("streamFunctionCallArguments"), "is not supported: a call is sent once it is whole")?;
    }
    calling.tell_left(unknown);
    let is_named = |tool: &Value, name: &str| tool["function"]["name"] == name;
    if let Some(missing) = allowed.iter().find(|name| !tools.shown.iter().any(|tool| is_named(tool, name))) {
        refuse(ALLOWED, &format!("names the function `{missing}`, which is not declared in tools"))?;
    }
    let forced = |tool: Option<String>| Some(ForcedCall { field: MODE, tool });
    match (mode.to_ascii_uppercase().as_str(), allowed.as_slice()) {
        ("" | "MODE_UNSPECIFIED" | "AUTO" | "VALIDATED" | "NONE", []) => {}
        ("ANY", []) => tools.call = forced(None),
        // The others stay in the prompt, which goes on from the last one.
        ("ANY", [only]) => tools.call = forced(Some(only.clone())),
        ("ANY" | "VALIDATED", names) => {
            tools.shown.retain(|tool| names.iter().any(|name| is_named(tool, name)));
            tools.call = if mode.eq_ignore_ascii_case("ANY") { forced(None) } else { None };
        }
        ("" | "MODE_UNSPECIFIED" | "AUTO" | "NONE", _) => {
            refuse(ALLOWED, "is for the modes ANY and VALIDATED: leave it out")?;
        }
        _ => refuse(MODE, &format!("is `{mode}`, but must be AUTO, ANY, VALIDATED or NONE"))?,
    }
    if mode.eq_ignore_ascii_case("NONE") {
        tools.shown.clear();
    }
    Ok(tools)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialects::field_checks::refused_field;

    fn tools(body: Value) -> Result<(Tools, Vec<String>), String> {
        let mut unknown = Vec::new();
        let mut body = Fields::of_body(body.as_object().unwrap().clone()).unwrap();
        read(&mut body, &mut unknown).map(|tools| (tools, unknown)).map_err(refused_field)
    }

    fn with_config(config: Value) -> Value {
        json!({ "tools": [{ "functionDeclarations": [{ "name": "f" }, { "name": "g" }] }],
                "toolConfig": { "functionCallingConfig": config } })
    }

    #[test]
    fn functions_are_declared_in_either_schema() {
        let body = json!({ "tools": [
            { "function_declarations": [{
                "name": "f", "description": "Does f.",
                "parameters": { "type": "OBJECT", "properties": { "a": { "type": "STRING" } } },
                "response": { "type": "STRING" }, "behavior": "BLOCKING",
            }] },
            { "functionDeclarations": { "name": "g", "parametersJsonSchema": { "type": "object" }, "fast": true } },
        ] });
        let (tools, unknown) = tools(body).unwrap();
        let expected = json!([
            { "type": "function", "function": { "name": "f", "description": "Does f.",
              "parameters": { "type": "object", "properties": { "a": { "type": "string" } } } } },
            { "type": "function", "function": { "name": "g", "parameters": { "type": "object" } } },
        ]);
        assert_eq!((json!(tools.shown), tools.call), (expected, None));
        assert_eq!(unknown, ["tools.functionDeclarations.fast"]);
    }

    #[test]
    fn calls_are_chosen_by_mode_and_name() {
        let forced = |tool: Option<&str>| Some(ForcedCall { field: MODE, tool: tool.map(str::to_owned) });
        for (config, shown, call) in [
            (json!({}), 2, None),
            (json!({ "mode": "AUTO" }), 2, None),
            (json!({ "mode": "VALIDATED" }), 2, None),
            (json!({ "mode": "NONE" }), 0, None),
            (json!({ "mode": "any" }), 2, forced(None)),
            (json!({ "mode": "ANY", "allowed_function_names": ["f"] }), 2, forced(Some("f"))),
            (json!({ "mode": "ANY", "allowedFunctionNames": ["f", "g"] }), 2, forced(None)),
            (json!({ "mode": "VALIDATED", "allowedFunctionNames": ["g"] }), 1, None),
        ] {
            let (tools, _) = tools(with_config(config.clone())).unwrap();
            assert_eq!((tools.shown.len(), tools.call), (shown, call), "{config}");
        }
    }

    #[test]
    fn every_fault_names_its_field() {
        let declared = |function: Value| json!({ "tools": [{ "functionDeclarations": [function] }] });
        for (body, field) in [
            (json!({ "tools": ["f"] }), "tools[0]"),
            (json!({ "tools": [{ "googleSearch": {} }] }), "tools[0].googleSearch"),
            (json!({ "tools": [{ "code_execution": {} }] }), "tools[0].codeExecution"),
            (json!({ "tools": { "urlContext": {} } }), "tools[0].urlContext"),
            (declared(json!({})), "tools[0].functionDeclarations[0].name"),
            (declared(json!({ "name": "f", "parameters": 1 })), "tools[0].functionDeclarations[0].parameters"),
            (
                declared(json!({ "name": "f", "parameters": {}, "parametersJsonSchema": {} })),
                "tools[0].functionDeclarations[0].parametersJsonSchema",
            ),
            (with_config(json!({ "mode": "SOME" })), MODE),
            (with_config(json!({ "mode": "AUTO", "allowedFunctionNames": ["f"] })), ALLOWED),
            (with_config(json!({ "mode": "ANY", "allowedFunctionNames": ["h"] })), ALLOWED),
            (with_config(json!({ "mode": 1 })), MODE),
        ] {
            assert_eq!(tools(body.clone()).map(drop), Err(field.to_owned()), "{body}");
        }
    }
}
