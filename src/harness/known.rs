//! The agents that can be named, and how each is started.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use fulgurite_runner::Program;

/// What the model is called.
pub const MODEL: &str = "checked";

/// Agents that are known by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Known {
    /// Anthropic's Claude Code
    Claude,
    /// OpenAI's Codex
    Codex,
    /// opencode
    Opencode,
    /// mini-swe-agent
    MiniSweAgent,
    /// Google's Gemini CLI
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

impl Known {
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

    /// Whether it says its version when it is asked by `--version`.
    fn tells_version(self) -> bool {
        self != Self::MiniSweAgent
    }
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
    pub fn of(name: Option<Known>, command: &[String]) -> Result<Self> {
        let Some(known) = name else { return Self::other(command) };
        let name = known.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        let program = known.program();
        if Program::find(&[program.to_owned()], "agent", None).is_err() {
            let hint = known.installed_by();
            bail!("{name}: there is no program `{program}` on PATH; `{hint}` installs it");
        }
        Ok(Self {
            name,
            version: known.tells_version().then(|| version(program)).flatten(),
            command: known.command().into_iter().map(str::to_owned).collect(),
            ended_by: known.ended_by(),
            has_own_home: true,
        })
    }

    fn other(command: &[String]) -> Result<Self> {
        Program::find(command, "agent", None)?;
        if !command.iter().any(|word| word.contains("{task}")) {
            bail!("the agent is not told its task: {{task}} stands for it in the command");
        }
        let name = command.first().context("the agent's command is empty")?.clone();
        Ok(Self { name, version: None, command: command.to_vec(), ended_by: None, has_own_home: false })
    }
}

/// The first word of what a program says about its version that begins with a digit.
fn version(program: &str) -> Option<String> {
    let said = Command::new(program).arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    said.split_whitespace().find(|word| word.starts_with(|first: char| first.is_ascii_digit())).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_agent_that_is_known_is_told_its_task_and_the_models_name() {
        for known in Known::value_variants() {
            let command = known.command();
            assert!(command.contains(&"{task}"), "{known:?}");
            assert!(command.iter().any(|word| word.contains(MODEL)), "{known:?}");
            assert!(command.iter().any(|word| word.contains(known.program())), "{known:?}");
        }
    }
}
