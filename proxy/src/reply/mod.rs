//! An answer on its way: from tokens to a message, to everybody who listens, to the response.

pub(crate) mod answer_token;
pub(crate) mod assistant_message;
pub(crate) mod call_event;
pub(crate) mod event_text;
pub(crate) mod finish_reason;
pub(crate) mod flight;
pub(crate) mod http_response;
pub(crate) mod numbered_calls;
pub(crate) mod reply_writer;
pub(crate) mod response_body;
