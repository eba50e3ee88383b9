//! The objects of each dialect's requests whose fields are looked into one by one: those that a reader takes, and those
//! that are wishes.

use crate::dialects::field_checks::Neutral;
use crate::dialects::field_kinds::{Inside, Known, Objects};

/// Chat Completions' `response_format`: a schema in `json_schema`, or beside the type.
pub(crate) const RESPONSE_FORMAT: Known = &[
    ("type", Inside::Accepted),
    ("name", Inside::Accepted),
    ("schema", Inside::Accepted),
    // Whatever it is, the answer keeps to the schema.
    ("strict", Inside::Accepted),
    ("description", Inside::Hint(&[])),
    ("json_schema", Inside::Object(SCHEMA)),
];

const SCHEMA: Known = &[
    ("name", Inside::Accepted),
    ("schema", Inside::Accepted),
    ("strict", Inside::Accepted),
    ("description", Inside::Hint(&[])),
];

/// OpenAI's `tool_choice`, in which a chat names a function below its type, and a response beside it.
pub(crate) const TOOL_CHOICE: Known = &[
    ("type", Inside::Accepted),
    ("name", Inside::Accepted),
    ("mode", Inside::Accepted),
    ("tools", Inside::Accepted),
    ("function", Inside::Object(&[("name", Inside::Accepted)])),
    ("custom", Inside::Object(&[("name", Inside::Accepted)])),
    ("allowed_tools", Inside::Object(&[("mode", Inside::Accepted), ("tools", Inside::Accepted)])),
];

/// `stream_options`, of which a chat's reader takes `include_usage`; a response always tells its usage.
pub(crate) const STREAM_OPTIONS: Known = &[
    ("include_usage", Inside::Accepted),
    ("include_obfuscation", Inside::Hint(&[Neutral::False])),
    ("continuous_usage_stats", Inside::Hint(&[Neutral::False])),
];

/// Objects of Responses.
pub(crate) const OF_RESPONSES: Objects = &[
    (
        "reasoning",
        &[
            ("effort", Inside::Accepted),
            ("summary", Inside::Accepted),
            ("generate_summary", Inside::Accepted),
            ("context", Inside::Hint(&[Neutral::Word("auto")])),
            ("mode", Inside::Hint(&[Neutral::Word("standard")])),
        ],
    ),
    ("text", &[("format", Inside::Object(RESPONSE_FORMAT)), ("verbosity", Inside::Accepted)]),
    ("stream_options", STREAM_OPTIONS),
    // A list, whose words are looked at apart.
    ("include", &[]),
];

/// Objects of Messages.
pub(crate) const OF_MESSAGES: Objects = &[
    (
        "thinking",
        &[
            ("type", Inside::Accepted),
            ("budget_tokens", Inside::Accepted),
            ("display", Inside::Accepted),
            ("block_binding", Inside::Hint(&[])),
        ],
    ),
    (
        "output_config",
        &[
            ("effort", Inside::Accepted),
            ("format", Inside::Object(RESPONSE_FORMAT)),
            ("task_budget", Inside::Hint(&[])),
        ],
    ),
    ("output_format", RESPONSE_FORMAT),
    ("mcp_servers", &[]),
];

/// Anthropic's `tool_choice`.
pub(crate) const MESSAGES_TOOL_CHOICE: Known =
    &[("type", Inside::Accepted), ("name", Inside::Accepted), ("disable_parallel_tool_use", Inside::Accepted)];

/// Objects of vLLM's generate.
pub(crate) const OF_GENERATE: Objects = &[("stream_options", STREAM_OPTIONS)];
