//! `fulgurite harness check`, with small agents in the place of people's command lines.

use std::path::Path;

use serde_json::Value;

use crate::common::{Ran, fulgurite, run};

/// Plays its task by Chat Completions, with a shell for a tool. What is wrong with it is said behind the task.
const AGENT: &str = r#"
import json, os, subprocess, sys, urllib.error, urllib.request

faults = set(sys.argv[2:])
TOOLS = [{"type": "function", "function": {"name": "bash", "parameters": {
    "type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}}}]
messages = [{"role": "user", "content": sys.argv[1]}]

def post(body):
    headers = {"content-type": "application/json"}
    if "keyless" not in faults:
        headers["authorization"] = "Bearer " + os.environ["OPENAI_API_KEY"]
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    request = urllib.request.Request(url, json.dumps({"model": "checked", **body}).encode(), headers)
    return json.load(urllib.request.urlopen(request))["choices"][0]["message"]

def ask():
    refused = 0
    while True:
        try:
            return post({"messages": messages, "tools": TOOLS})
        except urllib.error.HTTPError as error:
            refused += error.code == 400
            if "impatient" in faults or refused > (9 if "obstinate" in faults else 0):
                sys.exit(f"the model answers {error.code}")

if "titles" in faults:
    post({"messages": [{"role": "user", "content": "Write a title: " + sys.argv[1]}]})
while True:
    said = ask()
    messages.append(said)
    if not said.get("tool_calls"):
        break
    calls = said["tool_calls"][:1] if "one_call" in faults else said["tool_calls"]
    for call in calls:
        command = json.loads(call["function"]["arguments"])["command"]
        ran = subprocess.run(command, shell=True, capture_output=True, text=True)
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": ran.stdout})
    if "rewrites" in faults:
        messages[0]["content"] += "!"
"#;

/// The same by Google's own package, streamed.
const GOOGLE_AGENT: &str = r#"
import subprocess, sys
from google import genai
from google.genai import errors, types

client = genai.Client()
shell = types.FunctionDeclaration(
    name="run_shell_command",
    description="Runs a command.",
    parameters=types.Schema(type="OBJECT", properties={"command": types.Schema(type="STRING")}, required=["command"]),
)
other = types.FunctionDeclaration(name="look", description="Looks.", parameters=types.Schema(type="OBJECT"))
config = types.GenerateContentConfig(
    tools=[types.Tool(function_declarations=[shell, other])],
    thinking_config=types.ThinkingConfig(include_thoughts=True),
    automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
)
contents = [types.Content(role="user", parts=[types.Part(text=sys.argv[1])])]

def ask():
    while True:
        try:
            stream = client.models.generate_content_stream(model="checked", contents=contents, config=config)
            return [part for chunk in stream for part in chunk.candidates[0].content.parts]
        except errors.APIError as error:
            if error.code == 400:
                sys.exit(f"the model answers {error.code}")

while True:
    parts = ask()
    contents.append(types.Content(role="model", parts=parts))
    calls = [part.function_call for part in parts if part.function_call]
    if not calls:
        break
    ran = [subprocess.run(call.args["command"], shell=True, capture_output=True, text=True).stdout for call in calls]
    results = [
        types.Part(function_response=types.FunctionResponse(id=call.id, name=call.name, response={"output": output}))
        for call, output in zip(calls, ran)
    ]
    contents.append(types.Content(role="user", parts=results))
"#;

fn check(directory: &Path, faults: &[&str], flags: &[&str]) -> Ran {
    let agent = directory.join("agent.py");
    std::fs::write(&agent, AGENT).unwrap();
    let mut command = fulgurite(["harness", "check"]);
    command.args(flags).args(["--", "python3"]).arg(agent).arg("{task}").args(faults);
    Ran::from(command.output().unwrap())
}

/// The findings and the error; between them is how far it had come, where that took long.
fn findings_and_error(ran: &Ran) -> String {
    format!("{}{}", ran.stdout, ran.stderr.lines().last().unwrap_or_default())
}

#[test]
fn an_agent_is_said_to_do_well_and_how_it_calls_its_model() {
    let directory = tempfile::tempdir().unwrap();
    let ran = check(directory.path(), &[], &[]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    insta::assert_snapshot!(ran.stdout, @r"
    python3
    ok       dialect         Chat Completions, whole
    ok       variables       OPENAI_API_KEY, OPENAI_BASE_URL
    ok       tools           1 tool; bash runs commands
    ok       parallel calls  both of two calls were run
    ok       continuation    2 of 2 later calls go on token by token
    ok       broken answer   it asks again, and goes on
    ok       server error    it asks again, and goes on
    ok       rate limit      it asks again
    ok       side requests   none
    ok       budget          it ends when a call is refused
    ");

    let ran = check(directory.path(), &[], &["--json"]);
    let found: Value = ran.json_lines().pop().unwrap();
    let facts = |check: &str| {
        let findings = found["findings"].as_array().unwrap();
        findings.iter().find(|found| found["check"] == check).unwrap()["facts"].to_string()
    };
    let findings = ["dialect", "variables", "tools", "continuation", "side requests", "budget"].map(facts).join("\n");
    insta::assert_snapshot!(findings, @r#"
    [{"dialect":"chat","streamed":false}]
    ["OPENAI_API_KEY","OPENAI_BASE_URL"]
    {"offered":1,"shell":"bash"}
    {"calls":2,"continued":2,"reasons":[]}
    {"marked":{},"unmarked":0,"others":{}}
    {"calls":4,"refused":1,"ended":true}
    "#);
}

#[test]
fn an_agent_of_googles_package_is_known_by_its_dialect_and_does_well() {
    let directory = tempfile::tempdir().unwrap();
    let agent = directory.path().join("agent.py");
    std::fs::write(&agent, GOOGLE_AGENT).unwrap();
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/python/bin/python");
    assert!(python.exists(), "tests/setup makes {}", python.display());
    let mut command = fulgurite(["harness", "check", "--"]);
    let ran = Ran::from(command.arg(python).arg(&agent).arg("{task}").output().unwrap());
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    let (_, found) = ran.stdout.split_once('\n').unwrap();
    insta::assert_snapshot!(found, @r"
    ok       dialect         generateContent, streamed
    ok       variables       GEMINI_API_KEY, GOOGLE_GEMINI_BASE_URL
    ok       tools           2 tools; run_shell_command runs commands
    ok       parallel calls  both of two calls were run
    ok       continuation    2 of 2 later calls go on token by token
    ok       broken answer   it asks again, and goes on
    ok       server error    it asks again, and goes on
    ok       rate limit      it asks again
    ok       side requests   none
    ok       budget          it ends when a call is refused
    ");
}

#[test]
fn what_is_amiss_with_an_agent_is_named_and_is_a_failure() {
    let directory = tempfile::tempdir().unwrap();
    let ran = check(directory.path(), &["rewrites", "one_call", "titles", "keyless", "obstinate"], &[]);
    assert_eq!(ran.code, Some(1), "{}", ran.stdout);
    insta::assert_snapshot!(findings_and_error(&ran), @r"
    python3
    ok       dialect         Chat Completions, whole
    warning  variables       OPENAI_BASE_URL; not every call brings the key, which a server with an admin key asks for
    ok       tools           1 tool; bash runs commands
    warning  parallel calls  only one of two calls was run
    fault    continuation    0 of 2 later calls go on token by token: history_rewritten
    warning  broken answer   it asks again, and goes on: its conversation is 3 trajectories
    ok       server error    it asks again, and goes on
    ok       rate limit      it asks again
    warning  side requests   1 without tools that no rule of [proxy] auxiliary_rules recognises
    warning  budget          it ends when 10 calls are refused
    error: 1 of 10 checks failed: continuation
    ");

    let ran = check(directory.path(), &["impatient"], &[]);
    assert_eq!(ran.code, Some(1), "{}", ran.stdout);
    insta::assert_snapshot!(findings_and_error(&ran), @r"
    python3
    ok       dialect         Chat Completions, whole
    ok       variables       OPENAI_API_KEY, OPENAI_BASE_URL
    ok       tools           1 tool; bash runs commands
    ok       parallel calls  both of two calls were run
    ok       continuation    2 of 2 later calls go on token by token
    fault    broken answer   the rollout is lost: agent exited with status 1: the model answers 503
    fault    server error    the rollout is lost: agent exited with status 1: the model answers 503
    warning  rate limit      it gives up at the first 429: agent exited with status 1: the model answers 429
    ok       side requests   none
    ok       budget          it ends when a call is refused
    error: 2 of 10 checks failed: broken answer, server error
    ");
}

#[test]
fn an_agent_that_calls_no_model_or_is_not_there_is_told_apart() {
    let ran = run(["harness", "check", "--", "sh", "-c", "echo no model >&2; exit 3", "{task}"]);
    insta::assert_snapshot!(findings_and_error(&ran), @r"
    sh
    fault    dialect         no call of a model came: agent exited with status 3: no model
    error: 1 of 1 checks failed: dialect
    ");
    let mut command = fulgurite(["harness", "check", "codex"]);
    let ran = Ran::from(command.env("PATH", "/nowhere").output().unwrap());
    insta::assert_snapshot!(ran.stderr, @"error: codex: there is no program `codex` on PATH; `npm install --global @openai/codex` installs it");
    let ran = run(["harness", "check", "--", "true"]);
    insta::assert_snapshot!(ran.stderr, @"error: the agent is not told its task: {task} stands for it in the command");
    assert_eq!(run(["harness", "check"]).code, Some(2));
}
