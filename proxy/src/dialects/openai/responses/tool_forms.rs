use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// How Responses spells the calls of a tool. The model is shown every tool as a function, and calls it as one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "form", rename_all = "snake_case")]
pub(super) enum ToolForm {
    #[default]
    Function,
    /// A function of a namespace, such as a tool of an MCP server.
    InNamespace {
        namespace: String,
        name: String,
    },
    /// A tool that takes text instead of arguments, which the model gives as [`CUSTOM_INPUT`].
    Custom,
    LocalShell,
    Shell,
    ApplyPatch,
    ToolSearch,
}

/// The one argument of a custom tool.
pub(super) const CUSTOM_INPUT: &str = "input";

impl ToolForm {
    /// The form that an input item's type belongs to, of those that are not told by a name.
    pub(super) fn of_item(kind: &str) -> Option<(Self, &'static str)> {
        Some(match kind {
            "local_shell_call" => (Self::LocalShell, "local_shell"),
            "shell_call" => (Self::Shell, "shell"),
            "apply_patch_call" => (Self::ApplyPatch, "apply_patch"),
            "tool_search_call" => (Self::ToolSearch, "tool_search"),
            _ => return None,
        })
    }

    /// The type of a call's item, and its field that has the arguments, for tools that the client's own program knows.
    fn of_clients_program(&self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Function | Self::InNamespace { .. } | Self::Custom => None,
            Self::LocalShell => Some(("local_shell_call", "action")),
            Self::Shell => Some(("shell_call", "action")),
            Self::ApplyPatch => Some(("apply_patch_call", "operation")),
            Self::ToolSearch => Some(("tool_search_call", "arguments")),
        }
    }

    /// The item of a call, but for its id. Arguments of a client's program are an object in its item; what a model gave
    /// instead of one goes to the client as the call of a function, whole, since a program has no place for it.
    pub(super) fn item(&self, call_id: &str, name: &str, arguments: &str, status: &str) -> Map<String, Value> {
        let read = if arguments.is_empty() { Some(Value::Null) } else { arguments_object(arguments) };
        let mut item = match (self, self.of_clients_program().zip(read.clone())) {
            (_, Some(((kind, field), object))) => json!({ "type": kind, field: object }),
            (Self::InNamespace { namespace, name }, None) => {
                json!({ "type": "function_call", "namespace": namespace, "name": name, "arguments": arguments })
            }
            (Self::Custom, None) => {
                json!({ "type": "custom_tool_call", "name": name, "input": custom_input(arguments) })
            }
            (_, None) => json!({ "type": "function_call", "name": name, "arguments": arguments }),
        };
        match self {
            Self::ToolSearch if read.is_some() => item["execution"] = json!("client"),
            Self::LocalShell if read.is_some_and(|read| read.is_object()) => {
                item["action"]["type"] = json!("exec");
                if item["action"].get("env").is_none() {
                    item["action"]["env"] = json!({});
                }
            }
            _ => {}
        }
        item["call_id"] = json!(call_id);
        item["status"] = json!(status);
        match item {
            Value::Object(fields) => fields,
            _ => Map::new(),
        }
    }

    /// The arguments of a call that a client sends back: what [`ToolForm::item`] made of them, without what it added and
    /// without fields that clients fill up with null.
    pub(super) fn arguments(&self, item: &Value) -> Option<Value> {
        let (_, field) = self.of_clients_program()?;
        let mut arguments = item.get(field)?.as_object()?.clone();
        if *self == Self::LocalShell {
            arguments.remove("type");
            if arguments.get("env").is_some_and(|env| *env == json!({})) {
                arguments.remove("env");
            }
        }
        arguments.retain(|_, value| !value.is_null());
        Some(arguments.into())
    }

    /// What a stream calls the text of a call as it comes; `None` where there are no such events.
    pub(super) fn delta_event(&self) -> Option<&'static str> {
        match self {
            Self::Function | Self::InNamespace { .. } => Some("function_call_arguments"),
            Self::Custom => Some("custom_tool_call_input"),
            Self::LocalShell | Self::Shell | Self::ApplyPatch | Self::ToolSearch => None,
        }
    }
}

