//! `fulgurite init`: writes one of the examples out, as the beginning of somebody's own project.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use fulgurite_types::nearest_name;

use self::recipes::{RECIPES, Recipe};
use self::standing_alone::{first_commands, first_sentence, standing_alone};
use crate::terminal::output;

mod recipes;
mod standing_alone;

/// `fulgurite init`.
#[derive(Debug, Args)]
pub struct InitArguments {
    /// Which recipe; without one, they are listed
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Directory to write to, which must be new or empty [default: NAME]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// Writes a recipe out, or says which there are.
pub fn init(arguments: &InitArguments) -> Result<()> {
    let Some(name) = &arguments.name else {
        if arguments.output.is_some() {
            bail!("--output needs the NAME of a recipe; `fulgurite init` lists them");
        }
        RECIPES.iter().for_each(|recipe| output::line(listed(recipe)));
        return Ok(());
    };
    let Some(recipe) = RECIPES.iter().find(|recipe| recipe.name == name) else {
        let names: Vec<&str> = RECIPES.iter().map(|recipe| recipe.name).collect();
        let suggestion = nearest_name(name, &names).map(|near| format!("; did you mean `{near}`?"));
        bail!("there is no recipe `{name}`{} There are {}", suggestion.as_deref().unwrap_or("."), names.join(", "));
    };
    let directory = arguments.output.clone().unwrap_or_else(|| PathBuf::from(name));
    write(recipe, &directory)?;
    let commands = first_commands(&standing_alone(recipe.name, "README.md", readme(recipe)));
    output::line(format_args!("{0} is written; {0}/README.md says what to expect. Next:\n", directory.display()));
    output::line(format_args!("    cd {}\n{commands}", directory.display()));
    Ok(())
}

fn listed(recipe: &Recipe) -> String {
    format!("{:<18} {}", recipe.name, first_sentence(readme(recipe)))
}

fn readme(recipe: &Recipe) -> &'static str {
    recipe.files.iter().find(|(path, _)| *path == "README.md").map_or("", |(_, text)| text)
}

/// Writes every file of a recipe. It appears whole or not at all: it is written beside its place, and moved there.
fn write(recipe: &Recipe, directory: &Path) -> Result<()> {
    let cannot = || format!("cannot write {}", directory.display());
    let is_empty = || directory.read_dir().is_ok_and(|mut entries| entries.next().is_none());
    if directory.exists() && !is_empty() {
        let what = if directory.is_dir() { "not empty" } else { "a file" };
        bail!("{} is {what}: name another directory with --output", directory.display());
    }
    let parent = directory.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(parent).with_context(cannot)?;
    let made = tempfile::Builder::new().prefix(".fulgurite-init-").tempdir_in(parent).with_context(cannot)?;
    for (path, text) in recipe.files {
        let file = made.path().join(path);
        if let Some(parent) = file.parent() {
            std::fs::create_dir_all(parent).with_context(cannot)?;
        }
        std::fs::write(&file, standing_alone(recipe.name, path, text)).with_context(cannot)?;
    }
    readable_by_all(made.path()).with_context(cannot)?;
    // An empty directory gives way to it.
    std::fs::rename(made.path(), directory).with_context(cannot)?;
    // What was moved away is not there to be removed.
    let _moved = made.keep();
    Ok(())
}

/// A temporary directory is its maker's alone; a project is as any other directory.
fn readable_by_all(directory: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o755))
}
