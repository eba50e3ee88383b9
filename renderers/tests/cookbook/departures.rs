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
