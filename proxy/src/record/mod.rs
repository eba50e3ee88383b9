//! What the store keeps of calls, and how it is read again.

pub(crate) mod attribute_names;
pub(crate) mod delivery;
pub(crate) mod record_call;
pub(crate) mod recorded_call;
pub(crate) mod request_attributes;

pub(crate) use fulgurite_store::message_attributes;
