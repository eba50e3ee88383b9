//! What the scripted model says.

use serde_json::{Map, Value, json};

use super::trial::Trial;

/// What the two commands print that are called at once; neither stands in the calls themselves.
pub(crate) const PRINTED: [&str; 2] = ["first word", "20 apples"];
// No more than any shell's tool allows: some refuse what looks like a command within a command, as `$((4 * 5))` does.
const COMMANDS: [&str; 2] = ["cat a.txt", "printf '%d apples' 20"];
const FIRST_COMMAND: &str = "printf 'first ' > a.txt; echo word >> a.txt";

/// What begins every answer, so that reasoning has to come back as well.
const THOUGHT: &str = "<think>\nI need the shell.\n</think>\n\n";
/// What a call without the task's tools is answered with.
const TITLE: &str = "A title";

/// A program that some tool of the agent's runs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shell {
    /// The tool.
    pub(crate) name: String,
    /// The field of its arguments that holds the command.
    field: String,
    /// Whether that is a list of words.
    takes_words: bool,
    /// What else has to be there.
    others: Map<String, Value>,
}

/// Names of fields that hold a command.
const FIELDS: [&str; 3] = ["command", "cmd", "script"];
/// What the names of shells' tools hold, in small letters.
const SHELL_NAMES: [&str; 5] = ["bash", "shell", "exec", "terminal", "command"];

impl Shell {
    /// The tool among those that a prompt declares that looks most like a shell.
    pub(crate) fn among(tools: &[Value]) -> Option<Self> {
        let shells: Vec<Self> = tools.iter().filter_map(Self::of).collect();
        let is_named_so = |shell: &&Self| SHELL_NAMES.iter().any(|name| shell.name.to_lowercase().contains(name));
        shells.iter().find(is_named_so).or(shells.first()).cloned()
    }

    fn of(tool: &Value) -> Option<Self> {
        let function = &tool["function"];
        let schema = &function["parameters"];
        let properties = schema["properties"].as_object()?;
        let field = FIELDS.into_iter().find(|field| properties.contains_key(*field))?;
        let takes_words = properties[field]["type"] == "array";
        let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let others = required.filter(|name| *name != field).map(|name| {
            let value = match properties.get(name).and_then(|property| property["type"].as_str()) {
                Some("integer" | "number") => json!(1),
                Some("boolean") => json!(false),
                Some("array") => json!([]),
                _ => json!("Runs a command"),
            };
            (name.to_owned(), value)
        });
        let name = function["name"].as_str()?.to_owned();
        Some(Self { name, field: field.to_owned(), takes_words, others: others.collect() })
    }

    /// A call as Qwen3 writes it.
    fn call(&self, command: &str) -> String {
        let command = match self.takes_words {
            true => json!(["sh", "-c", command]),
            false => json!(command),
        };
        let mut arguments = Map::from_iter([(self.field.clone(), command)]);
        arguments.extend(self.others.clone());
        format!("<tool_call>\n{}\n</tool_call>", json!({ "name": self.name, "arguments": arguments }))
    }

    fn calls(&self, commands: &[&str]) -> String {
        commands.iter().map(|command| self.call(command)).collect::<Vec<_>>().join("\n")
    }
}

/// A prompt of Qwen3's, read back.
#[derive(Debug)]
pub(crate) struct Prompt {
    /// Whose it is; none of a call beside the task.
    pub(crate) trial: Option<Trial>,
    /// What it declares.
    pub(crate) tools: Vec<Value>,
    /// Results of tools that it holds.
    pub(crate) results: usize,
}

impl Prompt {
    /// Reads it.
    pub(crate) fn read(text: &str) -> Self {
        let declared = text.split_once("\n<tools>\n").and_then(|(_, rest)| rest.split_once("\n</tools>"));
        let lines = declared.map_or("", |(tools, _)| tools).lines();
        let tools: Vec<Value> = lines.filter_map(|line| serde_json::from_str(line).ok()).collect();
        let trial = Trial::named_in(text).filter(|_| !tools.is_empty());
        Self { trial, tools, results: text.matches("<tool_response>\n").count() }
    }
}

