//! `fulgurite skills`: what a coding agent is told of doing research with this program, put where it looks for that.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};

use crate::terminal::output;

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

/// Skills by the names of their directories.
const SKILLS: [(&str, &str); 2] = [
    ("fulgurite-research", include_str!("research/SKILL.md")),
    ("fulgurite-debugging", include_str!("debugging/SKILL.md")),
];

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
    for (place, (name, text)) in places.iter().flat_map(|place| SKILLS.map(|skill| (place, skill))) {
        let path = place.join(name).join("SKILL.md");
        install(&path, name, text).with_context(|| format!("cannot write {}", path.display()))?;
        output::line(path.display());
    }
    Ok(())
}

/// Writes a skill; an older one of ours goes.
fn install(path: &Path, name: &str, text: &str) -> Result<()> {
    match std::fs::read_to_string(path) {
        Ok(there) if !there.starts_with(&format!("---\nname: {name}\n")) => {
            bail!("what is there is no skill {name}: move it away")
        }
        _ => {}
    }
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    Ok(std::fs::write(path, text)?)
}
