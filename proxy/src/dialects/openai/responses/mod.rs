//! The Responses API: `input_items` makes messages of a request's input, with what `earlier_responses` reads of
//! responses that it goes on from; `tools` are those that it declares, and `response_request` is all of it, checked.
//! `output_items` are what an answer says, and `response_object` is the JSON of it all: `reply` writes them, whole and
//! streamed, and `recorded_response` once more from the store.

mod earlier_responses;
mod endpoint;
mod input_items;
mod output_items;
mod recorded_response;
mod reply;
mod response_object;
mod response_request;
mod tools;

pub(crate) use endpoint::{create, read, retrieve};
pub(crate) use response_request::conversation;
