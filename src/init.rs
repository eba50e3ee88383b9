//! `fulgurite init`: writes one of the examples out, as the beginning of somebody's own project.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use fulgurite_recipes::Recipe;
use fulgurite_terminal::output;

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
        let listed = |recipe: &Recipe| format!("{:<18} {}", recipe.name, recipe.summary());
        Recipe::all().iter().for_each(|recipe| output::line(listed(recipe)));
        return Ok(());
    };
    let recipe = Recipe::named(name)?;
    let directory = arguments.output.clone().unwrap_or_else(|| PathBuf::from(name));
    recipe.write(&directory)?;
    output::line(format_args!("{0} is written; {0}/README.md says what to expect. Next:\n", directory.display()));
    output::line(format_args!("    cd {}\n{}", directory.display(), recipe.first_commands()));
    Ok(())
}
