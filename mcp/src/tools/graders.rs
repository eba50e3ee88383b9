//! Graders that the agent writes: checked on examples, and run in a sandbox.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fulgurite_runner::{Bounds, GradedAttempt, Grader, GraderSandboxOptions, SUPERVISE_AGENT};
use fulgurite_types::shortened_line;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::ToolError;
use crate::options::Options;
use crate::progress::Progress;
use crate::session::Session;
use crate::workspace::{check_name, copy_file, write_whole};

/// Bytes of a grader's code.
const CODE: usize = 256 << 10;
/// Examples of a grader.
const EXAMPLES: usize = 100;
/// How far a reward may be from the expected one.
const TOLERANCE: f64 = 1e-6;

/// What a grader in Python is started by. It reads the task and the answer, and prints what `grade` gives.
const MAIN: &str = r#"import json, os, sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import grade

given = grade.grade(json.loads(os.environ["FULGURITE_TASK"]), sys.stdin.read())
print(json.dumps(given if isinstance(given, dict) else {"reward": float(given)}))
"#;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WriteGrader {
    /// What it is called. A name that is there already is written anew; runs that have begun keep theirs.
    pub(super) name: String,
    /// Python with a function `grade(task, answer)`: the task as it is in the data, the model's answer as text. It gives a
    /// number, or a dict with `reward` and other numbers that are recorded beside it. Standard library only.
    pub(super) code: String,
    /// Answers whose reward is known, at least two, of which one earns more than another.
    pub(super) examples: Vec<Example>,
}

#[derive(Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Example {
    /// The task, as `grade` gets it.
    task: Value,
    /// The answer.
    answer: String,
    /// What it must earn.
    reward: f64,
}

pub(super) async fn write(session: &Session, arguments: WriteGrader, _: &Progress) -> Result<String, ToolError> {
    let _turn = session.turn().await?;
    written(session, &arguments).await
}

/// Writes a grader, once its examples come out as they must.
pub(super) async fn written(session: &Session, arguments: &WriteGrader) -> Result<String, ToolError> {
    let WriteGrader { name, code, examples } = arguments;
    let wrong = |why: String| ToolError::Arguments { tool: "write_grader", why };
    check_name(name).map_err(wrong)?;
    if code.len() > CODE {
        return Err(wrong(format!("the code has {} bytes, and may have {CODE}", code.len())));
    }
    if !(2..=EXAMPLES).contains(&examples.len()) {
        return Err(wrong(format!("there are {} examples, and must be 2 to {EXAMPLES}", examples.len())));
    }
    if examples.iter().all(|example| (example.reward - examples[0].reward).abs() <= TOLERANCE) {
        return Err(wrong("all examples earn the same: give one answer that must earn more than another".to_owned()));
    }
    let home = session.workspace.grader(name);
    let fresh = home.with_file_name(format!(".{name}.new"));
    remove(&fresh)?;
    fs::create_dir_all(&fresh).map_err(ToolError::file(&fresh))?;
    write_whole(&fresh.join("grade.py"), code)?;
    write_whole(&fresh.join("main.py"), MAIN)?;
    write_whole(&fresh.join("examples.json"), &json!(examples).to_string())?;
    let checked = check(session, &fresh, examples).await?;
    let lines = checked.iter().map(|(_, line)| line.as_str()).collect::<Vec<_>>().join("\n");
    let failed = checked.iter().filter(|(is_right, _)| !is_right).count();
    if failed > 0 {
        remove(&fresh)?;
        return Err(ToolError::Refused(format!(
            "the grader does not count: {failed} of {} examples did not come out as they must\n{lines}",
            examples.len()
        )));
    }
    remove(&home)?;
    fs::rename(&fresh, &home).map_err(ToolError::file(&home))?;
    Ok(format!("{lines}\nThe grader {name:?} counts.\nNext: start_run(grader = {name:?}, ...)."))
}

/// Why graders cannot run on this machine, and what to do; `None` if they can.
pub(crate) async fn missing(options: &Options) -> Option<String> {
    let [python, flags @ ..] = python();
    let code = "print('{\"reward\": 1}')".to_owned();
    let command: Vec<String> = [python].into_iter().chain(flags).chain(["-c".to_owned(), code]).collect();
    let found = Grader::find(&command, None).map(|grader| grader.supervised(&supervisor(options)));
    let is_kept = !options.unsafe_grader;
    let kept = found.and_then(|grader| if is_kept { grader.in_sandbox(sandbox(options)) } else { Ok(grader) });
    let grader = match kept {
        Ok(grader) => grader,
        Err(error) => return Some(format!("graders cannot run here: {error}; {REMEDY}")),
    };
    let attempt = GradedAttempt { rollout_id: "probe", attempt_id: "probe", task: &Value::Null, output: b"" };
    let fault = grader.grade(&attempt, PROBE).await.err()?;
    Some(format!("graders cannot run here: {fault}; {REMEDY}"))
}

