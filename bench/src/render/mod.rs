//! `fulgurite-bench render`: what it costs to turn conversations into tokens, whole and as continuations, and tokens
//! into messages; beside Hugging Face's `apply_chat_template` in the same run where a Python with transformers is given.

pub mod conversation;
mod python;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use conversation::{Writer, add_turn, beginning, tools};
use fulgurite_renderers::{
    ContinuationPolicy, FormatOptions, NextPrompt, RecordedTurn, RecordedTurns, Renderer, TemplateOptions,
    TemplateRenderer, Tokenizer, VolatileRules, renderer_of, train_byte_level_tokenizer, write_tokenizer_directory,
};
use fulgurite_types::Message;
use python::Python;
use serde_json::{Value, json};

use crate::output;
use crate::table::Columns;

/// The template of the made model: what the templates of reasoning models with tools do, in words of our own.
const TEMPLATE: &str = include_str!("conversation.jinja");
/// Control tokens of the made model beside ChatML's.
const CONTROL_TOKENS: [&str; 6] =
    ["<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"];
const VOCABULARY: usize = 8000;
/// Each operation is measured in so many turns, ours and the other's alternating, so that a noisy moment hits both.
const TURNS: usize = 3;

/// `fulgurite-bench render`.
#[derive(Debug, Args)]
pub struct RenderArguments {
    /// Model directory, in place of a tokenizer and a template that are made for it
    #[arg(long, value_name = "DIR")]
    pub model: Option<PathBuf>,
    /// How conversations are written: auto, template, chatml, or the name of a format such as qwen3_5
    #[arg(long, value_name = "NAME", default_value = "template")]
    pub renderer: String,
    /// Tokens of the conversations
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1000,8000,64000")]
    pub sizes: Vec<usize>,
    /// A Python interpreter that has the package transformers: its apply_chat_template is measured in the same run
    #[arg(long, value_name = "FILE")]
    pub python: Option<PathBuf>,
    /// Print JSON, one object a line
    #[arg(long)]
    pub json: bool,
}

/// Measures and prints.
pub fn bench_render(arguments: RenderArguments) -> Result<()> {
    let made = tempfile::tempdir()?;
    let model = match &arguments.model {
        Some(model) => model.clone(),
        None => make_model(made.path())?,
    };
    let mut python = arguments.python.as_deref().map(|python| Python::start(python, &model)).transpose()?;
    let tokenizer = Arc::new(Tokenizer::open(&model)?);
    let template = TemplateRenderer::open(tokenizer.clone(), TemplateOptions::default())?
        .context("the model has no chat template")?;
    let renderer = renderer_of(tokenizer, &arguments.renderer, &FormatOptions::default())?;
    let mut rows = Vec::new();
    for size in &arguments.sizes {
        let case = Case::new(renderer.as_ref(), *size)?;
        rows.extend(case.measure(renderer.as_ref(), &template, python.as_mut())?);
    }
    report(&rows, arguments.json);
    Ok(())
}

/// A tokenizer trained on the kind of text that is rendered, with a chat template of its own.
pub fn make_model(directory: &Path) -> Result<PathBuf> {
    let mut writer = Writer::new();
    let texts: Vec<String> = (0..400).map(|_| writer.text(10)).collect();
    let tokenizer = train_byte_level_tokenizer(texts, VOCABULARY, &CONTROL_TOKENS)?;
    write_tokenizer_directory(directory, &tokenizer)?;
    std::fs::write(directory.join("chat_template.jinja"), TEMPLATE)?;
    Ok(directory.to_owned())
}

/// One measured operation.
#[derive(Debug)]
struct TemplateRow {
    operation: &'static str,
    /// Tokens of the conversation, or of the reply that is parsed.
    tokens: usize,
    /// Median of one run.
    seconds: f64,
    /// What the time is held against, and that one's median.
    against: Option<(&'static str, f64)>,
}

/// A conversation of some size, and the turn that comes after it.
struct Case {
    messages: Vec<Message>,
    /// The conversation with one more turn, whose reply was sampled, and a tool's result.
    continued: Vec<Message>,
    /// What the model sampled for that turn.
    sampled: Vec<u32>,
    /// A reply as long as the conversation.
    reply: Vec<u32>,
    tools: Vec<Value>,
    tokens: usize,
    repeat: usize,
}

impl Case {
    fn new(renderer: &dyn Renderer, size: usize) -> Result<Self> {
        let mut writer = Writer::new();
        let tools = tools();
        let mut messages = beginning(&mut writer);
        let mut tokens = renderer.render_prompt(&messages, &tools)?.tokens.len();
        while tokens < size {
            let before = (messages.len(), tokens);
            add_turn(&mut messages, &mut writer);
            tokens = renderer.render_prompt(&messages, &tools)?.tokens.len();
            // Far from the size, as many turns at once as are surely missing.
            let missing = (size.saturating_sub(tokens) / (tokens - before.1).max(1)).saturating_sub(2);
            (0..missing).for_each(|_| add_turn(&mut messages, &mut writer));
        }
        tokens = renderer.render_prompt(&messages, &tools)?.tokens.len();
        let mut continued = messages.clone();
        add_turn(&mut continued, &mut writer);
        let stop = renderer.tokenizer().decode(renderer.stop_tokens());
        let spoken = continued[messages.len()].plain_text(0)?;
        let sampled = renderer.tokenizer().encode_with_specials(&format!("{spoken}{stop}"))?;
        let long = format!("<think>\n{}\n</think>\n\n{}{stop}", writer.text(size / 40), writer.text(size / 40));
        let reply = renderer.tokenizer().encode_with_specials(&long)?;
        let repeat = (400_000 / tokens.max(1)).clamp(5, 200);
        Ok(Self { messages, continued, sampled, reply, tools, tokens, repeat })
    }

