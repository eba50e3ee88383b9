//! The agents that can be named, and how each is started.

use std::process::{Command, Stdio};

use fulgurite_runner::{Program, RunnerError};

/// What the model is called.
pub(crate) const MODEL: &str = "checked";

/// Agents that are known by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownAgent {
    /// Anthropic's Claude Code.
    Claude,
    /// OpenAI's Codex.
    Codex,
    /// opencode.
    Opencode,
    /// mini-swe-agent.
    MiniSweAgent,
    /// Google's Gemini CLI.
    Gemini,
}

/// How opencode finds a model; it fills in the variables itself.
const OPENCODE_CONFIG: &str = r#"OPENCODE_CONFIG_CONTENT={
    "provider": { "fulgurite": {
        "npm": "@ai-sdk/openai-compatible", "models": { "checked": {} },
        "options": { "baseURL": "{env:OPENAI_BASE_URL}", "apiKey": "{env:OPENAI_API_KEY}" }
    } },
    "permission": { "*": "allow" }
}"#;

/// Codex takes a provider from its command line alone, and the shell fills in where that is.
const CODEX: &str = r#"exec codex exec --model checked --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox \
    -c model_provider=fulgurite -c "model_providers.fulgurite={ name = \"Fulgurite\", base_url = \"$OPENAI_BASE_URL\", \
    env_key = \"OPENAI_API_KEY\", wire_api = \"responses\" }" "$0" </dev/null"#;

/// With a base URL the Gemini CLI takes for granted that a gateway signs it in, which it refuses where it has no dialogs, unless
/// its settings say that there is a key.
const GEMINI: &str = r#"mkdir -p "$HOME/.gemini"
printf %s '{ "security": { "auth": { "selectedType": "gemini-api-key" } } }' > "$HOME/.gemini/settings.json"
exec gemini --model checked --yolo --skip-trust --prompt "$0" </dev/null"#;

impl KnownAgent {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Claude, Self::Codex, Self::Opencode, Self::MiniSweAgent, Self::Gemini];

    /// What users call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Opencode => "opencode",
            Self::MiniSweAgent => "mini-swe-agent",
            Self::Gemini => "gemini",
        }
    }

    /// The program that has to be there.
    fn program(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Opencode => "opencode",
            Self::MiniSweAgent => "mini",
            Self::Gemini => "gemini",
        }
    }

    /// What installs it.
    fn installed_by(self) -> &'static str {
        match self {
            Self::Claude => "npm install --global @anthropic-ai/claude-code",
            Self::Codex => "npm install --global @openai/codex",
            Self::Opencode => "npm install --global opencode-ai",
            Self::MiniSweAgent => "pip install mini-swe-agent mcp",
            Self::Gemini => "npm install --global @google/gemini-cli",
        }
    }

    /// The words that start it on a task.
    fn command(self) -> Vec<&'static str> {
        match self {
            Self::Claude => vec![
                "env",
                "ANTHROPIC_MODEL=checked",
                // Else it does not let root leave permissions out.
                "IS_SANDBOX=1",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
                "claude",
                "-p",
                "{task}",
                "--permission-mode",
                "bypassPermissions",
            ],
            Self::Codex => vec!["sh", "-c", CODEX, "{task}"],
            Self::Gemini => vec!["sh", "-c", GEMINI, "{task}"],
            Self::Opencode => vec![
                "env",
                "OPENCODE_DISABLE_MODELS_FETCH=1",
                "OPENCODE_DISABLE_AUTOUPDATE=1",
                OPENCODE_CONFIG,
                "opencode",
                "run",
                "--model",
                "fulgurite/checked",
                "{task}",
            ],
            Self::MiniSweAgent => vec![
                "env",
                "LITELLM_LOCAL_MODEL_COST_MAP=True",
                // Else it asks for a model and a key.
                "MSWEA_CONFIGURED=true",
                "MSWEA_COST_TRACKING=ignore_errors",
                "mini",
                "--model",
                "openai/checked",
                "--yolo",
                "--exit-immediately",
                "--task",
                "{task}",
            ],
        }
    }

    /// The command that ends it, if an answer without a call does not.
    fn ended_by(self) -> Option<&'static str> {
        (self == Self::MiniSweAgent).then_some("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT")
    }

    /// Whether `--version` prints its version.
    fn prints_version(self) -> bool {
        self != Self::MiniSweAgent
    }
}

/// Error for an agent that cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// An agent that is known by its name is not installed.
    #[error("{name}: there is no program `{program}` on PATH; `{hint}` installs it")]
    NotInstalled {
        /// The agent.
        name: &'static str,
        /// Its program.
        program: &'static str,
        /// The command that installs it.
        hint: &'static str,
    },
    /// A command has no place for the task.
    #[error("the agent is not told its task: {{task}} stands for it in the command")]
    NoTask,
    /// A command has no words.
    #[error("the agent's command is empty")]
    EmptyCommand,
    /// A command's program is not found.
    #[error(transparent)]
    Program(#[from] RunnerError),
}

/// An agent that is checked.
#[derive(Debug)]
pub struct Agent {
    /// As it was named, or its program.
    pub name: String,
    /// What it says of itself.
    pub version: Option<String>,
    /// The words that start it.
    pub command: Vec<String>,
    /// The command that ends it, if an answer without a call does not.
    pub ended_by: Option<&'static str>,
    /// Whether it is kept from what its user has set up: what is asked for is what it does by itself.
    pub has_own_home: bool,
}

impl Agent {
    /// The one of that name, or else the one that a command starts.
    ///
    /// # Errors
    /// If its program is not found, or a command has no place for the task.
    pub fn of(known: Option<KnownAgent>, command: &[String]) -> Result<Self, AgentError> {
        let Some(known) = known else { return Self::other(command) };
        let (name, program) = (known.name(), known.program());
        if Program::find(&[program.to_owned()], "agent", None).is_err() {
            return Err(AgentError::NotInstalled { name, program, hint: known.installed_by() });
        }
        Ok(Self {
            name: name.to_owned(),
            version: known.prints_version().then(|| version(program)).flatten(),
            command: known.command().into_iter().map(str::to_owned).collect(),
            ended_by: known.ended_by(),
            has_own_home: true,
        })
    }

    fn other(command: &[String]) -> Result<Self, AgentError> {
        Program::find(command, "agent", None)?;
        if !command.iter().any(|word| word.contains("{task}")) {
            return Err(AgentError::NoTask);
        }
        let name = command.first().ok_or(AgentError::EmptyCommand)?.clone();
        Ok(Self { name, version: None, command: command.to_vec(), ended_by: None, has_own_home: false })
    }
}

/// The first word of what a program says about its version that begins with a digit.
fn version(program: &str) -> Option<String> {
    let printed = Command::new(program).arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let printed = String::from_utf8_lossy(&printed.stdout).into_owned();
    printed.split_whitespace().find(|word| word.starts_with(|first: char| first.is_ascii_digit())).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_agent_that_is_known_is_told_its_task_and_the_models_name() {
        for known in KnownAgent::ALL {
            let command = known.command();
            assert!(command.contains(&"{task}"), "{known:?}");
            assert!(command.iter().any(|word| word.contains(MODEL)), "{known:?}");
            assert!(command.iter().any(|word| word.contains(known.program())), "{known:?}");
        }
    }
}