/// How far the agent has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A call beside the task.
    SideRequest,
    /// One command.
    First,
    /// Two at once.
    Second,
    /// The end.
    Last,
    /// One command more, for ever.
    Onward,
}

impl Step {
    /// What comes next after a prompt.
    pub(crate) fn after(prompt: &Prompt, shell: Option<&Shell>) -> Self {
        match (prompt.trial, prompt.results) {
            (None, _) => Self::SideRequest,
            _ if shell.is_none() => Self::Last,
            (Some(Trial::Budget), _) => Self::Onward,
            (_, 0) => Self::First,
            (_, 1) => Self::Second,
            _ => Self::Last,
        }
    }

    /// What is said then; `ended_by` ends an agent that an answer without a call does not.
    pub(crate) fn text(self, shell: Option<&Shell>, ended_by: Option<&str>) -> String {
        let text = match (self, shell, ended_by) {
            (Self::SideRequest, ..) => return TITLE.to_owned(),
            (Self::First, Some(shell), _) => format!("I write it.\n{}", shell.calls(&[FIRST_COMMAND])),
            (Self::Second, Some(shell), _) => shell.calls(&COMMANDS),
            (Self::Onward, Some(shell), _) => shell.calls(&["true"]),
            (Self::Last, Some(shell), Some(command)) => shell.calls(&[command]),
            _ => "It is \"word\".".to_owned(),
        };
        format!("{THOUGHT}{text}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str, parameters: &Value) -> Value {
        json!({ "type": "function", "function": { "name": name, "parameters": parameters } })
    }

    #[test]
    fn a_shell_is_found_among_tools_by_its_field_and_its_name() {
        let other = tool("run_saved", &json!({ "properties": { "script": { "type": "string" } } }));
        let bash = tool(
            "Bash",
            &json!({
                "properties": { "command": { "type": "string" }, "why": { "type": "string" }, "n": { "type": "integer" } },
                "required": ["command", "why", "n"],
            }),
        );
        let read = tool("Read", &json!({ "properties": { "path": {} } }));
        let shell = Shell::among(&[read.clone(), other.clone(), bash]).unwrap();
        assert_eq!(
            shell.call("ls"),
            "<tool_call>\n{\"name\":\"Bash\",\"arguments\":{\"command\":\"ls\",\"why\":\"Runs a command\",\"n\":1}}\n</tool_call>"
        );
        assert_eq!(Shell::among(&[read.clone(), other]).unwrap().name, "run_saved");
        assert_eq!(Shell::among(&[read]), None);
        let words =
            tool("shell", &json!({ "properties": { "command": { "type": "array" } }, "required": ["command"] }));
        assert!(Shell::among(&[words]).unwrap().call("ls").contains(r#"["sh","-c","ls"]"#));
    }

    #[test]
    fn a_prompt_says_whose_it_is_and_how_far_its_agent_has_come() {
        let declared = tool("bash", &json!({ "properties": { "command": { "type": "string" } } }));
        let beginning = format!("# Tools\n<tools>\n{declared}\n</tools>\nuser\n{}\n", Trial::Plain.task());
        let result = "<tool_response>\nfirst word\n</tool_response>";
        let steps = [0, 1, 2, 3].map(|results| {
            let prompt = Prompt::read(&format!("{beginning}{}", result.repeat(results)));
            let shell = Shell::among(&prompt.tools);
            (prompt.trial, Step::after(&prompt, shell.as_ref()))
        });
        let plain = Some(Trial::Plain);
        assert_eq!(steps, [(plain, Step::First), (plain, Step::Second), (plain, Step::Last), (plain, Step::Last)]);

        let title = Prompt::read(&format!("Write a title for this: {}", Trial::Plain.task()));
        assert_eq!(Step::after(&title, None).text(None, None), "A title");
        let budget = Prompt::read(&beginning.replace(": plain)", ": budget)"));
        let shell = Shell::among(&budget.tools);
        assert_eq!((budget.trial, Step::after(&budget, shell.as_ref())), (Some(Trial::Budget), Step::Onward));
        assert!(Step::Last.text(shell.as_ref(), Some("echo END")).contains("echo END"));
        assert!(Step::Last.text(shell.as_ref(), None).ends_with("It is \"word\"."));
    }
}
