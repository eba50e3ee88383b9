//! What agents are told to do, for hosts that offer it to their users.

/// A prompt.
pub(crate) struct TrainingPrompt {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) text: &'static str,
}

macro_rules! prompt {
    ($name:literal, $about:literal) => {
        TrainingPrompt { name: $name, about: $about, text: include_str!(concat!("prompts/", $name, ".txt")) }
    };
}

/// A prompt for a recipe of `examples/`.
macro_rules! recipe {
    ($name:literal, $about:literal) => {
        TrainingPrompt { name: $name, about: $about, text: include_str!(concat!("prompts/recipes/", $name, ".txt")) }
    };
}

pub(crate) const PROMPTS: [TrainingPrompt; 18] = [
    prompt!("general", "Train a model for a task of yours: from the question to weights"),
    recipe!("arithmetic", "A first success: sums, by reinforcement learning, within an hour on a laptop"),
    prompt!("maths", "Word problems with one number for an answer"),
    prompt!("code", "Small functions that must pass tests"),
    prompt!("style", "A manner of speaking, by examples and preferences"),
    recipe!("hello", "The example of the first minute: a model that plays along"),
    recipe!("typescript", "The same game, played by an agent in TypeScript: a warm agent with its npm package"),
    recipe!("guess_number", "A number in six tries: what hints are worth, guess by guess"),
    recipe!("wordle", "A word of three letters: what rewards add to supervised learning"),
    recipe!(
        "calculator",
        "An agent of LangGraph's or the OpenAI Agents SDK's that calls a tool and answers from its result"
    ),
    recipe!("local_search", "Questions that need two pages: when to search again, and for what"),
    recipe!("two_players", "Self-play: a model against itself, scored against players that do not learn"),
    recipe!("twenty_questions", "A Flow of CrewAI's: questions that tell nouns apart"),
    recipe!("toolbelt", "An office, tools over MCP that the agent adds by itself, and a rubric"),
    recipe!(
        "toy_repo",
        "Small repositories with a seeded bug, a coding agent as it is, and hidden tests as the reward"
    ),
    recipe!("chat_sft", "A style from examples, by supervised fine-tuning"),
    recipe!("dpo_shorter", "Shorter answers, by preferences between the model's own"),
    recipe!("distill", "A system prompt that becomes weights"),
];

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::options::ToolSet;
    use crate::tools::all;

    #[test]
    fn prompts_name_tools_that_there_are() {
        let tools: Vec<&str> = all(ToolSet::Own).iter().map(|tool| tool.name).collect();
        for TrainingPrompt { name, text, .. } in &PROMPTS {
            let words = text.split(|c: char| !(c.is_ascii_lowercase() || c == '_'));
            for path in text.split([' ', '\n', '"', ',', ')']).filter(|word| word.starts_with("examples/")) {
                let path = path.trim_end_matches(['.', ':', ';']);
                let is_there = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path).exists();
                assert!(is_there, "{name} speaks of {path}");
            }
            let named: Vec<&str> = words.filter(|word| word.contains('_') && word.len() > 4).collect();
            assert!(text.len() > 400 && named.iter().any(|word| tools.contains(word)), "{name}");
            let known =
                ["held_out", "final_tasks", "learning_rate", "lora_rank", "group_size", "max_tokens", "wait_seconds"];
            let of_recipes = [
                "right_call",
                "tool_errors",
                "first_page",
                "second_page",
                "not_understood",
                "ruled_out",
                "tools_changed_tokens",
                "make_data",
            ];
            let recipes: Vec<&str> = PROMPTS.iter().map(|prompt| prompt.name).collect();
            for word in named {
                let is_known = [&tools[..], &known, &of_recipes, &recipes].iter().any(|words| words.contains(&word));
                assert!(is_known, "{name} speaks of {word}");
            }
        }
    }
}
