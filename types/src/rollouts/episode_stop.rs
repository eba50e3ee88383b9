use crate::text::words::words;

words! {
    /// Why an episode ended; the names are tinker-cookbook's.
    #[derive(Default)]
    EpisodeStop {
        /// The agent was done.
        #[default]
        Completed = "completed",
        /// A tool ended the episode.
        ToolStopped = "tool_stopped",
        /// No more turns were allowed.
        MaxTurns = "max_turns",
        /// The answer of one turn was cut off.
        MaxTokens = "max_tokens",
        /// The episode had sampled all the tokens that it may.
        MaxSampledTokens = "max_sampled_tokens",
        /// No more tool calls were allowed.
        MaxToolCalls = "max_tool_calls",
        /// The next prompt did not fit the context, or what the episode's tokens leave for it.
        ContextOverflow = "context_overflow",
        /// An answer could not be parsed.
        ParseError = "parse_error",
        /// The rollout ran out of time.
        RolloutTimeout = "rollout_timeout",
    }
}

impl EpisodeStop {
    /// Whether a budget of the episode ran out. A context that overflows and an answer that cannot be parsed are no
    /// budgets: the environment scores them itself.
    pub fn is_limit(self) -> bool {
        match self {
            Self::MaxTurns | Self::MaxTokens | Self::MaxSampledTokens | Self::MaxToolCalls | Self::RolloutTimeout => {
                true
            }
            Self::Completed | Self::ToolStopped | Self::ContextOverflow | Self::ParseError => false,
        }
    }
}
