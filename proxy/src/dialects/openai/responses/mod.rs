//! The Responses API: `input_items` turns a request's input into messages, the assistant's by `assistant_turn`,
//! `earlier_responses` reads the responses that it continues, but for those of `deleted_responses`, `tools` are those that it
//! declares, `tool_forms` how calls of them are spelled, and `response_request` checks it all. `output_items` are the items of
//! an answer, with ids of `item_id`, and `response_object` its JSON: `reply` writes them, whole and streamed, and
//! `recorded_response` again from the store, with what `record_marks` tell of the request. `compaction` is what a conversation
//! becomes that is compacted.

mod assistant_turn;
mod compaction;
mod deleted_responses;
mod earlier_responses;
mod endpoint;
mod input_items;
mod item_id;
mod output_items;
mod record_marks;
mod recorded_response;
mod reply;
mod response_object;
mod response_request;
mod tool_forms;
mod tools;

pub(crate) use compaction::compact;
pub(crate) use endpoint::{cancel, create, delete, input_tokens, list_input_items, read, retrieve};
pub(crate) use response_request::conversation;
