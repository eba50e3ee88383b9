use fulgurite_backends::UpstreamDialect;
use fulgurite_types::Message;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::dialects::anthropic::error::RequestId;
use crate::dialects::json_text::write_json;
use crate::dialects::{anthropic, openai};
use crate::error::ProxyError;
use crate::reply::event_text::{write_event, write_named_event};
use crate::requests::exact_json::ExactValues;

/// A route whose calls are forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    ChatCompletions,
    Completions,
    Responses,
    Compaction,
    Embeddings,
    Messages,
    CountTokens,
}

/// A request's conversation for the record.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Conversation {
    pub(crate) messages: Vec<Message>,
    pub(crate) tools: Vec<Value>,
    /// The request's fields that it is read from.
    pub(crate) source_fields: &'static [&'static str],
}

impl Route {
    /// Its path below the version.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Route::ChatCompletions => "chat/completions",
            Route::Completions => "completions",
            Route::Responses => "responses",
            Route::Compaction => "responses/compact",
            Route::Embeddings => "embeddings",
            Route::Messages => "messages",
            Route::CountTokens => "messages/count_tokens",
        }
    }

    /// The route of that path, of those that a model answers with text.
    pub(crate) fn of_openai(path: &str) -> Option<Self> {
        [Route::ChatCompletions, Route::Completions, Route::Responses].into_iter().find(|route| route.path() == path)
    }

    /// The request's field that holds the prompt.
    pub(super) fn prompt_field(self) -> &'static str {
        match self {
            Route::ChatCompletions | Route::Messages | Route::CountTokens => "messages",
            Route::Completions => "prompt",
            Route::Responses | Route::Compaction | Route::Embeddings => "input",
        }
    }

    pub(super) fn dialect(self) -> UpstreamDialect {
        match self {
            Route::ChatCompletions | Route::Completions | Route::Responses | Route::Compaction | Route::Embeddings => {
                UpstreamDialect::OpenAi
            }
            Route::Messages | Route::CountTokens => UpstreamDialect::Anthropic,
        }
    }

    /// Name of a call's span: the one by which readers find calls of every dialect.
    pub(super) fn span_name(self) -> &'static str {
        match self {
            Route::Completions => "openai.completion",
            Route::Embeddings => "openai.embeddings",
            Route::ChatCompletions | Route::Responses | Route::Compaction | Route::Messages | Route::CountTokens => {
                "openai.chat.completion"
            }
        }
    }

    /// `gen_ai.operation.name` of OpenTelemetry's conventions.
    pub(super) fn operation(self) -> &'static str {
        match self {
            Route::Completions => "text_completion",
            Route::Embeddings => "embeddings",
            Route::ChatCompletions | Route::Responses | Route::Compaction | Route::Messages | Route::CountTokens => {
                "chat"
            }
        }
    }

    /// Whether a model speaks in the answer.
    pub(super) fn is_generation(self) -> bool {
        !matches!(self, Route::Embeddings | Route::CountTokens)
    }

    /// Whether its calls are recorded: a count is no call of a model.
    pub(super) fn is_recorded(self) -> bool {
        self != Route::CountTokens
    }

    /// What a conversation has of a body that its fields would round.
    pub(super) fn exact_values(self, body: &[u8]) -> ExactValues {
        match self {
            Route::Messages => ExactValues::read(body, &[anthropic::CALL_INPUTS]),
            // Their calls have texts, or they have none.
            Route::ChatCompletions
            | Route::Completions
            | Route::Responses
            | Route::Compaction
            | Route::Embeddings
            | Route::CountTokens => ExactValues::default(),
        }
    }

    /// The conversation of a request, as far as it has a form in chats; `exact` has what its fields round.
    pub(super) fn conversation(self, fields: &Map<String, Value>, exact: &ExactValues) -> Conversation {
        let (source_fields, known): (&[&str], _) = match self {
            Route::ChatCompletions => (&["messages", "tools"], openai::chat_request::conversation(fields)),
            Route::Responses | Route::Compaction => {
                (&["instructions", "input", "tools"], openai::responses::conversation(fields))
            }
            Route::Messages => (&["system", "messages", "tools"], anthropic::conversation_of(fields, exact)),
            Route::Completions | Route::Embeddings | Route::CountTokens => (&[], None),
        };
        known.map_or_else(Conversation::default, |(messages, tools)| Conversation { messages, tools, source_fields })
    }

    /// The event that breaks a stream off.
    pub(super) fn error_event(self, error: &ProxyError) -> Vec<u8> {
        let mut out = Vec::new();
        let mut named = |event: Value| write_named_event(&mut out, "error", event);
        match self {
            Route::Messages | Route::CountTokens => {
                named(anthropic::error_event(error, &RequestId::of(Uuid::now_v7())))
            }
            Route::Responses | Route::Compaction => {
                let mut event = openai::error::body(error)["error"].take();
                event["type"] = json!("error");
                named(event)
            }
            Route::ChatCompletions | Route::Completions | Route::Embeddings => {
                write_event(&mut out, |out| write_json(out, &openai::error::body(error)));
            }
        }
        out
    }
}
