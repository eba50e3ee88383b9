//! What happens in an attempt: model calls, rewards, and whatever else is traced.

use std::hash::{DefaultHasher, Hash, Hasher};

use fulgurite_store::{SpanMessage, found_reward};
use fulgurite_types::{FoundReward, Generation, Object, RecordedTeacherLogprobs, Span};
use serde_json::{Value, json};

/// One thing that happened in an attempt.
pub enum RolloutEvent {
    /// A model call.
    Call(Box<RecordedCall>),
    /// A reward.
    Reward(Box<FoundReward>),
    /// Anything else that was traced.
    Span(Box<Span>),
}

/// A model call, with what its span says of it.
pub struct RecordedCall {
    /// Its tokens.
    pub generation: Generation,
    /// What teachers made of them.
    pub teachers: Vec<RecordedTeacherLogprobs>,
    /// Its prompt.
    pub messages: Vec<SpanMessage>,
    /// Its answer.
    pub answer: SpanMessage,
}

/// The calls of an attempt so far: what later calls and rewards refer to of them.
#[derive(Default)]
pub struct EarlierCalls(Vec<EarlierCall>);

struct EarlierCall {
    generation_id: String,
    /// Of its prompt's messages and its answer, in their order.
    message_hashes: Vec<u64>,
}

/// Where a call's conversation comes from.
pub enum CallOrigin {
    /// It continues an earlier call, token by token.
    Continues {
        /// The place of that call, counted from 1, if it is among those before.
        number: Option<usize>,
        /// Messages of the call that the earlier one has as well.
        shared: usize,
    },
    /// It begins like an earlier call, and not with that call's tokens.
    BeginsLike {
        /// The place of that call, counted from 1.
        number: usize,
        /// Messages that both have.
        shared: usize,
    },
    /// It begins a conversation.
    Begins,
}

impl RolloutEvent {
    /// What a span stands for, given the generation that it is of and what teachers made of that.
    pub(super) fn new(span: Span, generation: Option<Generation>, teachers: Vec<RecordedTeacherLogprobs>) -> Self {
        if let Some(generation) = generation {
            Self::Call(Box::new(RecordedCall::new(generation, &span.attributes, teachers)))
        } else if let Some(found) = found_reward(&span) {
            Self::Reward(Box::new(found))
        } else {
            Self::Span(Box::new(span))
        }
    }

    /// The event for programs.
    pub fn json(&self) -> Value {
        match self {
            Self::Call(call) => call.json(),
            Self::Reward(found) => json!({ "reward": found }),
            Self::Span(span) => json!({ "span": span }),
        }
    }
}

impl RecordedCall {
    fn new(generation: Generation, attributes: &Object, teachers: Vec<RecordedTeacherLogprobs>) -> Self {
        let unknown = || SpanMessage { role: "assistant".to_owned(), content: String::new(), calls: Vec::new() };
        let answer = SpanMessage::of_answers(attributes).into_iter().next().unwrap_or_else(unknown);
        Self { generation, teachers, messages: SpanMessage::of_prompt(attributes), answer }
    }

    fn json(&self) -> Value {
        let mut value = json!({ "generation": self.generation, "answer": self.answer.content });
        if !self.answer.calls.is_empty() {
            let tool_call = |(name, arguments): &(String, String)| json!({ "name": name, "arguments": arguments });
            value["tool_calls"] = self.answer.calls.iter().map(tool_call).collect();
        }
        if !self.teachers.is_empty() {
            let of_teacher = |RecordedTeacherLogprobs { run_id, values }: &RecordedTeacherLogprobs| json!({ "run_id": run_id, "teacher": values.teacher, "logprobs": values.logprobs });
            value["teacher_logprobs"] = self.teachers.iter().map(of_teacher).collect();
        }
        value
    }

    /// How many of this call's messages an earlier one has as well, its answer included.
    fn shared_with(&self, earlier: &EarlierCall) -> usize {
        let shown = earlier.message_hashes.iter();
        self.messages.iter().zip(shown).take_while(|(new, old)| hash(new) == **old).count()
    }
}

impl EarlierCalls {
    /// Adds a call.
    pub fn push(&mut self, call: &RecordedCall) {
        let messages = call.messages.iter().chain([&call.answer]);
        let generation_id = call.generation.generation_id.clone();
        self.0.push(EarlierCall { generation_id, message_hashes: messages.map(hash).collect() });
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The number of a call, counting from 1.
    pub fn number(&self, generation_id: &str) -> Option<usize> {
        self.0.iter().position(|call| call.generation_id == generation_id).map(|index| index + 1)
    }

    /// Where the next call comes from.
    pub fn origin(&self, call: &RecordedCall) -> CallOrigin {
        if let Some(parent_id) = &call.generation.parent_id {
            let parent = self.0.iter().find(|parent| parent.generation_id == *parent_id);
            let shared = parent.map_or(0, |parent| call.shared_with(parent));
            return CallOrigin::Continues { number: self.number(parent_id), shared };
        }
        let nearest = self.0.iter().enumerate().map(|(index, other)| (call.shared_with(other), index)).max();
        match nearest {
            Some((shared, index)) if shared > 0 => CallOrigin::BeginsLike { number: index + 1, shared },
            _ => CallOrigin::Begins,
        }
    }
}

/// Stands for what a message says.
fn hash(message: &SpanMessage) -> u64 {
    let mut hasher = DefaultHasher::new();
    message.identity().hash(&mut hasher);
    hasher.finish()
}
