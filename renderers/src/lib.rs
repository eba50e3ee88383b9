//! Conversation to tokens and back: chat templates, stop handling, streaming decoding.
//!
//! - [`Message`]: one message of a conversation, in the shape of OpenAI's chat API; unknown fields survive.
//! - [`Tokenizer`]: a model's tokenizer; text that someone wrote never becomes a control token.
//! - [`Renderer`]: conversation to prompt tokens, sampled tokens to message, conversation to training tokens.
//!   [`ChatMlRenderer`] and [`NamedRenderer`] are written by hand, [`TemplateRenderer`] takes a model's own chat
//!   template, [`open_renderer`] chooses by a name of [`renderer_names`].
//! - [`check_template`]: what a model's chat template is good for, in findings for people and programs.
//! - [`RecordedTurns`]: whether a request continues a recorded turn, and the next prompt, token by token.
//! - [`StreamParser`]: sampled tokens to reasoning, text and tool calls, while they are sampled or all at once.
//! - [`AnswerGrammar`]: what keeps an answer to a schema, or to calls, in a format's own syntax.
//! - [`StreamDecoder`] and [`StopStrings`]: tokens to text while they are sampled.
//! - [`train_byte_level_tokenizer`]: a small tokenizer for a model that is made from nothing.

mod answer_grammar;
mod chat_message;
mod chat_template;
mod chatml_renderer;
mod chunk;
mod content_protection;
mod continuation;
mod control_finder;
mod cookbook_supervised;
mod encoded_texts;
mod error;
mod format;
mod formats;
#[doc(hidden)]
pub mod fuzzing;
mod message;
mod message_values;
mod named_continuation;
mod named_renderer;
mod named_supervised;
mod open_renderer;
mod parsing;
mod pieces;
mod python_builtins;
mod python_json;
mod python_json_decoder;
mod python_methods;
mod python_text;
mod python_time;
mod renderer;
mod renderer_names;
mod response_format;
mod stop_strings;
mod stream_decoder;
mod supervised;
mod template_check;
mod template_continuation;
mod template_conversations;
mod template_dialect;
mod template_program;
mod template_renderer;
mod template_response_format;
mod template_roles;
mod template_run;
#[cfg(test)]
mod testing;
mod token_bytes;
mod tokenizer;
mod tokenizer_config;
mod tokenizer_training;
mod tool_preamble;
mod word_splitter;
mod word_tokens;

pub use answer_grammar::{AnswerGrammar, AnswerShape};
pub use chatml_renderer::ChatMlRenderer;
pub use continuation::{
    ContinuationPolicy, Continued, Departure, Fresh, NextPrompt, RecordedTurn, RecordedTurns, VolatileDetector,
    VolatileRule, VolatileRules, VolatileSpan,
};
pub use error::RenderError;
pub use formats::FormatOptions;
pub use message::{Content, ContentPart, FunctionCall, Message, ToolCall};
pub use named_renderer::NamedRenderer;
pub use open_renderer::{RendererChoice, ToolWriting, open_renderer, renderer_of};
pub use parsing::{
    CookbookMessage, ParseEvent, ParsedMessage, ParsedPart, PartContent, StreamParser, Termination, parse_as_cookbook,
};
pub use renderer::{Continuation, RenderedPrompt, Renderer, RendererIdentity, WeightedTokens};
pub use renderer_names::{recommended_renderers, renderer_names};
pub use response_format::ResponseFormat;
pub use stop_strings::{StopScan, StopStrings};
pub use stream_decoder::StreamDecoder;
pub use supervised::TrainOnWhat;
pub use template_check::{Finding, StopToken, TemplateReport, Verdict, check_template};
pub use template_renderer::{TemplateOptions, TemplateRenderer};
pub use tokenizer::Tokenizer;
pub use tokenizer_training::{CHATML_TEMPLATE, train_byte_level_tokenizer, write_tokenizer_directory};
