use serde_json::{Map, Value, json};

use super::tool_forms::{CUSTOM_INPUT, ToolForm, ToolForms, name_in_namespace};
use crate::dialects::field_checks::{check_tool_count, refuse};
use crate::error::ProxyError;

/// Tools that OpenAI's own servers run: agents send them whether or not there is such a server.
const OF_SERVERS: [&str; 7] = [
    "code_interpreter",
    "file_search",
    "image_generation",
    "mcp",
    "web_search",
    "web_search_preview",
    "web_search_preview_2025_03_11",
];

/// The tools that a request declares.
#[derive(Debug, Default, PartialEq)]
pub(super) struct DeclaredTools {
    /// What the model is shown, in the shape of chats.
    pub(super) functions: Vec<Value>,
    /// How calls of them are spelled, where they are no plain functions.
    pub(super) forms: ToolForms,
    /// Those that other servers would have to run.
    pub(super) ignored: Vec<Value>,
}

impl DeclaredTools {
    pub(super) fn read(tools: Vec<Value>) -> Result<Self, ProxyError> {
        let mut declared = Self::default();
        for (index, tool) in tools.into_iter().enumerate() {
            declared.add(&format!("tools[{index}]"), tool)?;
        }
        check_tool_count(&declared.functions)?;
        Ok(declared)
    }

    /// Adds a tool that the request has at `place`.
    pub(super) fn add(&mut self, place: &str, tool: Value) -> Result<(), ProxyError> {
        match tool.get("type").and_then(Value::as_str) {
            Some("function") => self.functions.push(function(place, &tool)?),
            Some("namespace") => self.add_namespace(place, &tool)?,
            Some("custom") => self.add_as(ToolForm::Custom, custom(place, &tool)?),
            Some("local_shell") => self.add_as(ToolForm::LocalShell, local_shell()),
            Some("shell") => self.add_as(ToolForm::Shell, shell()),
            Some("apply_patch") => self.add_as(ToolForm::ApplyPatch, apply_patch()),
            Some("tool_search") if tool.get("execution").is_none_or(|by| by != "client") => self.ignored.push(tool),
            Some("tool_search") => {
                let mut search = tool;
                search["name"] = json!("tool_search");
                self.add_as(ToolForm::ToolSearch, function(place, &search)?);
            }
            Some(kind) if OF_SERVERS.contains(&kind) => self.ignored.push(tool),
            Some(kind) => refuse(
                &format!("{place}.type"),
                &format!("is `{kind}`, which no model here knows; declare it as a function"),
            )?,
            None => refuse(&format!("{place}.type"), "must be the tool's type, such as `function`")?,
        }
        Ok(())
    }

    /// Whether a function is declared by the name by which the model would know it.
    pub(super) fn has(&self, tool: &Value) -> bool {
        let name = |tool: &Value| tool.pointer("/function/name").cloned();
        let mut alone = Self::default();
        alone.add("", tool.clone()).is_ok()
            && alone.functions.iter().all(|new| self.functions.iter().any(|known| name(known) == name(new)))
    }

    fn add_as(&mut self, form: ToolForm, function: Value) {
        let name = function.pointer("/function/name").and_then(Value::as_str).unwrap_or_default();
        self.forms.insert(name.to_owned(), form);
        self.functions.push(function);
    }

    /// Adds the functions of a namespace, whose description stands before those of its functions.
    fn add_namespace(&mut self, place: &str, tool: &Value) -> Result<(), ProxyError> {
        let Some(namespace) = tool.get("name").and_then(Value::as_str).filter(|name| !name.is_empty()) else {
            return refuse(&format!("{place}.name"), "must be the namespace's name");
        };
        let Some(tools) = tool.get("tools").and_then(Value::as_array) else {
            return refuse(&format!("{place}.tools"), "must be the namespace's tools");
        };
        for (index, inner) in tools.iter().enumerate() {
            let inner_place = format!("{place}.tools[{index}]");
            if inner.get("type").is_none_or(|kind| kind != "function") {
                return refuse(&format!("{inner_place}.type"), "must be `function`");
            }
            let mut function = function(&inner_place, inner)?;
            let name = inner.get("name").and_then(Value::as_str).unwrap_or_default();
            function["function"]["name"] = json!(name_in_namespace(namespace, name));
            let form = ToolForm::InNamespace { namespace: namespace.to_owned(), name: name.to_owned() };
            self.add_as(form, function);
        }
        Ok(())
    }
}

