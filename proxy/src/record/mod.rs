//! What the store keeps of a request, and how recorded calls are read again.

pub(crate) mod deleted_responses;
pub(crate) mod delivery;
pub(crate) mod recorded_call;
pub(crate) mod recorded_calls;
pub(crate) mod request_attributes;
pub(crate) mod visible_response;

pub(crate) use fulgurite_store::message_attributes;
