//! The Responses API: `input_items` turns a request's input into messages, `earlier_responses` reads the responses that it
//! continues, but for those of `deleted_responses`, `tools` are those that it declares,
//! `tool_forms` how calls of them are spelled, and `response_request` checks it all. `output_items` are the items of an
//! answer, with ids of `item_id`, and `response_object` its JSON: `reply` writes them, whole and streamed, and `recorded_response` again from the
//! store.

mod deleted_responses;
mod earlier_responses;
mod endpoint;
mod input_items;
mod item_id;
mod output_items;
mod recorded_response;
mod reply;
mod response_object;
mod response_request;
mod tool_forms;
mod tools;

pub(crate) use endpoint::{cancel, create, delete, input_tokens, list_input_items, read, retrieve};
pub(crate) use response_request::conversation;