    fn measure(
        &self,
        renderer: &dyn Renderer,
        template: &TemplateRenderer,
        mut python: Option<&mut Python>,
    ) -> Result<Vec<TemplateRow>> {
        let (mut text, mut fresh, mut continuation, mut parse) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (mut python_text, mut python_tokens) = (Vec::new(), Vec::new());
        let recorded = self.recorded(renderer)?;
        let next = || recorded.next_prompt(renderer, &self.continued, &self.tools, ContinuationPolicy::Exact);
        ensure!(matches!(next()?, NextPrompt::Continued(_)), "the conversation is not continued");
        for _ in 0..TURNS {
            text.extend(self.timed(|| template.render_text(&self.messages, &self.tools).map(drop))?);
            fresh.extend(self.timed(|| renderer.render_prompt(&self.messages, &self.tools).map(drop))?);
            continuation.extend(self.timed(|| next().map(drop))?);
            parse.extend(self.timed(|| {
                std::hint::black_box(renderer.parse(&[], &self.reply, &self.tools));
                Ok::<(), anyhow::Error>(())
            })?);
            if let Some(python) = &mut python {
                let rendered = python.render(&self.messages, &self.tools, false, self.repeat)?;
                python_text.extend(rendered.seconds);
                let ours = template.render_text(&self.messages, &self.tools)?;
                ensure!(rendered.rendered == ours, "Python renders another text:\n{}\n{ours}", rendered.rendered);
                python_tokens.extend(python.render(&self.messages, &self.tools, true, self.repeat)?.seconds);
            }
        }
        let fresh = median(fresh);
        let against = |seconds: Vec<f64>| (!seconds.is_empty()).then(|| ("python", median(seconds)));
        let row = |operation, tokens, seconds, against| TemplateRow { operation, tokens, seconds, against };
        Ok(vec![
            row("template text", self.tokens, median(text), against(python_text)),
            row("render + tokenize", self.tokens, fresh, against(python_tokens)),
            row("continuation", self.tokens, median(continuation), Some(("render + tokenize", fresh))),
            row("parse", self.reply.len(), median(parse), None),
        ])
    }

    /// The conversation as it was recorded when the model sampled its last turn.
    fn recorded(&self, renderer: &dyn Renderer) -> Result<RecordedTurns> {
        let mut recorded = RecordedTurns::new(VolatileRules::built_in());
        recorded.record(&RecordedTurn {
            messages: &self.messages,
            tools: &self.tools,
            reply: &self.continued[self.messages.len()],
            prompt_tokens: &renderer.render_prompt(&self.messages, &self.tools)?.tokens,
            sampled_tokens: &self.sampled,
        });
        Ok(recorded)
    }

    /// Seconds of each of some runs.
    fn timed<E: Into<anyhow::Error>>(&self, run: impl Fn() -> Result<(), E>) -> Result<Vec<f64>> {
        (0..self.repeat)
            .map(|_| {
                let started = Instant::now();
                run().map_err(Into::into)?;
                Ok(started.elapsed().as_secs_f64())
            })
            .collect()
    }
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds.get(seconds.len() / 2).copied().unwrap_or_default()
}

fn report(rows: &[TemplateRow], json: bool) {
    let microseconds = |seconds: f64| 1e6 * seconds;
    if json {
        for row in rows {
            output::line(json!({
                "operation": row.operation, "tokens": row.tokens, "microseconds": microseconds(row.seconds),
                "nanoseconds_per_token": 1e9 * row.seconds / row.tokens as f64,
                "against": row.against.map(|(name, _)| name),
                "against_microseconds": row.against.map(|(_, seconds)| microseconds(seconds)),
                "ratio": row.against.map(|(_, seconds)| row.seconds / seconds),
            }));
        }
        return;
    }
    let mut table = Columns::new(&["operation", "tokens", "µs", "ns/token", "against", "its µs", "ratio"]);
    for row in rows {
        let (name, seconds, ratio) = row.against.map_or_else(Default::default, |(name, seconds)| {
            (name.to_owned(), format!("{:.1}", microseconds(seconds)), format!("{:.3}", row.seconds / seconds))
        });
        table.push(vec![
            row.operation.to_owned(),
            row.tokens.to_string(),
            format!("{:.1}", microseconds(row.seconds)),
            format!("{:.1}", 1e9 * row.seconds / row.tokens as f64),
            name,
            seconds,
            ratio,
        ]);
    }
    table.print();
    output::line("µs: median of one run. ratio: ours to what it is held against; below 1 is faster.");
}
