//! What the store keeps of a request, and how recorded calls are read again.

pub(crate) mod delivery;
pub(crate) mod recorded_call;
pub(crate) mod request_attributes;

pub(crate) use fulgurite_store::message_attributes;
