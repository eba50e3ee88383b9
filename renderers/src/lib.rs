//! Conversation to tokens and back: chat templates, stop handling, streaming decoding.
//!
//! - [`Tokenizer`]: a model's tokenizer; text that someone wrote never becomes a control token.
//! - [`Renderer`]: conversation to prompt tokens, sampled tokens to message, conversation to training tokens.
//!   [`ChatMlRenderer`] and [`NamedRenderer`] are written by hand, [`TemplateRenderer`] takes a model's own chat
//!   template, [`open_renderer`] chooses by a name of [`renderer_names`].
//! - [`check_template`]: what a model's chat template is good for, in findings for people and programs.
//! - [`RecordedTurns`]: whether a request continues a recorded turn, and the next prompt, token by token.
//! - [`StreamParser`]: sampled tokens to reasoning, text and tool calls, while they are sampled or all at once.
//! - [`AnswerGrammar`]: what keeps an answer to a schema, or to calls, in a format's own syntax.
//! - [`render_briefly`] and [`render_until_cancelled`]: bounds on the work of templates, which are programs of strangers.
//! - [`StreamDecoder`] and [`StopStrings`]: tokens to text while they are sampled.
//! - [`train_byte_level_tokenizer`]: a small tokenizer for a model that is made from nothing.

mod answer_grammar;
mod chat_message;
mod chatml_renderer;
mod continuation;
mod error;
mod formats;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod json_schema;
mod named;
mod open_renderer;
mod parsing;
mod python;
mod reasoning_marks;
mod renderer;
mod renderer_names;
mod response_format;
mod rows;
mod small_files;
mod supervised;
mod system_reminder;
mod templates;
#[cfg(test)]
mod testing;
mod tokenizer;
mod tool_preamble;
mod tools;
mod work_limits;

pub use answer_grammar::{AnswerGrammar, AnswerShape};
pub use chatml_renderer::ChatMlRenderer;
pub use continuation::{
    ContinuationPolicy, Continued, ConversationDigest, Departure, Fresh, NextPrompt, RecordedTurn, RecordedTurns,
    VolatileDetector, VolatileRule, VolatileRules, VolatileSpan,
};
pub use error::RenderError;
pub use formats::format_options::FormatOptions;
pub use named::named_renderer::NamedRenderer;
pub use open_renderer::{RendererChoice, ToolWriting, open_renderer, renderer_of};
pub use parsing::{
    CookbookMessage, ParseEvent, ParsedMessage, ParsedPart, PartContent, StreamParser, Termination, parse_as_cookbook,
};
pub use reasoning_marks::{begins_reasoning, reasoning_ends, split_reasoning};
pub use renderer::{Continuation, RenderedPrompt, Renderer, RendererIdentity};
pub use renderer_names::{recommended_renderers, renderer_names};
pub use response_format::ResponseFormat;
pub use rows::{Parsing, RowError, parse_row, render_row};
pub use supervised::train_on_what::TrainOnWhat;
pub use supervised::weighted_tokens::WeightedTokens;
pub use templates::template_check::{Finding, StopToken, TemplateReport, TemplateVerdict, check_template};
pub use templates::template_renderer::{TemplateOptions, TemplateRenderer};
pub use tokenizer::model_tokenizer::{SpecialTokens, Tokenizer};
pub use tokenizer::stop_strings::{StopScan, StopStrings};
pub use tokenizer::stream_decoder::StreamDecoder;
pub use tokenizer::tokenizer_training::{CHATML_TEMPLATE, train_byte_level_tokenizer, write_tokenizer_directory};
pub use tools::call_arguments::{arguments_text, respelled_json};
pub use work_limits::{Cancellation, render_briefly, render_until_cancelled};
