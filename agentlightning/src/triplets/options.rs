//! The options of an adapter.

use regex::Regex;

/// The name of a model call's span unless another is requested; tracers append to it.
const CALL_NAME: &str = "openai.chat.completion";

/// Which spans are model calls, and how rewards find them.
#[derive(Clone, Debug)]
pub struct TripletOptions {
    /// Put spans that lie at the top of their trace under the span that encloses them most closely.
    pub repair_hierarchy: bool,
    /// Found in the name of a model call's span; `None` is `openai\.chat\.completion`.
    pub llm_call_match: Option<Regex>,
    /// Only calls of agents in whose name this is found; `None` is all calls, also those of no agent.
    pub agent_match: Option<Regex>,
    /// Leave out calls that were made to compute a reward.
    pub exclude_llm_call_in_reward: bool,
    /// How a reward that names no call finds one.
    pub reward_match: RewardMatch,
    /// Leave out calls without token ids, which cannot be trained.
    pub skip_empty_token_spans: bool,
    /// A reward with links goes to the call that they name, not to one guessed by time.
    pub follow_links: bool,
}

impl TripletOptions {
    /// Agent-lightning 0.3's defaults. It does not follow links.
    pub fn agent_lightning() -> Self {
        Self { follow_links: false, ..Self::default() }
    }

    /// Whether a span of this name is a model call.
    pub(super) fn is_call_name(&self, name: &str) -> bool {
        self.llm_call_match.as_ref().map_or(name.contains(CALL_NAME), |pattern| pattern.is_match(name))
    }

    /// The name that is requested, in words.
    pub(super) fn call_name(&self) -> &str {
        self.llm_call_match.as_ref().map_or(CALL_NAME, Regex::as_str)
    }
}

/// Agent-lightning's, but for links: a link to a call is more certain than a guess by time.
impl Default for TripletOptions {
    fn default() -> Self {
        Self {
            repair_hierarchy: true,
            llm_call_match: None,
            agent_match: None,
            exclude_llm_call_in_reward: true,
            reward_match: RewardMatch::default(),
            skip_empty_token_spans: false,
            follow_links: true,
        }
    }
}

/// How a reward that names no call finds one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RewardMatch {
    /// The latest call without a reward that had ended when the reward began.
    #[default]
    FirstOccurrence,
    /// The same, among the calls that have the reward's parent.
    FirstSibling,
}
