//! What each dialect's requests mean, and how its answers are written.

mod answer_forms;
mod chat_completions;
mod completions;
mod google;
mod message_blocks;
mod messages;
mod responses;
mod same_tokens;
mod schema_fields;
mod several_answers;
mod token_ids;
mod tool_calls;
mod unserved;
mod vllm;
