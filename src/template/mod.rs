//! `fulgurite template`: what a renderer makes of conversations and of tokens, line by line, for people who debug a
//! prompt and for scripts.

pub mod arguments;
mod check;
mod rows;

use std::sync::Arc;

use anyhow::{Context, Result};
use fulgurite_renderers::{FormatOptions, Parsing, Renderer, Tokenizer, parse_row, render_row, renderer_of};
use fulgurite_terminal::notices::TerminalNotices;
use fulgurite_training::models::model_directory::model_directory;

use crate::template::arguments::{RendererArguments, TemplateAction, TemplateArguments};

/// Does what was asked.
pub fn template(arguments: TemplateArguments) -> Result<()> {
    match arguments.action {
        TemplateAction::Check(arguments) => check::check(&arguments),
        TemplateAction::Render(arguments) => {
            let renderer = open(&arguments.renderer)?;
            rows::answer_each(arguments.rows.as_deref(), |line| render_row(renderer.as_ref(), line))
        }
        TemplateAction::Parse(arguments) => {
            let renderer = open(&arguments.renderer)?;
            let parsing = if arguments.renderer.cookbook_exact { Parsing::CookbookExact } else { Parsing::Own };
            rows::answer_each(arguments.rows.as_deref(), |line| parse_row(renderer.as_ref(), parsing, line))
        }
    }
}

fn open(arguments: &RendererArguments) -> Result<Arc<dyn Renderer>> {
    let tokenizer = match (&arguments.tokenizer, &arguments.model) {
        (Some(tokenizer), _) => Tokenizer::open_file(tokenizer)?,
        (None, model) => {
            let model = model.as_deref().context("neither --model nor --tokenizer is given")?;
            Tokenizer::open(&model_directory(model, &TerminalNotices)?)?
        }
    };
    let options =
        FormatOptions { cookbook_exact: arguments.cookbook_exact, current_date: arguments.current_date.clone() };
    renderer_of(Arc::new(tokenizer), &arguments.name, &options)
        .with_context(|| format!("--renderer {}", arguments.name))
}
