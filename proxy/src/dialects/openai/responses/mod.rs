//! The Responses API: `input_items` turns a request's input into messages, the assistant's by `assistant_turn`,
//! `earlier_responses` has the responses that it continues, `tools` are those that it
//! declares, `tool_forms` how calls of them are spelled, and `response_request` checks it all. `output_items` are the items of
//! an answer, with ids of `item_id`, and `response_object` its JSON: `reply` writes them, whole and streamed, and
//! `recorded_response` again from the store, with what `record_marks` tell of the request. `compaction` is what a conversation
//! becomes that is compacted.

mod assistant_turn;
pub(crate) mod compaction;
pub(crate) mod earlier_responses;
mod input_items;
mod item_id;
mod output_items;
pub(crate) mod record_marks;
pub(crate) mod recorded_response;
mod reply;
mod response_object;
pub(crate) mod response_request;
mod tool_forms;
mod tools;

pub(crate) use response_request::conversation;
