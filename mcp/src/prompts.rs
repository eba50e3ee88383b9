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

pub(crate) const PROMPTS: [TrainingPrompt; 6] = [
    prompt!("general", "Train a model for a task of yours: from the question to weights"),
    prompt!("arithmetic", "A first success: sums, by reinforcement learning, within an hour on a laptop"),
    prompt!("maths", "Word problems with one number for an answer"),
    prompt!("code", "Small functions that must pass tests"),
    prompt!("style", "A manner of speaking, by examples and preferences"),
    prompt!("hello", "The example of the first minute: a model that plays along"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::ToolSet;
    use crate::tools::all;

    #[test]
    fn prompts_name_tools_that_there_are() {
        let tools: Vec<&str> = all(ToolSet::Own).iter().map(|tool| tool.name).collect();
        for TrainingPrompt { name, text, .. } in &PROMPTS {
            let words = text.split(|c: char| !(c.is_ascii_lowercase() || c == '_'));
            let named: Vec<&str> = words.filter(|word| word.contains('_') && word.len() > 4).collect();
            assert!(text.len() > 400 && named.iter().any(|word| tools.contains(word)), "{name}");
            let known =
                ["held_out", "final_tasks", "learning_rate", "lora_rank", "group_size", "max_tokens", "wait_seconds"];
            for word in named {
                assert!(tools.contains(&word) || known.contains(&word), "{name} speaks of {word}");
            }
        }
    }
}