/// A function as chats declare it. Null fields are not shown to the model.
fn function(place: &str, tool: &Value) -> Result<Value, ProxyError> {
    let field = |name: &str| format!("{place}.{name}");
    if tool.get("name").and_then(Value::as_str).is_none_or(str::is_empty) {
        refuse(&field("name"), "must be the function's name")?;
    }
    if tool.get("parameters").is_some_and(|parameters| !(parameters.is_object() || parameters.is_null())) {
        refuse(&field("parameters"), "must be a JSON schema")?;
    }
    let known = ["name", "description", "parameters", "strict"];
    let present = known.iter().filter_map(|name| Some((*name, tool.get(name).filter(|value| !value.is_null())?)));
    let function: Map<String, Value> = present.map(|(name, value)| (name.to_owned(), value.clone())).collect();
    Ok(json!({ "type": "function", "function": function }))
}

/// A tool that takes text, as a function of one argument. The grammar that the text is to keep to is told to the model.
fn custom(place: &str, tool: &Value) -> Result<Value, ProxyError> {
    let Some(name) = tool.get("name").and_then(Value::as_str).filter(|name| !name.is_empty()) else {
        refuse(&format!("{place}.name"), "must be the tool's name")?;
        return Ok(Value::Null);
    };
    let mut description = tool.get("description").and_then(Value::as_str).unwrap_or_default().to_owned();
    let format = tool.get("format").filter(|format| !format.is_null());
    match format.and_then(|format| format.get("type")).and_then(Value::as_str) {
        Some("grammar") => {
            let part =
                |name: &str| format.and_then(|format| format.get(name)).and_then(Value::as_str).unwrap_or_default();
            let (syntax, definition) = (part("syntax"), part("definition"));
            description.push_str(&format!("\n\nThe input keeps to this grammar ({syntax}):\n{definition}"));
        }
        Some("text") => {}
        None if format.is_none() => {}
        _ => refuse(&format!("{place}.format.type"), "must be `text` or `grammar`")?,
    }
    let parameters = schema(&[(CUSTOM_INPUT, json!({ "type": "string" }))], &[CUSTOM_INPUT]);
    Ok(declared(name, &description, &parameters))
}

fn local_shell() -> Value {
    let text = json!({ "type": "string" });
    let command = json!({ "type": "array", "items": text, "description": "The program and its arguments." });
    let fields = [
        ("command", command),
        ("working_directory", text.clone()),
        ("timeout_ms", json!({ "type": "integer" })),
        ("env", json!({ "type": "object", "additionalProperties": text })),
    ];
    declared("local_shell", "Runs a program and returns what it wrote.", &schema(&fields, &["command"]))
}

fn shell() -> Value {
    let commands =
        json!({ "type": "array", "items": { "type": "string" }, "description": "Shell commands, run in order." });
    let integer = json!({ "type": "integer" });
    let fields = [("commands", commands), ("timeout_ms", integer.clone()), ("max_output_length", integer)];
    declared("shell", "Runs shell commands and returns what they wrote.", &schema(&fields, &["commands"]))
}

fn apply_patch() -> Value {
    let kind = json!({ "type": "string", "enum": ["create_file", "update_file", "delete_file"] });
    let diff = json!({ "type": "string", "description": "What changes, as a V4A diff; none for a deletion." });
    let fields = [("type", kind), ("path", json!({ "type": "string" })), ("diff", diff)];
    declared("apply_patch", "Creates, changes or deletes a file.", &schema(&fields, &["type", "path"]))
}

fn schema(fields: &[(&str, Value)], required: &[&str]) -> Value {
    let properties: Map<String, Value> =
        fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    json!({ "type": "object", "properties": properties, "required": required })
}

fn declared(name: &str, description: &str, parameters: &Value) -> Value {
    let mut function = json!({ "name": name });
    if !description.is_empty() {
        function["description"] = json!(description);
    }
    function["parameters"] = parameters.clone();
    json!({ "type": "function", "function": function })
}

