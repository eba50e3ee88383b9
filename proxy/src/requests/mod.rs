//! What a request names and asks for: its caller and attempt, its body within limits, and what it wants in no dialect.

pub(crate) mod call_target;
pub(crate) mod caller;
pub(crate) mod exact_json;
pub(crate) mod google_request;
pub(crate) mod incoming_request;
pub(crate) mod large_requests;
pub(crate) mod left_out;
pub(crate) mod model_request;
pub(crate) mod request_body;
pub(crate) mod structured_output;
