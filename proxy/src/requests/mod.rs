//! Where requests come in: routes, the attempt that a request names, and the reading of bodies.

pub(crate) mod base_url;
pub(crate) mod call_target;
pub(crate) mod caller;
pub(crate) mod exact_json;
pub(crate) mod incoming_request;
pub(crate) mod large_requests;
pub(crate) mod request_body;
pub(crate) mod request_fields;
pub(crate) mod routes;
pub(crate) mod unserved_routes;
