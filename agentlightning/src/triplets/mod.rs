//! Spans to triplets and conversations, as Agent-lightning's adapters read them, of its tracers and of any other source.

mod any_source;
mod attributes;
mod calls;
mod conversations;
mod llm_proxy;
mod options;
mod python_literal;
mod report;
mod rewards;
#[cfg(test)]
mod tests;
mod tracer;
mod tree;
mod triplet;
mod walk;

pub use any_source::any_triplets;
pub use conversations::{Conversation, ConversationReport, messages};
pub use llm_proxy::llm_proxy_triplets;
pub use options::{RewardMatch, TripletOptions};
pub use python_literal::{LiteralError, parse_python_literal};
pub use report::{PassedOver, Reason, TripletReport};
pub use tracer::tracer_triplets;
pub use triplet::{GenerationFacts, Triplet, TripletMetadata, TripletPrompt, TripletResponse};
