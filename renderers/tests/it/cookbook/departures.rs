//! Where the named formats are right and tinker-cookbook is not: which cases differ, and why.

/// One departure: the files (by their names, or by their beginnings where `*` follows), the cases and the reason.
struct Departure {
    files: &'static [&'static str],
    cases: &'static [&'static str],
    reason: &'static str,
}

const DEPARTURES: &[Departure] = &[
    Departure {
        files: &["*"],
        cases: &["prompt special_text_injection"],
        reason: "text of a user that spells a control token stays text",
    },
    Departure {
        files: &["deepseekv3*", "gpt_oss*", "kimi_k2"],
        cases: &["prompt multi_part_text"],
        reason: "the model's template takes text in parts",
    },
    Departure {
        files: &["deepseekv3*"],
        cases: &["prompt tool_call_result"],
        reason: "a turn that is nothing but calls ends as it was sampled; the cookbook drops its end",
    },
    Departure {
        files: &["deepseekv3", "deepseekv3_disable_thinking"],
        cases: &["prompt parallel_tools"],
        reason: "a turn that is nothing but calls ends as it was sampled; the cookbook drops its end",
    },
    Departure {
        files: &["deepseekv3_thinking"],
        cases: &["prompt parallel_tools"],
        reason: "reasoning stands once between `<think>` and `</think>`, not after a `</think>` that nobody sampled",
    },
    Departure {
        files: &["deepseekv3_thinking", "kimi*"],
        cases: &["prompt thinking_string"],
        reason: "reasoning that stands in the text is reasoning",
    },
    Departure {
        files: &["deepseekv3_thinking"],
        cases: &["prompt assistant_last"],
        reason: "in a prompt the last turn is history",
    },
    Departure {
        files: &["deepseekv3_thinking__nostrip"],
        cases: &["prompt multi_turn_plain"],
        reason: "a turn is kept as it was sampled, after the `<think>` of its prompt",
    },
    Departure {
        files: &["kimi_k25_disable_thinking", "kimi_k26_disable_thinking"],
        cases: &["prompt parallel_tools"],
        reason: "the model's template writes no reasoning where it is switched off",
    },
    Departure {
        files: &["gpt_oss*"],
        cases: &["prompt multi_turn_thinking"],
        reason: "the model's template leaves reasoning out once an answer has followed it",
    },
    Departure {
        files: &["gpt_oss*"],
        cases: &["prompt assistant_last"],
        reason: "in a prompt the last turn is history, which the model's template ends by `<|end|>`",
    },
    Departure {
        files: &["gpt_oss*"],
        cases: &["prompt empty_system"],
        reason: "the model's template has no developer message where there is nothing to say",
    },
    Departure {
        files: &["gpt_oss*"],
        cases: &["prompt tools_decl"],
        reason: "the model's template opens parameters on the function's line, and has one system message",
    },
    Departure {
        files: &["role_colon", "qwen3_instruct", "qwen3_vl_instruct"],
        cases: &["prompt thinking_string"],
        reason: "text of an assistant that spells a control token stays text, where the model knows no reasoning",
    },
    Departure {
        files: &[
            "qwen3",
            "qwen3_disable_thinking",
            "qwen3_vl",
            "qwen3_5",
            "qwen3_5_disable_thinking",
            "qwen3_8_*",
            "nemotron3",
            "nemotron3_disable_thinking",
            "nemotron3_low_thinking",
            "nemotron3_ultra",
            "nemotron3_ultra_disable_thinking",
            "nemotron3_ultra_medium_thinking",
        ],
        cases: &["prompt thinking_string"],
        reason: "reasoning that stands in the text of a turn is reasoning, and treated as such",
    },
    Departure {
        files: &["role_colon*", "llama3", "nemotron3_low_thinking"],
        cases: &["prompt multi_part_text"],
        reason: "a list of text parts is text",
    },
    Departure {
        files: &["role_colon*", "llama3"],
        cases: &["prompt tool_call_result"],
        reason: "calls of tools that the format cannot write are refused, not lost",
    },
    Departure {
        files: &["qwen3_vl*"],
        cases: &["prompt tool_call_result"],
        reason: "the chat template writes no line break before a call where no text stands before it",
    },
    Departure {
        files: &["qwen3", "qwen3__nostrip", "qwen3_disable_thinking", "qwen3_instruct", "qwen3_vl*"],
        cases: &["prompt parallel_tools"],
        reason: "the chat template writes results of tools that follow each other into one message",
    },
    Departure {
        files: &["qwen3_5", "qwen3_5_disable_thinking"],
        cases: &["prompt parallel_tools"],
        reason: "the chat template keeps the reasoning of turns after the last message of the user",
    },
    Departure {
        files: &["qwen3", "qwen3_vl", "qwen3_5"],
        cases: &[
            "supervised tool_call_text_think:last_assistant_message",
            "supervised tool_call_text_think:last_assistant_turn",
            "supervised tool_call_text_think:all_assistant_messages",
        ],
        reason: "the chat template keeps the reasoning of turns after the last message of the user",
    },
    Departure {
        files: &["role_colon*"],
        cases: &["supervised multi_turn_plain:all_assistant_messages"],
        reason: "the model itself says the `User:` that ends its turn, also where the conversation goes on",
    },
    Departure {
        files: &["qwen3_instruct"],
        cases: &[
            "supervised multi_turn_thinking:all_assistant_messages",
            "supervised tool_call_text_think:last_assistant_turn",
            "supervised tool_call_text_think:all_assistant_messages",
        ],
        reason: "each turn is trained as it is sampled, with the reasoning that later prompts leave out",
    },
    Departure {
        files: &["qwen3_vl*"],
        cases: &["supervised multi_turn_plain:all_assistant_messages", "supervised multi_turn_plain:all_tokens"],
        reason: "prompts of this conversation extend what was sampled, so that one sequence holds it",
    },
    Departure {
        files: &["qwen3_8_disable_thinking", "nemotron3_disable_thinking", "nemotron3_ultra_disable_thinking"],
        cases: &["supervised multi_turn_plain:all_assistant_messages", "supervised multi_turn_plain:all_tokens"],
        reason: "prompts of this conversation extend what was sampled, so that one sequence holds it",
    },
    Departure {
        files: &["qwen3_5__nostrip", "qwen3_8_xhigh_reasoning", "qwen3_8_medium_reasoning", "qwen3_8_low_reasoning"],
        cases: &[
            "supervised multi_turn_thinking:all_assistant_messages",
            "supervised tool_call_text_think:last_assistant_turn",
            "supervised tool_call_text_think:all_assistant_messages",
        ],
        reason: "prompts of this conversation extend what was sampled, so that one sequence holds it",
    },
    Departure {
        files: &["nemotron3", "nemotron3_low_thinking", "nemotron3_ultra", "nemotron3_ultra_medium_thinking"],
        cases: &[
            "supervised tool_call_text_think:last_assistant_turn",
            "supervised tool_call_text_think:all_assistant_messages",
        ],
        reason: "prompts of this conversation extend what was sampled, so that one sequence holds it",
    },
    Departure {
        files: &["nemotron3_preserve_thinking", "nemotron3_ultra_preserve_thinking"],
        cases: &[
            "supervised multi_turn_plain:all_assistant_messages",
            "supervised multi_turn_plain:all_tokens",
            "supervised multi_turn_thinking:all_assistant_messages",
            "supervised tool_call_text_think:last_assistant_turn",
            "supervised tool_call_text_think:all_assistant_messages",
        ],
        reason: "the `<think>` that the prompt opens is not trained, and a turn without reasoning goes on from it",
    },
    Departure {
        files: &["nemotron3", "nemotron3_low_thinking", "nemotron3_ultra", "nemotron3_ultra_medium_thinking"],
        cases: &[
            "supervised multi_turn_plain:last_assistant_message",
            "supervised multi_turn_plain:last_assistant_turn",
            "supervised multi_turn_plain:all_assistant_messages",
        ],
        reason: "a turn without reasoning goes on from the `<think>` that the prompt opens",
    },
    Departure {
        files: &["nemotron3_preserve_thinking", "nemotron3_ultra_preserve_thinking"],
        cases: &[
            "supervised multi_turn_plain:last_assistant_message",
            "supervised multi_turn_plain:last_assistant_turn",
        ],
        reason: "a turn without reasoning goes on from the `<think>` that the prompt opens",
    },
    Departure {
        files: &["deepseekv3", "deepseekv3_disable_thinking"],
        cases: &[
            "supervised tool_call_text_think:last_assistant_message",
            "supervised tool_call_text_think:last_assistant_turn",
            "supervised tool_call_text_think:all_assistant_messages",
        ],
        reason: "the model is told not to reason, so that reasoning is left out of every turn, not only of those that ask",
    },
    Departure {
        files: &["deepseekv3_thinking"],
        cases: &[
            "supervised tool_call_text_think:last_assistant_message",
            "supervised tool_call_text_think:last_assistant_turn",
            "supervised tool_call_text_think:all_assistant_messages",
        ],
        reason: "reasoning stands once between `<think>` and `</think>`, not after a `</think>` that nobody sampled",
    },
    Departure {
        files: &["deepseekv3_thinking__nostrip"],
        cases: &[
            "supervised multi_turn_plain:last_assistant_message",
            "supervised multi_turn_plain:last_assistant_turn",
            "supervised multi_turn_plain:all_assistant_messages",
            "supervised multi_turn_plain:all_tokens",
            "supervised multi_turn_thinking:all_assistant_messages",
            "supervised tool_call_text_think:all_assistant_messages",
        ],
        reason: "a turn is kept as it was sampled, after the `<think>` of its prompt, which is not trained",
    },
    Departure {
        files: &["gpt_oss*"],
        cases: &[
            "supervised multi_turn_thinking:last_assistant_message",
            "supervised multi_turn_thinking:last_assistant_turn",
            "supervised multi_turn_thinking:all_assistant_messages",
        ],
        reason: "the model's template leaves reasoning out once an answer has followed it",
    },
    Departure {
        files: &["gpt_oss*"],
        cases: &[
            "supervised tool_call_text_think:last_assistant_turn",
            "supervised tool_call_text_think:all_assistant_messages",
        ],
        reason: "prompts of this conversation extend what was sampled, so that one sequence holds it",
    },
    Departure {
        files: &["kimi*"],
        cases: &["supervised multi_turn_plain:all_assistant_messages", "supervised multi_turn_plain:all_tokens"],
        reason: "prompts of this conversation extend what was sampled, so that one sequence holds it",
    },
    Departure {
        files: &["kimi_k26_preserve_thinking"],
        cases: &["supervised multi_turn_thinking:all_assistant_messages"],
        reason: "prompts of this conversation extend what was sampled, so that one sequence holds it",
    },
    Departure {
        files: &["kimi_k25", "kimi_k26", "kimi_k26_preserve_thinking"],
        cases: &[
            "supervised tool_call_text_think:last_assistant_turn",
            "supervised tool_call_text_think:all_assistant_messages",
        ],
        reason: "the `<think>` that the prompt opens is not trained",
    },
];

/// Why a case of a file differs, if it does.
pub fn departure(file: &str, case: &str) -> Option<&'static str> {
    let is_named = |pattern: &str| match pattern.strip_suffix('*') {
        Some(beginning) => file.starts_with(beginning),
        None => file == pattern,
    };
    let names = |departure: &&Departure| {
        departure.files.iter().any(|pattern| is_named(pattern)) && departure.cases.contains(&case)
    };
    DEPARTURES.iter().find(names).map(|departure| departure.reason)
}
