//! `fulgurite skills`: what a coding agent is told of doing research with this program, put where it looks for that.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};
use fulgurite_mcp::install_skills;
use fulgurite_terminal::output;

/// `fulgurite skills`.
#[derive(Debug, Args)]
pub struct SkillsArguments {
    #[command(subcommand)]
    action: SkillsAction,
}

#[derive(Debug, Subcommand)]
enum SkillsAction {
    /// Write the skills where a coding agent finds them
    Install(InstallArguments),
}

/// `fulgurite skills install`.
#[derive(Debug, Args)]
struct InstallArguments {
    /// Below .claude/skills of the working directory, where Claude Code looks
    #[arg(long)]
    claude: bool,
    /// Below .agents/skills of the working directory, where Codex and others look
    #[arg(long)]
    agents: bool,
    /// Below this directory; without it, --claude and --agents both are meant
    #[arg(value_name = "DIR", conflicts_with_all = ["claude", "agents"])]
    directory: Option<PathBuf>,
}

/// Does what the command line says.
pub fn skills(arguments: &SkillsArguments) -> Result<()> {
    let SkillsAction::Install(InstallArguments { claude, agents, directory }) = &arguments.action;
    let both = !claude && !agents;
    let places = match directory {
        Some(directory) => vec![directory.clone()],
        None => [(*claude || both, ".claude/skills"), (*agents || both, ".agents/skills")]
            .into_iter()
            .filter(|(is_wanted, _)| *is_wanted)
            .map(|(_, place)| PathBuf::from(place))
            .collect(),
    };
    for place in places {
        install_skills(&place, &mut |path| output::line(path.display()))?;
    }
    Ok(())
}
