use fulgurite_renderers::Departure;
use fulgurite_types::DepartureReason;

/// A prompt, and how it continues earlier calls.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PlacedPrompt {
    pub(crate) tokens: Vec<u32>,
    /// How many of them it continues.
    pub(crate) tokens_kept: usize,
    /// The generation that it continues token by token.
    pub(crate) continues: Option<String>,
    /// Why it does not continue the latest call; `None` where it does.
    pub(crate) departure: Option<PlacedDeparture>,
}

/// Where a conversation leaves what was recorded.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PlacedDeparture {
    pub(crate) departure: Departure,
    /// The generation that is closest to it.
    pub(crate) generation: Option<String>,
}

impl PlacedDeparture {
    /// That of a call that begins a conversation.
    pub(crate) fn first_turn() -> Self {
        let reason = DepartureReason::FirstTurn;
        let departure = Departure { reason, turn: None, message_index: None, token_index: None, detail: None };
        Self { departure, generation: None }
    }

    /// Says of a call that begins a conversation that it has no tools beside others that have.
    pub(crate) fn mark_next_to_tools(&mut self) {
        if self.departure.reason == DepartureReason::FirstTurn {
            self.departure.reason = DepartureReason::NextToTools;
        }
    }
}
