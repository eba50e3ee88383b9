//! `fulgurite completions`: what a shell needs to complete the command's words.

use anyhow::Result;
use clap::{Command, CommandFactory};
use clap_complete::generate;
use fulgurite_terminal::output;

use crate::command_line::arguments::{Cli, CompletionsArguments};

/// Prints the shell's script.
pub fn completions(arguments: &CompletionsArguments) -> Result<()> {
    let mut command = visible(&Cli::command());
    let mut script = Vec::new();
    generate(arguments.shell, &mut command, "fulgurite", &mut script);
    output::line(String::from_utf8(script)?.trim_end());
    Ok(())
}

/// The command without what its help does not show: scripts for shells would offer it.
fn visible(command: &Command) -> Command {
    let shown = Command::new(command.get_name().to_owned());
    let shown = match command.get_about() {
        Some(about) => shown.about(about.clone()),
        None => shown,
    };
    let arguments = command.get_arguments().filter(|argument| !argument.is_hide_set()).cloned();
    let subcommands = command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()).map(visible);
    shown.args(arguments).subcommands(subcommands)
}
