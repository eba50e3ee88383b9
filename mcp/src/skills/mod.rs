//! What a coding agent is told of doing research with this program, put where it looks for that.

use std::path::{Path, PathBuf};

/// Skills by the names of their directories.
const SKILLS: [(&str, &str); 2] = [
    ("fulgurite-research", include_str!("research/SKILL.md")),
    ("fulgurite-debugging", include_str!("debugging/SKILL.md")),
];

/// Error for a skill that cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}", path.display())]
pub struct SkillError {
    /// Its file.
    path: PathBuf,
    /// Why not.
    source: SkillFault,
}

/// Why a skill cannot be written.
#[derive(Debug, thiserror::Error)]
enum SkillFault {
    #[error("what is there is no skill {name}: move it away")]
    Occupied { name: &'static str },
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// Writes every skill below a directory, and hands over the path of each as soon as it is there.
///
/// # Errors
/// If a file cannot be written, or another that is no skill of ours is in its place.
pub fn install_skills(directory: &Path, installed: &mut dyn FnMut(&Path)) -> Result<(), SkillError> {
    for (name, text) in SKILLS {
        let path = directory.join(name).join("SKILL.md");
        match install(&path, name, text) {
            Ok(()) => installed(&path),
            Err(source) => return Err(SkillError { path, source }),
        }
    }
    Ok(())
}

/// Writes a skill; an older one of ours goes.
fn install(path: &Path, name: &'static str, text: &str) -> Result<(), SkillFault> {
    match std::fs::read_to_string(path) {
        Ok(there) if !there.starts_with(&format!("---\nname: {name}\n")) => {
            return Err(SkillFault::Occupied { name });
        }
        _ => {}
    }
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    Ok(std::fs::write(path, text)?)
}
