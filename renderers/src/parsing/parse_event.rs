/// What has become certain of a message that is being sampled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParseEvent {
    /// More reasoning.
    Reasoning(String),
    /// More text.
    Text(String),
    /// A call begins.
    ToolCall {
        /// Counts the calls that begin, from 0.
        index: usize,
        /// Names the call, in formats that do.
        id: Option<String>,
        /// What is called.
        name: String,
    },
    /// More of the JSON text of a call's arguments.
    Arguments {
        /// The call.
        index: usize,
        /// The text.
        delta: String,
    },
    /// A call is complete, and its arguments are an object.
    ToolCallEnd {
        /// The call.
        index: usize,
    },
    /// What was meant to be a call cannot be read as one.
    BrokenToolCall {
        /// The call, if it had begun; its earlier events are void.
        index: Option<usize>,
        /// All that was sampled of it, for people and agents to see.
        text: String,
        /// What is wrong with it.
        error: String,
    },
}
