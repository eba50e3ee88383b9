//! A host of the protocol: it starts the tools, and calls them over their standard streams.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};

use crate::common::{Process, fulgurite};

/// Where the tools keep their key: not in the home directory of whoever tests.
pub const STATE: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/state");

/// A host and its tools.
pub struct Host {
    pub process: Process,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
    calls: u64,
    /// Notifications that came before an answer.
    pub notified: Vec<Value>,
}

/// What a tool answered.
#[derive(Debug)]
pub struct ToolAnswer {
    pub text: String,
    pub is_error: bool,
    /// The same as data, where it is any.
    pub data: Value,
}

impl Host {
    /// Starts `fulgurite mcp` in a project.
    pub fn start(project: &Path, arguments: &[&str]) -> Self {
        let mut command = fulgurite(["mcp"]);
        command.env("XDG_STATE_HOME", STATE);
        command.args(super::flags()).args(arguments).current_dir(project).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Process::spawn(command);
        let (input, output) = (process.stdin(), process.stdout());
        let mut host = Self {
            process,
            input: Some(input),
            output: BufReader::new(output).lines(),
            calls: 0,
            notified: Vec::new(),
        };
        let client = json!({ "name": "test", "version": "1" });
        let parameters = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
        let answer = host.request("initialize", &parameters);
        assert_eq!(answer["result"]["serverInfo"]["name"], "fulgurite", "{answer}");
        host.write(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        host
    }

    pub fn write(&mut self, message: &Value) {
        let input = self.input.as_mut().unwrap();
        writeln!(input, "{message}").unwrap();
        input.flush().unwrap();
    }

    /// Sends a request and gives its number.
    pub fn send(&mut self, method: &str, parameters: &Value) -> u64 {
        self.calls += 1;
        let id = self.calls;
        self.write(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": parameters }));
        id
    }

    /// The answer to a request.
    pub fn answer_to(&mut self, id: u64) -> Value {
        loop {
            let line = self.output.next().expect("the tools have ended").unwrap();
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == id {
                return message;
            }
            self.notified.push(message);
        }
    }

    pub fn request(&mut self, method: &str, parameters: &Value) -> Value {
        let id = self.send(method, parameters);
        self.answer_to(id)
    }

    /// Calls a tool.
    pub fn tool(&mut self, name: &str, arguments: Value) -> ToolAnswer {
        let id = self.call(name, arguments);
        self.answer_of(id)
    }

    /// Begins to call a tool.
    pub fn call(&mut self, name: &str, arguments: Value) -> u64 {
        let token = json!({ "progressToken": name });
        self.send("tools/call", &json!({ "name": name, "arguments": arguments, "_meta": token }))
    }

    /// What a call came to.
    pub fn answer_of(&mut self, id: u64) -> ToolAnswer {
        let answer = self.answer_to(id);
        let result = &answer["result"];
        let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
        ToolAnswer { text, is_error: result["isError"] == true, data: result["structuredContent"].clone() }
    }

    /// Calls a tool that must succeed.
    pub fn done(&mut self, name: &str, arguments: Value) -> String {
        let ToolAnswer { text, is_error, .. } = self.tool(name, arguments);
        assert!(!is_error, "{name}: {text}");
        text
    }

    /// Calls a tool that must fail.
    pub fn refused(&mut self, name: &str, arguments: Value) -> String {
        let ToolAnswer { text, is_error, .. } = self.tool(name, arguments);
        assert!(is_error, "{name}: {text}");
        text
    }

    /// Goes away, as a host does that is closed.
    pub fn close(mut self) -> Option<i32> {
        drop(self.input.take());
        self.process.exit_code()
    }
}
