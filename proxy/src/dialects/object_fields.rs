//! The objects of each dialect's requests whose fields are looked into one by one: those that a reader takes, and those
//! that are wishes.

use crate::dialects::field_checks::Neutral;
use crate::dialects::field_kinds::{Inside, Known, Objects};

/// Chat Completions' `response_format`: a schema in `json_schema`, or beside the type.
pub(crate) const RESPONSE_FORMAT: Known = &[
    ("type", Inside::Taken),
    ("name", Inside::Taken),
    ("schema", Inside::Taken),
    // Whatever it is, the answer keeps to the schema.
    ("strict", Inside::Taken),
    ("description", Inside::Hint(&[])),
    ("json_schema", Inside::Object(SCHEMA)),
];

const SCHEMA: Known = &[
    ("name", Inside::Taken),
    ("schema", Inside::Taken),
    ("strict", Inside::Taken),
    ("description", Inside::Hint(&[])),
];

/// OpenAI's `tool_choice`, in which a chat names a function below its type, and a response beside it.
pub(crate) const TOOL_CHOICE: Known = &[
    ("type", Inside::Taken),
    ("name", Inside::Taken),
    ("mode", Inside::Taken),
    ("tools", Inside::Taken),
    ("function", Inside::Object(&[("name", Inside::Taken)])),
    ("custom", Inside::Object(&[("name", Inside::Taken)])),
    ("allowed_tools", Inside::Object(&[("mode", Inside::Taken), ("tools", Inside::Taken)])),
];

/// `stream_options`, of which a chat's reader takes `include_usage`; a response always tells its usage.
pub(crate) const STREAM_OPTIONS: Known = &[
    ("include_usage", Inside::Taken),
    ("include_obfuscation", Inside::Hint(&[Neutral::False])),
    ("continuous_usage_stats", Inside::Hint(&[Neutral::False])),
];

/// Objects of Responses.
pub(crate) const OF_RESPONSES: Objects = &[
    (
        "reasoning",
        &[
            ("effort", Inside::Taken),
            ("summary", Inside::Taken),
            ("generate_summary", Inside::Taken),
            ("context", Inside::Hint(&[Neutral::Word("auto")])),
            ("mode", Inside::Hint(&[Neutral::Word("standard")])),
        ],
    ),
    ("text", &[("format", Inside::Object(RESPONSE_FORMAT)), ("verbosity", Inside::Taken)]),
    ("stream_options", STREAM_OPTIONS),
    // A list, whose words are looked at apart.
    ("include", &[]),
];

/// Objects of Messages.
pub(crate) const OF_MESSAGES: Objects = &[
    (
        "thinking",
        &[
            ("type", Inside::Taken),
            ("budget_tokens", Inside::Taken),
            ("display", Inside::Taken),
            ("block_binding", Inside::Hint(&[])),
        ],
    ),
    (
        "output_config",
        &[("effort", Inside::Taken), ("format", Inside::Object(RESPONSE_FORMAT)), ("task_budget", Inside::Hint(&[]))],
    ),
    ("output_format", RESPONSE_FORMAT),
    ("mcp_servers", &[]),
];

/// Anthropic's `tool_choice`.
pub(crate) const MESSAGES_TOOL_CHOICE: Known =
    &[("type", Inside::Taken), ("name", Inside::Taken), ("disable_parallel_tool_use", Inside::Taken)];

/// Objects of vLLM's generate.
pub(crate) const OF_GENERATE: Objects = &[("stream_options", STREAM_OPTIONS)];