/// A function of a chat as Responses declares it.
pub(super) fn declaration(tool: &Value, forms: &ToolForms) -> Value {
    let function = tool.get("function").and_then(Value::as_object).cloned().unwrap_or_default();
    let name = function.get("name").and_then(Value::as_str).unwrap_or_default();
    let described = |kind: &str| {
        let mut declaration = json!({ "type": kind });
        for field in ["name", "description", "parameters", "strict"] {
            if let Some(value) = function.get(field) {
                declaration[field] = value.clone();
            }
        }
        declaration
    };
    match forms.of(name) {
        ToolForm::Function => described("function"),
        ToolForm::InNamespace { namespace, name } => {
            let mut inner = described("function");
            inner["name"] = json!(name);
            json!({ "type": "namespace", "name": namespace, "tools": [inner] })
        }
        ToolForm::Custom => {
            json!({ "type": "custom", "name": name, "description": function.get("description") })
        }
        ToolForm::LocalShell => json!({ "type": "local_shell" }),
        ToolForm::Shell => json!({ "type": "shell" }),
        ToolForm::ApplyPatch => json!({ "type": "apply_patch" }),
        ToolForm::ToolSearch => {
            let mut search = described("tool_search");
            search["execution"] = json!("client");
            search
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_shown_and_those_of_other_servers_are_kept() {
        let parameters = json!({ "type": "object", "properties": {} });
        let named =
            json!({ "type": "function", "name": "f", "description": null, "parameters": parameters, "strict": false });
        let tools = vec![named, json!({ "type": "web_search" })];
        let declared = DeclaredTools::read(tools).unwrap();
        let function = json!({ "name": "f", "parameters": parameters, "strict": false });
        assert_eq!(declared.functions, [json!({ "type": "function", "function": function })]);
        let declaration = declaration(&declared.functions[0], &declared.forms);
        assert_eq!(DeclaredTools::read(vec![declaration]).unwrap().functions, declared.functions);
        assert_eq!(declared.ignored, [json!({ "type": "web_search" })]);
    }

    #[test]
    fn tools_of_a_namespace_are_functions_that_bear_its_name() {
        let inner = json!({ "type": "function", "name": "lookup", "description": "Looks up.", "parameters": null });
        let namespace = json!({ "type": "namespace", "name": "mcp__demo", "description": "A demo.", "tools": [inner] });
        let declared = DeclaredTools::read(vec![namespace]).unwrap();
        let function = json!({ "name": "mcp__demo__lookup", "description": "Looks up." });
        assert_eq!(declared.functions, [json!({ "type": "function", "function": function })]);
        let form = ToolForm::InNamespace { namespace: "mcp__demo".to_owned(), name: "lookup".to_owned() };
        assert_eq!(declared.forms.of("mcp__demo__lookup"), form);
        let again = DeclaredTools::read(vec![declaration(&declared.functions[0], &declared.forms)]).unwrap();
        assert_eq!(again, declared);
    }

    #[test]
    fn tools_that_the_clients_program_runs_are_shown_as_functions() {
        let grammar = json!({ "type": "grammar", "syntax": "lark", "definition": "start: /a+/" });
        let tools = json!([
            { "type": "custom", "name": "edit", "description": "Edits.", "format": grammar },
            { "type": "local_shell" }, { "type": "shell" }, { "type": "apply_patch" },
            { "type": "tool_search", "execution": "client", "description": "Finds tools.", "parameters": { "type": "object" } },
        ]);
        let declared = DeclaredTools::read(tools.as_array().cloned().unwrap()).unwrap();
        let names: Vec<&str> =
            declared.functions.iter().map(|tool| tool["function"]["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["edit", "local_shell", "shell", "apply_patch", "tool_search"]);
        assert!(declared.functions[0]["function"]["description"].as_str().unwrap().ends_with("(lark):\nstart: /a+/"));
        assert!(declared.ignored.is_empty());
        for (tool, kind) in
            declared.functions.iter().zip(["custom", "local_shell", "shell", "apply_patch", "tool_search"])
        {
            assert_eq!(declaration(tool, &declared.forms)["type"], kind);
        }
        assert!(declared.has(&json!({ "type": "custom", "name": "edit" })));
        assert!(!declared.has(&json!({ "type": "function", "name": "other" })));
    }

    #[test]
    fn every_fault_names_its_field() {
        for (tool, parameter) in [
            (json!("f"), "tools[0].type"),
            (json!({ "name": "f" }), "tools[0].type"),
            (json!({ "type": "computer_use_preview" }), "tools[0].type"),
            (json!({ "type": "function", "function": { "name": "f" } }), "tools[0].name"),
            (json!({ "type": "function", "name": "" }), "tools[0].name"),
            (json!({ "type": "function", "name": "f", "parameters": "{}" }), "tools[0].parameters"),
            (json!({ "type": "custom" }), "tools[0].name"),
            (json!({ "type": "custom", "name": "f", "format": { "type": "regex" } }), "tools[0].format.type"),
            (json!({ "type": "namespace", "tools": [] }), "tools[0].name"),
            (json!({ "type": "namespace", "name": "n" }), "tools[0].tools"),
            (json!({ "type": "namespace", "name": "n", "tools": [{ "type": "custom" }] }), "tools[0].tools[0].type"),
            (json!({ "type": "namespace", "name": "n", "tools": [{ "type": "function" }] }), "tools[0].tools[0].name"),
        ] {
            match DeclaredTools::read(vec![tool.clone()]) {
                Err(ProxyError::InvalidRequest { parameter: found, .. }) => {
                    assert_eq!(found.as_deref(), Some(parameter), "{tool}");
                }
                other => panic!("{other:?}"),
            }
        }
    }
}
