//! `fulgurite man`: pages for `man`, and the reference in Markdown, both made of what the command line takes.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};
use clap::{Arg, Command, CommandFactory};
use fulgurite_terminal::output;

use crate::command_line::arguments::{Cli, ManArguments};

/// Prints or writes the pages.
pub fn man(arguments: &ManArguments) -> Result<()> {
    if let Some(directory) = &arguments.to {
        return write_pages(directory);
    }
    let text = if arguments.markdown { markdown() } else { String::from_utf8(page()?)? };
    output::line(text.trim_end());
    Ok(())
}

/// One file for each command, `fulgurite-train.1` and so on.
fn write_pages(directory: &Path) -> Result<()> {
    let written = std::fs::create_dir_all(directory).and_then(|()| clap_mangen::generate_to(Cli::command(), directory));
    written.with_context(|| format!("the pages cannot be written to {}", directory.display()))
}

/// The page of the command as a whole.
fn page() -> Result<Vec<u8>> {
    let mut page = Vec::new();
    clap_mangen::Man::new(Cli::command()).render(&mut page)?;
    Ok(page)
}

const HEAD: &str = "# Commands

    fulgurite COMMAND --help      # the same on the terminal
    fulgurite man --markdown      # writes this page; a test compares it with the program
    fulgurite man --to DIR        # pages for `man`

Options with a variable in brackets are also read from the environment, which the command line overrules.
";

/// The whole reference, one section for each command.
fn markdown() -> String {
    let mut whole = Cli::command();
    whole.build();
    let mut text = HEAD.to_owned();
    for command in whole.get_subcommands() {
        section(command, &mut text);
    }
    text
}

/// Adds what is told of a command and of those below it, unless its help hides it.
fn section(command: &Command, text: &mut String) {
    if command.is_hide_set() || command.get_name() == "help" {
        return;
    }
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").lines().map(|line| format!("    {}\n", line.trim()));
    let _ = write!(text, "\n## {name}\n\n{about}.\n\n{}", usage.collect::<String>());
    let is_shown =
        |argument: &&Arg| !argument.is_hide_set() && !["help", "version"].contains(&argument.get_id().as_str());
    let rows: String = command.get_arguments().filter(is_shown).map(row).collect();
    if !rows.is_empty() {
        let _ = write!(text, "\n| | |\n|---|---|\n{rows}");
    }
    if let Some(after) = command.get_after_help() {
        let lines = after
            .to_string()
            .lines()
            .map(|line| format!("    {line}").trim_end().to_owned() + "\n")
            .collect::<String>();
        let _ = write!(text, "\n{lines}");
    }
    for below in command.get_subcommands() {
        section(below, text);
    }
}

/// An argument's row of a table.
fn row(argument: &Arg) -> String {
    let mut spelled = argument.to_string();
    if let Some(short) = argument.get_short() {
        let _ = write!(spelled, ", -{short}");
    }
    let mut meaning = argument.get_help().map(ToString::to_string).unwrap_or_default();
    let possible: Vec<String> = argument
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| value.get_name().to_owned())
        .collect();
    let takes_values = argument.get_action().takes_values();
    if takes_values && !possible.is_empty() && !argument.is_hide_possible_values_set() {
        let _ = write!(meaning, " (one of {})", possible.join(", "));
    }
    let defaults: Vec<_> = argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if takes_values && !defaults.is_empty() && !argument.is_hide_default_value_set() {
        let _ = write!(meaning, " (default {})", defaults.join(" "));
    }
    if let Some(variable) = argument.get_env() {
        let _ = write!(meaning, " [{}]", variable.to_string_lossy());
    }
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
    format!("| `{}` | {} |\n", plain(&spelled), plain(&meaning).replace('<', "&lt;"))
}