/// The text that a custom tool is called with. Arguments of another shape are given as they are, so that nothing that the
/// model said is lost.
pub(super) fn custom_input(arguments: &str) -> String {
    let input = arguments_object(arguments).and_then(|object| Some(object.get(CUSTOM_INPUT)?.as_str()?.to_owned()));
    input.unwrap_or_else(|| arguments.to_owned())
}

/// Arguments of a call, if they are a JSON object: what a model samples may be anything.
fn arguments_object(arguments: &str) -> Option<Value> {
    serde_json::from_str(arguments).ok().filter(Value::is_object)
}

/// The name by which the model knows a function of a namespace.
pub(super) fn name_in_namespace(namespace: &str, name: &str) -> String {
    let separator = if namespace.ends_with("__") { "" } else { "__" };
    format!("{namespace}{separator}{name}")
}

/// The forms of those tools that are not simply functions, by the name by which the model knows them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct ToolForms(BTreeMap<String, ToolForm>);

impl ToolForms {
    pub(super) fn insert(&mut self, name: String, form: ToolForm) {
        self.0.insert(name, form);
    }

    pub(super) fn of(&self, name: &str) -> ToolForm {
        self.0.get(name).cloned().unwrap_or_default()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Of a record whose tools are not all functions: how calls of them are spelled.
pub(super) const TOOL_FORMS: &str = "tool_forms";

/// How calls are spelled of a request that was recorded.
pub(super) fn recorded_forms(extra: &Map<String, Value>) -> ToolForms {
    // Records of other releases have none.
    extra.get(TOOL_FORMS).and_then(|forms| serde_json::from_value(forms.clone()).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_come_back_as_the_model_gave_them() {
        for (form, arguments) in [
            (ToolForm::LocalShell, json!({ "command": ["ls", "-l"], "timeout_ms": 7 })),
            (ToolForm::Shell, json!({ "commands": ["ls"] })),
            (ToolForm::ApplyPatch, json!({ "type": "update_file", "path": "a", "diff": "@@" })),
            (ToolForm::ToolSearch, json!({ "query": "mail" })),
        ] {
            let mut item = Value::from(form.item("c", "x", &arguments.to_string(), "completed"));
            let (found, _) = ToolForm::of_item(item["type"].as_str().unwrap()).unwrap();
            assert_eq!(found, form);
            assert_eq!(form.arguments(&item), Some(arguments.clone()));
            if form == ToolForm::LocalShell {
                item["action"]["working_directory"] = Value::Null;
                assert_eq!(form.arguments(&item), Some(arguments));
            }
        }
    }

    #[test]
    fn arguments_that_are_no_object_are_a_functions_call() {
        for form in [ToolForm::LocalShell, ToolForm::Shell, ToolForm::ApplyPatch, ToolForm::ToolSearch] {
            for arguments in ["\"ls\"", "[\"ls\"]", "7", "null", "ls -l"] {
                let item = Value::from(form.item("c", "x", arguments, "completed"));
                let call = json!({
                    "type": "function_call", "name": "x", "arguments": arguments, "call_id": "c", "status": "completed",
                });
                assert_eq!(item, call);
            }
        }
    }

    #[test]
    fn a_custom_tool_gets_text_and_a_tool_of_a_namespace_its_own_name() {
        let custom = ToolForm::Custom.item("c", "grep", "{\"input\": \"a b\"}", "completed");
        assert_eq!((&custom["type"], &custom["input"]), (&json!("custom_tool_call"), &json!("a b")));
        assert_eq!(custom_input("[1]"), "[1]");
        let form = ToolForm::InNamespace { namespace: "mcp__demo".to_owned(), name: "lookup".to_owned() };
        let call = form.item("c", "mcp__demo__lookup", "{}", "completed");
        assert_eq!((&call["namespace"], &call["name"]), (&json!("mcp__demo"), &json!("lookup")));
        assert_eq!(name_in_namespace("mcp__demo", "lookup"), "mcp__demo__lookup");
        assert_eq!(name_in_namespace("mcp__demo__", "lookup"), "mcp__demo__lookup");
    }
}