/// What starts the processes that end graders with all that they have started.
fn supervisor(options: &Options) -> [OsString; 2] {
    [options.program.clone().into(), SUPERVISE_AGENT.into()]
}

/// How long a grader that does nothing may take.
const PROBE: Duration = Duration::from_secs(20);
/// What lets graders run.
const REMEDY: &str = "they need python3 and a sandbox of bubblewrap (apt install bubblewrap python3, and user namespaces that \
    this process may make); --unsafe-grader of these tools runs them without a sandbox";

/// What a grader makes of each example, and whether that is right.
async fn check(session: &Session, home: &Path, examples: &[Example]) -> Result<Vec<(bool, String)>, ToolError> {
    let grader = Grader::find(&command(home), Some(home.to_owned()));
    let grader = grader.map_err(|error| ToolError::Refused(error.to_string()))?;
    let grader = grader.supervised(&supervisor(&session.options));
    let grader = match session.options.unsafe_grader {
        true => grader,
        false => grader.in_sandbox(sandbox(&session.options)).map_err(|error| {
            ToolError::Refused(format!("graders run in a sandbox, and none can be made here: {error}; {REMEDY}"))
        })?,
    };
    let mut checked = Vec::with_capacity(examples.len());
    for example in examples {
        checked.push(check_one(&grader, example, session.options.grader_timeout).await);
    }
    Ok(checked)
}

async fn check_one(grader: &Grader, example: &Example, timeout: Duration) -> (bool, String) {
    let Example { task, answer, reward } = example;
    let attempt = GradedAttempt { rollout_id: "example", attempt_id: "example", task, output: answer.as_bytes() };
    let (is_right, given) = match grader.grade(&attempt, timeout).await {
        Ok(given) => {
            let value = json!(given)["value"].as_f64().unwrap_or(f64::NAN);
            ((value - reward).abs() <= TOLERANCE, format!("{value}"))
        }
        Err(fault) => (false, fault.to_string()),
    };
    let mark = if is_right { "ok   " } else { "WRONG" };
    (
        is_right,
        format!(
            "{mark} {} -> {}: {given}, expected {reward}",
            shortened_line(&task.to_string(), 80, "..."),
            shortened_line(answer, 80, "...")
        ),
    )
}

/// What a grader is kept in, on examples as in runs.
fn sandbox(options: &Options) -> GraderSandboxOptions {
    GraderSandboxOptions { readable: Vec::new(), bounds: Bounds::default(), own_program: options.program.clone() }
}

/// The command of a grader that is in a directory.
pub(super) fn command(home: &Path) -> Vec<String> {
    python().into_iter().chain([home.join("main.py").display().to_string()]).collect()
}

/// The interpreter of graders.
fn python() -> [String; 3] {
    // Not from a home directory, where a sandbox does not see it.
    let system = Path::new("/usr/bin/python3");
    let python = if system.exists() { system.display().to_string() } else { "python3".to_owned() };
    [python, "-I".to_owned(), "-B".to_owned()]
}

/// Copies a grader to where a run keeps its own; gives the files.
pub(super) fn copy(session: &Session, name: &str, to: &Path) -> Result<Vec<PathBuf>, ToolError> {
    let from = session.workspace.grader(name);
    if check_name(name).is_err() || !from.is_dir() {
        let known = session.workspace.names("graders");
        return Err(ToolError::Unknown { kind: "grader", name: name.to_owned(), known });
    }
    fs::create_dir_all(to).map_err(ToolError::file(to))?;
    let copied = ["grade.py", "main.py", "examples.json"].map(|file| {
        let path = to.join(file);
        copy_file(&from.join(file), &path).map(|()| path.clone()).map_err(ToolError::file(path))
    });
    copied.into_iter().collect()
}

fn remove(directory: &Path) -> Result<(), ToolError> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(ToolError::file(directory)(error)),
        _ => Ok(()),
    }
}
